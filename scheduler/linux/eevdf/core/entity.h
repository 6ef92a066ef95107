/* SPDX-License-Identifier: GPL-2.0-only */
/* The entities of a runqueue: tasks and, before Linux 7.3, groups. */
#ifndef __EQUIPOISE_FAIR_ENTITY_H
#define __EQUIPOISE_FAIR_ENTITY_H

#include "load_avg.h"

/* The kernel's sched_entity. While a task runs, its vruntime and deadline are in the runqueue's curr. */
struct fair_entity {
	/* Protects the entity's CPU, and its weight there, because other CPUs may move the entity. */
	struct bpf_spin_lock lock;
	/* The CPU on which the entity counts, or last counted. */
	u32 cpu;
	u64 vruntime;
	/* The vruntime by which the entity should have received its slice. */
	u64 deadline;
	/* The slice that the entity requests, in ns, and whether that is not the default one. */
	u64 slice;
	bool custom_slice;
	/* How far the entity was below the average vruntime when it last stopped being runnable. */
	s64 vlag;
	/* The time when the entity last ran, in ns of clock_task; 0 if it has been moved since. */
	u64 exec_start;
	/*
	 * The time when the entity became runnable or was last picked, in ns. Balancing first takes the task with
	 * the earliest such time.
	 */
	u64 listed_at;
	/*
	 * The weight in the group; 2^32 / weight or, in a group other than the root, 0, where an exact division is
	 * used; and the weight on the CPU, scaled. In the root the two weights differ only in scale.
	 */
	u32 weight;
	u32 inv_weight;
	u64 h_weight;
	/* The entity's group; 0 is the root. */
	u32 group;
	bool on_rq;
	bool idle_policy;
	/* Whether the task or a group above it is SCHED_IDLE, as of its last wakeup. */
	bool h_idle;
	/* Whether the entity's averages are included in those of the runqueue. */
	bool attached;
	/* Whether the task is forked but not woken yet, and whether it has just been woken for the first time. */
	bool forked;
	bool is_new;
	/*
	 * Whether the task went to sleep while it was not eligible, and stays in a slot of its CPU until it is
	 * (delayed.h).
	 */
	bool delayed;
	u32 delayed_slot;
	s32 pid;
	/* Whether the averages have changed since the estimate was updated. */
	bool util_changed;
	/*
	 * The estimated utilization, where 1024 is the largest CPU: the utilization at the end of the last
	 * activations, which falls slowly.
	 */
	u32 util_est;
	/*
	 * The task that this task woke last, the number of times that the woken task has changed lately, and the
	 * start of that count, in jiffies (wake_wide()).
	 */
	s32 last_wakee;
	u32 wakee_flips;
	u64 wakee_flip_decay;
	/* The CPU that the task used before its last CPU. */
	u32 recent_used_cpu;
	struct load_avg avg;
};

#endif /* __EQUIPOISE_FAIR_ENTITY_H */
