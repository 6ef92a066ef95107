/* SPDX-License-Identifier: GPL-2.0-only */
/* Chooses where a task that found no idle CPU waits: in a cluster's queue, or for a CPU to which it is bound. */
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

/* In percent: a smaller difference is not worth a move between caches (imbalance_pct, 117 to 125 in the kernel). */
#define WORTH_A_MOVE_PCT 120

/*
 * The load of @c and a further task of weight @more, relative to the speed of @c: 1024 if each CPU is of the
 * fastest kind and has one task of nice 0. A task uses no more than one CPU, however little the others there weigh.
 */
static __always_inline u64 load_of(const struct cluster *c, u64 more)
{
	s64 weight = READ_ONCE(c->clock.weight) + more;
	u64 load = (weight > 0 ? weight : 0) / (open_speed(c) + 1), alone = more / (c->shared_speed + 1);

	return load > alone ? load : alone;
}

/*
 * A CPU of @cluster that @p may use; -1: there is none. If @p may use all CPUs of the cluster, it waits for any of
 * them; each call then returns another CPU, so that the calls take different locks.
 */
__noinline s32 any_allowed(struct task_struct *p __arg_trusted, u32 cluster)
{
	struct cpu_state *this = cpu_at(bpf_get_smp_processor_id());
	struct cluster *c = cluster_at(cluster);
	int i;

	bpf_for(i, 0, c->nr_cpus) {
		u32 cpu;

		this->sent_to = this->sent_to + 1 < c->nr_cpus ? this->sent_to + 1 : 0;
		cpu = nth_of_cluster(c, this->sent_to);
		if (task_allowed(p, cpu))
			return cpu;
	}
	return -1;
}

/*
 * The load that @t, which is @p, finds if it waits near @cpu: that of the cluster. If @t is bound to some CPUs
 * there, the load is at least that of the CPU whose bound tasks weigh least.
 */
__noinline u64 load_for(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull, u32 cpu)
{
	const struct cluster *c = cluster_of(cpu);
	u64 weight = (u64)t->weight << SHARE_SHIFT, load = load_of(c, weight), bound;

	if (!is_bound_in(p, t, cpu_at(cpu)->cluster))
		return load;
	bound = (bound_weight(least_bound(p, t, cpu, bpf_ktime_get_ns())) + weight) / (c->shared_speed + 1);
	return bound > load ? bound : load;
}

/*
 * The CPU to wait for when none is idle, for a new task or where some CPUs are faster than others: @prev_cpu, or a
 * CPU of a cluster with clearly less load relative to its capacity.
 */
__noinline s32 least_loaded(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull,
			    u32 prev_cpu)
{
	u32 prev = cpu_at(prev_cpu)->cluster;
	u64 before = load_for(p, t, prev_cpu), least = before * 100 / WORTH_A_MOVE_PCT;
	s32 found = prev_cpu;
	int i;

	bpf_for(i, 0, nr_clusters) {
		s32 cpu = i == (int)prev ? -1 : any_allowed(p, i);
		u64 load;

		if (cpu < 0)
			continue;
		load = load_for(p, t, cpu);
		if (load >= least)
			continue;
		least = load;
		found = cpu;
	}
	if (found != (s32)prev_cpu)
		explain(least_crowded, p->pid, found, prev_cpu, least, before);
	else
		explain(none_idle, p->pid, prev_cpu);
	return found;
}

/* The queue where @t, which has been placed on @cpu, waits: for that CPU only, or for any CPU of the cluster. */
static __always_inline u64 queue_of(const struct task_state *t, u32 cpu)
{
	return t->bound_to ? own_dsq(cpu) : cluster_dsq(cpu_at(cpu)->cluster);
}

/* @t is about to wait in that queue. */
static __always_inline void announce(const struct task_state *t, u32 cpu)
{
	if (t->bound_to)
		keeps_tasks(cpu);
	else
		somebody_waits(cpu_at(cpu)->cluster);
}

/*
 * Puts @p, which is about to wait, on a clock near @cpu, at the time @now. Returns the CPU for which @p waits: @cpu
 * or, if @p is bound to some CPUs of the cluster, the CPU among these whose other bound tasks weigh least. A
 * waiting task is worth less than a CPU, so its weight counts in full.
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
	u64 dsq = queue_of(t, cpu);

	this_counters()->queue_waits++;
	if (t->bound_to)
		explain(bound, p->pid, cpu, scx_bpf_dsq_nr_queued(dsq));
	else
		explain(queued, p->pid, cpu, scx_bpf_dsq_nr_queued(dsq),
			p->scx.dsq_vtime - READ_ONCE(cluster_of(cpu)->clock.now));
	scx_bpf_dsq_insert_vtime(p, dsq, SLICE_MAX, p->scx.dsq_vtime, enq_flags);
	announce(t, cpu);
}

#endif /* __EQUIPOISE_WAIT_H */
