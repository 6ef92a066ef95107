/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The place of a task in fair.h's terms: the clock that it is on, what it is charged, and its deadline, by which
 * queues are ordered.
 *
 *	a cluster's clock:	free task   free task   bound to CPU 0   bound to CPU 1
 *							      |		       |
 *	a CPU's clock:				       task  task	     task
 *
 * A task that may use all CPUs of a cluster is on the cluster's clock. Tasks that are bound to some of the
 * cluster's CPUs are on the clock of one CPU, where they share by weight what that CPU gives them, whatever runs
 * elsewhere.
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
/*
 * In ns of virtual time: with deadlines no further ahead, even 1000 tasks per CPU wait no longer than LONGEST_WAIT.
 */
#define HARDLY_AHEAD (10 * NSEC_PER_MSEC)

/* Set before the scheduler is loaded; otherwise the verifier removes the checks of invariants. */
const volatile bool checks;

/* Ends the scheduler with a message if @condition is false. */
#define check(condition)                                            \
	do {                                                        \
		if (checks && !(condition))                         \
			scx_bpf_error("invariant: %s", #condition); \
	} while (0)

static __always_inline struct clock *clock_of(const struct task_state *t)
{
	return t->bound_to ? &cpu_at(t->bound_to - 1)->own : &cluster_at(t->cluster)->clock;
}

/* Does @t, which slept, still have a debt to pay? */
static __always_inline bool owes(const struct task_state *t)
{
	return READ_ONCE(t->fair.left_at) && (s64)(READ_ONCE(clock_of(t)->now) - t->fair.vtime) < 0;
}

/* The time until @t, which sleeps, has paid its debt, in ns, if its cluster's CPUs are busy; 0: it has none. */
static __always_inline u64 owing_time(const struct task_state *t)
{
	s64 ahead = t->fair.vtime - READ_ONCE(clock_of(t)->now);

	return owes(t) ? service_for(ahead, READ_ONCE(cluster_at(t->cluster)->worth)) : 0;
}

/* @t is runnable, or stops being so, and counts in its control group's share. */
static __always_inline void count_runnable(struct task_state *t, bool runnable)
{
	u32 weight = runnable && t->share ? countable(t->share, t->weight) : 0;

	if (weight == t->counted)
		return;
	add_runnable(t->share, (s64)weight - t->counted, owing_time(t));
	t->counted = weight;
}

/* @t changes its weight, or its control group. */
static __always_inline void move_share(struct task_state *t, u32 share, u32 weight)
{
	bool counted = t->counted;

	count_runnable(t, false);
	t->share = share;
	t->weight = weight;
	if (counted)
		count_runnable(t, true);
}

static __always_inline void set_task_weight(struct task_struct *p, struct task_state *t)
{
	move_share(t, t->share, task_weight(p));
}

static __always_inline u64 find_weight(struct task_state *t)
{
	t->full_weight = t->share ? shared_weight(t->share, t->weight) : (u64)t->weight << SHARE_SHIFT;
	return t->full_weight;
}

/*
 * Puts the tasks that are bound to @cpu on the clock of its cluster, as one entity with their feasible weight.
 *
 * Context: any CPU, when a task joins or leaves the tasks bound to @cpu; @cpu, when it charges one of these tasks.
 */
__noinline bool weigh_bound(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct clock *clock = &cluster_at(this->cluster)->clock;
	s64 sum = READ_ONCE(this->own.weight);
	u64 worth = READ_ONCE(cluster_at(this->cluster)->worth);
	u64 weight = sum <= 0 ? 0 : (u64)sum < worth ? (u64)sum : worth;

	if (weight && READ_ONCE(this->bound.weight))
		reweigh(clock, &this->bound, weight);
	else if (weight)
		join(clock, &this->bound, weight, come_back(clock, &this->bound));
	else if (READ_ONCE(this->bound.weight))
		leave(clock, &this->bound, MOST_SERVICE);
	return weight;
}

/* The part of a task of @weight in what the tasks that are bound to @this are owed together, in ns of work. */
static __always_inline s64 part_of_bound(const struct cpu_state *this, u64 weight)
{
	s64 lag = lag_of(&cluster_at(this->cluster)->clock, &this->bound), sum = READ_ONCE(this->own.weight);

	return sum > (s64)weight ? service_for(vtime_of_lag(lag, sum), weight) : lag;
}

/* Takes @t off the clock on which it runs or waits, or has slept. Returns its lag. */
static __always_inline s64 end_lag(struct task_state *t)
{
	return t->fair.weight ? take_off(clock_of(t), &t->fair) : come_back(clock_of(t), &t->fair);
}

/*
 * A task that joined the tasks that are bound to @cpu, or left them (@leaves), brought @lag along, or took -@lag
 * along: the set is owed @lag more on its cluster's clock. If the task is the only one, its lag is that of the set.
 */
__noinline bool bring_to_bound(u32 cpu, s64 lag, bool leaves)
{
	struct cpu_state *this = cpu_at(cpu);
	struct clock *clock = &cluster_at(this->cluster)->clock;
	bool only = leaves ? !bound_weight(cpu) : !READ_ONCE(this->bound.weight);

	/* While the lag moves, the set has the weight of its other tasks or, if there are none, of this task. */
	if (only != leaves)
		weigh_bound(cpu);
	if (only)
		give(clock, &this->bound, lag);
	else
		bring(clock, &this->bound, lag);
	if (only == leaves)
		weigh_bound(cpu);
	return only;
}

/*
 * Takes @t, which is bound, off its clock. Returns the sum of its lag on the CPU's clock and its part of what the
 * CPU's bound tasks are owed together.
 */
static __always_inline s64 take_bound_along(struct task_state *t)
{
	u64 weight = t->fair.weight ?: READ_ONCE(t->fair.left_at);
	s64 lag;

	if (!weight)
		return end_lag(t);
	lag = part_of_bound(cpu_at(t->bound_to - 1), weight);
	lag += end_lag(t);
	bring_to_bound(t->bound_to - 1, -lag, true);
	return lag;
}

/* Puts @t, which is owed @lag, on the clock of @cpu, to which it is bound. */
static __always_inline void join_bound(struct task_state *t, u32 cpu, u64 weight, s64 lag)
{
	struct cpu_state *this = cpu_at(cpu);

	join(&this->own, &t->fair, weight, 0);
	bring_to_bound(cpu, lag, false);
	give(&this->own, &t->fair, lag - part_of_bound(this, weight));
}

/* The weight with which @t, which runs, counts on its clock. */
static __always_inline u64 feasible_weight(const struct task_state *t)
{
	u64 worth = READ_ONCE(cluster_at(t->cluster)->worth);

	return t->bound_to || t->full_weight < worth ? t->full_weight : worth;
}

/*
 * Takes @t, which sleeps, is held back or ends, off its clock. A bound task that has had more than the others
 * bound to its CPU becomes a debtor on the CPU's clock. If only the bound tasks together have received more than
 * their share, the task becomes a debtor on the cluster's clock instead: it may wake up on another CPU, and a debt
 * that it took along would last there until its next sleep.
 */
__noinline bool leave_clock(struct task_state *t __arg_nonnull)
{
	if (!t->fair.weight)
		return false;
	write_cluster(cluster_at(t->cluster));
	if (t->bound_to && lag_of(clock_of(t), &t->fair) < 0) {
		leave(clock_of(t), &t->fair, 0);
		weigh_bound(t->bound_to - 1);
		return true;
	}
	if (t->bound_to) {
		s64 lag = take_bound_along(t);

		t->bound_to = 0;
		join(clock_of(t), &t->fair, feasible_weight(t), lag);
	}
	leave(clock_of(t), &t->fair, tunables.lag);
	return true;
}

/*
 * What @t, which goes to another cluster, takes along: what it is owed, but no debt. A debt stays on the clock, for
 * the tasks at whose cost it was made. If debts travelled, two heavy loops that take turns on a fast and a slow CPU
 * would lose them on the slow CPU, where nothing else waits, and tasks that wait for the fast CPU would never run.
 */
static __always_inline s64 take_credit_along(struct task_state *t)
{
	s64 lag;

	if (t->fair.weight)
		leave(clock_of(t), &t->fair, MOST_SERVICE);
	lag = t->fair.left_with;
	t->fair.left_with = 0;
	t->fair.left_at = 0;
	return lag;
}

/* The CPU on whose clock @p is when it waits for @cpu or runs there, plus 1; 0: @p is on the cluster's clock. */
static __always_inline u32 bound_to_at(const struct task_struct *p, const struct task_state *t, u32 cpu)
{
	return is_bound_in(p, t, cpu_at(cpu)->cluster) ? cpu + 1 : 0;
}

/*
 * Puts @p, which waits for @cpu or runs there, on the clock of its cluster or, if it is bound to some CPUs there,
 * of @cpu, at the time @now. The task brings along what it is owed.
 */
__noinline bool move_to_clock(struct task_struct *p __arg_trusted, struct task_state *t __arg_nonnull, u32 cpu,
			      u64 now)
{
	u32 cluster = cpu_at(cpu)->cluster, bound_to = bound_to_at(p, t, cpu);
	bool arrives = !t->fair.weight;
	s64 lag;
	u64 weight;

	count_runnable(t, true);
	lag = t->bound_to ? take_bound_along(t) : t->cluster == cluster ? end_lag(t) : take_credit_along(t);
	weight = find_weight(t);
	t->cluster = cluster;
	t->bound_to = bound_to;
	if (arrives)
		begin_work(t, now);
	write_cluster(cluster_at(cluster));
	if (bound_to)
		join_bound(t, cpu, weight, lag);
	else
		join(clock_of(t), &t->fair, weight, lag);
	return true;
}

/* Moves @p to that clock if it is not there yet. */
static __always_inline void enter_clock(struct task_struct *p, struct task_state *t, u32 cpu, u64 now)
{
	if (!t->fair.weight || t->cluster != cpu_at(cpu)->cluster || t->bound_to != bound_to_at(p, t, cpu))
		move_to_clock(p, t, cpu, now);
}

/* The length of a turn of @p beside others, in ns: the slice that it requests (sched_runtime), or the default. */
static __always_inline u64 slice_of(const struct task_struct *p)
{
	return p->se.custom_slice ? p->se.slice : tunables.slice;
}

/*
 * The time that a task asks for when it has received @done ns of a turn, in ns: what is left of the time for which
 * it usually runs or, if it has run for longer, as much again, up to the end of the turn. A task whose turn ends
 * just before it would have slept therefore runs on soon. When a task wakes up, it asks for up to two turns, as
 * much as a running task may be owed: if a herd of threads that run for longer asked for one, the herd would come
 * before a thread that wakes up later and draws a frame. (If it asked for more than two, the loops beside it would
 * stay behind for good.) A slice that the task requests is the most in any case.
 */
static __always_inline u64 request_of(const struct task_struct *p, const struct task_state *t, u64 done)
{
	u64 left = t->burst > t->burst_so_far ? t->burst - t->burst_so_far : t->burst_so_far;
	u64 most = slice_of(p);

	if (!t->burst_so_far && !p->se.custom_slice)
		most *= 2;
	most = most > done ? most - done : 0;
	return left < most ? left : most;
}

/*
 * The deadline of @t in its clock's time, with @request ns to go: the time at which it would have received @request
 * at its fair rate. Short requests come first, although all tasks receive the same service (I. Stoica, H.
 * Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995). A task that runs briefly therefore runs before a
 * herd of tasks that run for long.
 */
__noinline u64 deadline_of(const struct task_state *t __arg_nonnull, u64 request)
{
	const struct clock *clock = clock_of(t);
	u64 deadline = t->fair.vtime + vtime_for(request, t->fair.weight ?: 1);
	u64 now = READ_ONCE(clock->now), most;
	s64 weight = READ_ONCE(clock->weight);

	if ((s64)(deadline - now) <= (s64)HARDLY_AHEAD || weight <= 0)
		return deadline;
	most = (LONGEST_WAIT << WEIGHT_SHIFT) / (u64)weight;
	if (!t->bound_to)
		most *= cluster_at(t->cluster)->nr_cpus;
	return (s64)(deadline - now) > (s64)most ? now + most : deadline;
}

/* Sets the deadline by which queues order @p, which has already received @done ns of its turn. */
static __always_inline void set_deadline(struct task_struct *p, struct task_state *t, u64 done)
{
	p->scx.dsq_vtime = deadline_of(t, request_of(p, t, done));
}

/* Publishes the values of @p, which runs on @this or begins to, for other CPUs. */
static __always_inline void show_running(struct cpu_state *this, const struct task_struct *p,
					 const struct task_state *t)
{
	bool arrived = t->cluster != this->cluster;

	WRITE_ONCE(this->pid, p->pid);
	WRITE_ONCE(this->burst, burst_of(t));
	WRITE_ONCE(this->arrived, arrived);
	WRITE_ONCE(this->runs_bound, t->bound_to);
	WRITE_ONCE(this->progress, progress_of(t, this->charged_at));
	note_running(this, t->bound_to ? 0 : t->full_weight, arrived ? 0 : t->fair.weight);
}

/*
 * @p gets @cpu. A task that has slept joins the clock here. A task that waited in another cluster joins when it is
 * first charged; until then its deadline is a turn ahead of the clock.
 */
static __always_inline void begin_turn(struct task_struct *p, struct task_state *t, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	const struct cluster *c = cluster_at(this->cluster);

	this->after_wakeup = t->after_wakeup;
	this->woke_at = 0;
	if (!t->fair.weight) {
		move_to_clock(p, t, cpu, this->charged_at);
		set_deadline(p, t, 0);
	}
	if (t->cluster != this->cluster)
		p->scx.dsq_vtime = READ_ONCE(c->clock.now) + vtime_for(tunables.slice, READ_ONCE(c->worth));
	show_running(this, p, t);
}

/* Charges the tasks that are bound to @cpu for @work, on both clocks. */
static __always_inline void charge_bound(u32 cpu, u64 work)
{
	struct cpu_state *this = cpu_at(cpu);
	struct clock *clock = &cluster_at(this->cluster)->clock;

	weigh_bound(cpu);
	if (this->bound.weight)
		__sync_fetch_and_add(&this->bound.vtime, vtime_for(work, this->bound.weight));
	advance(&this->own, work);
	/* They are owed nothing, because they can get no more than the CPU. */
	if (bound_are_worth_cpu(this))
		give(clock, &this->bound, -lag_of(clock, &this->bound));
}

/* Charges @p, which runs on @cpu, in virtual time. Returns its running time since the last charge, in ns. */
__noinline u64 charge_vtime(struct task_struct *p __arg_trusted, struct task_state *t __arg_nonnull, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 now = bpf_ktime_get_ns(), ran = p->se.sum_exec_runtime - t->seen;
	u64 work = ran * speed_of(this) / SCHED_POWER_SCALE, weight;

	WRITE_ONCE(this->charged_at, now);
	t->seen += ran;
	t->burst_so_far += ran;
	enter_clock(p, t, cpu, now);
	count_runnable(t, true);
	find_weight(t);
	note_work(t, work, now);
	if (t->bound_to)
		charge_bound(cpu, work);
	weight = feasible_weight(t);
	reweigh(clock_of(t), &t->fair, weight);
	check(t->fair.weight > 0);
	check(READ_ONCE(clock_of(t)->weight) >= (s64)t->fair.weight);
	check(weight_of_debtors(clock_of(t)) <= READ_ONCE(clock_of(t)->weight));
	t->fair.vtime += vtime_for(work, weight);
	write_cluster(c);
	advance(&c->clock, work);
	return ran;
}

/*
 * Charges @p, which runs on @cpu, also against its groups' limits. (Not in charge_vtime(): BPF calls are at most 8
 * deep.)
 */
static __always_inline u64 charge(struct task_struct *p, struct task_state *t, u32 cpu)
{
	u64 ran = charge_vtime(p, t, cpu);

	if (READ_ONCE(nr_limits) && t->share)
		charge_limits(t->share, ran);
	return ran;
}

/*
 * Charges @p, which has run on @cpu and does not sleep yet. A task that requests a long slice may be owed two of
 * them, as in entity_lag(), because it waits for longer.
 */
static __always_inline void charge_running(struct task_struct *p, struct task_state *t, u32 cpu)
{
	u64 slices = 2 * slice_of(p);

	charge(p, t, cpu);
	bound_lag(clock_of(t), &t->fair, slices > tunables.lag ? slices : tunables.lag);
	show_running(cpu_at(cpu), p, t);
}

#endif /* __EQUIPOISE_PLACE_H */
