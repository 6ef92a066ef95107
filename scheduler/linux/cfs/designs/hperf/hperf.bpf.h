/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policy hperf: the most throughput from fast and slow CPUs together, and equal shares of the fast ones, after
 *
 *	[PATCH 00/13] High performance balancing logic for big.LITTLE, Arseniy Krasnov, 2015-11-06
 *
 * CPUs of one kind are balanced among themselves as usual. Between the fast and the slow cluster:
 *
 *  - Each cluster's load is compared with its capacity: CPUs, their speed (the slowdown coefficient) and their
 *    frequency. If a cluster's load is too high relative to the other's, a task goes to the other cluster, down or
 *    up.
 *  - A task has a druntime. It grows while the task runs on a fast CPU and shrinks while it runs on a slow one, at
 *    the pace of its vruntime: if it is near 0, the task has had the same time on both kinds of CPUs. The task that
 *    leaves a cluster is the one that has spent the most time there: the highest druntime goes down, the lowest up.
 *  - If the clusters are in balance, these two tasks change places.
 *  - A fast CPU without work pulls from the slow ones. A slow CPU does not pull.
 *  - A waking or new task goes to an idle CPU, preferably a fast one, otherwise to the CPU with the least load
 *    relative to its capacity.
 *
 * These rules are ours, not the posting's:
 *
 *  - A task that has received less than other tasks, over all CPUs, comes first on the CPU to which it moves
 *    (hperf_clock, clock.bpf.h).
 *  - A new task, or one that slept, begins with a neutral druntime (clock.bpf.h).
 *  - A slow CPU's tick wakes an idle fast CPU that may run one of its tasks (hperf_tick()).
 */
#ifndef __EQUIPOISE_HPERF_H
#define __EQUIPOISE_HPERF_H

#include "../candidate.bpf.h"
#include "clock.bpf.h"

/* The number of waiting tasks of a runqueue that are considered. */
#define HPERF_MAX_TASKS 32

struct hperf_cluster {
	u64 nr_running;
	u64 nr_busy;
	u64 load;
	/* The sum of the CPUs' capacities at their frequencies. */
	u64 capacity;
	/* The CPU with the least load relative to its capacity, idle or not. */
	s32 idlest;
	bool has_idle;
};

struct hperf_stats {
	struct hperf_cluster fast, slow;
} __attribute__((aligned(64)));

struct hperf_stats all_hperf_stats[MAX_CPUS];

static __always_inline bool hperf_enabled(void)
{
	return policy.hmp == HMP_HPERF && machine.asymmetric;
}

static __always_inline bool hperf_pull_expected(const struct fair_rq *rq)
{
	return rq->design.hperf.wake_for_idle_pull;
}

/*
 * Clears a request whose kick came between ops.dispatch() and the idle task, and so had no effect, so that this CPU
 * can be asked again.
 */
static __always_inline void hperf_update_idle(struct fair_rq *rq)
{
	rq->design.hperf.wake_for_idle_pull = false;
}

/*
 * Updates the state of @se, which becomes runnable. A task that was behind the clock, or ahead of it, stays so
 * within limits; a new task begins at the clock. A lead in druntime stays.
 */
static __always_inline void hperf_enqueue_entity(struct fair_entity *se)
{
	struct hperf_entity *hse = &se->design.hperf;

	if (!hperf_enabled())
		return;
	hse->global_vruntime = hperf_clock.time + (se->forked ? 0 : hperf_ahead(hse->global_vruntime));
	hse->druntime = hperf_clock.druntime + (se->forked ? 0 : hse->druntime - hse->clock_druntime);
	hse->clock_druntime = hperf_clock.druntime;
}

/* Places @se, which moves to @cpu: a task that has received less than others, over all CPUs, comes first there. */
static __always_inline bool hperf_place_migrated(struct fair_entity *se, u32 cpu)
{
	if (!hperf_enabled())
		return false;
	se->vruntime = rq_of(cpu)->min_vruntime + hperf_ahead(se->design.hperf.global_vruntime);
	return true;
}

static __always_inline void hperf_set_curr(struct fair_rq *rq, const struct fair_entity *se)
{
	struct hperf_running *curr = &rq->curr.design.hperf;

	if (!hperf_enabled())
		return;
	curr->druntime = se->design.hperf.druntime;
	curr->fast = is_fast(se->cpu);
	rq->design.hperf.swap_stamp = 0;
}

static __always_inline void hperf_put_curr(const struct fair_rq *rq, struct fair_entity *se)
{
	if (!hperf_enabled())
		return;
	se->design.hperf.global_vruntime += rq->curr.vruntime - se->vruntime;
	se->design.hperf.druntime = rq->curr.design.hperf.druntime;
	se->design.hperf.clock_druntime = hperf_clock.druntime;
}

static __always_inline void hperf_update_curr(struct running *curr, u64 delta_fair)
{
	if (hperf_enabled())
		curr->design.hperf.druntime += curr->design.hperf.fast ? delta_fair : -delta_fair;
}

static __always_inline u64 hperf_capacity(u32 cpu)
{
	return (u64)power_orig_of(cpu) * scx_bpf_cpuperf_cur(cpu) / SCX_CPUPERF_ONE;
}

/* Is @cpu idle, with no task that runs, waits or is on its way there? */
static __always_inline bool hperf_idle(u32 cpu, u64 now)
{
	u64 stamp = rq_of(cpu)->design.hperf.swap_stamp;

	return !cpu_nr_running(cpu) && (!stamp || now - stamp >= machine.tick_ns);
}

__noinline bool hperf_cluster_stats(struct hperf_cluster *stats __arg_nonnull, u32 group, u64 now)
{
	const struct group *sg = group_at(group);
	u64 least = ~0ULL;
	int i;

	__builtin_memset(stats, 0, sizeof(*stats));
	stats->idlest = -1;
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		u64 load = READ_ONCE(rq_of(cpu)->load_weight), capacity = hperf_capacity(cpu);
		bool idle = hperf_idle(cpu, now);

		stats->nr_running += cpu_nr_running(cpu);
		stats->nr_busy += cpu_nr_running(cpu) > 0;
		stats->load += load;
		stats->capacity += capacity;
		stats->has_idle |= idle;
		/* Prefer an idle CPU to one that expects a task. */
		load = (load << 20) / (capacity ? capacity : 1) + !idle;
		if (load < least) {
			least = load;
			stats->idlest = cpu;
		}
	}
	return stats->has_idle;
}

enum hperf_imbalance {
	HPERF_BALANCED,
	HPERF_DOWN,
	HPERF_UP,
};

/*
 * Does @from have more load relative to its capacity than @to would have with an average task of @from in addition?
 */
static __always_inline bool hperf_too_high(const struct hperf_cluster *from, const struct hperf_cluster *to)
{
	u64 task = from->nr_running ? from->load / from->nr_running : 0;

	return from->load * to->capacity > (to->load + task) * from->capacity;
}

/*
 * is_hmp_imbalance(): fast CPUs come first; an idle slow CPU takes a task if the fast CPUs have more tasks than
 * they can run; otherwise loads follow capacities, as long as no CPU is left without work.
 */
static __always_inline enum hperf_imbalance is_hmp_imbalance(const struct hperf_stats *stats)
{
	const struct hperf_cluster *fast = &stats->fast, *slow = &stats->slow;
	u64 nr_fast = group_at(machine.fast_group)->weight, nr_slow = group_at(machine.slow_group)->weight;

	if (slow->nr_running && fast->has_idle)
		return HPERF_UP;
	if (fast->nr_running > nr_fast && (slow->has_idle || hperf_too_high(fast, slow)))
		return HPERF_DOWN;
	if (slow->nr_running > nr_slow && hperf_too_high(slow, fast))
		return HPERF_UP;
	return HPERF_BALANCED;
}

/*
 * Finds the task of @group that has spent the most time there and may use @dst_cpu, among the running and the first
 * HPERF_MAX_TASKS waiting tasks of each CPU. CPUs that have already been asked for a task are skipped.
 */
__noinline bool hperf_pick(struct candidate *best __arg_nonnull, u32 group, u32 dst_cpu, u64 now)
{
	const struct group *sg = group_at(group);
	int i;

	look_for(best, KEY_DRUNTIME, group == machine.slow_group, dst_cpu);
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (!rq_of(cpu)->active_balance)
			consider_rq(best, cpu, HPERF_MAX_TASKS, now);
	}
	return best->pid;
}

/* Moves the task that hperf_pick() finds to @dst_cpu, up or down. */
static __always_inline void hperf_move(struct candidate *best, bool up, u32 dst_cpu, u64 now)
{
	if (!hperf_pick(best, up ? machine.slow_group : machine.fast_group, dst_cpu, now))
		return;
	if (!move_candidate(best, now))
		return;
	rq_for_update(dst_cpu)->design.hperf.swap_stamp = now;
	if (up)
		explain(cluster_up, best->pid, dst_cpu, best->cpu);
	else
		explain(cluster_down, best->pid, dst_cpu, best->cpu);
	if (up)
		this_counters()->up_migrations++;
	else
		this_counters()->down_migrations++;
}

/*
 * Lets the two tasks that have spent the most time in their clusters change places, because the clusters are in
 * balance.
 */
static __always_inline void hperf_swap(struct candidates *best, const struct hperf_stats *stats, u64 now)
{
	struct candidate *down = &best->first, *up = &best->second;

	if (stats->fast.idlest < 0 || stats->slow.idlest < 0 ||
	    !hperf_pick(down, machine.fast_group, stats->slow.idlest, now) ||
	    !hperf_pick(up, machine.slow_group, down->cpu, now) || down->key <= up->key)
		return;
	/* A task that waited does not leave a CPU free. */
	if (!stats->slow.has_idle || up->running)
		down->dst_cpu = up->cpu;
	if (!candidate_allowed(down))
		return;
	/* Both CPUs expect a task, so neither counts as idle until it arrives. */
	rq_for_update(down->dst_cpu)->design.hperf.swap_stamp = now;
	rq_for_update(up->dst_cpu)->design.hperf.swap_stamp = now;
	if (!move_candidate(down, now))
		return;
	explain(cluster_swap, down->pid, down->dst_cpu, up->pid, down->cpu);
	if (!move_candidate(up, now)) {
		this_counters()->down_migrations++;
		return;
	}
	explain(cluster_swap, up->pid, up->dst_cpu, down->pid, up->cpu);
	this_counters()->swaps++;
}

/* Balances between the clusters, before each periodic balance. */
__noinline bool hperf_balance(u64 now)
{
	u32 this_cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	struct hperf_stats *stats = &all_hperf_stats[this_cpu];

	if (!trylock_candidates())
		return false;
	hperf_cluster_stats(&stats->fast, machine.fast_group, now);
	hperf_cluster_stats(&stats->slow, machine.slow_group, now);
	update_hperf_clock(stats->fast.nr_busy, stats->slow.nr_busy, stats->fast.load + stats->slow.load, now);
	switch (is_hmp_imbalance(stats)) {
	case HPERF_DOWN:
		hperf_move(&this_candidates()->first, false, stats->slow.idlest, now);
		break;
	case HPERF_UP:
		hperf_move(&this_candidates()->first, true, stats->fast.idlest, now);
		break;
	default:
		hperf_swap(this_candidates(), stats, now);
	}
	unlock_candidates();
	return true;
}

/*
 * If @this_cpu is fast and has nothing to run, pulls the task that has spent the most time on the slow CPUs. Slow
 * CPUs that have already been asked for a task are skipped. The search does not wait for the searches of other
 * CPUs. If two CPUs find the same task, one of them cannot move it, and takes the next task.
 */
__noinline bool hperf_idle_pull(u32 this_cpu, u64 now)
{
	struct candidate *best = &this_candidates()->first;
	bool pulled = false;
	int i;

	rq_for_update(this_cpu)->design.hperf.wake_for_idle_pull = false;
	if (!is_fast(this_cpu))
		explain(not_fast, 0, this_cpu);
	if (!is_fast(this_cpu) || !hperf_idle(this_cpu, now))
		return false;
	bpf_for(i, 0, group_at(machine.slow_group)->weight) {
		if (!hperf_pick(best, machine.slow_group, this_cpu, now))
			break;
		pulled = move_candidate(best, now);
		if (pulled)
			break;
	}
	if (pulled) {
		rq_for_update(this_cpu)->design.hperf.swap_stamp = now;
		this_counters()->up_migrations++;
		explain(cluster_up, best->pid, this_cpu, best->cpu);
	}
	return pulled;
}

/*
 * Handles a tick of @cpu: while a slow CPU has a task, no fast CPU that may run the task should be idle. Fast CPUs
 * that ran out of work have pulled; this check covers tasks that have been allowed onto a fast CPU since.
 */
__noinline bool hperf_tick(u32 cpu, u64 now)
{
	const struct group *sg = group_at(machine.fast_group);
	struct candidate *best = &this_candidates()->of_tick;
	int i;

	if (is_fast(cpu))
		return false;
	bpf_for(i, 0, sg->weight) {
		u32 idle = nth_cpu(sg, i);

		if (!idle_cpu(idle) || rq_of(idle)->design.hperf.wake_for_idle_pull)
			continue;
		look_for(best, KEY_DRUNTIME, true, idle);
		if (!consider_rq(best, cpu, HPERF_MAX_TASKS, now))
			continue;
		rq_for_update(idle)->design.hperf.wake_for_idle_pull = true;
		kick_cpu(idle, SCX_KICK_IDLE);
		return true;
	}
	return false;
}

/*
 * The CPU for @p: an idle CPU, preferably a fast one, otherwise the CPU with the least load relative to its
 * capacity. Among equal CPUs it is @prev_cpu, on which the task last ran.
 */
__noinline s32 hperf_select_task_rq(struct task_struct *p __arg_trusted, u32 prev_cpu)
{
	u64 least = ~0ULL;
	s32 found = -1;
	int cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		u64 load = READ_ONCE(rq_of(cpu)->load_weight), capacity = hperf_capacity(cpu);

		if (!task_allowed(p, cpu) || !capacity)
			continue;
		load = cpu_nr_running(cpu) ? (1ULL << 32) + (load + NICE_0_LOAD) * (1 << 20) / capacity
					   : (1ULL << 20) / capacity;
		if (load < least || (load == least && cpu == (int)prev_cpu)) {
			least = load;
			found = cpu;
		}
	}
	if (found < 0)
		return prev_cpu;
	explain(least_for_capacity, p->pid, found, prev_cpu);
	return found;
}

#endif /* __EQUIPOISE_HPERF_H */
