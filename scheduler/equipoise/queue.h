/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the first waiting task in a cluster's queue and in the CPUs' own queues. */
#ifndef __EQUIPOISE_QUEUE_H
#define __EQUIPOISE_QUEUE_H

#include "level.h"
#include "task.bpf.h"
#include "../verifier.h"

/* The number of tasks of a queue that a CPU reads before it assumes that all of them are bound to other CPUs. */
#define TASKS_LOOKED_AT 256

static __always_inline u64 find_first(u64 dsq, u32 cpu)
{
	struct task_struct *p;
	u64 vtime = NO_VTIME;
	u32 looked = 0;

	forget_origin(looked);
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (task_allowed(p, cpu)) {
			vtime = p->scx.dsq_vtime;
			break;
		}
		if (++looked >= TASKS_LOOKED_AT)
			break;
	}
	return vtime;
}

/*
 * The virtual time of the first task of @dsq that may run on @cpu, or NO_VTIME. From Linux 6.19 on the first task
 * is read without the queue's lock, which usually suffices: an iterator takes the lock three times.
 */
__noinline u64 first_vtime(u64 dsq, u32 cpu)
{
	if (bpf_ksym_exists(scx_bpf_dsq_peek)) {
		struct task_struct *p = scx_bpf_dsq_peek(dsq);

		if (!p)
			return NO_VTIME;
		if (task_allowed(p, cpu))
			return p->scx.dsq_vtime;
	}
	return find_first(dsq, cpu);
}

/* CPUs of @c, by their slots, that keep tasks but cannot run them, because a higher class has the CPUs. */
static __always_inline u64 stranded_in(const struct cluster *c)
{
	u64 taken = READ_ONCE(c->taken);

	return taken ? taken & READ_ONCE(c->keeping) : 0;
}

/* A larger distance than that of any deadline from its clock, in virtual time. */
#define LONG_BEFORE (1ULL << 45)

/*
 * Converts @vtime, on the clock of the tasks that are bound to @this, to the cluster's time. If these tasks are
 * worth the CPU, they come before all others there, because they can use no other CPU.
 */
static __always_inline u64 in_cluster_time(const struct cpu_state *this, u64 vtime)
{
	const struct cluster *c = cluster_at(this->cluster);
	u64 clock = bound_are_worth_cpu(this) ? READ_ONCE(c->clock.now) - LONG_BEFORE
					      : READ_ONCE(this->bound.vtime);

	return clock + (vtime - READ_ONCE(this->own.now));
}

/* A queue, and the virtual time of its first task in the cluster's time. */
struct first_queue {
	u64 dsq;
	u64 vtime;
};

/* The result of a CPU's last search. It is in memory because a global function of BPF returns a number. */
struct first_queue found_first[MAX_CPUS];

static __always_inline struct first_queue *this_first(void)
{
	return &found_first[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* If the first task in the own queue of @keeper that may run on @cpu is before this_first(), notes it there. */
__noinline bool find_first_at(u32 keeper, u32 cpu)
{
	u64 vtime = first_vtime(own_dsq(keeper), cpu);

	if (vtime != NO_VTIME)
		vtime = in_cluster_time(cpu_at(keeper), vtime);
	if (!is_before(vtime, this_first()->vtime))
		return false;
	*this_first() = (struct first_queue){ own_dsq(keeper), vtime };
	return true;
}

/*
 * Finds the queue with the first task of @cluster that @cpu may take, in the cluster's queue or the own queues of
 * its CPUs @slots, for this_first(). Returns the virtual time of that task. Changes no queue and no hint.
 */
__noinline u64 find_first_of(u32 cluster, u64 slots, u32 cpu)
{
	struct first_queue *first = this_first();
	const struct cluster *c = cluster_at(cluster);
	int slot;

	first->dsq = cluster_dsq(cluster);
	first->vtime = may_wait(cluster) ? first_vtime(first->dsq, cpu) : NO_VTIME;
	if (slots)
		bpf_for(slot, 0, c->nr_cpus)
			if (has_bit(slots, slot))
				find_first_at(nth_of_cluster(c, slot), cpu);
	return first->vtime;
}

/* As find_first_of(), for the cluster of @cpu, its own queue, and those of CPUs that cannot run their tasks. */
static __always_inline u64 find_first_queue(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);

	return find_first_of(this->cluster, (READ_ONCE(c->keeping) & bit(this->slot)) | stranded_in(c), cpu);
}

#endif /* __EQUIPOISE_QUEUE_H */
