/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The place of a task in fair.h's terms: the clock that it is on, what it is charged, and its deadline, by which
 * queues are ordered.
 *
 *	a cluster's clock:	free task   free task   bound to CPU 0   bound to CPU 1
 *							      |		       |
 *	a CPU's clock:				       task  task	     task
 *
 * A task that may use all CPUs of a cluster is on the cluster's clock. Tasks that are bound to some of them are on
 * the clock of one CPU, where they share by weight what that CPU gives them, whatever runs elsewhere.
 */
#ifndef __EQUIPOISE_PLACE_H
#define __EQUIPOISE_PLACE_H

#include "level.h"
#include "progress.h"
#include "queue.h"

/*
 * sched_ext ends a scheduler under which a task waits for 30 s (scx_watchdog_timeout). With this bound, the tasks
 * beside a waiting one overtake its deadline within a third of that.
 */
#define LONGEST_WAIT (10 * NSEC_PER_SEC)
/* ns. With a deadline that is no further ahead, 1000 tasks for each CPU amount to LONGEST_WAIT. */
#define HARDLY_AHEAD (10 * NSEC_PER_MSEC)

/* The most that a task is owed, ns of work: a tick may be late by as much as it is long. */
static __always_inline s64 most_owed(void)
{
	return tunables.lag + machine.tick_ns;
}

static __always_inline u64 find_weight(struct task_state *t)
{
	t->full_weight = t->share ? shared_weight(t->share, t->weight) : (u64)t->weight << SHARE_SHIFT;
	return t->full_weight;
}

static __always_inline struct clock *clock_of(const struct task_state *t)
{
	return t->bound_to ? &cpu_at(t->bound_to - 1)->own : &cluster_at(t->cluster)->clock;
}

/*
 * Puts the tasks that are bound to @this on the clock of @c, its cluster, as one entity with their feasible weight.
 *
 * Context: any CPU, whenever a task joins or leaves them, and @this when it charges one of them.
 */
static __always_inline void weigh_bound(struct cpu_state *this, struct cluster *c)
{
	s64 sum = READ_ONCE(this->own.weight);
	u64 worth = READ_ONCE(c->worth), weight = sum <= 0 ? 0 : (u64)sum < worth ? (u64)sum : worth;

	if (!weight && READ_ONCE(this->bound.weight))
		leave(&c->clock, &this->bound, most_owed());
	else if (weight && !READ_ONCE(this->bound.weight))
		join(&c->clock, &this->bound, weight, come_back(&c->clock, &this->bound));
	else if (weight)
		reweigh(&c->clock, &this->bound, weight);
}

/* Takes @t off its clock. */
static __always_inline void leave_clock(struct task_state *t)
{
	struct cluster *c = cluster_at(t->cluster);

	if (!t->fair.weight)
		return;
	write_cluster(c);
	leave(clock_of(t), &t->fair, most_owed());
	if (t->bound_to)
		weigh_bound(cpu_at(t->bound_to - 1), c);
}

/* Puts @t, which waits for @cpu or runs there, on the clock of its cluster or, if it is @bound, of @cpu. */
static __always_inline void enter_clock(struct task_state *t, u32 cpu, bool bound)
{
	u32 cluster = cpu_at(cpu)->cluster, bound_to = bound ? cpu + 1 : 0;
	struct cluster *c = cluster_at(cluster);
	bool arrives = !t->fair.weight;
	u64 weight;
	s64 lag;

	if (!arrives && t->cluster == cluster && t->bound_to == bound_to)
		return;
	lag = arrives ? come_back(clock_of(t), &t->fair) : take_off(clock_of(t), &t->fair, most_owed());
	if (!arrives && t->bound_to)
		weigh_bound(cpu_at(t->bound_to - 1), cluster_at(t->cluster));
	count_runnable(t, true);
	weight = find_weight(t);
	t->cluster = cluster;
	t->bound_to = bound_to;
	write_cluster(c);
	join(clock_of(t), &t->fair, weight, lag);
	if (bound)
		weigh_bound(cpu_at(cpu), c);
	if (arrives)
		begin_work(t, bpf_ktime_get_ns());
}

/* What a task asks for each time, ns: as long as it usually runs, up to a slice. */
static __always_inline u64 request_of(const struct task_state *t)
{
	return t->burst < tunables.slice ? t->burst : tunables.slice;
}

/*
 * The deadline of @t in its clock's time, with @request ns to go: when it would have them at its fair rate. Short
 * requests come first, although all get the same (I. Stoica, H. Abdel-Wahab, "Earliest Eligible Virtual Deadline
 * First", 1995). A herd of tasks that run for long does not come before one that runs briefly.
 */
static __always_inline u64 deadline_of(const struct task_state *t, u64 request)
{
	const struct clock *clock = clock_of(t);
	u64 deadline = t->fair.vtime + vtime_for(request, t->fair.weight), now = READ_ONCE(clock->now), most;
	s64 weight;

	if ((s64)(deadline - now) <= (s64)HARDLY_AHEAD)
		return deadline;
	weight = READ_ONCE(clock->weight);
	if (weight <= 0)
		return deadline;
	most = (LONGEST_WAIT << WEIGHT_SHIFT) / (u64)weight;
	if (!t->bound_to)
		most *= cluster_at(t->cluster)->nr_cpus;
	return (s64)(deadline - now) > (s64)most ? now + most : deadline;
}

static __always_inline void set_deadline(struct task_struct *p, const struct task_state *t)
{
	p->scx.dsq_vtime = deadline_of(t, request_of(t));
}

/* Charges the tasks that are bound to @this for @work, on both clocks. */
static __always_inline void charge_bound(struct cpu_state *this, struct cluster *c, u64 work)
{
	weigh_bound(this, c);
	if (this->bound.weight)
		__sync_fetch_and_add(&this->bound.vtime, vtime_for(work, this->bound.weight));
	advance(&this->own, work);
	bound_owed(&c->clock, &this->bound, most_owed());
}

/* Charges @p, which runs on @cpu, for its running time since the last charge. Returns that time, ns. */
static __always_inline u64 charge(struct task_struct *p, struct task_state *t, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 ran = p->se.sum_exec_runtime - t->seen, now = bpf_ktime_get_ns();
	u64 work = ran * speed_of(this, c) / SCHED_POWER_SCALE, weight = find_weight(t), worth = READ_ONCE(c->worth);
	bool bound = is_bound_in(p, t, this->cluster);

	t->seen += ran;
	t->burst_so_far += ran;
	WRITE_ONCE(this->charged_at, now);
	/* Another CPU may have put it into the queue from which this one took it. */
	enter_clock(t, cpu, bound);
	this->runs_bound = bound;
	this->runs_pulled = false;
	note_running(this, c, bound ? 0 : weight);
	note_work(t, work, now);
	WRITE_ONCE(this->progress, progress_of(t, now));
	WRITE_ONCE(this->progress_of, p->pid);
	if (bound)
		charge_bound(this, c, work);
	else
		weight = weight < worth ? weight : worth;
	reweigh(clock_of(t), &t->fair, weight);
	t->fair.vtime += vtime_for(work, t->fair.weight);
	write_cluster(c);
	advance(&c->clock, work);
	bound_owed(clock_of(t), &t->fair, most_owed());
	if (READ_ONCE(nr_limits) && t->share)
		charge_limits(t->share, ran);
	return ran;
}

#endif /* __EQUIPOISE_PLACE_H */
