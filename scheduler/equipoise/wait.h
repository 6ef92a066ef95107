/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Chooses where a task that found no idle CPU waits: in its cluster's queue, or for a CPU to which it is bound.
 */
#ifndef __EQUIPOISE_WAIT_H
#define __EQUIPOISE_WAIT_H

#include "preempt.h"

/*
 * Of the CPUs in the cluster of @cpu that @p may use at @now, the one whose other bound tasks weigh least. If
 * several are equal, it is one whose task has made more progress than @p, so that three tasks on two CPUs take
 * turns, or @cpu. A task takes its debt along: if tasks changed CPUs at each turn, a CPU's clock might stand still,
 * and a task that may use only this CPU would never run. Returns @cpu if @p may use none.
 */
__noinline u32 least_bound(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull, u32 cpu,
			   u64 now)
{
	u64 least = ~0ULL, much = progress_of(t, now) + vtime_for(tunables.unfairness, t->full_weight ?: 1);
	struct cluster *c = cluster_of(cpu);
	u32 found = cpu;
	int slot;

	if (is_pinned(p))
		return cpu;
	bpf_for(slot, 0, c->nr_cpus) {
		u32 other = nth_of_cluster(c, slot);
		u64 weight = bound_weight(other);

		if (other + 1 == t->bound_to)
			weight -= t->fair.weight;
		/* A weight of 1 only decides between equal ones: nice 0 is 2^20. */
		if (other == cpu)
			weight += 1;
		else if (READ_ONCE(cpu_at(other)->progress) <= much)
			weight += 2;
		if (weight >= least || !task_allowed(p, other))
			continue;
		least = weight;
		found = other;
	}
	return found;
}

/* Queues @p for @cpu only. */
static __always_inline void wait_for(struct task_struct *p, u32 cpu, u64 enq_flags)
{
	struct cpu_state *this = cpu_at(cpu);

	explain(bound, p->pid, cpu, nr_kept(cpu));
	this->waits++;
	scx_bpf_dsq_insert_vtime(p, own_dsq(cpu), SLICE_MAX, p->scx.dsq_vtime, enq_flags);
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
 * Puts @p, which is about to wait, on a clock near @cpu, at the time @now. Returns the CPU for which it waits: if
 * it is bound to some CPUs of the cluster, the one whose bound tasks weigh least. A waiting task is worth less than
 * a CPU, so its weight counts in full.
 */
__noinline u32 place(struct task_struct *p __arg_trusted, struct task_state *t __arg_nonnull, u32 cpu, u64 now)
{
	if (is_bound_in(p, t, cpu_at(cpu)->cluster))
		cpu = least_bound(p, t, cpu, now);
	enter_clock(p, t, cpu, now);
	reweigh(clock_of(t), &t->fair, find_weight(t));
	return cpu;
}

/* Queues @p, which has been placed on @cpu and does not get a CPU at once. */
static __always_inline void queue_up(struct task_struct *p, const struct task_state *t, u32 cpu, u64 enq_flags)
{
	this_counters()->queue_waits++;
	if (t->bound_to)
		wait_for(p, cpu, enq_flags);
	else
		wait_in_cluster(p, cpu, enq_flags);
}

#endif /* __EQUIPOISE_WAIT_H */
