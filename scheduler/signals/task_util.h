/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The utilization of one fair task, relative to 1024 for the largest CPU at its highest frequency, and the CPU
 * whose utilization includes it. A CPU's utilization is the sum over its tasks, including sleeping ones, and moves
 * with tasks that change CPUs. This is as in Linux 4.17's kernel/sched/fair.c, except that the root's sum has no
 * control groups in between.
 *
 * A task that slept for a long time has used little recently but will use as much as before. The utilization at the
 * end of the last activation, and an average of such values (util_est), estimate that use; a CPU's estimate is the
 * sum over its runnable tasks.
 */
#ifndef __EQUIPOISE_TASK_UTIL_H
#define __EQUIPOISE_TASK_UTIL_H

#include "utilization.bpf.h"

/* UTIL_EST_WEIGHT_SHIFT: the last activation has a weight of a quarter. */
#define UTIL_EST_WEIGHT_SHIFT 2
/* A difference of less than one per cent is ignored. */
#define UTIL_EST_MARGIN (SCHED_POWER_SCALE / 100)

struct task_util {
	struct pelt avg;
	/* The CPU whose utilization includes that of the task, if any. */
	u32 cpu;
	bool attached;
	/* Whether no period has ended since the last estimate (UTIL_AVG_UNCHANGED). */
	bool unchanged;
	/* The utilization at the end of the last activation, and the average of such values. */
	u16 enqueued;
	u16 ewma;
};

static __always_inline bool tracks_task_util(void)
{
	return policy.frequency;
}

/* Updates @tu to @clock; since the last update the task ran, or not, on a CPU whose time counts @scale / 1024. */
static __always_inline void age_task_util(struct task_util *tu, u64 clock, bool running, u32 scale)
{
	if (update_pelt_scaled(&tu->avg, clock, true, running, scale))
		tu->unchanged = false;
}

/* As age_task_util(), for a task on this CPU, @cpu, by the clock of its runqueue. */
static __always_inline void update_task_util(struct task_util *tu, u32 cpu, bool running)
{
	struct rq *core = tracks_task_util() ? cpu_rq(cpu) : NULL;

	if (core)
		age_task_util(tu, core->clock_task, running,
			      scx_bpf_cpuperf_cur(cpu) * cpu_scale(cpu) / SCHED_POWER_SCALE);
}

/*
 * detach_entity_load_avg(), remove_entity_load_avg(): removes the task's utilization from its CPU. The utilization
 * of a sleeping task is first decayed to the time of that CPU's average.
 */
static __always_inline void detach_task_util(struct task_util *tu)
{
	struct cpu_util *util = cpu_util_of(tu->cpu);

	if (!tracks_task_util() || !tu->attached)
		return;
	if (time_before(tu->avg.last_update_time, util->avg[UTIL_FAIR].last_update_time))
		age_task_util(tu, util->avg[UTIL_FAIR].last_update_time, false, 0);
	__sync_fetch_and_add(&util->attached, -pelt_util(&tu->avg));
	tu->attached = false;
}

/*
 * Call before attach_task_util(), which may be under a lock: updates @cpu's utilization if @cpu is this CPU, or is
 * idle, so that its utilization may lag. A busy CPU's own tick updates it.
 */
static __always_inline void prepare_attach(u32 cpu)
{
	if (tracks_task_util() && (cpu == bpf_get_smp_processor_id() || cpu_util_of(cpu)->running == UTIL_NONE))
		update_cpu_util(cpu, bpf_ktime_get_ns());
}

/* attach_entity_load_avg(): counts the task's utilization in that of @cpu only; then the two decay in step. */
static __always_inline void attach_task_util(struct task_util *tu, u32 cpu)
{
	struct cpu_util *util = cpu_util_of(cpu);
	const struct pelt *avg = &util->avg[UTIL_FAIR];
	u64 used;

	if (!tracks_task_util() || (tu->attached && tu->cpu == cpu))
		return;
	if (tu->attached)
		detach_task_util(tu);
	else
		/* If the task was in another class, its utilization has decayed since. */
		age_task_util(tu, avg->last_update_time, false, 0);
	used = pelt_util(&tu->avg);
	tu->avg.last_update_time = avg->last_update_time;
	tu->avg.period_contrib = avg->period_contrib;
	tu->avg.running_sum = pelt_sum(avg, used);
	__sync_fetch_and_add(&util->attached, used);
	tu->cpu = cpu;
	tu->attached = true;
}

/*
 * post_init_entity_util_avg(): the initial utilization of a new task on @cpu, of @weight. It is that of the other
 * tasks there, in proportion to weight, but at most half of the spare capacity; if there are no other tasks, it is
 * exactly that half. @load is the sum of runnable averages times weights; in contrast to Linux's it excludes
 * sleeping tasks.
 */
static __always_inline void init_task_util(struct task_util *tu, u32 cpu, u32 weight, u64 load)
{
	u64 used, max, util;

	if (!tracks_task_util())
		return;
	prepare_attach(cpu);
	tu->avg.last_update_time = cpu_util_of(cpu)->avg[UTIL_FAIR].last_update_time;
	used = cpu_util_fair(cpu);
	max = cpu_scale(cpu);
	if (used >= max)
		return;
	util = (max - used) / 2;
	if (used && used * weight / (load + 1) < util)
		util = used * weight / (load + 1);
	tu->avg.running_sum = pelt_sum(&tu->avg, util);
}

static __always_inline u64 task_util_est(const struct task_util *tu)
{
	return tu->ewma > tu->enqueued ? tu->ewma : tu->enqueued;
}

/* Adds the estimate of the task, which becomes runnable on @cpu, to that of @cpu. */
static __always_inline void util_est_enqueue(const struct task_util *tu, u32 cpu)
{
	if (tracks_task_util())
		__sync_fetch_and_add(&cpu_util_of(cpu)->estimated, task_util_est(tu));
}

static __always_inline void util_est_dequeue(const struct task_util *tu, u32 cpu)
{
	if (tracks_task_util())
		__sync_fetch_and_add(&cpu_util_of(cpu)->estimated, -task_util_est(tu));
}

/*
 * util_est_update(): updates the estimate of the task, which goes to sleep. An activation within one period does
 * not change the estimate.
 */
static __always_inline void util_est_update(struct task_util *tu)
{
	s64 diff;

	if (!tracks_task_util() || tu->unchanged)
		return;
	tu->unchanged = true;
	diff = (s64)pelt_util(&tu->avg) - tu->ewma;
	if (diff < UTIL_EST_MARGIN && diff > -UTIL_EST_MARGIN)
		return;
	tu->enqueued = pelt_util(&tu->avg);
	tu->ewma += diff >> UTIL_EST_WEIGHT_SHIFT;
}

#endif /* __EQUIPOISE_TASK_UTIL_H */
