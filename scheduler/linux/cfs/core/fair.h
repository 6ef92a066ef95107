/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fair time on one CPU: vruntime, slices and preemption. This is CFS as in kernel/sched/fair.c of Linux 3.9, with
 * its features at their defaults: GENTLE_FAIR_SLEEPERS, START_DEBIT, WAKEUP_PREEMPTION, LAST_BUDDY,
 * CACHE_HOT_BUDDY.
 */
#ifndef __EQUIPOISE_FAIR_H
#define __EQUIPOISE_FAIR_H

#include "../../../kick.bpf.h"
#include "../../../signals/irq_time.h"
#include "task.bpf.h"

/* sched_nr_latency: the number of tasks beyond which not every task can run within one latency. */
static __always_inline u64 sched_nr_latency(void)
{
	u64 min_granularity = tunables.sched_min_granularity;

	return (tunables.sched_latency + min_granularity - 1) / min_granularity;
}

/* The period in which each of @nr_running tasks runs once, in ns. */
static __always_inline u64 sched_period(u64 nr_running)
{
	u64 stretched = nr_running * tunables.sched_min_granularity;

	return stretched > tunables.sched_latency ? stretched : tunables.sched_latency;
}

/* The part of that period for a task of @weight among @nr_running tasks with a total weight of @load, in ns. */
static __always_inline u64 sched_slice(u64 nr_running, u64 load, u32 weight)
{
	return load ? sched_period(nr_running) * weight / load : 0;
}

/*
 * sched_slice() of an entity of @weight in the queue of @group on @cpu, among @nr_running entities with a total
 * weight of @load. The slice is a part of the slices of the groups above.
 */
__noinline u64 sched_slice_in(u32 group, u32 cpu, u64 nr_running, u64 load, u32 weight)
{
	u64 slice;

	forget_origin(group);
	forget_origin(cpu);
	slice = sched_slice(nr_running, load, weight);
	for (int level = 0; level < MAX_GROUP_LEVELS && in_group(group); level++) {
		u64 above;

		weight = group_rq_at(group, cpu)->weight;
		group = group_parent(group);
		above = *load_weight_of(group, cpu);
		slice = above ? slice * weight / above : slice;
	}
	return slice;
}

static __always_inline u64 curr_vruntime(const struct fair_rq *rq, u64 now)
{
	const struct running *curr = &rq->curr;

	if (time_before(now, curr->exec_start))
		return curr->vruntime;
	return curr->vruntime + calc_delta_fair(now - curr->exec_start, curr->weight, curr->inv_weight);
}

static __always_inline void clear_buddies(struct fair_rq *rq, s32 pid)
{
	if (rq->next_pid == pid)
		rq->next_pid = 0;
	if (rq->last_pid == pid)
		rq->last_pid = 0;
}

/* Updates leftmost, because a task of @vruntime in @group has joined the dispatch queue of @cpu. */
static __always_inline void add_leftmost(u32 group, u32 cpu, u64 vruntime)
{
	u64 *leftmost = in_group(group) ? leftmost_of(group, cpu) : &rq_of(cpu)->leftmost;

	if (*leftmost == ~0ULL || time_before(vruntime, *leftmost))
		*leftmost = vruntime;
}

/* The vruntime of the first task in the dispatch queue of @cpu; ~0 if there is none. */
__noinline u64 first_vruntime(u32 cpu)
{
	u64 first = ~0ULL;
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		first = p->scx.dsq_vtime;
		break;
	}
	return first;
}

/*
 * Updates min_vruntime to the smallest vruntime on the runqueue, where the running task has the vruntime @curr.
 * min_vruntime never decreases.
 */
static __always_inline void update_min_vruntime(struct fair_rq *rq, u64 curr)
{
	u64 vruntime = rq->leftmost;

	if (rq->next_vruntime < vruntime)
		vruntime = rq->next_vruntime;
	if (rq->curr.pid && (vruntime == ~0ULL || time_before(curr, vruntime)))
		vruntime = curr;
	if (vruntime != ~0ULL && time_before(rq->min_vruntime, vruntime))
		rq->min_vruntime = vruntime;
}

/* Charges the task that runs on @cpu for its own time since the last call. The caller holds the runqueue's lock. */
static __always_inline void update_curr(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	struct running *curr = &rq->curr;
	u64 irq = irq_time(cpu), delta_exec = now - curr->exec_start - (irq - curr->irq_time), delta_fair;

	if (!curr->pid || (s64)delta_exec <= 0)
		return;
	delta_fair = calc_delta_fair(delta_exec, curr->weight, curr->inv_weight);
	curr->vruntime += delta_fair;
	hook_update_curr(curr, delta_fair);
	curr->delta_exec += delta_exec;
	curr->exec_start = now;
	curr->irq_time = irq;
	if (!in_group(curr->group))
		update_min_vruntime(rq, curr->vruntime);
	else if (charge_groups(curr->group, cpu, curr->vruntime, delta_exec))
		rq->curr_throttled = true;
}

static __always_inline void set_curr(u32 cpu, const struct task_struct *p, struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_entity_load_avg(se, now, true, false);
	update_task_util(&se->util, cpu, false);
	update_pelt(&rq->avg, now, rq->nr_running > 1, false);
	rq->curr = (struct running){
		.pid = p->pid,
		.policy = p->policy,
		.weight = se->weight,
		.inv_weight = se->inv_weight,
		.group = se->group,
		.vruntime = se->vruntime,
		.exec_start = now,
		.irq_time = irq_time(cpu),
		.load = entity_load(se),
	};
	hook_set_curr(rq, se);
	rq->next_vruntime = ~0ULL;
	rq->need_resched = false;
	rq->skip = false;
	clear_buddies(rq, p->pid);
	if (in_group(se->group))
		set_next_groups(se->group, cpu);
}

static __always_inline void put_curr(u32 cpu, struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_curr(cpu, now);
	update_entity_load_avg(se, now, true, true);
	update_task_util(&se->util, cpu, true);
	update_pelt(&rq->avg, now, true, true);
	hook_put_curr(rq, se);
	se->vruntime = rq->curr.vruntime;
	se->exec_start = now;
	rq->curr.pid = 0;
	rq->curr_throttled = false;
	if (in_group(se->group)) {
		put_prev_groups(se->group, cpu, now);
		if (any_group_is_limited())
			throttle_prev_groups(se->group, cpu, now);
	}
}

/* Lets @prev continue for another slice. */
static __always_inline void keep_prev(struct fair_rq *rq, struct task_struct *prev)
{
	rq->curr.delta_exec = 0;
	rq->skip = false;
	clear_buddies(rq, prev->pid);
	prev->scx.slice = SCX_SLICE_INF;
}

/* Places a task that slept: the task gets half a latency of credit, but its vruntime never decreases. */
static __always_inline void place_sleeper(u32 cpu, struct fair_entity *se)
{
	u64 min = *min_vruntime_of(se->group, cpu);

	se->vruntime = later_vruntime(se->vruntime, min - tunables.sched_latency / 2);
}

/* task_fork_fair(): a child starts at its parent's vruntime or, if that is later, a slice after min_vruntime. */
static __noinline void place_forked(struct fair_entity *se, u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u64 slice = sched_slice_in(se->group, cpu, queue_nr(se->group, cpu) + 1,
				   *load_weight_of(se->group, cpu) + se->weight, se->weight);
	u64 debit = *min_vruntime_of(se->group, cpu) + calc_delta_fair(slice, se->weight, se->inv_weight);

	se->cpu = cpu;
	se->vruntime = rq->curr.pid && rq->curr.group == se->group ? later_vruntime(curr_vruntime(rq, now), debit)
								   : debit;
}

/*
 * Is @curr so far ahead that @se should run? Returns 1 if @curr is that far ahead, 0 if it is ahead by at most a
 * wakeup granularity in virtual time of @se, and -1 if it is not ahead.
 */
static __always_inline int wakeup_preempt_entity(u64 curr, u64 se, u32 weight, u32 inv_weight)
{
	s64 vdiff = curr - se;

	if (vdiff <= 0)
		return -1;
	return (u64)vdiff > calc_delta_fair(tunables.sched_wakeup_granularity, weight, inv_weight);
}

/*
 * Should the tick end the slice of the running task, or that of a group above it? This is check_preempt_tick() if
 * groups have queues.
 */
static __noinline bool check_preempt_groups(struct fair_rq *rq, u32 cpu)
{
	u64 vruntime = rq->curr.vruntime, delta_exec = rq->curr.delta_exec;
	u32 group = rq->curr.group, weight = rq->curr.weight;

	for (;;) {
		u64 load = *load_weight_of(group, cpu), first = *leftmost_of(group, cpu);
		u32 nr = queue_nr(group, cpu);
		u64 ideal_runtime = sched_slice_in(group, cpu, nr, load, weight);
		const struct group_rq *grq;

		if (nr > 1 && delta_exec > ideal_runtime) {
			explain(share_over, rq->curr.pid, cpu, delta_exec, ideal_runtime, nr - 1);
			clear_buddies(rq, rq->curr.pid);
			return true;
		}
		if (nr > 1 && delta_exec >= tunables.sched_min_granularity && first != ~0ULL &&
		    (s64)(vruntime - first) > (s64)ideal_runtime)
			return true;
		if (!group)
			return false;
		grq = group_rq_at(group, cpu);
		vruntime = grq->vruntime;
		delta_exec = grq->delta_exec;
		weight = grq->weight;
		group = group_parent(group);
	}
}

static __always_inline bool check_preempt_tick(struct fair_rq *rq)
{
	struct running *curr = &rq->curr;
	u64 ideal_runtime;

	if (group_queues())
		return check_preempt_groups(rq, bpf_get_smp_processor_id());
	ideal_runtime = sched_slice(rq->nr_running, rq->load_weight, curr->weight);
	if (curr->delta_exec > ideal_runtime) {
		explain(share_over, curr->pid, bpf_get_smp_processor_id(), curr->delta_exec, ideal_runtime,
			rq->nr_running - 1);
		/* The task must not be picked again as a buddy. */
		clear_buddies(rq, curr->pid);
		return true;
	}
	if (curr->delta_exec < tunables.sched_min_granularity || rq->leftmost == ~0ULL)
		return false;
	return (s64)(curr->vruntime - rq->leftmost) > (s64)ideal_runtime;
}

/* Should @p with @se preempt the running task? This is check_preempt_wakeup() if groups have queues. */
static __noinline bool preempts_in_queues(struct fair_rq *rq, const struct task_struct *p,
					  const struct fair_entity *se, u64 now)
{
	struct matching in = find_matching(se->group, rq->curr.group);
	u32 cpu = se->cpu, child = in.se;
	const struct group_rq *wakes;
	u64 curr, vruntime;

	update_curr(cpu, now);
	wakes = group_rq_at(child, cpu);
	curr = in.curr ? group_rq_at(in.curr, cpu)->vruntime : rq->curr.vruntime;
	vruntime = child ? wakes->vruntime : se->vruntime;
	if (wakeup_preempt_entity(curr, vruntime, child ? wakes->weight : se->weight,
				  child ? wakes->inv_weight : se->inv_weight) != 1) {
		explain(near_vruntime, p->pid, cpu, rq->curr.pid, curr - vruntime,
			tunables.sched_wakeup_granularity);
		return false;
	}
	explain(less_vruntime, p->pid, cpu, rq->curr.pid, curr - vruntime, tunables.sched_wakeup_granularity);
	rq->next_pid = p->pid;
	rq->next_group = se->group;
	if (queue_nr(rq->curr.group, cpu) >= sched_nr_latency()) {
		rq->last_pid = rq->curr.pid;
		rq->last_group = rq->curr.group;
	}
	rq->need_resched = true;
	this_counters()->wakeup_preemptions++;
	return true;
}

/*
 * Should @p, which has become runnable on the CPU of @rq, preempt the running task? If so, the CPU has to
 * reschedule. A task that preempts becomes the next buddy, because it may not be the leftmost task. If many tasks
 * wait, the preempted task becomes the last buddy, because its cache is still warm. If the preempted task is
 * SCHED_IDLE, neither becomes a buddy.
 */
static __always_inline bool check_preempt_wakeup(struct fair_rq *rq, const struct task_struct *p,
						 const struct fair_entity *se, u64 now)
{
	struct running *curr = &rq->curr;
	bool curr_idle = curr->policy == SCHED_IDLE;

	if (rq->need_resched)
		return false;
	if (group_queues() && throttled_hierarchy(se->group, se->cpu))
		return false;
	if (!curr_idle || p->policy == SCHED_IDLE) {
		/* Batch and idle tasks wait for the tick. */
		if (p->policy == SCHED_BATCH || p->policy == SCHED_IDLE)
			return false;
		if (group_queues())
			return preempts_in_queues(rq, p, se, now);
		if (wakeup_preempt_entity(curr_vruntime(rq, now), se->vruntime, se->weight, se->inv_weight) != 1) {
			explain(near_vruntime, p->pid, se->cpu, curr->pid, curr_vruntime(rq, now) - se->vruntime,
				calc_delta_fair(tunables.sched_wakeup_granularity, se->weight, se->inv_weight));
			return false;
		}
		rq->next_pid = p->pid;
	}
	if (!curr_idle && rq->nr_running >= sched_nr_latency())
		rq->last_pid = curr->pid;
	explain(less_vruntime, p->pid, se->cpu, curr->pid, curr_vruntime(rq, now) - se->vruntime,
		calc_delta_fair(tunables.sched_wakeup_granularity, se->weight, se->inv_weight));
	rq->need_resched = true;
	this_counters()->wakeup_preemptions++;
	return true;
}

/*
 * Makes @cpu reschedule, if it should, because @p has joined its dispatch queue. Returns whether the CPU
 * reschedules.
 */
__noinline bool check_preempt_curr(struct task_struct *p __arg_trusted, u32 cpu, u64 now)
{
	struct fair_entity *se = entity_of(p);
	struct fair_rq *rq = rq_of(cpu);

	if (!se || rq->dispatching)
		return false;
	if (!rq->curr.pid) {
		kick_cpu(cpu, SCX_KICK_IDLE);
		return true;
	}
	if (!check_preempt_wakeup(rq, p, se, now))
		return false;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Is there work that only the next ops.dispatch() of the CPU of @rq will do? */
static __always_inline bool dispatch_expected(const struct fair_rq *rq)
{
	return rq->dispatching || rq->active_balance || rq->exec_pid || rq->nohz_balance_kick ||
	       hook_dispatch_expected(rq);
}

/*
 * May @p, which has become runnable on its own CPU @cpu, run there at once, bypassing the dispatch queue? Yes if
 * the CPU is idle or, unless groups have queues, if @p preempts and is leftmost. The bypass saves a dispatch, and a
 * kick, which is an interrupt.
 * *@waits becomes true if @p was found not to preempt.
 */
static __always_inline bool runs_at_once(u32 cpu, const struct task_struct *p, const struct fair_entity *se,
					 u64 now, bool *waits)
{
	struct fair_rq *rq = rq_of(cpu);

	if (dispatch_expected(rq))
		return false;
	if (!rq->curr.pid)
		return rq->idle && rq->nr_running == 1 && !(group_queues() && throttled_hierarchy(se->group, cpu));
	if (group_queues())
		return false;
	if (rq->leftmost != ~0ULL && time_before(rq->leftmost, se->vruntime))
		return false;
	*waits = !check_preempt_wakeup(rq, p, se, now);
	return !*waits;
}

#endif /* __EQUIPOISE_FAIR_H */
