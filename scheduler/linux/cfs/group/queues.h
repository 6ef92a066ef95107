/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of groups when tasks come and leave, run, and are throttled: enqueue_task_fair(), dequeue_task_fair(),
 * throttle_cfs_rq() and others of Linux 3.9. An entity is queued as long as its queue has entities and is not
 * throttled.
 */
#ifndef __EQUIPOISE_CFS_QUEUES_H
#define __EQUIPOISE_CFS_QUEUES_H

#include "shares.h"

/* Does nothing here, because throttle_queue() does the work. */
static __always_inline void queue_throttled(struct group_rq *grq, u32 cpu)
{
}

#include "../../group/bandwidth.h"

static __always_inline u64 later_vruntime(u64 a, u64 b)
{
	return time_before(a, b) ? b : a;
}

/*
 * Counts @tasks more in the queue of @group, or fewer if @tasks is negative. Returns false if no queue above counts
 * them, because this queue is the root's or is throttled.
 */
static __always_inline bool count_in_queue(u32 group, u32 cpu, s32 tasks)
{
	struct fair_rq *rq;

	if (group) {
		group_rq_at(group, cpu)->h_nr_running += tasks;
		return !group_rq_at(group, cpu)->throttled;
	}
	rq = rq_for_update(cpu);
	__sync_fetch_and_add(&rq->nr_running, tasks);
	rq->group_tasks += tasks;
	return false;
}

/* Counts the entity of @grq, which joins the queue of @parent on @cpu (@by is 1), or leaves it (-1). */
static __always_inline void account_group_entity(struct group_rq *grq, u32 parent, u32 cpu, s32 by)
{
	grq->on_rq = by > 0;
	*load_weight_of(parent, cpu) += by > 0 ? grq->weight : -(u64)grq->weight;
	*runnable_load_of(parent, cpu) += by > 0 ? grq->load_avg_contrib : -grq->load_avg_contrib;
	if (parent)
		group_rq_at(parent, cpu)->nr_running += by;
	else
		rq_of(cpu)->group_entities += by;
}

static __always_inline void dequeue_group_entity(u32 group, struct group_rq *grq, u32 cpu, u64 now)
{
	u32 parent = group_parent(group);

	update_group_entity(group, grq, cpu, now);
	account_group_entity(grq, parent, cpu, -1);
	grq->decay_count = decay_periods(now);
	if (!parent)
		return;
	group_rq_at(parent, cpu)->blocked_load_avg += grq->load_avg_contrib;
	if (!group_rq_at(parent, cpu)->nr_running) {
		group_rq_at(parent, cpu)->leftmost = ~0ULL;
		return_cfs_rq_runtime(parent, group_rq_at(parent, cpu));
	}
}

__noinline bool throttle_queue(u32 group, u32 cpu, u64 now);

/*
 * Takes time for the queue of @group, if it is limited, because its first entity has joined:
 * check_enqueue_throttle().
 */
static __always_inline void first_queued(u32 group, u32 cpu, u64 now)
{
	struct group_rq *grq = group_rq_at(group, cpu);

	if (!any_group_is_limited() || !group_is_limited(group) || grq->h_curr || grq->throttled)
		return;
	account_cfs_rq_runtime(group, grq, cpu, 0);
	if (grq->runtime_remaining <= 0)
		throttle_queue(group, cpu, now);
}

/* Enqueues the entity of @group, which has slept, and so gets half a latency of credit (place_entity()). */
static __always_inline void enqueue_group_entity(u32 group, struct group_rq *grq, u32 cpu, u64 now)
{
	u32 parent = group_parent(group);
	u64 was = grq->load_avg_contrib, *leftmost = leftmost_of(parent, cpu);

	if (parent) {
		u64 slept = decay_periods(now) - grq->decay_count;

		subtract(&group_rq_at(parent, cpu)->blocked_load_avg, decay_load(was, slept));
	}
	update_group_entity(group, grq, cpu, now);
	grq->vruntime = later_vruntime(grq->vruntime, *min_vruntime_of(parent, cpu) - tunables.sched_latency / 2);
	account_group_entity(grq, parent, cpu, 1);
	if (*leftmost == ~0ULL || time_before(grq->vruntime, *leftmost))
		*leftmost = grq->vruntime;
	if (parent && group_rq_at(parent, cpu)->nr_running == 1)
		first_queued(parent, cpu, now);
}

/*
 * Counts @tasks that have come to the queue of @group on @cpu, which is not throttled. Returns true if they count
 * on the CPU.
 */
__noinline bool enqueue_above(u32 group, u32 cpu, s32 tasks, u64 now)
{
	for (;;) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_blocked_load(group, grq, now, true);
		update_cfs_shares(group, grq, cpu);
		if (!grq->on_rq)
			enqueue_group_entity(group, grq, cpu, now);
		else
			update_group_entity(group, grq, cpu, now);
		group = group_parent(group);
		if (!count_in_queue(group, cpu, tasks))
			return !group;
	}
}

/*
 * No longer counts @tasks that have left the queue of @group on @cpu. The entities of empty queues leave, too, and
 * so does the entity of a @throttled queue.
 */
__noinline bool dequeue_above(u32 group, u32 cpu, s32 tasks, bool throttled, u64 now)
{
	for (;;) {
		struct group_rq *grq = group_rq_at(group, cpu);

		if (!grq->on_rq)
			return false;
		update_blocked_load(group, grq, now, false);
		if (throttled || !grq->nr_running) {
			dequeue_group_entity(group, grq, cpu, now);
		} else {
			update_group_entity(group, grq, cpu, now);
			update_cfs_shares(group, grq, cpu);
		}
		throttled = false;
		group = group_parent(group);
		if (!count_in_queue(group, cpu, -tasks))
			return !group;
	}
}

__noinline bool join_group(u32 group, u32 cpu, u32 weight)
{
	struct group_rq *grq = group_rq_at(group, cpu);
	u64 now = bpf_ktime_get_ns();

	grq->load_weight += weight;
	if (++grq->nr_running == 1)
		first_queued(group, cpu, now);
	return count_in_queue(group, cpu, 1) && enqueue_above(group, cpu, 1, now);
}

__noinline bool leave_group(u32 group, u32 cpu, u32 weight)
{
	struct group_rq *grq = group_rq_at(group, cpu);

	grq->load_weight -= weight;
	if (!--grq->nr_running) {
		grq->leftmost = ~0ULL;
		return_cfs_rq_runtime(group, grq);
	}
	return count_in_queue(group, cpu, -1) && dequeue_above(group, cpu, 1, false, bpf_ktime_get_ns());
}

/*
 * Throttles the queue of @group on @cpu, which has used up its time, unless it gets some more. Returns true if the
 * queue is throttled; it has then left the queue above.
 */
__noinline bool throttle_queue(u32 group, u32 cpu, u64 now)
{
	struct group_rq *grq = group_rq_at(group, cpu);

	if (!throttle_cfs_rq(group, grq, cpu))
		return false;
	dequeue_above(group, cpu, grq->h_nr_running, true, now);
	return true;
}

/* Brings back the queue of @group on @cpu, which is no longer throttled, with its tasks. */
static __always_inline void unthrottle_queue(u32 group, u32 cpu, u64 now)
{
	struct group_rq *grq = group_rq_at(group, cpu);

	if (grq->nr_running)
		enqueue_above(group, cpu, grq->h_nr_running, now);
}

/* put_prev_entity(): throttles the queue of @group, and those above it, on @cpu, if their time is used up. */
__noinline bool throttle_prev_groups(u32 group, u32 cpu, u64 now)
{
	for (; group; group = group_parent(group)) {
		const struct group_rq *grq = group_rq_at(group, cpu);

		if (group_is_limited(group) && grq->runtime_remaining <= 0 && !grq->throttled)
			throttle_queue(group, cpu, now);
	}
	return true;
}

/* Advances min_vruntime of the queue of @group on @cpu, whose running entity has the vruntime @curr. */
static __always_inline void advance_min_vruntime(u32 group, u32 cpu, u64 curr)
{
	u64 first = *leftmost_of(group, cpu), *min = min_vruntime_of(group, cpu);

	if (first == ~0ULL || time_before(curr, first))
		first = curr;
	*min = later_vruntime(*min, first);
}

/*
 * Charges the entities above the task at @vruntime, in @group, which ran on @cpu for @delta ns. Returns true if a
 * queue has used up its time.
 */
__noinline bool charge_groups(u32 group, u32 cpu, u64 vruntime, u64 delta)
{
	bool over = false;

	while (group) {
		struct group_rq *grq = group_rq_at(group, cpu);

		advance_min_vruntime(group, cpu, vruntime);
		over |= account_cfs_rq_runtime(group, grq, cpu, delta);
		grq->vruntime += calc_delta_fair(delta, grq->weight, grq->inv_weight);
		grq->delta_exec += delta;
		vruntime = grq->vruntime;
		group = group_parent(group);
	}
	advance_min_vruntime(0, cpu, vruntime);
	return over;
}

/* Updates the entities above a task in @group that gets @cpu, or continues for another slice: set_next_entity(). */
__noinline bool set_next_groups(u32 group, u32 cpu)
{
	u64 now = bpf_ktime_get_ns();

	for (; group; group = group_parent(group)) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_group_entity(group, grq, cpu, now);
		grq->h_curr = true;
		grq->delta_exec = 0;
	}
	return true;
}

/* Updates the entities above the running task, in @group, which leaves @cpu. */
__noinline bool put_prev_groups(u32 group, u32 cpu, u64 now)
{
	while (group) {
		struct group_rq *grq = group_rq_at(group, cpu);
		u64 *leftmost;

		update_group_entity(group, grq, cpu, now);
		grq->h_curr = false;
		group = group_parent(group);
		leftmost = leftmost_of(group, cpu);
		/* Of the queues that have these entities, the pick may have looked only at the root's. */
		if (group && grq->on_rq && (*leftmost == ~0ULL || time_before(grq->vruntime, *leftmost)))
			*leftmost = grq->vruntime;
	}
	return true;
}

/* Handles a tick of the running task, in @group: entity_tick(). */
__noinline bool tick_groups(u32 group, u32 cpu, u64 now)
{
	for (; group; group = group_parent(group)) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_blocked_load(group, grq, now, false);
		update_group_entity(group, grq, cpu, now);
		update_cfs_shares(group, grq, cpu);
	}
	return true;
}

/* Decays the loads of all queues of @cpu before the CPU balances (__update_blocked_averages_cpu()). */
__noinline bool update_blocked_groups(u32 cpu, u64 now)
{
	for (u32 group = nr_fair_groups - 1; group; group--) {
		struct group_rq *grq = group_rq_at(group, cpu);

		if (!fair_group_at(group)->level)
			continue;
		update_blocked_load(group, grq, now, true);
		update_group_entity(group, grq, cpu, now);
	}
	return true;
}

#endif /* __EQUIPOISE_CFS_QUEUES_H */
