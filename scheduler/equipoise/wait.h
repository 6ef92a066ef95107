/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Chooses where a task that found no idle CPU waits: in its cluster's queue, or in the own queue of
 * its CPU, whose caches have its data.
 */
#ifndef __EQUIPOISE_WAIT_H
#define __EQUIPOISE_WAIT_H

#include "preempt.h"

/*
 * Does a task of a higher class run on @cpu? The kernel calls ops.cpu_release() only if that class
 * took the CPU from one of our tasks.
 */
static __always_inline bool has_higher_class(u32 cpu)
{
	const struct task_struct *curr = running_on(cpu);

	return curr && curr->prio < MAX_RT_PRIO;
}

/* Is @vtime clearly behind the other tasks of @c? */
static __always_inline bool is_behind(u64 vtime, const struct cluster *c)
{
	return (s64)(READ_ONCE(c->clock) - vtime) >= (s64)tunables.slice;
}

/*
 * The most tasks that stay near a CPU of their own accord. Others of the cluster's tasks would have several turns
 * before the last of many: with six loops for each of 16 CPUs a loop waited for up to 66 ms instead of 43. Where
 * few tasks wait, as in kbuild -j64 on 32 CPUs, a larger number changes nothing.
 */
#define MOST_KEPT 2

/*
 * Does @p, which has been placed, wait for @cpu, whose caches have its data? It does not if
 * - any CPU is idle, or a higher class has @cpu;
 * - it is new and has no data;
 * - it is clearly behind others of its cluster, so that any CPU of the cluster should take it;
 * - as many tasks wait there as may (MOST_KEPT), or, if it wakes up, any;
 * - the first task there is clearly behind: @p would have to wait for it, too;
 * - it is light: the clock does not show how far light tasks are behind;
 * - clusters differ in speed: these read each other's queues. A CPU without work takes it in any
 * case. (kbuild -j32 on two sockets: 31,000 migrations instead of 144,000 with a single queue, and
 * 0.9 % more work per energy.)
 */
static __always_inline bool stays(const struct task_struct *p, u32 cpu, bool wakes)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	s32 kept;

	if (unlike || !p->se.sum_exec_runtime || is_light(p) || READ_ONCE(idle_clusters) || has_higher_class(cpu) ||
	    is_behind(p->scx.dsq_vtime, c))
		return false;
	kept = may_keep_tasks(this, c) ? scx_bpf_dsq_nr_queued(own_dsq(cpu)) : 0;
	return !kept || (!wakes && kept < MOST_KEPT && !is_behind(first_vtime(own_dsq(cpu), cpu), c));
}

/* Queues @p for @cpu only. */
static __always_inline void wait_near(struct task_struct *p, u32 cpu, u64 enq_flags)
{
	struct cpu_state *this = cpu_at(cpu);

	this->waits++;
	this_counters()->queue_waits++;
	scx_bpf_dsq_insert_vtime(p, own_dsq(cpu), SLICE_MAX, p->scx.dsq_vtime, enq_flags);
	keeps_tasks(cpu, this, cluster_at(this->cluster));
}

/* Queues @p for any CPU of @cluster. */
static __always_inline void wait_in_cluster(struct task_struct *p, u32 cluster, u64 enq_flags)
{
	struct cluster *c = cluster_at(cluster);

	explain(queued, p->pid, c == cluster_of(scx_bpf_task_cpu(p)) ? scx_bpf_task_cpu(p) : (s32)c->first_cpu,
		scx_bpf_dsq_nr_queued(cluster_dsq(cluster)), p->scx.dsq_vtime - c->clock);
	c->waits++;
	this_counters()->queue_waits++;
	scx_bpf_dsq_insert_vtime(p, cluster_dsq(cluster), SLICE_MAX, p->scx.dsq_vtime, enq_flags);
	somebody_waits(cluster);
}

/*
 * Inserts @p, which wakes up on @cpu and has been placed, into the queue that ops.enqueue() would
 * choose, so that the kernel need not call ops.enqueue(). No CPU is idle or stops for @p. A CPU
 * that becomes idle meanwhile looks at both queues.
 */
static __always_inline void wait_at_once(struct task_struct *p, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);

	if (READ_ONCE(this->request) || (is_restricted(p) && !task_allowed(p, cpu)))
		return;
	becomes_runnable(p);
	if (is_pinned(p) || stays(p, cpu, true)) {
		explain(queued_near, p->pid, cpu, scx_bpf_dsq_nr_queued(own_dsq(cpu)));
		wait_near(p, cpu, 0);
	} else {
		wait_in_cluster(p, this->cluster, 0);
	}
}

#endif /* __EQUIPOISE_WAIT_H */
