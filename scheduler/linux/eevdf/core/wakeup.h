/* SPDX-License-Identifier: GPL-2.0-only */
/* Decides whether a task that has become runnable preempts the running task: wakeup_preempt_fair() of Linux 7.3. */
#ifndef __EQUIPOISE_WAKEUP_H
#define __EQUIPOISE_WAKEUP_H

#include "../group/pick.bpf.h"

/* Records why @se, which has become runnable, does not preempt @curr. */
static __always_inline void explain_turn(const struct running *curr, const struct fair_entity *se)
{
	if (is_protected(curr))
		explain(protected_turn, se->pid, se->cpu, curr->pid, curr->vprot - curr->vruntime);
	else
		explain(later_deadline, se->pid, se->cpu, curr->pid, curr->deadline - se->deadline);
}

/* Would @se be picked now on @rq, with the average at @avg? If not, records the reason. */
static __always_inline bool wakeup_is_best(struct fair_rq *rq, const struct fair_entity *se, u64 avg)
{
	struct running *curr = &rq->curr;

	if (!eligible(avg, se->vruntime)) {
		explain(not_eligible, se->pid, se->cpu, curr->pid, se->vruntime - avg);
		return false;
	}
	/* A task with a shorter request need not wait for the end of the slice. */
	if (se->slice < curr->slice) {
		/* In 6.12 it must also be the pick without the protection (do_preempt_short()). */
		if (policy.min_slice_protection)
			return true;
		if (time_before(se->deadline, curr->deadline) || !eligible(avg, curr->vruntime))
			curr->vprot = curr->vruntime;
	}
	if (eligible(avg, curr->vruntime) && (is_protected(curr) || time_before(curr->deadline, se->deadline))) {
		explain_turn(curr, se);
		return false;
	}
	if (rq->first_deadline != ~0ULL && time_before(rq->first_deadline, se->deadline)) {
		explain(later_deadline, se->pid, se->cpu, curr->pid, curr->deadline - se->deadline);
		return false;
	}
	return !rq->nr_delayed || !delayed_is_better(se->cpu, avg, se->deadline);
}

/*
 * Notes @se, which preempts for its shorter slice, as the task that runs next, unless a task with an even shorter
 * slice is noted already (set_short_buddy()).
 */
static __always_inline void set_short_buddy(struct fair_rq *rq, const struct fair_entity *se)
{
	if (!policy.pick_buddy || (rq->buddy && rq->buddy_slice < se->slice))
		return;
	rq->buddy = se->pid;
	rq->buddy_slice = se->slice;
}

/*
 * Should @se of @p, which has become runnable on the CPU of @rq, preempt the running task? It should if it would be
 * picked now. The CPU then has to reschedule.
 */
static __always_inline bool check_preempt_wakeup(struct fair_rq *rq, const struct task_struct *p,
						 const struct fair_entity *se)
{
	struct running *curr = &rq->curr;
	bool curr_idle = curr->policy == SCHED_IDLE, idle = p->policy == SCHED_IDLE;
	bool shorter = se->slice < curr->slice;

	if (rq->need_resched)
		return false;
	if (group_queues())
		return preempts_in_queues(rq, p, se);
	if (!curr_idle || idle) {
		/*
		 * Batch and idle tasks wait for the end of the running task's slice. In Linux 7.3, new tasks do,
		 * too, unless their own slice is shorter.
		 */
		if (curr_idle != idle || p->policy == SCHED_BATCH || idle ||
		    (se->is_new && !shorter && !policy.fork_preempts) ||
		    !wakeup_is_best(rq, se, avg_vruntime(&rq->queue))) {
			shorten_protection(rq, curr);
			return false;
		}
		if (shorter)
			set_short_buddy(rq, se);
	}
	if (policy.min_slice_protection || curr_idle)
		curr->vprot = curr->vruntime;
	explain(earlier_deadline, se->pid, se->cpu, curr->pid, curr->deadline - se->deadline);
	this_counters()->wakeup_preemptions++;
	return true;
}

#endif /* __EQUIPOISE_WAKEUP_H */
