/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a group of CPUs has to do, and what kind of group that makes it: group types of Linux 7.3, from the idlest
 * to the busiest.
 */
#ifndef __EQUIPOISE_GROUP_H
#define __EQUIPOISE_GROUP_H

#include "../core/delayed.h"
#include "../placement/smt.h"

enum group_kind {
	/* It can take more tasks. */
	GROUP_HAS_SPARE,
	/* It has no room, but nobody waits who need not. */
	GROUP_FULLY_BUSY,
	/* A task does not fit its CPU. */
	GROUP_MISFIT_TASK,
	/* A core has more than one task. */
	GROUP_SMT_BALANCE,
	/* A CPU that idles is to be preferred to its CPUs (asym_packing.h). */
	GROUP_ASYM_PACKING,
	/* Affinity kept tasks from being balanced below. */
	GROUP_IMBALANCED,
	/* Tasks do not get what they ask for. */
	GROUP_OVERLOADED,
};

/* What a group does: sg_lb_stats. */
struct group_stats {
	u64 avg_load;
	u64 group_load;
	u64 group_capacity;
	u64 group_util;
	u64 group_runnable;
	u64 misfit_task_load;
	/* Tasks of all classes, and ours. */
	u32 sum_nr_running;
	u32 sum_h_nr_running;
	u32 idle_cpus;
	u32 group_weight;
	/* A CPU has more to do than fits it. */
	bool overutilized;
	bool smt_balance;
	bool asym_packing;
	enum group_kind type;
};

/* What is kept of a group besides struct group. */
struct group_state {
	/* The least and the most of its CPUs' capacities, as last found. */
	u32 min_capacity;
	u32 max_capacity;
	/* Balancing a domain that is this group could not move what it should, as tasks are pinned. */
	bool imbalance;
	/* Flags of the domain that is this group, and how many cores it has. */
	u32 flags;
	u32 cores;
	/* The first of its CPUs of the highest priority. */
	u32 asym_prefer_cpu;
};

struct group_state group_states[MAX_GROUPS];

static __always_inline struct group_state *group_state_at(u32 index)
{
	return &group_states[index & (MAX_GROUPS - 1)];
}

/* More tasks than CPUs, and they use or ask for more than these have? */
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

/* A node may have a few tasks more than another, as they may have to do with each other (adjust_numa_imbalance()).
 */
static __always_inline s64 adjust_numa_imbalance(s64 imbalance, u32 dst_running, u32 imb_numa_nr)
{
	if (dst_running > imb_numa_nr)
		return imbalance;
	return imbalance <= 2 ? 0 : imbalance;
}

/* What is known of @cpu's groups for good, each by its first CPU. */
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
