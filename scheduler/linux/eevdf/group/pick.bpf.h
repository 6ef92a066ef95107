/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Picks the task that runs next where groups have queues (queues.h): from the root's queue downwards, each queue
 * picks the eligible entity with the earliest deadline, or the running one while it is protected, until that entity
 * is a task. The tasks of all groups wait in the dispatch queues of their CPU, where each queue looks for its own
 * tasks.
 */
#ifndef __EQUIPOISE_GROUP_PICK_H
#define __EQUIPOISE_GROUP_PICK_H

#include "../core/eevdf.h"

/* The dispatch queues of @cpu: eligible tasks, and the others. With queues of groups, the first one has all. */
static __always_inline u64 eligible_dsq(u32 cpu)
{
	return cpu;
}

static __always_inline u64 ineligible_dsq(u32 cpu)
{
	return MAX_CPUS + cpu;
}

/* An entity of a queue: a task, a task that sleeps and whose dequeue is delayed, or a group. */
struct group_pick {
	s32 pid;
	/* The number of the sleeper's slot, plus 1 (delayed.h). */
	u32 slot;
	u32 group;
	bool eligible;
	u64 vruntime;
	u64 deadline;
};

/*
 * Notes @one if it is to be picked before @best. If rounding has left no eligible entity, the one with the smallest
 * vruntime counts as the best.
 */
static __always_inline void consider(struct group_pick *best, struct group_pick one, u64 avg)
{
	bool any = best->pid || best->group, better;

	one.eligible = eligible(avg, one.vruntime);
	if (one.eligible != best->eligible)
		better = one.eligible;
	else
		better = one.eligible ? time_before(one.deadline, best->deadline)
				      : time_before(one.vruntime, best->vruntime);
	if (!any || better)
		*best = one;
}

/* The entity of the queue of @group that runs, because @curr does. Returns false if there is none. */
static __always_inline bool running_entity(u32 group, u32 cpu, const struct running *curr, struct group_pick *found,
					   bool *protected)
{
	u32 child = curr->charged_group;
	const struct group_rq *grq;

	if (!curr->pid)
		return false;
	if (child == group) {
		*found = (struct group_pick){ .pid = curr->pid,
					      .vruntime = curr->vruntime,
					      .deadline = curr->deadline };
		*protected = is_protected(curr);
		return true;
	}
	while (child && group_parent(child) != group)
		child = group_parent(child);
	grq = group_rq_at(child, cpu);
	if (!child || !grq->se.on_rq)
		return false;
	*found = (struct group_pick){ .group = child, .vruntime = grq->se.vruntime, .deadline = grq->se.deadline };
	*protected = time_before(grq->se.vruntime, grq->vprot);
	return true;
}

static __always_inline void consider_tasks(struct group_pick *best, u32 group, u64 dsq, u64 avg)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		const struct fair_entity *se = entity_of(p);

		if (se && se->on_rq && se->group == group)
			consider(best,
				 (struct group_pick){
					 .pid = p->pid, .vruntime = se->vruntime, .deadline = se->deadline },
				 avg);
	}
}

static __always_inline void consider_groups(struct group_pick *best, u32 parent, u32 cpu, u32 runs, u64 avg)
{
	for (u32 group = parent + 1; group < nr_fair_groups; group++) {
		const struct fair_entity *se = &group_rq_at(group, cpu)->se;

		if (fair_group_at(group)->level && group_parent(group) == parent && group != runs && se->on_rq)
			consider(best,
				 (struct group_pick){
					 .group = group, .vruntime = se->vruntime, .deadline = se->deadline },
				 avg);
	}
}

static __always_inline void consider_sleepers(struct group_pick *best, u32 group, u32 cpu, u64 avg)
{
	u64 mask = rq_of(cpu)->delayed_mask;

	for (; mask; mask &= mask - 1) {
		u32 nr = __builtin_ctzll(mask);
		const struct delayed_slot *slot = delayed_slot(cpu, nr);

		if (slot->group == group)
			consider(best,
				 (struct group_pick){ .pid = slot->pid,
						      .slot = nr + 1,
						      .vruntime = slot->vruntime,
						      .deadline = slot->deadline },
				 avg);
	}
}

/* pick_eevdf() of the queue of @group on @cpu, on which @curr runs and @arrives, if any, has become runnable. */
static __noinline struct group_pick pick_from_queue(u32 group, u32 cpu, const struct running *curr,
						    const struct fair_entity *arrives)
{
	u64 avg = avg_vruntime(queue_of(group, cpu));
	struct group_pick best = {}, running = {};
	bool protected = false, runs = running_entity(group, cpu, curr, &running, &protected);

	if (runs && protected && eligible(avg, running.vruntime))
		return running;
	consider_tasks(&best, group, eligible_dsq(cpu), avg);
	consider_tasks(&best, group, ineligible_dsq(cpu), avg);
	if (arrives && arrives->group == group)
		consider(&best,
			 (struct group_pick){ .pid = arrives->pid,
					      .vruntime = arrives->vruntime,
					      .deadline = arrives->deadline },
			 avg);
	consider_groups(&best, group, cpu, runs ? running.group : 0, avg);
	consider_sleepers(&best, group, cpu, avg);
	if (runs)
		consider(&best, running, avg);
	return best;
}

/*
 * The pid of the task that @cpu runs next, 0 if there is none; @curr runs there, if it can continue. Queues that
 * have used up their time, sleepers and empty groups leave when they would be picked: pick_task_fair().
 */
static __noinline s32 pick_from_queues(u32 cpu, const struct running *curr)
{
	const struct h_counts none = {};
	u32 group = 0;

	while (queue_of(group, cpu)->nr) {
		struct group_pick next;

		if (group && check_cfs_rq_runtime(group, cpu)) {
			group = 0;
			continue;
		}
		next = pick_from_queue(group, cpu, curr, NULL);
		if (!next.pid && !next.group)
			break;
		if (next.slot) {
			end_delay(cpu, next.slot - 1, next.pid);
			group = 0;
		} else if (next.pid) {
			return next.pid;
		} else if (group_rq_at(next.group, cpu)->se.delayed) {
			dequeue_above(next.group, cpu, none, true);
			group = 0;
		} else {
			group = next.group;
		}
	}
	return 0;
}

static __always_inline void keep_running(struct fair_rq *rq, u32 cpu, struct task_struct *prev)
{
	if (rq->nr_running > 1)
		explain(still_best, prev->pid, cpu, rq->nr_running);
	rq->need_resched = false;
	prev->scx.slice = SCX_SLICE_INF;
}

/* Starts the next task on @cpu; @prev is the running task if it can continue. Returns false if there is no task. */
static __noinline bool start_from_queues(u32 cpu, struct task_struct *prev)
{
	struct running none = {};
	struct fair_rq *rq = rq_of(cpu);
	s32 pid = pick_from_queues(cpu, prev ? &rq->curr : &none);

	if (!pid)
		return false;
	if (!prev || prev->pid != pid)
		return start_from(eligible_dsq(cpu), pid) || start_from(ineligible_dsq(cpu), pid);
	rq->curr_throttled = false;
	keep_running(rq, cpu, prev);
	return true;
}

/*
 * Does the waking task @p with @se get the CPU from the running task? Both compete in the queue of the group
 * @level_of, in which the groups @child and @runs represent them; 0 is the task itself.
 */
static __always_inline bool preempts_at(struct fair_rq *rq, const struct task_struct *p,
					const struct fair_entity *se, u32 level_of, u32 child, u32 runs)
{
	struct running *curr = &rq->curr;
	const struct fair_entity *wakes = child ? &group_rq_at(child, se->cpu)->se : se;
	struct group_rq *grq = runs ? group_rq_at(runs, se->cpu) : NULL;
	bool normal = p->policy != SCHED_BATCH && p->policy != SCHED_IDLE;
	bool idle = child ? fair_group_at(child)->idle : p->policy == SCHED_IDLE;
	bool curr_idle = runs ? fair_group_at(runs)->idle : curr->policy == SCHED_IDLE;
	u64 avg = avg_vruntime(queue_of(level_of, se->cpu)), vruntime = grq ? grq->se.vruntime : curr->vruntime,
	    deadline = grq ? grq->se.deadline : curr->deadline, slice = grq ? grq->se.slice : curr->slice;
	struct group_pick first;

	/*
	 * The running entity is no longer protected from a task with a shorter slice (do_preempt_short()) or, if it
	 * is idle, from a task that is not idle.
	 */
	if ((curr_idle && !idle) ||
	    (curr_idle == idle && normal && wakes->slice < slice && eligible(avg, wakes->vruntime) &&
	     (time_before(wakes->deadline, deadline) || !eligible(avg, vruntime)))) {
		if (grq)
			grq->vprot = vruntime;
		else
			curr->vprot = vruntime;
	}
	if (curr_idle != idle)
		return curr_idle;
	if (!normal)
		return false;
	first = pick_from_queue(level_of, se->cpu, curr, se);
	return child ? first.group == child : first.pid == se->pid && !first.group && !first.slot;
}

/* Should @p with @se, which has become runnable, preempt the running task? */
static __noinline bool preempts_in_queues(struct fair_rq *rq, const struct task_struct *p,
					  const struct fair_entity *se)
{
	struct matching in = find_matching(se->group, rq->curr.charged_group);

	if (!preempts_at(rq, p, se, in.group, in.se, in.curr)) {
		explain(later_deadline, se->pid, se->cpu, rq->curr.pid, rq->curr.deadline - se->deadline);
		return false;
	}
	explain(earlier_deadline, se->pid, se->cpu, rq->curr.pid, rq->curr.deadline - se->deadline);
	this_counters()->wakeup_preemptions++;
	return true;
}

#endif /* __EQUIPOISE_GROUP_PICK_H */
