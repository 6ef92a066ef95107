/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gives away the running task. Where the kernel lets its stopper thread take the CPU, here the CPU is made to
 * reschedule, and releases the task in ops.dispatch(). This file is for any scheduler that defines rq_of() with
 * curr.pid, exec_pid and exec_cpu; entity_of() with cpu and on_rq; task_allowed(), put_curr(), migrate_entity().
 */
#ifndef __EQUIPOISE_PUSH_H
#define __EQUIPOISE_PUSH_H

#include "../explain.bpf.h"
#include "../topology.bpf.h"

/* May the task that runs on @cpu use @other? */
__noinline bool curr_allowed(u32 cpu, u32 other)
{
	struct task_struct *p = bpf_task_from_pid(rq_of(cpu)->curr.pid);
	bool allowed;

	if (!p)
		return false;
	allowed = task_allowed(p, other);
	bpf_task_release(p);
	return allowed;
}

/* The first CPU of @group that @p may use, or -1. */
__noinline s32 first_allowed_cpu(struct task_struct *p __arg_trusted, u32 group)
{
	const struct group *sg = group_at(group);
	s32 found = -1;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (task_allowed(p, cpu)) {
			found = cpu;
			break;
		}
	}
	return found;
}

/* Makes @prev leave @cpu for @push_cpu: from now on it counts there, and ops.enqueue() follows. */
static __always_inline bool push_running_task(u32 cpu, struct task_struct *prev, u32 push_cpu, u64 now)
{
	struct fair_entity *se;

	if (!prev || !(se = entity_of(prev)) || se->cpu != cpu || !se->on_rq || !task_allowed(prev, push_cpu) ||
	    is_migration_disabled(prev))
		return false;
	explain(sent, prev->pid, push_cpu, cpu);
	put_curr(cpu, se, now);
	migrate_entity(se, push_cpu);
	return true;
}

/*
 * sched_exec(): in ops.dispatch(), sends @prev, which executes another program, to the CPU chosen for it. A task
 * that is still in the tracepoint at which the CPU was chosen stays, and the next tick tries again.
 */
static __always_inline bool exec_balance(u32 cpu, struct task_struct *prev, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	if (prev && prev->pid == rq->exec_pid && is_migration_disabled(prev))
		return false;
	if (!prev || prev->pid != rq->exec_pid) {
		rq->exec_pid = 0;
		return false;
	}
	rq->exec_pid = 0;
	return push_running_task(cpu, prev, rq->exec_cpu, now);
}

#endif /* __EQUIPOISE_PUSH_H */
