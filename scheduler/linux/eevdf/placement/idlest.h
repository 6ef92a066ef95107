/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Placement of a task without a cache to lose, at a fork or exec: the task goes from the top domain down into the
 * idlest group, and there to the idlest CPU. This is sched_balance_find_dst_cpu() of Linux 7.3.
 */
#ifndef __EQUIPOISE_IDLEST_H
#define __EQUIPOISE_IDLEST_H

#include "../balance/group.bpf.h"

/* The state of a placement, one for each placing CPU. */
struct idlest_env {
	struct group_stats sgs;
	struct group_stats local;
	struct group_stats idlest;
	/* The numbers of the local and the idlest group, or -1. */
	s32 local_group;
	s32 idlest_group;
	/* The CPU on which the task counts, if any, and its contribution there. */
	s32 task_cpu;
	u64 load;
	u64 util;
	u64 runnable;
	u64 util_est;
	bool runs;
} __attribute__((aligned(64)));

struct idlest_env idlest_envs[MAX_CPUS];

static __always_inline struct idlest_env *this_idlest_env(void)
{
	return &idlest_envs[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline u64 without(u64 sum, u64 part)
{
	return sum > part ? sum - part : 0;
}

/* Adds @cpu, without the task's contribution. */
static __always_inline void add_wakeup_stats(struct idlest_env *env, u32 cpu)
{
	struct group_stats *sgs = &env->sgs;
	bool here = (s32)cpu == env->task_cpu;
	u32 local = here && env->runs, nr_running = cpu_nr_running(cpu) - local;
	u64 util = cpu_fair_util(cpu);

	sgs->group_load += here ? without(cpu_load(cpu), env->load) : cpu_load(cpu);
	sgs->group_runnable += here ? without(cpu_runnable(cpu), env->runnable) : cpu_runnable(cpu);
	if (here) {
		u64 left = without(not_negative(rq_of(cpu)->avg.util_avg), env->util);
		u64 estimate = without(rq_of(cpu)->util_est, env->runs ? env->util_est : 0);

		util = left > estimate ? left : estimate;
	}
	sgs->group_util += util;
	sgs->sum_h_nr_running += balanced_nr_running(cpu) - local;
	sgs->sum_nr_running += nr_running;
	if (!nr_running && (idle_cpu(cpu) || local))
		sgs->idle_cpus++;
}

/* Computes the statistics of @group over the CPUs that @p may use. Returns the number of these CPUs. */
__noinline u32 update_sg_wakeup_stats(struct task_struct *p __arg_trusted, u32 group, u32 flags, u32 imbalance_pct)
{
	forget_origin(group);
	forget_origin(flags);
	forget_origin(imbalance_pct);
	struct idlest_env *env = this_idlest_env();
	const struct group *sg = group_at(group);
	struct fair_entity *se = entity_of(p);
	struct group_stats *sgs = &env->sgs;
	u32 nr_allowed = 0;
	int i;

	if (!se)
		return 0;
	__builtin_memset(sgs, 0, sizeof(*sgs));
	sgs->misfit_task_load = flags & SD_ASYM_CPUCAPACITY ? 1 : 0;
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (!task_allowed(p, cpu))
			continue;
		nr_allowed++;
		add_wakeup_stats(env, cpu);
		if (sgs->misfit_task_load && util_fits_cpu(task_util_est(se), cpu))
			sgs->misfit_task_load = 0;
	}
	sgs->group_capacity = sg->power;
	sgs->group_weight = sg->weight;
	sgs->type = group_classify(imbalance_pct, group, sgs);
	if (sgs->type == GROUP_FULLY_BUSY || sgs->type == GROUP_OVERLOADED)
		sgs->avg_load = sgs->group_load * SCHED_POWER_SCALE / sgs->group_capacity;
	return nr_allowed;
}

/* Is the group of env->sgs, @group, idler than the idlest group so far? */
static __always_inline bool update_pick_idlest(const struct idlest_env *env, u32 group)
{
	const struct group_stats *sgs = &env->sgs, *idlest = &env->idlest;

	if (sgs->type != idlest->type)
		return sgs->type < idlest->type;
	switch (sgs->type) {
	case GROUP_OVERLOADED:
	case GROUP_FULLY_BUSY:
		return idlest->avg_load > sgs->avg_load;
	case GROUP_MISFIT_TASK:
		return group_state_at(env->idlest_group)->max_capacity < group_state_at(group)->max_capacity;
	case GROUP_HAS_SPARE:
		if (idlest->idle_cpus != sgs->idle_cpus)
			return idlest->idle_cpus < sgs->idle_cpus;
		return idlest->group_util > sgs->group_util;
	default:
		return false;
	}
}

/*
 * Is the idlest group so much idler than the local one, where the task may use @nr_allowed CPUs, that the task
 * should leave?
 */
static __always_inline bool leaves_local(const struct idlest_env *env, const struct domain *sd, u32 nr_allowed)
{
	const struct group_stats *local = &env->local, *idlest = &env->idlest;
	u64 imbalance = NICE_0_LOAD * (sd->imbalance_pct - 100) / 100;
	u32 imb_numa_nr = sd->imb_numa_nr;
	s64 idler;

	if (local->type != idlest->type)
		return local->type > idlest->type;
	switch (local->type) {
	case GROUP_OVERLOADED:
	case GROUP_FULLY_BUSY:
		if (sd->flags & SD_NUMA && idlest->avg_load + imbalance >= local->avg_load)
			return false;
		if (idlest->avg_load >= local->avg_load + imbalance)
			return false;
		return 100 * local->avg_load > sd->imbalance_pct * idlest->avg_load;
	case GROUP_MISFIT_TASK:
		return group_state_at(env->local_group)->max_capacity <
		       group_state_at(env->idlest_group)->max_capacity;
	case GROUP_HAS_SPARE:
		if (sd->flags & SD_NUMA) {
			if (nr_allowed < imb_numa_nr)
				imb_numa_nr = nr_allowed;
			idler = (s64)idlest->idle_cpus - local->idle_cpus;
			if (!adjust_numa_imbalance(idler < 0 ? -idler : idler, local->sum_nr_running + 1,
						   imb_numa_nr))
				return false;
		}
		return local->idle_cpus < idlest->idle_cpus;
	default:
		return false;
	}
}

/*
 * The number of the group of @cpu's domain at @level that is the idlest for @p, or -1 if @p should stay in @cpu's
 * own group.
 */
__noinline s32 find_idlest_group(struct task_struct *p __arg_trusted, u32 cpu, u32 level)
{
	forget_origin(cpu);
	forget_origin(level);
	struct idlest_env *env = this_idlest_env();
	struct domain *sd = domain_of(cpu, level);
	u32 local = local_group_of(cpu, level), nr_local = 0;
	int i;

	env->local_group = env->idlest_group = -1;
	__builtin_memset(&env->idlest, 0, sizeof(env->idlest));
	env->idlest.avg_load = ~0U;
	env->idlest.type = GROUP_OVERLOADED;
	bpf_for(i, 0, sd->nr_groups) {
		u32 group = nth_group(sd, local, i);
		u32 nr_allowed = update_sg_wakeup_stats(p, group, sd->flags, sd->imbalance_pct);

		if (!nr_allowed)
			continue;
		if (!i) {
			nr_local = nr_allowed;
			env->local = env->sgs;
			env->local_group = group;
		} else if (update_pick_idlest(env, group)) {
			env->idlest = env->sgs;
			env->idlest_group = group;
		}
	}
	if (env->idlest_group < 0 || env->local_group < 0)
		return env->idlest_group;
	return leaves_local(env, sd, nr_local) ? env->idlest_group : -1;
}

/*
 * The idlest CPU of @group that @p may use: the first CPU that has only SCHED_IDLE tasks, otherwise the CPU that
 * became idle most recently or, if none is idle, the CPU with the least load. If @p may use no CPU of @group,
 * returns @this_cpu.
 */
__noinline s32 find_idlest_cpu(struct task_struct *p __arg_trusted, u32 group, u32 this_cpu)
{
	forget_origin(group);
	forget_origin(this_cpu);
	const struct group *sg = group_at(group);
	u64 min_load = ~0ULL, latest = 0;
	s32 idlest = this_cpu, idle = -1;
	int i;

	if (sg->weight == 1)
		return nth_cpu(sg, 0);
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (!task_allowed(p, cpu))
			continue;
		if (sched_idle_cpu_for(cpu, p))
			return cpu;
		if (idle_cpu(cpu)) {
			if (idle < 0 || rq_of(cpu)->idle_stamp > latest) {
				latest = rq_of(cpu)->idle_stamp;
				idle = cpu;
			}
		} else if (idle < 0 && cpu_load(cpu) < min_load) {
			min_load = cpu_load(cpu);
			idlest = cpu;
		}
	}
	return idle >= 0 ? idle : idlest;
}

/* The number of levels of @cpu, from the lowest on, with @sd_flag and a domain smaller than @weight. */
__noinline u32 level_below(u32 cpu, u32 sd_flag, u32 weight)
{
	forget_origin(cpu);
	forget_origin(sd_flag);
	forget_origin(weight);
	u32 found = 0;
	int level;

	bpf_for(level, 0, levels_of(cpu)->nr_levels) {
		struct domain *sd = domain_of(cpu, level);

		if (sd->weight >= weight || !(sd->flags & sd_flag))
			break;
		found = level + 1;
	}
	return found;
}

/* The CPU for @p, which starts anew on @cpu and was on @prev_cpu, by the domains with @sd_flag. */
__noinline s32 select_idlest_cpu(struct task_struct *p __arg_trusted, u32 cpu, s32 prev_cpu, u32 sd_flag)
{
	forget_origin(cpu);
	forget_origin(prev_cpu);
	forget_origin(sd_flag);
	struct idlest_env *env = this_idlest_env();
	u32 levels = level_below(cpu, sd_flag, ~0U);
	struct fair_entity *se = entity_of(p);
	s32 new_cpu = cpu;
	int i;

	if (!se || !levels)
		return prev_cpu;
	if (sd_flag != SD_BALANCE_FORK)
		sync_entity_load_avg(se);
	env->task_cpu = se->attached ? (s32)se->cpu : -1;
	env->runs = se->on_rq;
	env->load = task_h_load(se);
	env->util = se->avg.util_avg;
	env->runnable = se->avg.runnable_avg;
	env->util_est = se->util_est;
	/* Each step goes to a smaller domain: of a lower level, or of another CPU. */
	bpf_for(i, 0, 2 * MAX_LEVELS) {
		u32 weight;
		s32 group;

		if (!levels)
			break;
		group = find_idlest_group(p, cpu, levels - 1);
		if (group < 0) {
			levels--;
			continue;
		}
		new_cpu = find_idlest_cpu(p, group, cpu);
		if (new_cpu == (s32)cpu) {
			levels--;
			continue;
		}
		weight = domain_of(cpu, levels - 1)->weight;
		cpu = new_cpu;
		levels = level_below(cpu, sd_flag, weight);
	}
	if (!task_allowed(p, new_cpu))
		new_cpu = prev_cpu;
	explain(idlest, p->pid, new_cpu, prev_cpu);
	return new_cpu;
}

#endif /* __EQUIPOISE_IDLEST_H */
