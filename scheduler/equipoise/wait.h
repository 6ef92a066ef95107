/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Chooses where a task that found no idle CPU waits: in its cluster's queue, near its CPU, whose caches have its
 * data, or for the CPU that it is bound to.
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

/*
 * The most tasks that stay near a CPU of their own accord. Others of the cluster's tasks would have several turns
 * before the last of many: with six loops for each of 16 CPUs a loop waited for up to 66 ms instead of 43. Where
 * few tasks wait, as in kbuild -j64 on 32 CPUs, a larger number changes nothing.
 */
#define MOST_KEPT 2

/*
 * Does @p, which may use all of its cluster, wait near @cpu, whose caches have its data? It does not if
 * - any CPU is idle, or a higher class or a task that is worth a CPU has @cpu;
 * - it is new and has no data;
 * - it is owed a slice, so that any CPU of the cluster should take it;
 * - as many tasks wait there as may (MOST_KEPT), or, if it wakes up, any;
 * - the deadline of the first task there has passed: @p would have to wait for it, too;
 * - clusters differ in speed: these read each other's queues. A CPU without work takes it in any
 * case. (kbuild -j32 on two sockets: 31,000 migrations instead of 144,000 with a single queue, and
 * 0.9 % more work per energy.)
 */
static __always_inline bool stays(const struct task_struct *p, const struct task_state *t, u32 cpu, bool wakes)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	s32 kept;

	if (unlike || !p->se.sum_exec_runtime || READ_ONCE(idle_clusters) || has_higher_class(cpu) ||
	    is_worth_cpu(c, READ_ONCE(c->running[this->slot & (CLUSTER_CPUS - 1)])) ||
	    lag_of(&c->clock, &t->fair) >= (s64)tunables.slice)
		return false;
	kept = may_keep_tasks(this, c) ? scx_bpf_dsq_nr_queued(near_dsq(cpu)) : 0;
	return !kept ||
	       (!wakes && kept < MOST_KEPT && !is_before(first_vtime(near_dsq(cpu), cpu), READ_ONCE(c->clock.now)));
}

/*
 * The CPU among those that @p may use of the cluster of @cpu whose other bound tasks weigh least; not @cpu if
 * another is as good, so that three tasks of two CPUs take turns. @cpu if it may use none.
 */
__noinline u32 least_bound(struct task_struct *p __arg_trusted, u32 cpu)
{
	struct cluster *c = cluster_of(cpu);
	const struct task_state *t = task_of(p);
	u64 least = ~0ULL;
	u32 found = cpu;
	int slot;

	if (!t || is_pinned(p))
		return cpu;
	bpf_for(slot, 0, c->nr_cpus) {
		u32 other = nth_of_cluster(c, slot);
		u64 weight = bound_weight(other) + (other == cpu);

		if (other + 1 == t->bound_to)
			weight -= t->fair.weight;
		if (weight >= least || !task_allowed(p, other))
			continue;
		least = weight;
		found = other;
	}
	return found;
}

/* Queues @p for @cpu only. */
static __always_inline void wait_for(struct task_struct *p, u64 dsq, u32 cpu, u64 enq_flags)
{
	struct cpu_state *this = cpu_at(cpu);

	this->waits++;
	scx_bpf_dsq_insert_vtime(p, dsq, SLICE_MAX, p->scx.dsq_vtime, enq_flags);
	keeps_tasks(cpu, this, cluster_at(this->cluster));
}

/* Queues @p for any CPU of the cluster of @cpu. */
static __always_inline void wait_in_cluster(struct task_struct *p, u32 cpu, u64 enq_flags)
{
	u32 cluster = cpu_at(cpu)->cluster;
	struct cluster *c = cluster_at(cluster);

	explain(queued, p->pid, cpu, scx_bpf_dsq_nr_queued(cluster_dsq(cluster)),
		p->scx.dsq_vtime - READ_ONCE(c->clock.now));
	c->waits++;
	scx_bpf_dsq_insert_vtime(p, cluster_dsq(cluster), SLICE_MAX, p->scx.dsq_vtime, enq_flags);
	somebody_waits(cluster);
}

/*
 * Puts @p, which is about to wait, on a clock near @cpu. Returns the CPU for which it waits: if it is bound to some
 * CPUs of the cluster, the one that has least to do for such tasks. A waiting task is worth less than a CPU, and
 * counts in full.
 */
__noinline u32 place(struct task_struct *p __arg_trusted, u32 cpu)
{
	struct task_state *t = task_of(p);

	if (!t)
		return cpu;
	if (is_bound_in(p, t, cpu_at(cpu)->cluster))
		cpu = least_bound(p, cpu);
	enter_clock(p, cpu);
	reweigh(clock_of(t), &t->fair, find_weight(t));
	return cpu;
}

/* Queues @p, which has been placed on @cpu and does not get one at once. */
__noinline bool wait_near(struct task_struct *p __arg_trusted, u32 cpu, bool wakes, u64 enq_flags)
{
	const struct task_state *t = task_of(p);

	this_counters()->queue_waits++;
	if (!t || t->bound_to) {
		explain(bound, p->pid, cpu, nr_kept(cpu));
		wait_for(p, own_dsq(cpu), cpu, enq_flags);
		return true;
	}
	if (!stays(p, t, cpu, wakes)) {
		wait_in_cluster(p, cpu, enq_flags);
		return false;
	}
	explain(queued_near, p->pid, cpu, nr_kept(cpu));
	wait_for(p, near_dsq(cpu), cpu, enq_flags);
	return true;
}

#endif /* __EQUIPOISE_WAIT_H */
