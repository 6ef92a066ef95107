/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decides whether a domain is imbalanced, and finds the busiest group and runqueue: sched_balance_find_src_group()
 * and sched_balance_find_src_rq() of Linux 7.3. imbalance.h computes the amount to move.
 */
#ifndef __EQUIPOISE_SRC_GROUP_H
#define __EQUIPOISE_SRC_GROUP_H

#include "asym_packing.h"
#include "capacity.h"
#include "imbalance.h"

/* Adds @cpu to the statistics of its group, which may be dst_cpu's. Returns false if the CPU is left out. */
__noinline bool add_cpu_stats(struct balance_env *env __arg_nonnull, u32 cpu, bool local_group)
{
	struct group_stats *sgs = &env->sgs;
	const struct domain *sd = env_domain(env);
	const struct fair_rq *rq = rq_of(cpu);
	u32 nr_running = cpu_nr_running(cpu);
	u64 load = cpu_load(cpu);

	if (excluded(env, cpu))
		return false;
	sgs->group_load += load;
	sgs->group_util += cpu_fair_util(cpu);
	sgs->group_runnable += cpu_runnable(cpu);
	sgs->sum_h_nr_running += balanced_nr_running(cpu);
	sgs->sum_nr_running += nr_running;
	if (nr_running > 1)
		env->overloaded = true;
	if (cpu_overutilized(cpu))
		env->overutilized = sgs->overutilized = true;
	if (!nr_running && idle_cpu(cpu)) {
		sgs->idle_cpus++;
		return true;
	}
	if (local_group)
		return true;
	if (sd->flags & SD_ASYM_CPUCAPACITY) {
		if (rq->misfit_task_load)
			env->overloaded = true;
		if (sgs->misfit_task_load < rq->misfit_task_load &&
		    (!policy.misfit_for_larger || env->dst_is_larger))
			sgs->misfit_task_load = rq->misfit_task_load;
	} else if (is_idle_balance(env) && balanced_nr_running(cpu) == 1 &&
		   check_cpu_capacity(cpu, sd->imbalance_pct)) {
		if (sgs->misfit_task_load < load)
			sgs->misfit_task_load = load;
	}
	return true;
}

/* Computes in env->sgs the statistics of @group, which may be dst_cpu's. */
__noinline bool update_sg_lb_stats(struct balance_env *env __arg_nonnull, u32 group, bool local_group)
{
	forget_origin(group);
	const struct group *sg = group_at(group);
	struct group_stats *sgs = &env->sgs;
	int i;

	__builtin_memset(sgs, 0, sizeof(*sgs));
	env->dst_is_larger = capacity_greater(power_of(env->dst_cpu), group_state_at(group)->max_capacity);
	bpf_for(i, 0, sg->weight)
		add_cpu_stats(env, nth_cpu(sg, i), local_group);
	sgs->group_capacity = sg->power;
	sgs->group_weight = sg->weight;
	sgs->asym_packing = !local_group && is_idle_balance(env) && sgs->sum_h_nr_running &&
			    sched_group_asym(env, group);
	sgs->smt_balance = !local_group && is_idle_balance(env) &&
			   group_state_at(group)->flags & SD_SHARE_CPUPOWER && sgs->sum_h_nr_running > 1;
	sgs->type = group_classify(env_domain(env)->imbalance_pct, group, sgs);
	if (sgs->type == GROUP_OVERLOADED)
		sgs->avg_load = sgs->group_load * SCHED_POWER_SCALE / sgs->group_capacity;
	return true;
}

/* Does the group of env->sgs, which has room, have less room than the busiest group so far? */
static __always_inline bool has_less_spare(const struct group_stats *sgs, const struct group_stats *busiest)
{
	if (sgs->idle_cpus != busiest->idle_cpus)
		return sgs->idle_cpus < busiest->idle_cpus;
	return sgs->sum_nr_running > busiest->sum_nr_running;
}

/* Is the group of env->sgs, @group, busier than the busiest group so far? */
static __always_inline bool update_sd_pick_busiest(const struct balance_env *env, u32 group)
{
	const struct group_stats *sgs = &env->sgs, *busiest = &env->busiest;
	u32 flags = group_state_at(group)->flags, busiest_flags = group_state_at(env->busiest_group)->flags;

	if (!sgs->sum_h_nr_running)
		return false;
	if (env_domain(env)->flags & SD_ASYM_CPUCAPACITY) {
		u32 dst_capacity = power_of(env->dst_cpu);

		/* dst_cpu should not take a misfit task that does not fit there, either. */
		if (sgs->type == GROUP_MISFIT_TASK &&
		    (!env->dst_core_idle || !capacity_greater(dst_capacity, group_state_at(group)->max_capacity) ||
		     env->local.type != GROUP_HAS_SPARE))
			return false;
		/* Nor should dst_cpu take a task that can run faster where it is. */
		if (sgs->type <= GROUP_FULLY_BUSY &&
		    capacity_greater(group_state_at(group)->min_capacity, dst_capacity))
			return false;
	}
	if (sgs->type != busiest->type)
		return sgs->type > busiest->type;
	if (env->busiest_group < 0)
		return true;

	switch (sgs->type) {
	case GROUP_OVERLOADED:
		return sgs->avg_load > busiest->avg_load;
	case GROUP_ASYM_PACKING:
		/* The least preferred CPU gives tasks away first. */
		return sched_asym_prefer(group_state_at(env->busiest_group)->asym_prefer_cpu,
					 group_state_at(group)->asym_prefer_cpu);
	case GROUP_MISFIT_TASK:
		return sgs->misfit_task_load > busiest->misfit_task_load;
	case GROUP_SMT_BALANCE:
		if (sgs->idle_cpus || busiest->idle_cpus)
			return has_less_spare(sgs, busiest);
		return !(busiest_flags & SD_SHARE_CPUPOWER);
	case GROUP_FULLY_BUSY:
		/*
		 * Prefer the group that is a core, whose threads slow each other down. Loads are not compared for
		 * such groups, so they count as equal.
		 */
		return !(busiest_flags & SD_SHARE_CPUPOWER);
	case GROUP_HAS_SPARE:
		if ((flags ^ busiest_flags) & SD_SHARE_CPUPOWER)
			return !(flags & SD_SHARE_CPUPOWER && sgs->sum_h_nr_running <= 1);
		return has_less_spare(sgs, busiest);
	default:
		return false;
	}
}

/*
 * Updates the number of CPUs that a wakeup may search for an idle one. The number falls as more of the cache's CPUs
 * are in use (update_idle_cpu_scan()).
 */
static __always_inline void update_idle_cpu_scan(const struct balance_env *env)
{
	const struct domain *sd = env_domain(env);
	bool llc = sd->flags & SD_SHARE_PKG_RESOURCES && sd->weight == levels_of(env->cpu)->llc_weight;
	bool asym = sd->flags & SD_ASYM_CPUCAPACITY_FULL && !(sd->flags & SD_NUMA);
	u64 util, used;
	u32 nr;

	if (env->idle == LB_NEWLY_IDLE || !(llc || asym))
		return;
	util = env->sum_util / sd->weight;
	used = util * util * sd->imbalance_pct * sd->imbalance_pct / (10000 * SCHED_POWER_SCALE);
	if (used > SCHED_POWER_SCALE)
		used = SCHED_POWER_SCALE;
	nr = (SCHED_POWER_SCALE - used) * sd->weight / SCHED_POWER_SCALE;
	if (llc)
		llc_of(env->cpu)->nr_idle_scan = nr;
	if (asym)
		llc_of(domain_cpu(sd, 0))->nr_asym_idle_scan = nr;
}

/* Computes the statistics of the whole domain, beginning with the local group. */
static __always_inline void update_sd_lb_stats(struct balance_env *env)
{
	struct domain *sd = env_domain(env);
	int i;

	env->busiest_group = -1;
	__builtin_memset(&env->busiest, 0, sizeof(env->busiest));
	env->busiest.type = GROUP_HAS_SPARE;
	env->busiest.idle_cpus = ~0U;
	env->total_load = env->total_capacity = env->avg_load = env->sum_util = 0;
	env->overloaded = env->overutilized = false;
	env->dst_core_idle = is_core_idle(env->dst_cpu);
	refresh_group_capacity(env);
	bpf_for(i, 0, sd->nr_groups) {
		u32 group = nth_group(sd, env->local_group, i);

		update_sg_lb_stats(env, group, !i);
		if (!i) {
			env->local = env->sgs;
		} else if (update_sd_pick_busiest(env, group)) {
			env->busiest = env->sgs;
			env->busiest_group = group;
		}
		env->total_load += env->sgs.group_load;
		env->total_capacity += env->sgs.group_capacity;
		env->sum_util += env->sgs.group_util;
	}
	env->prefer_sibling = env->busiest_group >= 0 &&
			      group_state_at(env->busiest_group)->flags & SD_PREFER_SIBLING &&
			      (policy.asym_prefer_sibling || !(sd->flags & SD_ASYM_CPUCAPACITY));
	if (env->level + 1 == levels_of(env->cpu)->nr_levels) {
		whole_machine.overloaded = env->overloaded;
		whole_machine.overutilized = env->overutilized;
	} else if (env->overutilized) {
		whole_machine.overutilized = true;
	}
	update_idle_cpu_scan(env);
}

/* Is it worth pulling from the busiest group? The group must have been found before. */
static __always_inline bool is_imbalanced(struct balance_env *env)
{
	struct group_stats *local = &env->local, *busiest = &env->busiest;

	if (busiest->type == GROUP_MISFIT_TASK)
		return true;
	/* Placement by energy decides where tasks run, so do not balance. */
	if (energy_aware())
		return false;
	if (busiest->type == GROUP_ASYM_PACKING || busiest->type == GROUP_IMBALANCED)
		return true;
	if (local->type > busiest->type)
		return false;
	if (local->type == GROUP_OVERLOADED) {
		env->avg_load = env->total_load * SCHED_POWER_SCALE / env->total_capacity;
		if (local->avg_load >= busiest->avg_load || local->avg_load >= env->avg_load ||
		    100 * busiest->avg_load <= env_domain(env)->imbalance_pct * local->avg_load)
			return false;
	}
	/* Pull if the child domain prefers that its sibling domains have the tasks. */
	if (env->prefer_sibling && local->type == GROUP_HAS_SPARE && sibling_imbalance(env) > 1)
		return true;
	if (busiest->type == GROUP_OVERLOADED)
		return true;
	if (!is_idle_balance(env))
		return false;
	if (busiest->type == GROUP_SMT_BALANCE &&
	    (group_state_at(env->local_group)->flags ^ group_state_at(env->busiest_group)->flags) &
		    SD_SHARE_CPUPOWER)
		return true;
	if (busiest->group_weight > 1 && local->idle_cpus <= busiest->idle_cpus + 1)
		return false;
	return busiest->sum_h_nr_running != 1;
}

/*
 * Finds the busiest group of the domain if there is an imbalance, and sets env->imbalance to the amount that should
 * move. Returns -1 if there is no imbalance.
 */
__noinline s32 find_busiest_group(struct balance_env *env __arg_nonnull)
{
	env->imbalance = 0;
	update_sd_lb_stats(env);
	if (env->busiest_group < 0 || !is_imbalanced(env))
		return -1;
	calculate_imbalance(env);
	return env->imbalance ? env->busiest_group : -1;
}

/*
 * The load of @cpu in the unit that is to be moved; 0 if @cpu has nothing to move. *@capacity becomes the capacity
 * with which to compare the load.
 */
static __always_inline u64 queue_business(const struct balance_env *env, u32 cpu, u64 *capacity)
{
	const struct fair_rq *rq = rq_of(cpu);
	u32 nr_running = balanced_nr_running(cpu);
	u64 load = cpu_load(cpu);

	*capacity = 1;
	switch (env->migration_type) {
	case MIGRATE_LOAD:
		if (nr_running == 1 && (s64)load > env->imbalance &&
		    !check_cpu_capacity(cpu, env_domain(env)->imbalance_pct))
			return 0;
		*capacity = power_of(cpu);
		return load;
	case MIGRATE_UTIL:
		return nr_running <= 1 ? 0 : cpu_fair_util_boost(cpu);
	case MIGRATE_TASK:
		return nr_running;
	default:
		return rq->misfit_task_load;
	}
}

/* Considers @cpu as the CPU to pull from. */
__noinline bool consider_queue(struct balance_env *env __arg_nonnull, u32 cpu)
{
	u32 nr_running = balanced_nr_running(cpu);
	u64 load, capacity;

	if (excluded(env, cpu) || !nr_running)
		return false;
	/* A lone task moves only to a CPU of larger capacity, or off a core that it shares. */
	if (env_domain(env)->flags & SD_ASYM_CPUCAPACITY && nr_running == 1 &&
	    !(policy.asym_smt && !is_core_idle(cpu)) && !capacity_greater(power_of(env->dst_cpu), power_of(cpu)))
		return false;
	/* A preferred CPU keeps its lone task, unless it shares its core with another task. */
	if (nr_running == 1 && sched_asym(env_domain(env), cpu, env->dst_cpu))
		return false;
	load = queue_business(env, cpu, &capacity);
	if (load * env->busiest_capacity > env->busiest_load * capacity) {
		env->busiest_load = load;
		env->busiest_capacity = capacity;
		env->busiest_queue = cpu;
	}
	return true;
}

/* The CPU of @group that has the most to move, or -1. */
__noinline s32 find_busiest_queue(struct balance_env *env __arg_nonnull, u32 group)
{
	forget_origin(group);
	const struct group *sg = group_at(group);
	int i;

	env->busiest_load = 0;
	env->busiest_capacity = 1;
	env->busiest_queue = -1;
	bpf_for(i, 0, sg->weight)
		consider_queue(env, nth_cpu(sg, i));
	return env->busiest_queue;
}

#endif /* __EQUIPOISE_SRC_GROUP_H */
