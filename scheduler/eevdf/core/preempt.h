/* SPDX-License-Identifier: GPL-2.0-only */
/* What happens to a CPU that a task has come to. */
#ifndef __EQUIPOISE_PREEMPT_H
#define __EQUIPOISE_PREEMPT_H

#include "../../kick.bpf.h"
#include "pick.h"

/* @p has joined a queue of @cpu: make the CPU look, if it should. True if it does. */
__noinline bool check_preempt_curr(struct task_struct *p __arg_trusted, u32 cpu)
{
	struct fair_entity *se = entity_of(p);
	struct fair_rq *rq = rq_of(cpu);

	if (!se || rq->dispatching)
		return false;
	if (!rq->curr.pid) {
		kick_cpu(cpu, SCX_KICK_IDLE);
		return true;
	}
	if (!check_preempt_wakeup(rq, p->policy, se))
		return false;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Is there something that only the next ops.dispatch() of the CPU of @rq will do? */
static __always_inline bool dispatch_expected(const struct fair_rq *rq)
{
	return rq->dispatching || rq->active_balance || rq->exec_pid || rq->nohz_kick;
}

/*
 * May @p, which has become runnable on its own CPU @cpu, run there at once, past the queues? If the CPU idles, or
 * @p is the one to pick. It saves the kick, which is an interrupt, and a dispatch. *@waits: it has been found not
 * to be.
 */
static __always_inline bool runs_at_once(u32 cpu, const struct task_struct *p, const struct fair_entity *se,
					 bool *waits)
{
	struct fair_rq *rq = rq_of(cpu);

	if (dispatch_expected(rq))
		return false;
	if (!rq->curr.pid)
		return rq->idle && rq->nr_running == 1;
	*waits = !check_preempt_wakeup(rq, p->policy, se);
	return !*waits;
}

#endif /* __EQUIPOISE_PREEMPT_H */
