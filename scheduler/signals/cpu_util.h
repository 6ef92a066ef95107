/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The record of a CPU's use; see utilization.bpf.h. The file is separate, because programs outside the scheduler
 * read the record, too.
 */
#ifndef __EQUIPOISE_CPU_UTIL_H
#define __EQUIPOISE_CPU_UTIL_H

#include "pelt.h"

/* The class that uses the time. */
enum util_class {
	UTIL_FAIR,
	UTIL_RT,
	UTIL_DL,
	NR_UTIL_CLASSES,
	/* No class has the CPU, which is idle. */
	UTIL_NONE = NR_UTIL_CLASSES,
	/* The stop class, which the kernel's signals do not count either. */
	UTIL_STOP,
};

struct cpu_util {
	struct pelt avg[NR_UTIL_CLASSES];
	struct pelt irq;
	/*
	 * Utilization that is not in the average yet: that of fair tasks that arrived, less that of tasks that left
	 * (task_util.h), or what the average lacked of a task that stopped (leave_used()). It is a signed number.
	 */
	u64 attached;
	/* The estimated utilization of the runnable fair tasks (util_est). */
	u64 estimated;
	/* The interrupt time counted so far, in ns. */
	u64 irq_time;
	/* The time of the last update, in ns of the runqueue's clock. */
	u64 updated_at;
	/* The last value of the runqueue's clock, and the time when it was first seen, in ns. */
	u64 clock;
	u64 clock_seen_at;
	/*
	 * The time of the last frequency request, in ns, and the bandwidth of deadline tasks in that request, where
	 * 1024 is the largest CPU.
	 */
	u64 asked_at;
	u64 asked_bw_dl;
	/* The class that has had the CPU since the last update: enum util_class. */
	u32 running;
	/* Whether some utilization of the idle CPU still decays. */
	bool blocked;
} __attribute__((aligned(64)));

#endif /* __EQUIPOISE_CPU_UTIL_H */
