/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Is a domain imbalanced, and which group, which runqueue is the busiest? find_busiest_group() and
 * find_busiest_queue() of Linux 3.9, with what imbalance.h says about how much to move.
 */
#ifndef __EQUIPOISE_BUSIEST_H
#define __EQUIPOISE_BUSIEST_H

#include "balance_env.h"
#include "imbalance.h"
#include "misfit.h"

static __always_inline u32 get_sd_load_idx(const struct domain *sd, enum balance_idle idle)
{
	switch (idle) {
	case LB_NOT_IDLE:
		return sd->busy_idx;
	case LB_NEWLY_IDLE:
		return sd->newidle_idx;
	default:
		return sd->idle_idx;
	}
}

/*
 * The statistics of @sg, which is dst_cpu's own or not. Clears env->balance if another CPU of dst_cpu's
 * group should balance: the first idle one, else the first.
 */
static __always_inline void update_sg_lb_stats(struct balance_env *env, const struct group *sg, u32 load_idx,
					       bool local_group)
{
	u64 max_cpu_load = 0, min_cpu_load = ~0ULL, max_nr_running = 0, min_nr_running = ~0ULL;
	struct group_stats *sgs = &env->sgs;
	u32 balance_cpu = nth_cpu(sg, 0);
	bool idle_found = false;
	int i;

	__builtin_memset(sgs, 0, sizeof(*sgs));
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		u64 nr_running = cpu_nr_running(cpu), load;

		if (excluded(env, cpu))
			continue;
		if (local_group) {
			if (!idle_found && idle_cpu(cpu)) {
				idle_found = true;
				balance_cpu = cpu;
			}
			load = target_load(cpu, load_idx);
		} else {
			load = source_load(cpu, load_idx);
			if (load > max_cpu_load)
				max_cpu_load = load;
			if (load < min_cpu_load)
				min_cpu_load = load;
			if (nr_running > max_nr_running)
				max_nr_running = nr_running;
			if (nr_running < min_nr_running)
				min_nr_running = nr_running;
			if (misfit_cpu(env, cpu, load, load_idx))
				sgs->group_imb = true;
		}
		sgs->group_load += load;
		sgs->sum_nr_running += nr_running;
		sgs->sum_weighted_load += weighted_cpuload(cpu);
		sgs->idle_cpus += idle_cpu(cpu);
	}

	if (local_group && env->idle != LB_NEWLY_IDLE && balance_cpu != env->dst_cpu) {
		env->balance = false;
		return;
	}

	sgs->avg_load = sgs->group_load * SCHED_POWER_SCALE / sg->power;

	/* Uneven by more than an average task, and not for want of tasks. */
	if (!local_group && max_nr_running > min_nr_running + 1 &&
	    max_cpu_load - min_cpu_load >= (sgs->sum_nr_running ? sgs->sum_weighted_load / sgs->sum_nr_running : 0))
		sgs->group_imb = true;
	if (idle_pull(env, sg->weight, sgs->sum_nr_running))
		sgs->group_imb = true;

	sgs->group_capacity = group_capacity(env_domain(env), sg->power);
	sgs->group_has_capacity = sgs->group_capacity > sgs->sum_nr_running;
}

/* Is the group of env->sgs busier than the busiest so far, and too busy? */
static __always_inline bool update_sd_pick_busiest(const struct balance_env *env)
{
	const struct group_stats *sgs = &env->sgs;

	return sgs->avg_load > env->sds.max_load && (sgs->sum_nr_running > sgs->group_capacity || sgs->group_imb);
}

/* The statistics of the whole domain, local group first. */
static __noinline void update_sd_lb_stats(struct balance_env *env)
{
	struct domain *sd = env_domain(env);
	u32 local = env_local_group(env), load_idx = get_sd_load_idx(sd, env->idle);
	bool prefer_sibling = env->level && domain_of(env->cpu, env->level - 1)->flags & SD_PREFER_SIBLING;
	struct domain_stats *sds = &env->sds;
	struct group_stats *sgs = &env->sgs;
	int i;

	__builtin_memset(sds, 0, sizeof(*sds));
	sds->busiest = -1;
	bpf_for(i, 0, sd->nr_groups) {
		u32 index = nth_group(sd, local, i);
		struct group *sg = group_at(index);

		update_sg_lb_stats(env, sg, load_idx, !i);
		if (!env->balance)
			return;
		sds->total_load += sgs->group_load;
		sds->total_pwr += sg->power;

		if (!i) {
			sds->this_power = sg->power;
			sds->this_load = sgs->avg_load;
			sds->this_nr_running = sgs->sum_nr_running;
			sds->this_load_per_task = sgs->sum_weighted_load;
			sds->this_has_capacity = sgs->group_has_capacity;
			sds->this_idle_cpus = sgs->idle_cpus;
			continue;
		}
		/*
		 * The child domain would rather have tasks in its siblings: one task is enough for a
		 * group, as long as the local one has room for the rest.
		 */
		if (prefer_sibling && sds->this_has_capacity && sgs->group_capacity > 1)
			sgs->group_capacity = 1;
		if (update_sd_pick_busiest(env)) {
			sds->busiest = index;
			sds->busiest_power = sg->power;
			sds->busiest_weight = sg->weight;
			sds->max_load = sgs->avg_load;
			sds->busiest_nr_running = sgs->sum_nr_running;
			sds->busiest_idle_cpus = sgs->idle_cpus;
			sds->busiest_group_capacity = sgs->group_capacity;
			sds->busiest_load_per_task = sgs->sum_weighted_load;
			sds->busiest_has_capacity = sgs->group_has_capacity;
			sds->group_imb = sgs->group_imb;
		}
	}
}

/* With a busiest group found: is it worth pulling from? */
static __always_inline bool is_imbalanced(const struct balance_env *env)
{
	const struct domain_stats *sds = &env->sds;

	/* Uneven groups (affinity, misfits) make the averages below meaningless. */
	if (sds->group_imb)
		return true;
	if (env->idle == LB_NEWLY_IDLE && sds->this_has_capacity && !sds->busiest_has_capacity)
		return true;
	if (sds->this_load >= sds->max_load || sds->this_load >= sds->avg_load)
		return false;
	/* An idle CPU leaves a group alone that has no more tasks than CPUs and as few idle ones. */
	if (env->idle == LB_IDLE)
		return sds->this_idle_cpus > sds->busiest_idle_cpus + 1 ||
		       sds->busiest_nr_running > sds->busiest_weight;
	return 100 * sds->max_load > env_domain(env)->imbalance_pct * sds->this_load;
}

/*
 * The busiest group of the domain if there is an imbalance, and in env->imbalance how much load should
 * move. -1 if not, or if this is not the CPU to balance (env->balance).
 */
static __always_inline s32 find_busiest_group(struct balance_env *env)
{
	struct domain_stats *sds = &env->sds;

	env->imbalance = 0;
	update_sd_lb_stats(env);
	if (!env->balance || sds->busiest < 0 || !sds->busiest_nr_running)
		return -1;
	sds->avg_load = SCHED_POWER_SCALE * sds->total_load / sds->total_pwr;
	if (!is_imbalanced(env))
		return -1;
	calculate_imbalance(env);
	return sds->busiest;
}

/*
 * The CPU of @sg with the most load for its power, or -1. One that runs a single task is only a
 * candidate if that task is small enough to move, or too heavy for the CPU.
 */
static __noinline s32 find_busiest_queue(struct balance_env *env, const struct group *sg)
{
	struct domain *sd = env_domain(env);
	s32 busiest = -1, overloaded = -1;
	u64 max_load = 0;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i), power = power_of(cpu);
		u64 wl = weighted_cpuload(cpu);

		if (excluded(env, cpu))
			continue;
		if (misfit_queue(env, cpu))
			overloaded = cpu;
		if (group_capacity(sd, power) && cpu_nr_running(cpu) == 1 && (s64)wl > env->imbalance)
			continue;
		wl = wl * SCHED_POWER_SCALE / power;
		if (wl > max_load) {
			max_load = wl;
			busiest = cpu;
		}
	}
	return busiest >= 0 ? busiest : overloaded;
}

#endif /* __EQUIPOISE_BUSIEST_H */
