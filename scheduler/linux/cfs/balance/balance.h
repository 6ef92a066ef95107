/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load balancing within one domain, and over a CPU's domains when they are due: load_balance() and
 * rebalance_domains() of Linux 3.9. Balancing runs where tasks may be moved between dispatch queues: in
 * ops.dispatch() and in timers.
 */
#ifndef __EQUIPOISE_BALANCE_H
#define __EQUIPOISE_BALANCE_H

#include "../core/fair.h"
#include "active.h"
#include "busiest.h"
#include "domain.h"
#include "../../balance_explain.h"

/* The limit, in ms, up to which the interval may grow beyond max_interval if all tasks are pinned. */
#define MAX_PINNED_INTERVAL 512

/* Did the task run so recently that its cache is still warm, or is it about to run? */
static __always_inline bool task_hot(const struct task_struct *p, const struct fair_entity *se,
				     const struct balance_env *env, u64 now)
{
	struct fair_rq *src_rq = rq_of(env->src_cpu);

	if (p->policy == SCHED_IDLE)
		return false;
	if (cpu_nr_running(bpf_get_smp_processor_id()) &&
	    (src_rq->next_pid == p->pid || src_rq->last_pid == p->pid))
		return true;
	return (s64)(now - se->exec_start) < (s64)tunables.sched_migration_cost;
}

/* For a task that may not use dst_cpu: sets new_dst_cpu to an allowed CPU of dst_cpu's group, if any. */
static __always_inline void find_other_dst_cpu(struct task_struct *p, struct balance_env *env)
{
	s32 cpu = first_allowed_cpu(p, env_local_group(env));

	if (cpu < 0)
		return;
	env->flags |= LBF_SOME_PINNED;
	env->new_dst_cpu = cpu;
}

static __always_inline bool too_heavy(const struct balance_env *env, u64 load)
{
	return !hook_moves_any(env) && (s64)(load / 2) > env->imbalance;
}

__noinline bool can_migrate_task(struct task_struct *p __arg_trusted, struct balance_env *env __arg_nonnull,
				 u64 now)
{
	const struct fair_entity *se = entity_of(p);

	if (!se || is_throttled_pair(se, env->src_cpu, env->dst_cpu))
		return false;
	if (!policy.affinity_first && too_heavy(env, entity_load(se))) {
		note_refused(&env->refused.heavy);
		return false;
	}
	if (!task_allowed(p, env->dst_cpu)) {
		note_refused(&env->refused.pinned);
		if (!(env->flags & LBF_SOME_PINNED) && !(policy.newidle_for_itself && env->idle == LB_NEWLY_IDLE))
			find_other_dst_cpu(p, env);
		return false;
	}
	env->flags &= ~LBF_ALL_PINNED;
	if (policy.affinity_first && too_heavy(env, entity_load(se))) {
		note_refused(&env->refused.heavy);
		return false;
	}
	if (!task_hot(p, se, env, now) ||
	    env_domain_state(env)->nr_balance_failed > env_domain(env)->cache_nice_tries)
		return true;
	note_refused(&env->refused.hot);
	return false;
}

/*
 * Moves waiting tasks from src_cpu to dst_cpu until env->imbalance is used up, in the order in
 * which they would run; the kernel starts with the task that was enqueued last.
 */
__noinline u32 move_tasks(struct balance_env *env __arg_nonnull, u64 now)
{
	u32 src_cpu = env->src_cpu, dst_cpu = env->dst_cpu, nr_running = cpu_nr_running(src_cpu);
	struct task_struct *p;

	if (env->imbalance <= 0)
		return 0;
	env->loop = 0;
	env->loop_max = nr_running < tunables.sched_nr_migrate ? nr_running : tunables.sched_nr_migrate;
	env->pulled = 0;
	/* Linux keeps both runqueues locked throughout. */
	simulated_lock_rqs(src_cpu, dst_cpu);
	bpf_for_each(scx_dsq, p, src_cpu, 0) {
		struct fair_entity *se = entity_of(p);
		u64 load;

		if (!se || ++env->loop > env->loop_max)
			break;
		load = entity_load(se);
		if (!can_migrate_task(p, env, now))
			continue;

		migrate_prepared(se, dst_cpu);
		add_leftmost(se->group, dst_cpu, se->vruntime);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, se->vruntime);
		if (!scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dst_cpu, 0)) {
			migrate_prepared(se, src_cpu);
			continue;
		}
		explain(balanced_to, p->pid, dst_cpu, src_cpu, cpu_nr_running(src_cpu) + 1);
		check_preempt_curr(p, dst_cpu, now);
		env->pulled++;
		env->imbalance -= load;
		if (env->imbalance <= 0)
			break;
	}
	simulated_unlock_rqs();
	/* The kernel also considers the running task. */
	if (env->flags & LBF_ALL_PINNED && env->loop <= env->loop_max &&
	    (policy.affinity_first || !too_heavy(env, rq_of(src_cpu)->curr.load)) && curr_allowed(src_cpu, dst_cpu))
		env->flags &= ~LBF_ALL_PINNED;
	/* If groups have queues, leftmost remains a lower bound until the next pick. */
	if (env->pulled && !group_queues())
		rq_of(src_cpu)->leftmost = first_vruntime(src_cpu);
	return env->pulled;
}

/*
 * Calls move_tasks(), and calls it again for other CPUs of dst_cpu's group if affinity kept dst_cpu from getting
 * its part.
 */
static __always_inline u32 move_tasks_to_group(struct balance_env *env, u64 now)
{
	u32 max_iterations = group_at(env_local_group(env))->weight;
	u32 moved = 0;
	int i;

	bpf_for(i, 0, max_iterations) {
		prepare_attach(env->dst_cpu);
		moved += move_tasks(env, now);
		if (!(env->flags & LBF_SOME_PINNED) || env->imbalance <= 0)
			break;
		env->flags &= ~LBF_SOME_PINNED;
		env->dst_cpu = env->new_dst_cpu;
	}
	env->dst_cpu = env->cpu;
	return moved;
}

/* Has balancing failed so often that the running task should be moved, or is there another reason to move it? */
static __always_inline bool need_active_balance(const struct balance_env *env)
{
	return hook_active_balance(env) ||
	       env_domain_state(env)->nr_balance_failed > env_domain(env)->cache_nice_tries + 2;
}

static __always_inline void grow_interval(struct domain_state *ds, const struct domain *sd, u32 flags)
{
	if ((flags & LBF_ALL_PINNED && ds->balance_interval < MAX_PINNED_INTERVAL) ||
	    ds->balance_interval < sd->max_interval)
		ds->balance_interval *= 2;
}

/*
 * Decides, because nothing could be moved from src_cpu, whether a task should be pushed, and when the next attempt
 * is due.
 */
static __always_inline void balance_failed(struct balance_env *env)
{
	struct domain_state *ds = env_domain_state(env);
	struct domain *sd = env_domain(env);
	bool pushing = false;

	if (env->idle != LB_NEWLY_IDLE)
		ds->nr_balance_failed++;
	if (need_active_balance(env)) {
		if (!curr_allowed(env->src_cpu, env->dst_cpu)) {
			grow_interval(ds, sd, LBF_ALL_PINNED);
			return;
		}
		pushing = request_push(env);
		ds->nr_balance_failed = sd->cache_nice_tries + 1;
	}
	if (!pushing)
		ds->balance_interval = sd->min_interval;
	else if (ds->balance_interval < sd->max_interval)
		ds->balance_interval *= 2;
}

static __always_inline u32 balance_domain(u32 dst_cpu, u32 level, enum balance_idle idle, u64 now, bool *balance)
{
	struct domain_state *ds = domain_state_of(dst_cpu, level);
	struct domain *sd = domain_of(dst_cpu, level);
	struct balance_env *env = this_balance_env();
	s32 group, src;
	u32 moved = 0;
	int redo;

	env->cpu = dst_cpu;
	env->dst_cpu = dst_cpu;
	env->level = level;
	env->idle = idle;
	env->flags = 0;
	env->balance = true;
	env->any_excluded = false;
	forget_refused(&env->refused);
	this_counters()->balance_calls++;

	/* Each iteration except the last excludes a CPU whose tasks are all pinned. */
	bpf_for(redo, 0, nr_cpus()) {
		group = find_busiest_group(env);
		src = group < 0 ? -1 : find_busiest_queue(env, group);
		if (src < 0)
			goto out_balanced;
		/*
		 * Set src_cpu even if its queue has only one task, because need_active_balance() reads it. Linux
		 * 3.9 leaves it at CPU 0 then.
		 */
		env->src_cpu = src;
		hook_pulls(env);
		if (cpu_nr_running(src) <= !hook_empties(env))
			break;
		env->flags |= LBF_ALL_PINNED;
		moved = move_tasks_to_group(env, now);
		if (!(env->flags & LBF_ALL_PINNED))
			break;
		exclude(env, src);
	}

	if (!moved) {
		explain_failed(env);
		balance_failed(env);
		return 0;
	}
	ds->nr_balance_failed = 0;
	ds->balance_interval = sd->min_interval;
	this_counters()->pulled += moved;
	return moved;

out_balanced:
	explain_balanced(env, env->balance);
	*balance = env->balance;
	ds->nr_balance_failed = 0;
	grow_interval(ds, sd, env->flags);
	return 0;
}

/*
 * Pulls tasks to @dst_cpu if its domain at @level is imbalanced. Returns the number of pulled tasks; *@balance
 * becomes false if another CPU balances for this group.
 */
__noinline u32 load_balance(u32 dst_cpu, u32 level, enum balance_idle idle, u64 now, bool *balance __arg_nonnull)
{
	u64 began = bpf_ktime_get_ns();
	u32 moved = balance_domain(dst_cpu, level, idle, now, balance);

	this_counters()->balance_ns += bpf_ktime_get_ns() - began;
	return moved;
}

/* The interval, in jiffies, between two balances of @sd by a CPU, which may be @busy. */
static __always_inline u64 domain_interval(const struct domain *sd, const struct domain_state *ds, bool busy)
{
	u64 interval = msecs_to_jiffies((u64)ds->balance_interval * (busy ? sd->busy_factor : 1));
	u64 max_interval = jiffies_per_sec() * nr_cpus() / 10;

	if (interval > max_interval)
		interval = max_interval;
	return interval ? interval : 1;
}

/*
 * Balances the due domains of @cpu, from the smallest up to the first one in which another CPU of the group
 * balances. Returns the next due time, in jiffies.
 */
__noinline u64 rebalance_domains(u32 cpu, enum balance_idle idle, u64 now)
{
	u64 jiffies = jiffies_at(now), next_balance = jiffies + 60 * jiffies_per_sec();
	u32 nr_levels = levels_of(cpu)->nr_levels;
	bool balance = true, update_next_balance = false;
	int level;

	if (group_queues())
		update_blocked_groups(cpu, now);
	bpf_for(level, 0, nr_levels) {
		struct domain_state *ds = domain_state_of(cpu, level);
		struct domain *sd = domain_of(cpu, level);
		u64 interval;

		if (!load_balanced(sd))
			continue;
		interval = domain_interval(sd, ds, idle != LB_IDLE);
		if (!time_before(jiffies, ds->last_balance + interval)) {
			if (load_balance(cpu, level, idle, now, &balance))
				idle = LB_NOT_IDLE;
			ds->last_balance = jiffies;
		}
		if (time_before(ds->last_balance + interval, next_balance)) {
			next_balance = ds->last_balance + interval;
			update_next_balance = true;
		}
		/* Another CPU of the group balances more often, in this domain and in the domains above. */
		if (!balance)
			break;
	}
	/* If no domain is balanced, the other periodic work (hook_periodic_balance()) is due at each tick. */
	if (update_next_balance)
		rq_of(cpu)->next_balance = next_balance;
	return next_balance;
}

#endif /* __EQUIPOISE_BALANCE_H */
