/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The capacity of CPUs and groups for fair tasks, and the smallest and the largest capacity in a group:
 * update_group_capacity().
 */
#ifndef __EQUIPOISE_GROUP_CAPACITY_H
#define __EQUIPOISE_GROUP_CAPACITY_H

#include "../../../signals/capacity.h"
#include "balance_env.bpf.h"

/* Updates dst_cpu's group in the domain, though not every time that a CPU runs out of work. */
static __always_inline void refresh_group_capacity(struct balance_env *env)
{
	struct group_state *state = group_state_at(env->local_group);
	struct group *sg = group_at(env->local_group);
	u64 now = bpf_ktime_get_ns();
	struct domain *child;
	int i;

	if (env->idle == LB_NEWLY_IDLE && time_before(jiffies_at(now), sg->next_update))
		return;
	update_group_power(env->cpu, env->level, env_domain_state(env)->balance_interval, now);
	if (!env->level) {
		state->min_capacity = state->max_capacity = sg->power;
		return;
	}
	child = domain_of(env->cpu, env->level - 1);
	state->min_capacity = ~0U;
	state->max_capacity = 0;
	bpf_for(i, 0, child->nr_groups) {
		struct group_state *part = group_state_at(child->first_group + i);

		if (part->min_capacity < state->min_capacity)
			state->min_capacity = part->min_capacity;
		if (part->max_capacity > state->max_capacity)
			state->max_capacity = part->max_capacity;
	}
}

#endif /* __EQUIPOISE_GROUP_CAPACITY_H */
