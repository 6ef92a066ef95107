/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of hperf; see hperf.bpf.h. */
#ifndef __EQUIPOISE_HPERF_KEPT_H
#define __EQUIPOISE_HPERF_KEPT_H

struct hperf_entity {
	/* The task's time on fast CPUs less that on slow ones, as virtual time, in ns. */
	s64 druntime;
	/* hperf_clock.druntime when the task last ran. */
	s64 clock_druntime;
	/* The vruntime, relative to hperf_clock, if the task had never changed runqueues, in ns. */
	u64 global_vruntime;
};

struct hperf_running {
	/* The druntime of the running task, which includes the time up to exec_start. */
	s64 druntime;
	/* Whether this is a fast CPU. */
	bool fast;
};

struct hperf_rq {
	/* The time, in ns, at which a task was requested that is on its way here; 0: none is. */
	u64 swap_stamp;
	/* Whether the CPU has been asked to pull a task from a slow CPU. */
	bool wake_for_idle_pull;
};

#endif /* __EQUIPOISE_HPERF_KEPT_H */
