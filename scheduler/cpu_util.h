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
	UTIL_NONE = NR_UTIL_CLASSES,
};

struct cpu_util {
	struct pelt avg[NR_UTIL_CLASSES];
	struct pelt irq;
	/* Interrupt time that has been counted, ns. */
	u64 irq_time;
	/* When it was all brought up to date, ns. */
	u64 updated_at;
	/* When a frequency was last asked for, ns. */
	u64 asked_at;
	/* Who has had the CPU since. */
	u32 running;
	/* There is some utilization left to decay. */
	bool blocked;
} __attribute__((aligned(64)));

#endif /* __EQUIPOISE_CPU_UTIL_H */
