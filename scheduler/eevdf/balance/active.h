/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Active balance: a CPU that should get load, but finds only a running task or none that may move, asks for it; and
 * moving a task that waits.
 */
#ifndef __EQUIPOISE_ACTIVE_H
#define __EQUIPOISE_ACTIVE_H

#include "../core/preempt.h"
#include "../../push.h"
#include "balance_env.bpf.h"

/* Asks src_cpu to push a task to dst_cpu. False if it is already pushing one. */
static __always_inline bool request_push(const struct balance_env *env)
{
	struct fair_rq *rq = rq_of(env->src_cpu);

	if (rq->active_balance)
		return false;
	rq->active_balance = true;
	rq->push_cpu = env->dst_cpu;
	this_counters()->active_balances++;
	if (env->migration_type == MIGRATE_MISFIT)
		this_counters()->misfit_moves++;
	scx_bpf_kick_cpu(env->src_cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Moves @p, which @it is at and waits on another CPU, to @cpu. False if it is gone. */
static __always_inline bool move_queued_task(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					     struct fair_entity *se, u32 cpu)
{
	u32 src_cpu = se->cpu;

	migrate_entity(se, cpu);
	if (move_to_queue(it, p, se, cpu, peek_vruntime(rq_of(cpu)))) {
		check_preempt_curr(p, cpu);
		return true;
	}
	migrate_entity(se, src_cpu);
	return false;
}

/* Gives the first task in @dsq, a queue of another CPU's, that may to @push_cpu. */
__noinline bool push_from_queue(u64 dsq, u32 push_cpu)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct fair_entity *se = entity_of(p);

		if (se && task_allowed(p, push_cpu) && move_queued_task(BPF_FOR_EACH_ITER, p, se, push_cpu))
			return true;
	}
	return false;
}

/*
 * In ops.dispatch(): answers request_push(). The running task is the last that the kernel would take, as it ran
 * last. Returns true if it is @prev that leaves.
 */
static __always_inline bool active_load_balance(u32 cpu, struct task_struct *prev, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u32 push_cpu = rq->push_cpu;

	rq->active_balance = false;
	if (push_cpu == cpu || push_from_queue(eligible_dsq(cpu), push_cpu) ||
	    push_from_queue(ineligible_dsq(cpu), push_cpu))
		return false;
	return push_running_task(cpu, prev, push_cpu, now);
}

#endif /* __EQUIPOISE_ACTIVE_H */
