/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frequencies that follow what uses a CPU: fair, real-time and deadline tasks and interrupts alike, after
 *
 *	[PATCH 00/11] track CPU utilization, Vincent Guittot, 2018-06-28
 *
 * Where nothing follows what is asked for, or all CPUs are to stay at their highest, none of this costs anything.
 */
#ifndef __EQUIPOISE_FOLLOW_H
#define __EQUIPOISE_FOLLOW_H

#include "../signals/frequency.bpf.h"
#include "../signals/task_util.h"
#include "../timers.bpf.h"

static __always_inline bool follows(void)
{
	return policy.frequency && machine.scales;
}

static __always_inline void follow(u32 cpu, u64 now)
{
	update_cpu_util(cpu, now);
	update_frequency(cpu, now);
}

/* While a task of a higher class has the CPU sched_ext tells of no ticks. */
CPU_TIMERS(util_timers);

static int run_util_tick(void *timers, int *key, struct scheduler_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 now = bpf_ktime_get_ns();

	if (!outranks_fair(cpu_util_of(cpu)->running))
		return 0;
	follow(cpu, now);
	update_idle_cpus(now);
	bpf_timer_start(&timer->timer, machine.tick_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/* The CPU switches to @next, of whichever class. */
static __always_inline void follow_switch(u32 cpu, const struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();

	switch_cpu_util(cpu, next);
	if (outranks_fair(cpu_util_of(cpu)->running))
		start_timer(&util_timers, cpu, run_util_tick, machine.tick_ns);
	update_frequency(cpu, now);
	if (cpu_util_of(cpu)->running == UTIL_NONE) {
		cpu_util_of(cpu)->blocked = true;
		update_idle_cpus(now);
	}
}

/*
 * A new task is to run on @cpu: until it has shown what it uses it counts for half of what is left there, as in the
 * kernel (post_init_entity_util_avg()), so that the frequency need not climb to it in steps.
 */
static __always_inline void expect_new_task(u32 cpu)
{
	u64 used, max = cpu_scale(cpu);

	prepare_attach(cpu);
	used = cpu_util_fair(cpu);
	if (used < max)
		__sync_fetch_and_add(&cpu_util_of(cpu)->attached, (max - used) / 2);
}

static __always_inline s32 init_follow(u32 cpu)
{
	if (!follows())
		return 0;
	init_cpu_util(cpu, bpf_ktime_get_ns());
	/* Until it has something to run: sched_ext begins with all that it can do. */
	scx_bpf_cpuperf_set(cpu, 0);
	return init_timer(&util_timers, cpu);
}

#endif /* __EQUIPOISE_FOLLOW_H */
