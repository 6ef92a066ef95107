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

/* Charges the task that runs on @cpu until @now (../../group/period.bpf.h). */
static __always_inline void update_curr_at(u32 cpu, u64 now)
{
	update_rq_clock(cpu, now);
	update_curr(cpu);
}

/* The queue in which the throttled tasks of @cpu wait. */
static __always_inline u64 limbo_dsq(u32 cpu)
{
	return 2 * MAX_CPUS + cpu;
}

/* The order in that queue: the task that was throttled last is released first, as in the kernel. */
static __always_inline u64 limbo_order(u64 now)
{
	return -now;
}

static __always_inline void throttle_task(struct task_struct *p, struct fair_entity *se, u32 cpu, u64 now)
{
	explain(held_back, p->pid, cpu);
	dequeue_entity(se, false, now);
	update_util_est(se);
}

/* Holds back @p, which may not run and stops on @cpu, in ops.enqueue(). */
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

/* Takes tasks that may not run off the runqueue of @cpu, as long as the next pick would be such a task. */
__noinline bool hold_picked(u32 cpu)
{
	bool held = false;
	u32 nr_running;
	int i;

	forget_origin(cpu);
	nr_running = rq_of(cpu)->nr_running;
	bpf_for(i, 0, nr_running) {
		prev_is_best(cpu, NULL);
		if (!hold_first(cpu))
			break;
		held = true;
	}
	return held;
}

/*
 * Lets the tasks of @group that wait on @cpu run again, unless another group above them is still throttled:
 * unthrottle_cfs_rq().
 */
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
	update_curr_at(cpu, now);
	if (!grq->throttled || (group_is_limited(group) && grq->runtime_remaining <= 0))
		return false;
	grq->throttled = 0;
	__sync_fetch_and_add(&bandwidth_of(group)->nr_throttled, -1);
	if (group_queues()) {
		unthrottle_queue(group, cpu);
		if (!rq->curr.pid && rq->nr_running)
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
	if (!rq->curr.pid && rq->nr_running)
		kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/* Initializes the part of @group on @cpu: alloc_fair_sched_group(), online_fair_sched_group(). */
static __always_inline void init_group_rq(u32 group, u32 cpu)
{
	struct group_rq *grq = group_rq_at(group, cpu);
	u64 clock = avg_above(group, cpu)->last_update_time;

	__builtin_memset(grq, 0, sizeof(*grq));
	grq->se.h_weight = NICE_0_WEIGHT;
	grq->avg.last_update_time = grq->se.avg.last_update_time = clock;
}

/* Changes the weight of a group: __sched_group_set_shares(). */
__noinline bool set_group_shares(u32 group, u64 shares)
{
	struct fair_group *tg;
	int cpu;

	forget_origin(group);
	forget_origin(shares);
	tg = fair_group_at(group);
	tg->shares = shares;
	bpf_for(cpu, 0, nr_cpus()) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_rq_clock(cpu, bpf_ktime_get_ns());
		update_group_entity_load_avg(group, grq, cpu);
		update_cfs_group(group, grq, cpu);
	}
	return true;
}

#endif /* __EQUIPOISE_FAIR_THROTTLE_H */
