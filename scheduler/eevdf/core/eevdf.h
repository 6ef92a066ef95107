/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Earliest eligible virtual deadline first, as in kernel/sched/fair.c of Linux 6.12 with its features at their
 * defaults: PLACE_LAG, PLACE_DEADLINE_INITIAL, PLACE_REL_DEADLINE, RUN_TO_PARITY, PREEMPT_SHORT, WAKEUP_PREEMPTION.
 *
 * A task's vruntime is the time it has had over its weight. V is the average over the runnable tasks by weight,
 * what each would have had if all ran at once. A task that has had no more than V is eligible, and V less its
 * vruntime is its lag. Each asks for a slice at a time, its own (sched_attr::sched_runtime) or the one that all
 * have; its deadline is when it will have had that, in vruntime.
 */
#ifndef __EQUIPOISE_EEVDF_H
#define __EQUIPOISE_EEVDF_H

#include "delayed.h"

/* What @p asks for at a time, ns. */
static __always_inline u64 slice_of(const struct task_struct *p)
{
	return p->se.custom_slice ? p->se.slice : tunables.sched_base_slice;
}

/*
 * V, rounded down. The sums are taken from rq->zero_vruntime, which is what it last was, so that they are small. Of
 * two words, which others may be changing: then it is as it was.
 */
static __always_inline u64 peek_vruntime(const struct fair_rq *rq)
{
	u64 zero = READ_ONCE(rq->zero_vruntime), weight;
	u32 done = READ_ONCE(rq->moves_done);
	s64 key;

	weight = READ_ONCE(rq->load_weight);
	key = READ_ONCE(rq->weighted_vruntime) - weight * zero;
	if (!weight || READ_ONCE(rq->moves_begun) != done)
		return zero;
	if (key < 0)
		return zero - ((u64)-key + weight - 1) / weight;
	return zero + (u64)key / weight;
}

/* The same, and remembers it. */
static __always_inline u64 avg_vruntime(struct fair_rq *rq)
{
	return rq->zero_vruntime = peek_vruntime(rq);
}

/* Has a task of @vruntime had no more than its part, where the average is @avg? */
static __always_inline bool eligible(u64 avg, u64 vruntime)
{
	return (s64)(vruntime - avg) <= 0;
}

/* The lag of @se, which does not get beyond two slices, or a tick if that is longer; the average is @avg. */
static __always_inline s64 entity_lag(u64 avg, const struct fair_entity *se)
{
	u64 longest = 2 * se->slice;
	s64 lag = avg - se->vruntime, limit;

	if (longest < machine.tick_ns)
		longest = machine.tick_ns;
	limit = calc_delta_fair(longest, se->weight, se->inv_weight);
	if (lag > limit)
		return limit;
	return lag < -limit ? -limit : lag;
}

/* @value * @num / @den, for a value that may be negative. */
static __always_inline s64 scale_signed(s64 value, u64 num, u64 den)
{
	return value < 0 ? -(s64)((u64)-value * num / den) : (s64)((u64)value * num / den);
}

/*
 * Gives @se, which joins @rq, its vruntime: with the lag that it left with. As it takes part in the average, it is
 * put a little further from it than that. It asks for a slice, and as its first for half of one; @rel_deadline: or
 * for what it had left, if that is not 0.
 */
static __always_inline void place_entity(struct fair_rq *rq, struct fair_entity *se, bool initial, u64 rel_deadline)
{
	u64 weight = READ_ONCE(rq->load_weight), vslice = calc_delta_fair(se->slice, se->weight, se->inv_weight);
	s64 lag = 0;

	if (weight)
		lag = scale_signed(se->vlag, weight + se->weight, weight);
	se->vruntime = peek_vruntime(rq) - lag;
	if (rel_deadline)
		vslice = rel_deadline;
	else if (initial)
		vslice /= 2;
	se->deadline = se->vruntime + vslice;
}

/*
 * Charges the task that runs on @cpu for its own time since the last call; under the runqueue's lock, with its
 * clock up to date. True if others wait, and it has had what it asked for; or has gone on after that, as it was
 * still the best, and has had more than its part now (did_preempt_short()).
 */
static __always_inline bool update_curr(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);
	struct running *curr = &rq->curr;
	u64 delta_exec = rq->clock_task - curr->exec_start, delta_fair;

	if (!curr->pid || (s64)delta_exec <= 0)
		return false;
	delta_fair = calc_delta_fair(delta_exec, curr->weight, curr->inv_weight);
	curr->exec_start = rq->clock_task;
	curr->vruntime += delta_fair;
	__sync_fetch_and_add(&rq->weighted_vruntime, curr->weight * delta_fair);
	if (time_before(curr->vruntime, curr->deadline))
		return !curr->protected && rq->nr_running > 1 && !eligible(peek_vruntime(rq), curr->vruntime);
	curr->deadline = curr->vruntime + calc_delta_fair(curr->slice, curr->weight, curr->inv_weight);
	curr->protected = false;
	avg_vruntime(rq);
	return rq->nr_running > 1;
}

/* @p gets @cpu. */
static __always_inline void set_curr(u32 cpu, const struct task_struct *p, struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_rq_clock(cpu, now);
	update_entity_load_avg(se, rq_clock_pelt(rq), false);
	update_rq_load_avg(rq);
	rq->curr = (struct running){
		.pid = p->pid,
		.policy = p->policy,
		.weight = se->weight,
		.inv_weight = se->inv_weight,
		.slice = se->slice,
		.vruntime = se->vruntime,
		.deadline = se->deadline,
		.exec_start = rq->clock_task,
		.protected = true,
	};
	se->listed_at = now;
	rq->need_resched = false;
}

/* The running task, @se, leaves @cpu. */
static __always_inline void put_curr(u32 cpu, struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_rq_clock(cpu, now);
	update_curr(cpu);
	update_entity_load_avg(se, rq_clock_pelt(rq), true);
	update_rq_load_avg(rq);
	se->vruntime = rq->curr.vruntime;
	se->deadline = rq->curr.deadline;
	se->exec_start = rq->clock_task;
	rq->curr.pid = 0;
}

/*
 * @se, which was delayed as it went to sleep, wakes up on @cpu. True if it has its old place: that is still more
 * than its part. If not, nothing is owed to it, but where it was woken up on another CPU: what it owes it takes
 * along.
 */
static __always_inline bool requeue_delayed_entity(struct fair_entity *se, u32 cpu)
{
	u64 avg = peek_vruntime(rq_of(se->cpu));
	s64 lag;

	se->vlag = 0;
	if (!end_delay(se->cpu, se->delayed_slot, se->pid))
		return false;
	lag = entity_lag(avg, se);
	if (lag < 0)
		se->vlag = lag;
	return lag <= 0 && se->cpu == cpu;
}

/* @se becomes runnable on @cpu: after a sleep, a fork, or a change of class or affinity. */
static __always_inline void enqueue_entity(struct fair_entity *se, u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	if (se->attached && se->cpu != cpu) {
		sync_entity_load_avg(se, now);
		detach_entity(se);
		se->exec_start = 0;
	}
	if (se->attached)
		update_sleeper_load_avg(se, rq_clock_pelt(rq));
	update_rq_load_avg(rq);
	if (!se->attached)
		attach_entity(se, cpu);

	if (!se->delayed || !requeue_delayed_entity(se, cpu))
		place_entity(rq, se, se->forked, 0);
	se->delayed = false;
	se->forked = false;
	se->listed_at = now;
	bpf_spin_lock(&se->lock);
	if (!se->on_rq)
		add_entity(se, cpu);
	bpf_spin_unlock(&se->lock);
}

/* @se is no longer runnable; @sleeps: for now. With more than its part it counts on. */
static __always_inline void dequeue_entity(struct fair_entity *se, bool sleeps, u64 now)
{
	struct fair_rq *rq = rq_of(se->cpu);
	u64 avg;

	update_rq_clock(se->cpu, now);
	update_curr(se->cpu);
	update_entity_load_avg(se, rq_clock_pelt(rq), false);
	update_rq_load_avg(rq);
	avg = avg_vruntime(rq);
	se->vlag = entity_lag(avg, se);
	bpf_spin_lock(&se->lock);
	if (se->on_rq) {
		se->delayed = sleeps && !eligible(avg, se->vruntime) && delay_entity(se);
		if (!se->delayed)
			remove_entity(se);
	}
	bpf_spin_unlock(&se->lock);
	if (sleeps)
		update_util_est(se);
}

/*
 * Moves a task that waits to the runqueue of @cpu, with its lag and what it has left until its deadline. A function
 * in BPF, too: the verifier leaves a chain of calls 512 bytes of stack, and balancing, which calls this at its end,
 * takes most.
 */
static __noinline void migrate_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *src = rq_of(se->cpu), *dst = rq_of(cpu);
	u64 rel_deadline = se->deadline - se->vruntime, avg = peek_vruntime(src), now = bpf_ktime_get_ns();

	bpf_spin_lock(&se->lock);
	if (se->on_rq) {
		se->vlag = entity_lag(avg, se);
		remove_entity(se);
		detach_entity(se);
		place_entity(dst, se, false, rel_deadline);
		attach_entity(se, cpu);
		add_entity(se, cpu);
		se->exec_start = 0;
		se->listed_at = now;
	}
	bpf_spin_unlock(&se->lock);
}

/* A new nice level, slice or policy: lag and deadline keep their length in time (reweight_eevdf()). */
static __noinline void reweight_entity(struct task_struct *p, struct fair_entity *se)
{
	u32 weight = task_weight(p);
	struct fair_rq *rq = rq_of(se->cpu);
	u64 avg = peek_vruntime(rq);
	bool on_rq;

	/* A sleeper leaves at once. */
	if (se->delayed && end_delay(se->cpu, se->delayed_slot, se->pid))
		se->delayed = false;
	bpf_spin_lock(&se->lock);
	on_rq = se->on_rq;
	if (on_rq) {
		remove_entity(se);
		if (se->weight) {
			s64 rel_deadline = se->deadline - avg;

			se->vruntime = avg - scale_signed(avg - se->vruntime, se->weight, weight);
			se->deadline = avg + scale_signed(rel_deadline, se->weight, weight);
		}
	} else if (se->weight) {
		se->vlag = scale_signed(se->vlag, se->weight, weight);
	}
	if (se->attached)
		detach_entity(se);
	se->weight = weight;
	se->inv_weight = (1ULL << 32) / weight;
	se->idle_policy = p->policy == SCHED_IDLE;
	se->slice = slice_of(p);
	se->avg.load_avg = weight * se->avg.load_sum / load_divider(&se->avg);
	if (on_rq) {
		attach_entity(se, se->cpu);
		add_entity(se, se->cpu);
	}
	bpf_spin_unlock(&se->lock);
}

static __always_inline void note_first(u64 *first, u64 at)
{
	if (*first == ~0ULL || time_before(at, *first))
		*first = at;
}

/*
 * The sleepers of @cpu that would be picked, as they are eligible with the average at @avg, and before whoever has
 * the deadline @best (~0: nobody is there), no longer count; all of them, if there is nobody else. True if there
 * were any.
 */
__noinline bool dequeue_delayed(u32 cpu, u64 avg, u64 best)
{
	forget_origin(cpu);
	forget_origin(avg);
	forget_origin(best);
	struct fair_rq *rq = rq_of(cpu);
	u64 mask = rq->delayed_mask, first = ~0ULL;
	bool alone = rq->nr_running == rq->nr_delayed, any = false;
	int i;

	if (!alone && !eligible(avg, rq->first_delayed))
		return false;
	bpf_for(i, 0, MAX_DELAYED) {
		const struct delayed_slot *slot;
		u32 nr;

		if (!mask)
			break;
		nr = __builtin_ctzll(mask);
		mask &= mask - 1;
		slot = delayed_slot(cpu, nr);
		if (alone ||
		    (eligible(avg, slot->vruntime) && (best == ~0ULL || time_before(slot->deadline, best))))
			any |= end_delay(cpu, nr, slot->pid);
		else
			note_first(&first, slot->vruntime);
	}
	rq->first_delayed = first;
	return any;
}

/* Would a sleeper of @cpu be picked before one with the deadline @best, where the average is @avg? */
__noinline bool delayed_is_better(u32 cpu, u64 avg, u64 best)
{
	const struct fair_rq *rq = rq_of(cpu);
	u64 mask = rq->delayed_mask;
	bool better = false;
	int i;

	if (!eligible(avg, rq->first_delayed))
		return false;
	bpf_for(i, 0, MAX_DELAYED) {
		const struct delayed_slot *slot;

		if (!mask || better)
			break;
		slot = delayed_slot(cpu, __builtin_ctzll(mask));
		mask &= mask - 1;
		better = eligible(avg, slot->vruntime) && time_before(slot->deadline, best);
	}
	return better;
}

/* @se, which has become runnable, does not take the CPU from @curr. */
static __always_inline void explain_turn(const struct running *curr, const struct fair_entity *se)
{
	if (curr->protected)
		explain(protected_turn, se->pid, se->cpu, curr->pid, curr->deadline - curr->vruntime);
	else
		explain(later_deadline, se->pid, se->cpu, curr->pid, curr->deadline - se->deadline);
}

/*
 * Should @se of @policy, which has become runnable on the CPU of @rq, take it from the running task? If it is the
 * one that would be picked now. Then the CPU is to reschedule.
 */
static __always_inline bool check_preempt_wakeup(struct fair_rq *rq, u32 policy, const struct fair_entity *se)
{
	struct running *curr = &rq->curr;
	bool curr_idle = curr->policy == SCHED_IDLE;
	u64 avg;

	if (rq->need_resched)
		return false;
	if (curr_idle != (policy == SCHED_IDLE)) {
		if (!curr_idle)
			return false;
		curr->protected = false;
	} else {
		/* Batch and idle tasks wait for the end of the slice. */
		if (policy == SCHED_BATCH || policy == SCHED_IDLE)
			return false;
		avg = avg_vruntime(rq);
		if (!eligible(avg, se->vruntime)) {
			explain(not_eligible, se->pid, se->cpu, curr->pid, se->vruntime - avg);
			return false;
		}
		/* Who asks for less at a time need not wait for the end of the slice (do_preempt_short()). */
		if (se->slice < curr->slice &&
		    (time_before(se->deadline, curr->deadline) || !eligible(avg, curr->vruntime)))
			curr->protected = false;
		if (eligible(avg, curr->vruntime) &&
		    (curr->protected || time_before(curr->deadline, se->deadline))) {
			explain_turn(curr, se);
			return false;
		}
		if (rq->first_deadline != ~0ULL && time_before(rq->first_deadline, se->deadline)) {
			explain(later_deadline, se->pid, se->cpu, curr->pid, curr->deadline - se->deadline);
			return false;
		}
		if (rq->nr_delayed && delayed_is_better(se->cpu, avg, se->deadline))
			return false;
	}
	explain(earlier_deadline, se->pid, se->cpu, curr->pid, curr->deadline - se->deadline);
	rq->need_resched = true;
	this_counters()->wakeup_preemptions++;
	return true;
}

#endif /* __EQUIPOISE_EEVDF_H */
