/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policy `newidle_limit`: a CPU does not search for work if it has run out of work too often lately, after
 *
 *	[RFC] sched: Limit idle_balance() when it is being used too frequently, Jason Low, 2013-07-16
 */
#ifndef __EQUIPOISE_NEWIDLE_LIMIT_H
#define __EQUIPOISE_NEWIDLE_LIMIT_H

#include "../../core/runqueue.bpf.h"

/*
 * The largest factor by which the average time between newidle balances may exceed the limit. The average begins at
 * that value.
 */
#define NEWIDLE_LIMIT_MAX 20

static __always_inline void newidle_limit_init_rq(struct fair_rq *rq)
{
	rq->design.newidle_limit.avg_time_between_ib = NEWIDLE_LIMIT_MAX * tunables.newidle_limit;
}

/*
 * Has @rq, which runs out of work at @now, run out of it too often lately? The average interval moves by an eighth
 * of the difference, whether or not the CPU then balances. A long time since the last attempt resets it, so that
 * many short intervals are needed to get below the limit.
 */
static __always_inline bool newidle_limited(struct fair_rq *rq, u64 now)
{
	struct newidle_limit_rq *limit = &rq->design.newidle_limit;
	u64 since = now - limit->prev_idle_balance, max = NEWIDLE_LIMIT_MAX * tunables.newidle_limit;

	if (!tunables.newidle_limit)
		return false;
	limit->prev_idle_balance = now;
	if (since > max)
		limit->avg_time_between_ib = max;
	else
		limit->avg_time_between_ib += (s64)(since - limit->avg_time_between_ib) >> 3;
	if (limit->avg_time_between_ib >= tunables.newidle_limit)
		return false;
	explain(idle_too_often, 0, bpf_get_smp_processor_id(), limit->avg_time_between_ib, tunables.newidle_limit);
	return true;
}

#endif /* __EQUIPOISE_NEWIDLE_LIMIT_H */
