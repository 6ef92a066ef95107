/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Picks the next task: the task with the smallest vruntime, unless a buddy is almost as far behind. This is
 * pick_next_entity() of Linux 3.9.
 */
#ifndef __EQUIPOISE_PICK_H
#define __EQUIPOISE_PICK_H

#include "fair.h"
#include "../group/pick.h"

/*
 * Starts the waiting task @pid if it is at most a wakeup granularity ahead of the leftmost task,
 * which is @prev (NULL: none) or the first of the queue.
 */
static __noinline bool pick_buddy(u32 cpu, s32 pid, struct fair_entity *prev)
{
	u64 left = prev ? rq_of(cpu)->curr.vruntime : 0;
	struct fair_entity *left_se = prev;
	u32 weight = 0, inv_weight = 0;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		if (!weight) {
			if (!left_se || time_before(p->scx.dsq_vtime, left)) {
				left = p->scx.dsq_vtime;
				left_se = entity_of(p);
			}
			if (!left_se)
				return false;
			weight = left_se->weight;
			inv_weight = left_se->inv_weight;
		}
		/* Later tasks have even larger vruntimes. */
		if (wakeup_preempt_entity(p->scx.dsq_vtime, left, weight, inv_weight) == 1)
			return false;
		if (p->pid == pid)
			return scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
	}
	return false;
}

/* Starts the next task on @cpu; @prev is the running task and @se its entity, if it can continue. */
static __always_inline void pick_next_entity(u32 cpu, struct task_struct *prev, struct fair_entity *se, u64 now)
{
	u64 first = ~0ULL, second = ~0ULL;
	struct fair_rq *rq = rq_of(cpu);
	struct task_struct *p;

	if (group_queues()) {
		start_from_queues(cpu, se ? prev : NULL, now);
		return;
	}
	bpf_for_each(scx_dsq, p, cpu, 0) {
		if (first != ~0ULL) {
			second = p->scx.dsq_vtime;
			break;
		}
		first = p->scx.dsq_vtime;
	}
	rq->leftmost = first;
	if (se)
		update_curr(cpu, now);
	if (first == ~0ULL) {
		if (se)
			keep_prev(rq, prev);
		return;
	}

	if (rq->next_pid && pick_buddy(cpu, rq->next_pid, se))
		return;
	if (rq->last_pid && pick_buddy(cpu, rq->last_pid, se))
		return;
	if (se && time_before(rq->curr.vruntime, first) &&
	    !(rq->skip && wakeup_preempt_entity(first, rq->curr.vruntime, se->weight, se->inv_weight) < 1)) {
		explain(least_vruntime, prev->pid, cpu, first - rq->curr.vruntime);
		keep_prev(rq, prev);
		return;
	}
	rq->leftmost = second;
	if (!scx_bpf_dsq_move_to_local(cpu, 0) && se)
		keep_prev(rq, prev);
}

#endif /* __EQUIPOISE_PICK_H */
