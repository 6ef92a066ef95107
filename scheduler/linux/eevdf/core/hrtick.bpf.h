/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slices that end on time (HRTICK): a timer of the CPU for the running task's deadline, if other tasks wait. This
 * is hrtick_start_fair() and hrtick_update() of Linux 7.3.
 *
 * The kernel moves the timer at each switch. Here a timer that expires too early stays, and is restarted on expiry:
 * starting a bpf_timer is expensive, and most tasks leave before their slice is over.
 */
#ifndef __EQUIPOISE_HRTICK_H
#define __EQUIPOISE_HRTICK_H

#include "../../../kick.bpf.h"
#include "../../../signals/utilization.bpf.h"
#include "../../../timers.bpf.h"
#include "eevdf.h"

/* hrtick_start() has the same bound: a shorter time would not be worth an interrupt. */
#define HRTICK_LEAST_NS 10000

/* A value of fair_rq::hrtick_at: another CPU has requested the timer. */
#define HRTICK_ASKED_FOR 1

CPU_TIMERS(hrtick_timers);

/* Starts the timer of @cpu, which is this CPU, for rq->hrtick_at, unless the timer expires before that time. */
static __always_inline void hrtick_arm(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	if (time_before(now, rq->hrtick_armed) && !time_before(rq->hrtick_at, rq->hrtick_armed))
		return;
	rq->hrtick_armed = rq->hrtick_at;
	start_timer(&hrtick_timers, cpu, rq->hrtick_at - now);
}

/* Sets the end of the slice of the task on @cpu, which has begun to run or continues. */
static __always_inline void hrtick_start_fair(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	const struct running *curr = &rq->curr;
	u64 delta = 0, irq;

	rq->hrtick_at = 0;
	if (!policy.hrtick || rq->nr_running <= 1)
		return;
	if (time_before(curr->vruntime, curr->deadline))
		delta = curr->weight * (curr->deadline - curr->vruntime) / NICE_0_WEIGHT;
	/* Interrupts prolong the time until the end of the slice. */
	irq = cpu_util_irq(cpu);
	if (irq && irq < SCHED_POWER_SCALE)
		delta = delta * SCHED_POWER_SCALE / (SCHED_POWER_SCALE - irq);
	rq->hrtick_at = now + (delta > HRTICK_LEAST_NS ? delta : HRTICK_LEAST_NS);
	hrtick_arm(cpu, now);
}

static __always_inline void hrtick_answer(u32 cpu, u64 now)
{
	if (rq_of(cpu)->hrtick_at == HRTICK_ASKED_FOR)
		hrtick_start_fair(cpu, now);
}

/*
 * Has @rq's CPU been interrupted only to set the timer? In the kernel, that interrupt does nothing else
 * (__hrtick_start()), and the running task continues whichever task would be picked.
 */
static __always_inline bool hrtick_asked_alone(const struct fair_rq *rq)
{
	return rq->hrtick_at == HRTICK_ASKED_FOR && !rq->need_resched && !rq->resched_lazy && !rq->exec_pid &&
	       !rq->active_balance && !rq->nohz_kick;
}

/*
 * Updates the timer of @cpu, where a task has arrived. The task may be the first one with which the running task
 * has to share the CPU.
 */
static __always_inline void hrtick_update(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	if (!policy.hrtick || !rq->curr.pid || rq->hrtick_at || rq->nr_running <= 1 || rq->need_resched)
		return;
	if (cpu == bpf_get_smp_processor_id()) {
		hrtick_start_fair(cpu, bpf_ktime_get_ns());
		return;
	}
	rq->hrtick_at = HRTICK_ASKED_FOR;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Handles the expiry of the timer of @cpu. Returns whether the slice is over. */
static __always_inline bool hrtick_expired(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	rq->hrtick_armed = 0;
	if (!rq->curr.pid || rq->hrtick_at <= HRTICK_ASKED_FOR)
		return false;
	if (time_before(now, rq->hrtick_at)) {
		hrtick_arm(cpu, now);
		return false;
	}
	rq->hrtick_at = 0;
	return rq->nr_running > 1;
}

#endif /* __EQUIPOISE_HRTICK_H */
