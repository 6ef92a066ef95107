/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Picks the task that runs next where groups have queues (queues.h): from the root's queue downwards, each queue
 * picks an entity, until that is a task, as pick_next_task_fair() of Linux 3.9 does. The tasks of all groups wait
 * in the dispatch queue of their CPU, where each queue looks for its own tasks.
 */
#ifndef __EQUIPOISE_CFS_GROUP_PICK_H
#define __EQUIPOISE_CFS_GROUP_PICK_H

#include "../core/fair.h"

/* An entity of a queue: a task, or a group. */
struct group_pick {
	s32 pid;
	u32 group;
	u32 weight;
	u32 inv_weight;
	u64 vruntime;
};

/* The entities of a queue that may run next. */
struct group_picks {
	struct group_pick first, second;
	/* The buddies, and the entity that yields. */
	struct group_pick next, last, skip;
};

static __always_inline bool is_entity(struct group_pick one)
{
	return one.pid || one.group;
}

static __always_inline bool is_same(struct group_pick a, struct group_pick b)
{
	return a.pid == b.pid && a.group == b.group;
}

/*
 * Is @one the task @pid, or a group that contains it? @one is an entity of the queue of @group, and @pid is in the
 * group @in.
 */
static __always_inline bool leads_to(struct group_pick one, u32 group, s32 pid, u32 in)
{
	if (!pid)
		return false;
	return one.pid ? one.pid == pid : one.group == child_below(in, group);
}

static __always_inline void consider(struct group_picks *picks, const struct fair_rq *rq, u32 group,
				     struct group_pick one)
{
	if (!is_entity(picks->first) || time_before(one.vruntime, picks->first.vruntime)) {
		picks->second = picks->first;
		picks->first = one;
	} else if (!is_entity(picks->second) || time_before(one.vruntime, picks->second.vruntime)) {
		picks->second = one;
	}
	if (leads_to(one, group, rq->next_pid, rq->next_group))
		picks->next = one;
	if (leads_to(one, group, rq->last_pid, rq->last_group))
		picks->last = one;
}

static __always_inline struct group_pick pick_of_group(u32 group, u32 cpu)
{
	const struct group_rq *grq = group_rq_at(group, cpu);

	return (struct group_pick){
		.group = group, .weight = grq->weight, .inv_weight = grq->inv_weight, .vruntime = grq->vruntime
	};
}

/* The running entity of the queue of @group on @cpu; none if the running task is elsewhere or does not continue. */
static __always_inline struct group_pick running_entity(u32 group, u32 cpu, const struct fair_rq *rq, bool goes_on)
{
	u32 child;

	if (!goes_on)
		return (struct group_pick){};
	if (rq->curr.group == group)
		return (struct group_pick){ .pid = rq->curr.pid,
					    .weight = rq->curr.weight,
					    .inv_weight = rq->curr.inv_weight,
					    .vruntime = rq->curr.vruntime };
	child = child_below(rq->curr.group, group);
	return child ? pick_of_group(child, cpu) : (struct group_pick){};
}

/* pick_next_entity(): the first entity, unless it yields, or a buddy is almost as far behind. */
static __always_inline struct group_pick choose(const struct group_picks *picks)
{
	struct group_pick left = picks->first, best = left;

	if (is_entity(picks->skip) && is_same(picks->skip, best) && is_entity(picks->second) &&
	    wakeup_preempt_entity(picks->second.vruntime, left.vruntime, left.weight, left.inv_weight) < 1)
		best = picks->second;
	if (is_entity(picks->last) &&
	    wakeup_preempt_entity(picks->last.vruntime, left.vruntime, left.weight, left.inv_weight) < 1)
		best = picks->last;
	if (is_entity(picks->next) &&
	    wakeup_preempt_entity(picks->next.vruntime, left.vruntime, left.weight, left.inv_weight) < 1)
		best = picks->next;
	return best;
}

/* The entity of the queue of @group on @cpu that runs next. If @goes_on, it may be the running task. */
static __noinline struct group_pick pick_from_queue(u32 group, u32 cpu, bool goes_on)
{
	struct fair_rq *rq = rq_of(cpu);
	struct group_pick runs = running_entity(group, cpu, rq, goes_on), best;
	struct group_picks picks = {};
	struct task_struct *p;

	if (is_entity(runs)) {
		consider(&picks, rq, group, runs);
		if (rq->skip)
			picks.skip = runs;
	}
	bpf_for_each(scx_dsq, p, cpu, 0) {
		const struct fair_entity *se = entity_of(p);

		if (se && se->on_rq && se->group == group)
			consider(&picks, rq, group,
				 (struct group_pick){ .pid = p->pid,
						      .weight = se->weight,
						      .inv_weight = se->inv_weight,
						      .vruntime = se->vruntime });
	}
	for (u32 child = group + 1; child < nr_fair_groups; child++)
		if (fair_group_at(child)->level && group_parent(child) == group && child != runs.group &&
		    group_rq_at(child, cpu)->on_rq)
			consider(&picks, rq, group, pick_of_group(child, cpu));
	best = choose(&picks);
	picks.first = is_same(best, picks.first) ? picks.second : picks.first;
	*leftmost_of(group, cpu) = is_entity(picks.first) ? picks.first.vruntime : ~0ULL;
	return best;
}

/* Starts the next task on @cpu; @prev is the running task if it can continue. Returns false if there is no task. */
static __noinline bool start_from_queues(u32 cpu, struct task_struct *prev, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u32 group = 0;

	if (prev) {
		update_curr(cpu, now);
		if (any_group_is_limited())
			throttle_prev_groups(rq->curr.group, cpu, now);
		rq->curr_throttled = false;
		if (throttled_hierarchy(rq->curr.group, cpu))
			prev = NULL;
	}
	for (int level = 0; level < MAX_GROUP_LEVELS; level++) {
		struct group_pick next = pick_from_queue(group, cpu, prev);

		if (!is_entity(next))
			return false;
		if (next.pid && prev && next.pid == prev->pid) {
			set_next_groups(rq->curr.group, cpu);
			keep_prev(rq, prev);
			return true;
		}
		if (next.pid)
			return start_from(cpu, next.pid);
		group = next.group;
	}
	return false;
}

#endif /* __EQUIPOISE_CFS_GROUP_PICK_H */
