/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packing: policy `sched_balance_policy = "powersaving"`, after
 *
 *	[patch v7 0/21] sched: power aware scheduling, Alex Shi, 2013-04-04
 *
 * Fewer groups in use cost less power, so a task goes to the group of a domain that is closest to full and still
 * has room for it; a light task goes to the waker's CPU. A domain without room for the task follows the performance
 * rules. power_balance.h moves tasks later.
 */
#ifndef __EQUIPOISE_POWERSAVE_H
#define __EQUIPOISE_POWERSAVE_H

#include "../../../../signals/capacity.h"
#include "../../core/placement.h"

/*
 * The utilization of one CPU that is never idle. A group is full when none of its CPUs is ever idle, whatever their
 * cpu_power, even if tasks that share a core are slow.
 */
#define FULL_UTIL SCHED_POWER_SCALE

static __always_inline bool powersaving(void)
{
	return policy.sched_balance_policy == BALANCE_POWERSAVING;
}

/* The part of the time, in 1024ths, in which @rq has had tasks to run. */
static __always_inline u64 rq_util(const struct fair_rq *rq)
{
	u32 period = rq->avg.period_sum;

	return READ_ONCE(rq->avg.runnable_sum) * (u64)FULL_UTIL / (period ? period : 1);
}

/* The part of the time, in 1024ths, in which the task was runnable. */
static __always_inline u64 task_util(const struct fair_entity *se)
{
	return pelt_avg(&se->avg, se->avg.runnable_sum, FULL_UTIL);
}

/*
 * max_rq_util(): the utilization that @cpu may reach with its tasks. It is the present utilization by fair tasks,
 * as far as other classes leave room, times the number of tasks, plus the use by other classes. On @wakeup, a CPU
 * that is woken in bursts has not yet shown the utilization of its tasks, so they count in full.
 */
__noinline u64 max_rq_util(u32 cpu, bool wakeup)
{
	struct fair_rq *rq = rq_of(cpu);
	u64 nr_running = READ_ONCE(rq->nr_running), util, left;

	if (wakeup && rq->avg_idle < tunables.sched_burst_threshold)
		return cpu_nr_running(cpu) * FULL_UTIL;
	util = rq_util(rq);
	left = scale_rt_capacity(cpu);
	return FULL_UTIL - left + (util < left ? util : left) * nr_running;
}

__noinline u64 group_max_util(u32 group, bool wakeup)
{
	const struct group *sg = group_at(group);
	u64 util = 0;
	int i;

	bpf_for(i, 0, sg->weight)
		util += max_rq_util(nth_cpu(sg, i), wakeup);
	return util;
}

/*
 * The group of @cpu's domain at @level that has the least room left, but has some, or -1 if the domain is too full
 * for another @putil.
 */
__noinline s32 find_group_leader(u32 cpu, u32 level, u64 putil, bool wakeup)
{
	struct domain *sd = domain_of(cpu, level);
	u32 local = local_group_of(cpu, level);
	u64 sd_util = 0, min_delta = ~0ULL;
	s32 leader = -1;
	int i;

	bpf_for(i, 0, sd->nr_groups) {
		u32 group = nth_group(sd, local, i);
		u64 full = group_at(group)->weight * FULL_UTIL, util = group_max_util(group, wakeup);

		if (util < full && full - util < min_delta) {
			min_delta = full - util;
			leader = group;
		}
		sd_util += util;
	}
	return sd_util + putil < sd->weight * FULL_UTIL ? leader : -1;
}

/*
 * The room that four times @putil would leave on @cpu; less than 1 if that does not fit. Heavy tasks find room
 * nowhere.
 */
static __always_inline s64 cpu_vacancy(u32 cpu, u64 putil, bool wakeup)
{
	return (s64)FULL_UTIL - (s64)max_rq_util(cpu, wakeup) - (s64)(putil << 2);
}

/*
 * A CPU for @p, which is woken and light: this CPU if @p fits, although the CPU is busy; otherwise the CPU of
 * @group with the least room that suffices, or -1 if there is none.
 */
__noinline s32 find_leader_cpu(struct task_struct *p __arg_trusted, u32 group, u32 this_cpu, u64 putil)
{
	const struct group *sg = group_at(group);
	s64 min_vacancy = FULL_UTIL + 1;
	s32 leader = -1;
	int i;

	if (task_allowed(p, this_cpu) && cpu_vacancy(this_cpu, putil, true) > 0)
		return this_cpu;
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		s64 vacancy;

		if (cpu == this_cpu || !task_allowed(p, cpu))
			continue;
		vacancy = cpu_vacancy(cpu, putil, true);
		if (vacancy > 0 && vacancy < min_vacancy) {
			min_vacancy = vacancy;
			leader = cpu;
		}
	}
	return leader;
}

/* A CPU for @p in @cpu's domain at @level that has room for it, or -1. */
__noinline s32 select_power_cpu(struct task_struct *p __arg_trusted, u32 cpu, u32 level, bool wakeup)
{
	const struct fair_entity *se = entity_of(p);
	s32 group, found = -1;
	u64 putil;

	if (!se)
		return -1;
	putil = task_util(se);
	/* The utilization of a new task is unknown, so assume the maximum. */
	group = find_group_leader(cpu, level, se->load_avg_contrib == se->weight ? FULL_UTIL : putil, wakeup);
	if (group < 0)
		return -1;
	if (wakeup && !(domain_of(cpu, level)->flags & SD_SHARE_CPUPOWER))
		found = find_leader_cpu(p, group, cpu, putil);
	if (found < 0)
		found = find_idlest_cpu(p, group, cpu);
	if (found >= 0)
		explain(packed, p->pid, found, putil);
	if (found >= 0)
		this_counters()->power_placed++;
	return found;
}

/* A CPU for @p in the smallest of @cpu's domains with @sd_flag that has room, or -1. */
__noinline s32 select_power_cpu_in(struct task_struct *p __arg_trusted, u32 cpu, u32 sd_flag)
{
	s32 found = -1;
	int level;

	bpf_for(level, 0, levels_of(cpu)->nr_levels) {
		if (!(domain_of(cpu, level)->flags & sd_flag))
			continue;
		found = select_power_cpu(p, cpu, level, sd_flag == SD_BALANCE_WAKE);
		if (found >= 0)
			break;
	}
	return found;
}

#endif /* __EQUIPOISE_POWERSAVE_H */
