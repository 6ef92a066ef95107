/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The virtual time of a task that wakes up, continues or waits again: its own, within the bounds of
 * vtime.h.
 */
#ifndef __EQUIPOISE_PLACE_H
#define __EQUIPOISE_PLACE_H

#include "queue.h"

/*
 * sched_ext ends a scheduler under which a task waits for 30 s (scx_watchdog_timeout). With this
 * bound, the tasks that run next to a waiting one overtake it in virtual time within a third of
 * those 30 s, so 60 busy loops on one CPU cannot starve a SCHED_IDLE task.
 */
#define LONGEST_WAIT (10 * NSEC_PER_SEC)
/*
 * ns. Below this lead the number of waiting tasks does not matter: even 1000 tasks per CPU then
 * amount to LONGEST_WAIT.
 */
#define HARDLY_AHEAD (10 * NSEC_PER_MSEC)

/* The largest lead allowed to a task that waits on @cpu of @cluster and is @ahead by its own charge. */
static __always_inline u64 bound_ahead(u64 ahead, u32 cluster, u32 cpu)
{
	u64 waiting, most;

	if (ahead <= HARDLY_AHEAD)
		return ahead;
	waiting = scx_bpf_dsq_nr_queued(own_dsq(cpu)) +
		  scx_bpf_dsq_nr_queued(cluster_dsq(cluster)) / cluster_at(cluster)->nr_cpus;
	most = LONGEST_WAIT / (waiting + 1);
	return ahead < most ? ahead : most;
}

/*
 * The clock for @p on @this of @c. A task that may not run everywhere competes with the tasks that use its CPUs,
 * which may all be far behind the cluster: 30 busy loops on one CPU get a thirtieth of the others' share. Measured
 * by the cluster's clock, all of them would be at the bound of their lag, where they are equal whatever their
 * weights, and a task that sleeps would lose its turns. Tasks that may run anywhere wait in queues that several
 * CPUs take from, and use one clock.
 */
static __always_inline u64 clock_of(const struct task_struct *p, const struct cpu_state *this,
				    const struct cluster *c)
{
	u64 own = READ_ONCE(this->clock);

	return own && is_bound(p) ? own : READ_ONCE(c->clock);
}

/* How far the clocks stay behind the start of @p: heavier tasks need not have waited for a light one. */
static __always_inline u64 behind_start(const struct task_state *t)
{
	return t->weight < NICE_0_LOAD ? LIGHT_BEHIND : 0;
}

/*
 * ns; longer than a turn at any tick, and longer than a task sleeps that frames or buffers drive. While heavier
 * tasks do not get all the time that they want, a light task uses time that is left over. It is ahead of its share,
 * so the clock by which others are placed must not follow it. Otherwise all others would be at the bound of their
 * lag, where they are equal.
 */
#define FULL_WEIGHT_LATELY (100 * NSEC_PER_MSEC)

/* May a clock follow a light task now, if a heavier one last held it at @full_weight_at? */
static __always_inline bool follows_light(u64 full_weight_at, u64 now)
{
	return (s64)(now - full_weight_at) > (s64)FULL_WEIGHT_LATELY;
}

/*
 * Does a task that is not light and has run keep the clocks from following light tasks? Where all CPUs are alike,
 * it does only if it @gave_way although it wanted to run on. Loops that have a CPU each could not use more time,
 * whatever their weight, and light tasks share the CPUs that are left. Their virtual time passes faster than that
 * of the loops: if the clocks stayed with the loops, all light tasks would be at the bound of their lead, where a
 * loop of nice 19 got an eighth of its share beside one of nice 10.
 *
 * With heterogeneous CPUs, the clock of a slow cluster, where light tasks run, would get seconds ahead of a fast
 * cluster's, and would cancel what a task that waits for a fast CPU is owed.
 */
static __always_inline bool holds_clocks(bool gave_way)
{
	return gave_way || unlike;
}

/* The cluster that has full_weight_at and light_at for @c: clusters of CPUs that are alike are held together. */
static __always_inline struct cluster *held_with(struct cluster *c)
{
	return unlike ? c : cluster_at(0);
}

/* A tick of a CPU of @c finds @t running @now. */
static __always_inline void note_light(struct cluster *c, const struct task_state *t, u64 now)
{
	struct cluster *held = held_with(c);

	if (t->weight < NICE_0_LOAD && (s64)(now - READ_ONCE(held->light_at)) > (s64)NSEC_PER_MSEC)
		WRITE_ONCE(held->light_at, now);
}

/*
 * Has a light task a CPU of its own, so that ticks find it there, within two turns of others? A task that gives way
 * gets that CPU at the next tick and hardly lacks time. If it held the clocks, a short task that stops a loop every
 * 30 ms would hold them for good.
 */
static __always_inline bool runs_light(const struct cluster *held, u64 now)
{
	return (s64)(now - READ_ONCE(held->light_at)) <= 2 * (s64)(tunables.slice + machine.tick_ns);
}

/* @t, which was charged @now, ran on a CPU of @c, and @gave_way or not: may the clocks follow it? */
static __always_inline bool sets_clock(struct cluster *c, const struct task_state *t, u64 now, bool gave_way)
{
	struct cluster *held = held_with(c);
	u64 last = READ_ONCE(held->full_weight_at);

	if (t->weight < NICE_0_LOAD)
		return follows_light(last, now);
	if (holds_clocks(gave_way) && (s64)(now - last) > (s64)NSEC_PER_MSEC && (unlike || !runs_light(held, now)))
		WRITE_ONCE(held->full_weight_at, now);
	return true;
}

/* Advances the clocks of all clusters, which are compared with each other. */
__noinline bool advance_clocks(u64 vtime)
{
	int i;

	bpf_for(i, 0, nr_clusters)
		advance_clock(cluster_at(i), vtime);
	return true;
}

/*
 * A task of weight @weight started on a CPU of @c at @start: the clock follows. A light task is followed only where
 * no heavier one is held back, so the clocks of all clusters of CPUs that are alike follow it: one clock alone
 * would make the heavier tasks of its cluster change places with those of others at each tick.
 */
static __always_inline void follow_clock(struct cluster *c, u32 weight, u64 start)
{
	if (weight < NICE_0_LOAD && !unlike && nr_clusters > 1)
		advance_clocks(start);
	else
		advance_clock(c, start);
}

/*
 * @t was charged on @this: may the CPU's own clock follow it? A task that is bound to the CPU would wait until all
 * others had caught up with a light one: 3 s beside a loop of nice 19.
 */
static __always_inline bool sets_own_clock(struct cpu_state *this, const struct task_state *t, bool gave_way)
{
	if (t->weight < NICE_0_LOAD)
		return follows_light(this->full_weight_at, this->charged_at);
	if (holds_clocks(gave_way))
		this->full_weight_at = this->charged_at;
	return true;
}

/* The latest of all clusters' clocks. */
__noinline u64 latest_clock(void)
{
	u64 latest = READ_ONCE(clusters[0].clock);
	int i;

	bpf_for(i, 0, nr_clusters) {
		u64 clock = READ_ONCE(cluster_at(i)->clock);

		if ((s64)(clock - latest) > 0)
			latest = clock;
	}
	return latest;
}

/*
 * How far @clock, a cluster's, is behind the latest one. A task that took turns in other clusters is ahead of a
 * late clock by what it got there, and that lead is not forgiven: tasks that nap and wake up on a CPU that loops of
 * nice -10 keep busy, whose clock is slow, had twice the time of loops of their own weight.
 */
static __always_inline s64 behind_others(u64 clock)
{
	s64 behind = latest_clock() - clock;

	return behind > 0 ? behind : 0;
}

/* Are the queues of all clusters but @cluster empty, and all CPUs that are slower than its own idle? */
__noinline bool none_is_worse_off(u32 cluster)
{
	const struct cluster *c = cluster_at(cluster);
	int i;

	if (READ_ONCE(waiting_clusters) & ~(1ULL << (cluster & 63)))
		return false;
	bpf_for(i, 0, nr_clusters) {
		const struct cluster *other = cluster_at(i);

		if (i == (int)cluster)
			continue;
		if (READ_ONCE(other->keeping) || (is_faster(c, other) && READ_ONCE(other->idle) != other->cpus))
			return false;
	}
	return true;
}

/*
 * No task waits in @c. @p, which runs on its CPU @this, takes nothing from other tasks there, so
 * its lead is forgiven: the clocks follow.
 *
 * A clock that kept up with the virtual time of a light task would leave all other tasks behind, so
 * such a task is set back to where it started instead. It keeps the lead that it gained while
 * others waited, and what it is owed: a task that runs only while another one naps had a tenth of its share when it
 * was set to the clock each time. It is not set back if tasks wait in another cluster or run on slower CPUs,
 * because it has to change places with them once it is ahead.
 *
 * A task that has long run at full speed is owed at most two slices, because it already has all the time that one
 * task can use. Loops of nice -16 that have a CPU each fall behind the clock forever, because their weight is worth
 * more than a CPU; an arriving task would wait for half a second until one of them is ahead of it. A task that runs
 * for less keeps its whole lag, so that it is served soon when it wakes up.
 */
static __always_inline void forgive(struct cpu_state *this, struct cluster *c, struct task_struct *p,
				    struct task_state *t)
{
	bool light = t->weight < NICE_0_LOAD, set_back = light && none_is_worse_off(this->cluster);
	u64 clock = p->scx.dsq_vtime, started = clock - t->charged;
	s64 lead;

	if (light)
		clock = set_back ? latest_clock() : clock - behind_start(t);
	if (set_back || sets_clock(c, t, this->charged_at, false))
		advance_clock(c, clock);
	clock = clock_of(p, this, c);
	if (set_back) {
		lead = (s64)(started - clock) > start_of(p) ? (s64)(started - clock) : start_of(p);
		p->scx.dsq_vtime = bound_vtime(p->scx.dsq_vtime, clock, UNBOUNDED, lead);
		t->charged = p->scx.dsq_vtime - started;
	} else if (t->burst_so_far > MOST_BEHIND && speed_of(this, c) == SCHED_POWER_SCALE) {
		p->scx.dsq_vtime = bound_vtime(p->scx.dsq_vtime, clock, fair_time(p, tunables.lag), UNBOUNDED);
	}
	if (sets_own_clock(this, t, false))
		advance_own_clock(this, p->scx.dsq_vtime - behind_start(t));
}

/*
 * The lead over the clock that one slice gives @p. The clock follows light tasks only roughly, so
 * among light tasks all have that much more lead.
 */
static __always_inline s64 turn_of(const struct task_state *t)
{
	return charge_of(t, tunables.slice + machine.tick_ns, SCHED_POWER_SCALE) + behind_start(t);
}

/*
 * The lag that @p keeps when it goes to sleep, with @clock as its clock. It is at most one slice
 * ahead, as under EEVDF: without the bound, a kernel thread that had run while its CPU was idle,
 * and so was far ahead of a crowd that arrived, waited for the whole crowd.
 */
static __always_inline s64 lag_to_keep(const struct task_struct *p, const struct task_state *t, u64 clock)
{
	s64 turn = turn_of(t);
	s64 lag = clock - p->scx.dsq_vtime;

	return lag < -turn ? -turn : lag;
}

/*
 * @p wakes up and gets @cpu, which was idle, at once. Other tasks lose nothing now, only by what @p does later. The
 * CPU's own clock stood still while it was idle.
 */
static __always_inline void place_on_idle(struct task_struct *p, u32 cpu)
{
	u64 clock = READ_ONCE(cluster_of(cpu)->clock);

	if ((s64)(clock - p->scx.dsq_vtime) > lag_of(p))
		p->scx.dsq_vtime = bound_vtime(p->scx.dsq_vtime, clock, lag_of(p), UNBOUNDED);
}

/*
 * @p wakes up on @cpu, and no CPU is idle. If it has received less than all tasks waiting there, it
 * comes before them, unless it is one of a @crowd (crowd.h): the clock, which the foremost task sets, does not show
 * how far behind the others are.
 */
static __always_inline void place_waking(struct task_struct *p, u32 cpu, bool crowd)
{
	const struct task_state *t = task_of(p);
	struct cpu_state *this = cpu_at(cpu);
	u64 clock = clock_of(p, this, cluster_at(this->cluster)), first;
	s64 lag = t ? t->lag : 0;
	s64 behind = sleeper_behind(lag, crowd ? -start_of(p) : lag_of(p), MOST_BEHIND);
	s64 ahead = sleeper_ahead(lag, unlike ? tunables.unfairness : 0);

	if (!crowd && (s64)(clock - p->scx.dsq_vtime) > behind) {
		first = first_queue(cpu).vtime;
		if (first != NO_VTIME && (s64)(clock - first) >= behind)
			behind = (s64)(clock - first) + 1;
	}
	if (unlike && !is_bound(p) && (s64)(p->scx.dsq_vtime - clock) > ahead)
		ahead += behind_others(clock);
	if (ahead < start_of(p))
		ahead = start_of(p);
	ahead = bound_ahead(ahead, this->cluster, cpu);
	p->scx.dsq_vtime = bound_vtime(p->scx.dsq_vtime, clock, behind, ahead);
}

/*
 * @p runs on @cpu. The time that it is owed is bounded at each charge; its lead only when it stops
 * (place_stopped()).
 */
static __always_inline void place_running(struct task_struct *p, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	u64 clock = clock_of(p, this, cluster_at(this->cluster));

	p->scx.dsq_vtime = bound_vtime(p->scx.dsq_vtime, clock, MOST_BEHIND, UNBOUNDED);
}

/*
 * @p has stopped on @cpu and waits again, so the clock is where it started, or later. It is ahead by at most one
 * slice, or by what it received in another cluster. A crowd of tasks from a CPU where each got little is not owed
 * all of that: a kernel thread of the new CPU would wait until all of them had caught up (ksoftirqd waited 32 s,
 * until the watchdog fired).
 */
static __always_inline void place_stopped(struct task_struct *p, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	u64 clock = clock_of(p, this, cluster_at(this->cluster)), ahead = MOST_BEHIND, turn;
	const struct task_state *t;

	if ((s64)(p->scx.dsq_vtime - clock) > (s64)MOST_BEHIND) {
		t = task_of(p);
		turn = t ? turn_of(t) : 0;
		if (turn > ahead)
			ahead = turn;
		ahead = bound_ahead(ahead, this->cluster, cpu);
	}
	p->scx.dsq_vtime = bound_vtime(p->scx.dsq_vtime, clock, MOST_BEHIND, ahead);
}

/*
 * @p, which is heavy, has used its slice on @cpu, and @first waits there. A heavy task wakes up far behind the
 * clock, so that it comes before lighter tasks that slept, too. But its virtual time passes slowly, so that it
 * would keep the CPU for half a second alongside a task of its own weight. It may therefore come before such a task
 * by two more slices at most, as under EEVDF (entity_lag() of Linux 6.12). On a CPU of less than full speed it
 * stays behind, so that it gets a faster one.
 */
static __always_inline void bound_lead(struct task_struct *p, u32 cpu, struct first_queue first)
{
	const struct cpu_state *this = cpu_at(cpu);

	if (speed_of(this, cluster_at(this->cluster)) == SCHED_POWER_SCALE && is_first_as_heavy(first.dsq, cpu, p))
		p->scx.dsq_vtime = bound_vtime(p->scx.dsq_vtime, first.vtime,
					       fair_time(p, tunables.lag + machine.tick_ns), UNBOUNDED);
}

#endif /* __EQUIPOISE_PLACE_H */
