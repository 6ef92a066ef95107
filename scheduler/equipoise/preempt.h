/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Chooses the CPU that a waking task may preempt: one whose task has a deadline that is later by more than the
 * price of a stop or, if the waking task is worth a CPU, one whose task is not.
 */
#ifndef __EQUIPOISE_PREEMPT_H
#define __EQUIPOISE_PREEMPT_H

#include "../rq.bpf.h"
#include "place.h"
#include "queue.h"

/* The task that runs on @cpu; NULL if there is none. */
static __always_inline const struct task_struct *running_on(u32 cpu)
{
	const struct rq *rq = cpu_rq(cpu);
	const struct task_struct *curr = rq ? rq->curr : NULL;

	return curr && curr->pid ? curr : NULL;
}

/* Was a waiting task sent to @cpu's local queue? If other tasks always bypassed it, it would never run. */
static __always_inline bool is_waited_for(u32 cpu)
{
	const struct rq *rq = cpu_rq(cpu);

	return rq && rq->scx.local_dsq.nr;
}

/* The time, in ns, for which the task on @cpu has run at @now since it was last charged or started. */
static __always_inline u64 uncharged(u32 cpu, u64 now)
{
	s64 ran = now - READ_ONCE(cpu_at(cpu)->charged_at);

	return ran > 0 ? ran : 0;
}

/*
 * The time by which the deadline @at is ahead of the clock of @cpu's cluster; if @bound, @at is in the time of
 * @cpu's bound tasks.
 */
static __always_inline s64 distance(u32 cpu, u64 at, bool bound)
{
	const struct cpu_state *this = cpu_at(cpu);

	return (bound ? in_cluster_time(this, at) : at) - READ_ONCE(cluster_at(this->cluster)->clock.now);
}

/*
 * The difference by which the deadline of @p, which has been placed near @place, is earlier than that of @curr,
 * which runs on @cpu; in ns of service of @p.
 */
static __always_inline s64 earlier_by(const struct task_struct *p, const struct task_state *t, u32 place, u32 cpu,
				      const struct task_struct *curr)
{
	s64 ahead = distance(cpu, curr->scx.dsq_vtime, READ_ONCE(cpu_at(cpu)->runs_bound));
	u64 at = p->scx.dsq_vtime;

	/* A bound task that gets @cpu comes to the clock there, with its lag. */
	if (t->bound_to) {
		at += READ_ONCE(cpu_at(cpu)->own.now) - READ_ONCE(cpu_at(place)->own.now);
		place = cpu;
	}
	return service_for(ahead - distance(place, at, t->bound_to), t->fair.weight ?: 1);
}

/*
 * The service, in ns, by which the deadline of a waking task must be earlier. An interrupt and two switches cost
 * some tens of us, so the price is higher the more recently @cpu was stopped. A price is better than a limit: a
 * thread of short runs and naps that gets too little is soon owed enough to pay. When its requests were refused
 * until the next tick, it got a twentieth of its due.
 */
static __always_inline s64 price_of(u32 cpu, u64 now)
{
	s64 price = READ_ONCE(cpu_at(cpu)->next_stop_at) - now;

	return price > 0 ? price : 0;
}

/* @cpu is asked to stop at @now. */
static __always_inline void note_stop(u32 cpu, u64 now)
{
	struct cpu_state *this = cpu_at(cpu);

	WRITE_ONCE(this->asked, true);
	WRITE_ONCE(this->next_stop_at, now + tunables.preempt_after);
}

/* Is @t worth a CPU of @cpu's cluster, but not the task that runs on @cpu? */
static __always_inline bool gets_cpu(const struct task_state *t, u32 cpu)
{
	const struct cpu_state *this = cpu_at(cpu);
	const struct cluster *c = cluster_at(this->cluster);

	return !t->bound_to && !READ_ONCE(this->runs_bound) && is_worth_cpu(c, t->full_weight) &&
	       !is_worth_cpu(c, running_weight(c, this->slot));
}

/*
 * Should @p, which wakes up near @place and found no idle CPU, get @cpu? If @at_once, @p is worth a CPU, and gets
 * only the CPU of a task that is not: a task that is worth one, too, has a CPU of its own in the ideal.
 */
static __always_inline bool preempts(const struct task_struct *p, const struct task_state *t, u32 place, u32 cpu,
				     const struct task_struct *curr, u64 now, bool at_once)
{
	if (!curr || curr->prio < MAX_RT_PRIO || (p->policy == SCHED_BATCH && curr->policy != SCHED_IDLE))
		return false;
	return at_once ? gets_cpu(t, cpu) : earlier_by(p, t, place, cpu, curr) > price_of(cpu, now);
}

/* Records why @p, which has been placed near @place, gets the CPU @found at @now, or no CPU (-1). */
static __always_inline void explain_preemption(const struct task_struct *p, const struct task_state *t, u32 place,
					       u64 now, s32 found)
{
	u32 cpu = found >= 0 ? (u32)found : place;
	const struct task_struct *curr = running_on(cpu);

	if (curr && found >= 0)
		explain(preempts, p->pid, cpu, curr->pid, uncharged(cpu, now), earlier_by(p, t, place, cpu, curr),
			price_of(cpu, now));
	else if (curr)
		explain(too_early, p->pid, cpu, curr->pid, uncharged(cpu, now), earlier_by(p, t, place, cpu, curr),
			price_of(cpu, now));
}

/* A running task, as seen from another CPU. */
struct seen_running {
	s32 pid;
	u32 cpu;
	/* The cluster that is searched. */
	u32 cluster;
	/* The slot to look at next. */
	u32 slot;
	/* The CPU to which the task would go. */
	u32 to;
	u64 progress;
	s64 ahead;
};

struct seen_running seen_running[MAX_CPUS];

/* The number of CPUs of a cluster that a waking task looks at, from its own on; a cache line of each is read. */
#define CPUS_LOOKED_AT 16
/* The number of clusters that a task which is worth a CPU looks at, faster ones first, then near ones. */
#define CLUSTERS_LOOKED_AT 4

static __always_inline struct seen_running *this_seen_running(void)
{
	return &seen_running[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/*
 * Looks at the next CPU of best->cluster, and notes it if @p, which has been placed near @place, may preempt its
 * task, and that task's deadline is later than those seen so far or, if @at_once, its progress is
 * larger. A CPU that has been asked to stop for another task is not asked again. In BPF this is a function of its
 * own that keeps its state in memory, because the verifier checks a loop's body anew for each state in which it can
 * begin.
 */
__noinline bool look_at_next(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull,
			     u32 place, u64 now, bool at_once)
{
	struct seen_running *best = this_seen_running();
	const struct cluster *c = cluster_at(best->cluster);
	const struct task_struct *curr;
	s64 ahead;
	u32 cpu;

	if (best->slot >= c->nr_cpus)
		best->slot = 0;
	cpu = nth_of_cluster(c, best->slot++);
	if (READ_ONCE(cpu_at(cpu)->asked) || !task_allowed(p, cpu))
		return false;
	curr = running_on(cpu);
	if (!preempts(p, t, place, cpu, curr, now, at_once))
		return false;
	ahead = at_once ? (s64)READ_ONCE(cpu_at(cpu)->progress) : earlier_by(p, t, place, cpu, curr);
	if (best->pid && ahead <= best->ahead)
		return false;
	best->pid = p->pid;
	best->cpu = cpu;
	best->ahead = ahead;
	return true;
}

/*
 * The CPU that @p, which has been placed near @cpu, may get: @cpu, another of its cluster or, if @at_once, of
 * another cluster; -1: there is none.
 */
__noinline s32 find_preemptible(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull,
				u32 cpu, u64 now, bool at_once)
{
	struct seen_running *best = this_seen_running();
	struct cluster *from = cluster_of(cpu);
	int i, looked;

	best->pid = 0;
	best->slot = cpu_at(cpu)->slot;
	best->cluster = cpu_at(cpu)->cluster;
	if (!at_once && look_at_next(p, t, cpu, now, at_once))
		return best->cpu;
	bpf_for(i, 0, at_once ? CLUSTERS_LOOKED_AT : 1) {
		if (i >= (int)nr_clusters)
			break;
		if (at_once)
			best->cluster = from->order[i];
		bpf_for(looked, 0, CPUS_LOOKED_AT) {
			if (looked >= (int)cluster_at(best->cluster)->nr_cpus)
				break;
			look_at_next(p, t, cpu, now, at_once);
		}
		if (unlike && best->pid)
			break;
	}
	return best->pid ? (s32)best->cpu : -1;
}

#endif /* __EQUIPOISE_PREEMPT_H */
