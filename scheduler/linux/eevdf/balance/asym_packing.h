/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preferred CPUs: where the firmware ranks CPUs (ITMT, AMD's preferred cores), tasks are packed onto the CPUs with
 * the highest priority, but onto an SMT core only if it is fully idle. This is SD_ASYM_PACKING of Linux 7.3.
 */
#ifndef __EQUIPOISE_ASYM_PACKING_H
#define __EQUIPOISE_ASYM_PACKING_H

#include "balance_env.bpf.h"

/* Do priorities count for @cpu in @sd? Between cores, only if the core of @cpu has no other task. */
static __always_inline bool sched_use_asym_prio(const struct domain *sd, u32 cpu)
{
	return sd->flags & SD_ASYM_PACKING && (sd->flags & SD_SHARE_CPUPOWER || is_core_idle(cpu));
}

static __always_inline bool sched_asym(const struct domain *sd, u32 dst_cpu, u32 src_cpu)
{
	return sched_asym_prefer(dst_cpu, src_cpu) && sched_use_asym_prio(sd, dst_cpu);
}

/*
 * Should dst_cpu take the work of @group, whose statistics are in env->sgs? It should not if the group is a core
 * with more than one busy thread, which is the case of GROUP_SMT_BALANCE.
 */
static __always_inline bool sched_group_asym(const struct balance_env *env, u32 group)
{
	const struct group_state *state = group_state_at(group);

	if (state->flags & SD_SHARE_CPUPOWER && env->sgs.group_weight - env->sgs.idle_cpus != 1)
		return false;
	return sched_asym(env_domain(env), env->dst_cpu, state->asym_prefer_cpu);
}

/*
 * Should the running task of src_cpu move to a preferred CPU? If it shares its core, it may move to
 * a CPU of lower priority, too.
 */
static __always_inline bool asym_active_balance(const struct balance_env *env)
{
	const struct domain *sd = env_domain(env);

	return is_idle_balance(env) && sched_use_asym_prio(sd, env->dst_cpu) &&
	       (sched_asym_prefer(env->dst_cpu, env->src_cpu) || !sched_use_asym_prio(sd, env->src_cpu));
}

#endif /* __EQUIPOISE_ASYM_PACKING_H */
