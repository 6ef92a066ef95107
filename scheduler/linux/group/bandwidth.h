/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bandwidth of groups: cpu.max (CONFIG_CFS_BANDWIDTH). A group has a quota of CPU time in each period. While
 * its tasks run, a runqueue of the group takes slices (5 ms by default) from the quota. If nothing is left, the
 * runqueue is throttled until the next period begins, or another runqueue gives back time that it does not need:
 *
 * quota ──> fair_bandwidth::runtime ──> group_rq::runtime_remaining ──> the tasks' time
 * 	               ^         slices of 5 ms        │
 * 	               └───────────────────────────────┘
 * 	          all but 1 ms, when the last task has stopped
 *
 * The scheduler defines struct group_rq with runtime_remaining, runtime_seq, throttled and h_curr; group_queues(),
 * which says whether a queue that has used up its time is throttled at the next pick, as before Linux 6.18, and not
 * at once; and queue_throttled(), which is called when a queue is throttled.
 */
#ifndef __EQUIPOISE_FAIR_BANDWIDTH_H
#define __EQUIPOISE_FAIR_BANDWIDTH_H

#include "../../timers.bpf.h"
#include "group_rqs.h"

/* The time that a runqueue keeps (min_cfs_rq_runtime), in ns. */
#define MIN_CFS_RQ_RUNTIME 1000000
/*
 * The delay, in ns, after which time that was given back is distributed, unless the period ends within the sum of
 * the two times.
 */
#define SLACK_PERIOD 5000000
#define MIN_BANDWIDTH_EXPIRATION 2000000
/* A quota that is more than all CPUs can use in a period, but so small that no sum overflows. */
#define LARGEST_QUOTA (1ULL << 50)

/* The timers of each group: for the end of its period, and for distributing time that was given back. */
#define GROUP_TIMERS(name)                             \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);      \
		__uint(max_entries, MAX_FAIR_GROUPS);  \
		__type(key, u32);                      \
		__type(value, struct scheduler_timer); \
	} name SEC(".maps")

GROUP_TIMERS(period_timers);
GROUP_TIMERS(slack_timers);

static __always_inline struct fair_bandwidth *bandwidth_of(u32 group)
{
	return &fair_group_at(group)->bandwidth;
}

static __always_inline bool group_is_limited(u32 group)
{
	return READ_ONCE(bandwidth_of(group)->period);
}

static __always_inline void start_group_timer(void *timers, u32 group, u64 delay)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(timers, &group);

	if (timer)
		bpf_timer_start(&timer->timer, delay, 0);
}

/* hrtimer_forward_now(): moves the end of the period beyond @now. Returns the number of periods that have ended. */
static __always_inline u64 forward_period(struct fair_bandwidth *b, u64 now)
{
	u64 overrun;

	if ((s64)(now - b->expires) < 0)
		return 0;
	overrun = (now - b->expires) / b->period + 1;
	b->expires += overrun * b->period;
	return overrun;
}

static __always_inline void start_cfs_bandwidth(u32 group, struct fair_bandwidth *b)
{
	u64 now = bpf_ktime_get_ns();

	if (b->period_active)
		return;
	b->period_active = true;
	forward_period(b, now);
	start_group_timer(&period_timers, group, b->expires - now);
}

/*
 * Takes time from the group until @grq has @target ns, as far as the group has time. Returns true if @grq then has
 * time.
 */
static __always_inline bool assign_cfs_rq_runtime(u32 group, struct group_rq *grq, s64 target)
{
	struct fair_bandwidth *b = bandwidth_of(group);
	u64 amount = target - grq->runtime_remaining;

	start_cfs_bandwidth(group, b);
	if (b->runtime) {
		if (amount > b->runtime)
			amount = b->runtime;
		b->runtime -= amount;
		b->idle = false;
		grq->runtime_remaining += amount;
		grq->runtime_seq = b->seq;
	}
	return grq->runtime_remaining > 0;
}

/* Gives more time to @grq, which has used up its time, or throttles it. Returns true if it is throttled. */
static __always_inline bool throttle_cfs_rq(u32 group, struct group_rq *grq, u32 cpu)
{
	struct fair_bandwidth *b = bandwidth_of(group);

	/* Take a slice, with which the queue continues, or the least time with which it may be picked. */
	if (assign_cfs_rq_runtime(group, grq,
				  grq->h_curr && !group_queues() ? tunables.sched_cfs_bandwidth_slice : 1))
		return false;
	grq->throttled = ++b->last_throttled;
	__sync_fetch_and_add(&b->nr_throttled, 1);
	this_counters()->throttled++;
	queue_throttled(grq, cpu);
	return true;
}

/* Before Linux 5.4 the time that a queue has taken expires with its period: expire_cfs_rq_runtime(). */
static __always_inline bool runtime_expired(const struct fair_bandwidth *b, const struct group_rq *grq)
{
	return policy.cfs_bandwidth_expires && grq->runtime_seq != b->seq;
}

/*
 * Charges @delta ns to @grq. Returns true if @grq is throttled; before Linux 6.18, if it has used up its time and
 * will be throttled at the next pick.
 */
static __always_inline bool account_cfs_rq_runtime(u32 group, struct group_rq *grq, u32 cpu, u64 delta)
{
	if (!any_group_is_limited() || !group_is_limited(group))
		return false;
	grq->runtime_remaining -= delta;
	if (grq->runtime_remaining > 0 && runtime_expired(bandwidth_of(group), grq))
		grq->runtime_remaining = 0;
	if (grq->runtime_remaining > 0)
		return false;
	if (group_queues())
		return grq->throttled || !assign_cfs_rq_runtime(group, grq, tunables.sched_cfs_bandwidth_slice);
	return grq->throttled || throttle_cfs_rq(group, grq, cpu);
}

/*
 * Charges @group and the groups above it for a task that ran on @cpu for @delta ns. Returns true if
 * account_cfs_rq_runtime() does so for one of these groups.
 */
__noinline bool account_hierarchy(u32 group, u32 cpu, u64 delta)
{
	bool throttled = false;

	forget_origin(group);
	forget_origin(cpu);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		throttled |= account_cfs_rq_runtime(group, group_rq_at(group, cpu), cpu, delta);
		group = group_parent(group);
	}
	return throttled;
}

/* Takes time for @grq, or throttles it, when its first task wakes up: no task may use time that is gone. */
static __always_inline void check_enqueue_throttle(u32 group, struct group_rq *grq, u32 cpu)
{
	if (!grq->h_curr && !grq->throttled)
		account_cfs_rq_runtime(group, grq, cpu, 0);
}

/* Will the period of @b end within @ns? */
static __always_inline bool runtime_refresh_within(const struct fair_bandwidth *b, s64 ns)
{
	return (s64)(b->expires - bpf_ktime_get_ns()) < ns;
}

/*
 * Gives back time of @grq, whose last task has stopped, so that other runqueues may use it, unless the time has
 * expired.
 */
static __always_inline void return_cfs_rq_runtime(u32 group, struct group_rq *grq)
{
	struct fair_bandwidth *b = bandwidth_of(group);
	s64 slack = grq->runtime_remaining - MIN_CFS_RQ_RUNTIME;

	if (!group_is_limited(group) || slack <= 0)
		return;
	grq->runtime_remaining -= slack;
	if (runtime_expired(b, grq))
		return;
	b->runtime += slack;
	if (b->runtime <= tunables.sched_cfs_bandwidth_slice || !b->nr_throttled || b->slack_started ||
	    runtime_refresh_within(b, SLACK_PERIOD + MIN_BANDWIDTH_EXPIRATION))
		return;
	b->slack_started = true;
	start_group_timer(&slack_timers, group, SLACK_PERIOD);
}

/* Begins a period: adds the quota, and keeps unused time up to the burst. */
static __always_inline void refill_cfs_bandwidth_runtime(struct fair_bandwidth *b)
{
	b->seq++;
	b->runtime += b->quota;
	if (b->runtime > b->quota + b->burst)
		b->runtime = b->quota + b->burst;
}

#endif /* __EQUIPOISE_FAIR_BANDWIDTH_H */
