/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Energy-aware placement: as long as no CPU is overutilized, a task wakes up where it costs the least energy by the
 * machine's energy model. This is find_energy_efficient_cpu() of Linux 7.3.
 *
 * CPUs that share a frequency are a performance domain. The domain runs as fast as its busiest CPU needs, and each
 * of its frequencies has a cost per unit of utilization.
 */
#ifndef __EQUIPOISE_ENERGY_H
#define __EQUIPOISE_ENERGY_H

#include "../../../signals/frequency.bpf.h"
#include "idle_sibling.h"

/* The task to be placed, and a performance domain with it. */
struct eas_env {
	u64 util;
	u64 util_est;
	u64 runnable;
	s32 prev_cpu;
	/* The task's utilization in the time that interrupts leave, where 1024 is the largest CPU. */
	u64 task_busy_time;
	u64 pd_busy_time;
	u64 pd_cap;
	u64 cpu_cap;
	/*
	 * The CPU with the most spare capacity, except prev_cpu, and that capacity (-1 if no CPU fits); and the
	 * spare capacity of prev_cpu (-1 if the task does not fit there).
	 */
	s32 max_spare_cpu;
	s64 max_spare;
	s64 prev_spare;
} __attribute__((aligned(64)));

struct eas_env eas_envs[MAX_CPUS];

static __always_inline const struct group *energy_domain_group(const struct energy_domain *pd)
{
	return group_at(pd->group);
}

/* The utilization of @cpu if the task were on @dst_cpu, or nowhere (-1): cpu_util(). */
static __always_inline u64 util_with(const struct eas_env *env, u32 cpu, s32 dst_cpu, bool boost)
{
	const struct fair_rq *rq = rq_of(cpu);
	u64 util = not_negative(rq->avg.util_avg), util_est = rq->util_est, runnable = cpu_runnable(cpu);
	bool there = (s32)cpu == dst_cpu, here = (s32)cpu == env->prev_cpu;

	if (there && !here) {
		util += env->util;
		runnable += env->runnable;
	} else if (here && !there) {
		util -= env->util < util ? env->util : util;
		runnable -= env->runnable < runnable ? env->runnable : runnable;
	}
	if (boost && runnable > util)
		util = runnable;
	/* The task is asleep, so no CPU's estimate includes it. */
	if (there)
		util_est += env->util_est;
	if (util_est > util)
		util = util_est;
	return util < power_orig_of(cpu) ? util : power_orig_of(cpu);
}

/* The utilization of @cpu by all classes, if fair tasks use @util (effective_cpu_util()). */
static __always_inline u64 util_of_all(u32 cpu, u64 util)
{
	u64 max = power_orig_of(cpu), irq = cpu_util_irq(cpu);

	util += cpu_util(cpu, UTIL_RT) + cpu_util(cpu, UTIL_DL);
	if (irq >= max || util >= max)
		return max;
	util = util * (max - irq) / max + irq;
	return util < max ? util : max;
}

/* The performance level that schedutil would request. */
static __always_inline u64 perf_for(u32 cpu, u64 util)
{
	u64 max = power_orig_of(cpu), least = cpu_util_irq(cpu) + cpu_bw_dl(cpu), perf = map_util_perf(util);

	if (rt_rq_is_runnable(cpu))
		return max;
	if (perf < least)
		perf = least;
	return perf < max ? perf : max;
}

/* The utilization of @pd without the task. */
__noinline u64 pd_busy_time(const struct eas_env *env __arg_nonnull, const struct energy_domain *pd __arg_nonnull)
{
	const struct group *sg = energy_domain_group(pd);
	u64 busy_time = 0;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		busy_time += util_of_all(cpu, util_with(env, cpu, -1, false));
	}
	return busy_time < env->pd_cap ? busy_time : env->pd_cap;
}

/* The energy of @pd if the task is on @dst_cpu, or not in @pd (-1): compute_energy(). */
__noinline u64 compute_energy(const struct eas_env *env __arg_nonnull, const struct energy_domain *pd __arg_nonnull,
			      s32 dst_cpu)
{
	forget_origin(dst_cpu);
	const struct group *sg = energy_domain_group(pd);
	u64 max_util = 0, busy_time = env->pd_busy_time, cost = 0;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		u64 util = perf_for(cpu, util_of_all(cpu, util_with(env, cpu, dst_cpu, true)));

		if (util > max_util)
			max_util = util;
	}
	if (max_util > env->cpu_cap)
		max_util = env->cpu_cap;
	if (dst_cpu >= 0 && (busy_time += env->task_busy_time) > env->pd_cap)
		busy_time = env->pd_cap;
	/* The lowest sufficient frequency. */
	bpf_for(i, 0, pd->nr_states) {
		const struct energy_state *state = &energy_states[(pd->first_state + i) & (MAX_ENERGY_STATES - 1)];

		cost = state->cost;
		if (state->performance >= max_util)
			break;
	}
	return cost * busy_time;
}

/* Finds the CPUs of @pd that the task @p would fit, and among them the CPU with the most spare capacity. */
__noinline bool find_spare(struct task_struct *p __arg_trusted, struct eas_env *env __arg_nonnull,
			   const struct energy_domain *pd __arg_nonnull)
{
	const struct group *sg = energy_domain_group(pd);
	int i;

	env->cpu_cap = actual_cpu_capacity(nth_cpu(sg, 0), power_orig_of(nth_cpu(sg, 0)));
	env->pd_cap = env->cpu_cap * sg->weight;
	env->max_spare_cpu = -1;
	env->max_spare = env->prev_spare = -1;
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		u64 util = util_with(env, cpu, cpu, false), capacity = power_of(cpu);
		s64 spare = capacity > util ? capacity - util : 0;

		if (!task_allowed(p, cpu) || !util_fits_cpu(util, cpu))
			continue;
		if ((s32)cpu == env->prev_cpu) {
			env->prev_spare = spare;
		} else if (spare > env->max_spare) {
			env->max_spare = spare;
			env->max_spare_cpu = cpu;
		}
	}
	return env->max_spare_cpu >= 0 || env->prev_spare >= 0;
}

/*
 * The CPU where @p, last on @prev_cpu, costs the least energy, among @prev_cpu and, in each domain, the CPU with
 * the most spare capacity; or @prev_cpu, if the task fits nowhere or has no utilization, or the utilization of a
 * CPU changes meanwhile.
 */
__noinline s32 find_energy_efficient_cpu(struct task_struct *p __arg_trusted, u32 prev_cpu)
{
	forget_origin(prev_cpu);
	struct eas_env *env = &eas_envs[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
	/* The cost of the task on prev_cpu, and its lowest cost on another CPU; ~0 if it does not fit. */
	u64 prev_delta = ~0ULL, best_delta = ~0ULL, max = power_orig_of(prev_cpu), irq = cpu_util_irq(prev_cpu);
	struct fair_entity *se = entity_of(p);
	s32 best = -1;
	int i;

	if (!se || !task_util_est(se))
		return prev_cpu;
	env->util = se->avg.util_avg;
	env->util_est = se->util_est;
	env->runnable = se->avg.runnable_avg;
	env->prev_cpu = prev_cpu;
	env->task_busy_time = irq < max ? task_util_est(se) * (max - irq) / max : max;
	bpf_for(i, 0, machine.nr_energy_domains) {
		const struct energy_domain *pd = &energy_domains[i & (MAX_ENERGY_DOMAINS - 1)];
		u64 base, energy;

		if (!find_spare(p, env, pd))
			continue;
		env->pd_busy_time = pd_busy_time(env, pd);
		base = compute_energy(env, pd, -1);
		if (env->prev_spare >= 0) {
			energy = compute_energy(env, pd, prev_cpu);
			/* The utilization has changed in the meantime. */
			if (energy < base)
				return prev_cpu;
			prev_delta = energy - base;
		}
		if (env->max_spare_cpu >= 0 && env->max_spare > env->prev_spare) {
			energy = compute_energy(env, pd, env->max_spare_cpu);
			if (energy < base)
				return prev_cpu;
			if (energy - base >= best_delta)
				continue;
			best_delta = energy - base;
			best = env->max_spare_cpu;
		}
	}
	/* Take a CPU that fits where the old CPU does not, or a CPU that costs less. */
	if (best >= 0 && best_delta < prev_delta) {
		explain(least_energy, p->pid, best, task_util_est(se), best_delta, prev_cpu, prev_delta);
		return best;
	}
	if (best >= 0)
		explain(least_energy_stays, p->pid, prev_cpu, task_util_est(se), prev_delta, best, best_delta);
	else
		explain(fits_nowhere_else, p->pid, prev_cpu, task_util_est(se));
	return prev_cpu;
}

#endif /* __EQUIPOISE_ENERGY_H */
