/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sched_ext API for the simulated kernel: kfuncs, and the macros that schedulers are written with. __kfunc()
 * marks kfuncs that not all kernels have; crates/native/src/kernels.rs lists their versions. compat.bpf.h has the
 * functions that work in all kernels.
 */
#ifndef __SCX_COMMON_BPF_H
#define __SCX_COMMON_BPF_H

#include "vmlinux.h"
#include <asm-generic/errno.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "user_exit_info.h"

#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_WQ_WORKER 0x00000020
#define PF_KCOMPACTD 0x00010000
#define PF_KSWAPD 0x00020000
#define PF_KTHREAD 0x00200000

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define __maybe_unused __attribute__((unused))

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, val) (*(volatile typeof(x) *)&(x) = (val))

/* Programs and ops. A sleepable program is no different, because nothing sleeps. */
#define BPF_STRUCT_OPS(name, args...) BPF_PROG(name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) BPF_PROG(name, ##args)

/* A loader resizes such an array to the number of CPUs; here it has room for the largest machine. */
#define RESIZABLE_ARRAY(elfsec, arr) arr[EQUIPOISE_MAX_CPUS]

#ifndef NR_CPUS
#define NR_CPUS EQUIPOISE_MAX_CPUS
#endif
#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif

/* Hides a value from the compiler. */
#define __sink(expr) asm volatile("" : "+g"(expr))

#define MEMBER_VPTR(base, member)                                   \
	({                                                          \
		typeof((base)member) *___m = &((base)member);       \
		u64 ___o = (u64)___m - (u64) & (base);              \
		___o <= sizeof(base) - sizeof(*___m) ? ___m : NULL; \
	})
#define ARRAY_ELEM_PTR(arr, i, n)                      \
	({                                             \
		u64 ___i = (i);                        \
		___i < (u64)(n) ? &(arr)[___i] : NULL; \
	})

#define __contains(name, node)
#define private(name) __hidden __attribute__((aligned(8)))

/* Within bpf_for_each(scx_dsq, ...): the iterator, for scx_bpf_dispatch_from_dsq() and friends. */
#define BPF_FOR_EACH_ITER (&___it)

/* Reporting */

#define __scx_message(call, fmt, args...)                                \
	({                                                               \
		char ___msg[SCX_EXIT_MSG_LEN];                           \
		__builtin_snprintf(___msg, sizeof(___msg), fmt, ##args); \
		call;                                                    \
	})
#define scx_bpf_exit(code, fmt, args...) __scx_message(__kcall(exit, code, ___msg), fmt, ##args)
#define scx_bpf_error(fmt, args...) __scx_message(__kcall(error, ___msg), fmt, ##args)
#define scx_bpf_dump_header() ((void)0)
#define scx_bpf_dump(fmt, args...) __scx_message(__kcall(dump, ___msg), fmt, ##args)

/* Dispatch queues */

static inline s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)
{
	return __kcall(create_dsq, dsq_id, node);
}

static inline void scx_bpf_destroy_dsq(u64 dsq_id)
{
	__kcall(destroy_dsq, dsq_id);
}

static inline s32 scx_bpf_dsq_nr_queued(u64 dsq_id)
{
	return __kcall(dsq_nr_queued, dsq_id);
}

static __kfunc(scx_bpf_dispatch) void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	__kcall(dispatch, p, dsq_id, slice, enq_flags);
}

static __kfunc(scx_bpf_dispatch_vtime) void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice,
								   u64 vtime, u64 enq_flags)
{
	__kcall(dispatch_vtime, p, dsq_id, slice, vtime, enq_flags);
}

static inline u32 scx_bpf_dispatch_nr_slots(void)
{
	return __kcall(dispatch_nr_slots);
}

static inline void scx_bpf_dispatch_cancel(void)
{
	__kcall(dispatch_cancel);
}

static __kfunc(scx_bpf_consume) bool scx_bpf_consume(u64 dsq_id)
{
	return __kcall(consume, dsq_id, 0);
}

/* The flags of bpf_iter_scx_dsq.flags that a slice or a vtime was set; private to the kernel. [abi] */
#define EQUIPOISE_ITER_HAS_SLICE (1ULL << 30)
#define EQUIPOISE_ITER_HAS_VTIME (1ULL << 31)
/* The enq_flags bit that asks dispatch_from_dsq for vtime order. [abi] */
#define EQUIPOISE_ENQ_VTIME SCX_ENQ_DSQ_PRIQ

static __kfunc(scx_bpf_dispatch_from_dsq_set_slice) void scx_bpf_dispatch_from_dsq_set_slice(
	struct bpf_iter_scx_dsq *it, u64 slice)
{
	it->slice = slice;
	it->flags |= EQUIPOISE_ITER_HAS_SLICE;
}

static __kfunc(scx_bpf_dispatch_from_dsq_set_vtime) void scx_bpf_dispatch_from_dsq_set_vtime(
	struct bpf_iter_scx_dsq *it, u64 vtime)
{
	it->vtime = vtime;
	it->flags |= EQUIPOISE_ITER_HAS_VTIME;
}

static __kfunc(scx_bpf_dispatch_from_dsq) bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it,
									 struct task_struct *p, u64 dsq_id,
									 u64 enq_flags)
{
	return __kcall(dispatch_from_dsq, it, p, dsq_id, enq_flags);
}

static __kfunc(scx_bpf_dispatch_vtime_from_dsq) bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it,
										     struct task_struct *p,
										     u64 dsq_id, u64 enq_flags)
{
	return __kcall(dispatch_from_dsq, it, p, dsq_id, enq_flags | EQUIPOISE_ENQ_VTIME);
}

static __kfunc(scx_bpf_dsq_peek) struct task_struct *scx_bpf_dsq_peek(u64 dsq_id)
{
	return __kcall(dsq_peek, dsq_id);
}

static inline int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags)
{
	return __kcall(iter_dsq_new, it, dsq_id, flags);
}

static inline struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it)
{
	return __kcall(iter_dsq_next, it);
}

static inline void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it)
{
	__kcall(iter_dsq_destroy, it);
}

/* CPUs */

/* A cid-form scheduler may not call kfuncs that take a CPU number, as it could pass a cid by mistake. */
static __always_inline void __equipoise_cpu_only(const char *kfunc)
{
	if (__builtin_expect(__KERNEL->cid_form, 0))
		__kcall(cpu_only, kfunc);
}

static inline s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	__equipoise_cpu_only("scx_bpf_select_cpu_dfl");
	return __kcall(select_cpu_dfl, p, prev_cpu, wake_flags, is_idle);
}

static inline void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	__equipoise_cpu_only("scx_bpf_kick_cpu");
	__kcall(kick_cpu, cpu, flags);
}

static inline u32 scx_bpf_nr_cpu_ids(void)
{
	return __KERNEL->nr_cpu_ids;
}

static inline u32 scx_bpf_cpuperf_cap(s32 cpu)
{
	return __kcall(cpuperf, cpu, EQUIPOISE_CPUPERF_CAP);
}

static inline u32 scx_bpf_cpuperf_cur(s32 cpu)
{
	return __kcall(cpuperf, cpu, EQUIPOISE_CPUPERF_CUR);
}

/*
 * While a runqueue is locked, as in most ops, Linux 7.3 refuses a request for another CPU. In Linux, the loader
 * makes Equipoise's own schedulers, which are compiled for all kernels, observe this rule
 * (scheduler/signals/frequency.bpf.h).
 */
static inline void scx_bpf_cpuperf_set(s32 cpu, u32 perf)
{
	__kcall(cpuperf_set, cpu, perf, !EQUIPOISE_COMPILED_FOR);
}

static inline const struct cpumask *scx_bpf_get_possible_cpumask(void)
{
	return __equipoise_take(__kcall(cpumask, EQUIPOISE_POSSIBLE));
}

static inline const struct cpumask *scx_bpf_get_online_cpumask(void)
{
	return __equipoise_take(__kcall(cpumask, EQUIPOISE_ONLINE));
}

static inline void scx_bpf_put_cpumask(const struct cpumask *mask)
{
	__equipoise_give(mask);
}

static inline const struct cpumask *scx_bpf_get_idle_cpumask(void)
{
	return __equipoise_take(__kcall(cpumask, EQUIPOISE_IDLE));
}

static inline const struct cpumask *scx_bpf_get_idle_smtmask(void)
{
	return __equipoise_take(__kcall(cpumask, EQUIPOISE_IDLE_SMT));
}

static inline void scx_bpf_put_idle_cpumask(const struct cpumask *mask)
{
	__equipoise_give(mask);
}

static inline bool scx_bpf_test_and_clear_cpu_idle(s32 cpu)
{
	return __kcall(test_and_clear_cpu_idle, cpu);
}

static inline s32 scx_bpf_pick_idle_cpu(const cpumask_t *allowed, u64 flags)
{
	return __kcall(pick_cpu, allowed, flags, true);
}

static inline s32 scx_bpf_pick_any_cpu(const cpumask_t *allowed, u64 flags)
{
	return __kcall(pick_cpu, allowed, flags, false);
}

static __kfunc(scx_bpf_cpu_rq) struct rq *scx_bpf_cpu_rq(s32 cpu)
{
	return __equipoise_rq(cpu);
}

static __kfunc(scx_bpf_locked_rq) struct rq *scx_bpf_locked_rq(void)
{
	return __kcall(locked_rq);
}

static __kfunc(scx_bpf_cpu_curr) struct task_struct *scx_bpf_cpu_curr(s32 cpu)
{
	struct rq *rq;

	__equipoise_cpu_only("scx_bpf_cpu_curr");
	rq = __equipoise_rq(cpu);
	if (!rq)
		__kcall(cid_of_cpu, cpu); /* reports what is wrong with it */
	return rq ? rq->curr : NULL;
}

/* NUMA nodes, and their idle masks. */

static __kfunc(scx_bpf_nr_node_ids) u32 scx_bpf_nr_node_ids(void)
{
	return __KERNEL->nr_node_ids;
}

static __kfunc(scx_bpf_cpu_node) int scx_bpf_cpu_node(s32 cpu)
{
	return __kcall(cpu_node, cpu);
}

static __kfunc(scx_bpf_get_idle_cpumask_node) const struct cpumask *scx_bpf_get_idle_cpumask_node(int node)
{
	return __equipoise_take(__kcall(node_cpumask, node, false));
}

static __kfunc(scx_bpf_get_idle_smtmask_node) const struct cpumask *scx_bpf_get_idle_smtmask_node(int node)
{
	return __equipoise_take(__kcall(node_cpumask, node, true));
}

static __kfunc(scx_bpf_pick_idle_cpu_node) s32
	scx_bpf_pick_idle_cpu_node(const cpumask_t *allowed, int node, u64 flags)
{
	return __kcall(pick_cpu_node, allowed, node, flags, true);
}

static __kfunc(scx_bpf_pick_any_cpu_node) s32
	scx_bpf_pick_any_cpu_node(const cpumask_t *allowed, int node, u64 flags)
{
	return __kcall(pick_cpu_node, allowed, node, flags, false);
}

static __kfunc(scx_bpf_events) void scx_bpf_events(struct scx_event_stats *events, size_t size)
{
	struct scx_event_stats all;

	__kcall(events, &all);
	__builtin_memcpy(events, &all, size < sizeof(all) ? size : sizeof(all));
}
#define scx_read_event(e, name) (bpf_core_field_exists((e)->name) ? (e)->name : 0)

/* Iterators for for_each_possible_cpu() and for_each_online_cpu(). */
static inline int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *words, u32 nr_words)
{
	*it = (struct bpf_iter_bits){ .words = words, .nr_bits = 64 * nr_words, .bit = -1 };
	return 0;
}

static inline int *bpf_iter_bits_next(struct bpf_iter_bits *it)
{
	while (++it->bit < (int)it->nr_bits)
		if (it->words[it->bit / 64] >> (it->bit % 64) & 1)
			return &it->bit;
	return NULL;
}

static inline void bpf_iter_bits_destroy(struct bpf_iter_bits *it)
{
	(void)it;
}

#define __equipoise_iter_cpus(name)                                                                      \
	struct bpf_iter_##name {                                                                         \
		struct bpf_iter_bits it;                                                                 \
		const struct cpumask *mask;                                                              \
	};                                                                                               \
	static inline int bpf_iter_##name##_new(struct bpf_iter_##name *it, const u64 *unused, u32 none) \
	{                                                                                                \
		(void)unused, (void)none;                                                                \
		it->mask = scx_bpf_get_##name##_cpumask();                                               \
		return bpf_iter_bits_new(&it->it, (const u64 *)it->mask, sizeof(*it->mask) / 8);         \
	}                                                                                                \
	static inline int *bpf_iter_##name##_next(struct bpf_iter_##name *it)                            \
	{                                                                                                \
		return bpf_iter_bits_next(&it->it);                                                      \
	}                                                                                                \
	static inline void bpf_iter_##name##_destroy(struct bpf_iter_##name *it)                         \
	{                                                                                                \
		scx_bpf_put_cpumask(it->mask);                                                           \
	}
__equipoise_iter_cpus(possible) __equipoise_iter_cpus(online)
#define for_each_possible_cpu(cpu) bpf_for_each(possible, cpu, NULL, 0)
#define for_each_online_cpu(cpu) bpf_for_each(online, cpu, NULL, 0)

	/* Tasks */

	static __always_inline s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return p->thread_info.cpu;
}

static inline bool scx_bpf_task_running(const struct task_struct *p)
{
	return __KERNEL->rqs[p->thread_info.cpu].curr == p;
}

static inline struct task_struct *bpf_task_from_pid(s32 pid)
{
	return __equipoise_take(__kcall(task_from_pid, pid));
}

static __kfunc(scx_bpf_tid_to_task) struct task_struct *scx_bpf_tid_to_task(u64 tid)
{
	return __kcall(tid_to_task, tid);
}

static inline struct task_struct *bpf_task_acquire(struct task_struct *p)
{
	return __equipoise_take(p);
}

static inline void bpf_task_release(struct task_struct *p)
{
	__equipoise_give(p);
}

static inline bool is_migration_disabled(const struct task_struct *p)
{
	return p->migration_disabled;
}

static inline struct cgroup *scx_bpf_task_cgroup(struct task_struct *p)
{
	return __equipoise_take(__kcall(task_cgroup, p));
}

static inline struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level)
{
	struct cgroup *above = level < 0 || level > cgrp->level ? NULL : cgrp;

	while (above && above->level > level)
		above = above->self.parent->cgroup;
	return __equipoise_take(above);
}

static inline struct cgroup *bpf_cgroup_acquire(struct cgroup *cgrp)
{
	return __equipoise_take(cgrp);
}

static inline void bpf_cgroup_release(struct cgroup *cgrp)
{
	__equipoise_give(cgrp);
}

static inline struct cgroup *bpf_cgroup_from_id(u64 id)
{
	return __equipoise_take(__kcall(cgroup, id));
}

static inline int bpf_iter_css_new(struct bpf_iter_css *it, struct cgroup_subsys_state *start, u32 flags)
{
	*it = (struct bpf_iter_css){ .start = start, .flags = flags };
	return 0;
}

static inline struct cgroup_subsys_state *__equipoise_leftmost(struct cgroup_subsys_state *css)
{
	while (css->equipoise_child)
		css = css->equipoise_child;
	return css;
}

/*
 * The first css after @last in the order of @it. The simulated kernel has only one controller, to which every css
 * belongs.
 */
static inline struct cgroup_subsys_state *__equipoise_css_after(struct bpf_iter_css *it)
{
	struct cgroup_subsys_state *start = it->start, *last = it->last;

	switch (it->flags) {
	case BPF_CGROUP_ITER_DESCENDANTS_PRE:
		if (!last)
			return start;
		if (last->equipoise_child)
			return last->equipoise_child;
		while (last != start && !last->equipoise_sibling)
			last = last->parent;
		return last == start ? NULL : last->equipoise_sibling;
	case BPF_CGROUP_ITER_DESCENDANTS_POST:
		if (!last)
			return __equipoise_leftmost(start);
		if (last == start)
			return NULL;
		return last->equipoise_sibling ? __equipoise_leftmost(last->equipoise_sibling) : last->parent;
	case BPF_CGROUP_ITER_ANCESTORS_UP:
		return last ? last->parent : start;
	default:
		return last ? NULL : start;
	}
}

static inline struct cgroup_subsys_state *bpf_iter_css_next(struct bpf_iter_css *it)
{
	if (it->ended)
		return NULL;
	it->last = __equipoise_css_after(it);
	it->ended = !it->last;
	return it->last;
}

static inline void bpf_iter_css_destroy(struct bpf_iter_css *it)
{
	(void)it;
}

static inline void bpf_rcu_read_lock(void)
{
	__KERNEL->locks++;
}

static inline void bpf_rcu_read_unlock(void)
{
	__KERNEL->locks--;
}

static inline u32 log2_u32(u32 v)
{
	return v ? 31 - __builtin_clz(v) : 0;
}

/* The logarithm plus one, as in the kernel's header. */
static inline u32 log2_u64(u64 v)
{
	return v >> 32 ? 64 - (u32)__builtin_clzll(v) : log2_u32(v) + 1;
}

/* The square root, rounded down. */
static inline u64 __sqrt_u64(u64 x)
{
	u64 root = 0;

	for (u64 bit = 1ULL << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= x)
			root |= bit;
	return root;
}

/* The number of zeroes below the lowest bit that is set; 64 for 0. */
static inline int ctzll(u64 v)
{
	return v ? __builtin_ctzll(v) : 64;
}

/* An average that moves by 1 / 2^@decay of the difference. */
#define __calc_avg(old, new, decay)                                \
	({                                                         \
		typeof((decay) + 0) ___decay = 1 << (decay);       \
		((old) - ((old) / ___decay)) + ((new) / ___decay); \
	})

extern struct rq runqueues;

/*
 * The clocks of a CPU's runqueue. The time of interrupts is what clock_task excludes, which is 0 on a machine that
 * does not account it. The time of a hypervisor reads as 0.
 */
static inline u64 scx_clock_task(u32 cpu)
{
	struct rq *rq = __equipoise_rq(cpu);

	return rq ? rq->clock_task : 0;
}

static inline u64 scx_clock_pelt(u32 cpu)
{
	return scx_clock_task(cpu);
}

static inline u64 scx_clock_virt(u32 cpu)
{
	(void)cpu;
	return 0;
}

static inline u64 scx_clock_irq(u32 cpu)
{
	struct rq *rq = __equipoise_rq(cpu);

	return rq ? rq->clock - rq->clock_task : 0;
}

static inline u64 get_prandom_u64(void)
{
	return (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

#include "cpumask.bpf.h"
#include "object.bpf.h"
#include "bpf_arena_common.bpf.h"
#include "cid.bpf.h"
#include "time.bpf.h"
#include "compat.bpf.h"

#endif /* __SCX_COMMON_BPF_H */
