/* SPDX-License-Identifier: GPL-2.0-only */
/* Placement at a wakeup or fork: select_task_rq_fair() of Linux 3.9. */
#ifndef __EQUIPOISE_PLACEMENT_H
#define __EQUIPOISE_PLACEMENT_H

#include "../balance/cpu_load.h"
#include "../balance/domain.h"
#include "task.bpf.h"

/* A task that wakes up: the load with which it counts, its group, and whether the waker is about to sleep. */
struct waking {
	s64 load;
	u32 group;
	bool sync;
};

/*
 * The change of the load of @cpu if @load comes to @group on that CPU, and @moved to the group as a whole:
 * effective_load().
 */
static __always_inline s64 load_change(u32 group, u32 cpu, s64 load, s64 moved)
{
	return in_group(group) ? effective_load(group, cpu, load, moved) : load;
}

/*
 * The load with which wake_affine() counts a task of @weight and tracked @load. This is the weight even in Linux
 * 3.12, where runqueues have tracked loads, and the tracked load in Linux 4.17.
 */
static __always_inline u64 affine_load(u64 weight, u64 load)
{
	return policy.wake_affine_idle ? load : weight;
}

/*
 * May the task of @waking, which last ran on @prev_cpu, be pulled to its waker's CPU, @this_cpu, without an
 * imbalance in their domain at @level? A waker that is about to sleep does not count.
 */
__noinline bool wake_affine_weight(u32 this_cpu, u32 prev_cpu, u32 level, const struct waking *waking __arg_nonnull)
{
	const struct domain *sd = domain_of(this_cpu, level);
	s64 this_load = target_load(this_cpu, sd->wake_idx);
	s64 load = source_load(prev_cpu, sd->wake_idx);
	bool balanced = true;

	if (waking->sync && rq_of(this_cpu)->curr.pid) {
		const struct running *curr = &rq_of(this_cpu)->curr;
		s64 own = affine_load(curr->weight, curr->load);

		this_load += load_change(curr->group, this_cpu, -own, -own);
		load += load_change(curr->group, prev_cpu, 0, -own);
	}
	if (this_load > 0) {
		s64 this_eff_load = 100 * (s64)power_of(prev_cpu) *
				    (this_load + load_change(waking->group, this_cpu, waking->load, waking->load));
		s64 prev_eff_load = (100 + (sd->imbalance_pct - 100) / 2) * (s64)power_of(this_cpu) *
				    (load + load_change(waking->group, prev_cpu, 0, waking->load));

		balanced = this_eff_load <= prev_eff_load;
	}
	if (balanced)
		return true;
	return this_load <= load &&
	       this_load + (s64)target_load(prev_cpu, sd->wake_idx) <= (s64)cpu_avg_load_per_task(this_cpu);
}

/*
 * wake_affine_idle() of Linux 4.17; -1 if neither of its rules is decisive. An idle CPU wakes tasks only in
 * interrupts. If it shares its cache with the task's own CPU, the task goes to it only if its own is busy, because
 * data from an interrupt is worth no more than the task's old cache. A CPU whose only task is about to sleep takes
 * the woken task.
 */
static __always_inline s32 wake_affine_idle(u32 this_cpu, u32 prev_cpu, bool sync)
{
	if (!policy.wake_affine_idle)
		return -1;
	if (idle_cpu(this_cpu) && cpus_share_cache(this_cpu, prev_cpu))
		return idle_cpu(prev_cpu) ? prev_cpu : this_cpu;
	return sync && cpu_nr_running(this_cpu) == 1 ? (s32)this_cpu : -1;
}

/* The CPU near which the task of @waking wakes up; @level is that of the domain of both CPUs. */
static __always_inline s32 wake_affine(u32 this_cpu, u32 prev_cpu, u32 level, const struct waking *waking)
{
	s32 target = wake_affine_idle(this_cpu, prev_cpu, waking->sync);

	if (target >= 0)
		return target;
	return wake_affine_weight(this_cpu, prev_cpu, level, waking) ? this_cpu : prev_cpu;
}

/*
 * Returns the first CPU of @group that @p may use if the whole group is idle and does not contain @target;
 * otherwise -1. The caller has found @first, the group's first CPU, idle.
 */
__noinline s32 idle_group_cpu(struct task_struct *p __arg_trusted, u32 group, u32 first, u32 target)
{
	const struct group *sg = group_at(group);
	s32 found = task_allowed(p, first) ? (s32)first : -1;
	bool all_idle = true;
	int i;

	bpf_for(i, 1, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (cpu == target || !idle_cpu(cpu)) {
			all_idle = false;
			break;
		}
		if (found < 0 && task_allowed(p, cpu))
			found = cpu;
	}
	return all_idle ? found : -1;
}

/* A CPU of the first fully idle group of @target's domain at @level, or -1. */
__noinline s32 idle_cpu_at(struct task_struct *p __arg_trusted, u32 target, u32 level)
{
	struct domain *sd = domain_of(target, level);
	u32 local = local_group_of(target, level);
	s32 found = -1;
	int i;

	bpf_for(i, 0, sd->nr_groups) {
		u32 group = nth_group(sd, local, i), first = nth_cpu(group_at(group), 0);

		/* In most groups the first CPU is busy. */
		if (first == target || !idle_cpu(first))
			continue;
		found = idle_group_cpu(p, group, first, target);
		if (found >= 0)
			break;
	}
	return found;
}

/*
 * @target, or an idle CPU that shares its cache: preferably the last CPU of @p, otherwise a CPU in the largest
 * fully idle group.
 */
__noinline s32 select_idle_sibling(struct task_struct *p __arg_trusted, u32 prev_cpu, u32 target)
{
	u32 nr_levels = levels_of(target)->nr_llc_levels;
	s32 found = -1;
	int down;

	if (idle_cpu(target)) {
		explain(target_idle, p->pid, target, prev_cpu);
		return target;
	}
	if (prev_cpu != target && cpus_share_cache(prev_cpu, target) && idle_cpu(prev_cpu)) {
		explain(prev_idle, p->pid, prev_cpu, target);
		return prev_cpu;
	}
	bpf_for(down, 0, nr_levels) {
		found = idle_cpu_at(p, target, nr_levels - 1 - down);
		if (found >= 0)
			break;
	}
	if (found >= 0)
		explain(near_idle, p->pid, found, target);
	else
		explain(none_near_idle, p->pid, target, prev_cpu);
	return found >= 0 ? found : (s32)target;
}

/*
 * The load of @group relative to its power, biased low for @cpu's own group (@local) and high for others; ~0 if @p
 * may use none of its CPUs.
 */
__noinline u64 group_load_for(struct task_struct *p __arg_trusted, u32 group, u32 load_idx, bool local)
{
	const struct group *sg = group_at(group);
	bool allowed = false;
	u64 avg_load = 0;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		avg_load += local ? source_load(cpu, load_idx) : target_load(cpu, load_idx);
		allowed |= task_allowed(p, cpu);
	}
	return allowed ? avg_load * SCHED_POWER_SCALE / sg->power : ~0ULL;
}

/*
 * The number of the group of @cpu's domain at @level with the least load relative to its power, or -1 if that is
 * @cpu's own group, or not sufficiently better.
 */
__noinline s32 find_idlest_group(struct task_struct *p __arg_trusted, u32 cpu, u32 level, u32 load_idx)
{
	struct domain *sd = domain_of(cpu, level);
	u32 local = local_group_of(cpu, level), imbalance = 100 + (sd->imbalance_pct - 100) / 2;
	u64 min_load = ~0ULL, this_load = 0;
	s32 idlest = -1;
	int i;

	bpf_for(i, 0, sd->nr_groups) {
		u32 group = nth_group(sd, local, i);
		u64 avg_load = group_load_for(p, group, load_idx, !i);

		if (avg_load == ~0ULL)
			continue;
		if (!i) {
			this_load = avg_load;
		} else if (avg_load < min_load) {
			min_load = avg_load;
			idlest = group;
		}
	}
	return 100 * this_load < imbalance * min_load ? -1 : idlest;
}

/*
 * The CPU with the least load among those of @group that @p may use, or @this_cpu if its load is equal; -1 if there
 * is none.
 */
__noinline s32 find_idlest_cpu(struct task_struct *p __arg_trusted, u32 group, u32 this_cpu)
{
	const struct group *sg = group_at(group);
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

/* The highest level of @cpu with @sd_flag and a domain smaller than @weight, plus 1; 0 if there is none. */
__noinline u32 level_below(u32 cpu, u32 sd_flag, u32 weight)
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

/* Descends from the highest domain into the idlest group and then to its idlest CPU. */
__noinline s32 select_idlest_cpu(struct task_struct *p __arg_trusted, u32 cpu, s32 new_cpu, u32 sd_flag)
{
	u32 levels = level_below(cpu, sd_flag, ~0U);
	int i;

	/* Each step goes to a smaller domain: of a lower level, or of another CPU. */
	bpf_for(i, 0, 2 * MAX_LEVELS) {
		struct domain *sd;
		s32 group, idlest;

		if (!levels)
			break;
		sd = domain_of(cpu, levels - 1);
		if (!(sd->flags & sd_flag)) {
			levels--;
			continue;
		}
		group = find_idlest_group(p, cpu, levels - 1,
					  sd_flag == SD_BALANCE_WAKE ? sd->wake_idx : sd->forkexec_idx);
		if (group < 0) {
			levels--;
			continue;
		}
		idlest = find_idlest_cpu(p, group, cpu);
		if (idlest >= 0)
			new_cpu = idlest;
		if (idlest < 0 || idlest == (s32)cpu) {
			levels--;
			continue;
		}
		cpu = idlest;
		levels = level_below(cpu, sd_flag, sd->weight);
	}
	explain(idlest, p->pid, new_cpu, scx_bpf_task_cpu(p));
	return new_cpu;
}

/* The CPU that a design chooses, otherwise the CPU found from the top domain down. */
static __always_inline s32 select_balanced_cpu(struct task_struct *p, u32 cpu, s32 new_cpu, u32 sd_flag)
{
	s32 found = hook_select_domains(p, cpu, sd_flag);

	return found >= 0 ? found : select_idlest_cpu(p, cpu, new_cpu, sd_flag);
}

/* The CPU for @p, which wakes up and was on @prev_cpu. @wake_flags: SCX_WAKE_*. */
__noinline s32 select_wake_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu, u64 wake_flags)
{
	struct fair_entity *se = entity_of(p);
	u32 cpu = bpf_get_smp_processor_id();
	struct waking waking;
	s32 target = -1;
	int level;

	if (!se)
		return prev_cpu;
	if (!task_allowed(p, cpu))
		return select_balanced_cpu(p, cpu, prev_cpu, SD_BALANCE_WAKE);

	bpf_for(level, 0, levels_of(cpu)->nr_levels) {
		struct domain *sd = domain_of(cpu, level);

		if (!load_balanced(sd) || !(sd->flags & SD_WAKE_AFFINE) || !same_domain(cpu, prev_cpu, level))
			continue;
		target = hook_select_level(p, cpu, level, true);
		if (target >= 0)
			return target;
		waking = (struct waking){
			.load = affine_load(se->weight, entity_load(se)),
			.group = se->group,
			.sync = wake_flags & SCX_WAKE_SYNC,
		};
		target = (s32)cpu == prev_cpu ? prev_cpu : wake_affine(cpu, prev_cpu, level, &waking);
		break;
	}
	if (target >= 0)
		return select_idle_sibling(p, prev_cpu, target);
	return select_balanced_cpu(p, cpu, prev_cpu, SD_BALANCE_WAKE);
}

/* The CPU for @p, which was on @prev_cpu. @wake_flags: SCX_WAKE_*. */
static __always_inline s32 select_task_rq_fair(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 target = hook_select_task_rq(p, prev_cpu);
	u32 cpu = bpf_get_smp_processor_id();

	if (target >= 0)
		return target;
	if (wake_flags & SCX_WAKE_FORK) {
		target = hook_select_fork(p);
		return target >= 0 ? target : select_balanced_cpu(p, cpu, cpu, SD_BALANCE_FORK);
	}
	return hook_select_woken(p, prev_cpu, select_wake_cpu(p, prev_cpu, wake_flags));
}

#endif /* __EQUIPOISE_PLACEMENT_H */
