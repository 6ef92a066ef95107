/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Power balance: an idle CPU of a group that is in use, but not full, takes the tasks of the least used group in
 * its domain, so that this group can sleep. These are patches 14 to 20 of the series that powersave.h names.
 *
 * Power balance is lazy, because otherwise tasks that come and go would be packed and spread again and again. It
 * waits until the domain has not been balanced for performance for some time, which perf_lb_record records. Any
 * overloaded group causes a balance for performance.
 */
#ifndef __EQUIPOISE_POWER_BALANCE_H
#define __EQUIPOISE_POWER_BALANCE_H

#include "../../balance/balance_env.bpf.h"
#include "powersave.h"

/*
 * Power balance requires that none of the last 32 balances was for performance, and at most PERF_LB_MAX of the
 * last 64.
 */
#define PERF_LB_LATE 0xffffffffULL
#define PERF_LB_MAX 4
/* The record is cleared if there is no balance for this many times the longest balance interval. */
#define PERF_LB_FORGET 8

/* Decides the kind of this balance. Busy CPUs balance for performance, and so do hardware threads of a core. */
static __always_inline void init_power_stats(struct balance_env *env)
{
	struct powersave_domain_stats *sds = &env->sds.design.powersave;

	sds->this_group = -1;
	sds->group_leader = -1;
	sds->group_min = -1;
	sds->min_util = ~0ULL;
	env->flags &= ~(LBF_POWER_BAL | LBF_PERF_BAL);
	if (!powersaving() || env->idle == LB_NOT_IDLE || env_domain(env)->flags & SD_SHARE_CPUPOWER)
		env->flags |= LBF_PERF_BAL;
	else
		env->flags |= LBF_POWER_BAL;
}

/*
 * Adds @cpu to its group, unless this is already a balance for performance, by init_power_stats() or because of an
 * overloaded group.
 */
static __always_inline void add_power_stats(struct balance_env *env, u32 cpu)
{
	if (!(env->flags & LBF_PERF_BAL))
		env->sgs.design.powersave.group_util += max_rq_util(cpu, false);
}

/* Considers @group, whose statistics are in env->sgs, as the group to empty or to fill. */
static __always_inline void update_power_stats(struct balance_env *env, s32 group, bool local_group)
{
	struct powersave_domain_stats *sds = &env->sds.design.powersave;
	const struct group_stats *sgs = &env->sgs;
	u64 threshold, group_util = sgs->design.powersave.group_util;
	bool has_room;

	if (local_group)
		sds->this_group = group;
	if (env->flags & LBF_PERF_BAL)
		return;
	threshold = (u64)group_at(group)->weight * FULL_UTIL;
	has_room = group_util + FULL_UTIL <= threshold;

	if (local_group && (!sgs->sum_nr_running || !has_room))
		env->flags &= ~LBF_POWER_BAL;
	if (group_util > threshold) {
		env->flags |= LBF_PERF_BAL;
		env->flags &= ~LBF_POWER_BAL;
	}
	if (!(env->flags & LBF_POWER_BAL) || !sgs->sum_nr_running)
		return;

	/* Among equally used groups, take the last one. Groups are numbered by their first CPU. */
	if (group_util < sds->min_util || (group_util == sds->min_util && group > sds->group_min)) {
		sds->group_min = group;
		sds->min_util = group_util;
		sds->min_load_per_task = sgs->sum_weighted_load / sgs->sum_nr_running;
	}
	/* Among equally used groups, take the first one. */
	if (has_room &&
	    (group_util > sds->leader_util || (group_util == sds->leader_util && group < sds->group_leader))) {
		sds->group_leader = group;
		sds->leader_util = group_util;
	}
}

static __always_inline u32 hweight64(u64 bits)
{
	bits -= bits >> 1 & 0x5555555555555555ULL;
	bits = (bits & 0x3333333333333333ULL) + (bits >> 2 & 0x3333333333333333ULL);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return bits * 0x0101010101010101ULL >> 56;
}

/*
 * If the domain is not balanced for performance, *@group becomes the group to empty, and env->imbalance the amount;
 * *@group is -1 if there is nothing to do.
 */
__noinline bool find_power_group(struct balance_env *env __arg_nonnull, s32 *group __arg_nonnull)
{
	struct powersave_domain_stats *sds = &env->sds.design.powersave;
	struct domain_state *ds = env_domain_state(env);
	u64 *record = &ds->design.powersave.perf_lb_record, quiet;

	*record <<= 1;
	if (env->flags & LBF_PERF_BAL) {
		*record |= 1;
		return false;
	}
	if (env->flags & LBF_POWER_BAL && sds->this_group == sds->group_leader &&
	    sds->group_leader != sds->group_min) {
		quiet = ds->last_balance + msecs_to_jiffies(PERF_LB_FORGET * (u64)env_domain(env)->max_interval);
		if (time_before(quiet, jiffies_at(bpf_ktime_get_ns())))
			*record = 0;
		if (!(*record & PERF_LB_LATE) && hweight64(*record) <= PERF_LB_MAX) {
			env->imbalance = sds->min_load_per_task;
			*group = sds->group_min;
			return true;
		}
	}
	env->flags &= ~LBF_POWER_BAL;
	*group = -1;
	return true;
}

#endif /* __EQUIPOISE_POWER_BALANCE_H */
