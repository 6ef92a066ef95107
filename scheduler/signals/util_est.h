/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The expected utilization of a task, where the largest CPU has 1024, from the task's utilization before it slept
 * (util_est, as of Linux 6.8). A task that slept for a long time has used little recently but will use as much as
 * before.
 */
#ifndef __EQUIPOISE_UTIL_EST_H
#define __EQUIPOISE_UTIL_EST_H

#include "../topology.bpf.h"

/* A difference of less than one per cent is ignored. */
#define UTIL_EST_MARGIN (SCHED_POWER_SCALE / 100)

/*
 * The estimate that follows @est for a task that goes to sleep with @util. It rises to @util at once, and falls by
 * a quarter of the difference (util_est_update()).
 */
static __always_inline u32 next_util_est(u32 est, u32 util)
{
	if (est <= util)
		return util;
	return est - util < UTIL_EST_MARGIN ? est : (est * 4 - (est - util)) / 4;
}

#endif /* __EQUIPOISE_UTIL_EST_H */
