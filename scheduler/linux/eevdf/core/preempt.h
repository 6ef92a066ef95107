/* SPDX-License-Identifier: GPL-2.0-only */
/* The reaction of a CPU to an arriving task. */
#ifndef __EQUIPOISE_PREEMPT_H
#define __EQUIPOISE_PREEMPT_H

#include "hrtick.bpf.h"
#include "pick.h"
#include "wakeup.h"

/*
 * Makes the task that runs on @cpu stop. Returns true if the CPU has to be notified now. With lazy preemption, the
 * task of another CPU stops only when that CPU next enters the kernel (resched_curr_lazy()), if only to set a timer
 * (hrtick_update()).
 */
static __always_inline bool resched_curr(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	if (policy.preempt_lazy && cpu != bpf_get_smp_processor_id()) {
		rq->resched_lazy = true;
		return false;
	}
	rq->need_resched = true;
	return true;
}

/* Makes the task that runs on @cpu, whose runqueue is @rq, stop now. */
static __always_inline void resched_now(struct fair_rq *rq, u32 cpu)
{
	rq->need_resched = true;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Makes the task of this CPU, @cpu, stop now if it is marked for lazy preemption or is throttled, because the CPU
 * is in the kernel.
 */
static __always_inline void resched_if_lazy(u32 cpu)
{
	struct fair_rq *rq;

	if (!policy.preempt_lazy && !any_group_is_limited())
		return;
	rq = rq_of(cpu);
	if (!(rq->resched_lazy | rq->curr_throttled) || rq->dispatching)
		return;
	if (rq->resched_lazy)
		explain(lazy_preemption, rq->curr.pid, cpu);
	rq->resched_lazy = false;
	resched_now(rq, cpu);
}

/*
 * Makes @cpu reschedule, if it should, because @p has joined one of its queues. Returns whether the CPU
 * reschedules.
 */
__noinline bool check_preempt_curr(struct task_struct *p __arg_trusted, u32 cpu)
{
	struct fair_entity *se = entity_of(p);
	struct fair_rq *rq = rq_of(cpu);

	if (!se || rq->dispatching)
		return false;
	if (group_queues() && is_throttled(p, se))
		return false;
	if (!rq->curr.pid) {
		kick_cpu(cpu, SCX_KICK_IDLE);
		return true;
	}
	if (!check_preempt_wakeup(rq, p, se) || !resched_curr(cpu))
		return false;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Is there work that only the next ops.dispatch() of the CPU of @rq will do? */
static __always_inline bool dispatch_expected(const struct fair_rq *rq)
{
	return rq->dispatching || rq->active_balance || rq->exec_pid || rq->nohz_kick;
}

/*
 * May @p, which has become runnable on its own CPU @cpu, run there at once, bypassing the queues? Yes if the CPU is
 * idle, or @p would be picked and the running task stops now. The bypass saves a dispatch, and a kick, which is an
 * interrupt. *@waits becomes true if a running task keeps the CPU.
 */
static __always_inline bool runs_at_once(u32 cpu, const struct task_struct *p, const struct fair_entity *se,
					 bool *waits)
{
	struct fair_rq *rq = rq_of(cpu);

	if (dispatch_expected(rq))
		return false;
	if (is_throttled(p, se))
		return false;
	if (!rq->curr.pid)
		return rq->idle && rq->nr_running == 1;
	*waits = !check_preempt_wakeup(rq, p, se) || !resched_curr(cpu);
	return !*waits;
}

#endif /* __EQUIPOISE_PREEMPT_H */
