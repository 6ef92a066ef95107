/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Chooses a task and moves it between fast and slow CPUs: the task with the largest or smallest value on a
 * runqueue, waiting or running.
 */
#ifndef __EQUIPOISE_CANDIDATE_H
#define __EQUIPOISE_CANDIDATE_H

#include "../balance/active.h"

enum candidate_key {
	KEY_RATIO,    /* the runnable average */
	KEY_DRUNTIME, /* the time on fast CPUs less the time on slow CPUs */
};

/* The best candidate so far, and the data that decides whether it moves. */
struct candidate {
	/* The task's pid; 0 if there is none. */
	s32 pid;
	u32 cpu;
	s64 key;
	bool running;
	/* The candidate's running time relative to its runnable time, in 1024ths. */
	u32 usage;
	u64 hmp_last_up;

	/* The criterion: the lowest or highest key of a task that may use dst_cpu. */
	enum candidate_key by;
	bool lowest;
	u32 dst_cpu;
};

struct candidates {
	struct candidate first, second;
	/* The tick has a candidate of its own, because it may interrupt code that uses the other two candidates. */
	struct candidate of_tick;
} __attribute__((aligned(64)));

struct candidates all_candidates[MAX_CPUS];

static __always_inline struct candidates *this_candidates(void)
{
	return &all_candidates[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* The lock of the searches that only one CPU at a time may make. */
u32 candidates_lock;

static __always_inline bool trylock_candidates(void)
{
	return __sync_bool_compare_and_swap(&candidates_lock, 0, 1);
}

static __always_inline void unlock_candidates(void)
{
	__sync_lock_test_and_set(&candidates_lock, 0);
}

static __always_inline void look_for(struct candidate *best, enum candidate_key by, bool lowest, u32 dst_cpu)
{
	best->pid = 0;
	best->by = by;
	best->lowest = lowest;
	best->dst_cpu = dst_cpu;
}

/* Considers @p, which is on @cpu. If @running, @p is the running task, whose @key is in the runqueue. */
__noinline bool consider_task(struct candidate *best __arg_nonnull, struct task_struct *p __arg_trusted, u32 cpu,
			      s64 key, bool running)
{
	struct fair_entity *se = entity_of(p);

	if (!se || !task_allowed(p, best->dst_cpu))
		return false;
	if (best->pid && (best->lowest ? key >= best->key : key <= best->key))
		return false;
	best->pid = p->pid;
	best->cpu = cpu;
	best->key = key;
	best->running = running;
	best->usage = (u64)se->avg.running_sum * SCHED_LOAD_SCALE / (se->avg.runnable_sum + 1);
	best->hmp_last_up = se->design.hmp.last_up;
	return true;
}

/* The druntime of the task that runs on @rq, including its uncharged time. */
static __always_inline s64 curr_druntime(const struct fair_rq *rq, u64 now)
{
	const struct hperf_running *curr = &rq->curr.design.hperf;
	u64 ran = curr_vruntime(rq, now) - rq->curr.vruntime;

	return curr->fast ? curr->druntime + (s64)ran : curr->druntime - (s64)ran;
}

/* Considers the running task of @cpu, and the first @max waiting ones. */
__noinline bool consider_rq(struct candidate *best __arg_nonnull, u32 cpu, u32 max, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	struct task_struct *p = bpf_task_from_pid(rq->curr.pid);
	u32 looked = 0;

	if (p) {
		if (rq->curr.pid == p->pid && !is_migration_disabled(p))
			consider_task(best, p, cpu,
				      best->by == KEY_RATIO ? rq->curr.design.hmp.load_avg_ratio
							    : curr_druntime(rq, now),
				      true);
		bpf_task_release(p);
	}
	bpf_for_each(scx_dsq, p, cpu, 0) {
		struct fair_entity *se = entity_of(p);

		if (!se || ++looked > max)
			break;
		consider_task(best, p, cpu,
			      best->by == KEY_RATIO ? se->design.hmp.load_avg_ratio : se->design.hperf.druntime,
			      false);
	}
	return best->pid;
}

/* May the candidate use its dst_cpu, which may differ from the dst_cpu of the search? */
__noinline bool candidate_allowed(const struct candidate *best __arg_nonnull)
{
	struct task_struct *p = bpf_task_from_pid(best->pid);
	bool allowed;

	if (!p)
		return false;
	allowed = task_allowed(p, best->dst_cpu);
	bpf_task_release(p);
	return allowed;
}

/* Moves the candidate to its dst_cpu: at once if it waits; if it runs, as soon as its CPU answers the request. */
static __always_inline bool move_candidate(struct candidate *best, u64 now)
{
	if (!best->pid || best->cpu == best->dst_cpu)
		return false;
	if (best->running)
		return ask_push(best->cpu, best->dst_cpu, best->pid);
	return push_queued_task(best->cpu, best->dst_cpu, best->pid, now);
}

#endif /* __EQUIPOISE_CANDIDATE_H */
