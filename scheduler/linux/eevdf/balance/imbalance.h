/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Computes the amount that should move from the busiest group to the local one, and its unit: calculate_imbalance()
 * of Linux 7.3.
 */
#ifndef __EQUIPOISE_IMBALANCE_H
#define __EQUIPOISE_IMBALANCE_H

#include "balance_env.bpf.h"

/* The number of tasks that the busiest group has in excess of the local one, relative to their numbers of cores. */
static __always_inline s64 sibling_imbalance(const struct balance_env *env)
{
	s64 busiest = env->busiest.sum_nr_running, local = env->local.sum_nr_running, imbalance;
	s64 ncores_busiest = group_state_at(env->busiest_group)->cores;
	s64 ncores_local = group_state_at(env->local_group)->cores;

	if (!is_idle_balance(env) || !busiest)
		return 0;
	if (ncores_busiest == ncores_local)
		return busiest > local ? busiest - local : 0;
	imbalance = ncores_local * busiest - ncores_busiest * local;
	if (imbalance < 0)
		imbalance = 0;
	/* Round to the nearest number. */
	imbalance = (u64)(2 * imbalance + ncores_local + ncores_busiest) / (u64)(ncores_local + ncores_busiest);
	if (imbalance <= 1 && !local && busiest > 1)
		return 2;
	return imbalance;
}

/*
 * Computes the imbalance if the local group has room: fills that group, or equalizes the numbers of tasks or of
 * idle CPUs.
 */
static __always_inline void fill_spare(struct balance_env *env)
{
	struct group_stats *local = &env->local, *busiest = &env->busiest;
	const struct domain *sd = env_domain(env);

	if (busiest->type > GROUP_FULLY_BUSY && !(sd->flags & SD_SHARE_PKG_RESOURCES)) {
		env->migration_type = MIGRATE_UTIL;
		env->imbalance = local->group_capacity > local->group_util
					 ? local->group_capacity - local->group_util
					 : 0;
		/* Other classes' work may fill the busiest group, while the local one has an idle CPU. */
		if (is_idle_balance(env) && !env->imbalance) {
			env->migration_type = MIGRATE_TASK;
			env->imbalance = 1;
		}
		return;
	}
	env->migration_type = MIGRATE_TASK;
	if (busiest->group_weight == 1 || env->prefer_sibling)
		env->imbalance = sibling_imbalance(env);
	else
		env->imbalance = local->idle_cpus > busiest->idle_cpus ? local->idle_cpus - busiest->idle_cpus : 0;
	if (sd->flags & SD_NUMA)
		env->imbalance = adjust_numa_imbalance(env->imbalance, local->sum_nr_running + 1, sd->imb_numa_nr);
	/* Each moved task changes the difference by two. */
	env->imbalance >>= 1;
}

static __always_inline void calculate_imbalance(struct balance_env *env)
{
	struct group_stats *local = &env->local, *busiest = &env->busiest;
	u64 max_pull, room;

	switch (busiest->type) {
	case GROUP_MISFIT_TASK:
		if (env_domain(env)->flags & SD_ASYM_CPUCAPACITY) {
			env->migration_type = MIGRATE_MISFIT;
			env->imbalance = 1;
		} else {
			env->migration_type = MIGRATE_LOAD;
			env->imbalance = busiest->misfit_task_load;
		}
		return;
	case GROUP_ASYM_PACKING:
		env->migration_type = MIGRATE_TASK;
		env->imbalance = busiest->sum_h_nr_running;
		return;
	case GROUP_SMT_BALANCE:
	case GROUP_IMBALANCED:
		env->migration_type = MIGRATE_TASK;
		env->imbalance = 1;
		return;
	default:
		break;
	}
	if (local->type == GROUP_HAS_SPARE) {
		fill_spare(env);
		return;
	}
	if (local->type < GROUP_OVERLOADED) {
		local->avg_load = local->group_load * SCHED_POWER_SCALE / local->group_capacity;
		env->avg_load = env->total_load * SCHED_POWER_SCALE / env->total_capacity;
		if (local->avg_load >= busiest->avg_load || local->avg_load >= env->avg_load)
			return;
	}
	/* Neither group should end up beyond the average. */
	env->migration_type = MIGRATE_LOAD;
	max_pull = (busiest->avg_load - env->avg_load) * busiest->group_capacity;
	room = (env->avg_load - local->avg_load) * local->group_capacity;
	env->imbalance = (max_pull < room ? max_pull : room) / SCHED_POWER_SCALE;
}

#endif /* __EQUIPOISE_IMBALANCE_H */
