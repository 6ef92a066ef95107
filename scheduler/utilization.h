/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What uses a CPU: the running time of each class of tasks and of interrupts, by the same sums over the
 * same windows, so that they can be compared and added (avg_rt, avg_dl and avg_irq of
 *
 *	[PATCH 00/11] track CPU utilization, Vincent Guittot, 2018-06-28
 *
 * and the running average of the fair tasks as it shows on the CPU).
 *
 * Tasks' time is the CPU's less what interrupts take (rq->clock_task), and these are counted in the
 * CPU's own time. A slow CPU's time counts less: 1024 is all the time at the highest frequency.
 *
 * Fed by the sched_switch tracepoint, which tells of all classes; what interrupts took shows in how far
 * the two clocks of the runqueue are apart.
 */
#ifndef __EQUIPOISE_UTILIZATION_H
#define __EQUIPOISE_UTILIZATION_H

#include "runqueue.h"

/* include/linux/sched/prio.h */
#define MAX_DL_PRIO 0
#define MAX_RT_PRIO 100

/* Whose time it is. */
enum util_class {
	UTIL_FAIR,
	UTIL_RT,
	UTIL_DL,
	NR_UTIL_CLASSES,
	UTIL_NONE = NR_UTIL_CLASSES,
};

struct cpu_util {
	struct pelt avg[NR_UTIL_CLASSES];
	struct pelt irq;
	/* Interrupt time that irq has counted, ns. */
	u64 irq_time;
	/* When it was all brought up to date, ns. */
	u64 updated_at;
	/* When a frequency was last asked for, ns. */
	u64 asked_at;
	/* Who has had the CPU since. */
	u32 running;
	/* There is some utilization left to decay. */
	bool blocked;
} __attribute__((aligned(64)));

struct cpu_util cpu_utils[MAX_CPUS];

static __always_inline struct cpu_util *cpu_util_of(u32 cpu)
{
	return &cpu_utils[cpu & (MAX_CPUS - 1)];
}

static __always_inline enum util_class util_class_of(const struct task_struct *p)
{
	if (!p->pid)
		return UTIL_NONE;
	if (p->prio < MAX_DL_PRIO)
		return UTIL_DL;
	return p->prio < MAX_RT_PRIO ? UTIL_RT : UTIL_FAIR;
}

/*
 * The average of @sa, of 1024: as if it had not run in all the time before it was known, and without the
 * step at the end of each period (get_pelt_divider()).
 */
static __always_inline u64 util_avg(const struct pelt *sa)
{
	u64 util = (u64)READ_ONCE(sa->running_sum) * SCHED_POWER_SCALE / (LOAD_AVG_MAX - 1024 + sa->period_contrib);

	return util < SCHED_POWER_SCALE ? util : SCHED_POWER_SCALE;
}

static __always_inline u64 cpu_util(u32 cpu, enum util_class class)
{
	return class < NR_UTIL_CLASSES ? util_avg(&cpu_util_of(cpu)->avg[class]) : 0;
}

static __always_inline u64 cpu_util_irq(u32 cpu)
{
	return util_avg(&cpu_util_of(cpu)->irq);
}

/* The bandwidth of the deadline tasks that are active on @cpu, of 1024: cpu_bw_dl(). */
static __always_inline u64 cpu_bw_dl(u32 cpu)
{
	struct rq *core = scx_bpf_cpu_rq(cpu);

	return core ? core->dl.running_bw * SCHED_POWER_SCALE >> 20 : 0;
}

static __always_inline bool rt_rq_is_runnable(u32 cpu)
{
	struct rq *core = scx_bpf_cpu_rq(cpu);

	return core && core->rt.rt_nr_running;
}

/*
 * Brings the sums of @cpu up to @now. Interrupts are taken to have come last, as nobody says when they
 * came (update_irq_load_avg()).
 */
__noinline bool update_cpu_util(u32 cpu, u64 now)
{
	struct cpu_util *util = cpu_util_of(cpu);
	struct rq *core = scx_bpf_cpu_rq(cpu);
	u32 scale = scx_bpf_cpuperf_cur(cpu);
	u64 irq_time, irq_delta;
	int class;

	if (!core)
		return false;
	irq_time = core->clock - core->clock_task;
	irq_delta = irq_time - util->irq_time;
	/* The clocks are read apart, and may be just between two steps. */
	if ((s64)irq_delta < 0 || irq_delta > now - util->updated_at)
		irq_delta = 0;
	util->irq_time += irq_delta;
	update_pelt(&util->irq, now - irq_delta * scale / SCHED_POWER_SCALE, false, false);
	update_pelt(&util->irq, now, true, true);
	bpf_for(class, 0, NR_UTIL_CLASSES)
		if (class < NR_UTIL_CLASSES)
			update_pelt_scaled(&util->avg[class], now - util->irq_time, true,
					   class == (int)util->running, scale);
	util->updated_at = now;
	return true;
}

static __always_inline void init_cpu_util(u32 cpu, u64 now)
{
	struct cpu_util *util = cpu_util_of(cpu);
	struct rq *core = scx_bpf_cpu_rq(cpu);

	util->running = UTIL_NONE;
	util->updated_at = now;
	util->irq.last_update_time = now;
	if (core)
		util->irq_time = core->clock - core->clock_task;
	for (u32 class = 0; class < NR_UTIL_CLASSES; class ++)
		util->avg[class].last_update_time = now - util->irq_time;
}

/* @cpu switches to @next. */
static __always_inline void switch_cpu_util(u32 cpu, const struct task_struct *next, u64 now)
{
	update_cpu_util(cpu, now);
	cpu_util_of(cpu)->running = util_class_of(next);
}

#endif /* __EQUIPOISE_UTILIZATION_H */
