/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The designs, and the points at which the scheduler calls them: code outside designs/ calls them only through this
 * file. To add a design, add its files there, its state and its answers here, its settings, and its policy file.
 *
 * Each design checks its own switch. If all switches are off, the answers here are those of plain CFS.
 *
 * The file is included twice, like the kernel's tracepoint headers: by the callers, and by main.bpf.c with
 * DEFINE_HOOKS, after everything that the designs use.
 */
#ifndef __EQUIPOISE_CFS_HOOKS_H
#define __EQUIPOISE_CFS_HOOKS_H

#include "designs/hmp/kept.h"
#include "designs/hperf/kept.h"
#include "designs/misfit/kept.h"
#include "designs/newidle_limit/kept.h"
#include "designs/powersave/kept.h"

struct balance_env;
struct fair_entity;
struct fair_rq;
struct running;

/* The designs' state of a task. */
struct design_entity {
	struct hmp_entity hmp;
	struct hperf_entity hperf;
};

/* The designs' state of the running task, where the tick and other CPUs find it without looking the task up. */
struct design_running {
	struct hmp_running hmp;
	struct hperf_running hperf;
};

/* The designs' state of a runqueue. */
struct design_rq {
	struct hmp_rq hmp;
	struct hperf_rq hperf;
	struct newidle_limit_rq newidle_limit;
};

/* The designs' state of a domain of a CPU. */
struct design_domain {
	struct powersave_domain powersave;
};

/*
 * The designs' state for a pass of load_balance(), for the domain that the pass balances, and for a group of that
 * domain.
 */
struct design_env {
	struct misfit_env misfit;
};

struct design_domain_stats {
	struct powersave_domain_stats powersave;
};

struct design_group_stats {
	struct powersave_group_stats powersave;
};

#define HOOK static __always_inline

/* Tasks and runqueues */
HOOK void hook_init_rq(struct fair_rq *rq);
HOOK void hook_init_task(const struct task_struct *p, struct fair_entity *se, bool fork);
/*
 * Called when @se becomes runnable, but is not accounted yet; when it has become runnable on @rq; and when it is no
 * longer runnable there.
 */
HOOK void hook_enqueue_entity(struct fair_entity *se);
HOOK void hook_add_entity(struct fair_rq *rq, const struct fair_entity *se);
HOOK void hook_remove_entity(struct fair_rq *rq, const struct fair_entity *se);
/*
 * Called when @se moves to the runqueue of @cpu while it waits. Returns whether the design has set its vruntime
 * there.
 */
HOOK bool hook_place_migrated(struct fair_entity *se, u32 cpu);
/* Called when the sums of @se, which counts in @rq if that is not NULL, were brought up to date. */
HOOK void hook_update_entity_load(struct fair_entity *se, struct fair_rq *rq);
/*
 * Called for the running task: when @se starts to run, when it stops, when it has run for @delta_fair ns of its
 * vruntime, and at its tick.
 */
HOOK void hook_set_curr(struct fair_rq *rq, const struct fair_entity *se);
HOOK void hook_put_curr(const struct fair_rq *rq, struct fair_entity *se);
HOOK void hook_update_curr(struct running *curr, u64 delta_fair);
HOOK void hook_tick(struct fair_rq *rq, u32 cpu, const struct fair_entity *se, u64 now);
HOOK void hook_update_idle(struct fair_rq *rq);

/* Placement. -1 means that the general rules decide. */
HOOK s32 hook_select_task_rq(struct task_struct *p, u32 prev_cpu);
HOOK s32 hook_select_fork(struct task_struct *p);
/*
 * A CPU of one of @cpu's domains: of the domain at @level, and of the smallest domain with @sd_flag that suffices.
 */
HOOK s32 hook_select_level(struct task_struct *p, u32 cpu, u32 level, bool wakeup);
HOOK s32 hook_select_domains(struct task_struct *p, u32 cpu, u32 sd_flag);
/* The CPU for the waking task @p. By the general rules it is @target, which may be returned. */
HOOK s32 hook_select_woken(struct task_struct *p, u32 prev_cpu, s32 target);
/* Does a task that starts another program stay where it is? */
HOOK bool hook_exec_stays(void);

/* Balancing */
/* Is @sd not balanced by comparing its groups? */
HOOK bool hook_balances(const struct domain *sd);
/* @rq runs out of work. Returns true if it must not search. */
HOOK bool hook_newidle_limited(struct fair_rq *rq, u64 now);
/* Called when @cpu has run out of work and found no task in its domains, or has not searched (@wanted is false). */
HOOK void hook_idle_balance(u32 cpu, bool wanted, u64 now);
/* Is there work that only the next ops.dispatch() of the CPU of @rq can do? The second hook does that work. */
HOOK bool hook_dispatch_expected(const struct fair_rq *rq);
HOOK void hook_dispatch(struct fair_rq *rq, u32 cpu, u64 now);
/* Called before the domains of a CPU are balanced. */
HOOK void hook_periodic_balance(u64 now);
/*
 * Does @cpu, which is busy, have work for an idle CPU? The second hook returns true if the design chooses that CPU,
 * @ilb, or none (-1).
 */
HOOK bool hook_kick_needed(u32 cpu);
HOOK bool hook_find_new_ilb(u32 cpu, s32 *ilb);

/* One pass of load_balance() */
/*
 * Called before the statistics; after @cpu was counted in its group, with @load; and after the group in env->sgs
 * was counted.
 */
HOOK void hook_begin_stats(struct balance_env *env);
HOOK void hook_cpu_stats(struct balance_env *env, u32 cpu, u64 load, u32 load_idx, bool local_group);
HOOK void hook_group_stats(struct balance_env *env, s32 group, bool local_group);
/* Does the pass spread tasks over groups? */
HOOK bool hook_spreads(const struct balance_env *env);
/* Has a design decided from which group to pull, if any? @group: that group, or -1. */
HOOK bool hook_find_group(struct balance_env *env, s32 *group);
/* Does the pass pull even the last task? */
HOOK bool hook_empties(const struct balance_env *env);
/* Does the pass pull from a group of @weight CPUs with @nr_running tasks, whatever its load? */
HOOK bool hook_pulls_from(const struct balance_env *env, u64 weight, u64 nr_running);
/* May a task of any load be moved? */
HOOK bool hook_moves_any(const struct balance_env *env);
/*
 * The runqueue to pull from. The first hook starts the search, the second one considers the runqueue of @cpu, and
 * the third one returns the CPU to pull from if no runqueue is the busiest, or -1.
 */
HOOK void hook_begin_queues(struct balance_env *env);
HOOK void hook_consider_queue(struct balance_env *env, u32 cpu);
HOOK s32 hook_find_queue(const struct balance_env *env);
/* Called when a CPU to pull from has been found. */
HOOK void hook_pulls(const struct balance_env *env);
/*
 * No waiting task could be moved: should the running task move at once? The second hook is called when the running
 * task has been requested.
 */
HOOK bool hook_active_balance(const struct balance_env *env);
HOOK void hook_pushes(const struct balance_env *env);

#endif /* __EQUIPOISE_CFS_HOOKS_H */

#if defined(DEFINE_HOOKS) && !defined(__EQUIPOISE_CFS_HOOKS_DEFINED)
#define __EQUIPOISE_CFS_HOOKS_DEFINED

#include "designs/hmp/hmp.h"
#include "designs/hperf/hperf.bpf.h"
#include "designs/misfit/misfit.h"
#include "designs/newidle_limit/newidle_limit.h"
#include "designs/powersave/power_balance.h"
#include "designs/powersave/powersave.h"

HOOK void hook_init_rq(struct fair_rq *rq)
{
	newidle_limit_init_rq(rq);
}

HOOK void hook_init_task(const struct task_struct *p, struct fair_entity *se, bool fork)
{
	if (fork)
		hmp_init_task(p, se);
}

HOOK void hook_enqueue_entity(struct fair_entity *se)
{
	hperf_enqueue_entity(se);
}

HOOK void hook_add_entity(struct fair_rq *rq, const struct fair_entity *se)
{
	hmp_add_entity(rq, se);
}

HOOK void hook_remove_entity(struct fair_rq *rq, const struct fair_entity *se)
{
	hmp_remove_entity(rq, se);
}

HOOK bool hook_place_migrated(struct fair_entity *se, u32 cpu)
{
	return hperf_place_migrated(se, cpu);
}

HOOK void hook_update_entity_load(struct fair_entity *se, struct fair_rq *rq)
{
	hmp_update_entity_load(se, rq);
}

HOOK void hook_set_curr(struct fair_rq *rq, const struct fair_entity *se)
{
	hmp_set_curr(rq, se);
	hperf_set_curr(rq, se);
}

HOOK void hook_put_curr(const struct fair_rq *rq, struct fair_entity *se)
{
	hperf_put_curr(rq, se);
}

HOOK void hook_update_curr(struct running *curr, u64 delta_fair)
{
	hperf_update_curr(curr, delta_fair);
}

HOOK void hook_tick(struct fair_rq *rq, u32 cpu, const struct fair_entity *se, u64 now)
{
	hmp_set_curr(rq, se);
	if (hperf_enabled())
		hperf_tick(cpu, now);
}

HOOK void hook_update_idle(struct fair_rq *rq)
{
	hmp_update_idle(rq);
	hperf_update_idle(rq);
}

HOOK s32 hook_select_task_rq(struct task_struct *p, u32 prev_cpu)
{
	return hperf_enabled() ? hperf_select_task_rq(p, prev_cpu) : -1;
}

HOOK s32 hook_select_fork(struct task_struct *p)
{
	return hmp_enabled() ? hmp_select_fork(p, bpf_ktime_get_ns()) : -1;
}

HOOK s32 hook_select_level(struct task_struct *p, u32 cpu, u32 level, bool wakeup)
{
	return powersaving() ? select_power_cpu(p, cpu, level, wakeup) : -1;
}

HOOK s32 hook_select_domains(struct task_struct *p, u32 cpu, u32 sd_flag)
{
	return powersaving() ? select_power_cpu_in(p, cpu, sd_flag) : -1;
}

HOOK s32 hook_select_woken(struct task_struct *p, u32 prev_cpu, s32 target)
{
	return hmp_enabled() ? hmp_select_task_rq(p, prev_cpu, target, bpf_ktime_get_ns()) : target;
}

HOOK bool hook_exec_stays(void)
{
	return hmp_enabled() || hperf_enabled();
}

HOOK bool hook_balances(const struct domain *sd)
{
	return sd->flags & SD_HMP && (hmp_enabled() || hperf_enabled());
}

HOOK bool hook_newidle_limited(struct fair_rq *rq, u64 now)
{
	return newidle_limited(rq, now);
}

HOOK void hook_idle_balance(u32 cpu, bool wanted, u64 now)
{
	/* hperf's fast CPUs search the slow CPUs in any case. */
	if (hmp_enabled() && wanted)
		hmp_idle_pull(cpu, now);
	if (hperf_enabled())
		hperf_idle_pull(cpu, now);
}

HOOK bool hook_dispatch_expected(const struct fair_rq *rq)
{
	return hmp_pull_expected(rq) || hperf_pull_expected(rq);
}

HOOK void hook_dispatch(struct fair_rq *rq, u32 cpu, u64 now)
{
	if (hmp_pull_expected(rq))
		hmp_idle_pull(cpu, now);
	if (hperf_pull_expected(rq))
		hperf_idle_pull(cpu, now);
}

HOOK void hook_periodic_balance(u64 now)
{
	if (hmp_enabled())
		hmp_force_up_migration(now);
	if (hperf_enabled())
		hperf_balance(now);
}

HOOK bool hook_kick_needed(u32 cpu)
{
	return misfit_kick(cpu);
}

HOOK bool hook_find_new_ilb(u32 cpu, s32 *ilb)
{
	if (!hmp_enabled())
		return false;
	*ilb = hmp_find_new_ilb(cpu);
	return true;
}

HOOK void hook_begin_stats(struct balance_env *env)
{
	init_power_stats(env);
}

HOOK void hook_cpu_stats(struct balance_env *env, u32 cpu, u64 load, u32 load_idx, bool local_group)
{
	if (!local_group && misfit_cpu(env, cpu, load, load_idx))
		env->sgs.group_imb = true;
	add_power_stats(env, cpu);
}

HOOK void hook_group_stats(struct balance_env *env, s32 group, bool local_group)
{
	update_power_stats(env, group, local_group);
}

HOOK bool hook_spreads(const struct balance_env *env)
{
	return env->flags & LBF_PERF_BAL;
}

HOOK bool hook_find_group(struct balance_env *env, s32 *group)
{
	return find_power_group(env, group);
}

HOOK bool hook_empties(const struct balance_env *env)
{
	return env->flags & LBF_POWER_BAL;
}

HOOK bool hook_pulls_from(const struct balance_env *env, u64 weight, u64 nr_running)
{
	return idle_pull(env, weight, nr_running);
}

HOOK bool hook_moves_any(const struct balance_env *env)
{
	return idle_pull_moves_any(env);
}

HOOK void hook_begin_queues(struct balance_env *env)
{
	env->design.misfit.queue = -1;
}

HOOK void hook_consider_queue(struct balance_env *env, u32 cpu)
{
	if (misfit_queue(env, cpu))
		env->design.misfit.queue = cpu;
}

HOOK s32 hook_find_queue(const struct balance_env *env)
{
	return env->design.misfit.queue;
}

HOOK void hook_pulls(const struct balance_env *env)
{
	if (hook_empties(env))
		this_counters()->power_balances++;
}

HOOK bool hook_active_balance(const struct balance_env *env)
{
	return misfit_active_balance(env);
}

HOOK void hook_pushes(const struct balance_env *env)
{
	if (cpu_nr_running(env->src_cpu) == 1 && misfit_active_balance(env))
		this_counters()->misfit_moves++;
}

#endif /* DEFINE_HOOKS */
