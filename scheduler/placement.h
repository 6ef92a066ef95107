/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes when it is woken or forked: select_task_rq_fair() of Linux 3.9.
 */
#ifndef __EQUIPOISE_PLACEMENT_H
#define __EQUIPOISE_PLACEMENT_H

#include "cpu_load.h"
#include "task.h"

/*
 * May @p, last on @prev_cpu, be pulled to @this_cpu, which wakes it, without making an imbalance? A
 * waker that is about to sleep (@sync) does not count.
 */
static __always_inline bool wake_affine(const struct domain *sd, const struct fair_entity *se, u32 this_cpu,
					u32 prev_cpu, bool sync)
{
	s64 this_load = target_load(this_cpu, sd->wake_idx);
	s64 load = source_load(prev_cpu, sd->wake_idx);
	s64 weight = entity_load(se);
	bool balanced = true;

	if (sync && rq_of(this_cpu)->curr.pid)
		this_load -= rq_of(this_cpu)->curr.load;
	if (this_load > 0) {
		s64 this_eff_load = 100 * (s64)power_of(prev_cpu) * (this_load + weight);
		s64 prev_eff_load = (100 + (sd->imbalance_pct - 100) / 2) * (s64)power_of(this_cpu) * load;

		balanced = this_eff_load <= prev_eff_load;
	}
	if (balanced)
		return true;
	return this_load <= load &&
	       this_load + (s64)target_load(prev_cpu, sd->wake_idx) <= (s64)cpu_avg_load_per_task(this_cpu);
}

/* The first CPU of @sg that @p may use, if all of @sg is idle and it does not have @target; or -1. */
static __always_inline s32 idle_group_cpu(const struct task_struct *p, const struct group *sg, u32 target)
{
	s32 found = -1;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (cpu == target || !idle_cpu(cpu))
			return -1;
		if (found < 0 && task_allowed(p, cpu))
			found = cpu;
	}
	return found;
}

/*
 * @target, or an idle CPU that shares its cache: best the one that @p was on, else one in the largest
 * group that is idle altogether.
 */
static __noinline s32 select_idle_sibling(struct task_struct *p, u32 prev_cpu, u32 target)
{
	u32 nr_levels = levels_of(target)->nr_llc_levels;
	int down, i;

	if (idle_cpu(target))
		return target;
	if (prev_cpu != target && cpus_share_cache(prev_cpu, target) && idle_cpu(prev_cpu))
		return prev_cpu;
	bpf_for(down, 0, nr_levels) {
		u32 level = nr_levels - 1 - down;
		struct domain *sd = domain_of(target, level);
		u32 local = local_group_of(target, level);

		bpf_for(i, 0, sd->nr_groups) {
			s32 cpu = idle_group_cpu(p, group_at(nth_group(sd, local, i)), target);

			if (cpu >= 0)
				return cpu;
		}
	}
	return target;
}

/*
 * The group of @cpu's domain at @level with the least load for its power, or NULL if that is @cpu's
 * own or not enough better.
 */
static __always_inline struct group *find_idlest_group(const struct task_struct *p, u32 cpu, u32 level,
						       u32 load_idx)
{
	struct domain *sd = domain_of(cpu, level);
	u32 local = local_group_of(cpu, level), imbalance = 100 + (sd->imbalance_pct - 100) / 2;
	u64 min_load = ~0ULL, this_load = 0;
	struct group *idlest = NULL;
	int i, j;

	bpf_for(i, 0, sd->nr_groups) {
		struct group *sg = group_at(nth_group(sd, local, i));
		bool allowed = false;
		u64 avg_load = 0;

		bpf_for(j, 0, sg->weight) {
			u32 other = nth_cpu(sg, j);

			avg_load += i ? target_load(other, load_idx) : source_load(other, load_idx);
			allowed |= task_allowed(p, other);
		}
		if (!allowed)
			continue;
		avg_load = avg_load * SCHED_POWER_SCALE / sg->power;
		if (!i) {
			this_load = avg_load;
		} else if (avg_load < min_load) {
			min_load = avg_load;
			idlest = sg;
		}
	}
	if (!idlest || 100 * this_load < imbalance * min_load)
		return NULL;
	return idlest;
}

/* The CPU of @sg that @p may use with the least load; @this_cpu if it is as good; or -1. */
static __always_inline s32 find_idlest_cpu(const struct task_struct *p, const struct group *sg, u32 this_cpu)
{
	u64 min_load = ~0ULL;
	s32 idlest = -1;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		u64 load = weighted_cpuload(cpu);

		if (!task_allowed(p, cpu))
			continue;
		if (load < min_load || (load == min_load && cpu == this_cpu)) {
			min_load = load;
			idlest = cpu;
		}
	}
	return idlest;
}

/* The highest level of @cpu with @sd_flag and a domain smaller than @weight, plus 1; 0 if none. */
static __always_inline u32 level_below(u32 cpu, u32 sd_flag, u32 weight)
{
	u32 found = 0;
	int level;

	bpf_for(level, 0, levels_of(cpu)->nr_levels) {
		struct domain *sd = domain_of(cpu, level);

		if (sd->weight >= weight)
			break;
		if (sd->flags & sd_flag)
			found = level + 1;
	}
	return found;
}

/* From the top down, into the idlest group and its idlest CPU. */
static __noinline s32 select_idlest_cpu(struct task_struct *p, u32 cpu, s32 new_cpu, u32 sd_flag)
{
	u32 levels = level_below(cpu, sd_flag, ~0U);
	int i;

	/* Each step goes to a smaller domain, by level or by CPU. */
	bpf_for(i, 0, 2 * MAX_LEVELS) {
		struct domain *sd;
		struct group *sg;
		s32 idlest;

		if (!levels)
			break;
		sd = domain_of(cpu, levels - 1);
		if (!(sd->flags & sd_flag)) {
			levels--;
			continue;
		}
		sg = find_idlest_group(p, cpu, levels - 1,
				       sd_flag == SD_BALANCE_WAKE ? sd->wake_idx : sd->forkexec_idx);
		if (!sg) {
			levels--;
			continue;
		}
		idlest = find_idlest_cpu(p, sg, cpu);
		if (idlest >= 0)
			new_cpu = idlest;
		if (idlest < 0 || idlest == (s32)cpu) {
			levels--;
			continue;
		}
		cpu = idlest;
		levels = level_below(cpu, sd_flag, sd->weight);
	}
	return new_cpu;
}

/* The CPU for @p, which was on @prev_cpu. @wake_flags: SCX_WAKE_*. */
static __always_inline s32 select_task_rq_fair(struct task_struct *p, const struct fair_entity *se, s32 prev_cpu,
					       u64 wake_flags)
{
	u32 cpu = bpf_get_smp_processor_id();
	int level;

	if (wake_flags & SCX_WAKE_FORK)
		return select_idlest_cpu(p, cpu, cpu, SD_BALANCE_FORK);
	if (!task_allowed(p, cpu))
		return select_idlest_cpu(p, cpu, prev_cpu, SD_BALANCE_WAKE);

	bpf_for(level, 0, levels_of(cpu)->nr_levels) {
		struct domain *sd = domain_of(cpu, level);

		if (!(sd->flags & SD_WAKE_AFFINE) || !same_domain(cpu, prev_cpu, level))
			continue;
		if ((s32)cpu != prev_cpu && wake_affine(sd, se, cpu, prev_cpu, wake_flags & SCX_WAKE_SYNC))
			return select_idle_sibling(p, prev_cpu, cpu);
		return select_idle_sibling(p, prev_cpu, prev_cpu);
	}
	return select_idlest_cpu(p, cpu, prev_cpu, SD_BALANCE_WAKE);
}

#endif /* __EQUIPOISE_PLACEMENT_H */
