/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Task groups (CONFIG_FAIR_GROUP_SCHED): the tree of control groups, and the part of each group on each CPU. This
 * part is a runqueue (the kernel's cfs_rq), and the entity that stands for it in the runqueue of the group above
 * (the kernel's sched_entity of the group):
 *
 *	root    ── fair_rq of the CPU ─────────────────┬─ task
 *	                                               └─ entity of /a
 *	/a      ── group_rq of /a on the CPU ──────────┬─ task
 *	                                               └─ entity of /a/b
 *	/a/b    ── group_rq of /a/b on the CPU ────────── task
 *
 * Since Linux 7.3 only tasks compete, in the one EEVDF of their CPU. The weight of a task there is its part of its
 * group's weight, which is a part of the weight of the group above (hierarchy.h). Runqueues of groups have no tree,
 * but only weights, counts and averages. Before Linux 7.3, each of them was an EEVDF of its own (queues.h).
 *
 * The code that does not depend on the kernel's version is in ../../group.
 */
#ifndef __EQUIPOISE_FAIR_GROUP_H
#define __EQUIPOISE_FAIR_GROUP_H

#include "../core/queue.h"
#include "../../group/tree.h"

struct group_rq {
	/* The queue of the group's tasks and child groups; since Linux 7.3 only its weights and numbers count. */
	struct eevdf_queue queue;
	/*
	 * The number of queued tasks below the group, how many of them are runnable, and how many are SCHED_IDLE or
	 * in a group with cpu.idle.
	 */
	u32 h_nr_queued;
	u32 h_nr_runnable;
	u32 h_nr_idle;
	/* Whether a task below the group runs. */
	bool h_curr;
	/* Whether tasks that came or went have changed the averages, which the entity does not reflect yet. */
	bool propagate;
	s64 prop_runnable_sum;
	struct load_avg avg;
	struct removed_load removed;
	/* The runqueue's parts of the sums in fair_group, and the time of their update, in ns. */
	u64 tg_load_avg_contrib;
	u64 tg_runnable_avg_contrib;
	u64 last_update_tg_load_avg;
	/* The runqueue's part of its CPU's load, and the time when that was computed, in jiffies, plus 1. */
	u64 h_load;
	u64 last_h_load_update;

	/* The entity in the queue above; since Linux 7.3 it has a weight and averages, but does not compete. */
	struct fair_entity se;
	/* The number of runnable tasks below the group, as of the last update of the averages. */
	u32 runnable_weight;
	/* The vruntime until which no other entity preempts this one. */
	u64 vprot;

	/*
	 * For cpu.max: the rest of the time that the runqueue has taken, in ns; and, if it is throttled, the number
	 * of that throttling in the group, otherwise 0.
	 */
	s64 runtime_remaining;
	u64 throttled;
	/* The period in which that time was taken (bandwidth.h). */
	u32 runtime_seq;
	/*
	 * Whether the averages stand still; the time since which they do, and the total time for which they have
	 * done so, in ns of clock_pelt.
	 */
	bool pelt_clock_throttled;
	u64 throttled_clock_pelt;
	u64 throttled_clock_pelt_time;
} __attribute__((aligned(64)));

#include "../../group/group_rqs.h"
#include "../../group/pick.h"

/*
 * Does each group have a queue of its own on each CPU, and an entity in the queue above that stands for it
 * (queues.h)? It does before Linux 7.3, if there are groups.
 */
static __always_inline bool group_queues(void)
{
	return has_groups && policy.group_queues && nr_fair_groups;
}

/* The queue of the entities of @group on @cpu, whose runqueue is @rq. */
static __always_inline struct eevdf_queue *queue_in(struct fair_rq *rq, u32 group, u32 cpu)
{
	return group_queues() && group ? &group_rq_at(group, cpu)->queue : &rq->queue;
}

static __always_inline struct eevdf_queue *queue_of(u32 group, u32 cpu)
{
	return queue_in(rq_of(cpu), group, cpu);
}

/* A weight without its fraction: scale_load_down(). */
static __always_inline u64 scale_load_down(u64 weight)
{
	u64 w = weight >> SCALE_LOAD_SHIFT;

	return weight && w < 2 ? 2 : w;
}

/* The clock of the averages of @grq on the CPU of @rq; it stands still while @grq is throttled. */
static __always_inline u64 group_clock_pelt(const struct fair_rq *rq, const struct group_rq *grq)
{
	u64 clock = grq->pelt_clock_throttled ? grq->throttled_clock_pelt : rq_clock_pelt(rq);

	return clock - grq->throttled_clock_pelt_time;
}

#endif /* __EQUIPOISE_FAIR_GROUP_H */
