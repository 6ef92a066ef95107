/* SPDX-License-Identifier: GPL-2.0-only */
/* What the limit to new-idle balancing keeps; see newidle_limit.h. */
#ifndef __EQUIPOISE_NEWIDLE_LIMIT_KEPT_H
#define __EQUIPOISE_NEWIDLE_LIMIT_KEPT_H

struct newidle_limit_rq {
	/* When the CPU last ran out of work, and how long it usually is from one time to the next, ns. */
	u64 prev_idle_balance;
	u64 avg_time_between_ib;
};

#endif /* __EQUIPOISE_NEWIDLE_LIMIT_KEPT_H */
