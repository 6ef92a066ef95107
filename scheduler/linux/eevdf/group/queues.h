/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups before Linux 7.3: each has a queue on each CPU, with an EEVDF of its own, and an entity in the queue
 * above. An entity is queued as long as tasks of its group are queued on its CPU. After that it may stay until it
 * has had no more than its share, as a task does (delayed.h). The entity's slice is the shortest slice in its
 * queue.
 *
 * Before Linux 6.18, a throttled queue leaves with all its tasks, which do not count above it. The functions are
 * enqueue_task_fair(), dequeue_entities(), throttle_cfs_rq() and others of Linux 6.12.
 */
#ifndef __EQUIPOISE_GROUP_QUEUES_H
#define __EQUIPOISE_GROUP_QUEUES_H

#include "shares.h"
#include "../../group/bandwidth.h"

/* The numbers of tasks that come to a queue, in cfs_rq's terms; negative if tasks leave it. */
struct h_counts {
	s32 queued;
	s32 runnable;
	s32 idle;
};

/* Adds @tasks to the counts of @grq. If the group has cpu.idle, all of them are idle for the queues above. */
static __always_inline void count_h(u32 group, struct group_rq *grq, struct h_counts *tasks)
{
	grq->h_nr_queued += tasks->queued;
	grq->h_nr_runnable += tasks->runnable;
	grq->h_nr_idle += tasks->idle;
	if (fair_group_at(group)->idle)
		tasks->idle = tasks->queued;
}

/* Counts @tasks of groups more on @cpu, or fewer if @tasks is negative. */
static __always_inline void count_on_cpu(u32 cpu, struct h_counts tasks)
{
	struct fair_rq *rq = rq_for_update(cpu);

	rq->nr_running += tasks.queued;
	rq->nr_delayed += tasks.queued - tasks.runnable;
	rq->nr_idle_policy += tasks.idle;
	if (rq->nr_running > 1 && !whole_machine.overloaded)
		whole_machine.overloaded = true;
	if (tasks.queued < 0 && sched_idle_cpu(cpu))
		rq->next_balance = 0;
}

/*
 * Counts @tasks more in the queue of @group, or fewer if @tasks is negative. Returns false if no queue above counts
 * them, because this queue is the root's or is throttled.
 */
static __always_inline bool count_in_queue(u32 group, u32 cpu, struct h_counts *tasks)
{
	if (!group) {
		count_on_cpu(cpu, *tasks);
		return false;
	}
	count_h(group, group_rq_at(group, cpu), tasks);
	return !group_rq_at(group, cpu)->throttled;
}

/* Takes the entity of @group on @cpu off the queue above. */
static __always_inline void dequeue_group_entity(u32 group, struct group_rq *grq, u32 cpu)
{
	u32 parent = group_parent(group);
	struct eevdf_queue *queue = queue_of(parent, cpu);

	grq->se.vlag = entity_lag(queue, avg_vruntime(queue), &grq->se);
	/* An entity that left because it had no tasks takes no credit (finish_delayed_dequeue_entity()). */
	if (grq->se.delayed && grq->se.vlag > 0)
		grq->se.vlag = 0;
	grq->se.delayed = grq->se.on_rq = false;
	count_entity(queue, grq->se.h_weight, grq->se.vruntime, -1);
	count_slice(queue, grq->se.custom_slice, grq->se.slice, -1);
	if (parent)
		return_cfs_rq_runtime(parent, group_rq_at(parent, cpu));
}

/* Sets the slice of the entity of @grq to the shortest slice in its queue. */
static __always_inline void set_group_slice(struct group_rq *grq)
{
	grq->se.slice = min_slice(&grq->queue);
	grq->se.custom_slice = grq->queue.nr_custom_slice;
}

/* Updates the slice of the entity of @grq, which is queued in @queue, after its own queue has changed. */
static __always_inline void update_group_slice(struct eevdf_queue *queue, struct group_rq *grq)
{
	count_slice(queue, grq->se.custom_slice, grq->se.slice, -1);
	set_group_slice(grq);
	count_slice(queue, grq->se.custom_slice, grq->se.slice, 1);
}

/*
 * No longer counts @tasks that have left the queue of @group on @cpu. The entities of queues that are empty leave,
 * too: with @delay, only when they have had no more than their share. Without @delay, the entity of @group leaves
 * even if its queue is not empty.
 */
__noinline bool dequeue_above(u32 group, u32 cpu, struct h_counts tasks, bool delay)
{
	bool leaves = !delay;

	for (;;) {
		struct group_rq *grq = group_rq_at(group, cpu);
		u32 parent = group_parent(group);
		struct eevdf_queue *queue = queue_of(parent, cpu);

		update_group_runnable(group, grq, cpu);
		if (!grq->se.on_rq)
			return false;
		leaves |= !grq->queue.nr;
		if (!leaves) {
			update_cfs_group(group, grq, cpu);
			update_group_slice(queue, grq);
		} else if (delay && !grq->se.delayed && !eligible(avg_vruntime(queue), grq->se.vruntime)) {
			grq->se.delayed = true;
		} else {
			dequeue_group_entity(group, grq, cpu);
		}
		leaves = false;
		group = parent;
		if (!count_in_queue(group, cpu, &tasks))
			return !group;
	}
}

/*
 * Makes the averages of @top and of each group below it stand still on @cpu if that group or one above it is
 * throttled, and otherwise continue: tg_throttle_down(), tg_unthrottle_up().
 */
static __always_inline void switch_pelt_clocks(u32 top, u32 cpu)
{
	u32 group;

	for (group = top; group < nr_fair_groups; group++) {
		if (!fair_group_at(group)->level || !is_below(group, top))
			continue;
		if (throttled_hierarchy(group, cpu))
			stop_pelt_clock(rq_of(cpu), group_rq_at(group, cpu));
		else
			start_pelt_clock(rq_of(cpu), group_rq_at(group, cpu));
	}
}

/*
 * Throttles the queue of @group on @cpu, which has used up its time, unless it gets some more. Returns true if the
 * queue is throttled; it has then left the queue above.
 */
__noinline bool throttle_queue(u32 group, u32 cpu)
{
	struct group_rq *grq = group_rq_at(group, cpu);
	struct h_counts tasks = { -(s32)grq->h_nr_queued, -(s32)grq->h_nr_runnable, -(s32)grq->h_nr_idle };

	if (!throttle_cfs_rq(group, grq, cpu))
		return false;
	switch_pelt_clocks(group, cpu);
	if (fair_group_at(group)->idle)
		tasks.idle = tasks.queued;
	if (grq->se.on_rq)
		dequeue_above(group, cpu, tasks, false);
	return true;
}

/*
 * Throttles the queue of @group on @cpu, if its time is used up, before a pick from it: check_cfs_rq_runtime().
 * Returns true if the queue is throttled.
 */
static __always_inline bool check_cfs_rq_runtime(u32 group, u32 cpu)
{
	const struct group_rq *grq = group_rq_at(group, cpu);

	if (!any_group_is_limited() || !group_is_limited(group) || grq->runtime_remaining > 0)
		return false;
	return grq->throttled || throttle_queue(group, cpu);
}

/*
 * Takes time for the queue of @group on @cpu, if it is limited, because its first entity has joined. If no time is
 * left, the queue is throttled.
 */
static __always_inline void first_queued(u32 group, u32 cpu)
{
	struct group_rq *grq = group_rq_at(group, cpu);

	if (!any_group_is_limited() || !group_is_limited(group) || grq->h_curr || grq->throttled)
		return;
	account_cfs_rq_runtime(group, grq, cpu, 0);
	if (grq->runtime_remaining <= 0)
		throttle_queue(group, cpu);
}

/*
 * Keeps the entity of @grq, which waits to leave @queue, because it has tasks again. If it has had less than its
 * share by now, it is placed anew, with a lag of zero: requeue_delayed_entity().
 */
static __always_inline void requeue_delayed_group(struct eevdf_queue *queue, struct group_rq *grq)
{
	u64 avg = avg_vruntime(queue);

	grq->se.delayed = false;
	if (!eligible(avg, grq->se.vruntime) || avg == grq->se.vruntime)
		return;
	count_entity(queue, grq->se.h_weight, grq->se.vruntime, -1);
	grq->se.vlag = 0;
	place_entity(queue, &grq->se, false, 0);
	count_entity(queue, grq->se.h_weight, grq->se.vruntime, 1);
}

/* Counts @tasks that have come to the queue of @group on @cpu, which is not throttled. */
__noinline bool enqueue_above(u32 group, u32 cpu, struct h_counts tasks)
{
	for (;;) {
		struct group_rq *grq = group_rq_at(group, cpu);
		u32 parent = group_parent(group);
		struct eevdf_queue *queue = queue_of(parent, cpu);

		update_group_runnable(group, grq, cpu);
		if (grq->se.on_rq) {
			if (grq->se.delayed)
				requeue_delayed_group(queue, grq);
			update_cfs_group(group, grq, cpu);
			update_group_slice(queue, grq);
		} else {
			update_cfs_group(group, grq, cpu);
			set_group_slice(grq);
			place_entity(queue, &grq->se, false, 0);
			count_entity(queue, grq->se.h_weight, grq->se.vruntime, 1);
			count_slice(queue, grq->se.custom_slice, grq->se.slice, 1);
			grq->se.on_rq = true;
			if (parent && queue->nr == 1)
				first_queued(parent, cpu);
		}
		group = parent;
		if (!count_in_queue(group, cpu, &tasks))
			return !group;
	}
}

/* Counts a task that has joined the queue of @group on @cpu, whose clock is up to date. */
__noinline bool join_group(u32 group, u32 cpu, bool idle)
{
	struct group_rq *grq = group_rq_at(group, cpu);
	struct h_counts tasks = { 1, 1, idle };

	update_group_load_avg(group, grq);
	if (grq->queue.nr == 1)
		first_queued(group, cpu);
	return count_in_queue(group, cpu, &tasks) && enqueue_above(group, cpu, tasks);
}

/*
 * No longer counts a task that has left the queue of @group on @cpu. The task is @runnable if it was not asleep
 * before (delayed.h).
 */
__noinline bool leave_group(u32 group, u32 cpu, bool idle, bool runnable)
{
	struct group_rq *grq = group_rq_at(group, cpu);
	struct h_counts tasks = { -1, -runnable, -idle };

	update_group_load_avg(group, grq);
	if (!grq->queue.nr)
		return_cfs_rq_runtime(group, grq);
	return count_in_queue(group, cpu, &tasks) && dequeue_above(group, cpu, tasks, true);
}

/* Brings back the queue of @group on @cpu, which is no longer throttled, with its tasks. */
__noinline bool unthrottle_queue(u32 group, u32 cpu)
{
	struct group_rq *grq = group_rq_at(group, cpu);
	struct h_counts tasks = { grq->h_nr_queued, grq->h_nr_runnable, grq->h_nr_idle };

	switch_pelt_clocks(group, cpu);
	if (!grq->queue.nr)
		return false;
	if (fair_group_at(group)->idle)
		tasks.idle = tasks.queued;
	return enqueue_above(group, cpu, tasks);
}

/*
 * Charges @delta ns to the entities of @group and of the groups above, which run on @cpu. Returns true if one of
 * them has to stop.
 */
__noinline bool charge_groups(u32 group, u32 cpu, u64 delta)
{
	bool stops = false;

	while (group) {
		struct group_rq *grq = group_rq_at(group, cpu);
		struct fair_entity *se = &grq->se;
		u64 fair = calc_delta_weight(delta, se->h_weight, 0);

		group = group_parent(group);
		if (se->on_rq) {
			struct eevdf_queue *queue = queue_of(group, cpu);
			bool over;

			se->vruntime += fair;
			queue->weighted_vruntime += se->h_weight * fair;
			over = !time_before(se->vruntime, se->deadline);
			if (over)
				se->deadline = se->vruntime + calc_delta_weight(se->slice, se->h_weight, 0);
			else
				over = !time_before(se->vruntime, grq->vprot) &&
				       !eligible(peek_vruntime(queue), se->vruntime);
			stops |= over && queue->nr > 1;
		}
	}
	return stops;
}

/*
 * Updates the entities above a task in @group that gets @cpu. Entities that ran before, for a task in the group
 * @last, keep their protection.
 */
__noinline bool set_next_groups(u32 group, u32 cpu, u32 last)
{
	while (group) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_group_entity_load_avg(group, grq, cpu);
		grq->h_curr = true;
		if (!is_below(last, group))
			grq->vprot = grq->se.deadline;
		account_cfs_rq_runtime(group, grq, cpu, 0);
		group = group_parent(group);
	}
	return true;
}

/*
 * Lets queues that have used up their time leave after the task that ran, in @group, has left @cpu
 * (put_prev_entity()).
 */
__noinline bool throttle_prev_groups(u32 group, u32 cpu)
{
	while (group) {
		check_cfs_rq_runtime(group, cpu);
		group = group_parent(group);
	}
	return true;
}

/* Handles a tick of the running task. */
__noinline bool tick_groups(u32 group, u32 cpu)
{
	while (group) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_group_entity_load_avg(group, grq, cpu);
		update_cfs_group(group, grq, cpu);
		group = group_parent(group);
	}
	return true;
}

#endif /* __EQUIPOISE_GROUP_QUEUES_H */
