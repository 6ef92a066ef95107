/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Throttled groups (bandwidth.h). Since Linux 6.18 tasks are throttled, not runqueues: a task whose group has used
 * up its time leaves its runqueue when it is about to return to user mode, so that it holds no lock of the kernel.
 * A waiting task first has to be picked. Here a task leaves when it stops or would be picked, and waits in its
 * CPU's queue of throttled tasks (the kernel's throttled_limbo_list) until its group may run again.
 */
#ifndef __EQUIPOISE_FAIR_THROTTLE_H
#define __EQUIPOISE_FAIR_THROTTLE_H

#include "../core/preempt.h"

/* Where the throttled tasks of @cpu wait. */
static __always_inline u64 limbo_dsq(u32 cpu)
{
	return 2 * MAX_CPUS + cpu;
}

/* @p, which was throttled last, is released first, as in the kernel. */
static __always_inline u64 limbo_order(u64 now)
{
	return -now;
}

/* @p leaves the runqueue of @cpu. */
static __always_inline void throttle_task(struct task_struct *p, struct fair_entity *se, u32 cpu, u64 now)
{
	explain(held_back, p->pid, cpu);
	dequeue_entity(se, false, now);
	update_util_est(se);
}

/* @p, which may not run, stops on @cpu, in ops.enqueue(). */
static __always_inline void hold_back(struct task_struct *p, struct fair_entity *se, u32 cpu, u64 enq_flags)
{
	u64 now = bpf_ktime_get_ns();

	throttle_task(p, se, cpu, now);
	scx_bpf_dsq_insert_vtime(p, limbo_dsq(cpu), SCX_SLICE_INF, limbo_order(now), enq_flags);
	kick_cpu(cpu, 0);
}

/* Takes the first eligible task of @cpu off its runqueue, if it may not run. */
__noinline bool hold_first(u32 cpu)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *p;
	bool held = false;

	forget_origin(cpu);
	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), 0) {
		struct fair_entity *se = entity_of(p);

		if (!se || !is_throttled(p, se))
			break;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, limbo_order(now));
		held = scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, limbo_dsq(cpu), 0);
		if (held)
			throttle_task(p, se, cpu, now);
		break;
	}
	return held;
}

/* Before @cpu picks a task: those that may not run leave, as long as one of them would be picked. */
__noinline bool hold_picked(u32 cpu)
{
	int i;

	forget_origin(cpu);
	bpf_for(i, 0, rq_of(cpu)->nr_running) {
		prev_is_best(cpu, NULL);
		if (!hold_first(cpu))
			break;
	}
	return i;
}

/* The tasks of @group that wait on @cpu may run again, unless another group still prevents that:
 * unthrottle_cfs_rq(). */
__noinline bool unthrottle_cfs_rq(u32 group, u32 cpu)
{
	struct group_rq *grq;
	struct task_struct *p;
	struct fair_rq *rq;
	u64 now = bpf_ktime_get_ns();

	forget_origin(group);
	forget_origin(cpu);
	grq = group_rq_at(group, cpu);
	rq = rq_of(cpu);
	update_rq_clock(cpu, now);
	update_curr(cpu);
	if (!grq->throttled || (group_is_limited(group) && grq->runtime_remaining <= 0))
		return false;
	grq->throttled = 0;
	__sync_fetch_and_add(&bandwidth_of(group)->nr_throttled, -1);
	if (group_queues()) {
		unthrottle_queue(group, cpu);
		if (rq->idle && rq->nr_running)
			kick_cpu(cpu, SCX_KICK_IDLE);
		return true;
	}
	start_pelt_clock(rq, grq);
	rq->curr_throttled = rq->curr.charged_group && throttled_hierarchy(rq->curr.charged_group, cpu);
	bpf_for_each(scx_dsq, p, limbo_dsq(cpu), 0) {
		struct fair_entity *se = entity_of(p);

		if (!se || se->on_rq || throttled_hierarchy(se->group, cpu))
			continue;
		enqueue_entity(se, cpu, now);
		move_to_queue(BPF_FOR_EACH_ITER, p, se, cpu, peek_vruntime(&rq->queue));
	}
	if (rq->idle && rq->nr_running)
		kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/* The CPU on which @group was throttled first after the one with the number @after; or -1. */
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

/* Gives the runqueues of @group, the longest throttled ones first, the time that they are short of. */
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
		if (grq->h_curr) {
			update_rq_clock(cpu, bpf_ktime_get_ns());
			update_curr(cpu);
		}
		runtime = 1 - grq->runtime_remaining;
		if (runtime > b->runtime)
			runtime = b->runtime;
		b->runtime -= runtime;
		grq->runtime_remaining += runtime;
		if (grq->runtime_remaining > 0)
			unthrottle_cfs_rq(group, cpu);
	}
	return true;
}

/* A period of @group ends. False if nothing has used its time. */
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

/* Time that was given back goes to throttled runqueues. */
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

/* cpu.max of @group changes, or is set for the first time; a quota of ~0 means no limit: tg_set_cfs_bandwidth(). */
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
		/* Periods of groups do not begin at the same time. */
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

#endif /* __EQUIPOISE_FAIR_THROTTLE_H */
