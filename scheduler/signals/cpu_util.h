/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The record of a CPU's use; see utilization.bpf.h. This file is separate for readers outside the
 * scheduler.
 */
#ifndef __EQUIPOISE_CPU_UTIL_H
#define __EQUIPOISE_CPU_UTIL_H

#include "pelt.h"

/* The class whose time it is. */
enum util_class {
	UTIL_FAIR,
	UTIL_RT,
	UTIL_DL,
	NR_UTIL_CLASSES,
	/* No class: the CPU is idle. */
	UTIL_NONE = NR_UTIL_CLASSES,
	/* The stop class, which no signal of the kernel counts either. */
	UTIL_STOP,
};

struct cpu_util {
	struct pelt avg[NR_UTIL_CLASSES];
	struct pelt irq;
	/*
	 * Utilization of fair tasks that arrived, less that of tasks that left, not yet in the
	 * average: signed.
	 */
	u64 attached;
	/* The last estimate of the runnable fair tasks' utilization (util_est). */
	u64 estimated;
	/* The interrupt time counted so far, ns. */
	u64 irq_time;
	/* The time of the last update, ns of the runqueue's clock. */
	u64 updated_at;
	/* The last value of the runqueue's clock, and the time when it was first seen. ns */
	u64 clock;
	u64 clock_seen_at;
	/*
	 * The time of the last frequency request, ns, and the bandwidth of deadline tasks in it, of
	 * 1024.
	 */
	u64 asked_at;
	u64 asked_bw_dl;
	/* The class that has had the CPU since: enum util_class. */
	u32 running;
	/* Some utilization still decays. */
	bool blocked;
} __attribute__((aligned(64)));

#endif /* __EQUIPOISE_CPU_UTIL_H */
