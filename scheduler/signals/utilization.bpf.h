/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The use of a CPU: the running time of each class of tasks and of interrupts, as sums over equal windows, so that
 * they can be compared and added (avg_rt, avg_dl and avg_irq of
 *
 *	[PATCH 00/11] track CPU utilization, Vincent Guittot, 2018-06-28
 *
 * and the utilization of the CPU's fair tasks, which arrives and leaves with the tasks: task_util.h).
 *
 * Tasks' time excludes interrupts (rq->clock_task); interrupts' time is counted in the CPU's own
 * time (rq->clock). A slow CPU's time counts less: 1024 is all the time of the largest CPU at its
 * highest frequency.
 *
 * The sched_switch tracepoint reports switches of all classes; the time of interrupts is the difference between the
 * runqueue's two clocks. As in the kernel, these clocks define the time of a switch. The program itself runs later,
 * because picking the next task takes time, and a virtual CPU may be preempted on its host.
 */
#ifndef __EQUIPOISE_UTILIZATION_H
#define __EQUIPOISE_UTILIZATION_H

#include "../rq.bpf.h"
#include "cpu_util.h"
#include "irq_time.h"
#include "rt_avg.bpf.h"

/* include/linux/sched/prio.h */
#define MAX_DL_PRIO 0
#define MAX_RT_PRIO 100

struct cpu_util cpu_utils[MAX_CPUS];

static __always_inline struct cpu_util *cpu_util_of(u32 cpu)
{
	return &cpu_utils[cpu & (MAX_CPUS - 1)];
}

/* Are the averages used? */
static __always_inline bool tracks_util(void)
{
	return policy.frequency || policy.scale_rt_capacity == RT_CAPACITY_PELT;
}

/* The class of @p, to which @cpu switches. */
static __always_inline enum util_class util_class_of(u32 cpu, const struct task_struct *p)
{
	struct rq *core = cpu_rq(cpu);

	if (!p->pid)
		return UTIL_NONE;
	/* By its priority, the stop task could be a real-time task. */
	if (core && core->stop == p)
		return UTIL_STOP;
	if (p->prio < MAX_DL_PRIO)
		return UTIL_DL;
	return p->prio < MAX_RT_PRIO ? UTIL_RT : UTIL_FAIR;
}

static __always_inline u64 cpu_util(u32 cpu, enum util_class class)
{
	return class < NR_UTIL_CLASSES ? pelt_util(&cpu_util_of(cpu)->avg[class]) : 0;
}

/* The utilization of the fair tasks attached to @cpu, whether they are runnable or not. */
static __always_inline u64 cpu_util_fair(u32 cpu)
{
	const struct cpu_util *util = cpu_util_of(cpu);
	s64 used = cpu_util(cpu, UTIL_FAIR) + READ_ONCE(util->attached);

	return used > 0 ? used : 0;
}

/*
 * cpu_util_cfs(): cpu_util_fair() or, if it is larger, the estimated utilization of the runnable fair tasks
 * (util_est, since Linux 4.17).
 */
static __always_inline u64 cpu_util_cfs(u32 cpu)
{
	u64 used = cpu_util_fair(cpu), estimated = READ_ONCE(cpu_util_of(cpu)->estimated);

	return used > estimated ? used : estimated;
}

/* arch_scale_cpu_capacity(): the capacity of @cpu at its highest frequency, where the largest CPU has 1024. */
static __always_inline u64 cpu_scale(u32 cpu)
{
	return scx_bpf_cpuperf_cap(cpu);
}

static __always_inline u64 cpu_util_irq(u32 cpu)
{
	return pelt_util(&cpu_util_of(cpu)->irq);
}

/* The bandwidth of the active deadline tasks on @cpu, relative to the largest CPU: cpu_bw_dl(). */
static __always_inline u64 cpu_bw_dl(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);

	return core ? core->dl.running_bw * SCHED_POWER_SCALE >> 20 : 0;
}

static __always_inline bool rt_rq_is_runnable(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);

	return core && core->rt.rt_nr_running;
}

/* Adds the utilization of tasks that arrived or left to the average, which is as of the last update. */
static __always_inline void take_attached(struct cpu_util *util)
{
	struct pelt *avg = &util->avg[UTIL_FAIR];
	s64 sum = avg->running_sum;

	if (!READ_ONCE(util->attached))
		return;
	sum += pelt_sum(avg, (s64)__sync_lock_test_and_set(&util->attached, 0));
	avg->running_sum = sum > 0 ? sum : 0;
}

/* Updates the averages to @clock; since the last update interrupts have had @irq ns. */
static __always_inline void update_averages(struct cpu_util *util, u64 clock, u64 irq, u32 scale)
{
	int class;

	take_attached(util);
	update_pelt_last(&util->irq, clock, irq, scale);
	bpf_for(class, 0, NR_UTIL_CLASSES)
		if (class < NR_UTIL_CLASSES)
			update_pelt_scaled(&util->avg[class], clock - util->irq_time, true,
					   class == (int)util->running, scale);
}

/* Do tasks of @class take time from fair ones? */
static __always_inline bool outranks_fair(u32 class)
{
	return class == UTIL_RT || class == UTIL_DL;
}

/*
 * The time of the runqueue @core at the time @now. The runqueue's clock moves only when the kernel accounts
 * something there, and so not while the CPU is idle; in that case, the elapsed time is added.
 */
static __always_inline u64 rq_clock(struct cpu_util *util, const struct rq *core, u64 now)
{
	if (util->clock != core->clock) {
		util->clock = core->clock;
		util->clock_seen_at = now;
	}
	return util->running == UTIL_NONE ? util->clock + now - util->clock_seen_at : util->clock;
}

/* Updates the record of @cpu to the time @now. */
__noinline bool update_cpu_util(u32 cpu, u64 now)
{
	struct cpu_util *util = cpu_util_of(cpu);
	struct rq *core = cpu_rq(cpu);
	u64 clock, irq, passed;
	u32 frequency;

	if (!core)
		return false;
	frequency = scx_bpf_cpuperf_cur(cpu);
	clock = rq_clock(util, core, now);
	passed = clock - util->updated_at;
	if ((s64)passed < 0)
		return false;
	irq = irq_time_of(core) - util->irq_time;
	/* The two clocks of another CPU are not read at the same time, and may be updated in between. */
	if ((s64)irq < 0)
		irq = 0;
	/* Interrupt time in excess of the elapsed time is counted at the next update. */
	if (irq > passed)
		irq = passed;
	util->irq_time += irq;
	if (tracks_util())
		update_averages(util, clock, irq, frequency * cpu_scale(cpu) / SCHED_POWER_SCALE);
	if (policy.scale_rt_capacity == RT_CAPACITY_AVG)
		update_rt_avg(rt_avg_of(cpu), clock, outranks_fair(util->running) ? passed : irq, frequency);
	util->updated_at = clock;
	return true;
}

static __always_inline void init_cpu_util(u32 cpu, u64 now)
{
	struct cpu_util *util = cpu_util_of(cpu);
	struct rq *core = cpu_rq(cpu);

	if (!core)
		return;
	util->running = UTIL_NONE;
	util->updated_at = util->clock = core->clock;
	util->clock_seen_at = now;
	util->irq.last_update_time = util->updated_at;
	rt_avg_of(cpu)->age_stamp = util->updated_at;
	util->irq_time = irq_time_of(core);
	for (u32 class = 0; class < NR_UTIL_CLASSES; class ++)
		util->avg[class].last_update_time = util->updated_at - util->irq_time;
}

/*
 * Updates the record of @cpu, which switches to @next. A switch between fair tasks needs no update unless averages
 * are used. When the CPU becomes idle, this update records that its clock stops.
 */
static __always_inline void switch_cpu_util(u32 cpu, const struct task_struct *next)
{
	struct cpu_util *util = cpu_util_of(cpu);
	u32 class = util_class_of(cpu, next);

	if (tracks_util() || outranks_fair(util->running) || outranks_fair(class) || class == UTIL_NONE)
		update_cpu_util(cpu, bpf_ktime_get_ns());
	util->running = class;
}

#endif /* __EQUIPOISE_UTILIZATION_H */
