/* SPDX-License-Identifier: GPL-2.0-only */
/* An idle CPU that shares a cache with the waking task's target: select_idle_sibling() of Linux 7.3. */
#ifndef __EQUIPOISE_IDLE_SIBLING_H
#define __EQUIPOISE_IDLE_SIBLING_H

#include "../core/task.bpf.h"
#include "smt.h"

/* The @i-th CPU after @cpu among those that share its cache, in cyclic order of their numbers. */
static __always_inline u32 llc_cpu_after(u32 cpu, u32 position, u32 i)
{
	const struct cpu_levels *levels = levels_of(cpu);
	u32 n = position + i;

	if (n >= levels->llc_weight)
		n -= levels->llc_weight;
	return llc_list[(levels->llc_first + n) & (MAX_CPUS - 1)];
}

/* The index of @cpu among the CPUs that share its cache, which are sorted. */
__noinline u32 llc_position(u32 cpu)
{
	forget_origin(cpu);
	const struct cpu_levels *levels = levels_of(cpu);
	u32 low = 0, high = levels->llc_weight;
	int i;

	bpf_for(i, 0, MAX_CPU_BITS) {
		u32 middle = (low + high) / 2;

		if (high - low <= 1)
			break;
		if (llc_list[(levels->llc_first + middle) & (MAX_CPUS - 1)] <= cpu)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Returns @cpu if its core is fully idle. Otherwise returns -1, and *@idle_cpu_found, if it is not set yet, becomes
 * an idle thread of that core that @p may use.
 */
__noinline s32 select_idle_core(struct task_struct *p __arg_trusted, u32 cpu, s32 *idle_cpu_found __arg_nonnull)
{
	forget_origin(cpu);
	const struct domain *sd = smt_domain(cpu);
	bool idle = true;
	int i;

	if (!sd)
		return idle_cpu(cpu) ? (s32)cpu : -1;
	bpf_for(i, 0, sd->weight) {
		u32 sibling = domain_cpu(sd, i);

		if (!idle_cpu(sibling)) {
			idle = false;
			if (*idle_cpu_found >= 0)
				break;
			if (sched_idle_cpu_for(sibling, p) && task_allowed(p, sibling)) {
				*idle_cpu_found = sibling;
				break;
			}
			continue;
		}
		if (*idle_cpu_found < 0 && task_allowed(p, sibling))
			*idle_cpu_found = sibling;
	}
	return idle ? (s32)cpu : -1;
}

/*
 * The first idle CPU of the cache, in a search that begins after @target, or -1. If @idle_core, a CPU of a fully
 * idle core is preferred; otherwise the search ends after llc::nr_idle_scan CPUs.
 */
__noinline s32 select_idle_cpu(struct task_struct *p __arg_trusted, u32 target, bool idle_core)
{
	forget_origin(target);
	struct llc *llc = llc_of(target);
	u32 position = llc_position(target), weight = levels_of(target)->llc_weight;
	s32 nr = llc->nr_idle_scan, found = -1;
	int i;

	/* A cache whose CPUs are this busy rarely has an idle CPU. */
	if (!nr)
		return -1;
	bpf_for(i, 1, weight + 1) {
		u32 cpu = llc_cpu_after(target, position, i < (int)weight ? i : 0);

		if (!task_allowed(p, cpu))
			continue;
		if (idle_core) {
			s32 core = select_idle_core(p, cpu, &found);

			if (core >= 0)
				return core;
		} else {
			if (--nr < 0)
				return -1;
			if (available_cpu(cpu, p))
				return cpu;
		}
	}
	if (idle_core)
		llc->has_idle_cores = false;
	return found;
}

/* An idle hardware thread of @cpu's core other than @cpu, or -1. */
__noinline s32 select_idle_smt(struct task_struct *p __arg_trusted, u32 cpu)
{
	forget_origin(cpu);
	const struct domain *sd = smt_domain(cpu);
	s32 found = -1;
	int i;

	if (!sd)
		return -1;
	bpf_for(i, 0, sd->weight) {
		u32 sibling = domain_cpu(sd, i);

		if (sibling != cpu && task_allowed(p, sibling) && available_cpu(sibling, p)) {
			found = sibling;
			break;
		}
	}
	return found;
}

/* The level, plus 1, of the lowest domain of @cpu with CPUs of every capacity; 0 if there is none. */
static __always_inline u32 asym_levels(u32 cpu)
{
	u32 found = 0;
	int level;

	bpf_for(level, 0, levels_of(cpu)->nr_levels)
		if (domain_of(cpu, level)->flags & SD_ASYM_CPUCAPACITY_FULL) {
			found = level + 1;
			break;
		}
	return found;
}

/*
 * The first idle CPU of @target's domain at @level that @util fits, in a search that begins at @target, or the idle
 * CPU with the most capacity. Linux 7.3 prefers fully idle cores, as long as it knows of any: a busy sibling thread
 * costs more than a CPU that is too small. If it knows of none, its search ends after llc::nr_asym_idle_scan CPUs.
 */
__noinline s32 select_idle_capacity(struct task_struct *p __arg_trusted, u32 target, u32 level, u64 util)
{
	forget_origin(target);
	forget_origin(level);
	forget_origin(util);
	const struct domain *sd = domain_of(target, level);
	bool idle_core = policy.asym_smt && smt_domain(target) && llc_of(target)->has_idle_cores;
	u32 best_rank = ~0U, best_cap = 0, start = 0;
	s32 best = -1, nr = sd->weight;
	int i;

	if (policy.asym_smt && !(nr = llc_of(domain_cpu(sd, 0))->nr_asym_idle_scan))
		return -1;

	bpf_for(i, 0, sd->weight)
		if (domain_cpu(sd, i) == target)
			start = i;
	bpf_for(i, 0, sd->weight) {
		u32 n = start + i, cpu = domain_cpu(sd, n < sd->weight ? n : n - sd->weight);

		bool fits, whole_core = !idle_core || is_core_idle(cpu);
		u32 rank;

		if (!task_allowed(p, cpu))
			continue;
		if (policy.asym_smt && !idle_core && --nr < 0)
			return best;
		if (!available_cpu(cpu, p))
			continue;
		fits = util_fits_cpu(util, cpu);
		if (fits && whole_core)
			return cpu;
		rank = whole_core ? 0 : fits ? 1 : 2;
		if (rank < best_rank || (rank == best_rank && power_of(cpu) > best_cap)) {
			best_rank = rank;
			best_cap = power_of(cpu);
			best = cpu;
		}
	}
	if (idle_core && best_rank > 0)
		llc_of(target)->has_idle_cores = false;
	return best;
}

/* Does a task of @util fit @cpu, with policy.asym_smt on an idle core? On homogeneous CPUs it always does. */
static __always_inline bool asym_fits_cpu(u64 util, u32 cpu)
{
	return !machine.asymmetric || ((!policy.asym_smt || is_core_idle(cpu)) && util_fits_cpu(util, cpu));
}

/* @target, or an idle CPU near it for @p, which was on @prev_cpu. */
__noinline s32 select_idle_sibling(struct task_struct *p __arg_trusted, u32 prev_cpu, u32 target)
{
	struct fair_entity *se = entity_of(p);
	bool idle_core = false;
	u32 recent, levels;
	u64 util;
	s32 cpu;

	if (!se)
		return target;
	util = task_util_est(se);
	if (available_cpu(target, p) && asym_fits_cpu(util, target)) {
		explain(target_idle, p->pid, target, prev_cpu);
		return target;
	}
	if (prev_cpu != target && cpus_share_cache(prev_cpu, target) && available_cpu(prev_cpu, p) &&
	    asym_fits_cpu(util, prev_cpu)) {
		explain(prev_idle, p->pid, prev_cpu, target);
		return prev_cpu;
	}

	/* A per-CPU kernel thread wakes the task that gave it its work, and then sleeps. */
	if (is_per_cpu_kthread(bpf_get_current_task_btf()) && prev_cpu == bpf_get_smp_processor_id() &&
	    cpu_nr_running(prev_cpu) <= 1 && asym_fits_cpu(util, prev_cpu))
		return prev_cpu;

	recent = se->recent_used_cpu;
	se->recent_used_cpu = prev_cpu;
	if (recent != prev_cpu && recent != target && cpus_share_cache(recent, target) &&
	    available_cpu(recent, p) && task_allowed(p, recent) && asym_fits_cpu(util, recent)) {
		explain(recent_idle, p->pid, recent, target);
		return recent;
	}

	levels = machine.asymmetric ? asym_levels(target) : 0;
	if (levels) {
		cpu = select_idle_capacity(p, target, levels - 1, util);
		if (cpu >= 0)
			explain(fits_idle, p->pid, cpu, target, util, power_of(cpu));
		else
			explain(none_idle, p->pid, target);
		return cpu >= 0 ? cpu : (s32)target;
	}
	if (smt_domain(target)) {
		idle_core = llc_of(target)->has_idle_cores;
		if (!idle_core && cpus_share_cache(prev_cpu, target)) {
			cpu = select_idle_smt(p, prev_cpu);
			if (cpu >= 0) {
				explain(near_idle, p->pid, cpu, target);
				return cpu;
			}
		}
	}
	cpu = select_idle_cpu(p, target, idle_core);
	if (cpu >= 0)
		explain(near_idle, p->pid, cpu, target);
	else
		explain(none_near_idle, p->pid, target, prev_cpu);
	return cpu >= 0 ? cpu : (s32)target;
}

#endif /* __EQUIPOISE_IDLE_SIBLING_H */
