/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The weight of a group on a CPU, and the loads from which it follows, as in Linux 3.9:
 *
 *	                            weights of its queue here
 *	weight = tg->shares * ─────────────────────────────────────────────	(calc_cfs_shares())
 *	                      load_avg of the group elsewhere + weights here
 *
 * A queue's part of load_avg is the load of its entities: of the runnable entities, and of the sleeping ones, whose
 * load decays.
 */
#ifndef __EQUIPOISE_CFS_SHARES_H
#define __EQUIPOISE_CFS_SHARES_H

#include "group.bpf.h"

/* The length of a period of decay (update_cfs_rq_blocked_load()), as a power of two, in ns. */
#define DECAY_SHIFT 20

static __always_inline u64 decay_periods(u64 now)
{
	return now >> DECAY_SHIFT;
}

static __always_inline void subtract(u64 *from, u64 load)
{
	*from = *from > load ? *from - load : 0;
}

/*
 * Decays the load of sleepers in the queue of @group until @now, and adds the change of the queue's load to the
 * group's sum if it is more than an eighth, or if @force.
 */
static __always_inline void update_blocked_load(u32 group, struct group_rq *grq, u64 now, bool force)
{
	u64 periods = decay_periods(now), decays = periods - grq->last_decay;
	s64 delta;

	if ((s64)decays < 0)
		decays = 0;
	if (!decays && !force)
		return;
	if (decays) {
		grq->blocked_load_avg = decay_load(grq->blocked_load_avg, decays);
		grq->last_decay = periods;
	}
	delta = grq->runnable_load_avg + grq->blocked_load_avg - grq->tg_load_avg_contrib;
	if (force || (delta < 0 ? -delta : delta) > (s64)(grq->tg_load_avg_contrib / 8)) {
		__sync_fetch_and_add(&fair_group_at(group)->load_avg, delta);
		grq->tg_load_avg_contrib += delta;
	}
}

/* Updates the queue's part of the group's runnable time: __update_tg_runnable_avg(). */
static __always_inline void update_tg_runnable(struct fair_group *tg, struct group_rq *grq)
{
	s64 contrib = (u64)grq->avg.runnable_sum * NICE_0_LOAD / (grq->avg.period_sum + 1);

	contrib -= grq->tg_runnable_contrib;
	if ((contrib < 0 ? -contrib : contrib) <= (s64)(grq->tg_runnable_contrib / 64))
		return;
	__sync_fetch_and_add(&tg->runnable_avg, contrib);
	grq->tg_runnable_contrib += contrib;
}

/*
 * The load of the entity of @grq: its part of the group's load times the group's weight, and less if the group has
 * runnable tasks only at times (__update_group_entity_contrib()).
 */
static __always_inline u64 group_contrib(const struct fair_group *tg, const struct group_rq *grq)
{
	s64 load = READ_ONCE(tg->load_avg), runnable = READ_ONCE(tg->runnable_avg);
	u64 contrib = grq->tg_load_avg_contrib * tg->shares / ((load > 0 ? load : 0) + 1);

	if (runnable < NICE_0_LOAD)
		contrib = contrib * (runnable > 0 ? runnable : 0) / NICE_0_LOAD;
	return contrib;
}

/* Updates the entity of @group on @cpu: update_entity_load_avg(). */
static __always_inline void update_group_entity(u32 group, struct group_rq *grq, u32 cpu, u64 now)
{
	struct fair_group *tg = fair_group_at(group);
	u32 parent = group_parent(group);
	u64 contrib;

	if (!update_pelt(&grq->avg, now, grq->on_rq, grq->h_curr))
		return;
	update_tg_runnable(tg, grq);
	contrib = group_contrib(tg, grq);
	if (grq->on_rq)
		__sync_fetch_and_add(runnable_load_of(parent, cpu), contrib - grq->load_avg_contrib);
	grq->load_avg_contrib = contrib;
}

/* The weight of the entity of @grq: calc_cfs_shares(). */
static __always_inline u64 calc_cfs_shares(const struct fair_group *tg, const struct group_rq *grq)
{
	s64 tg_weight = READ_ONCE(tg->load_avg) - grq->tg_load_avg_contrib + grq->load_weight;
	u64 shares = tg->shares * grq->load_weight;

	if (tg_weight > 0)
		shares /= tg_weight;
	if (shares < MIN_SHARES)
		shares = MIN_SHARES;
	return shares > tg->shares ? tg->shares : shares;
}

static __always_inline void set_group_entity_weight(struct group_rq *grq, u64 weight)
{
	grq->weight = weight;
	grq->inv_weight = (1ULL << 32) / weight;
}

/* Recomputes the weight of the entity of @group on @cpu: update_cfs_shares(). */
static __always_inline void update_cfs_shares(u32 group, struct group_rq *grq, u32 cpu)
{
	u64 weight, was = grq->weight;

	if (any_group_is_limited() && throttled_hierarchy(group, cpu))
		return;
	weight = calc_cfs_shares(fair_group_at(group), grq);
	if (weight == was)
		return;
	if (grq->on_rq)
		__sync_fetch_and_add(load_weight_of(group_parent(group), cpu), weight - was);
	set_group_entity_weight(grq, weight);
}

/* The load with which balancing counts an entity, or a queue. */
static __always_inline u64 balanced_load(u64 weight, u64 contrib)
{
	return policy.load_tracking == LOAD_PELT ? contrib : weight;
}

/* The part that the queue of @group on @cpu has in its CPU's load: tg_load_down(). */
__noinline u64 group_h_load(u32 group, u32 cpu)
{
	u32 path[MAX_GROUP_LEVELS], depth = 0;
	u64 load = weighted_cpuload(cpu);

	forget_origin(group);
	forget_origin(cpu);
	for (; group && depth < MAX_GROUP_LEVELS; group = group_parent(group))
		path[depth++] = group;
	while (depth) {
		u32 child = path[--depth], parent = group_parent(child);
		const struct group_rq *grq = group_rq_at(child, cpu);

		load = load * balanced_load(grq->weight, grq->load_avg_contrib) /
		       (balanced_load(*load_weight_of(parent, cpu), *runnable_load_of(parent, cpu)) + 1);
	}
	return load;
}

/*
 * The change of the load of @cpu if tasks of weight @wl came to @group there, and tasks of weight @wg to the group
 * as a whole; negative if they leave: effective_load().
 */
__noinline s64 effective_load(u32 group, u32 cpu, s64 wl, s64 wg)
{
	forget_origin(group);
	forget_origin(cpu);
	for (int level = 0; level < MAX_GROUP_LEVELS && group; level++) {
		const struct group_rq *grq = group_rq_at(group, cpu);
		const struct fair_group *tg = fair_group_at(group);
		s64 w = grq->load_weight + wl,
		    all = wg + READ_ONCE(tg->load_avg) - grq->tg_load_avg_contrib + grq->load_weight;

		wl = all > 0 && w < all ? w * (s64)tg->shares / all : (s64)tg->shares;
		if (wl < MIN_SHARES)
			wl = MIN_SHARES;
		wl -= grq->weight;
		wg = 0;
		group = group_parent(group);
	}
	return wl;
}

#endif /* __EQUIPOISE_CFS_SHARES_H */
