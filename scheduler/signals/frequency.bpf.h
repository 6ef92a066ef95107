/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The frequency that a CPU needs: schedutil's sugov_get_util() and get_next_freq(), before and
 * after
 *
 *	[PATCH 00/11] track CPU utilization, Vincent Guittot, 2018-06-28
 *
 * The frequency follows the utilization of all classes on the CPU. The utilization of fair tasks is not enough,
 * because the CPU time of other classes appears as time in which fair tasks did not run. All averages have equal
 * windows, so they can be added. The policy selects the classes; Linux 4.17 counted the fair class's time and the
 * bandwidth of deadline tasks.
 */
#ifndef __EQUIPOISE_FREQUENCY_H
#define __EQUIPOISE_FREQUENCY_H

#include "../explain.bpf.h"
#include "../timers.bpf.h"
#include "utilization.bpf.h"

/*
 * Whether a request takes a lock; the loader sets this. Since Linux 6.17 scx_bpf_cpuperf_set() locks the CPU's
 * runqueue, unless sched_ext knows that it is locked. Requests are then possible in two places only: in an op, for
 * the CPU whose runqueue is locked (for another CPU it is an error), and in a timer, for any CPU. At the tracepoint
 * sched_switch the runqueue is locked without sched_ext knowing it, so the CPU would deadlock with itself. The
 * simulated kernel accepts requests of Equipoise's own schedulers anywhere, at no cost.
 */
const volatile bool asking_locks;

/* The utilization of a CPU by fair tasks. A scheduler with averages of its own defines this macro. */
#ifndef FREQUENCY_UTIL_FAIR
#define FREQUENCY_UTIL_FAIR cpu_util_cfs
#endif

/* Adds a margin to the utilization, so that the frequency rises before the CPU is fully busy. */
static __always_inline u64 map_util_perf(u64 util)
{
	return util + (util >> 2);
}

/*
 * The utilization that the frequency of @cpu has to serve, where the largest CPU has 1024. It is at most this CPU's
 * capacity, max.
 *
 * Deadline tasks count with the bandwidth that they were promised, which meets their deadlines; their running time
 * only decides whether the CPU has idle time left. Tasks' clocks exclude the time of interrupts, so the utilization
 * U of tasks is relative to the rest of the time:
 *
 *	           max - irq
 *	U' = irq + --------- U + bw_dl
 *	              max
 */
__noinline u64 effective_cpu_util(u32 cpu)
{
	u64 irq = policy.frequency_irq ? cpu_util_irq(cpu) : 0, max = cpu_scale(cpu), util;

	if (rt_rq_is_runnable(cpu) || irq >= max)
		return max;
	util = FREQUENCY_UTIL_FAIR(cpu);
	if (policy.frequency_rt)
		util += cpu_util(cpu, UTIL_RT);
	if (policy.frequency_dl && util + cpu_util(cpu, UTIL_DL) >= max)
		return max;
	util = util * (max - irq) / max + irq + cpu_bw_dl(cpu);
	return util < max ? util : max;
}

/* The request of @cpu, relative to the capacity of the largest CPU, as schedutil takes it. */
static __always_inline u64 frequency_request(u32 cpu)
{
	u64 perf = machine.governor_adds ? FREQUENCY_UTIL_FAIR(cpu) : map_util_perf(effective_cpu_util(cpu));
	u64 max = cpu_scale(cpu);

	return perf < max ? perf : max;
}

/* May balancing, which runs in ops and in timers, request the frequency of @cpu? */
static __always_inline bool may_ask_for(u32 cpu)
{
	return !asking_locks || cpu == bpf_get_smp_processor_id();
}

/*
 * Requests the frequency that @cpu needs, within the rate limit, which does not apply to deadline tasks that need
 * more than before (ignore_dl_rate_limit()).
 *
 * Context: where asking_locks allows a request for @cpu.
 */
__noinline bool update_frequency(u32 cpu, u64 now)
{
	struct cpu_util *util = cpu_util_of(cpu);
	u64 bw_dl, perf;

	if (!policy.frequency)
		return false;
	bw_dl = cpu_bw_dl(cpu);
	if (now - util->asked_at < tunables.frequency_rate_limit && bw_dl <= util->asked_bw_dl)
		return false;
	util->asked_at = now;
	util->asked_bw_dl = bw_dl;
	perf = frequency_request(cpu);
	util->blocked = perf;
	explain(frequency, 0, cpu, perf, FREQUENCY_UTIL_FAIR(cpu), cpu_scale(cpu));
	scx_bpf_cpuperf_set(cpu, perf);
	this_counters()->frequency_requests++;
	this_counters()->frequency_requested += perf;
	return true;
}

/* The time of the next update of idle CPUs' utilization, in ns. */
u64 next_blocked_update;

/*
 * Updates the utilization and the frequency requests of idle CPUs, which decay with time. An idle CPU has no tick,
 * so a CPU with a tick updates all idle CPUs periodically (nohz.next_blocked).
 */
__noinline bool update_idle_cpus(u64 now)
{
	forget_origin(now);
	int cpu;

	if (time_before(now, next_blocked_update))
		return false;
	next_blocked_update = now + LOAD_AVG_PERIOD * NSEC_PER_MSEC;
	bpf_for(cpu, 0, nr_cpus())
		if (cpu_util_of(cpu)->running == UTIL_NONE && cpu_util_of(cpu)->blocked) {
			update_cpu_util(cpu, now);
			update_frequency(cpu, now);
		}
	return true;
}

/* Timers that call update_idle_cpus(), because a timer may request other CPUs' frequencies. */
CPU_TIMERS(idle_cpus_timers);

static int run_update_idle_cpus(void *timers, int *key, struct scheduler_timer *timer)
{
	update_idle_cpus(bpf_ktime_get_ns());
	return 0;
}

/* Calls update_idle_cpus() on this CPU, @cpu, as soon as it may be called. */
static __always_inline void see_to_idle_cpus(u32 cpu, u64 now)
{
	if (!asking_locks)
		update_idle_cpus(now);
	else if (!time_before(now, next_blocked_update))
		start_timer(&idle_cpus_timers, cpu, 0);
}

static __always_inline s32 init_frequency(u32 cpu)
{
	s32 err;

	if (!policy.frequency)
		return 0;
	/* sched_ext begins with the highest frequency, so request the lowest one until the CPU has a task. */
	scx_bpf_cpuperf_set(cpu, 0);
	err = init_timer(&idle_cpus_timers, cpu);
	if (!err)
		set_timer(&idle_cpus_timers, cpu, run_update_idle_cpus);
	return err;
}

#endif /* __EQUIPOISE_FREQUENCY_H */
