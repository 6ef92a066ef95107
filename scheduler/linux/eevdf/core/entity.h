/* SPDX-License-Identifier: GPL-2.0-only */
/* The entities of a runqueue: tasks and, before Linux 7.3, groups. */
#ifndef __EQUIPOISE_FAIR_ENTITY_H
#define __EQUIPOISE_FAIR_ENTITY_H

#include "load_avg.h"

/* The kernel's sched_entity. While the task runs, its vruntime and deadline are in the runqueue's curr. */
struct fair_entity {
	/* Protects the CPU and the weight with which it counts, because other CPUs may move it. */
	struct bpf_spin_lock lock;
	/* The CPU where it counts, or last did. */
	u32 cpu;
	u64 vruntime;
	/* The vruntime by which it should have received its slice. */
	u64 deadline;
	/* The slice that it requests, ns; and whether that is one of its own. */
	u64 slice;
	bool custom_slice;
	/* Its lag when it last stopped being runnable, in vruntime: how far it was below the average. */
	s64 vlag;
	/* The time when it last ran, ns of clock_task; 0: it has been moved since. */
	u64 exec_start;
	/*
	 * When it became runnable or was last picked, ns: balancing first takes the task for which
	 * this is longest ago.
	 */
	u64 listed_at;
	/*
	 * Its weight in its group; and on its CPU, scaled. In the root they are the same. 2^32 / weight, or 0 in
	 * another group, where a division is exact.
	 */
	u32 weight;
	u32 inv_weight;
	u64 h_weight;
	/* Its group, 0: the root. */
	u32 group;
	bool on_rq;
	bool idle_policy;
	/* It or a group above it is SCHED_IDLE, as of its last wakeup. */
	bool h_idle;
	/* Its averages are included in the runqueue's. */
	bool attached;
	/* Forked and not yet woken; and just woken for the first time. */
	bool forked;
	bool is_new;
	/*
	 * It went to sleep while it was not eligible, and waits in a slot of its CPU until it is
	 * (delayed.h).
	 */
	bool delayed;
	u32 delayed_slot;
	s32 pid;
	/* Its averages have changed since its estimate was updated. */
	bool util_changed;
	/* Utilization at the end of its last activations, of 1024, slow to fall. */
	u32 util_est;
	/*
	 * The task that it woke last, how often that has changed lately, and the start of that
	 * count, jiffies (wake_wide()).
	 */
	s32 last_wakee;
	u32 wakee_flips;
	u64 wakee_flip_decay;
	/* The CPU before the last one. */
	u32 recent_used_cpu;
	struct load_avg avg;
};

#endif /* __EQUIPOISE_FAIR_ENTITY_H */
