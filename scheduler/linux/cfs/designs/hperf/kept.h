/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of hperf; see hperf.bpf.h. */
#ifndef __EQUIPOISE_HPERF_KEPT_H
#define __EQUIPOISE_HPERF_KEPT_H

struct hperf_entity {
	/* Its time on fast CPUs less that on slow ones, at the pace of its vruntime, ns. */
	s64 druntime;
	/* hperf_clock.druntime when it last ran. */
	s64 clock_druntime;
	/* The vruntime it would have if it had never changed runqueues, relative to hperf_clock, ns. */
	u64 global_vruntime;
};

struct hperf_running {
	/* It counts the time up to exec_start. */
	s64 druntime;
	/* Is this a fast CPU? */
	bool fast;
};

struct hperf_rq {
	/* A task is on its way here, to replace one that left; the time of the request, ns. */
	u64 swap_stamp;
	/* Asked to pull a task from a slow CPU. */
	bool wake_for_idle_pull;
};

#endif /* __EQUIPOISE_HPERF_KEPT_H */
