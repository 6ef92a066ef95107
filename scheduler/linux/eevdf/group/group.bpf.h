/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Task groups (CONFIG_FAIR_GROUP_SCHED): the tree of control groups, and the part of each group on each CPU,
 * which is a runqueue (the kernel's cfs_rq) and the entity that stands for it in the runqueue of the group above
 * (the kernel's sched_entity of the group):
 *
 *	root    ── fair_rq of the CPU ─────────────────┬─ task
 *	                                               └─ entity of /a
 *	/a      ── group_rq of /a on the CPU ──────────┬─ task
 *	                                               └─ entity of /a/b
 *	/a/b    ── group_rq of /a/b on the CPU ────────── task
 *
 * Since Linux 7.3 only tasks compete, in the one EEVDF of their CPU: the weight of a task there is its part of its
 * group's weight, which is a part of the weight of the group above (hierarchy.h). Runqueues of groups
 * have no tree, but weights, counts and averages. Before, each of them was an EEVDF of its own (queues.h).
 *
 * ../../group has what does not depend on the kernel's version.
 */
#ifndef __EQUIPOISE_FAIR_GROUP_H
#define __EQUIPOISE_FAIR_GROUP_H

#include "../core/queue.h"
#include "../../group/tree.h"

struct group_rq {
	/* As a queue of the group's tasks and child groups. Since Linux 7.3 only its weights and numbers count. */
	struct eevdf_queue queue;
	/* Tasks below it: queued, of these runnable, SCHED_IDLE or in a group with cpu.idle. */
	u32 h_nr_queued;
	u32 h_nr_runnable;
	u32 h_nr_idle;
	/* A task below it runs. */
	bool h_curr;
	/* Its averages have changed by tasks that came or went, which its entity does not reflect yet. */
	bool propagate;
	s64 prop_runnable_sum;
	struct load_avg avg;
	struct removed_load removed;
	/* Its parts of fair_group's sums, and the time of their update, ns. */
	u64 tg_load_avg_contrib;
	u64 tg_runnable_avg_contrib;
	u64 last_update_tg_load_avg;
	/* Its load relative to its CPU's, and when that was computed, jiffies, plus 1. */
	u64 h_load;
	u64 last_h_load_update;

	/* As an entity of the group above. Since Linux 7.3 it has a weight and averages, and does not compete. */
	struct fair_entity se;
	/* Tasks below it, as of the last update of the averages. */
	u32 runnable_weight;
	/* Until this vruntime, no other entity preempts it. */
	u64 vprot;

	/* cpu.max: the local rest of time, ns; if it has run out, its number among those of the group; 0: it has
	 * not. */
	s64 runtime_remaining;
	u64 throttled;
	/* The period from which that time is (bandwidth.h). */
	u32 runtime_seq;
	/* Its averages stand still; since when, and for how long in all, ns of clock_pelt. */
	bool pelt_clock_throttled;
	u64 throttled_clock_pelt;
	u64 throttled_clock_pelt_time;
} __attribute__((aligned(64)));

#include "../../group/group_rqs.h"
#include "../../group/pick.h"

/*
 * Does each group have a queue of its own on each CPU, from which its entity in the queue above runs (queues.h)?
 * Before Linux 7.3, if there are groups.
 */
static __always_inline bool group_queues(void)
{
	return has_groups && policy.group_queues && nr_fair_groups;
}

/* The queue of the entities of @group on @cpu, of which @rq is the runqueue. */
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
