/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is kept of how a CPU is used; see utilization.h. On its own, for who looks at it from outside.
 */
#ifndef __EQUIPOISE_CPU_UTIL_H
#define __EQUIPOISE_CPU_UTIL_H

#include "pelt.h"

/* Whose time it is. */
enum util_class {
	UTIL_FAIR,
	UTIL_RT,
	UTIL_DL,
	NR_UTIL_CLASSES,
	/* Nobody's: the CPU idles. */
	UTIL_NONE = NR_UTIL_CLASSES,
	/* The stop class's, which no signal of the kernel's counts either. */
	UTIL_STOP,
};

struct cpu_util {
	struct pelt avg[NR_UTIL_CLASSES];
	struct pelt irq;
	/* Utilization of fair tasks that came, less that of those that left, and is not in the average yet: signed.
	 */
	u64 attached;
	/* What the runnable fair tasks were last estimated to use (util_est). */
	u64 estimated;
	/* Interrupt time that has been counted, ns. */
	u64 irq_time;
	/* To when it was all brought up to date, ns of the runqueue's clock. */
	u64 updated_at;
	/* What the runqueue's clock last showed, and the time at which it was first seen to. ns */
	u64 clock;
	u64 clock_seen_at;
	/* When a frequency was last asked for, ns, and for which bandwidth of deadline tasks, of 1024. */
	u64 asked_at;
	u64 asked_bw_dl;
	/* Who has had the CPU since: enum util_class. */
	u32 running;
	/* There is some utilization left to decay. */
	bool blocked;
} __attribute__((aligned(64)));

#endif /* __EQUIPOISE_CPU_UTIL_H */
