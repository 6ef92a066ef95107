/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rq->cpu_load[]: a CPU's load averaged over ticks, where a higher index means a slower average,
 *
 *	cpu_load[i] = (2^i - 1) / 2^i * cpu_load[i] + 1 / 2^i * load
 *
 * and the two values derived from it that make balancing conservative: for a CPU to pull from, the smaller of the
 * average and the present load; for a CPU to push to, the larger one. (kernel/sched/core.c and fair.c of Linux
 * 3.9.)
 */
#ifndef __EQUIPOISE_CPU_LOAD_H
#define __EQUIPOISE_CPU_LOAD_H

#include "../core/runqueue.bpf.h"

/*
 * An idle CPU has no ticks. For the missed ticks, cpu_load[i] is multiplied by ((2^i - 1) / 2^i)^missed, one bit of
 * `missed` after another: degrade_factor[i][j] is the factor for 2^j ticks, in units of 1/128 and rounded down.
 * From degrade_zero_ticks[i] ticks on, nothing is left.
 */
#define DEGRADE_SHIFT 7
static const u8 degrade_zero_ticks[CPU_LOAD_IDX_MAX] = { 0, 8, 32, 64, 128 };
/* clang-format off */
static const u8 degrade_factor[CPU_LOAD_IDX_MAX][DEGRADE_SHIFT + 1] = {
	{ 0 },
	{ 64, 32, 8 },
	{ 96, 72, 40, 12, 1 },
	{ 112, 98, 75, 43, 15, 1 },
	{ 120, 112, 98, 76, 45, 16, 2 },
};
/* clang-format on */

static __always_inline u64 decay_load_missed(u64 load, u64 missed, u32 idx)
{
	if (missed >= degrade_zero_ticks[idx])
		return 0;
	if (idx == 1)
		return load >> missed;
	for (u32 j = 0; j <= DEGRADE_SHIFT; j++)
		if (missed >> j & 1)
			load = load * degrade_factor[idx][j] >> DEGRADE_SHIFT;
	return load;
}

/* Decays the averages for @pending ticks, of which all except the last were without load. */
static __always_inline void decay_cpu_load(struct fair_rq *rq, u64 load, u64 pending)
{
	rq->cpu_load[0] = load;
	for (u32 i = 1; i < CPU_LOAD_IDX_MAX; i++) {
		u64 old_load = rq->cpu_load[i], new_load = load;
		u64 scale = 1 << i;

		if (pending > 1)
			old_load = decay_load_missed(old_load, pending - 1, i);
		/* Round up while the load grows; otherwise the average would never reach it. */
		if (new_load > old_load)
			new_load += scale - 1;
		rq->cpu_load[i] = (old_load * (scale - 1) + new_load) >> i;
	}
}

/* Updates the averages of @cpu at its tick. */
static __always_inline void update_cpu_load_active(u32 cpu, u64 jiffies)
{
	struct fair_rq *rq = rq_of(cpu);

	rq->last_load_update_tick = jiffies;
	decay_cpu_load(rq, weighted_cpuload(cpu), 1);
}

/* Accounts the missed ticks at the end of an idle period, or before balancing for an idle CPU. */
static __noinline void update_cpu_load_nohz(struct fair_rq *rq, u64 jiffies)
{
	u64 pending = jiffies - rq->last_load_update_tick;

	if (!pending)
		return;
	rq->last_load_update_tick = jiffies;
	decay_cpu_load(rq, 0, pending);
}

/* rq->cpu_load[@idx - 1]; for index 0, the present load @total. */
static __always_inline u64 cpu_load_average(u32 cpu, u32 idx, u64 total)
{
	/* All 64 bits are compared, because the verifier sees all 64 bits as the index. */
	u64 i = idx - 1ULL;

	return i < CPU_LOAD_IDX_MAX - 1 ? rq_of(cpu)->cpu_load[i] : total;
}

/* The load of a CPU to pull tasks from, biased low. */
static __always_inline u64 source_load(u32 cpu, u32 idx)
{
	u64 total = weighted_cpuload(cpu), average = cpu_load_average(cpu, idx, total);

	return average < total ? average : total;
}

/* The load of a CPU to give tasks to, biased high. */
static __always_inline u64 target_load(u32 cpu, u32 idx)
{
	u64 total = weighted_cpuload(cpu), average = cpu_load_average(cpu, idx, total);

	return average > total ? average : total;
}

#endif /* __EQUIPOISE_CPU_LOAD_H */
