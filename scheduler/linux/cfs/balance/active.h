/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Active balance: a CPU that should get load, but finds only a running task or no task that may
 * move, requests the running task.
 */
#ifndef __EQUIPOISE_ACTIVE_H
#define __EQUIPOISE_ACTIVE_H

#include "../core/fair.h"
#include "../../push.h"
#include "balance_env.bpf.h"

/*
 * Asks @src_cpu to push task @pid, or any task if @pid is 0, to @dst_cpu. Returns false if @src_cpu is already
 * pushing a task.
 */
static __always_inline bool ask_push(u32 src_cpu, u32 dst_cpu, s32 pid)
{
	struct fair_rq *rq = rq_of(src_cpu);

	if (!__sync_bool_compare_and_swap(&rq->active_balance, 0, 1))
		return false;
	rq->push_cpu = dst_cpu;
	rq->push_pid = pid;
	this_counters()->active_balances++;
	kick_cpu(src_cpu, SCX_KICK_PREEMPT);
	return true;
}

static __always_inline bool request_push(const struct balance_env *env)
{
	if (!ask_push(env->src_cpu, env->dst_cpu, 0))
		return false;
	if (hook_active_balance(env))
		explain(misfit, rq_of(env->src_cpu)->curr.pid, env->dst_cpu, env->src_cpu, power_of(env->src_cpu),
			power_of(env->dst_cpu));
	else
		explain(active_balance, rq_of(env->src_cpu)->curr.pid, env->dst_cpu, env->src_cpu,
			env_domain_state(env)->nr_balance_failed);
	hook_pushes(env);
	return true;
}

/* Gives a waiting task of @cpu to @push_cpu: the task @pid, or any task if @pid is 0. */
__noinline bool push_queued_task(u32 cpu, u32 push_cpu, s32 pid, u64 now)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, cpu, 0) {
		struct fair_entity *se = entity_of(p);

		if (!se || (pid && p->pid != pid) || !task_allowed(p, push_cpu) ||
		    is_throttled_pair(se, cpu, push_cpu))
			continue;
		migrate_entity(se, push_cpu);
		add_leftmost(se->group, push_cpu, se->vruntime);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, se->vruntime);
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, push_cpu, 0)) {
			migrate_entity(se, cpu);
			continue;
		}
		explain(oldest_sent, p->pid, push_cpu, cpu);
		check_preempt_curr(p, push_cpu, now);
		return true;
	}
	return false;
}

/* Answers request_push(), in ops.dispatch(). Returns true if @prev is the task that leaves. */
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
