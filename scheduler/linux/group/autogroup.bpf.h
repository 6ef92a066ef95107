/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * autogroup: the tasks of a session (setsid(2)) are in a group of their own, with the weight of nice 0, unless they
 * are in a control group. A nice level then counts only within the session (kernel/sched/autogroup.c).
 */
#ifndef __EQUIPOISE_AUTOGROUP_H
#define __EQUIPOISE_AUTOGROUP_H

#include "cgroup.bpf.h"

/* The largest number of sessions that have a group; the tasks of further sessions are in the root. */
#define MAX_AUTOGROUPS 256

/* For each session with a group, the kernel's number of the session, and the group. */
static struct autogroup_of {
	u64 id;
	u32 group;
} autogroups[MAX_AUTOGROUPS];

/* The number of the session of @p; 0 for the first session, which has no group. */
static __always_inline u64 autogroup_id(const struct task_struct *p)
{
	return p->signal ? p->signal->autogroup->id : 0;
}

/* The group of the session @id; a session that is not known begins now. */
__noinline u32 group_of_session(u64 id)
{
	u32 group = 0;
	int i;

	forget_origin(id);
	bpf_for(i, 0, MAX_AUTOGROUPS) {
		struct autogroup_of *known = &autogroups[i & (MAX_AUTOGROUPS - 1)];

		if (!known->id) {
			known->group = add_group(0, shares_of_cgroup(CGROUP_WEIGHT_DFL), false);
			known->id = id;
		}
		if (known->id == id) {
			group = known->group;
			break;
		}
	}
	return group;
}

/* The group of @p, which is in the control group @cgrp: autogroup_task_group(). */
static __always_inline u32 group_of_task(const struct task_struct *p, struct cgroup *cgrp)
{
	u32 group = group_of_cgroup(cgrp);
	u64 id;

	if (group || !policy.task_groups || !policy.sched_autogroup_enabled)
		return group;
	id = autogroup_id(p);
	return id ? group_of_session(id) : 0;
}

#endif /* __EQUIPOISE_AUTOGROUP_H */
