/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Earliest eligible virtual deadline first, as in kernel/sched/fair.c of Linux 7.3 or 6.12 with its features at
 * their defaults: PLACE_LAG, PLACE_DEADLINE_INITIAL, PLACE_REL_DEADLINE, RUN_TO_PARITY, PREEMPT_SHORT,
 * WAKEUP_PREEMPTION.
 *
 * A task's vruntime is its CPU time divided by its weight. V is the weighted average over the
 * runnable tasks: the vruntime of each if all ran at once. A task with a vruntime of at most V is
 * eligible, and V minus its vruntime is its lag. Each task requests a slice, its own
 * (sched_attr::sched_runtime) or the default; its deadline is the vruntime at which it will have
 * received it.
 */
#ifndef __EQUIPOISE_EEVDF_H
#define __EQUIPOISE_EEVDF_H

#include "delayed.h"

/* Time at the pace of a task of @weight, scaled; @inv_weight as in struct fair_entity. */
static __always_inline u64 calc_delta_weight(u64 delta, u64 weight, u32 inv_weight)
{
	if (weight == NICE_0_WEIGHT)
		return delta;
	return inv_weight ? calc_delta(delta, NICE_0_LOAD, inv_weight) : delta * NICE_0_WEIGHT / weight;
}

/* The request of @p, ns. */
static __always_inline u64 slice_of(const struct task_struct *p)
{
	return p->se.custom_slice ? p->se.slice : tunables.sched_base_slice;
}

/*
 * V, rounded down. The sums are relative to rq->zero_vruntime, the last V, so that they are small.
 * It is computed from two words. If other CPUs are changing them, this returns the last value.
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

/* Computes the same value and stores it. */
static __always_inline u64 avg_vruntime(struct fair_rq *rq)
{
	return rq->zero_vruntime = peek_vruntime(rq);
}

/* Is a task with @vruntime eligible (it has had no more than its share), if the average is @avg? */
static __always_inline bool eligible(u64 avg, u64 vruntime)
{
	return (s64)(vruntime - avg) <= 0;
}

/*
 * The lag of @se on @rq, if the average is @avg. It is limited to the longest slice of the runqueue
 * plus a tick; in Linux 6.12 to two of its own slices, or a tick if that is longer.
 */
static __always_inline s64 entity_lag(const struct fair_rq *rq, u64 avg, const struct fair_entity *se)
{
	u64 longest = 2 * se->slice;
	s64 lag = avg - se->vruntime, limit;

	if (longest < machine.tick_ns)
		longest = machine.tick_ns;
	if (policy.max_slice_lag)
		longest = rq_max_slice(rq) + machine.tick_ns;
	limit = calc_delta_weight(longest, se->h_weight, se->inv_weight);
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
 * Sets the vruntime of @se, which joins @rq, so that it has the lag with which it left. The new
 * task moves the average, so it is placed a little further away. It requests a slice, the first
 * time half of one; or with @rel_deadline the rest of its last request, if that is not 0.
 */
static __always_inline void place_entity(struct fair_rq *rq, struct fair_entity *se, bool initial, u64 rel_deadline)
{
	u64 weight = READ_ONCE(rq->load_weight),
	    vslice = calc_delta_weight(se->slice, se->h_weight, se->inv_weight);
	s64 lag = 0;

	if (weight)
		lag = se->vlag + scale_signed(se->vlag, se->h_weight, weight);
	se->vruntime = peek_vruntime(rq) - lag;
	if (rel_deadline)
		vslice = rel_deadline;
	else if (initial)
		vslice /= 2;
	se->deadline = se->vruntime + vslice;
}

static __always_inline u64 min_vruntime(u64 a, u64 b)
{
	return time_before(a, b) ? a : b;
}

/*
 * V of all tasks on @rq but @curr, and a little more: the smallest vruntime that is not eligible
 * among them.
 */
static __always_inline u64 ineligible_vruntime(const struct fair_rq *rq, const struct running *curr)
{
	u64 zero = rq->zero_vruntime, weight = READ_ONCE(rq->load_weight) - curr->weight;
	s64 key = READ_ONCE(rq->weighted_vruntime) - curr->weight * curr->vruntime - weight * zero;

	if ((s64)weight <= 0)
		return zero + 1;
	if (key < 0)
		return zero - ((u64)-key + weight - 1) / weight + 1;
	return zero + (u64)key / weight + 1;
}

/*
 * The vruntime until which @curr, which gets the CPU of @rq, is protected: its deadline, or, if
 * another task requests a shorter slice, until it has had its share (set_protect_slice()).
 */
static __always_inline u64 protect_slice(const struct fair_rq *rq, const struct running *curr)
{
	if (!policy.min_slice_protection || rq_min_slice(rq) >= curr->slice)
		return curr->deadline;
	return min_vruntime(curr->deadline, ineligible_vruntime(rq, curr));
}

static __always_inline bool is_protected(const struct running *curr)
{
	return time_before(curr->vruntime, curr->vprot);
}

/*
 * @curr of @rq continues although another task has arrived, for at most one slice of the task with
 * the shortest slice (update_protect_slice()).
 */
static __always_inline void shorten_protection(struct fair_rq *rq, struct running *curr)
{
	u64 from, until;

	if (!policy.min_slice_protection)
		return;
	from = min_vruntime(curr->vruntime, peek_vruntime(rq));
	until = from + calc_delta_weight(rq_min_slice(rq), curr->weight, curr->inv_weight);
	curr->vprot = min_vruntime(curr->vprot, until);
}

static __always_inline void clear_buddy(struct fair_rq *rq, s32 pid)
{
	if (rq->buddy == pid)
		rq->buddy = 0;
}

/*
 * Charges the task that runs on @cpu for its own time since the last call; under the runqueue's
 * lock, with its clock up to date. True if tasks wait, and it has received its request or is no
 * longer protected; in Linux 6.12 only if it has also had more than its share
 * (did_preempt_short()).
 */
static __always_inline bool update_curr(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);
	struct running *curr = &rq->curr;
	u64 delta_exec = rq->clock_task - curr->exec_start, delta_fair;

	if (!curr->pid || (s64)delta_exec <= 0)
		return false;
	delta_fair = calc_delta_weight(delta_exec, curr->weight, curr->inv_weight);
	if (in_group(curr->charged_group))
		rq->curr_throttled |= account_hierarchy(curr->charged_group, cpu, delta_exec);
	curr->exec_start = rq->clock_task;
	curr->vruntime += delta_fair;
	__sync_fetch_and_add(&rq->weighted_vruntime, curr->weight * delta_fair);
	if (time_before(curr->vruntime, curr->deadline))
		return rq->nr_running > 1 && !is_protected(curr) &&
		       (policy.min_slice_protection || !eligible(peek_vruntime(rq), curr->vruntime));
	curr->deadline = curr->vruntime + calc_delta_weight(curr->slice, curr->weight, curr->inv_weight);
	clear_buddy(rq, curr->pid);
	avg_vruntime(rq);
	return rq->nr_running > 1;
}

/*
 * Another weight, scaled, for @se, which is on no runqueue or runs on @rq: its lag, deadline and protection keep
 * their length in time (reweight_eevdf()).
 */
static __always_inline void set_h_weight(struct fair_entity *se, u64 weight)
{
	se->vlag = scale_signed(se->vlag, se->h_weight, weight);
	se->h_weight = weight;
}

static __noinline void reweight_curr(struct fair_rq *rq, struct fair_entity *se, u64 weight)
{
	struct running *curr = &rq->curr;
	bool protected = is_protected(curr);
	s64 lag, rel_deadline, rel_vprot;
	u64 avg;

	if (curr->weight == weight)
		return;
	avg = avg_vruntime(rq);
	se->vruntime = curr->vruntime;
	lag = entity_lag(rq, avg, se);
	rel_deadline = curr->deadline - avg;
	rel_vprot = curr->vprot - avg;
	begin_move(rq);
	__sync_fetch_and_add(&rq->load_weight, weight - curr->weight);
	__sync_fetch_and_add(&rq->weighted_vruntime, -(curr->weight * curr->vruntime));
	curr->vruntime = avg - scale_signed(lag, curr->weight, weight);
	__sync_fetch_and_add(&rq->weighted_vruntime, weight * curr->vruntime);
	end_move(rq);
	__sync_fetch_and_add(&rq->group_load, curr->weight - weight);
	curr->deadline = avg + scale_signed(rel_deadline, curr->weight, weight);
	if (protected)
		curr->vprot = avg + scale_signed(rel_vprot, curr->weight, weight);
	curr->weight = se->h_weight = weight;
}

/* @p gets @cpu. */
static __always_inline void set_curr(u32 cpu, const struct task_struct *p, struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_rq_clock(cpu, now);
	if (in_group(se->group))
		update_group_load(rq, se, false);
	else
		update_root_load(rq, se, false);
	rq->curr = (struct running){
		.pid = p->pid,
		.policy = p->policy,
		.weight = se->h_weight,
		.inv_weight = se->inv_weight,
		.slice = se->slice,
		.vruntime = se->vruntime,
		.deadline = se->deadline,
		.exec_start = rq->clock_task,
	};
	rq->curr_throttled = false;
	if (in_group(se->group)) {
		if (any_group_is_limited())
			rq->curr.charged_group = se->group;
		reweight_curr(rq, se, set_next_hierarchy(se->group, cpu, se->weight));
		rq->curr_throttled = is_throttled(p, se);
	}
	rq->curr.vprot = protect_slice(rq, &rq->curr);
	clear_buddy(rq, p->pid);
	se->listed_at = now;
	rq->need_resched = rq->resched_lazy = false;
}

/* The running task, @se, leaves @cpu. */
static __always_inline void put_curr(u32 cpu, struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_rq_clock(cpu, now);
	update_curr(cpu);
	if (in_group(se->group)) {
		update_group_load(rq, se, true);
		put_prev_hierarchy(se->group, cpu);
	} else {
		update_root_load(rq, se, true);
	}
	se->vruntime = rq->curr.vruntime;
	se->deadline = rq->curr.deadline;
	se->exec_start = rq->clock_task;
	rq->curr.pid = 0;
}

/*
 * @se, which was delayed when it went to sleep on @old_cpu, wakes up on @cpu. True if it keeps its old place:
 * it is still beyond its share. If not, it is owed nothing; only if it was woken on another CPU
 * does it take its debt along. It owes no more than when it went to sleep, even if the average has
 * fallen (not so in Linux 6.12).
 */
static __always_inline bool requeue_delayed_entity(struct fair_entity *se, u32 old_cpu, u32 cpu)
{
	const struct fair_rq *rq = rq_of(old_cpu);
	u64 avg = peek_vruntime(rq);
	s64 owed = se->vlag, lag;

	se->vlag = 0;
	if (!end_delay(old_cpu, se->delayed_slot, se->pid))
		return false;
	lag = entity_lag(rq, avg, se);
	if (policy.delayed_keeps_lag && lag < owed)
		lag = owed;
	if (lag < 0)
		se->vlag = lag;
	if (policy.delayed_keeps_lag && avg - se->vlag != se->vruntime)
		return false;
	return lag <= 0 && old_cpu == cpu;
}

static __noinline void update_sleeper_in_group(struct fair_rq *rq, struct fair_entity *se, u32 cpu)
{
	if (se->attached)
		update_sleeper_load_avg(se, se_clock_pelt(rq, se));
	update_avg_of_group(rq, se->group, cpu);
}

/* @se, whose group is not the root, joins the runqueue of @cpu; with its weight, unless it @stays where it was. */
static __noinline void enqueue_in_group(struct fair_entity *se, u32 cpu, bool stays)
{
	u64 weight = enqueue_hierarchy(se->group, cpu, se->weight, se->idle_policy);

	if (!stays)
		set_h_weight(se, weight);
	count_in_group(se, cpu, 1);
	se->h_idle = se->idle_policy || in_idle_group(se->group);
}

/* @se leaves the runqueue of its CPU, or is @delayed, and counts on. */
static __noinline void dequeue_in_group(const struct fair_entity *se, bool delayed)
{
	if (delayed) {
		delay_hierarchy(se->group, se->cpu);
		return;
	}
	count_in_group(se, se->cpu, -1);
	dequeue_hierarchy(se->group, se->cpu, se->weight, se->idle_policy, true);
}

/* @se becomes runnable on @cpu: after a sleep, a fork, or a change of class or affinity. */
static __always_inline void enqueue_entity(struct fair_entity *se, u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u32 old_cpu = se->cpu;
	bool stays;

	if (se->attached && se->cpu != cpu) {
		sync_entity_load_avg(se);
		remove_entity_load_avg(se);
		migrate_se_pelt_lag(se, now);
		se->exec_start = 0;
	}
	if (in_group(se->group)) {
		update_sleeper_in_group(rq, se, cpu);
	} else {
		if (se->attached)
			update_sleeper_load_avg(se, rq_clock_pelt(rq));
		update_rq_load_avg(rq);
	}
	if (!se->attached)
		attach_entity(se, cpu);

	stays = se->delayed && requeue_delayed_entity(se, old_cpu, cpu);
	if (in_group(se->group))
		enqueue_in_group(se, cpu, stays);
	if (!stays)
		place_entity(rq, se, se->forked, 0);
	se->delayed = false;
	se->is_new = se->forked;
	se->forked = false;
	se->listed_at = now;
	bpf_spin_lock(&se->lock);
	if (!se->on_rq)
		add_entity(se, cpu);
	bpf_spin_unlock(&se->lock);
}

/* @se is no longer runnable; with @sleeps it only goes to sleep. If it has had more than its share, it still
 * counts. */
static __always_inline void dequeue_entity(struct fair_entity *se, bool sleeps, u64 now)
{
	struct fair_rq *rq = rq_of(se->cpu);
	bool was_on_rq;
	u64 avg;

	update_rq_clock(se->cpu, now);
	update_curr(se->cpu);
	if (in_group(se->group))
		update_group_load(rq, se, false);
	else
		update_root_load(rq, se, false);
	avg = avg_vruntime(rq);
	se->vlag = entity_lag(rq, avg, se);
	clear_buddy(rq, se->pid);
	bpf_spin_lock(&se->lock);
	was_on_rq = se->on_rq;
	if (was_on_rq) {
		se->delayed = sleeps && !eligible(avg, se->vruntime) && delay_entity(se);
		if (!se->delayed)
			remove_entity(se);
	}
	bpf_spin_unlock(&se->lock);
	if (in_group(se->group) && was_on_rq)
		dequeue_in_group(se, se->delayed);
	if (sleeps)
		update_util_est(se);
}

/*
 * @se, which is in a group and has left the runqueue of @src_cpu, joins that of @cpu. Apart from migrate_entity(),
 * because no code under a lock may call the functions for groups.
 */
static __noinline void migrate_hierarchy(struct fair_entity *se, u32 src_cpu, u32 cpu, s64 rel_deadline)
{
	u64 was = se->h_weight;

	count_in_group(se, src_cpu, -1);
	dequeue_hierarchy(se->group, src_cpu, se->weight, se->idle_policy, true);
	attach_entity(se, cpu);
	enqueue_in_group(se, cpu, false);
	bpf_spin_lock(&se->lock);
	place_entity(rq_of(cpu), se, false, scale_signed(rel_deadline, was, se->h_weight));
	add_entity(se, cpu);
	bpf_spin_unlock(&se->lock);
}

/*
 * Moves a waiting task to the runqueue of @cpu, with its lag and the distance to its deadline. A
 * function in BPF, too: a chain of calls has 512 bytes of stack, and balancing, which calls this at
 * its end, uses most of it.
 */
static __noinline void migrate_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *src = rq_of(se->cpu), *dst = rq_of(cpu);
	u64 rel_deadline = se->deadline - se->vruntime, avg = peek_vruntime(src), now = bpf_ktime_get_ns();
	u32 src_cpu = se->cpu;
	bool moves;

	bpf_spin_lock(&se->lock);
	moves = se->on_rq;
	if (moves) {
		se->vlag = entity_lag(src, avg, se);
		clear_buddy(src, se->pid);
		remove_entity(se);
		detach_entity(se);
		if (!in_group(se->group)) {
			place_entity(dst, se, false, rel_deadline);
			attach_entity(se, cpu);
			add_entity(se, cpu);
		}
		se->exec_start = 0;
		se->listed_at = now;
	}
	bpf_spin_unlock(&se->lock);
	if (in_group(se->group) && moves)
		migrate_hierarchy(se, src_cpu, cpu, rel_deadline);
}

/* @se, which counts nowhere, has the policy and the nice level of @p from now on. */
static __always_inline void set_entity_weight(struct fair_entity *se, const struct task_struct *p)
{
	u32 weight = task_weight(p);

	se->weight = weight;
	se->inv_weight = in_group(se->group) ? 0 : (1ULL << 32) / weight;
	se->idle_policy = p->policy == SCHED_IDLE;
	se->h_idle = se->idle_policy || (in_group(se->group) && in_idle_group(se->group));
	se->custom_slice = p->se.custom_slice;
	se->slice = slice_of(p);
	se->avg.load_avg = weight * se->avg.load_sum / load_divider(&se->avg);
}

/*
 * A new nice level, slice, policy or, with @group, another group: lag and deadline keep their length in time
 * (reweight_eevdf()).
 */
static __noinline void reweight_entity(struct task_struct *p, struct fair_entity *se, u32 group)
{
	struct fair_rq *rq = rq_of(se->cpu);
	u64 avg = peek_vruntime(rq), was = se->h_weight, weight;
	bool on_rq;

	/* A delayed sleeper is dequeued at once. */
	if (se->delayed && end_delay(se->cpu, se->delayed_slot, se->pid))
		se->delayed = false;
	bpf_spin_lock(&se->lock);
	on_rq = se->on_rq;
	if (on_rq)
		remove_entity(se);
	if (se->attached)
		detach_entity(se);
	bpf_spin_unlock(&se->lock);
	if (in_group(se->group) && on_rq)
		dequeue_in_group(se, false);
	else if (in_group(se->group))
		propagate_hierarchy(se->group, se->cpu);

	se->group = group;
	set_entity_weight(se, p);
	weight = (u64)se->weight << SCALE_LOAD_SHIFT;
	if (on_rq)
		attach_entity(se, se->cpu);
	if (in_group(se->group) && on_rq)
		weight = enqueue_hierarchy(se->group, se->cpu, se->weight, se->idle_policy);
	if (on_rq && was) {
		s64 rel_deadline = se->deadline - avg;

		se->vruntime = avg - scale_signed(avg - se->vruntime, was, weight);
		se->deadline = avg + scale_signed(rel_deadline, was, weight);
	} else if (was) {
		se->vlag = scale_signed(se->vlag, was, weight);
	}
	se->h_weight = weight;
	if (!on_rq)
		return;
	if (in_group(se->group))
		count_in_group(se, se->cpu, 1);
	bpf_spin_lock(&se->lock);
	add_entity(se, se->cpu);
	bpf_spin_unlock(&se->lock);
}

static __always_inline void note_first(u64 *first, u64 at)
{
	if (*first == ~0ULL || time_before(at, *first))
		*first = at;
}

/*
 * Dequeues the sleepers of @cpu that would be picked: those that are eligible with the average at
 * @avg and have an earlier deadline than @best. If there is no other task (@best is ~0), dequeues
 * all of them. True if there were any.
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

/* Would a sleeper of @cpu be picked before a task with the deadline @best, if the average is @avg? */
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

#endif /* __EQUIPOISE_EEVDF_H */
