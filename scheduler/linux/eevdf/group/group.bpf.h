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
 * The group 0 is the root, which has no group_rq. Without other groups nothing of this is executed.
 *
 * The simulated kernel alone has groups. The verifier allows a chain of eight calls, of which balancing for idle
 *CPUs uses seven before it moves a task, so as BPF this scheduler ignores groups.
 */
#ifndef __EQUIPOISE_FAIR_GROUP_H
#define __EQUIPOISE_FAIR_GROUP_H

#include "../../../verifier.h"
#include "../core/queue.h"

/* The number of groups, of their parts on CPUs, and of levels below the root; powers of two. */
#define MAX_FAIR_GROUPS 4096
#define MAX_GROUP_RQS 32768
#define MAX_GROUP_LEVELS 16

/* The least and the largest weight of a group (MIN_SHARES, MAX_SHARES), scaled; of a group with cpu.idle. */
#define MIN_SHARES 2
#define MAX_SHARES (1ULL << 18 << SCALE_LOAD_SHIFT)
/* The default cpu.weight, equivalent to a task of nice 0. */
#define CGROUP_WEIGHT_DFL 100

/* struct cfs_bandwidth: cpu.max and cpu.max.burst, ns (bandwidth.bpf.h). */
struct fair_bandwidth {
	/* A period of 0: there is no limit. */
	u64 period;
	u64 quota;
	u64 burst;
	/* The unassigned rest of this period's time, and its value after the last refill. */
	u64 runtime;
	/* The end of the period, ns. */
	u64 expires;
	/* No runqueue has asked for time in this period; the timers run. */
	bool idle;
	bool period_active;
	bool slack_started;
	/* The number of throttled runqueues, and of the one that was throttled last. */
	u32 nr_throttled;
	u64 last_throttled;
};

/* struct task_group */
struct fair_group {
	u32 parent;
	/* 1 below the root; 0: there is no such group. */
	u32 level;
	/* cpu.weight, and without cpu.idle, scaled; cpu.idle. */
	u64 shares;
	u64 given;
	bool idle;
	/* The sums over its runqueues, as last propagated. */
	s64 load_avg;
	s64 runnable_avg;
	struct fair_bandwidth bandwidth;
} __attribute__((aligned(64)));

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
	/* Its averages stand still; since when, and for how long in all, ns of clock_pelt. */
	bool pelt_clock_throttled;
	u64 throttled_clock_pelt;
	u64 throttled_clock_pelt_time;
} __attribute__((aligned(64)));

static struct fair_group fair_groups[MAX_FAIR_GROUPS];
static struct group_rq group_rqs[MAX_GROUP_RQS];
/* One more than the highest number of a group in use; the number of groups with cpu.max. */
static u32 nr_fair_groups;
static u32 nr_limited_groups;

static __always_inline struct fair_group *fair_group_at(u32 group)
{
	return &fair_groups[group & (MAX_FAIR_GROUPS - 1)];
}

/* The part of @group, which is not the root, on @cpu. */
static __always_inline struct group_rq *group_rq_at(u32 group, u32 cpu)
{
	return &group_rqs[(group * nr_cpus() + cpu) & (MAX_GROUP_RQS - 1)];
}

#ifdef __EQUIPOISE_SIMULATED_H
#define has_groups true
#else
#define has_groups false
#endif

/* Most tasks are in the root, and groups must not cost them anything. */
static __always_inline bool in_group(u32 group)
{
	return has_groups && __builtin_expect(group != 0, 0);
}

static __always_inline bool any_group_is_limited(void)
{
	return has_groups && __builtin_expect(READ_ONCE(nr_limited_groups) != 0, 0);
}

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

static __always_inline u32 group_parent(u32 group)
{
	return fair_group_at(group)->parent;
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

/* A weight without its fraction: scale_load_down(). */
static __always_inline u64 scale_load_down(u64 weight)
{
	u64 w = weight >> SCALE_LOAD_SHIFT;

	return weight && w < 2 ? 2 : w;
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

/* The clock of the averages of @grq on the CPU of @rq; it stands still while @grq is throttled. */
static __always_inline u64 group_clock_pelt(const struct fair_rq *rq, const struct group_rq *grq)
{
	u64 clock = grq->pelt_clock_throttled ? grq->throttled_clock_pelt : rq_clock_pelt(rq);

	return clock - grq->throttled_clock_pelt_time;
}

#endif /* __EQUIPOISE_FAIR_GROUP_H */
