/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Earliest eligible virtual deadline first, as in kernel/sched/fair.c of Linux 7.3 or 6.12 with its features at
 * their defaults: PLACE_LAG, PLACE_DEADLINE_INITIAL, PLACE_REL_DEADLINE, RUN_TO_PARITY, PREEMPT_SHORT,
 * WAKEUP_PREEMPTION.
 *
 * A task's vruntime is its CPU time divided by its weight. V is the weighted average of the runnable tasks'
 * vruntimes, which is the vruntime that each task would have if all ran at the same time. A task with a vruntime of
 * at most V is eligible, and V minus its vruntime is its lag. Each task requests a slice, its own
 * (sched_attr::sched_runtime) or the default one. Its deadline is the vruntime at which it will have received that
 * slice.
 */
#ifndef __EQUIPOISE_EEVDF_H
#define __EQUIPOISE_EEVDF_H

#include "delayed.h"

/* The slice that @p requests, in ns. */
static __always_inline u64 slice_of(const struct task_struct *p)
{
	return p->se.custom_slice ? p->se.slice : tunables.sched_base_slice;
}

static __always_inline u64 min_vruntime(u64 a, u64 b)
{
	return time_before(a, b) ? a : b;
}

/* The smallest vruntime that is not eligible among the tasks on @rq without @curr: slightly more than their V. */
static __always_inline u64 ineligible_vruntime(const struct fair_rq *rq, const struct running *curr)
{
	u64 zero = rq->queue.zero_vruntime, weight = READ_ONCE(rq->queue.load_weight) - curr->weight;
	s64 key = READ_ONCE(rq->queue.weighted_vruntime) - curr->weight * curr->vruntime - weight * zero;

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
	if (!policy.min_slice_protection || min_slice(&rq->queue) >= curr->slice)
		return curr->deadline;
	return min_vruntime(curr->deadline, ineligible_vruntime(rq, curr));
}

static __always_inline bool is_protected(const struct running *curr)
{
	return time_before(curr->vruntime, curr->vprot);
}

/*
 * Shortens the protection of @curr of @rq, which continues although another task has arrived: it lasts for at most
 * the shortest slice of any task (update_protect_slice()).
 */
static __always_inline void shorten_protection(struct fair_rq *rq, struct running *curr)
{
	u64 from, until;

	if (!policy.min_slice_protection)
		return;
	from = min_vruntime(curr->vruntime, peek_vruntime(&rq->queue));
	until = from + calc_delta_weight(min_slice(&rq->queue), curr->weight, curr->inv_weight);
	curr->vprot = min_vruntime(curr->vprot, until);
}

static __always_inline void clear_buddy(struct fair_rq *rq, s32 pid)
{
	if (rq->buddy == pid)
		rq->buddy = 0;
}

/*
 * Charges the task that runs on @cpu for its own time since the last call. The caller holds the runqueue's lock,
 * and the runqueue's clock is up to date. Returns true if tasks wait, and the running task has received its slice
 * or is no longer protected. In Linux 6.12 the loss of protection counts only if the task has also had more than
 * its share (did_preempt_short()). With queues of groups, returns true also if a queue above the task must stop.
 */
static __always_inline bool update_curr(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);
	struct running *curr = &rq->curr;
	u64 delta_exec = rq->clock_task - curr->exec_start, delta_fair;
	struct eevdf_queue *queue;
	bool stops = false;

	if (!curr->pid || (s64)delta_exec <= 0)
		return false;
	delta_fair = calc_delta_weight(delta_exec, curr->weight, curr->inv_weight);
	queue = queue_in(rq, curr->charged_group, cpu);
	if (in_group(curr->charged_group)) {
		rq->curr_throttled |= account_hierarchy(curr->charged_group, cpu, delta_exec);
		if (group_queues())
			stops = charge_groups(curr->charged_group, cpu, delta_exec) | rq->curr_throttled;
	}
	curr->exec_start = rq->clock_task;
	curr->vruntime += delta_fair;
	__sync_fetch_and_add(&queue->weighted_vruntime, curr->weight * delta_fair);
	if (time_before(curr->vruntime, curr->deadline))
		return stops || (queue->nr > 1 && !is_protected(curr) &&
				 (policy.min_slice_protection || !eligible(peek_vruntime(queue), curr->vruntime)));
	curr->deadline = curr->vruntime + calc_delta_weight(curr->slice, curr->weight, curr->inv_weight);
	clear_buddy(rq, curr->pid);
	avg_vruntime(queue);
	return stops || queue->nr > 1;
}

/*
 * These two functions give another weight, scaled, to @se: set_h_weight() if it is on no runqueue, and
 * reweight_curr() if it runs on @rq. Both keep the length in time of its lag, and reweight_curr() also that of its
 * deadline and its protection (reweight_eevdf()).
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
	avg = avg_vruntime(&rq->queue);
	se->vruntime = curr->vruntime;
	lag = entity_lag(&rq->queue, avg, se);
	rel_deadline = curr->deadline - avg;
	rel_vprot = curr->vprot - avg;
	begin_move(&rq->queue);
	__sync_fetch_and_add(&rq->queue.load_weight, weight - curr->weight);
	__sync_fetch_and_add(&rq->queue.weighted_vruntime, -(curr->weight * curr->vruntime));
	curr->vruntime = avg - scale_signed(lag, curr->weight, weight);
	__sync_fetch_and_add(&rq->queue.weighted_vruntime, weight * curr->vruntime);
	end_move(&rq->queue);
	__sync_fetch_and_add(&rq->group_load, curr->weight - weight);
	curr->deadline = avg + scale_signed(rel_deadline, curr->weight, weight);
	if (protected)
		curr->vprot = avg + scale_signed(rel_vprot, curr->weight, weight);
	curr->weight = se->h_weight = weight;
}

/* Makes @p, which gets @cpu, the running task of its runqueue. */
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
		if (any_group_is_limited() || group_queues())
			rq->curr.charged_group = se->group;
		if (group_queues()) {
			set_next_groups(se->group, cpu, rq->last_group);
		} else {
			reweight_curr(rq, se, set_next_hierarchy(se->group, cpu, se->weight));
			rq->curr_throttled = is_throttled(p, se);
		}
	}
	rq->last_group = se->group;
	rq->curr.vprot = protect_slice(rq, &rq->curr);
	clear_buddy(rq, p->pid);
	se->listed_at = now;
	rq->need_resched = rq->resched_lazy = false;
}

/* Records that the running task, @se, leaves @cpu. */
static __always_inline void put_curr(u32 cpu, struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_rq_clock(cpu, now);
	update_curr(cpu);
	if (in_group(se->group)) {
		update_group_load(rq, se, true);
		put_prev_hierarchy(se->group, cpu);
		if (group_queues())
			throttle_prev_groups(se->group, cpu);
	} else {
		update_root_load(rq, se, true);
	}
	se->vruntime = rq->curr.vruntime;
	se->deadline = rq->curr.deadline;
	se->exec_start = rq->clock_task;
	rq->curr.pid = 0;
}

/*
 * Wakes up on @cpu the entity @se, which was delayed when it went to sleep on @old_cpu. Returns true if it keeps
 * its old place, because it is still beyond its share. Otherwise it is owed nothing. If it wakes up on another CPU,
 * it takes its debt along, which is at most that with which it went to sleep, even if the average has fallen (in
 * Linux 6.12 the debt then grows).
 */
static __always_inline bool requeue_delayed_entity(struct fair_entity *se, u32 old_cpu, u32 cpu)
{
	const struct eevdf_queue *queue = queue_of(se->group, old_cpu);
	u64 avg = peek_vruntime(queue);
	s64 owed = se->vlag, lag;

	se->vlag = 0;
	if (!end_delay(old_cpu, se->delayed_slot, se->pid))
		return false;
	lag = entity_lag(queue, avg, se);
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

/*
 * Counts @se, whose group is not the root, in its groups on @cpu, whose runqueue it joins (with queues of groups,
 * joined_queue() does so later). Unless it @stays where it was, it gets the weight that it has there.
 */
static __noinline void enqueue_in_group(struct fair_entity *se, u32 cpu, bool stays)
{
	u64 weight = (u64)se->weight << SCALE_LOAD_SHIFT;

	if (!group_queues())
		weight = enqueue_hierarchy(se->group, cpu, se->weight, se->idle_policy);
	if (!stays)
		set_h_weight(se, weight);
	count_in_group(se, cpu, 1);
	se->h_idle = se->idle_policy || in_idle_group(se->group);
}

/* Lets @se leave the runqueue of its CPU or, if it is @delayed, go to sleep and still count. */
static __noinline void dequeue_in_group(const struct fair_entity *se, bool delayed)
{
	if (delayed) {
		delay_hierarchy(se->group, se->cpu);
		return;
	}
	if (group_queues()) {
		leave_group(se->group, se->cpu, se->idle_policy, true);
		return;
	}
	count_in_group(se, se->cpu, -1);
	dequeue_hierarchy(se->group, se->cpu, se->weight, se->idle_policy, true);
}

/* Counts @se, which has joined the queue of its group on its CPU, in the groups above. */
static __always_inline void joined_queue(const struct fair_entity *se)
{
	if (group_queues() && se->group)
		join_group(se->group, se->cpu, se->idle_policy);
}

/* Makes @se runnable on @cpu: after a sleep, a fork, or a change of class or affinity. */
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
		place_entity(queue_in(rq, se->group, cpu), se, se->forked, 0);
	se->delayed = false;
	se->is_new = se->forked;
	se->forked = false;
	se->listed_at = now;
	bpf_spin_lock(&se->lock);
	if (!se->on_rq)
		add_entity(se, cpu);
	bpf_spin_unlock(&se->lock);
	joined_queue(se);
}

/*
 * Takes @se, which is no longer runnable, off its runqueue. If it only goes to sleep (@sleeps), and has had more
 * than its share, it still counts.
 */
static __always_inline void dequeue_entity(struct fair_entity *se, bool sleeps, u64 now)
{
	struct fair_rq *rq = rq_of(se->cpu);
	struct eevdf_queue *queue;
	bool was_on_rq;
	u64 avg;

	update_rq_clock(se->cpu, now);
	update_curr(se->cpu);
	if (!in_group(se->group))
		update_root_load(rq, se, false);
	else if (se->exec_start != rq->clock_task)
		/* Otherwise the task has just stopped, and put_curr() has updated the load. */
		update_group_load(rq, se, false);
	queue = queue_in(rq, se->group, se->cpu);
	avg = avg_vruntime(queue);
	se->vlag = entity_lag(queue, avg, se);
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
 * Moves the counts of @se, which is in a group and has left the runqueue of @src_cpu, to that of @cpu. This is not
 * part of migrate_entity(), because code under a lock may not call the functions for groups.
 */
static __noinline void migrate_hierarchy(struct fair_entity *se, u32 src_cpu, u32 cpu, s64 rel_deadline)
{
	u64 was = se->h_weight;

	if (group_queues()) {
		leave_group(se->group, src_cpu, se->idle_policy, true);
	} else {
		count_in_group(se, src_cpu, -1);
		dequeue_hierarchy(se->group, src_cpu, se->weight, se->idle_policy, true);
	}
	attach_entity(se, cpu);
	enqueue_in_group(se, cpu, false);
	bpf_spin_lock(&se->lock);
	place_entity(queue_of(se->group, cpu), se, false, scale_signed(rel_deadline, was, se->h_weight));
	add_entity(se, cpu);
	bpf_spin_unlock(&se->lock);
	joined_queue(se);
}

/*
 * Moves a waiting task to the runqueue of @cpu, with its lag and the distance to its deadline. This function is not
 * inlined in BPF, because a chain of calls has 512 bytes of stack, and balancing, which calls the function at its
 * end, uses most of the stack.
 */
static __noinline void migrate_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *src = rq_of(se->cpu), *dst = rq_of(cpu);
	const struct eevdf_queue *queue = queue_in(src, se->group, se->cpu);
	u64 rel_deadline = se->deadline - se->vruntime, avg = peek_vruntime(queue), now = bpf_ktime_get_ns();
	u32 src_cpu = se->cpu;
	bool moves;

	bpf_spin_lock(&se->lock);
	moves = se->on_rq;
	if (moves) {
		se->vlag = entity_lag(queue, avg, se);
		clear_buddy(src, se->pid);
		remove_entity(se);
		detach_entity(se);
		if (!in_group(se->group)) {
			place_entity(&dst->queue, se, false, rel_deadline);
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

/* Gives @se, which counts nowhere, the policy and the nice level of @p from now on. */
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
 * Gives @p a new nice level, slice or policy, or moves it to the group @group. Its lag and deadline keep their
 * length in time (reweight_eevdf()).
 */
static __noinline void reweight_entity(struct task_struct *p, struct fair_entity *se, u32 group)
{
	struct eevdf_queue *queue = queue_of(se->group, se->cpu);
	u64 avg = peek_vruntime(queue), was = se->h_weight, weight;
	bool on_rq, moves = se->group != group;

	/* A delayed sleeper is dequeued at once. */
	if (se->delayed && end_delay(se->cpu, se->delayed_slot, se->pid))
		se->delayed = false;
	bpf_spin_lock(&se->lock);
	on_rq = se->on_rq;
	if (on_rq) {
		se->vlag = entity_lag(queue, avg, se);
		remove_entity(se);
	}
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
	if (in_group(se->group) && on_rq && !group_queues())
		weight = enqueue_hierarchy(se->group, se->cpu, se->weight, se->idle_policy);
	if (on_rq && was && group_queues() && moves) {
		u64 rel_deadline = scale_signed(se->deadline - se->vruntime, was, weight);

		set_h_weight(se, weight);
		place_entity(queue_of(group, se->cpu), se, false, rel_deadline);
	} else if (on_rq && was) {
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
	joined_queue(se);
}

static __always_inline void note_first(u64 *first, u64 at)
{
	if (*first == ~0ULL || time_before(at, *first))
		*first = at;
}

/*
 * Dequeues the sleepers of @cpu that would be picked: those that are eligible with the average at @avg and have an
 * earlier deadline than @best. With @best at ~0, any deadline is earlier. If the CPU has no other task, dequeues
 * all sleepers. Returns true if it dequeued any.
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
