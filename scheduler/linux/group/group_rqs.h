/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of groups on CPUs, for a scheduler that has defined struct group_rq. */
#ifndef __EQUIPOISE_GROUP_RQS_H
#define __EQUIPOISE_GROUP_RQS_H

#include "tree.h"

static struct group_rq group_rqs[MAX_GROUP_RQS];

/* The part of @group, which is not the root, on @cpu. */
static __always_inline struct group_rq *group_rq_at(u32 group, u32 cpu)
{
	return &group_rqs[(group * nr_cpus() + cpu) & (MAX_GROUP_RQS - 1)];
}

/* Is @group, or one above it, throttled on @cpu? */
__noinline bool throttled_hierarchy(u32 group, u32 cpu)
{
	bool throttled = false;

	forget_origin(group);
	forget_origin(cpu);
	for (int level = 0; level < MAX_GROUP_LEVELS && group && !throttled; level++) {
		throttled = group_rq_at(group, cpu)->throttled;
		group = group_parent(group);
	}
	return throttled;
}

/* Is @group @top, or below it? */
static __always_inline bool is_below(u32 group, u32 top)
{
	while (group && group != top)
		group = group_parent(group);
	return group;
}

#endif /* __EQUIPOISE_GROUP_RQS_H */
