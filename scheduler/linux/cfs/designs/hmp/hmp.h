/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Linaro's big.LITTLE MP scheduler (CONFIG_SCHED_HMP), as in Linaro's stable kernel (LSK) 3.10. Tasks are moved
 * between fast and slow CPUs by their own tracked load, and domains that have both kinds are not balanced:
 *
 *  - A new task, unless it is a kernel thread, starts on a fast CPU, as if it had always been running.
 *  - A task whose load has reached the up threshold goes to a fast CPU that is idle: when it wakes up, when a
 *    fast CPU runs out of work, and when any CPU's periodic balance finds it.
 *  - A task that wakes up with a load below the down threshold goes to a slow CPU. Small tasks may be packed on the
 *    slow CPUs: the first CPU takes them until it is full.
 *  - If all fast CPUs are busy, one of them has two or more tasks and a slow CPU is idle, the lightest of these
 *    tasks goes to the slow CPU, provided that it gets no more than three quarters of the time that it needs.
 *  - After a task has moved between fast and slow CPUs, it may not move in the same direction again for some time,
 *    except to a fast CPU that runs out of work, or from one that has too many tasks.
 */
#ifndef __EQUIPOISE_HMP_H
#define __EQUIPOISE_HMP_H

#include "../candidate.bpf.h"

/* hmp_max_tasks: the number of waiting tasks of a runqueue that are considered. */
#define HMP_MAX_TASKS 5
/* The load above which packing excludes a task: nine tenths of a CPU. */
#define HMP_LARGE_TASK (NICE_0_LOAD * 90 / 100)
/* If a task runs for more than this part of its runnable time, in 1024ths, it counts as not starved. */
#define HMP_NOT_STARVING 768

static __always_inline bool hmp_enabled(void)
{
	return policy.hmp == HMP_LINARO && machine.asymmetric;
}

static __always_inline bool hmp_pull_expected(const struct fair_rq *rq)
{
	return rq->design.hmp.wake_for_idle_pull;
}

/*
 * Clears a request whose kick came between ops.dispatch() and the idle task, and so had no effect, so that this CPU
 * can be asked again.
 */
static __always_inline void hmp_update_idle(struct fair_rq *rq)
{
	rq->design.hmp.wake_for_idle_pull = false;
}

static __always_inline void hmp_add_entity(struct fair_rq *rq, const struct fair_entity *se)
{
	if (hmp_enabled())
		__sync_fetch_and_add(&rq->design.hmp.load_avg_ratio, (u64)se->design.hmp.load_avg_ratio);
}

static __always_inline void hmp_remove_entity(struct fair_rq *rq, const struct fair_entity *se)
{
	if (hmp_enabled())
		__sync_fetch_and_add(&rq->design.hmp.load_avg_ratio, -(u64)se->design.hmp.load_avg_ratio);
}

static __always_inline void hmp_update_entity_load(struct fair_entity *se, struct fair_rq *rq)
{
	u64 ratio;

	if (!hmp_enabled())
		return;
	ratio = pelt_avg(&se->avg, se->avg.runnable_sum, NICE_0_LOAD);
	if (rq)
		__sync_fetch_and_add(&rq->design.hmp.load_avg_ratio, ratio - se->design.hmp.load_avg_ratio);
	se->design.hmp.load_avg_ratio = ratio;
}

static __always_inline void hmp_set_curr(struct fair_rq *rq, const struct fair_entity *se)
{
	rq->curr.design.hmp.load_avg_ratio = se->design.hmp.load_avg_ratio;
}

/* A runqueue counts as busy if its tasks have any load, however small. */
static __always_inline bool hmp_busy(u32 cpu)
{
	return READ_ONCE(rq_of(cpu)->design.hmp.load_avg_ratio);
}

/* The time of the last migration to @cpu (struct hmp_rq), in ns. */
static __always_inline u64 hmp_last(u32 cpu)
{
	const struct hmp_rq *hmp = &rq_of(cpu)->design.hmp;

	return hmp->last_up ? hmp->last_up : hmp->last_down;
}

/* The idle CPU of @group to which no task has moved for the longest time (hmp_last()), or -1. */
__noinline s32 hmp_idle_cpu(u32 group)
{
	const struct group *sg = group_at(group);
	u64 oldest = ~0ULL;
	s32 found = -1;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		u64 last = hmp_last(cpu);

		if (!hmp_busy(cpu) && last < oldest) {
			oldest = last;
			found = cpu;
		}
	}
	return found;
}

/*
 * hmp_domain_min_load(): the CPU of @group for @p, which is an idle one if there is any. Among equals, it is the
 * one to which no task has moved for the longest time. Returns -1 if @p may use no CPU of @group.
 */
__noinline s32 hmp_min_load_cpu(struct task_struct *p __arg_trusted, u32 group)
{
	const struct group *sg = group_at(group);
	u64 oldest = ~0ULL;
	bool busy = true;
	s32 found = -1;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		u64 last = hmp_last(cpu);

		if (!task_allowed(p, cpu) || (hmp_busy(cpu) && !busy))
			continue;
		if (found < 0 || busy != hmp_busy(cpu) || last < oldest) {
			busy = hmp_busy(cpu);
			oldest = last;
			found = cpu;
		}
	}
	return found;
}

static __always_inline void hmp_next_up_delay(struct fair_entity *se, u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_for_update(cpu);

	se->design.hmp.last_up = rq->design.hmp.last_up = now;
	se->design.hmp.last_down = rq->design.hmp.last_down = 0;
}

static __always_inline void hmp_next_down_delay(struct fair_entity *se, u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_for_update(cpu);

	se->design.hmp.last_down = rq->design.hmp.last_down = now;
	se->design.hmp.last_up = rq->design.hmp.last_up = 0;
}

/* Counts a move, unless both CPUs are of one kind. */
static __always_inline void hmp_count(u32 from, u32 to)
{
	if (is_fast(to) && !is_fast(from))
		this_counters()->up_migrations++;
	else if (is_fast(from) && !is_fast(to))
		this_counters()->down_migrations++;
}

__noinline bool hmp_note_migration(struct candidate *best __arg_nonnull, bool up, u64 now)
{
	struct task_struct *p = bpf_task_from_pid(best->pid);
	struct fair_entity *se;

	if (!p)
		return false;
	se = entity_of(p);
	if (se && up)
		hmp_next_up_delay(se, best->dst_cpu, now);
	else if (se)
		hmp_next_down_delay(se, best->dst_cpu, now);
	bpf_task_release(p);
	return true;
}

/* May there be another move in a direction, because the last one, @last, was long ago or never happened? */
static __always_inline bool hmp_stable(u64 last, u64 delay, u64 now)
{
	return now - last >= delay;
}

/* hmp_best_little_cpu(): the first slow CPU that would not be full with @p on it, or @prev_cpu. */
__noinline s32 hmp_best_little_cpu(struct task_struct *p __arg_trusted, u32 prev_cpu, u64 ratio)
{
	const struct group *sg = group_at(machine.slow_group);
	s32 found = prev_cpu;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (task_allowed(p, cpu) &&
		    READ_ONCE(rq_of(cpu)->design.hmp.load_avg_ratio) + ratio <= tunables.hmp_full_threshold) {
			found = cpu;
			break;
		}
	}
	return found;
}

/*
 * hmp_down_migration(), at a wakeup: the slow CPU to which the task goes, from a fast CPU or another slow one; -1
 * if the task does not go to a slow CPU.
 */
__noinline s32 hmp_wake_down(struct task_struct *p __arg_trusted, u32 prev_cpu, u64 now)
{
	struct fair_entity *se = entity_of(p);
	s32 cpu;

	if (!se)
		return -1;
	if (!is_fast(prev_cpu)) {
		if (!tunables.hmp_full_threshold)
			return -1;
	} else if (!hmp_stable(se->design.hmp.last_down, tunables.hmp_next_down, now) ||
		   se->design.hmp.load_avg_ratio >= tunables.hmp_down_threshold ||
		   first_allowed_cpu(p, machine.slow_group) < 0) {
		return -1;
	}
	if (tunables.hmp_full_threshold && se->design.hmp.load_avg_ratio <= HMP_LARGE_TASK)
		cpu = hmp_best_little_cpu(p, prev_cpu, se->design.hmp.load_avg_ratio);
	else
		cpu = hmp_min_load_cpu(p, machine.slow_group);
	if (cpu < 0 || cpu == (s32)prev_cpu)
		return -1;
	explain(light_down, p->pid, cpu, se->design.hmp.load_avg_ratio, tunables.hmp_down_threshold, prev_cpu);
	hmp_next_down_delay(se, cpu, now);
	hmp_count(prev_cpu, cpu);
	return cpu;
}

/* The CPU for @p, which wakes up, was on @prev_cpu, and would go to @new_cpu by the general rules. */
__noinline s32 hmp_select_task_rq(struct task_struct *p __arg_trusted, u32 prev_cpu, u32 new_cpu, u64 now)
{
	struct fair_entity *se = entity_of(p);
	s32 cpu;

	if (!se)
		return new_cpu;
	if (!is_fast(prev_cpu) && se->design.hmp.load_avg_ratio >= tunables.hmp_up_threshold &&
	    hmp_stable(se->design.hmp.last_up, tunables.hmp_next_up, now)) {
		cpu = hmp_min_load_cpu(p, machine.fast_group);
		if (cpu >= 0 && !hmp_busy(cpu)) {
			explain(heavy_up, p->pid, cpu, se->design.hmp.load_avg_ratio, tunables.hmp_up_threshold,
				prev_cpu);
			hmp_next_up_delay(se, cpu, now);
			hmp_count(prev_cpu, cpu);
			return cpu;
		}
	}
	cpu = hmp_wake_down(p, prev_cpu, now);
	if (cpu >= 0)
		return cpu;
	return is_fast(new_cpu) == is_fast(prev_cpu) ? new_cpu : prev_cpu;
}

/* The fast CPU on which a new task starts; -1 for a kernel thread, or a task that may use no fast CPU. */
__noinline s32 hmp_select_fork(struct task_struct *p __arg_trusted, u64 now)
{
	struct fair_entity *se = entity_of(p);
	s32 cpu;

	if (!se || p->flags & PF_KTHREAD)
		return -1;
	cpu = hmp_min_load_cpu(p, machine.fast_group);
	if (cpu >= 0)
		explain(fork_fast, p->pid, cpu);
	if (cpu >= 0)
		hmp_next_up_delay(se, cpu, now);
	return cpu;
}

/* Starts @p, a new task, as if it had always been running, unless it is a kernel thread. */
static __always_inline void hmp_init_task(const struct task_struct *p, struct fair_entity *se)
{
	if (!hmp_enabled() || p->flags & PF_KTHREAD)
		return;
	se->avg.period_sum = LOAD_AVG_MAX;
	se->avg.runnable_sum = LOAD_AVG_MAX;
	se->avg.running_sum = LOAD_AVG_MAX;
	se->design.hmp.load_avg_ratio = NICE_0_LOAD - 1;
}

/* If the slow CPU @cpu has a task for an idle fast CPU, makes that fast CPU pull the task. */
static __always_inline bool hmp_offer_up(u32 cpu, u64 now)
{
	struct candidate *best = &this_candidates()->first;
	s32 dst = hmp_idle_cpu(machine.fast_group);

	if (dst < 0)
		return false;
	look_for(best, KEY_RATIO, false, dst);
	consider_rq(best, cpu, HMP_MAX_TASKS, now);
	if (!best->pid || best->key < (s64)tunables.hmp_up_threshold ||
	    !hmp_stable(best->hmp_last_up, tunables.hmp_next_up, now))
		return false;
	rq_for_update(dst)->design.hmp.wake_for_idle_pull = true;
	kick_cpu(dst, SCX_KICK_IDLE);
	return true;
}

/* If all fast CPUs are busy and fast @cpu has too many tasks, moves one of these to an idle slow CPU. */
static __always_inline void hmp_offload_down(u32 cpu, u64 now)
{
	struct candidate *best = &this_candidates()->first;
	s32 dst;

	if (rq_of(cpu)->nr_running < 2 || hmp_idle_cpu(machine.fast_group) >= 0)
		return;
	dst = hmp_idle_cpu(machine.slow_group);
	if (dst < 0)
		return;
	look_for(best, KEY_RATIO, true, dst);
	consider_rq(best, cpu, HMP_MAX_TASKS, now);
	if (!best->pid || best->usage > HMP_NOT_STARVING)
		return;
	hmp_note_migration(best, false, now);
	if (!move_candidate(best, now))
		return;
	hmp_count(cpu, dst);
	explain(light_offloaded, best->pid, dst, cpu, rq_of(cpu)->nr_running);
}

/* hmp_force_up_migration(), before each periodic balance: checks all CPUs. */
__noinline bool hmp_force_up_migration(u64 now)
{
	int cpu;

	if (!trylock_candidates())
		return false;
	bpf_for(cpu, 0, nr_cpus()) {
		if (!rq_of(cpu)->curr.pid || rq_of(cpu)->active_balance)
			continue;
		if (is_fast(cpu))
			hmp_offload_down(cpu, now);
		else if (hmp_offer_up(cpu, now))
			break;
	}
	unlock_candidates();
	return true;
}

/*
 * hmp_idle_pull(): pulls, for @this_cpu, which has nothing to run, the heaviest task that may go up, if @this_cpu
 * is fast.
 */
__noinline bool hmp_idle_pull(u32 this_cpu, u64 now)
{
	const struct group *sg = group_at(machine.slow_group);
	struct candidate *best = &this_candidates()->first;
	bool pulled = false;
	int i;

	rq_for_update(this_cpu)->design.hmp.wake_for_idle_pull = false;
	if (!is_fast(this_cpu) || !trylock_candidates())
		return false;
	look_for(best, KEY_RATIO, false, this_cpu);
	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);

		if (rq_of(cpu)->curr.pid)
			consider_rq(best, cpu, HMP_MAX_TASKS, now);
	}
	if (best->pid && best->key >= (s64)tunables.hmp_up_threshold && !rq_of(best->cpu)->active_balance) {
		hmp_note_migration(best, true, now);
		pulled = move_candidate(best, now);
		if (pulled) {
			hmp_count(best->cpu, this_cpu);
			explain(heavy_pulled, best->pid, this_cpu, best->key, tunables.hmp_up_threshold, best->cpu);
		}
	}
	unlock_candidates();
	return pulled;
}

/*
 * find_new_ilb(): the idle CPU that balances for the idle CPUs of @call_cpu's kind, or -1. It balances only if a
 * CPU of that kind has a task too many. Among slow CPUs with packing, it balances only if a CPU without a tick is
 * full; this is the condition as Linaro shipped it.
 */
__noinline s32 hmp_find_new_ilb(u32 call_cpu)
{
	const struct group *sg = group_at(is_fast(call_cpu) ? machine.fast_group : machine.slow_group);
	bool packed = !is_fast(call_cpu) && tunables.hmp_full_threshold, needed = false;
	s32 ilb = -1;
	int i;

	bpf_for(i, 0, sg->weight) {
		u32 cpu = nth_cpu(sg, i);
		struct fair_rq *rq = rq_of(cpu);

		if (rq->tick_stopped) {
			if (ilb < 0)
				ilb = cpu;
			needed |= packed && rq->design.hmp.load_avg_ratio > tunables.hmp_full_threshold;
		} else {
			needed |= !packed && cpu_nr_running(cpu) > 1;
		}
	}
	return needed ? ilb : -1;
}

#endif /* __EQUIPOISE_HMP_H */
