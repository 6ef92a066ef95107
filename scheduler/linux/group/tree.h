/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tree of control groups (CONFIG_FAIR_GROUP_SCHED), for any scheduler that defines struct group_rq, the part of
 * a group on a CPU, and SCALE_LOAD_SHIFT, the number of fractional bits of a weight.
 *
 * The group 0 is the root, which has no group_rq. If there are no other groups, none of this code is executed.
 *
 * Only in the simulated kernel are there groups. The verifier allows a chain of eight calls, of which balancing for
 * idle CPUs uses seven before it moves a task, so these schedulers ignore groups when they run as BPF.
 */
#ifndef __EQUIPOISE_GROUP_TREE_H
#define __EQUIPOISE_GROUP_TREE_H

#include "../../verifier.h"
#include "../../weight.h"

/* The number of groups, and of their parts on CPUs; powers of two. */
#ifdef __EQUIPOISE_SIMULATED_H
#define has_groups true
#define MAX_FAIR_GROUPS 4096
#define MAX_GROUP_RQS 32768
#else
#define has_groups false
#define MAX_FAIR_GROUPS 1
/*
 * The array must have more than one element: otherwise the kernel treats the bpf_spin_lock in the global struct as
 * one that it manages, and does not map the section (bpf_map_mmap()). In a longer array the kernel overlooks the
 * lock.
 */
#define MAX_GROUP_RQS 2
#endif
/* The maximum number of levels, including the root. */
#define MAX_GROUP_LEVELS 16

/* The smallest weight of a group, and the largest one, which is scaled. */
#define MIN_SHARES 2
#define MAX_SHARES (1ULL << 18 << SCALE_LOAD_SHIFT)
/* The default cpu.weight, equivalent to a task of nice 0. */
#define CGROUP_WEIGHT_DFL 100

/* struct cfs_bandwidth: cpu.max and cpu.max.burst, in ns (bandwidth.h). */
struct fair_bandwidth {
	/* The period; 0 if there is no limit. */
	u64 period;
	u64 quota;
	u64 burst;
	/* The unassigned rest of this period's time. */
	u64 runtime;
	/* The end of the period, in ns. */
	u64 expires;
	/* Whether no runqueue has requested time in this period; then, whether each timer runs. */
	bool idle;
	bool period_active;
	bool slack_started;
	/* The number of throttled runqueues, and the number of the last throttling. */
	u32 nr_throttled;
	u64 last_throttled;
	/* The number of the period, by which time of earlier periods expires (policy.cfs_bandwidth_expires). */
	u32 seq;
};

/* struct task_group */
struct fair_group {
	u32 parent;
	/* The level, which is 1 for a group directly below the root; 0: there is no such group. */
	u32 level;
	/* The weight, scaled; the last cpu.weight, scaled; and cpu.idle. */
	u64 shares;
	u64 given;
	bool idle;
	/* The sums over the group's runqueues, as last propagated. */
	s64 load_avg;
	s64 runnable_avg;
	struct fair_bandwidth bandwidth;
} __attribute__((aligned(64)));

static struct fair_group fair_groups[MAX_FAIR_GROUPS];
/* The highest number that a group has had, plus 1, and the number of groups with cpu.max. */
static u32 nr_fair_groups;
static u32 nr_limited_groups;

static __always_inline struct fair_group *fair_group_at(u32 group)
{
	return &fair_groups[group & (MAX_FAIR_GROUPS - 1)];
}

/* Is @group a group below the root? Most tasks are in the root, and must not pay for groups. */
static __always_inline bool in_group(u32 group)
{
	return has_groups && __builtin_expect(group != 0, 0);
}

static __always_inline bool any_group_is_limited(void)
{
	return has_groups && __builtin_expect(READ_ONCE(nr_limited_groups) != 0, 0);
}

static __always_inline u32 group_parent(u32 group)
{
	return fair_group_at(group)->parent;
}

/* sched_weight_from_cgroup(), scaled and within the bounds. */
static __always_inline u64 shares_of_cgroup(u32 cpu_weight)
{
	u64 shares = ((u64)cpu_weight * NICE_0_LOAD + CGROUP_WEIGHT_DFL / 2) / CGROUP_WEIGHT_DFL
		     << SCALE_LOAD_SHIFT;

	return shares < MIN_SHARES << SCALE_LOAD_SHIFT ? MIN_SHARES << SCALE_LOAD_SHIFT
	       : shares > MAX_SHARES		       ? MAX_SHARES
						       : shares;
}

#endif /* __EQUIPOISE_GROUP_TREE_H */
