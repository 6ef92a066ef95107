/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of throttled groups (throttle.bpf.h) wait in queues that no CPU takes from until the group may run again. A
 * running task moves to such a queue when it stops, at the next tick; a waiting task when it is the first of its
 * queue, before a CPU takes it.
 */
#ifndef __EQUIPOISE_HELD_H
#define __EQUIPOISE_HELD_H

#include "idle.h"
#include "wait.h"

/*
 * The number of these queues, a power of two. There are many, so that a release seldom finds tasks of other groups.
 */
#define HELD_QUEUES 256

/* The queue for the tasks that the group @share holds back. */
static __always_inline u64 held_dsq(u32 share)
{
	return MAX_CLUSTERS + MAX_CPUS + (share & (HELD_QUEUES - 1));
}

/*
 * The group that holds back @p, which runs or is about to wake up; 0: none does. An exiting task may continue,
 * because it is about to release its resources.
 */
static __always_inline u32 stopped_by(const struct task_struct *p, const struct task_state *t)
{
	if (!READ_ONCE(nr_throttled) || p->flags & PF_EXITING || !t || !t->share)
		return 0;
	return throttled_by(t->share);
}

/*
 * The group that holds back @p, which waits or is about to wait; 0: none does. If many tasks share a small quota,
 * one that has waited for LONGEST_WAIT runs in spite of the limit. (Before ops.enqueue(), the runnable_at of a task
 * that wakes up is that of its last activation.)
 */
static __always_inline u32 held_by(const struct task_struct *p, const struct task_state *t)
{
	u32 share = stopped_by(p, t);

	return share && (bpf_jiffies64() - p->scx.runnable_at) * machine.tick_ns < LONGEST_WAIT ? share : 0;
}

/*
 * A task has been put into the queue of @share. If the group was released meanwhile, the release did not find the
 * task, so releases the group's tasks again. If a group above is throttled by then, they go to its queue.
 */
__noinline bool release_missed(u32 share)
{
	if (READ_ONCE(share_at(share)->held))
		return false;
	start_refill(share, 0);
	return true;
}

/*
 * Holds back @p for the group @share, in ops.enqueue(). The kernel inserts the task only afterwards. If the group
 * becomes runnable in between, the release finds an empty queue, so @cpu later checks the group again
 * (check_held()). If @cpu has yet to check another group, that group's task has been inserted by now, because both
 * ops have the lock of @cpu's runqueue.
 */
static __always_inline void hold_back(struct task_struct *p, struct task_state *t, u32 share, u32 cpu,
				      u64 enq_flags)
{
	struct cpu_state *this = cpu_at(cpu);
	u32 before = READ_ONCE(this->held);

	explain(held_back, p->pid, cpu);
	this_counters()->queue_waits++;
	leave_clock(t);
	scx_bpf_dsq_insert_vtime(p, held_dsq(share), SLICE_MAX, p->scx.dsq_vtime, enq_flags);
	WRITE_ONCE(this->held, share);
	if (before && before != share)
		release_missed(before);
	kick_cpu(cpu, 0);
}

/* Releases the tasks of the group for which @this last held back a task, if that group is no longer throttled. */
static __always_inline void check_held(struct cpu_state *this)
{
	u32 share = READ_ONCE(this->held);

	if (!share)
		return;
	WRITE_ONCE(this->held, 0);
	release_missed(share);
}

/* Holds back tasks from the head of @dsq while their groups are throttled. */
__noinline bool hold_first(u64 dsq)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct task_state *t = task_of(p);
		u32 share = held_by(p, t);

		if (!share || !t)
			break;
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, held_dsq(share), 0)) {
			leave_clock(t);
			release_missed(share);
		}
	}
	return true;
}

/* Takes the first task of @dsq that may run. */
static __always_inline bool take_first(u64 dsq)
{
	if (READ_ONCE(nr_throttled))
		hold_first(dsq);
	return scx_bpf_dsq_move_to_local(dsq, 0);
}

/* Takes the task @pid in @dsq for @cpu. Returns false if it no longer waits there, or may be held back. */
__noinline bool take_this(u64 dsq, s32 pid, u32 cpu)
{
	struct task_struct *p;
	u32 looked = 0;

	if (READ_ONCE(nr_throttled))
		return false;
	forget_origin(looked);
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (p->pid == pid)
			return task_allowed(p, cpu) && !is_migration_disabled(p) &&
			       scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		if (++looked >= TASKS_LOOKED_AT)
			break;
	}
	return false;
}

/* @p waits for @cpu, or near it: wakes an idle CPU for it. Returns false if it is not bound and there is none. */
__noinline bool call_for(struct task_struct *p __arg_trusted, struct task_state *t __arg_nonnull, u32 cpu)
{
	s32 idle;

	announce(t, cpu);
	if (t->bound_to)
		return true;
	idle = claim_idle_cpu(p, t, cpu, false);
	if (idle >= 0)
		kick_cpu(idle, SCX_KICK_IDLE);
	return idle >= 0;
}

/*
 * Releases the tasks that @share has held back, unless another group still holds them back. Without the throttling
 * they would have run, so their utilization does not decay, as in Linux ("sched: Maintain runnable averages across
 * throttled periods", Linux 3.8).
 */
__noinline bool release_held(u32 share)
{
	struct task_struct *p;
	u64 now = bpf_ktime_get_ns();

	bpf_for_each(scx_dsq, p, held_dsq(share), 0) {
		struct task_state *t = task_of(p);
		u32 by = held_by(p, t), cpu;

		if (by && held_dsq(by) != held_dsq(share) &&
		    scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, held_dsq(by), 0))
			release_missed(by);
		if (by || !t)
			continue;
		t->used.last_update_time = now;
		cpu = place(p, t, scx_bpf_task_cpu(p), now);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, deadline_of(t, request_of(p, t, 0)));
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, queue_of(t, cpu), 0))
			call_for(p, t, cpu);
	}
	return true;
}

static int run_refill(void *timers, int *share, struct scheduler_timer *timer)
{
	refill_share(*share);
	release_held(*share);
	return 0;
}

/* Gives the new group @cgrp its timer. */
static __always_inline void init_refill(struct cgroup *cgrp)
{
	u32 share = own_share(cgrp);

	if (!share)
		return;
	init_timer(&refills, share);
	set_timer(&refills, share, run_refill);
}

/* The limit of @cgrp, which has a timer, changes or is set for the first time; see limit_share(). */
static __always_inline void limit_group(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	u32 share = own_share(cgrp);

	if (share)
		limit_share(share, period_us, quota_us, burst_us);
}

#endif /* __EQUIPOISE_HELD_H */
