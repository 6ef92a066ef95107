/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The averages of groups' runqueues and entities. A runqueue's averages are the sums over its tasks and groups. If
 * tasks come or go, the group's entity takes over the change when it is next updated, and so does the group above
 * (propagate_entity_load_avg()). Each CPU updates its part of the sum of a group's load over all CPUs at most once
 * per ms.
 */
#ifndef __EQUIPOISE_GROUP_LOAD_AVG_H
#define __EQUIPOISE_GROUP_LOAD_AVG_H

#include "group.bpf.h"

/* Makes the averages of a throttled runqueue stand still while no task is queued there. */
static __always_inline void stop_pelt_clock(const struct fair_rq *rq, struct group_rq *grq)
{
	if (grq->pelt_clock_throttled)
		return;
	grq->throttled_clock_pelt = rq_clock_pelt(rq);
	grq->pelt_clock_throttled = true;
}

static __always_inline void start_pelt_clock(const struct fair_rq *rq, struct group_rq *grq)
{
	if (!grq->pelt_clock_throttled)
		return;
	grq->throttled_clock_pelt_time += rq_clock_pelt(rq) - grq->throttled_clock_pelt;
	grq->pelt_clock_throttled = false;
}

/*
 * Stops the clock of the averages of @grq, which is throttled on @cpu, if no task is queued there. With queues of
 * groups, switch_pelt_clocks() does so.
 */
static __always_inline void queue_throttled(struct group_rq *grq, u32 cpu)
{
	if (!group_queues() && !grq->queue.nr)
		stop_pelt_clock(rq_of(cpu), grq);
}

#define PELT_MIN_DIVIDER (LOAD_AVG_MAX - 1024)

/* Adds to an average and its sum, which remain consistent: __update_sa(). */
static __always_inline void update_sa(u64 *avg, u64 *sum, s64 delta_avg, s64 delta_sum)
{
	s64 new_avg = *avg + delta_avg, new_sum = *sum + delta_sum;

	*avg = new_avg < 0 ? 0 : new_avg;
	if (new_sum < (s64)(*avg * PELT_MIN_DIVIDER))
		new_sum = *avg * PELT_MIN_DIVIDER;
	*sum = new_sum;
}

static __always_inline void add_tg_cfs_propagate(struct group_rq *grq, s64 runnable_sum)
{
	grq->propagate = true;
	grq->prop_runnable_sum += runnable_sum;
}

/* Subtracts tasks that woke up on other CPUs from the averages of @grq. */
static __noinline void apply_removed_group_load(struct group_rq *grq)
{
	struct removed_load *removed = &grq->removed;
	struct load_avg *avg = &grq->avg;
	u64 divider = load_divider(avg), load, runnable, util;

	WRITE_ONCE(removed->nr, 0);
	load = __sync_fetch_and_and(&removed->load_avg, 0);
	runnable = __sync_fetch_and_and(&removed->runnable_avg, 0);
	util = __sync_fetch_and_and(&removed->util_avg, 0);
	update_sa(&avg->load_avg, &avg->load_sum, -load, -(load * divider));
	update_sa(&avg->util_avg, &avg->util_sum, -util, -(util * divider));
	update_sa(&avg->runnable_avg, &avg->runnable_sum, -runnable, -(runnable * divider));
	add_tg_cfs_propagate(grq, (s64) - (runnable * divider) >> 10);
}

/* Updates the averages of @grq to its clock. Returns true if they have decayed, or tasks have left. */
static __always_inline bool update_group_rq_load_avg(const struct fair_rq *rq, struct group_rq *grq)
{
	bool decayed = false;

	if (READ_ONCE(grq->removed.nr)) {
		apply_removed_group_load(grq);
		decayed = true;
	}
	if (!update_load_sums(&grq->avg, group_clock_pelt(rq, grq), scale_load_down(grq->queue.load_weight),
			      grq->h_nr_runnable, grq->h_curr))
		return decayed;
	update_load_avgs(&grq->avg, 1);
	return true;
}

static __always_inline bool differs(s64 delta, u64 contrib)
{
	return (delta < 0 ? -delta : delta) > (s64)(contrib / 64);
}

/* Adds the change of the averages of @grq to those of its @group: update_tg_load_avg(). */
static __always_inline void update_group_load_avg(u32 group, struct group_rq *grq)
{
	u64 now = bpf_ktime_get_ns();
	struct fair_group *tg = fair_group_at(group);
	s64 load, runnable;

	if (now - grq->last_update_tg_load_avg < 1000000)
		return;
	load = grq->avg.load_avg - grq->tg_load_avg_contrib;
	runnable = grq->avg.runnable_avg - grq->tg_runnable_avg_contrib;
	if (!differs(load, grq->tg_load_avg_contrib) && !differs(runnable, grq->tg_runnable_avg_contrib))
		return;
	__sync_fetch_and_add(&tg->load_avg, load);
	__sync_fetch_and_add(&tg->runnable_avg, runnable);
	grq->tg_load_avg_contrib = grq->avg.load_avg;
	grq->tg_runnable_avg_contrib = grq->avg.runnable_avg;
	grq->last_update_tg_load_avg = now;
}

/* The averages of the runqueue that has the entity of @group on @cpu. */
static __always_inline struct load_avg *avg_above(u32 group, u32 cpu)
{
	u32 parent = group_parent(group);

	return parent ? &group_rq_at(parent, cpu)->avg : &rq_of(cpu)->avg;
}

/* Sets the entity's average to that of its runqueue: update_tg_cfs_util(), update_tg_cfs_runnable(). */
static __always_inline void update_tg_cfs_avg(u64 *avg, u64 *sum, u64 *above, u64 *above_sum, u64 new_avg,
					      u64 divider)
{
	u64 new_sum = new_avg * divider;
	s64 delta_avg = new_avg - *avg, delta_sum = new_sum - *sum;

	if (!delta_avg)
		return;
	*avg = new_avg;
	*sum = new_sum;
	update_sa(above, above_sum, delta_avg, delta_sum);
}

/*
 * Computes the load of the entity of @grq after tasks came or went. A task that came adds the time for which it was
 * runnable; after a task that went, all others are assumed to have been runnable equally (update_tg_cfs_load()).
 */
static __always_inline void update_tg_cfs_load(struct group_rq *grq, struct load_avg *above)
{
	s64 runnable_sum = grq->prop_runnable_sum, running_sum, delta_avg;
	u64 divider = load_divider(above), weight = scale_load_down(grq->se.h_weight), load_sum = 0, load_avg;

	if (!runnable_sum)
		return;
	grq->prop_runnable_sum = 0;
	if (runnable_sum >= 0) {
		runnable_sum += grq->se.avg.load_sum;
		if (runnable_sum > (s64)divider)
			runnable_sum = divider;
	} else {
		if (scale_load_down(grq->queue.load_weight))
			load_sum = grq->avg.load_sum / scale_load_down(grq->queue.load_weight);
		runnable_sum = grq->se.avg.load_sum < load_sum ? grq->se.avg.load_sum : load_sum;
	}
	running_sum = grq->se.avg.util_sum >> 10;
	if (runnable_sum < running_sum)
		runnable_sum = running_sum;
	load_sum = weight * runnable_sum;
	load_avg = load_sum / divider;
	delta_avg = load_avg - grq->se.avg.load_avg;
	if (!delta_avg)
		return;
	update_sa(&above->load_avg, &above->load_sum, delta_avg, load_sum - weight * grq->se.avg.load_sum);
	grq->se.avg.load_sum = runnable_sum;
	grq->se.avg.load_avg = load_avg;
}

/* If tasks have come to @grq or left it, updates @grq's entity and the runqueue above, and returns true. */
static __always_inline bool propagate_entity_load_avg(u32 group, struct group_rq *grq, u32 cpu)
{
	u32 parent = group_parent(group);
	struct load_avg *above = avg_above(group, cpu);
	u64 divider = load_divider(above);

	if (!grq->propagate)
		return false;
	grq->propagate = false;
	if (parent)
		add_tg_cfs_propagate(group_rq_at(parent, cpu), grq->prop_runnable_sum);
	update_tg_cfs_avg(&grq->se.avg.util_avg, &grq->se.avg.util_sum, &above->util_avg, &above->util_sum,
			  grq->avg.util_avg, divider);
	update_tg_cfs_avg(&grq->se.avg.runnable_avg, &grq->se.avg.runnable_sum, &above->runnable_avg,
			  &above->runnable_sum, grq->avg.runnable_avg, divider);
	update_tg_cfs_load(grq, above);
	return true;
}

/* Updates the entity of @group on @cpu and the runqueue that has it: update_load_avg(). */
static __always_inline void update_group_entity_load_avg(u32 group, struct group_rq *grq, u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);
	u32 parent = group_parent(group);
	struct group_rq *above = parent ? group_rq_at(parent, cpu) : NULL;
	u64 clock = above ? group_clock_pelt(rq, above) : rq_clock_pelt(rq);
	bool decayed = false;

	/* The entity has just been updated, and with it the runqueue above. */
	if (clock - grq->se.avg.last_update_time < 1024 && !grq->propagate)
		return;
	if (update_load_sums(&grq->se.avg, clock, grq->se.on_rq, grq->runnable_weight, grq->h_curr))
		update_load_avgs(&grq->se.avg, scale_load_down(grq->se.h_weight));
	if (above)
		decayed = update_group_rq_load_avg(rq, above);
	else
		update_rq_load_avg(rq);
	decayed |= propagate_entity_load_avg(group, grq, cpu);
	if (above && decayed)
		update_group_load_avg(parent, above);
}

/*
 * Calls update_group_entity_load_avg() when tasks have come to the queue of @group on @cpu or left it, and then
 * does the work of se_update_runnable().
 */
static __always_inline void update_group_runnable(u32 group, struct group_rq *grq, u32 cpu)
{
	update_group_entity_load_avg(group, grq, cpu);
	grq->runnable_weight = grq->h_nr_runnable;
}

#endif /* __EQUIPOISE_GROUP_LOAD_AVG_H */
