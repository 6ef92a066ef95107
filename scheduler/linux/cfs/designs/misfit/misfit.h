/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Heterogeneous CPUs: policies `misfit` and `idle_pull`, after
 *
 *	[RFC PATCH 0/2] sched: Task placement on mixed cpu_power systems, 2013-03-25
 *	  1/2 sched: Force migration on a better cpu
 *	  2/2 sched: Pull tasks from cpus with multiple tasks when idle
 *
 * A task whose runnable load exceeds its CPU's capacity is forced onto a CPU with more capacity; an idle CPU pulls
 * from any group with more tasks than CPUs, whatever the capacities.
 */
#ifndef __EQUIPOISE_MISFIT_H
#define __EQUIPOISE_MISFIT_H

#include "../../balance/balance_env.bpf.h"

/* Does @env's dst_cpu have clearly more capacity than @cpu? */
static __always_inline bool dst_is_better(const struct balance_env *env, u32 cpu)
{
	return (u64)power_of(cpu) * env_domain(env)->imbalance_pct < (u64)power_of(env->dst_cpu) * 100;
}

/* update_sg_lb_stats(): does @cpu with @load make its group imbalanced? */
static __always_inline bool misfit_cpu(const struct balance_env *env, u32 cpu, u64 load, u32 load_idx)
{
	return policy.misfit && load > power_of(cpu) && dst_is_better(env, cpu) &&
	       load > target_load(env->dst_cpu, load_idx);
}

/* find_busiest_queue(): does @cpu run one task, too heavy for it, that dst_cpu would serve better? */
static __always_inline bool misfit_queue(const struct balance_env *env, u32 cpu)
{
	u64 load = weighted_cpuload(cpu);

	return policy.misfit && cpu_nr_running(cpu) == 1 && load > power_of(cpu) &&
	       load > weighted_cpuload(env->dst_cpu) && dst_is_better(env, cpu);
}

/* need_active_balance() */
static __always_inline bool misfit_active_balance(const struct balance_env *env)
{
	return policy.misfit && dst_is_better(env, env->src_cpu);
}

/* Is there a CPU with clearly more capacity than @cpu, by its largest domain's imbalance_pct? */
static __always_inline bool better_cpu_exists(u32 cpu)
{
	u32 nr_levels = levels_of(cpu)->nr_levels;

	return nr_levels &&
	       (u64)power_of(cpu) * domain_of(cpu, nr_levels - 1)->imbalance_pct < (u64)machine.max_power * 100;
}

/*
 * nohz_kick_needed(). The posting kicks whether or not there is a better CPU: one of two hardware threads, with
 * little more than half of a CPU's cpu_power, would kick at each tick while it has a task.
 */
static __always_inline bool misfit_kick(u32 cpu)
{
	return policy.misfit && weighted_cpuload(cpu) > power_of(cpu) && better_cpu_exists(cpu);
}

/* Does an idle CPU pull from a group of @weight CPUs with @nr_running tasks, regardless of capacities? */
static __always_inline bool idle_pull(const struct balance_env *env, u64 weight, u64 nr_running)
{
	return policy.idle_pull && is_idle_balance(env) && weight < nr_running;
}

/* can_migrate_task(): does an idle CPU pull tasks of any load from a group with more tasks than CPUs? */
static __always_inline bool idle_pull_moves_any(const struct balance_env *env)
{
	return policy.idle_pull && is_idle_balance(env);
}

#endif /* __EQUIPOISE_MISFIT_H */
