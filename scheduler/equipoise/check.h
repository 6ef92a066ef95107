/* SPDX-License-Identifier: GPL-2.0-only */
/* Invariants that the scheduler checks in tests and under `scx_equipoise --check`. */
#ifndef __EQUIPOISE_CHECK_H
#define __EQUIPOISE_CHECK_H

#include "fair.h"

/* Set before the scheduler is loaded; otherwise the verifier removes the checks. */
const volatile bool checks;

/* Ends the scheduler with a message if @condition is false. */
#define check(condition)                                            \
	do {                                                        \
		if (checks && !(condition))                         \
			scx_bpf_error("invariant: %s", #condition); \
	} while (0)

/* @e runs on @clock: the clock counts its weight, and the weight of the debtors is a part of the clock's. */
static __always_inline void check_clock(const struct clock *clock, const struct entity *e)
{
	check(e->weight > 0);
	check(READ_ONCE(clock->weight) >= (s64)e->weight);
	check(weight_of_debtors(clock) <= READ_ONCE(clock->weight));
}

#endif /* __EQUIPOISE_CHECK_H */
