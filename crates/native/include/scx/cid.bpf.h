/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs by cid, and masks of cids. A cid numbers a CPU by its place in the topology: the hardware
 * threads of a core have consecutive cids, and so do the cores of a cache and the caches of a node.
 */
#ifndef __SCX_CID_BPF_H
#define __SCX_CID_BPF_H

#define BIT_U64(nr) (1ULL << (nr))
#define GENMASK_U64(h, l) ((~0ULL << (l)) & (~0ULL >> (63 - (h))))

#define flex_array_size(p, member, count) ((count) * sizeof(*(p)->member))
#define struct_size(p, member, count) (sizeof(*(p)) + flex_array_size(p, member, count))
#define struct_size_t(type, member, count) struct_size((type *)NULL, member, count)

/* The number of words for @nr_cids at any alignment. */
#define CMASK_NR_WORDS(nr_cids) ((u32)(((u64)(nr_cids) + 63) / 64 + 1))

static __kfunc(scx_bpf_nr_cids) u32 scx_bpf_nr_cids(void)
{
	return __KERNEL->nr_cpu_ids;
}

static __kfunc(scx_bpf_nr_online_cids) u32 scx_bpf_nr_online_cids(void)
{
	return bpf_cpumask_weight(__kcall(cpumask, EQUIPOISE_ONLINE));
}

static __kfunc(scx_bpf_cid_to_cpu) s32 scx_bpf_cid_to_cpu(s32 cid)
{
	return __kcall(cpu_of_cid, cid);
}

static __kfunc(scx_bpf_cpu_to_cid) s32 scx_bpf_cpu_to_cid(s32 cpu)
{
	return __kcall(cid_of_cpu, cpu);
}

/* scx's library calls this function before the first pick that rotates; here the kernel's own order rotates. */
static inline int cmask_distribute_init(void *map)
{
	(void)map;
	return 0;
}

static __kfunc(scx_bpf_this_cid) s32 scx_bpf_this_cid(void)
{
	return __KERNEL->cpu_to_cid[__KERNEL->cpu];
}

static __kfunc(scx_bpf_task_cid) s32 scx_bpf_task_cid(const struct task_struct *p)
{
	return __KERNEL->cpu_to_cid[p->thread_info.cpu];
}

static __kfunc(scx_bpf_cid_topo) void __equipoise_cid_topo(s32 cid, struct scx_cid_topo *out, size_t size)
{
	struct scx_cid_topo topo;

	__builtin_memset(out, 0xff, size);
	__kcall(cid_topo, cid, &topo);
	__builtin_memcpy(out, &topo, size < sizeof(topo) ? size : sizeof(topo));
}
#define scx_bpf_cid_topo(cid, out, ...) __equipoise_cid_topo(cid, out, sizeof(*(out)))

static __kfunc(scx_bpf_kick_cid) void scx_bpf_kick_cid(s32 cid, u64 flags)
{
	s32 cpu = __kcall(cpu_of_cid, cid);

	if (cpu >= 0)
		__kcall(kick_cpu, cpu, flags);
}

static __kfunc(scx_bpf_cid_curr) struct task_struct *scx_bpf_cid_curr(s32 cid)
{
	s32 cpu = __kcall(cpu_of_cid, cid);

	return cpu < 0 ? NULL : __equipoise_rq(cpu)->curr;
}

static __kfunc(scx_bpf_cidperf_cap) u32 scx_bpf_cidperf_cap(s32 cid)
{
	s32 cpu = __kcall(cpu_of_cid, cid);

	return cpu < 0 ? SCX_CPUPERF_ONE : __kcall(cpuperf, cpu, EQUIPOISE_CPUPERF_CAP);
}

static __kfunc(scx_bpf_cidperf_cur) u32 scx_bpf_cidperf_cur(s32 cid)
{
	s32 cpu = __kcall(cpu_of_cid, cid);

	return cpu < 0 ? SCX_CPUPERF_ONE : __kcall(cpuperf, cpu, EQUIPOISE_CPUPERF_CUR);
}

static __kfunc(scx_bpf_cidperf_set) s32 scx_bpf_cidperf_set(s32 cid, u32 perf)
{
	s32 cpu = __kcall(cpu_of_cid, cid);

	if (cpu < 0)
		return -EINVAL;
	__kcall(cpuperf_set, cpu, perf, false);
	return 0;
}

static inline void scx_bpf_cid_override(const s32 *cpu_to_cid, u32 nr_cpus, const s32 *shard_start, u32 nr_shards)
{
	if (bpf_ksym_exists(scx_bpf_cid_override))
		__kcall(cid_override, cpu_to_cid, nr_cpus, shard_start, nr_shards);
}

/* Masks: a mask contains no cid outside its range. */

static inline bool __cmask_covers(u32 cid, const struct scx_cmask *m)
{
	return cid >= m->base && cid - m->base < m->nr_cids;
}

static inline u32 __cmask_end(const struct scx_cmask *m)
{
	return m->base + m->nr_cids;
}

/* A bit for each cid of word @w that is in the range of @m. */
static inline u64 __cmask_range(const struct scx_cmask *m, u32 w)
{
	u32 from = 64 * w, end = __cmask_end(m);
	u64 range = ~0ULL;

	if (from >= end || from + 64 <= m->base)
		return 0;
	if (from < m->base)
		range &= ~0ULL << (m->base - from);
	if (end - from < 64)
		range &= ~0ULL >> (64 - (end - from));
	return range;
}

static inline u64 *__cmask_word(struct scx_cmask *m, u32 w)
{
	return &m->bits[w - m->base / 64];
}

/* A bit for each cid of word @w that is set in @m. */
static inline u64 __cmask_get(const struct scx_cmask *m, u32 w)
{
	u64 range = __cmask_range(m, w);

	return range ? *__cmask_word((struct scx_cmask *)m, w) & range : 0;
}

static inline void __cmask_init(struct scx_cmask *m, u32 base, u32 nr_cids, u32 alloc_cids)
{
	if (nr_cids > alloc_cids) {
		scx_bpf_error("__cmask_init: nr_cids=%u exceeds alloc_cids=%u", nr_cids, alloc_cids);
		return;
	}
	m->base = base;
	m->nr_cids = nr_cids;
	m->alloc_words = CMASK_NR_WORDS(alloc_cids);
	for (u32 i = 0; i < m->alloc_words; i++)
		m->bits[i] = 0;
}

static inline void cmask_init(struct scx_cmask *m, u32 base, u32 nr_cids)
{
	__cmask_init(m, base, nr_cids, nr_cids);
}

static inline void cmask_zero(struct scx_cmask *m)
{
	for (u32 i = 0; i < CMASK_NR_WORDS(m->nr_cids) && i < m->alloc_words; i++)
		m->bits[i] = 0;
}

/* Linux leaves the bits of the new range undefined; here they are clear. */
static inline void cmask_reframe(struct scx_cmask *m, u32 base, u32 nr_cids)
{
	if (CMASK_NR_WORDS(nr_cids) > m->alloc_words) {
		scx_bpf_error("cmask_reframe: nr_cids=%u exceeds alloc_words=%u", nr_cids, m->alloc_words);
		return;
	}
	m->base = base;
	m->nr_cids = nr_cids;
	cmask_zero(m);
}

static inline bool cmask_test(u32 cid, const struct scx_cmask *m)
{
	return __cmask_get(m, cid / 64) & BIT_U64(cid % 64);
}

static inline bool cmask_test_and_set(u32 cid, struct scx_cmask *m)
{
	bool was = cmask_test(cid, m);

	if (__cmask_covers(cid, m))
		*__cmask_word(m, cid / 64) |= BIT_U64(cid % 64);
	return was;
}

static inline bool cmask_test_and_clear(u32 cid, struct scx_cmask *m)
{
	bool was = cmask_test(cid, m);

	if (was)
		*__cmask_word(m, cid / 64) &= ~BIT_U64(cid % 64);
	return was;
}

static inline void cmask_set(u32 cid, struct scx_cmask *m)
{
	cmask_test_and_set(cid, m);
}

static inline void cmask_clear(u32 cid, struct scx_cmask *m)
{
	cmask_test_and_clear(cid, m);
}

/* In the simulation only one callback runs at a time, so these operations need no atomic instructions. */
#define __cmask_set(cid, m) cmask_set(cid, m)
#define __cmask_clear(cid, m) cmask_clear(cid, m)
#define __cmask_test_and_set(cid, m) cmask_test_and_set(cid, m)
#define __cmask_test_and_clear(cid, m) cmask_test_and_clear(cid, m)

/* Assigns @value, an expression of the words `d` and `s`, to the part of @dst that is also in the range of @src. */
#define __cmask_combine(dst, src, value)                                                       \
	for (u32 w = (dst)->base / 64; w <= (__cmask_end(dst) - !!(dst)->nr_cids) / 64; w++) { \
		u64 both = __cmask_range(dst, w) & __cmask_range(src, w);                      \
		u64 d = __cmask_get(dst, w), s = __cmask_get(src, w);                          \
		if (both)                                                                      \
			*__cmask_word(dst, w) = (d & ~both) | ((value) & both);                \
	}

static inline void cmask_and(struct scx_cmask *dst, const struct scx_cmask *src)
{
	__cmask_combine(dst, src, d & s);
}

static inline void cmask_or(struct scx_cmask *dst, const struct scx_cmask *src)
{
	__cmask_combine(dst, src, d | s);
}

static inline void cmask_copy(struct scx_cmask *dst, const struct scx_cmask *src)
{
	__cmask_combine(dst, src, ((void)d, s));
}

static inline void cmask_andnot(struct scx_cmask *dst, const struct scx_cmask *src)
{
	__cmask_combine(dst, src, d & ~s);
}

/* The first cid from @start on that is set in @a, @b and @c (which may be NULL), or the end of @a. */
static inline u32 __cmask_next(const struct scx_cmask *a, const struct scx_cmask *b, const struct scx_cmask *c,
			       u32 start)
{
	u32 end = __cmask_end(a);

	if (start < a->base)
		start = a->base;
	for (u32 w = start / 64; 64 * w < end; w++) {
		u64 word = __cmask_get(a, w);

		if (b)
			word &= __cmask_get(b, w);
		if (c)
			word &= __cmask_get(c, w);
		if (w == start / 64)
			word &= ~0ULL << (start % 64);
		if (word)
			return 64 * w + __builtin_ctzll(word);
	}
	return end;
}

/* Like __cmask_next(), but wraps around to the beginning of @a. */
static inline u32 __cmask_next_wrap(const struct scx_cmask *a, const struct scx_cmask *b, const struct scx_cmask *c,
				    u32 start)
{
	u32 end = __cmask_end(a), found = __cmask_next(a, b, c, start);

	return found < end ? found : __cmask_next(a, b, c, a->base);
}

#define cmask_next_set(m, cid) __cmask_next(m, NULL, NULL, cid)
#define cmask_next_and_set(a, b, start) __cmask_next(a, b, NULL, start)
#define cmask_next_and2_set(a, b, c, start) __cmask_next(a, b, c, start)
#define cmask_next_set_wrap(m, start) __cmask_next_wrap(m, NULL, NULL, start)
#define cmask_next_and_set_wrap(a, b, start) __cmask_next_wrap(a, b, NULL, start)
#define cmask_next_and2_set_wrap(a, b, c, start) __cmask_next_wrap(a, b, c, start)
#define cmask_first_set(m) __cmask_next(m, NULL, NULL, 0)
#define cmask_for_each(cid, m) \
	for ((cid) = cmask_first_set(m); (cid) < __cmask_end(m); (cid) = cmask_next_set(m, (cid) + 1))

static inline u32 cmask_weight(const struct scx_cmask *m)
{
	u32 weight = 0;

	for (u32 w = m->base / 64; 64 * w < __cmask_end(m); w++)
		weight += __builtin_popcountll(__cmask_get(m, w));
	return weight;
}

static inline bool cmask_intersects(const struct scx_cmask *a, const struct scx_cmask *b)
{
	return __cmask_next(a, b, NULL, 0) < __cmask_end(a);
}

static inline bool cmask_subset(const struct scx_cmask *a, const struct scx_cmask *b)
{
	for (u32 w = a->base / 64; 64 * w < __cmask_end(a); w++)
		if (__cmask_get(a, w) & ~__cmask_get(b, w))
			return false;
	return true;
}

static inline bool cmask_equal(const struct scx_cmask *a, const struct scx_cmask *b)
{
	return a->base == b->base && a->nr_cids == b->nr_cids && cmask_subset(a, b) && cmask_subset(b, a);
}

static inline void cmask_from_cpumask(struct scx_cmask *m, const struct cpumask *cpumask)
{
	cmask_zero(m);
	for (u32 cpu = 0; cpu < __KERNEL->nr_cpu_ids; cpu++)
		if (bpf_cpumask_test_cpu(cpu, cpumask))
			cmask_set(__KERNEL->cpu_to_cid[cpu], m);
}

/*
 * Sub-schedulers: a control group's scheduler may use the CPUs that its parent grants. Here there is only the
 * root's scheduler, which may use all CPUs.
 */

static inline bool scx_bpf_sub_dispatch(u64 cgroup_id)
{
	(void)cgroup_id;
	return bpf_ksym_exists(scx_bpf_sub_dispatch) && __kcall(sub_dispatch);
}

static __kfunc(scx_bpf_sub_caps) s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask *out)
{
	if (cgroup_id)
		return -ENODEV;
	(void)caps;
	for (u32 cid = 0; cid < __KERNEL->nr_cpu_ids; cid++)
		cmask_set(cid, out);
	return 0;
}

static __kfunc(scx_bpf_sub_grant) s32
	scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask, struct scx_cmask *denied)
{
	(void)cgroup_id, (void)caps, (void)cmask, (void)denied;
	return -ENODEV;
}

static __kfunc(scx_bpf_sub_revoke) void scx_bpf_sub_revoke(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask)
{
	(void)cgroup_id, (void)caps, (void)cmask;
}

#define scx_bpf_sub_kill(cgid, fmt, args...) \
	((void)(cgid), bpf_ksym_exists(scx_bpf_sub_kill_bstr) ? -ENODEV : -EOPNOTSUPP)

#endif /* __SCX_CID_BPF_H */
