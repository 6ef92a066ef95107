/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Control groups, which are the kernel's task groups: their creation, removal and changes, and the moves of tasks
 * between them. The scheduler defines init_group_rq(), which initializes a group's part on a CPU, and
 * set_group_shares(), which changes the weight of a group.
 */
#ifndef __EQUIPOISE_CGROUP_H
#define __EQUIPOISE_CGROUP_H

#include "period.bpf.h"

struct fair_group_of {
	u32 group;
	/* Whether the control group has a group of its own. If not, it counts as part of the group above. */
	bool own;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fair_group_of);
} cgroups SEC(".maps");

static __always_inline u32 group_of_cgroup(struct cgroup *cgrp)
{
	struct fair_group_of *of = bpf_cgrp_storage_get(&cgroups, cgrp, NULL, 0);

	return of ? of->group : 0;
}

/* The group that @cgrp has of its own, or 0. */
static __always_inline u32 own_group(struct cgroup *cgrp)
{
	struct fair_group_of *of = bpf_cgrp_storage_get(&cgroups, cgrp, NULL, 0);

	return of && of->own ? of->group : 0;
}

/* A free group with a number above that of @parent, because children come after parents; 0 if there is none. */
__noinline u32 find_free_group(u32 parent)
{
	u32 last = MAX_GROUP_RQS / nr_cpus();
	int i;

	forget_origin(parent);
	if (last > MAX_FAIR_GROUPS)
		last = MAX_FAIR_GROUPS;
	bpf_for(i, parent + 1, last)
		if (!fair_group_at(i)->level)
			return i;
	return 0;
}

/* Adds a group of @shares below @parent. Returns 0 if there is no room. */
__noinline u32 add_group(u32 parent, u64 shares, bool idle)
{
	struct fair_group *tg;
	u32 group;
	int cpu;

	forget_origin(parent);
	forget_origin(shares);
	group = fair_group_at(parent)->level + 1 < MAX_GROUP_LEVELS ? find_free_group(parent) : 0;
	if (!group)
		return 0;
	tg = fair_group_at(group);
	__builtin_memset(tg, 0, sizeof(*tg));
	tg->parent = parent;
	tg->given = shares;
	tg->idle = idle;
	tg->shares = idle ? (u64)WEIGHT_IDLEPRIO << SCALE_LOAD_SHIFT : shares;
	bpf_for(cpu, 0, nr_cpus())
		init_group_rq(group, cpu);
	tg->level = fair_group_at(parent)->level + 1;
	if (group >= nr_fair_groups)
		nr_fair_groups = group + 1;
	return group;
}

/* Makes a group for @cgrp. Groups come from the root downwards, one at a time. */
static __always_inline s32 init_cgroup(struct cgroup *cgrp, u32 cpu_weight, bool idle)
{
	struct fair_group_of *of = bpf_cgrp_storage_get(&cgroups, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cgroup *above;

	if (!of)
		return -ENOMEM;
	if (cgrp->level < 1)
		return 0;
	above = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (above) {
		of->group = group_of_cgroup(above);
		bpf_cgroup_release(above);
	}
	if (policy.task_groups) {
		u32 group = add_group(of->group, shares_of_cgroup(cpu_weight), idle);

		of->own = group;
		if (group)
			of->group = group;
		else
			simulated_error(
				"Linux's fair class has room for %d control groups on %d CPUs, and for %d levels",
				MAX_GROUP_RQS / nr_cpus() - 1, nr_cpus(), MAX_GROUP_LEVELS - 1);
	}
	return 0;
}

/* Sets the weight of a group. The kernel takes no cpu.weight for a group with cpu.idle. */
static __always_inline void set_group_weight(struct cgroup *cgrp, u32 cpu_weight)
{
	u32 group = own_group(cgrp);

	if (!group)
		return;
	fair_group_at(group)->given = shares_of_cgroup(cpu_weight);
	set_group_shares(group, fair_group_at(group)->given);
}

/*
 * Sets whether a group has cpu.idle. For queued tasks, a change of whether they count as SCHED_IDLE takes effect at
 * their next wakeup.
 */
static __always_inline void set_group_idle(struct cgroup *cgrp, bool idle)
{
	u32 group = own_group(cgrp);

	if (!group || fair_group_at(group)->idle == idle)
		return;
	fair_group_at(group)->idle = idle;
	set_group_shares(group, (u64)(idle ? WEIGHT_IDLEPRIO : NICE_0_LOAD) << SCALE_LOAD_SHIFT);
}

/* Removes the group, which is empty. The groups below it have been removed before. */
static __always_inline void exit_cgroup(struct cgroup *cgrp)
{
	struct fair_group_of *of = bpf_cgrp_storage_get(&cgroups, cgrp, NULL, 0);

	if (!of || !of->own)
		return;
	set_cfs_bandwidth(of->group, 0, ~0ULL, 0);
	fair_group_at(of->group)->level = 0;
	of->own = false;
	of->group = 0;
}

#endif /* __EQUIPOISE_CGROUP_H */
