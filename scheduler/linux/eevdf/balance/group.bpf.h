/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The load of a group of CPUs, and the type of the group that follows from its load. The types are those of Linux
 * 7.3, from the idlest to the busiest.
 */
#ifndef __EQUIPOISE_GROUP_H
#define __EQUIPOISE_GROUP_H

#include "../core/delayed.h"
#include "../placement/smt.h"

enum group_kind {
	/* The group can take more tasks. */
	GROUP_HAS_SPARE,
	/* The group has no room, but no task waits unnecessarily. */
	GROUP_FULLY_BUSY,
	/* A task does not fit its CPU. */
	GROUP_MISFIT_TASK,
	/* A core has more than one task. */
	GROUP_SMT_BALANCE,
	/* An idle CPU is preferred to the group's CPUs (asym_packing.h). */
	GROUP_ASYM_PACKING,
	/* Affinity prevented balancing in a lower domain. */
	GROUP_IMBALANCED,
	/* Tasks do not get the CPU time that they need. */
	GROUP_OVERLOADED,
};

/* The load of a group: sg_lb_stats. */
struct group_stats {
	u64 avg_load;
	u64 group_load;
	u64 group_capacity;
	u64 group_util;
	u64 group_runnable;
	u64 misfit_task_load;
	/* The number of runnable tasks of all classes, and the number of fair tasks. */
	u32 sum_nr_running;
	u32 sum_h_nr_running;
	u32 idle_cpus;
	u32 group_weight;
	/* Whether a CPU is overutilized. */
	bool overutilized;
	bool smt_balance;
	bool asym_packing;
	enum group_kind type;
};

/* The state of a group in addition to struct group. */
struct group_state {
	/* The smallest and the largest capacity of the group's CPUs, as last computed. */
	u32 min_capacity;
	u32 max_capacity;
	/* Whether balancing in the lower domain that this group consists of failed because tasks are pinned. */
	bool imbalance;
	/* The flags of that domain, and the number of its cores. */
	u32 flags;
	u32 cores;
	/* The first of the group's CPUs with the highest priority. */
	u32 asym_prefer_cpu;
};

struct group_state group_states[MAX_GROUPS];

static __always_inline struct group_state *group_state_at(u32 index)
{
	return &group_states[index & (MAX_GROUPS - 1)];
}

/* Are there more tasks than CPUs, and do they use or need more than the CPUs' capacity? */
static __always_inline bool group_is_overloaded(u32 imbalance_pct, const struct group_stats *sgs)
{
	if (policy.overload_needs_overutilized && sched_energy_enabled() && !sgs->overutilized)
		return false;
	if (sgs->sum_nr_running <= sgs->group_weight)
		return false;
	return sgs->group_capacity * 100 < sgs->group_util * imbalance_pct ||
	       sgs->group_capacity * imbalance_pct < sgs->group_runnable * 100;
}

static __always_inline bool group_has_capacity(u32 imbalance_pct, const struct group_stats *sgs)
{
	if (sgs->sum_nr_running < sgs->group_weight)
		return true;
	if (sgs->group_capacity * imbalance_pct < sgs->group_runnable * 100)
		return false;
	return sgs->group_capacity * 100 > sgs->group_util * imbalance_pct;
}

static __always_inline enum group_kind group_classify(u32 imbalance_pct, u32 group, const struct group_stats *sgs)
{
	if (group_is_overloaded(imbalance_pct, sgs))
		return GROUP_OVERLOADED;
	if (group_state_at(group)->imbalance)
		return GROUP_IMBALANCED;
	if (sgs->asym_packing)
		return GROUP_ASYM_PACKING;
	if (sgs->smt_balance)
		return GROUP_SMT_BALANCE;
	if (sgs->misfit_task_load)
		return GROUP_MISFIT_TASK;
	return group_has_capacity(imbalance_pct, sgs) ? GROUP_HAS_SPARE : GROUP_FULLY_BUSY;
}

/* One node may have a few tasks more than another, because they may communicate (adjust_numa_imbalance()). */
static __always_inline s64 adjust_numa_imbalance(s64 imbalance, u32 dst_running, u32 imb_numa_nr)
{
	if (dst_running > imb_numa_nr)
		return imbalance;
	return imbalance <= 2 ? 0 : imbalance;
}

/* Adds @cpu to the constant properties of the groups that have it. The first CPU of a group must come first. */
static __always_inline void init_groups(u32 cpu)
{
	for (u32 level = 0; level < MAX_LEVELS; level++) {
		u32 group = local_group_of(cpu, level);
		struct group_state *state = group_state_at(group);
		const struct group *sg = group_at(group);

		if (level >= levels_of(cpu)->nr_levels)
			break;
		state->min_capacity = state->max_capacity = power_of(cpu);
		state->flags = level && domain_of(cpu, level - 1)->weight == sg->weight
				       ? domain_of(cpu, level - 1)->flags
				       : 0;
		state->cores += !smt_domain(cpu) || domain_cpu(smt_domain(cpu), 0) == cpu;
		if (nth_cpu(sg, 0) == cpu || sched_asym_prefer(cpu, state->asym_prefer_cpu))
			state->asym_prefer_cpu = cpu;
	}
}

#endif /* __EQUIPOISE_GROUP_H */
