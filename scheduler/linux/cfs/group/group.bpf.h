/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Task groups of Linux 3.9 and 3.10 (CONFIG_FAIR_GROUP_SCHED): each group has a queue on each CPU, which is a
 * CFS of its own, and an entity that competes in the queue above as a task does (the kernel's cfs_rq and
 * sched_entity):
 *
 *	root    ── fair_rq of the CPU ─────────────────┬─ task
 *	                                               └─ entity of /a
 *	/a      ── group_rq of /a on the CPU ──────────┬─ task
 *	                                               └─ entity of /a/b
 *
 * The tasks of all groups wait in the dispatch queue of their CPU, where each queue looks for its own tasks
 * (pick.h).
 */
#ifndef __EQUIPOISE_CFS_GROUP_H
#define __EQUIPOISE_CFS_GROUP_H

#include "../core/runqueue.bpf.h"
/* Weights have no fraction (SCHED_LOAD_RESOLUTION is 0). */
#define SCALE_LOAD_SHIFT 0
#include "../../group/tree.h"

struct group_rq {
	/*
	 * The queue: the sum of the weights and the number of its entities; the smallest vruntime of its waiting
	 * entities, or a lower bound of it (~0 if none waits).
	 */
	u64 load_weight;
	u64 min_vruntime;
	u64 leftmost;
	u32 nr_running;
	/* The number of tasks below the queue that count above it. */
	u32 h_nr_running;
	/* Whether a task below the queue runs. */
	bool h_curr;
	/* The load of the queue's runnable entities, and of its sleeping ones, which decays. */
	u64 runnable_load_avg;
	u64 blocked_load_avg;
	/* The time until which the load of sleeping entities has decayed, in periods. */
	u64 last_decay;
	/* The queue's parts of the sums in fair_group. */
	u64 tg_load_avg_contrib;
	u64 tg_runnable_contrib;

	/* The entity of the queue above that stands for this queue. */
	bool on_rq;
	u32 weight;
	u32 inv_weight;
	u64 vruntime;
	/* The CPU time since the entity was picked, in ns. */
	u64 delta_exec;
	struct pelt avg;
	u64 load_avg_contrib;
	/* The period in which the entity went to sleep. */
	u64 decay_count;

	/*
	 * cpu.max (../../group/bandwidth.h): the rest of the time that the queue has taken, in ns, and its period;
	 * if the queue is throttled, the number of that throttling in the group.
	 */
	s64 runtime_remaining;
	u64 throttled;
	u32 runtime_seq;
} __attribute__((aligned(64)));

#include "../../group/group_rqs.h"
#include "../../group/pick.h"

/* Are there groups? */
static __always_inline bool group_queues(void)
{
	return has_groups && __builtin_expect(READ_ONCE(nr_fair_groups) != 0, 0);
}

/* The runqueue of @cpu, which the caller has read. */
static __always_inline struct fair_rq *root_rq(u32 cpu)
{
	return &fair_rqs[cpu & (MAX_CPUS - 1)];
}

/* The fields of the queue of @group on @cpu, whose runqueue the caller has read. */
static __always_inline u64 *min_vruntime_of(u32 group, u32 cpu)
{
	return in_group(group) ? &group_rq_at(group, cpu)->min_vruntime : &root_rq(cpu)->min_vruntime;
}

static __always_inline u64 *leftmost_of(u32 group, u32 cpu)
{
	return in_group(group) ? &group_rq_at(group, cpu)->leftmost : &root_rq(cpu)->leftmost;
}

static __always_inline u64 *load_weight_of(u32 group, u32 cpu)
{
	return in_group(group) ? &group_rq_at(group, cpu)->load_weight : &root_rq(cpu)->load_weight;
}

static __always_inline u64 *runnable_load_of(u32 group, u32 cpu)
{
	return in_group(group) ? &group_rq_at(group, cpu)->runnable_load_avg : &root_rq(cpu)->runnable_load_avg;
}

/* The number of entities in the queue of @group on @cpu. */
static __always_inline u32 queue_nr(u32 group, u32 cpu)
{
	const struct fair_rq *rq = root_rq(cpu);

	if (in_group(group))
		return group_rq_at(group, cpu)->nr_running;
	return rq->nr_running - rq->group_tasks + rq->group_entities;
}

/* The child of @above that has @group below it or is @group; 0 if there is none. */
static __always_inline u32 child_below(u32 group, u32 above)
{
	while (group && group_parent(group) != above)
		group = group_parent(group);
	return group;
}

#endif /* __EQUIPOISE_CFS_GROUP_H */
