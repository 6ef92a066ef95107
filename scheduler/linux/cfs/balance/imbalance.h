/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Computes the load that should move from the busiest group to the local one: calculate_imbalance() and
 * fix_small_imbalance() of Linux 3.9. Loads are divided by power (1024 is one nice-0 task on one nominal CPU). As
 * in the kernel, unsigned differences wrap to large values instead of being negative.
 */
#ifndef __EQUIPOISE_IMBALANCE_H
#define __EQUIPOISE_IMBALANCE_H

#include "balance_env.bpf.h"

static __always_inline u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

/*
 * Would both groups together use more of their CPUs' power if one average task moved? The power that a group uses
 * is its load, but at most that of one average task per unit of power.
 */
static __always_inline bool move_gains_throughput(const struct domain_stats *sds)
{
	u64 busiest_power = sds->busiest_power, this_power = sds->this_power;
	u64 task = sds->busiest_load_per_task, moved = task * SCHED_POWER_SCALE / busiest_power;
	u64 pwr_now = busiest_power * min_u64(task, sds->max_load) +
		      this_power * min_u64(sds->this_load_per_task, sds->this_load);
	u64 pwr_move = 0, added;

	/* The load of the busiest group after the move. */
	if (sds->max_load > moved)
		pwr_move = busiest_power * min_u64(task, sds->max_load - moved);
	/* The load of the local group after the move. */
	added = min_u64(sds->max_load * busiest_power, task * SCHED_POWER_SCALE) / this_power;
	pwr_move += this_power * min_u64(sds->this_load_per_task, sds->this_load + added);

	return pwr_move / SCHED_POWER_SCALE > pwr_now / SCHED_POWER_SCALE;
}

/* Decides whether to move a task although the imbalance is less than the load of a task. */
static __always_inline void fix_small_imbalance(struct balance_env *env)
{
	struct domain_stats *sds = &env->sds;
	u64 scaled_busy_load_per_task = sds->busiest_load_per_task * SCHED_POWER_SCALE / sds->busiest_power;
	u32 imbn = 2;

	if (sds->this_nr_running) {
		sds->this_load_per_task /= sds->this_nr_running;
		if (sds->busiest_load_per_task > sds->this_load_per_task)
			imbn = 1;
	} else {
		sds->this_load_per_task = cpu_avg_load_per_task(env->dst_cpu);
	}

	if (sds->max_load - sds->this_load + scaled_busy_load_per_task >= scaled_busy_load_per_task * imbn ||
	    move_gains_throughput(sds) || hook_pulls_from(env, sds->busiest_weight, sds->busiest_nr_running))
		env->imbalance = sds->busiest_load_per_task;
}

static __noinline void calculate_imbalance(struct balance_env *env)
{
	struct domain_stats *sds = &env->sds;
	u64 max_pull, load_above_capacity = ~0ULL;

	sds->busiest_load_per_task /= sds->busiest_nr_running;
	if (sds->group_imb)
		sds->busiest_load_per_task = min_u64(sds->busiest_load_per_task, sds->avg_load);

	/* This is possible, because groups within their capacity do not count for max_load. */
	if (sds->max_load < sds->avg_load) {
		env->imbalance = 0;
		fix_small_imbalance(env);
		return;
	}
	/* Do not move so many tasks that CPUs of the busiest group would become idle. */
	if (!sds->group_imb)
		load_above_capacity = (sds->busiest_nr_running - sds->busiest_group_capacity) *
				      (SCHED_LOAD_SCALE * SCHED_POWER_SCALE) / sds->busiest_power;

	/* Neither group should end up beyond the average. */
	max_pull = min_u64(sds->max_load - sds->avg_load, load_above_capacity);
	env->imbalance = min_u64(max_pull * sds->busiest_power,
				 (sds->avg_load - sds->this_load) * sds->this_power) /
			 SCHED_POWER_SCALE;

	/* An imbalance of less than the load of a task would not move anything. */
	if (env->imbalance < (s64)sds->busiest_load_per_task)
		fix_small_imbalance(env);
}

#endif /* __EQUIPOISE_IMBALANCE_H */
