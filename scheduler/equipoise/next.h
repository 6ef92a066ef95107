/* SPDX-License-Identifier: GPL-2.0-only */
/* Chooses the task that a CPU runs next: the one that ran before, one that waits, or none. */
#ifndef __EQUIPOISE_NEXT_H
#define __EQUIPOISE_NEXT_H

#include "pull.h"
#include "turn.bpf.h"
#include "wait.h"

/* The running task has used its slice, or was asked to stop: may it continue? If so, it gets a new slice. */
__noinline bool goes_on(struct task_struct *prev __arg_trusted, struct task_state *t __arg_nonnull, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	bool yields = this->yields;
	u64 deadline, first;

	this->yields = false;
	if (READ_ONCE(this->request))
		return false;
	charge_running(prev, t, cpu);
	set_deadline(prev, t, 0);
	first = find_first_queue(cpu);
	if (first == NO_VTIME) {
		nothing_found(this->cluster);
		none_kept(cpu);
		/* The new slice appears used up, so that the next task to arrive need not wait for all of it. */
		prev->scx.slice = (SLICE_MAX - slice_of(prev)) ?: 1;
		return true;
	}
	/* A yield ends a request as if it had been served (yield_task_fair()): the others are owed a turn more. */
	if (yields && lag_of(clock_of(t), &t->fair) >= 0)
		give(clock_of(t), &t->fair, -(s64)slice_of(prev));
	deadline = t->bound_to ? in_cluster_time(this, prev->scx.dsq_vtime) : prev->scx.dsq_vtime;
	/* The task also stops if the deadlines are equal. */
	if (yields || !is_before(deadline, first)) {
		explain(ahead, prev->pid, cpu, first - deadline);
		return false;
	}
	explain(most_behind, prev->pid, cpu, first - deadline);
	prev->scx.slice = SLICE_MAX;
	this->asked = false;
	time_turn(prev, cpu, ran_of(prev));
	return true;
}

/* Takes the next task that waits for this CPU or its cluster. */
static __always_inline bool take_next(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	u64 cluster = cluster_dsq(this->cluster), dsq = cluster;

	this->ran_past = 0;
	/* Reading a task takes as long as moving it, so compare tasks only where there is a choice. */
	if ((may_keep_tasks(this) || stranded_in(cluster_at(this->cluster))) && find_first_queue(cpu) != NO_VTIME)
		dsq = this_first()->dsq;
	if (take_first(dsq))
		return true;
	none_kept(cpu);
	if (dsq != cluster && take_first(cluster))
		return true;
	/* A CPU may find its queue empty before the kernel inserts the task, and clear the bit. */
	return take_first(own_dsq(cpu));
}

/* Takes the task that @request names, which has less progress than the task here, or another one of its cluster. */
static __always_inline bool pull_for_fairness(u32 cpu, u64 request)
{
	u32 from = request_target(request);

	if (find_first_of(from, READ_ONCE(cluster_at(from)->keeping), cpu) == NO_VTIME ||
	    (!take_this(this_first()->dsq, request_pid(request), cpu) && !take_first(this_first()->dsq) &&
	     !pull_kept(from)))
		return false;
	this_counters()->pulled++;
	explain(takes_for_fairness, 0, cpu, cluster_at(from)->cpu[0]);
	return true;
}

/* Does a task that @cpu may run wait in its queue or its cluster's? Corrects the hints. */
static __always_inline bool still_waits(u32 cpu)
{
	const struct cpu_state *this = cpu_at(cpu);

	none_kept(cpu);
	nothing_found(this->cluster);
	return has_waiters(this) && find_first_queue(cpu) != NO_VTIME;
}

/*
 * @cpu has nothing to run, and may be claimed from now on, unless a real-time task has it: the kernel's deadline
 * server interrupts such a task to look for one of this scheduler. A task that was queued after the CPU had looked
 * did not see the CPU idle, so the CPU looks again: a waking task that is sent here could wait behind that one, and
 * no other CPU could take it.
 */
static __always_inline void become_idle(u32 cpu)
{
	if (rt_rq_is_runnable(cpu)) {
		set_taken(cpu);
		return;
	}
	if (!still_waits(cpu)) {
		set_idle(cpu);
		if (!still_waits(cpu) || !clear_idle(cpu))
			return;
	}
	kick_cpu(cpu, SCX_KICK_IDLE);
}

#endif /* __EQUIPOISE_NEXT_H */
