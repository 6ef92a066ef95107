/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Periods of cpu.max, and the time that is given back in them. The scheduler defines unthrottle_cfs_rq(), and
 * update_curr_at(), which charges the task that runs on a CPU until now.
 */
#ifndef __EQUIPOISE_GROUP_PERIOD_H
#define __EQUIPOISE_GROUP_PERIOD_H

#include "bandwidth.h"

/* The CPU on which @group was throttled next after throttling number @after; -1 if there is none. */
__noinline s32 next_throttled(u32 group, u64 after)
{
	u64 least = ~0ULL;
	s32 found = -1;
	int cpu;

	forget_origin(group);
	forget_origin(after);
	bpf_for(cpu, 0, nr_cpus()) {
		u64 throttled = group_rq_at(group, cpu)->throttled;

		if (throttled > after && throttled < least) {
			least = throttled;
			found = cpu;
		}
	}
	return found;
}

/* Gives the runqueues of @group, the longest throttled ones first, the time that they lack. */
__noinline bool distribute_cfs_runtime(u32 group)
{
	struct fair_bandwidth *b;
	u64 after = 0;
	int i;

	forget_origin(group);
	b = bandwidth_of(group);
	bpf_for(i, 0, nr_cpus()) {
		s32 cpu = next_throttled(group, after);
		struct group_rq *grq;
		u64 runtime;

		if (cpu < 0 || !b->runtime)
			break;
		grq = group_rq_at(group, cpu);
		after = grq->throttled;
		if (grq->h_curr)
			update_curr_at(cpu, bpf_ktime_get_ns());
		runtime = 1 - grq->runtime_remaining;
		if (runtime > b->runtime)
			runtime = b->runtime;
		b->runtime -= runtime;
		grq->runtime_remaining += runtime;
		grq->runtime_seq = b->seq;
		if (grq->runtime_remaining > 0)
			unthrottle_cfs_rq(group, cpu);
	}
	return true;
}

/* Ends a period of @group. Returns false if no runqueue has used the group's time, so that the timer may stop. */
static __always_inline bool do_sched_cfs_period_timer(u32 group, struct fair_bandwidth *b)
{
	refill_cfs_bandwidth_runtime(b);
	if (b->nr_throttled) {
		distribute_cfs_runtime(group);
		b->idle = false;
		return true;
	}
	if (b->idle)
		return false;
	b->idle = true;
	return true;
}

static int run_period_timer(void *timers, int *group, struct scheduler_timer *timer)
{
	struct fair_bandwidth *b = bandwidth_of(*group);
	u64 now = bpf_ktime_get_ns();

	if (!b->period || (forward_period(b, now) && !do_sched_cfs_period_timer(*group, b))) {
		b->period_active = false;
		return 0;
	}
	bpf_timer_start(&timer->timer, b->expires - now, 0);
	return 0;
}

/* Distributes to throttled runqueues the time that others have given back. */
static int run_slack_timer(void *timers, int *group, struct scheduler_timer *timer)
{
	struct fair_bandwidth *b = bandwidth_of(*group);

	b->slack_started = false;
	if (b->period && !runtime_refresh_within(b, MIN_BANDWIDTH_EXPIRATION) &&
	    b->runtime > tunables.sched_cfs_bandwidth_slice)
		distribute_cfs_runtime(*group);
	return 0;
}

static __always_inline void init_group_timer(void *timers, u32 group, scheduler_timer_fn function)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(timers, &group);

	if (!timer)
		return;
	bpf_timer_init(&timer->timer, timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, function);
}

/*
 * Changes cpu.max of @group, or sets it for the first time; a quota of ~0 means no limit: tg_set_cfs_bandwidth().
 */
__noinline bool set_cfs_bandwidth(u32 group, u64 period_us, u64 quota_us, u64 burst_us)
{
	bool limited = period_us && quota_us != ~0ULL;
	struct fair_bandwidth *b;
	int cpu;

	forget_origin(group);
	forget_origin(quota_us);
	b = bandwidth_of(group);
	if (limited && !b->period) {
		__sync_fetch_and_add(&nr_limited_groups, 1);
		/* The periods of different groups do not begin at the same time. */
		b->expires = bpf_get_prandom_u32() % (period_us * 1000);
		init_group_timer(&period_timers, group, run_period_timer);
		init_group_timer(&slack_timers, group, run_slack_timer);
	} else if (!limited && b->period) {
		__sync_fetch_and_add(&nr_limited_groups, -1);
	}
	b->quota = (quota_us < LARGEST_QUOTA / 1000 ? quota_us : LARGEST_QUOTA / 1000) * 1000;
	b->burst = (burst_us < LARGEST_QUOTA / 1000 ? burst_us : LARGEST_QUOTA / 1000) * 1000;
	b->period = limited ? period_us * 1000 : 0;
	if (limited) {
		refill_cfs_bandwidth_runtime(b);
		start_cfs_bandwidth(group, b);
	}
	bpf_for(cpu, 0, nr_cpus()) {
		group_rq_at(group, cpu)->runtime_remaining = 1;
		unthrottle_cfs_rq(group, cpu);
	}
	return limited;
}

#endif /* __EQUIPOISE_GROUP_PERIOD_H */
