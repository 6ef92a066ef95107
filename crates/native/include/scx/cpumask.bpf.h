/* SPDX-License-Identifier: GPL-2.0-only */
/* The bpf_cpumask kfuncs (kernel/bpf/cpumask.c). */
#ifndef __SCX_CPUMASK_BPF_H
#define __SCX_CPUMASK_BPF_H

#define __EQUIPOISE_WORDS (EQUIPOISE_MAX_CPUS / 64)

static inline const struct cpumask *cast_mask(struct bpf_cpumask *mask)
{
	return (const struct cpumask *)mask;
}

static inline struct bpf_cpumask *bpf_cpumask_create(void)
{
	struct bpf_cpumask *mask = __equipoise_alloc(sizeof(*mask));

	if (mask)
		mask->usage = 1;
	return mask;
}

static inline struct bpf_cpumask *bpf_cpumask_acquire(struct bpf_cpumask *mask)
{
	mask->usage++;
	return __equipoise_take(mask);
}

static inline void bpf_cpumask_release(struct bpf_cpumask *mask)
{
	__equipoise_give(mask);
	if (--mask->usage <= 0)
		__kcall(free, mask);
}

static inline bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < EQUIPOISE_MAX_CPUS && (mask->bits[cpu / 64] >> (cpu % 64) & 1);
}

static inline void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < EQUIPOISE_MAX_CPUS)
		mask->cpumask.bits[cpu / 64] |= 1UL << (cpu % 64);
}

static inline void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	if (cpu < EQUIPOISE_MAX_CPUS)
		mask->cpumask.bits[cpu / 64] &= ~(1UL << (cpu % 64));
}

static inline bool bpf_cpumask_test_and_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_set_cpu(cpu, mask);
	return was;
}

static inline bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	bool was = bpf_cpumask_test_cpu(cpu, &mask->cpumask);

	bpf_cpumask_clear_cpu(cpu, mask);
	return was;
}

/* Word @i of the possible CPUs. Bits at and above nr_cpu_ids are never set. */
static inline unsigned long __equipoise_possible_word(u32 i)
{
	u32 nr = __KERNEL->nr_cpu_ids;

	if (nr >= (i + 1) * 64)
		return ~0UL;
	return nr <= i * 64 ? 0 : ~0UL >> (64 - nr % 64);
}

static inline void bpf_cpumask_setall(struct bpf_cpumask *mask)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		mask->cpumask.bits[i] = __equipoise_possible_word(i);
}

static inline void bpf_cpumask_clear(struct bpf_cpumask *mask)
{
	mask->cpumask = (struct cpumask){};
}

static inline void bpf_cpumask_copy(struct bpf_cpumask *dst, const struct cpumask *src)
{
	dst->cpumask = *src;
}

static inline bool bpf_cpumask_empty(const struct cpumask *mask)
{
	unsigned long any = 0;

	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		any |= mask->bits[i];
	return !any;
}

static inline bool bpf_cpumask_full(const struct cpumask *mask)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		if (~mask->bits[i] & __equipoise_possible_word(i))
			return false;
	return true;
}

static inline bool bpf_cpumask_and(struct bpf_cpumask *dst, const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		dst->cpumask.bits[i] = a->bits[i] & b->bits[i];
	return !bpf_cpumask_empty(&dst->cpumask);
}

static inline void bpf_cpumask_or(struct bpf_cpumask *dst, const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		dst->cpumask.bits[i] = a->bits[i] | b->bits[i];
}

static inline void bpf_cpumask_xor(struct bpf_cpumask *dst, const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		dst->cpumask.bits[i] = a->bits[i] ^ b->bits[i];
}

static inline bool bpf_cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	return !__builtin_memcmp(a, b, sizeof(*a));
}

static inline bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		if (a->bits[i] & b->bits[i])
			return true;
	return false;
}

static inline bool bpf_cpumask_subset(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		if (a->bits[i] & ~b->bits[i])
			return false;
	return true;
}

static inline u32 bpf_cpumask_weight(const struct cpumask *mask)
{
	u32 weight = 0;

	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		weight += __builtin_popcountl(mask->bits[i]);
	return weight;
}

static inline u32 bpf_cpumask_first(const struct cpumask *mask)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		if (mask->bits[i])
			return i * 64 + __builtin_ctzl(mask->bits[i]);
	return __KERNEL->nr_cpu_ids;
}

static inline u32 bpf_cpumask_first_zero(const struct cpumask *mask)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++) {
		unsigned long zero = ~mask->bits[i] & __equipoise_possible_word(i);

		if (zero)
			return i * 64 + __builtin_ctzl(zero);
	}
	return __KERNEL->nr_cpu_ids;
}

static inline u32 bpf_cpumask_first_and(const struct cpumask *a, const struct cpumask *b)
{
	for (u32 i = 0; i < __EQUIPOISE_WORDS; i++)
		if (a->bits[i] & b->bits[i])
			return i * 64 + __builtin_ctzl(a->bits[i] & b->bits[i]);
	return __KERNEL->nr_cpu_ids;
}

static inline u32 bpf_cpumask_any_distribute(const struct cpumask *mask)
{
	return __kcall(any_distribute, mask, mask);
}

static inline u32 bpf_cpumask_any_and_distribute(const struct cpumask *a, const struct cpumask *b)
{
	return __kcall(any_distribute, a, b);
}

#endif /* __SCX_CPUMASK_BPF_H */
