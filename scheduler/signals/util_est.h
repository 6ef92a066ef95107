/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task will use, of 1024 of the largest CPU, by what it came to before it slept (util_est, as of Linux 6.8).
 * Who slept long has used little of late, and yet will use what it did before.
 */
#ifndef __EQUIPOISE_UTIL_EST_H
#define __EQUIPOISE_UTIL_EST_H

#include "../topology.bpf.h"

/* A difference of less than one per cent is none. */
#define UTIL_EST_MARGIN (SCHED_POWER_SCALE / 100)

/* The estimate after @est, of a task that goes to sleep with @util: at once all that it used, and a quarter of the
 * way to less (util_est_update()). */
static __always_inline u32 next_util_est(u32 est, u32 util)
{
	if (est <= util)
		return util;
	return est - util < UTIL_EST_MARGIN ? est : (est * 4 - (est - util)) / 4;
}

#endif /* __EQUIPOISE_UTIL_EST_H */
