/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Active balance: a CPU that should get load, but finds only a running task or no waiting task that may move,
 * requests the running task. This file also has the function that moves a waiting task.
 */
#ifndef __EQUIPOISE_ACTIVE_H
#define __EQUIPOISE_ACTIVE_H

#include "../core/preempt.h"
#include "../../push.h"
#include "balance_env.bpf.h"

/* Asks src_cpu to push a task to dst_cpu. Returns false if src_cpu is already pushing a task. */
static __always_inline bool request_push(const struct balance_env *env)
{
	struct fair_rq *rq = rq_of(env->src_cpu);

	if (!__sync_bool_compare_and_swap(&rq->active_balance, 0, 1))
		return false;
	rq->push_cpu = env->dst_cpu;
	this_counters()->active_balances++;
	if (env->migration_type == MIGRATE_MISFIT)
		this_counters()->misfit_moves++;
	if (env->migration_type == MIGRATE_MISFIT)
		explain(misfit, rq->curr.pid, env->dst_cpu, env->src_cpu, power_of(env->src_cpu),
			power_of(env->dst_cpu));
	else
		explain(active_balance, rq->curr.pid, env->dst_cpu, env->src_cpu,
			env_domain_state(env)->nr_balance_failed);
	kick_cpu(env->src_cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Moves @p, at which @it points and which waits elsewhere, to @cpu. Returns false if @p no longer waits. */
static __always_inline bool move_queued_task(struct bpf_iter_scx_dsq *it, struct task_struct *p,
					     struct fair_entity *se, u32 cpu)
{
	u32 src_cpu = se->cpu;

	migrate_entity(se, cpu);
	if (move_to_queue(it, p, se, cpu, peek_vruntime(&rq_of(cpu)->queue))) {
		check_preempt_curr(p, cpu);
		return true;
	}
	migrate_entity(se, src_cpu);
	return false;
}

/*
 * Notes the task in @dsq that was enqueued or picked least recently. If @push_cpu is not negative,
 * only tasks that may run there count.
 */
__noinline bool note_oldest(struct balance_env *env __arg_nonnull, u64 dsq, s32 push_cpu)
{
	forget_origin(dsq);
	forget_origin(push_cpu);
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		const struct fair_entity *se = entity_of(p);

		if (!se || (env->oldest_pid && !time_before(se->listed_at, env->oldest_at)))
			continue;
		if (push_cpu >= 0 && (!task_allowed(p, push_cpu) || is_per_cpu_kthread(p)))
			continue;
		env->oldest_pid = p->pid;
		env->oldest_at = se->listed_at;
		env->oldest_dsq = dsq;
	}
	return env->oldest_pid;
}

/*
 * Calls note_oldest() for all tasks that wait on @cpu. The kernel keeps a list for this purpose (cfs_tasks) and
 * takes tasks from its end.
 */
static __always_inline bool find_oldest(struct balance_env *env, u32 cpu, s32 push_cpu)
{
	env->oldest_pid = 0;
	note_oldest(env, eligible_dsq(cpu), push_cpu);
	return note_oldest(env, ineligible_dsq(cpu), push_cpu);
}

/* Gives env's oldest task to @push_cpu. Returns false if the task no longer waits. */
__noinline bool push_oldest(struct balance_env *env __arg_nonnull, u32 push_cpu)
{
	forget_origin(push_cpu);
	struct task_struct *p;
	bool pushed = false;

	bpf_for_each(scx_dsq, p, env->oldest_dsq, 0) {
		struct fair_entity *se = entity_of(p);

		if (p->pid != env->oldest_pid)
			continue;
		pushed = se && move_queued_task(BPF_FOR_EACH_ITER, p, se, push_cpu);
		if (pushed)
			explain(oldest_sent, p->pid, push_cpu, bpf_get_smp_processor_id());
		break;
	}
	return pushed;
}

/*
 * Makes the lowest domain that has both CPUs forget its failures, because balancing between @push_cpu and @cpu has
 * succeeded after all.
 */
__noinline bool forget_failures(u32 push_cpu, u32 cpu)
{
	forget_origin(push_cpu);
	forget_origin(cpu);
	int level;

	bpf_for(level, 0, levels_of(push_cpu)->nr_levels)
		if (same_domain(push_cpu, cpu, level)) {
			domain_state_of(push_cpu, level)->nr_balance_failed = 0;
			return true;
		}
	return false;
}

/*
 * Answers request_push(), in ops.dispatch(). As in the kernel, the running task is considered last, because it ran
 * last. Returns true if @prev is the task that leaves.
 */
static __always_inline bool active_load_balance(u32 cpu, struct task_struct *prev, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u32 push_cpu = rq->push_cpu;
	struct balance_env *env = this_balance_env();
	bool queued, pushed = false;

	rq->active_balance = 0;
	if (push_cpu == cpu)
		return false;
	queued = find_oldest(env, cpu, push_cpu) && push_oldest(env, push_cpu);
	if (!queued)
		pushed = push_running_task(cpu, prev, push_cpu, now);
	if (queued || pushed)
		forget_failures(push_cpu, cpu);
	return pushed;
}

#endif /* __EQUIPOISE_ACTIVE_H */
