/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decides whether a domain is imbalanced, and finds the busiest group and runqueue: find_busiest_group() and
 * find_busiest_queue() of Linux 3.9. imbalance.h computes the amount to move.
 */
#ifndef __EQUIPOISE_BUSIEST_H
#define __EQUIPOISE_BUSIEST_H

#include "../../../signals/capacity.h"
#include "balance_env.bpf.h"
#include "imbalance.h"

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
 * Adds @cpu to the statistics of its group, which may be dst_cpu's. The statistics are in env->sgs, whose values
 * the verifier does not follow, so that it need not try every combination.
 */
__noinline bool add_cpu_stats(struct balance_env *env __arg_nonnull, u32 cpu, u32 load_idx, bool local_group)
{
	struct group_stats *sgs = &env->sgs;
	u64 nr_running = cpu_nr_running(cpu), load;

	if (excluded(env, cpu))
		return false;
	if (local_group) {
		if (sgs->first_idle_cpu < 0 && idle_cpu(cpu))
			sgs->first_idle_cpu = cpu;
		load = target_load(cpu, load_idx);
	} else {
		load = source_load(cpu, load_idx);
		if (load > sgs->max_cpu_load)
			sgs->max_cpu_load = load;
		if (load < sgs->min_cpu_load)
			sgs->min_cpu_load = load;
		if (nr_running > sgs->max_nr_running)
			sgs->max_nr_running = nr_running;
		if (nr_running < sgs->min_nr_running)
			sgs->min_nr_running = nr_running;
	}
	sgs->group_load += load;
	sgs->sum_nr_running += nr_running;
	sgs->sum_weighted_load += weighted_cpuload(cpu);
	sgs->idle_cpus += idle_cpu(cpu);
	hook_cpu_stats(env, cpu, load, load_idx, local_group);
	return true;
}

/* Do the CPUs of the group differ by at least two tasks, and by at least the load of an average task? */
static __always_inline bool uneven(const struct group_stats *sgs)
{
	return sgs->max_nr_running > sgs->min_nr_running + 1 &&
	       sgs->max_cpu_load - sgs->min_cpu_load >=
		       (sgs->sum_nr_running ? sgs->sum_weighted_load / sgs->sum_nr_running : 0);
}

/* Recomputes the power of dst_cpu's own group, though not every time that a CPU runs out of work. */
static __always_inline void refresh_group_power(const struct balance_env *env, const struct group *sg)
{
	u64 now = bpf_ktime_get_ns();

	if (env->idle != LB_NEWLY_IDLE || !time_before(jiffies_at(now), sg->next_update))
		update_group_power(env->dst_cpu, env->level,
				   domain_state_of(env->dst_cpu, env->level)->balance_interval, now);
}

/*
 * Computes the statistics of @group, which may be dst_cpu's. Returns false, and clears env->balance, if another CPU
 * of dst_cpu's group should balance: the first idle CPU or, if none is idle, the first CPU. A newly idle CPU always
 * balances.
 */
__noinline bool update_sg_lb_stats(struct balance_env *env __arg_nonnull, u32 group, u32 load_idx, bool local_group)
{
	const struct group *sg = group_at(group);
	struct group_stats *sgs = &env->sgs;
	u32 balance_cpu;
	int i;

	__builtin_memset(sgs, 0, sizeof(*sgs));
	sgs->min_cpu_load = ~0ULL;
	sgs->min_nr_running = ~0ULL;
	sgs->first_idle_cpu = -1;
	bpf_for(i, 0, sg->weight)
		add_cpu_stats(env, nth_cpu(sg, i), load_idx, local_group);

	balance_cpu = sgs->first_idle_cpu >= 0 ? (u32)sgs->first_idle_cpu : nth_cpu(sg, 0);
	if (local_group && env->idle != LB_NEWLY_IDLE && balance_cpu != env->dst_cpu) {
		env->balance = false;
		return false;
	}
	if (local_group)
		refresh_group_power(env, sg);

	sgs->avg_load = sgs->group_load * SCHED_POWER_SCALE / sg->power;

	if (!local_group && uneven(sgs))
		sgs->group_imb = true;
	if (hook_pulls_from(env, sg->weight, sgs->sum_nr_running))
		sgs->group_imb = true;

	sgs->group_capacity = group_capacity(env_domain(env), sg, sg->power);
	sgs->group_has_capacity = sgs->group_capacity > sgs->sum_nr_running;
	return true;
}

/*
 * Is the group of env->sgs busier than the busiest group so far, and does it have too many tasks or an imbalance of
 * its own?
 */
static __always_inline bool update_sd_pick_busiest(const struct balance_env *env)
{
	const struct group_stats *sgs = &env->sgs;

	return sgs->avg_load > env->sds.max_load && (sgs->sum_nr_running > sgs->group_capacity || sgs->group_imb);
}

/* Computes the statistics of the whole domain, beginning with the local group. */
static __always_inline void update_sd_lb_stats(struct balance_env *env)
{
	struct domain *sd = env_domain(env);
	u32 local = env_local_group(env), load_idx = get_sd_load_idx(sd, env->idle);
	bool prefer_sibling = env->level && domain_of(env->cpu, env->level - 1)->flags & SD_PREFER_SIBLING;
	struct domain_stats *sds = &env->sds;
	struct group_stats *sgs = &env->sgs;
	int i;

	__builtin_memset(sds, 0, sizeof(*sds));
	sds->busiest = -1;
	hook_begin_stats(env);
	bpf_for(i, 0, sd->nr_groups) {
		u32 index = nth_group(sd, local, i);
		struct group *sg = group_at(index);

		if (!update_sg_lb_stats(env, index, load_idx, !i))
			break;
		sds->total_load += sgs->group_load;
		sds->total_pwr += sg->power;

		if (!i) {
			sds->this_power = sg->power;
			sds->this_load = sgs->avg_load;
			sds->this_nr_running = sgs->sum_nr_running;
			sds->this_load_per_task = sgs->sum_weighted_load;
			sds->this_has_capacity = sgs->group_has_capacity;
			sds->this_idle_cpus = sgs->idle_cpus;
			hook_group_stats(env, index, true);
			continue;
		}
		/*
		 * If the child domain prefers that its sibling domains have the tasks, one task is enough for a
		 * group, as long as the local group has room for the other tasks.
		 */
		if (prefer_sibling && hook_spreads(env) && sds->this_has_capacity && sgs->group_capacity > 1)
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
		hook_group_stats(env, index, false);
	}
}

/* Is it worth pulling from the busiest group? The group must have been found before. */
static __always_inline bool is_imbalanced(const struct balance_env *env)
{
	const struct domain_stats *sds = &env->sds;

	/* With uneven groups (affinity, misfits) the averages below are meaningless. */
	if (sds->group_imb)
		return true;
	if (env->idle == LB_NEWLY_IDLE && sds->this_has_capacity && !sds->busiest_has_capacity)
		return true;
	if (sds->this_load >= sds->max_load || sds->this_load >= sds->avg_load)
		return false;
	/*
	 * An idle CPU pulls only if the busiest group has more tasks than CPUs, or the local group has at least two
	 * more idle CPUs.
	 */
	if (env->idle == LB_IDLE)
		return sds->this_idle_cpus > sds->busiest_idle_cpus + 1 ||
		       sds->busiest_nr_running > sds->busiest_weight;
	return 100 * sds->max_load > env_domain(env)->imbalance_pct * sds->this_load;
}

/*
 * Finds the busiest group of the domain if there is an imbalance, or the group to empty, and sets env->imbalance to
 * the load to move. Returns -1 if there is no such group, or if another CPU balances for the local group
 * (env->balance).
 */
__noinline s32 find_busiest_group(struct balance_env *env __arg_nonnull)
{
	struct domain_stats *sds = &env->sds;
	s32 group = -1;

	env->imbalance = 0;
	update_sd_lb_stats(env);
	if (hook_find_group(env, &group))
		return env->balance ? group : -1;
	if (!env->balance || sds->busiest < 0 || !sds->busiest_nr_running)
		return -1;
	sds->avg_load = SCHED_POWER_SCALE * sds->total_load / sds->total_pwr;
	if (!is_imbalanced(env))
		return -1;
	calculate_imbalance(env);
	return sds->busiest;
}

/*
 * Is @cpu the busiest CPU of its group so far? A CPU with a single task is a candidate only if that task is small
 * enough to move.
 */
static __always_inline bool busier_queue(const struct balance_env *env, const struct group *sg, u32 cpu, u64 *load)
{
	u64 wl = weighted_cpuload(cpu), power = power_of(cpu);

	if (!hook_empties(env) && group_capacity(env_domain(env), sg, power) && cpu_nr_running(cpu) == 1 &&
	    (s64)wl > env->imbalance)
		return false;
	*load = wl * SCHED_POWER_SCALE / power;
	return *load > env->busiest_queue_load;
}

__noinline bool consider_queue(struct balance_env *env __arg_nonnull, u32 group, u32 cpu)
{
	u64 load;

	if (excluded(env, cpu))
		return false;
	hook_consider_queue(env, cpu);
	if (busier_queue(env, group_at(group), cpu, &load)) {
		env->busiest_queue_load = load;
		env->busiest_queue = cpu;
	}
	return true;
}

/* The CPU of @group with the most load relative to its power, otherwise a CPU from which a design pulls, or -1. */
__noinline s32 find_busiest_queue(struct balance_env *env __arg_nonnull, u32 group)
{
	const struct group *sg = group_at(group);
	int i;

	env->busiest_queue_load = 0;
	env->busiest_queue = -1;
	hook_begin_queues(env);
	bpf_for(i, 0, sg->weight)
		consider_queue(env, group, nth_cpu(sg, i));
	return env->busiest_queue >= 0 ? env->busiest_queue : hook_find_queue(env);
}

#endif /* __EQUIPOISE_BUSIEST_H */
