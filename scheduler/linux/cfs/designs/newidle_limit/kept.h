/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of the limit on newidle balancing; see newidle_limit.h. */
#ifndef __EQUIPOISE_NEWIDLE_LIMIT_KEPT_H
#define __EQUIPOISE_NEWIDLE_LIMIT_KEPT_H

struct newidle_limit_rq {
	/* The time when the CPU last ran out of work, and the average interval between such times, in ns. */
	u64 prev_idle_balance;
	u64 avg_time_between_ib;
};

#endif /* __EQUIPOISE_NEWIDLE_LIMIT_KEPT_H */
