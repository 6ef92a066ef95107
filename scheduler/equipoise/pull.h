/* SPDX-License-Identifier: GPL-2.0-only */
/* Between clusters: work for an idle CPU, faster CPUs for tasks on slower ones, and equal progress. */
#ifndef __EQUIPOISE_PULL_H
#define __EQUIPOISE_PULL_H

#include "held.h"
#include "wait.h"

/* Takes a task that a CPU of @cluster keeps in its own queue. */
__noinline bool pull_kept(u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	u64 keeping = READ_ONCE(c->keeping);
	int slot;

	if (!keeping)
		return false;
	bpf_for(slot, 0, c->nr_cpus) {
		u32 cpu = nth_of_cluster(c, slot);

		if (!has_bit(keeping, slot))
			continue;
		if (take_first(own_dsq(cpu))) {
			this_counters()->pulled++;
			explain(takes_kept, 0, bpf_get_smp_processor_id(), cpu);
			return true;
		}
		none_kept(cpu);
	}
	return false;
}

/* Takes a waiting task of another cluster: faster clusters first, then near ones. */
__noinline bool take_waiting(u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	int i;

	bpf_for(i, 0, nr_clusters) {
		u32 other = c->order[i & (MAX_CLUSTERS - 1)];

		if (other == cluster)
			continue;
		read_cluster(cluster_at(other));
		if (pull_kept(other))
			return true;
		if (!may_wait(other))
			continue;
		if (take_first(cluster_dsq(other))) {
			explain(takes_waiting, 0, bpf_get_smp_processor_id(), cluster_at(other)->cpu[0]);
			return true;
		}
		nothing_found(other);
	}
	return false;
}

/* A CPU of @cluster has run out of work: takes a waiting task, and counts that. */
static __always_inline bool pull_waiting(u32 cluster)
{
	struct counters *counters = this_counters();
	u64 began = bpf_ktime_get_ns();
	bool found = take_waiting(cluster);

	counters->newidle_calls++;
	counters->newidle_pulled += found;
	counters->newidle_ns += bpf_ktime_get_ns() - began;
	return found;
}

/*
 * The task that runs on @cpu, if it may run on @to, too, and its progress is known; otherwise NULL. Without the
 * check of its affinity, a task would stop for nothing at each tick of the CPU that asks.
 */
static __always_inline const struct task_struct *may_move(u32 cpu, u32 to)
{
	const struct task_struct *curr = running_on(cpu);

	return curr && curr->prio >= MAX_RT_PRIO && curr->nr_cpus_allowed != 1 && curr->pid == cpu_at(cpu)->pid &&
			       running_allowed(curr, to)
		       ? curr
		       : NULL;
}

/*
 * Notes the running task of @cluster with the least progress, if that is less than best->progress. Only tasks count
 * that may run on best->to and whose CPUs are slower than best->to now. Progress is as of the last tick or switch.
 * A task that has just come from another cluster is left alone, unless an idle CPU takes it over (@arrived).
 */
__noinline bool most_behind(struct seen_running *best __arg_nonnull, u32 cluster, bool arrived)
{
	u32 speed = speed_of(cpu_at(best->to));
	struct cluster *c = cluster_at(cluster);
	int slot;

	bpf_for(slot, 0, c->nr_cpus) {
		u32 cpu = nth_of_cluster(c, slot);
		const struct cpu_state *other = cpu_at(cpu);
		const struct task_struct *curr;

		if (has_bit(READ_ONCE(c->idle), slot) || READ_ONCE(other->request) ||
		    (READ_ONCE(other->arrived) && !arrived) || speed_of(other) >= speed)
			continue;
		curr = may_move(cpu, best->to);
		if (!curr || READ_ONCE(other->progress) >= best->progress)
			continue;
		best->pid = curr->pid;
		best->cpu = cpu;
		best->progress = READ_ONCE(other->progress);
	}
	return best->pid;
}

/* Asks @cpu for its running task. Returns false if another request is pending there. */
static __always_inline bool ask_for_running(u32 cpu, u64 request)
{
	simulated_write(cpu);
	if (!post_request(&cpu_at(cpu)->request, request))
		return false;
	this_counters()->active_balances++;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* The cost of two moves, in ns, some tens of us each: a task that is taken over for a nap goes and comes back. */
#define TWO_MOVES (100 * 1000)

/*
 * @this_cpu is idle and may take no waiting task: if slower CPUs are busy, it takes over the running task that is
 * most behind there, unless that would slow down the busy sibling thread of its core. If its own task usually comes
 * back before the moves would have paid for themselves, the CPU first waits twice as long as that takes: a task
 * that is not back by then sleeps for long. Returns the time for which the CPU waits, in ns, or 0.
 */
__noinline u64 pull_running(u32 this_cpu)
{
	struct seen_running *best = this_seen_running();
	struct cpu_state *this = cpu_at(this_cpu);
	struct cluster *c = cluster_at(this->cluster);
	s64 nap = this->back_at - bpf_ktime_get_ns();
	u64 wait = 0;
	int i;

	if (busy_siblings(this))
		return 0;
	best->pid = 0;
	best->to = this_cpu;
	best->progress = ~0ULL;
	bpf_for(i, 0, nr_clusters) {
		const struct cluster *other = cluster_at(i);
		u64 pays_after;

		if (!is_faster(c, other) || READ_ONCE(other->idle) == slots_of(other))
			continue;
		pays_after = (u64)TWO_MOVES * c->speed / (c->speed - other->speed);
		if (nap <= 0 || nap > (s64)pays_after)
			most_behind(best, i, true);
		else
			wait = 2 * pays_after;
	}
	if (!best->pid)
		return wait;
	if (!ask_for_running(best->cpu, make_request(REQUEST_SEND, this_cpu, best->pid, 0)))
		return 0;
	this_counters()->up_migrations++;
	explain(faster_takes, best->pid, this_cpu, best->cpu, cluster_of(best->cpu)->capacity, c->capacity);
	return 0;
}

/*
 * Sends @p, which runs on @cpu, to an idle CPU of a cluster with at least @speed, faster ones first, then near
 * ones; on a fully idle core if @cores. Returns that CPU, or -1 if there is none that @p may use.
 */
__noinline s32 send_away(struct task_struct *p __arg_trusted, u32 cpu, u64 speed, bool cores)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	int i;

	if (is_pinned(p) || READ_ONCE(this->request))
		return -1;
	bpf_for(i, 0, nr_clusters) {
		u32 index = c->order[i & (MAX_CLUSTERS - 1)];
		struct cluster *other = cluster_at(index);
		u64 idle = other->speed >= speed ? idle_of(other, cores) : 0;
		s32 to = idle ? claim_allowed(p, index, idle) : -1;

		if (to >= 0)
			return send_to_claimed(this, p->pid, to) ? to : -1;
	}
	return -1;
}

/*
 * At a tick of @cpu while others idle: sends its task, @p, to an idle core that serves it clearly better. Where two
 * tasks share a core, the idle core may even be somewhat slower than the task is now, because the other task gains.
 * If the other task already leaves, this one stays.
 */
static __always_inline bool offer_running(struct task_struct *p, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 others = busy_siblings(this), speed = c->speed * ALIKE_PCT / 100 + 1;
	s32 to;

	if (others) {
		if (tunables.prefer == PREFER_POWER ||
		    READ_ONCE(cpu_at(nth_of_cluster(c, __builtin_ctzll(others)))->request))
			return false;
		speed = c->shared_speed * 100 / WORTH_A_MOVE_PCT;
	} else if (!unlike) {
		return false;
	}
	to = send_away(p, cpu, speed, true);
	if (to < 0)
		return false;
	if (is_faster(cluster_of(to), c))
		this_counters()->up_migrations++;
	explain(better_idles, p->pid, to, cpu, speed_of(this), cluster_of(to)->speed);
	return true;
}

/*
 * At a tick of a CPU for which tasks wait that may use no idle CPU: its own task, @p, moves to an idle CPU and
 * makes room. By virtual time alone, tasks that are bound here would wait while other CPUs idle: a loop of nice -16
 * needs half a second to get 14 ms ahead.
 */
static __always_inline bool leave_room(struct task_struct *p, u32 cpu)
{
	s32 to;

	if (is_pinned(p) || (find_first_queue(cpu) == NO_VTIME && !is_waited_for(cpu)))
		return false;
	to = send_away(p, cpu, 0, false);
	if (to < 0)
		return false;
	this_counters()->active_balances++;
	explain(makes_room, p->pid, to, cpu);
	return true;
}

/* May a CPU of @other be slower than @this now: always, or while it shares its core? */
static __always_inline bool may_be_slower(const struct cluster *other, const struct cpu_state *this)
{
	return other->shared_speed < speed_of(this);
}

/* Does @this compare its task with those of its own cluster? */
static __always_inline bool compares_own(const struct cpu_state *this)
{
	return this->compared == this->cluster;
}

/* The slots of the CPUs of this->compared, other than @this, that keep tasks. */
static __always_inline u64 others_keep(const struct cpu_state *this)
{
	return READ_ONCE(cluster_at(this->compared)->keeping) & ~(compares_own(this) ? bit(this->slot) : 0);
}

/*
 * The next cluster to whose tasks @p, which runs on @this, may have to give way: another one with waiting tasks or
 * with slower CPUs, or any one, its own included, where other CPUs keep tasks. NULL if there is none. A tick looks
 * at one cluster at most, because reading the queues of other caches takes microseconds (2 % of all time on 160
 * CPUs of eight nodes when each tick read all of them).
 */
static __always_inline struct cluster *next_to_compare(struct task_struct *p, struct cpu_state *this)
{
	u64 waiting = READ_ONCE(waiting_clusters);
	int i;

	bpf_for(i, 0, nr_clusters) {
		struct cluster *other;

		this->compared = this->compared + 1 < nr_clusters ? this->compared + 1 : 0;
		other = cluster_at(this->compared);
		if (others_keep(this) || (may_be_slower(other, this) && !is_pinned(p)) ||
		    (!compares_own(this) && has_bit(waiting, this->compared)))
			return other;
	}
	return NULL;
}

/*
 * The number of tasks of a queue that one tick compares, reading a cache line of each. With 16, a periodic thread
 * with the earliest deadline waited for tasks of a herd more often.
 */
#define TASKS_COMPARED 4

/*
 * Notes the task with the least progress among the first @most of @dsq that may run on best->to, if it has less
 * than best->progress.
 */
__noinline bool least_waiting(struct seen_running *best __arg_nonnull, u64 dsq, u32 most, u64 now)
{
	struct task_struct *p;
	u32 looked = 0, compared = 0;

	forget_origin(looked);
	bpf_for_each(scx_dsq, p, dsq, 0) {
		const struct task_state *t = task_allowed(p, best->to) ? task_of(p) : NULL;

		if (t && progress_of(t, now) < best->progress) {
			best->progress = progress_of(t, now);
			best->pid = p->pid;
		}
		if (++looked >= TASKS_LOOKED_AT || (t && ++compared >= most))
			break;
	}
	return best->pid;
}

/*
 * The number of tasks of a queue of this->compared that @this compares. Looking only at the first one is not
 * enough: tasks that move between clusters with their lag may keep the last one of a queue from running.
 */
static __always_inline u32 tasks_compared(const struct cpu_state *this)
{
	return compares_own(this) ? 1 : TASKS_COMPARED;
}

/* Is the task that runs on @cpu worth a CPU or, if it is bound, are all tasks that are bound there? */
static __always_inline bool runs_worth_cpu(u32 cpu)
{
	const struct cpu_state *this = cpu_at(cpu);
	const struct cluster *c = cluster_at(this->cluster);

	return READ_ONCE(this->runs_bound) ? bound_are_worth_cpu(this)
					   : is_worth_cpu(c, running_weight(c, this->slot));
}

/*
 * The next CPU of this->compared to compare with @this: one that keeps tasks or, in another cluster, any CPU if
 * none keeps tasks; -1: there is none.
 */
static __always_inline s32 next_of_compared(struct cpu_state *this)
{
	const struct cluster *c = cluster_at(this->compared);
	u64 slots = others_keep(this), later;

	if (!slots && !compares_own(this))
		slots = slots_of(c);
	if (!slots)
		return -1;
	later = slots & ~((2ULL << (this->compared_slot & (CLUSTER_CPUS - 1))) - 1);
	this->compared_slot = __builtin_ctzll(later ?: slots);
	return nth_of_cluster(c, this->compared_slot);
}

/*
 * A task that is worth a CPU has one wherever it runs, but a task that waits for that CPU may be bound to it: a
 * loop of nice 0, bound to one of the two CPUs of a loop of nice -19, got 0.02 of a CPU where it was due 0.44. Each
 * call looks at the next CPU of the cluster that @cpu compares. If that CPU's task is worth a CPU, and a task that
 * waits there has less progress than best->progress, the CPU is asked to send its task to @cpu.
 */
__noinline bool ask_for_room(struct seen_running *best __arg_nonnull, u32 cpu, u64 now)
{
	struct cpu_state *this = cpu_at(cpu);
	s32 keeper = next_of_compared(this);
	const struct task_struct *curr = keeper >= 0 ? may_move(keeper, cpu) : NULL;
	u64 dsq = own_dsq(keeper);

	if (!curr || !runs_worth_cpu(keeper))
		return false;
	if (!compares_own(this)) {
		find_first_of(this->compared, bit(cpu_at(keeper)->slot), keeper);
		dsq = this_first()->dsq;
	}
	best->to = keeper;
	if (!least_waiting(best, dsq, tasks_compared(this), now) ||
	    !ask_for_running(keeper, make_request(REQUEST_SEND, cpu, curr->pid, 0)))
		return false;
	explain(makes_room, curr->pid, cpu, keeper);
	return true;
}

enum evened {
	/* Nothing changes. */
	EVEN,
	/* The running task stops. */
	EVEN_STOPS,
	/* The running task continues until the task with which it changes places arrives. */
	EVEN_SWAPS,
};

/*
 * Does @t, which runs on @cpu with @progress, stop for a task behind it that waits in @dsq, a queue of the cluster
 * that the CPU compares? For a task that one CPU of another cluster keeps, @t stops only if the tasks bound there
 * weigh more, relative to the speed of their CPU, than those bound here or, if @t is not bound, than @t. For a task
 * that any CPU there may take, @t continues if it has had no more than is fair there, or if the load there is not
 * larger: progress lags, so all CPUs would take tasks until theirs is crowded.
 */
static __always_inline bool gives_way(const struct task_state *t, u64 progress, u32 cpu, u64 dsq)
{
	u32 index = cpu_at(cpu)->compared;
	const struct cluster *own = cluster_of(cpu), *other = cluster_at(index);

	if (dsq != cluster_dsq(index))
		return other == own || bound_weight(dsq - own_dsq(0)) * own->speed >
					       (t->bound_to ? bound_weight(cpu) : t->full_weight) * other->speed;
	return progress > fair_progress(other) && load_of(other, 0) > load_of(own, 0);
}

/*
 * At a tick of a CPU whose task, @p, may be ahead of tasks elsewhere: if a running task on a slower CPU is behind,
 * the two swap; if a waiting task is behind, this CPU takes it.
 */
__noinline u32 even_out(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull, u32 cpu)
{
	struct seen_running *best = this_seen_running();
	struct cpu_state *this = cpu_at(cpu);
	u64 now = t->recent_at, progress, apart, dsq;
	struct cluster *other;
	s32 waiting;

	if (time_before(now, this->look_at))
		return EVEN;
	this->look_at = now + tunables.unfairness;
	other = next_to_compare(p, this);
	if (!other)
		return EVEN;
	progress = progress_of(t, now);
	apart = vtime_for(tunables.unfairness, t->full_weight ?: 1);
	best->pid = 0;
	best->to = cpu;
	best->progress = progress > apart ? progress - apart : 0;
	if ((!compares_own(this) || others_keep(this)) &&
	    find_first_of(this->compared, READ_ONCE(other->keeping), cpu) != NO_VTIME)
		least_waiting(best, this_first()->dsq, tasks_compared(this), now);
	waiting = best->pid;
	dsq = this_first()->dsq;
	best->pid = 0;
	if (!may_be_slower(other, this) || is_pinned(p) || !most_behind(best, this->compared, false)) {
		if (!waiting)
			ask_for_room(best, cpu, now);
		else if (gives_way(t, progress, cpu, dsq) &&
			 post_request(&this->request, make_request(REQUEST_PULL, this->compared, waiting, 0)))
			return EVEN_STOPS;
		return EVEN;
	}
	if (READ_ONCE(this->request) || is_waited_for(cpu) || !task_allowed(p, best->cpu) ||
	    !ask_for_running(best->cpu, make_request(REQUEST_SWAP, cpu, best->pid, p->pid)))
		return EVEN;
	this_counters()->swaps++;
	explain(change_places, best->pid, cpu, p->pid, progress - best->progress);
	return EVEN_SWAPS;
}

/*
 * @p has stopped on @cpu: sends it where @request asked for it. Returns false if @p is not the task that was asked
 * for or may not run there, if another task has arrived there first, or if a higher class has that CPU.
 */
__noinline bool push(struct task_struct *p __arg_trusted, u32 cpu, u64 request, u64 enq_flags)
{
	u32 to = request_target(request);

	if (!take_this_request(&cpu_at(cpu)->request, request))
		return false;
	if (request_pid(request) != p->pid || is_pinned(p) || !task_allowed(p, to) || is_waited_for(to) ||
	    is_taken(to)) {
		drop_request(request);
		return false;
	}
	explain(sent, p->pid, to, cpu);
	/*
	 * The CPU that asked may have gone idle meanwhile without being claimed. Claim it, so that no waking task
	 * goes there, too, and waits.
	 */
	clear_idle(to);
	/* If another request is pending there, that CPU's task waits there like any preempted task. */
	if (request_kind(request) == REQUEST_SWAP)
		post_request(&cpu_at(to)->request, make_request(REQUEST_SEND, cpu, request_peer(request), 0));
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | to, SLICE_MAX, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

/*
 * The running task of @cluster that is furthest ahead, if its progress exceeds best->progress, it may run on
 * best->to, and @p may run on its CPU.
 */
__noinline bool most_ahead(struct seen_running *best __arg_nonnull, struct task_struct *p __arg_trusted,
			   u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	int slot;

	bpf_for(slot, 0, c->nr_cpus) {
		u32 cpu = nth_of_cluster(c, slot);
		const struct cpu_state *other = cpu_at(cpu);
		const struct task_struct *curr;

		if (has_bit(READ_ONCE(c->idle), slot) || READ_ONCE(other->request) || READ_ONCE(other->asked))
			continue;
		curr = may_move(cpu, best->to);
		if (!curr || READ_ONCE(other->progress) <= best->progress || !task_allowed(p, cpu))
			continue;
		best->pid = curr->pid;
		best->cpu = cpu;
		best->progress = READ_ONCE(other->progress);
	}
	return best->pid;
}

/*
 * @p wakes up, and the idle CPU @idle has been claimed for it. If a task on a faster CPU is clearly ahead, @p gets
 * that CPU, and that task goes to @idle: a task that naps seldom runs at a tick, when even_out() compares tasks.
 * Returns the CPU that @p gets.
 */
__noinline s32 place_of_ahead(struct task_struct *p __arg_trusted, struct task_state *t __arg_nonnull, u32 idle)
{
	struct seen_running *best = this_seen_running();
	const struct cluster *c = cluster_of(idle);
	u64 now = bpf_ktime_get_ns(), progress;
	int i;

	if (is_pinned(p))
		return idle;
	find_weight(t);
	progress = vtime_for(work_at_wakeup(t, now), t->full_weight ?: 1);
	best->pid = 0;
	best->to = idle;
	best->progress = progress + vtime_for(2 * tunables.unfairness, t->full_weight ?: 1);
	bpf_for(i, 0, nr_clusters) {
		u32 index = c->order[i & (MAX_CLUSTERS - 1)];

		if (!is_faster(cluster_at(index), c) || most_ahead(best, p, index))
			break;
	}
	if (!best->pid ||
	    !post_request(&cpu_at(best->cpu)->request, make_request(REQUEST_SEND, idle, best->pid, 0)))
		return idle;
	this_counters()->wakeup_preemptions++;
	note_stop(best->cpu, now);
	explain(takes_place, p->pid, best->cpu, best->pid, best->progress - progress, idle);
	return best->cpu;
}

#endif /* __EQUIPOISE_PULL_H */
