/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of picking and preempting with queues of groups that both fair classes share. */
#ifndef __EQUIPOISE_GROUPS_PICK_H
#define __EQUIPOISE_GROUPS_PICK_H

#include "tree.h"

/*
 * The place where two tasks compete: the queue of @group, in which each is represented by itself (0) or by the
 * group below @group that it is in.
 */
struct matching {
	u32 group;
	u32 se;
	u32 curr;
};

/* The queue in which a task of the group @se and one of @curr compete: find_matching_se(). */
static __always_inline struct matching find_matching(u32 se, u32 curr)
{
	struct matching found = {};

	while (se != curr) {
		u32 level = fair_group_at(se)->level, curr_level = fair_group_at(curr)->level;

		if (level >= curr_level) {
			found.se = se;
			se = group_parent(se);
		}
		if (level <= curr_level) {
			found.curr = curr;
			curr = group_parent(curr);
		}
	}
	found.group = se;
	return found;
}

/* Starts the task @pid, which waits in @dsq, on this CPU. Returns false if it does not wait there. */
static __always_inline bool start_from(u64 dsq, s32 pid)
{
	struct task_struct *p;
	bool started = false;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (p->pid != pid)
			continue;
		started = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	return started;
}

#endif /* __EQUIPOISE_GROUPS_PICK_H */
