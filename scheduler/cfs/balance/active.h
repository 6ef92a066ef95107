/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Active balance: a CPU that should get load, but finds only a running task or none that may move,
 * asks for it. Where the kernel has its stopper thread take the CPU, here the CPU is made to
 * reschedule and gives a task away in ops.dispatch().
 */
#ifndef __EQUIPOISE_ACTIVE_H
#define __EQUIPOISE_ACTIVE_H

#include "../core/fair.h"
#include "balance_env.bpf.h"

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

/* Asks @src_cpu to push task @pid, or any if that is 0, to @dst_cpu. False if it is already pushing one. */
static __always_inline bool ask_push(u32 src_cpu, u32 dst_cpu, s32 pid)
{
	struct fair_rq *rq = rq_of(src_cpu);

	if (!__sync_bool_compare_and_swap(&rq->active_balance, 0, 1))
		return false;
	rq->push_cpu = dst_cpu;
	rq->push_pid = pid;
	this_counters()->active_balances++;
	scx_bpf_kick_cpu(src_cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Asks src_cpu to push a task to dst_cpu. */
static __always_inline bool request_push(const struct balance_env *env)
{
	if (!ask_push(env->src_cpu, env->dst_cpu, 0))
		return false;
	hook_pushes(env);
	return true;
}

/* Gives a waiting task of @cpu, @pid or any if that is 0, to @push_cpu. */
__noinline bool push_queued_task(u32 cpu, u32 push_cpu, s32 pid, u64 now)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		struct fair_entity *se = entity_of(p);

		if (!se || (pid && p->pid != pid) || !task_allowed(p, push_cpu))
			continue;
		migrate_entity(se, push_cpu);
		add_leftmost(rq_of(push_cpu), se->vruntime);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, se->vruntime);
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, push_cpu, 0)) {
			migrate_entity(se, cpu);
			continue;
		}
		check_preempt_curr(p, push_cpu, now);
		return true;
	}
	return false;
}

/* @prev leaves @cpu for @push_cpu: from now on it counts there, and ops.enqueue() follows its account. */
static __always_inline bool push_running_task(u32 cpu, struct task_struct *prev, u32 push_cpu, u64 now)
{
	struct fair_entity *se;

	if (!prev || !(se = entity_of(prev)) || se->cpu != cpu || !se->on_rq || !task_allowed(prev, push_cpu) ||
	    is_migration_disabled(prev))
		return false;
	put_curr(cpu, se, now);
	migrate_entity(se, push_cpu);
	return true;
}

/*
 * In ops.dispatch(): @prev, which starts another program, goes where it was to go (sched_exec()). Not yet if
 * it is still in the tracepoint that said so: then the tick asks again.
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

/*
 * In ops.dispatch(): answers request_push(). Returns true if it is @prev that leaves.
 */
static __always_inline bool active_load_balance(u32 cpu, struct task_struct *prev, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u32 push_cpu = rq->push_cpu;
	s32 pid = rq->push_pid;

	rq->active_balance = 0;
	if (push_cpu == cpu)
		return false;
	if (push_queued_task(cpu, push_cpu, pid, now) || (pid && prev && prev->pid != pid))
		return false;
	return push_running_task(cpu, prev, push_cpu, now);
}

#endif /* __EQUIPOISE_ACTIVE_H */
