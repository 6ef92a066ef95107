/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rq->cpu_load[]: a CPU's load averaged over ticks, the slower the higher the index,
 *
 *	cpu_load[i] = (2^i - 1) / 2^i * cpu_load[i] + 1 / 2^i * load
 *
 * and the two readings of it that make balancing conservative: a CPU to pull from appears as light,
 * and one to push to as heavy, as either the average or the present allows. (kernel/sched/core.c
 * and fair.c of Linux 3.9.)
 */
#ifndef __EQUIPOISE_CPU_LOAD_H
#define __EQUIPOISE_CPU_LOAD_H

#include "../core/runqueue.bpf.h"

/*
 * An idle CPU has no ticks. For the missed ones, cpu_load[i] is multiplied by ((2^i - 1) /
 * 2^i)^missed, bit by bit of `missed`: degrade_factor[i][j] is the factor for 2^j ticks, in units
 * of 1/128 and rounded down. From degrade_zero_ticks[i] ticks on, nothing is left.
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

/* @pending ticks have passed, all but the last of them without load. */
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

/* The tick. */
static __always_inline void update_cpu_load_active(u32 cpu, u64 jiffies)
{
	struct fair_rq *rq = rq_of(cpu);

	rq->last_load_update_tick = jiffies;
	decay_cpu_load(rq, weighted_cpuload(cpu), 1);
}

/* The end of an idle period, or balancing for an idle CPU: accounts the missed ticks. */
static __noinline void update_cpu_load_nohz(struct fair_rq *rq, u64 jiffies)
{
	u64 pending = jiffies - rq->last_load_update_tick;

	if (!pending)
		return;
	rq->last_load_update_tick = jiffies;
	decay_cpu_load(rq, 0, pending);
}

/* rq->cpu_load[@idx - 1]; index 0 is the present, @total. */
static __always_inline u64 cpu_load_average(u32 cpu, u32 idx, u64 total)
{
	/* All 64 bits are compared, as all 64 index. */
	u64 i = idx - 1ULL;

	return i < CPU_LOAD_IDX_MAX - 1 ? rq_of(cpu)->cpu_load[i] : total;
}

/* The load of a CPU to pull tasks from: biased low. */
static __always_inline u64 source_load(u32 cpu, u32 idx)
{
	u64 total = weighted_cpuload(cpu), average = cpu_load_average(cpu, idx, total);

	return average < total ? average : total;
}

/* The load of a CPU to give tasks to: biased high. */
static __always_inline u64 target_load(u32 cpu, u32 idx)
{
	u64 total = weighted_cpuload(cpu), average = cpu_load_average(cpu, idx, total);

	return average > total ? average : total;
}

#endif /* __EQUIPOISE_CPU_LOAD_H */
