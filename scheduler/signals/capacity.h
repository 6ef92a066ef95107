/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The capacity that is left for fair tasks (cpu_power, cpu_capacity), on which balancing and placement rely: a
 * CPU's full capacity, less the recent use by other classes and interrupts. policy.scale_rt_capacity selects the
 * measure:
 *
 *	rt_avg, in steps of half a second, until Linux 4.18
 *	the utilization of these classes, after
 *		[PATCH 09/11] sched: use pelt for scale_rt_capacity(), Vincent Guittot, 2018-06-28
 *
 * A group has the sum over its CPUs, which is updated each time that its level is balanced (update_group_power()).
 */
#ifndef __EQUIPOISE_CAPACITY_H
#define __EQUIPOISE_CAPACITY_H

#include "pressure.h"

/*
 * The part of @cpu's capacity that other classes and interrupts leave, relative to 1024. Utilization is relative to
 * the largest CPU, and that of tasks is relative to the time without interrupts. So fair tasks have
 *
 *	max - irq
 *	--------- (max - rt - dl)
 *	   max
 *
 * where max is the capacity that a limit of the CPU's frequency leaves.
 */
static __always_inline u64 scale_rt_capacity(u32 cpu)
{
	u64 used, irq, max, scale;

	if (policy.scale_rt_capacity == RT_CAPACITY_AVG)
		return rt_avg_leaves(rt_avg_of(cpu), cpu_util_of(cpu)->updated_at);
	scale = cpu_scale(cpu);
	max = actual_cpu_capacity(cpu, scale);
	irq = cpu_util_irq(cpu);
	used = cpu_util(cpu, UTIL_RT) + cpu_util(cpu, UTIL_DL);
	return irq >= max || used >= max ? 0 : (max - used) * (max - irq) / max * SCHED_POWER_SCALE / scale;
}

static __always_inline void update_cpu_power(u32 cpu, u64 now)
{
	struct cpu_levels *levels = levels_of(cpu);
	u64 power;

	update_cpu_util(cpu, now);
	power = levels->power_orig * scale_rt_capacity(cpu) / SCHED_POWER_SCALE;
	/* The power must not be 0, because it is a divisor. */
	levels->power = power ? power : 1;
}

/* Updates @cpu's own group in its domain at @level, which it balances every @balance_interval ms. */
static __always_inline void update_group_power(u32 cpu, u32 level, u32 balance_interval, u64 now)
{
	struct group *sg = group_at(local_group_of(cpu, level));
	u64 interval = msecs_to_jiffies(balance_interval), longest, power = 0;
	struct domain *child;
	int i;

	/* max_load_balance_interval: a tenth of a second for each CPU. */
	longest = jiffies_per_sec() * nr_cpus() / 10;
	if (interval > longest)
		interval = longest;
	sg->next_update = jiffies_at(now) + (interval ? interval : 1);
	if (!level) {
		update_cpu_power(cpu, now);
		sg->power = power_of(cpu);
		return;
	}
	child = domain_of(cpu, level - 1);
	bpf_for(i, 0, child->nr_groups)
		power += group_at(child->first_group + i)->power;
	sg->power = power;
}

#endif /* __EQUIPOISE_CAPACITY_H */
