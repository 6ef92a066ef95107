/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The weight of a group on one CPU is in proportion to the part of the group's tasks that is on that CPU. Tasks on
 * other CPUs count by their averages, tasks on this CPU also by their current weight:
 *
 *	                       load
 *	weight = n * shares * ──────────────────────────────────────	load = max(current weight, load_avg)
 *	                      load_avg of the group elsewhere + load
 *
 * calc_group_shares() of Linux 7.3, where n is the number of CPUs or, if smaller, that of the group's runnable
 * tasks; before Linux 7.3, n was 1 (cgroup_mode).
 */
#ifndef __EQUIPOISE_SHARES_H
#define __EQUIPOISE_SHARES_H

#include "../../../weight.h"
#include "load_avg.h"

/* The average number of the group's runnable tasks, rounded down, but at least one: tg_tasks(). */
static __always_inline u64 tg_tasks(const struct fair_group *tg)
{
	s64 nr = tg->runnable_avg / SCHED_POWER_SCALE;

	return nr < 1 ? 1 : nr;
}

/* The factor n by which the weight of a group counts: calc_*_shares(). */
static __always_inline u64 concurrency(const struct fair_group *tg)
{
	u64 tasks = tg_tasks(tg), cpus = nr_cpus();

	switch (policy.cgroup_mode) {
	case CGROUP_MODE_CONCUR:
		return tasks < cpus ? tasks : cpus;
	case CGROUP_MODE_MAX:
		return cpus;
	case CGROUP_MODE_TASKS:
		return tasks;
	default:
		return 1;
	}
}

/* The weight of the entity of @grq, which has runnable tasks of @tg; scaled. */
static __always_inline u64 calc_group_shares(const struct fair_group *tg, const struct group_rq *grq)
{
	u64 load = scale_load_down(grq->queue.load_weight), tg_shares = tg->shares * concurrency(tg), shares,
	    shares_max = tg_shares;
	s64 tg_weight;

	if (policy.cgroup_mode == CGROUP_MODE_UP)
		return tg->shares;
	if (policy.cgroup_mode == CGROUP_MODE_MAX)
		shares_max = (u64)prio_to_weight[0] << SCALE_LOAD_SHIFT;
	if (load < grq->avg.load_avg)
		load = grq->avg.load_avg;
	tg_weight = READ_ONCE(tg->load_avg) - grq->tg_load_avg_contrib + load;
	shares = tg_shares * load;
	if (tg_weight > 0)
		shares /= tg_weight;
	if (shares > shares_max)
		shares = shares_max;
	return shares < MIN_SHARES ? MIN_SHARES : shares;
}

/* Changes the weight of the entities of the runqueue above that of @group on @cpu by @change. */
static __always_inline void add_weight_above(u32 group, u32 cpu, s64 change)
{
	u32 parent = group_parent(group);

	if (parent)
		__sync_fetch_and_add(&group_rq_at(parent, cpu)->queue.load_weight, change);
	else
		__sync_fetch_and_add(&rq_of(cpu)->group_load, change);
}

/*
 * Gives the entity of @grq, which competes in @queue, another @weight there. Its lag and the time until its
 * deadline keep their length. Until the entity is picked again, others may preempt it, because in Linux 6.12 a
 * changed deadline ends the protection (protect_slice()).
 */
static __always_inline void reweight_in_queue(struct eevdf_queue *queue, struct group_rq *grq, u64 weight)
{
	struct fair_entity *se = &grq->se;
	u64 was = se->h_weight, avg;

	if (!se->on_rq) {
		se->vlag = scale_signed(se->vlag, was, weight);
		return;
	}
	avg = avg_vruntime(queue);
	count_entity(queue, was, se->vruntime, -1);
	se->vruntime = avg - scale_signed(entity_lag(queue, avg, se), was, weight);
	se->deadline = avg + scale_signed(se->deadline - avg, was, weight);
	count_entity(queue, weight, se->vruntime, 1);
	if (queue->nr > 1)
		grq->vprot = se->vruntime;
}

/* Gives the entity of @group on @cpu another weight: reweight_entity(). */
static __always_inline void reweight_group_entity(u32 group, struct group_rq *grq, u32 cpu, u64 weight)
{
	struct load_avg *above = avg_above(group, cpu), *se = &grq->se.avg;
	u64 was = scale_load_down(grq->se.h_weight);

	if (grq->se.h_weight == weight)
		return;
	if (group_queues())
		reweight_in_queue(queue_of(group_parent(group), cpu), grq, weight);
	else if (grq->se.on_rq)
		add_weight_above(group, cpu, weight - grq->se.h_weight);
	update_sa(&above->load_avg, &above->load_sum, -se->load_avg, -(was * se->load_sum));
	grq->se.h_weight = weight;
	weight = scale_load_down(weight);
	se->load_avg = weight * se->load_sum / load_divider(se);
	update_sa(&above->load_avg, &above->load_sum, se->load_avg, weight * se->load_sum);
}

/* Recomputes the weight of the entity of @group on @cpu. An empty group keeps its weight. */
static __always_inline void update_cfs_group(u32 group, struct group_rq *grq, u32 cpu)
{
	if (grq->queue.load_weight && !(group_queues() && throttled_hierarchy(group, cpu)))
		reweight_group_entity(group, grq, cpu, calc_group_shares(fair_group_at(group), grq));
}

/*
 * @weight times @own, divided by the weight of the runqueue of @group or, at the root, by that of nice level 0:
 * __calc_prop_weight().
 */
static __always_inline u64 calc_prop_weight(u32 group, u32 cpu, u64 own, u64 weight)
{
	u64 load = group ? group_rq_at(group, cpu)->queue.load_weight : NICE_0_WEIGHT;

	weight = load ? weight * own / load : weight;
	return weight < MIN_SHARES ? MIN_SHARES : weight;
}

#endif /* __EQUIPOISE_SHARES_H */
