/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPU a waking task may preempt: one whose task has received clearly more.
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

/* How long the task on @cpu has run at @now since it was last charged, or started, ns. */
static __always_inline u64 uncharged(u32 cpu, u64 now)
{
	s64 ran = now - READ_ONCE(cpu_at(cpu)->charged_at);

	return ran > 0 ? ran : 0;
}

/* How far @curr, which runs on @cpu, is ahead of @p at @now, in virtual time. */
static __always_inline s64 ahead_of(const struct task_struct *p, u32 cpu, const struct task_struct *curr, u64 now)
{
	u64 ran = uncharged(cpu, now) * speed_of(cpu_at(cpu), cluster_of(cpu)) / SCHED_POWER_SCALE;

	return curr->scx.dsq_vtime + fair_time(curr, ran) - p->scx.dsq_vtime;
}

/* The lead over @p for which a CPU's task is preempted. It shrinks with the weight of @p (wakeup_gran()). */
static __always_inline s64 preempt_after(const struct task_struct *p)
{
	return is_heavy(p) ? fair_time(p, tunables.preempt_after) : tunables.preempt_after;
}

/*
 * A CPU stops for waking tasks at most once in preempt_after() on average, and sooner only for a task that is
 * further behind than sleep could make it, because that task has lost slices. Each stop costs two switches. In a
 * crowd of hackbench's tasks, where every task is behind some other one, stops would be most of the work (12 times
 * the switches, 35 % more time on tc2).
 */
#define FAR_AHEAD ((s64)(tunables.lag + tunables.slice))

/*
 * May @cpu stop for @p at @now? The average is over a tick: a task that is refused waits until then, for 10 ms with
 * HZ=100, so a CPU that was not stopped for a while may stop several times in succession. A task that may use one
 * CPU only and naps for 200 us had an eighth of its time there beside a loop that came to that CPU for each nap.
 */
static __always_inline bool may_stop(const struct task_struct *p, u32 cpu, u64 now)
{
	s64 early = READ_ONCE(cpu_at(cpu)->next_stop_at) - now;

	return early <= 0 || early + preempt_after(p) <= (s64)machine.tick_ns;
}

/* @cpu is asked to stop for @p at @now. */
static __always_inline void note_stop(const struct task_struct *p, u32 cpu, u64 now)
{
	struct cpu_state *this = cpu_at(cpu);
	u64 due = READ_ONCE(this->next_stop_at);

	WRITE_ONCE(this->asked, true);
	WRITE_ONCE(this->next_stop_at, ((s64)(due - now) > 0 ? due : now) + preempt_after(p));
}

/*
 * Would @p be the next task of its cluster's queue? If fewer tasks wait than there are CPUs, each
 * may have a CPU at once; otherwise @p may only if it is further behind than all of them. In a
 * crowd, stopping a CPU for any task but the first helps only the first: hackbench's 400 tasks on
 * five CPUs took 37 % longer.
 */
static __always_inline bool is_next_in(const struct task_struct *p, u32 cluster, u32 cpu)
{
	return scx_bpf_dsq_nr_queued(cluster_dsq(cluster)) < (s32)cluster_at(cluster)->nr_cpus ||
	       is_before(p->scx.dsq_vtime, first_waiting(cluster, cpu));
}

/* Would @cpu choose @p now, of all tasks that wait for it? */
static __always_inline bool is_next(const struct task_struct *p, u32 cpu)
{
	u32 cluster = cpu_at(cpu)->cluster;
	u32 waiting = scx_bpf_dsq_nr_queued(cluster_dsq(cluster)) + scx_bpf_dsq_nr_queued(own_dsq(cpu));

	return waiting < cluster_at(cluster)->nr_cpus || is_before(p->scx.dsq_vtime, first_queue(cpu).vtime);
}

/*
 * Has the task that runs on @cpu announced that it is about to sleep? It has if it has woken others with
 * SCX_WAKE_SYNC in this turn and has not used up its slice. (EEVDF protects every task from wakeups for a slice:
 * protect_slice() of Linux 7.3.) Senders of messages are such tasks: the longer one runs, the more messages each
 * receiver finds when its turn comes.
 */
static __always_inline bool sleeps_soon(u32 cpu, u64 now)
{
	return READ_ONCE(cpu_at(cpu)->woke_sync) && uncharged(cpu, now) < tunables.slice;
}

/* Should @p, which wakes up and found no idle CPU, get @cpu at once? */
static __always_inline bool preempts(const struct task_struct *p, u32 cpu, const struct task_struct *curr, u64 now)
{
	s64 ahead;

	if (!curr || curr->prio < MAX_RT_PRIO || p->policy == SCHED_BATCH)
		return false;
	if (curr->policy == SCHED_IDLE)
		return p->policy != SCHED_IDLE;
	if (sleeps_soon(cpu, now))
		return false;
	ahead = ahead_of(p, cpu, curr, now);
	if (ahead <= preempt_after(p))
		return false;
	return may_stop(p, cpu, now) || ahead > FAR_AHEAD;
}

/* Records why @p, which wakes up, gets @cpu at once or does not. */
static __always_inline void explain_preemption(const struct task_struct *p, u32 cpu, const struct task_struct *curr,
					       u64 now, bool preempted)
{
	if (curr && preempted)
		explain(preempts, p->pid, cpu, curr->pid, uncharged(cpu, now), ahead_of(p, cpu, curr, now),
			preempt_after(p));
	else if (curr)
		explain(too_early, p->pid, cpu, curr->pid, uncharged(cpu, now), ahead_of(p, cpu, curr, now),
			preempt_after(p));
}

/* A running task, as seen from another CPU. */
struct seen_running {
	s32 pid;
	u32 cpu;
	union {
		u64 vtime;
		s64 ahead;
	};
	union {
		/* The next CPU of its cluster to look at. */
		u32 slot;
		/* The CPU that asks for it. */
		u32 to;
	};
};

struct seen_running seen_running[MAX_CPUS];

/*
 * How many CPUs of a cluster a waking task looks at, from its own on; and how many clusters, faster ones first, if
 * it is heavy.
 */
#define CPUS_LOOKED_AT 16
#define CLUSTERS_LOOKED_AT 4

static __always_inline struct seen_running *this_seen_running(void)
{
	return &seen_running[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/*
 * Looks at the next CPU of @cluster, and notes it if @p may get it at once and its task is further ahead than those
 * seen so far. A CPU that has been asked to stop for another task is not asked again. In BPF this is a function of
 * its own that keeps its state in memory, because the verifier checks a loop's body anew for each state in which it
 * can begin.
 */
__noinline bool look_at_next(struct task_struct *p __arg_trusted, u32 cluster, u64 now)
{
	struct seen_running *best = this_seen_running();
	const struct cluster *c = cluster_at(cluster);
	const struct task_struct *curr;
	s64 ahead;
	u32 cpu;

	if (best->slot >= c->nr_cpus)
		best->slot = 0;
	cpu = nth_of_cluster(c, best->slot++);
	if (READ_ONCE(cpu_at(cpu)->asked) || !task_allowed(p, cpu))
		return false;
	curr = running_on(cpu);
	if (!preempts(p, cpu, curr, now))
		return false;
	ahead = ahead_of(p, cpu, curr, now);
	if (best->pid && ahead <= best->ahead)
		return false;
	best->pid = p->pid;
	best->cpu = cpu;
	best->ahead = ahead;
	return true;
}

/*
 * Finds the CPU of @cluster, from @slot on, that @p may get at once and whose task is furthest ahead, for
 * this_seen_running(). False if there is none.
 */
__noinline bool preemptible_in(struct task_struct *p __arg_trusted, u32 cluster, u32 slot)
{
	struct seen_running *best = this_seen_running();
	const struct cluster *c = cluster_at(cluster);
	u64 now = bpf_ktime_get_ns();
	int looked;

	best->pid = 0;
	best->slot = slot;
	bpf_for(looked, 0, CPUS_LOOKED_AT) {
		if (looked >= (int)c->nr_cpus)
			break;
		look_at_next(p, cluster, now);
	}
	return best->pid;
}

/*
 * The CPU that @p, which has just been placed, may get at once: @prev_cpu, another of its cluster whose task is
 * further ahead, or, for a heavy task, one of the fastest. -1 if there is none.
 *
 * Where all CPUs are alike, a heavy task goes to another cluster if a task there is further ahead by more than
 * tasks of different clusters may be apart. If it always came back to its last cluster, a loop bound to that CPU
 * would have only the time that the heavy task leaves.
 */
__noinline s32 find_preemptible(struct task_struct *p __arg_trusted, u32 prev_cpu)
{
	const struct seen_running *best = this_seen_running();
	struct cpu_state *prev = cpu_at(prev_cpu);
	struct cluster *from = cluster_at(prev->cluster);
	s64 ahead = -UNBOUNDED;
	s32 cpu = -1;
	u32 i;

	if (!is_heavy(p))
		return preemptible_in(p, prev->cluster, prev->slot) ? (s32)best->cpu : -1;
	for (i = 0; i < CLUSTERS_LOOKED_AT; i++) {
		if (i >= nr_clusters || (unlike && cpu >= 0))
			break;
		if (!preemptible_in(p, from->order[i], 0) || best->ahead <= ahead)
			continue;
		cpu = best->cpu;
		ahead = best->ahead + (s64)tunables.unfairness;
	}
	return cpu;
}

#endif /* __EQUIPOISE_PREEMPT_H */
