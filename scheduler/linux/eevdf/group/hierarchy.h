/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Updates the groups above a task when the task becomes runnable, stops, runs, and at its ticks. Most functions go
 * from the task's group up to the root. These are enqueue_hierarchy(), dequeue_hierarchy() and others of Linux 7.3.
 *
 * On its CPU the task competes with the weight
 *
 *	           weight of the task      weight of its group's entity
 *	1 * ───────────────────────────── * ───────────────────────────── * ...		(__calc_prop_weight())
 *	    weights of the group's queue    weights of the queue above
 *
 * which is computed when the task becomes runnable, when it is picked, and at each tick. In the root's queue, the
 * divisor is the weight of nice level 0 instead.
 */
#ifndef __EQUIPOISE_HIERARCHY_H
#define __EQUIPOISE_HIERARCHY_H

#include "shares.h"
#include "../../group/bandwidth.h"

/* Is a task below @group SCHED_IDLE for the CPU, because @group or one above it has cpu.idle? */
__noinline bool in_idle_group(u32 group)
{
	bool idle = false;

	forget_origin(group);
	for (int level = 0; level < MAX_GROUP_LEVELS && group && !idle; level++) {
		idle = fair_group_at(group)->idle;
		group = group_parent(group);
	}
	return idle;
}

/* Counts a task that comes to @grq or leaves it (@by is 1 or -1), and that may be @runnable and @idle. */
static __always_inline void count_tasks(struct group_rq *grq, s32 by, bool runnable, bool idle)
{
	__sync_fetch_and_add(&grq->h_nr_queued, by);
	if (runnable)
		__sync_fetch_and_add(&grq->h_nr_runnable, by);
	if (idle)
		__sync_fetch_and_add(&grq->h_nr_idle, by);
}

/* Counts a queued entity of @weight that joins or leaves the runqueue above @group on @cpu. */
static __always_inline void count_entity_above(u32 group, u32 cpu, u64 weight, s32 by)
{
	u32 parent = group_parent(group);

	add_weight_above(group, cpu, by < 0 ? -weight : weight);
	if (parent)
		__sync_fetch_and_add(&group_rq_at(parent, cpu)->queue.nr, by);
}

/* Continues the averages of @grq, which its first entity has joined, and takes time if @grq is limited. */
static __always_inline void first_enqueued(u32 group, struct group_rq *grq, u32 cpu)
{
	check_enqueue_throttle(group, grq, cpu);
	start_pelt_clock(rq_of(cpu), grq);
}

/* Gives back the time that @grq, which its last entity has left, may not keep. */
static __always_inline void last_dequeued(u32 group, struct group_rq *grq, u32 cpu)
{
	return_cfs_rq_runtime(group, grq);
	if (throttled_hierarchy(group, cpu))
		stop_pelt_clock(rq_of(cpu), grq);
}

/*
 * Makes a task of @own weight, not scaled, runnable in @group on @cpu, whose clock is up to date. Returns the
 * task's weight there, scaled.
 */
__noinline u64 enqueue_hierarchy(u32 group, u32 cpu, u64 own, bool idle)
{
	u64 weight = NICE_0_WEIGHT, entity = own << SCALE_LOAD_SHIFT;

	forget_origin(group);
	forget_origin(cpu);
	forget_origin(own);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		struct group_rq *grq = group_rq_at(group, cpu);

		if (!level) {
			update_group_load_avg(group, grq);
			__sync_fetch_and_add(&grq->queue.load_weight, entity);
			if (__sync_fetch_and_add(&grq->queue.nr, 1) == 0)
				first_enqueued(group, grq, cpu);
		}
		count_tasks(grq, 1, true, idle);
		idle |= fair_group_at(group)->idle;
		weight = calc_prop_weight(group, cpu, entity, weight);

		update_group_runnable(group, grq, cpu);
		update_cfs_group(group, grq, cpu);
		if (!grq->se.on_rq) {
			u32 parent = group_parent(group);

			count_entity_above(group, cpu, grq->se.h_weight, 1);
			grq->se.on_rq = true;
			if (parent && group_rq_at(parent, cpu)->queue.nr == 1)
				first_enqueued(parent, group_rq_at(parent, cpu), cpu);
		}
		entity = grq->se.h_weight;
		group = group_parent(group);
	}
	return calc_prop_weight(0, cpu, entity, weight);
}

/*
 * Makes a task of @own weight in @group on @cpu no longer runnable. @runnable is true if the task was not asleep
 * before (delayed.h).
 */
__noinline bool dequeue_hierarchy(u32 group, u32 cpu, u64 own, bool idle, bool runnable)
{
	bool empty = false;

	forget_origin(group);
	forget_origin(cpu);
	forget_origin(own);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		struct group_rq *grq = group_rq_at(group, cpu);

		if (!level) {
			update_group_load_avg(group, grq);
			__sync_fetch_and_add(&grq->queue.load_weight, -(own << SCALE_LOAD_SHIFT));
			empty = __sync_fetch_and_add(&grq->queue.nr, -1) == 1;
			if (empty)
				last_dequeued(group, grq, cpu);
		}
		count_tasks(grq, -1, runnable, idle);
		idle |= fair_group_at(group)->idle;

		update_group_runnable(group, grq, cpu);
		if (empty && grq->se.on_rq) {
			u32 parent = group_parent(group);

			grq->se.on_rq = false;
			count_entity_above(group, cpu, grq->se.h_weight, -1);
			empty = parent && !group_rq_at(parent, cpu)->queue.nr;
			if (empty)
				last_dequeued(parent, group_rq_at(parent, cpu), cpu);
		} else {
			empty = false;
			update_cfs_group(group, grq, cpu);
		}
		group = group_parent(group);
	}
	return true;
}

/*
 * Records that a queued task in @group on @cpu has gone to sleep, and still counts until it would be picked:
 * set_delayed().
 */
__noinline bool delay_hierarchy(u32 group, u32 cpu)
{
	forget_origin(group);
	forget_origin(cpu);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		__sync_fetch_and_add(&group_rq_at(group, cpu)->h_nr_runnable, -1);
		group = group_parent(group);
	}
	return true;
}

/* Updates the averages of all groups from @group up on @cpu: propagate_entity_cfs_rq(). */
__noinline bool propagate_hierarchy(u32 group, u32 cpu)
{
	forget_origin(group);
	forget_origin(cpu);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		update_group_entity_load_avg(group, group_rq_at(group, cpu), cpu);
		group = group_parent(group);
	}
	return true;
}

/* Updates the groups above a task of @own weight in @group that gets @cpu. Returns the task's weight, scaled. */
__noinline u64 set_next_hierarchy(u32 group, u32 cpu, u64 own)
{
	u64 weight = NICE_0_WEIGHT, entity = own << SCALE_LOAD_SHIFT;

	forget_origin(group);
	forget_origin(cpu);
	forget_origin(own);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		struct group_rq *grq = group_rq_at(group, cpu);

		weight = calc_prop_weight(group, cpu, entity, weight);
		update_group_entity_load_avg(group, grq, cpu);
		grq->h_curr = true;
		account_cfs_rq_runtime(group, grq, cpu, 0);
		entity = grq->se.h_weight;
		group = group_parent(group);
	}
	return calc_prop_weight(0, cpu, entity, weight);
}

/* Updates the groups above the running task, which is in @group, when it leaves @cpu. */
__noinline bool put_prev_hierarchy(u32 group, u32 cpu)
{
	forget_origin(group);
	forget_origin(cpu);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_group_entity_load_avg(group, grq, cpu);
		grq->h_curr = false;
		group = group_parent(group);
	}
	return true;
}

/* Updates the groups at a tick of the running task, of @own weight in @group. Returns the task's weight, scaled. */
__noinline u64 tick_hierarchy(u32 group, u32 cpu, u64 own)
{
	u64 weight = NICE_0_WEIGHT, entity = own << SCALE_LOAD_SHIFT;

	forget_origin(group);
	forget_origin(cpu);
	forget_origin(own);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		struct group_rq *grq = group_rq_at(group, cpu);

		weight = calc_prop_weight(group, cpu, entity, weight);
		update_group_entity_load_avg(group, grq, cpu);
		update_cfs_group(group, grq, cpu);
		entity = grq->se.h_weight;
		group = group_parent(group);
	}
	return calc_prop_weight(0, cpu, entity, weight);
}

/* Do the runqueue and its entity have nothing left that decays (skip_blocked_update(), cfs_rq_is_decayed())? */
static __always_inline bool is_decayed(const struct group_rq *grq)
{
	return !grq->queue.load_weight && !grq->propagate && !grq->removed.nr && !grq->avg.load_sum &&
	       !grq->avg.util_sum && !grq->avg.runnable_sum && !grq->tg_load_avg_contrib && !grq->se.avg.load_avg &&
	       !grq->se.avg.util_avg;
}

/* Updates the averages of all groups on @cpu, children before parents: __update_blocked_fair(). */
__noinline bool update_blocked_groups(u32 cpu)
{
	struct fair_rq *rq;
	int i;

	forget_origin(cpu);
	rq = rq_of(cpu);
	bpf_for(i, 1, nr_fair_groups) {
		u32 group = nr_fair_groups - i;
		struct group_rq *grq = group_rq_at(group, cpu);

		if (is_decayed(grq))
			continue;
		if (update_group_rq_load_avg(rq, grq))
			update_group_load_avg(group, grq);
		update_group_entity_load_avg(group, grq, cpu);
	}
	return true;
}

/*
 * The part that the runqueue of @group has in the CPU's load, as of this jiffy. It is computed level by level from
 * the root down: update_cfs_rq_h_load().
 */
__noinline u64 group_h_load(u32 group, u32 cpu, u64 jiffies)
{
	u32 path[MAX_GROUP_LEVELS];
	struct fair_rq *rq;
	u64 load, avg;
	u32 depth = 0;

	forget_origin(group);
	forget_origin(cpu);
	rq = rq_of(cpu);
	load = avg = not_negative(rq->avg.load_avg);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		struct group_rq *grq = group_rq_at(group, cpu);

		if (grq->last_h_load_update == jiffies + 1) {
			load = grq->h_load;
			avg = grq->avg.load_avg;
			break;
		}
		path[level] = group;
		depth = level + 1;
		group = group_parent(group);
	}
	for (int level = MAX_GROUP_LEVELS - 1; level >= 0; level--) {
		struct group_rq *grq;

		if (level >= (int)depth)
			continue;
		grq = group_rq_at(path[level], cpu);
		load = load * grq->se.avg.load_avg / (avg + 1);
		avg = grq->avg.load_avg;
		grq->h_load = load;
		grq->last_h_load_update = jiffies + 1;
	}
	return load;
}

#endif /* __EQUIPOISE_HIERARCHY_H */
