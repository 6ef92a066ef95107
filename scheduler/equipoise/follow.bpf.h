/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frequency requests that follow the utilization of fair, real-time and deadline tasks and of
 * interrupts, after
 *
 *	[PATCH 00/11] track CPU utilization, Vincent Guittot, 2018-06-28
 *
 * Without a governor that follows requests, or if all CPUs are to stay at their highest frequency, none of these
 * functions runs except note_boost().
 */
#ifndef __EQUIPOISE_FOLLOW_H
#define __EQUIPOISE_FOLLOW_H

#include "../signals/util_est.h"
#include "../timers.bpf.h"
#include "task.bpf.h"

/* For this time, in ns, a CPU is in a hurry after it ran a task that others wait for: utilization's half-life. */
#define HURRY_NS (32 * NSEC_PER_MSEC)

/*
 * Utilization of a CPU's fair tasks. Unless power comes first, it is the CPU's full capacity if tasks wait for the
 * CPU, or if the CPU recently ran a task that another task had woken or created.
 *
 * Utilization counts only a part of what waiting tasks need. For these tasks, schedutil uses the average of
 * runnable tasks ("sched/fair, cpufreq: Introduce 'runnable boosting'", Linux 6.5).
 *
 * Tasks that others woke are links of a chain: while one runs, the tasks that wait for it sleep, so
 * all of them look light, and the lighter the slower they run. The threads of streamcluster wait for each other at
 * barriers: a lower frequency makes them look lighter, which lowers the frequency further. The kernel also
 * raises the frequency for tasks that wait for a disk (schedutil's iowait boost). A task that is woken by a timer
 * or a device has time until the next event, and its utilization describes it.
 */
static __always_inline u64 util_in_hurry(u32 cpu)
{
	const struct cpu_state *this = cpu_at(cpu);

	if (tunables.prefer != PREFER_POWER &&
	    (has_waiters(this) || time_before(bpf_ktime_get_ns(), this->hurried_at + HURRY_NS)))
		return cpu_scale(cpu);
	return cpu_util_cfs(cpu);
}

#define FREQUENCY_UTIL_FAIR util_in_hurry
#include "../signals/frequency.bpf.h"

static __always_inline bool follows(void)
{
	return policy.frequency && machine.scales;
}

/* A new task on @cpu starts with half of the spare capacity as its utilization (post_init_entity_util_avg()). */
static __always_inline void begin_used(struct task_state *t, u32 cpu)
{
	t->used.last_update_time = bpf_ktime_get_ns();
	t->used.running_sum = pelt_sum(&t->used, cpu_scale(cpu) / 2);
}

/*
 * Adds the time for which @cpu ran @p until @now to the utilization of @p. On a slow CPU this time passes slowly
 * (update_rq_clock_pelt()): utilization depends on the work done, not on the time that it took.
 */
static __always_inline void note_used(const struct task_struct *p, struct task_state *t, u32 cpu, u64 now)
{
	u64 ran = p->se.sum_exec_runtime - t->used_seen, began;

	t->used_seen += ran;
	began = now - ran;
	ran = ran * scx_bpf_cpuperf_cur(cpu) / SCHED_POWER_SCALE * cpu_scale(cpu) / SCHED_POWER_SCALE;
	update_pelt(&t->used, began, false, false);
	update_pelt(&t->used, began + ran, true, true);
	t->used.last_update_time = now;
	if (!(p->scx.flags & SCX_TASK_QUEUED))
		t->util_est = next_util_est(t->util_est, pelt_util(&t->used));
}

/* The expected utilization of @t, which gets a CPU, relative to 1024 for the largest CPU. */
static __always_inline u64 estimated_util(const struct task_state *t)
{
	u64 used = pelt_util(&t->used);

	return used > t->util_est ? used : t->util_est;
}

/*
 * @t stops on @cpu. The CPU has at least the utilization of the task, which may just have come from another CPU: in
 * the kernel, a task takes its utilization along.
 */
static __always_inline void leave_used(const struct task_state *t, u32 cpu)
{
	s64 more = pelt_util(&t->used) - cpu_util_fair(cpu);

	if (more > 0)
		__sync_fetch_and_add(&cpu_util_of(cpu)->attached, more);
}

/* Notes the time if other tasks wait for @t, which runs on @cpu. */
static __always_inline void note_hurry(const struct task_state *t, u32 cpu, u64 now)
{
	if (t->awaited)
		cpu_at(cpu)->hurried_at = now;
}

/*
 * The tick of @cpu, which runs @p, of state @t, or a task of a higher class (NULL). The utilization of @p so far
 * counts at once, by the work done. The CPU's own average multiplies running time by the frequency, so from a
 * quarter of the highest frequency that average would take three times as long to rise. Since Linux 5.1 the kernel
 * scales time instead ("sched/fair: Update scale invariance of PELT").
 */
static __always_inline void follow(const struct task_struct *p, struct task_state *t, u32 cpu)
{
	u64 now = bpf_ktime_get_ns();

	if (t) {
		note_hurry(t, cpu, now);
		note_used(p, t, cpu, now);
		cpu_util_of(cpu)->estimated = estimated_util(t);
	}
	update_cpu_util(cpu, now);
	update_frequency(cpu, now);
	see_to_idle_cpus(cpu, now);
}

/* In percent: the kernel's fair class ignores smaller differences of two capacities (capacity_greater()). */
#define GREATER_PCT 105

/*
 * Checks at a tick whether @cpu runs clearly below the highest frequency, although it requests that: a core boosts
 * less while other cores boost. The answer matters only to spreads() (idle.h), where all CPUs are alike and there
 * are several clusters.
 */
static __always_inline void note_boost(u32 cpu)
{
	struct cluster *c = cluster_of(cpu);
	bool held_back;

	if (unlike || nr_clusters == 1 || tunables.prefer != PREFER_BALANCED)
		return;
	held_back = scx_bpf_cpuperf_cur(cpu) * GREATER_PCT < SCX_CPUPERF_ONE * 100 &&
		    (!follows() || frequency_request(cpu) == cpu_scale(cpu));
	if (READ_ONCE(c->held_back) != held_back)
		WRITE_ONCE(c->held_back, held_back);
}

/* Timers replace ticks, which sched_ext does not report while a task of a higher class has the CPU. */
CPU_TIMERS(util_timers);

static int run_util_tick(void *timers, int *key, struct scheduler_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (!outranks_fair(cpu_util_of(cpu)->running))
		return 0;
	follow(NULL, NULL, cpu);
	bpf_timer_start(&timer->timer, machine.tick_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/*
 * The CPU switches from @prev to @next, of any class. The history of @next says more about its demand than the
 * recent use of this CPU: that task may come from another CPU, or have slept.
 */
static __always_inline void follow_switch(u32 cpu, struct task_struct *prev, struct task_struct *next)
{
	struct task_state *was = prev->pid ? task_of(prev) : NULL, *t = next->pid ? task_of(next) : NULL;
	u64 now = bpf_ktime_get_ns();

	if (was) {
		note_used(prev, was, cpu, now);
		leave_used(was, cpu);
	}
	if (t)
		note_hurry(t, cpu, now);
	cpu_util_of(cpu)->estimated = t ? estimated_util(t) : 0;
	switch_cpu_util(cpu, next);
	if (outranks_fair(cpu_util_of(cpu)->running))
		start_timer(&util_timers, cpu, machine.tick_ns);
	if (!asking_locks)
		update_frequency(cpu, now);
	if (cpu_util_of(cpu)->running == UTIL_NONE) {
		cpu_util_of(cpu)->blocked = true;
		see_to_idle_cpus(cpu, now);
	}
}

/* In an op of @cpu, which is about to switch to @t or to idle (NULL): requests its frequency (asking_locks). */
static __always_inline void ask_before_switch(u32 cpu, const struct task_state *t)
{
	cpu_util_of(cpu)->estimated = t ? estimated_util(t) : 0;
	update_frequency(cpu, bpf_ktime_get_ns());
}

static __always_inline s32 init_follow(u32 cpu)
{
	s32 err;

	if (!follows())
		return 0;
	init_cpu_util(cpu, bpf_ktime_get_ns());
	err = init_timer(&util_timers, cpu);
	set_timer(&util_timers, cpu, run_util_tick);
	return err ?: init_frequency(cpu);
}

#endif /* __EQUIPOISE_FOLLOW_H */
