/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who may have another's CPU at once: one who is well behind him after he has had his share.
 */
#ifndef __EQUIPOISE_PREEMPT_H
#define __EQUIPOISE_PREEMPT_H

#include "task.bpf.h"

/* What a CPU's task must have run, and be ahead of @p, to be stopped for it: less, the heavier @p is
 * (wakeup_gran()). */
static __always_inline u64 preempt_after(const struct task_struct *p)
{
	return is_heavy(p) ? policy.preempt_after * NICE_0_LOAD / task_weight(p) : policy.preempt_after;
}

/* The task that runs on @rq; NULL if there is none. */
static __always_inline const struct task_struct *running_on(const struct rq *rq)
{
	const struct task_struct *curr = rq ? rq->curr : NULL;

	return curr && curr->pid ? curr : NULL;
}

/*
 * What @curr, which runs on @rq, has run since the last tick, or its start, accounted for it: to the ns in
 * ops.enqueue(), where the kernel has just looked at the clock of @rq; elsewhere until somebody last did. With
 * HZ=100 a task of nice 10 was taken to have run for 0 ns after 7.6 ms, and one of nice -4 waited for its tick.
 */
static __always_inline u64 unaccounted(const struct rq *rq, const struct task_struct *curr)
{
	s64 ran = rq->clock_task - curr->se.exec_start;

	return ran > 0 ? ran : 0;
}

/* By how much @curr, which runs on @rq, is ahead of @p. Its virtual time is that of its last tick, or its start. */
static __always_inline s64 ahead_of(const struct task_struct *p, const struct rq *rq,
				    const struct task_struct *curr)
{
	u64 ran = unaccounted(rq, curr) * speed_of(cpu_at(rq->cpu), cluster_of(rq->cpu)) / SCHED_POWER_SCALE;

	if (curr->static_prio != NICE_0_PRIO)
		ran = ran * NICE_0_LOAD / task_weight(curr);
	return curr->scx.dsq_vtime + ran - p->scx.dsq_vtime;
}

/* Should @p, which wakes up and found no CPU idle, have the CPU of @rq at once? */
static __always_inline bool preempts(const struct task_struct *p, const struct rq *rq)
{
	const struct task_struct *curr = running_on(rq);
	u64 after;

	if (!curr || curr->prio < MAX_RT_PRIO || p->policy == SCHED_BATCH)
		return false;
	if (curr->policy == SCHED_IDLE)
		return p->policy != SCHED_IDLE;
	after = preempt_after(p);
	return ran_of(curr) + unaccounted(rq, curr) >= after && ahead_of(p, rq, curr) > (s64)after;
}

/* Says why @p, which wakes up, has the CPU of @rq at once or not. */
static __always_inline void explain_preemption(const struct task_struct *p, const struct rq *rq, bool preempted)
{
	const struct task_struct *curr = running_on(rq);

	if (curr && preempted)
		explain(preempts, p->pid, rq->cpu, curr->pid, ran_of(curr) + unaccounted(rq, curr),
			ahead_of(p, rq, curr), preempt_after(p));
	else if (curr)
		explain(too_early, p->pid, rq->cpu, curr->pid, ran_of(curr) + unaccounted(rq, curr),
			ahead_of(p, rq, curr), preempt_after(p));
}

/* A running task, seen from another CPU. */
struct seen_running {
	s32 pid;
	u32 cpu;
	u64 vtime;
};

struct seen_running seen_running[MAX_CPUS];

/* So many clusters a heavy task looks at, faster ones first, and so many CPUs of each. */
#define CLUSTERS_LOOKED_AT 4
#define CPUS_LOOKED_AT 16

/* Of the CPUs of @cluster the one that @p may have at once whose task is most ahead, in @best; -1: there is none.
 */
__noinline s32 preemptible_in(struct task_struct *p __arg_trusted, u32 cluster,
			      struct seen_running *best __arg_nonnull)
{
	struct cluster *c = cluster_at(cluster);
	int slot;

	best->pid = 0;
	bpf_for(slot, 0, CPUS_LOOKED_AT) {
		u32 cpu = nth_of_cluster(c, slot);
		const struct rq *rq;
		u64 vtime;

		if (slot >= (int)c->nr_cpus)
			break;
		if (!task_allowed(p, cpu))
			continue;
		rq = scx_bpf_cpu_rq(cpu);
		if (!preempts(p, rq))
			continue;
		vtime = rq->curr->scx.dsq_vtime;
		if (best->pid && !is_before(best->vtime, vtime))
			continue;
		best->pid = p->pid;
		best->cpu = cpu;
		best->vtime = vtime;
	}
	return best->pid ? (s32)best->cpu : -1;
}

/* The CPU that @p, a heavy task that wakes up, may have at once: one of the fastest, if any. */
__noinline s32 find_preemptible(struct task_struct *p __arg_trusted, u32 prev_cpu)
{
	struct seen_running *best = &seen_running[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
	struct cluster *from = cluster_of(prev_cpu);
	int i;

	place(p, from, lag_of(p));
	bpf_for(i, 0, CLUSTERS_LOOKED_AT) {
		s32 cpu;

		if (i >= (int)nr_clusters)
			break;
		cpu = preemptible_in(p, from->order[i & (MAX_CLUSTERS - 1)], best);
		if (cpu >= 0)
			return cpu;
	}
	return -1;
}

#endif /* __EQUIPOISE_PREEMPT_H */
