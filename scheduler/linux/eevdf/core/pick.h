/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Picks the task that runs next: the eligible task with the earliest deadline, unless the running task is protected
 * (RUN_TO_PARITY) or a task has preempted for its shorter slice (PICK_BUDDY).
 *
 * The kernel has all waiting tasks in one tree, ordered by deadline, with the smallest vruntime of each subtree.
 * Here a CPU has two dispatch queues, so that no search is needed: one of tasks that were found eligible, ordered
 * by deadline, and one of the others, ordered by vruntime. As V grows, the first of the others become eligible, and
 * each is moved once, when a task is picked. V can also fall, if rarely, which makes tasks ineligible again, so a
 * picked task is checked again.
 */
#ifndef __EQUIPOISE_PICK_H
#define __EQUIPOISE_PICK_H

#include "../group/pick.bpf.h"

/*
 * Does @se, which the runqueue already counts, belong in the queue of eligible tasks if the average of @rq is @avg?
 */
static __always_inline bool goes_to_eligible(struct fair_rq *rq, const struct fair_entity *se, u64 avg)
{
	if (eligible(avg, se->vruntime)) {
		note_first(&rq->first_deadline, se->deadline);
		return true;
	}
	note_first(&rq->first_vruntime, se->vruntime);
	return false;
}

/* Queues @p, which waits on @cpu. Called in ops.enqueue(). */
static __always_inline void queue_task(struct task_struct *p, const struct fair_entity *se, u32 cpu, u64 enq_flags)
{
	struct fair_rq *rq = rq_of(cpu);

	if (group_queues() || goes_to_eligible(rq, se, avg_vruntime(&rq->queue)))
		scx_bpf_dsq_insert_vtime(p, eligible_dsq(cpu), SCX_SLICE_INF, se->deadline, enq_flags);
	else
		scx_bpf_dsq_insert_vtime(p, ineligible_dsq(cpu), SCX_SLICE_INF, se->vruntime, enq_flags);
}

/* Moves @p, at which @it points, to the queue of @cpu where it belongs. Returns false if @p no longer waits. */
static __always_inline bool move_to_queue(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					  const struct fair_entity *se, u32 cpu, u64 avg)
{
	if (group_queues() || goes_to_eligible(rq_of(cpu), se, avg)) {
		scx_bpf_dsq_move_set_vtime(it, se->deadline);
		return scx_bpf_dsq_move_vtime(it, p, eligible_dsq(cpu), 0);
	}
	scx_bpf_dsq_move_set_vtime(it, se->vruntime);
	return scx_bpf_dsq_move_vtime(it, p, ineligible_dsq(cpu), 0);
}

/*
 * Moves tasks that are eligible at @avg to the queue of eligible tasks. (They are not counted, because the verifier
 * would follow each number.)
 */
__noinline bool queue_newly_eligible(u32 cpu, u64 avg)
{
	forget_origin(cpu);
	forget_origin(avg);
	struct fair_rq *rq = rq_of(cpu);
	struct task_struct *p;

	rq->first_vruntime = ~0ULL;
	bpf_for_each(scx_dsq, p, ineligible_dsq(cpu), 0) {
		struct fair_entity *se = entity_of(p);

		if (!eligible(avg, p->scx.dsq_vtime)) {
			rq->first_vruntime = p->scx.dsq_vtime;
			break;
		}
		if (se)
			move_to_queue(BPF_FOR_EACH_ITER, p, se, cpu, avg);
	}
	return true;
}

/*
 * Finds the deadlines of the first and second eligible task, if the average is @avg; ~0 for none. A
 * task that is no longer eligible goes back.
 */
__noinline bool find_first_eligible(u32 cpu, u64 avg)
{
	forget_origin(cpu);
	forget_origin(avg);
	struct fair_rq *rq = rq_of(cpu);
	struct task_struct *p;

	rq->first_deadline = rq->second_deadline = ~0ULL;
	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), 0) {
		struct fair_entity *se;

		if (rq->first_deadline != ~0ULL) {
			rq->second_deadline = p->scx.dsq_vtime;
			break;
		}
		se = entity_of(p);
		if (se && !eligible(avg, se->vruntime) && move_to_queue(BPF_FOR_EACH_ITER, p, se, cpu, avg))
			continue;
		rq->first_deadline = p->scx.dsq_vtime;
	}
	return rq->first_deadline != ~0ULL;
}

/* Can @prev, the running task, continue, and is it to be picked before the tasks that wait on @cpu? */
static __always_inline bool prev_is_best(u32 cpu, struct task_struct *prev)
{
	struct fair_rq *rq = rq_of(cpu);
	bool prev_eligible, waits;
	u64 avg, best;
	int i;

	if (prev && rq->nr_running == 1)
		return true;
	avg = avg_vruntime(&rq->queue);
	prev_eligible = prev && eligible(avg, rq->curr.vruntime);
	if (prev_eligible && is_protected(&rq->curr))
		return true;
	/* Each sleeper found to be the best leaves, which raises the average. */
	bpf_for(i, 0, MAX_DELAYED) {
		if (rq->first_vruntime != ~0ULL && eligible(avg, rq->first_vruntime))
			queue_newly_eligible(cpu, avg);
		waits = rq->first_deadline != ~0ULL && find_first_eligible(cpu, avg);
		best = prev_eligible ? rq->curr.deadline : ~0ULL;
		if (waits)
			note_first(&best, rq->first_deadline);
		if (!rq->nr_delayed || !dequeue_delayed(cpu, avg, best))
			break;
		avg = avg_vruntime(&rq->queue);
		prev_eligible = prev && eligible(avg, rq->curr.vruntime);
	}
	if (rq->first_deadline == ~0ULL)
		return prev_eligible;
	return prev_eligible && time_before(rq->curr.deadline, rq->first_deadline);
}

/*
 * Starts the task that has preempted for its shorter slice as the next task on @cpu, if it is eligible
 * (PICK_BUDDY).
 */
__noinline bool pick_buddy(u32 cpu)
{
	forget_origin(cpu);
	struct fair_rq *rq = rq_of(cpu);
	u64 avg = avg_vruntime(&rq->queue);
	struct task_struct *p;
	bool picked = false;

	bpf_for_each(scx_dsq, p, eligible_dsq(cpu), 0) {
		const struct fair_entity *se;

		if (p->pid != rq->buddy)
			continue;
		se = entity_of(p);
		if (se && eligible(avg, se->vruntime) && !is_throttled(p, se))
			picked = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	if (picked)
		find_first_eligible(cpu, avg);
	return picked;
}

/* Starts the next task on @cpu; @prev is the running task if it can continue. */
static __always_inline void pick_next_entity(u32 cpu, struct task_struct *prev, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	if (prev) {
		update_rq_clock(cpu, now);
		update_curr(cpu);
	}
	if (group_queues()) {
		start_from_queues(cpu, prev);
		return;
	}
	if (rq->buddy && pick_buddy(cpu))
		return;
	if (!prev_is_best(cpu, prev)) {
		/* The other queue is needed only if rounding has left no eligible task. */
		if (scx_bpf_dsq_move_to_local(eligible_dsq(cpu), 0)) {
			rq->first_deadline = rq->second_deadline;
			return;
		}
		if (scx_bpf_dsq_move_to_local(ineligible_dsq(cpu), 0))
			return;
	}
	if (prev)
		keep_running(rq, cpu, prev);
}

#endif /* __EQUIPOISE_PICK_H */
