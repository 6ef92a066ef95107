/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load balancing within one domain, and over a CPU's domains when they are due: sched_balance_rq() and
 * sched_balance_domains() of Linux 7.3. Balancing runs where tasks may be moved between dispatch queues: in
 * ops.dispatch() and in timers.
 */
#ifndef __EQUIPOISE_BALANCE_H
#define __EQUIPOISE_BALANCE_H

#include "active.h"
#include "src_group.h"
#include "../../balance_explain.h"

/* The limit, in ms, up to which the interval may grow beyond max_interval if all tasks are pinned. */
#define MAX_PINNED_INTERVAL 512

/* Did the task run so recently that its cache is still warm? */
static __always_inline bool task_hot(const struct task_struct *p, const struct fair_entity *se,
				     const struct balance_env *env)
{
	if (p->policy == SCHED_IDLE || env_domain(env)->flags & SD_SHARE_CPUPOWER)
		return false;
	if (policy.cache_hot_buddy && rq_of(env->src_cpu)->buddy == p->pid && cpu_nr_running(env->dst_cpu))
		return true;
	return (s64)(rq_clock_task_at(env->src_cpu, env->now) - se->exec_start) <
	       (s64)tunables.sched_migration_cost;
}

/*
 * Notes that @p may not use dst_cpu, and, unless dst_cpu is newly idle, as new_dst_cpu another CPU of its group
 * that @p may use, if there is one.
 */
static __always_inline void note_pinned(struct task_struct *p, struct balance_env *env)
{
	s32 cpu;

	env->flags |= LBF_SOME_PINNED;
	if (env->idle == LB_NEWLY_IDLE || env->flags & LBF_DST_PINNED)
		return;
	cpu = first_allowed_cpu(p, env->local_group);
	if (cpu < 0)
		return;
	env->flags |= LBF_DST_PINNED;
	env->new_dst_cpu = cpu;
}

/* Has @se had more than its share, so that it would only wait on dst_cpu? */
static __always_inline bool is_ineligible_on_dst(const struct fair_entity *se, const struct balance_env *env)
{
	return rq_of(env->dst_cpu)->nr_running &&
	       !eligible(peek_vruntime(&rq_of(env->src_cpu)->queue), se->vruntime);
}

__noinline bool can_migrate_task(struct task_struct *p __arg_trusted, struct balance_env *env __arg_nonnull)
{
	const struct fair_entity *se = entity_of(p);

	/* A kernel thread that is bound to its CPU stays there. */
	if (!se || is_per_cpu_kthread(p))
		return false;
	if (any_group_is_limited() && se->group &&
	    (throttled_hierarchy(se->group, env->dst_cpu) ||
	     (group_queues() && throttled_hierarchy(se->group, env->src_cpu))))
		return false;
	if (!policy.migrate_ineligible && !env_domain_state(env)->nr_balance_failed &&
	    is_ineligible_on_dst(se, env))
		return false;
	if (!task_allowed(p, env->dst_cpu)) {
		note_refused(&env->refused.pinned);
		note_pinned(p, env);
		return false;
	}
	env->flags &= ~LBF_ALL_PINNED;
	if (!task_hot(p, se, env) || env_domain_state(env)->nr_balance_failed > env_domain(env)->cache_nice_tries)
		return true;
	note_refused(&env->refused.hot);
	return false;
}

/* The part of the imbalance that moving @se removes; 0 if @se is too large or would change nothing. */
static __always_inline u64 task_share(struct balance_env *env, const struct fair_entity *se)
{
	u32 failed = env_domain_state(env)->nr_balance_failed, shift = failed < 63 ? failed : 63;
	u64 share;

	switch (env->migration_type) {
	case MIGRATE_LOAD:
		share = task_h_load(se);
		share += !share;
		break;
	case MIGRATE_UTIL:
		share = task_util_est(se);
		break;
	case MIGRATE_TASK:
		return 1;
	default:
		return util_fits_cpu(task_util_est(se), env->src_cpu) ? 0 : env->imbalance;
	}
	/* After failures, move even tasks that are too heavy. */
	if ((s64)(share >> shift) <= env->imbalance)
		return share + !share;
	note_refused(&env->refused.heavy);
	return 0;
}

/* Moves env's oldest task to dst_cpu if it may and should move; otherwise the task becomes the last candidate. */
__noinline bool move_oldest(struct balance_env *env __arg_nonnull)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, env->oldest_dsq, 0) {
		struct fair_entity *se;
		u64 share;

		if (p->pid != env->oldest_pid || !(se = entity_of(p)))
			continue;
		share = can_migrate_task(p, env) ? task_share(env, se) : 0;
		if (share && move_queued_task(BPF_FOR_EACH_ITER, p, se, env->dst_cpu)) {
			explain(balanced_to, p->pid, env->dst_cpu, env->src_cpu, cpu_nr_running(env->src_cpu) + 1);
			env->imbalance -= share;
			env->pulled++;
		} else {
			se->listed_at = env->now + env->loop;
		}
		break;
	}
	return env->pulled;
}

/* Moves waiting tasks from src_cpu to dst_cpu until env->imbalance is used up (detach_tasks()). */
__noinline u32 move_tasks(struct balance_env *env __arg_nonnull)
{
	u32 src_cpu = env->src_cpu;
	int i;

	env->pulled = 0;
	if (cpu_nr_running(src_cpu) <= 1) {
		env->flags &= ~LBF_ALL_PINNED;
		return 0;
	}
	/* Linux locks first one runqueue, and then the other. */
	simulated_lock_rqs(src_cpu, env->dst_cpu);
	bpf_for(i, 0, env->loop_max) {
		if (env->imbalance <= 0 || (is_idle_balance(env) && cpu_nr_running(src_cpu) <= 1))
			break;
		env->loop = i;
		if (!find_oldest(env, src_cpu, -1))
			break;
		move_oldest(env);
		/*
		 * A preemptible kernel (CONFIG_PREEMPTION) stops here: the new task must not wait until more tasks
		 * are moved.
		 */
		if (env->pulled && env->idle == LB_NEWLY_IDLE)
			break;
	}
	simulated_unlock_rqs();
	/* The kernel also considers the running task, which had the CPU last. */
	if (env->flags & LBF_ALL_PINNED && curr_allowed(src_cpu, env->dst_cpu))
		env->flags &= ~LBF_ALL_PINNED;
	return env->pulled;
}

/*
 * Calls move_tasks(), and calls it again for other CPUs of dst_cpu's group if affinity kept dst_cpu from getting
 * its part.
 */
static __always_inline u32 move_tasks_to_group(struct balance_env *env)
{
	u32 nr_running = cpu_nr_running(env->src_cpu), moved = 0;
	int i;

	env->loop_max = nr_running < tunables.sched_nr_migrate ? nr_running : tunables.sched_nr_migrate;
	bpf_for(i, 0, group_at(env->local_group)->weight) {
		moved += move_tasks(env);
		if (!(env->flags & LBF_DST_PINNED) || env->imbalance <= 0)
			break;
		exclude(env, env->dst_cpu);
		env->flags &= ~LBF_DST_PINNED;
		env->dst_cpu = env->new_dst_cpu;
	}
	return moved;
}

static __always_inline bool need_active_balance(const struct balance_env *env)
{
	const struct domain *sd = env_domain(env);
	u32 src_cpu = env->src_cpu;

	if (env->migration_type == MIGRATE_MISFIT || asym_active_balance(env))
		return true;
	if (env->migration_type == MIGRATE_TASK &&
	    env_domain_state(env)->nr_balance_failed > sd->cache_nice_tries + 2)
		return true;
	/* The task moves if other classes take much of its CPU. */
	return is_idle_balance(env) && balanced_nr_running(src_cpu) == 1 &&
	       check_cpu_capacity(src_cpu, sd->imbalance_pct) &&
	       power_of(src_cpu) * sd->imbalance_pct < power_of(env->dst_cpu) * 100;
}

/* Notes whether affinity hinders balancing in this domain, in the group of the domain above that consists of it. */
static __always_inline void note_imbalance(const struct balance_env *env, bool imbalance)
{
	struct group_state *parent;

	if (env->level + 1 >= levels_of(env->cpu)->nr_levels)
		return;
	parent = group_state_at(local_group_of(env->cpu, env->level + 1));
	if (parent->imbalance != imbalance)
		parent->imbalance = imbalance;
}

static __always_inline void grow_interval(const struct balance_env *env)
{
	struct domain_state *ds = env_domain_state(env);

	if (env->idle == LB_NEWLY_IDLE || env->migration_type == MIGRATE_MISFIT)
		return;
	if ((env->flags & LBF_ALL_PINNED && ds->balance_interval < MAX_PINNED_INTERVAL) ||
	    ds->balance_interval < env_domain(env)->max_interval)
		ds->balance_interval *= 2;
}

/*
 * Called if nothing could be moved: pushes the running task of src_cpu if it should move, and sets the time of the
 * next attempt.
 */
static __always_inline void balance_failed(struct balance_env *env)
{
	struct domain_state *ds = env_domain_state(env);
	bool pushing = false;

	if (env->idle != LB_NEWLY_IDLE && env->migration_type != MIGRATE_MISFIT)
		ds->nr_balance_failed++;
	if (need_active_balance(env)) {
		if (!curr_allowed(env->src_cpu, env->cpu)) {
			grow_interval(env);
			return;
		}
		env->flags &= ~LBF_ALL_PINNED;
		env->dst_cpu = env->cpu;
		pushing = request_push(env);
	}
	if (!pushing || need_active_balance(env))
		ds->balance_interval = env_domain(env)->min_interval;
}

/*
 * Does dst_cpu balance for its group? A newly idle CPU does, unless it has got a task. Otherwise the first idle CPU
 * balances, preferably that of an idle core, or the first CPU if none is idle.
 */
__noinline bool should_we_balance(const struct balance_env *env __arg_nonnull)
{
	const struct group *sg = group_at(env->local_group);
	bool smt = env_domain(env)->flags & SD_SHARE_CPUPOWER;
	s32 idle = -1, idle_smt = -1;
	int i;

	if (env->idle == LB_NEWLY_IDLE)
		return !cpu_nr_running(env->dst_cpu);
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (excluded(env, cpu) || !idle_cpu(cpu))
			continue;
		if (smt || is_core_idle(cpu)) {
			idle = cpu;
			break;
		}
		if (idle_smt < 0)
			idle_smt = cpu;
	}
	if (idle < 0)
		idle = idle_smt >= 0 ? idle_smt : (s32)nth_cpu(sg, 0);
	return idle == (s32)env->dst_cpu;
}

static __always_inline struct balance_env *begin_balance(u32 dst_cpu, u32 level, enum balance_idle idle)
{
	struct balance_env *env = this_balance_env();

	env->cpu = dst_cpu;
	env->dst_cpu = dst_cpu;
	env->level = level;
	env->local_group = local_group_of(dst_cpu, level);
	env->idle = idle;
	env->migration_type = MIGRATE_LOAD;
	env->flags = 0;
	env->now = bpf_ktime_get_ns();
	env->any_excluded = false;
	forget_refused(&env->refused);
	return env;
}

static __always_inline u32 balance_domain(u32 dst_cpu, u32 level, enum balance_idle idle, bool *balance)
{
	struct domain_state *ds = domain_state_of(dst_cpu, level);
	struct balance_env *env = begin_balance(dst_cpu, level, idle);
	s32 group, src;
	u32 moved = 0;
	int redo;

	this_counters()->balance_calls++;

	/* Each iteration except the last excludes a CPU whose tasks are all pinned. */
	bpf_for(redo, 0, nr_cpus()) {
		if (!should_we_balance(env)) {
			*balance = false;
			goto out_balanced;
		}
		group = find_busiest_group(env);
		src = group < 0 ? -1 : find_busiest_queue(env, group);
		if (src < 0)
			goto out_balanced;
		env->src_cpu = src;
		env->flags |= LBF_ALL_PINNED;
		if (cpu_nr_running(src) <= 1)
			break;
		moved = move_tasks_to_group(env);
		env->dst_cpu = env->cpu;
		if (env->flags & LBF_SOME_PINNED && env->imbalance > 0)
			note_imbalance(env, true);
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
	ds->balance_interval = env_domain(env)->min_interval;
	this_counters()->pulled += moved;
	return moved;

out_balanced:
	explain_balanced(env, *balance);
	if (!(env->flags & LBF_ALL_PINNED))
		note_imbalance(env, false);
	ds->nr_balance_failed = 0;
	grow_interval(env);
	return 0;
}

/*
 * Pulls tasks to @dst_cpu if its domain at @level is imbalanced. Returns the number of pulled tasks; *@balance
 * becomes false if another CPU balances for this group.
 */
__noinline u32 load_balance(u32 dst_cpu, u32 level, enum balance_idle idle, bool *balance __arg_nonnull)
{
	u64 began = bpf_ktime_get_ns();
	u32 moved = balance_domain(dst_cpu, level, idle, balance);

	this_counters()->balance_ns += bpf_ktime_get_ns() - began;
	return moved;
}

/* The interval, in jiffies, between two balances of @sd by a CPU, which may be @busy. */
static __always_inline u64 domain_interval(const struct domain *sd, const struct domain_state *ds, bool busy)
{
	u64 interval = msecs_to_jiffies((u64)ds->balance_interval * (busy ? sd->busy_factor : 1));
	u64 max_interval = jiffies_per_sec() * nr_cpus() / 10;

	/* This keeps the levels of busy CPUs from being due at the same time. */
	if (busy)
		interval--;
	if (interval > max_interval)
		interval = max_interval;
	return interval ? interval : 1;
}

/*
 * Updates the estimate of the cost of newidle balancing in a domain, where it took @cost ns. The estimate falls by
 * about 1 % per second. Returns true if it fell now.
 */
static __always_inline bool update_newidle_cost(struct domain_state *ds, u64 cost, u64 jiffies)
{
	if (cost > ds->max_newidle_lb_cost) {
		ds->max_newidle_lb_cost = cost;
		ds->last_decay_max_lb_cost = jiffies;
	} else if (time_after(jiffies, ds->last_decay_max_lb_cost + jiffies_per_sec())) {
		ds->max_newidle_lb_cost = ds->max_newidle_lb_cost * 253 / 256;
		ds->last_decay_max_lb_cost = jiffies;
		return true;
	}
	return false;
}

/*
 * Recomputes the cost of newidle balancing on @cpu after a change in a domain. The minimum is the cost of moving a
 * task.
 */
__noinline bool decay_idle_balance_cost(u32 cpu)
{
	forget_origin(cpu);
	u64 max_cost = 0;
	int level;

	bpf_for(level, 0, levels_of(cpu)->nr_levels)
		max_cost += domain_state_of(cpu, level)->max_newidle_lb_cost;
	if (max_cost < tunables.sched_migration_cost)
		max_cost = tunables.sched_migration_cost;
	rq_of(cpu)->max_idle_balance_cost = max_cost;
	return true;
}

/*
 * Balances the due domains of @cpu, from the smallest up to the first one in which another CPU of the group
 * balances. Returns the next due time, in jiffies.
 */
__noinline u64 rebalance_domains(u32 cpu, enum balance_idle idle, u64 jiffies)
{
	forget_origin(cpu);
	forget_origin(idle);
	forget_origin(jiffies);
	u64 next_balance = jiffies + 60 * jiffies_per_sec();
	bool balance = true, decayed = false;
	int level;

	bpf_for(level, 0, levels_of(cpu)->nr_levels) {
		struct domain_state *ds = domain_state_of(cpu, level);
		struct domain *sd = domain_of(cpu, level);
		bool busy = idle != LB_IDLE && !sched_idle_cpu(cpu);
		u64 interval;

		decayed = update_newidle_cost(ds, 0, jiffies);
		if (!balance) {
			if (decayed)
				continue;
			break;
		}
		if (!time_before(jiffies, ds->last_balance + domain_interval(sd, ds, busy))) {
			if (load_balance(cpu, level, idle, &balance)) {
				idle = idle_cpu(cpu) ? LB_IDLE : LB_NOT_IDLE;
				busy = idle != LB_IDLE && !sched_idle_cpu(cpu);
			}
			ds->last_balance = jiffies;
		}
		interval = domain_interval(sd, ds, busy);
		if (time_before(ds->last_balance + interval, next_balance))
			next_balance = ds->last_balance + interval;
	}
	if (decayed)
		decay_idle_balance_cost(cpu);
	if (levels_of(cpu)->nr_levels)
		rq_of(cpu)->next_balance = next_balance;
	return next_balance;
}

#endif /* __EQUIPOISE_BALANCE_H */
