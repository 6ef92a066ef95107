/* SPDX-License-Identifier: GPL-2.0-only */
/* What pelt.bpf.c tells pelt.c of a signal. */
#ifndef __PELT_COMPARED_H
#define __PELT_COMPARED_H

struct compared {
	/* The task's, or the class's. */
	char name[16];
	/* Where it was first seen. */
	unsigned int cpu;
	/* Comparisons after the warm-up, and by how much the two differed, of 1024. */
	unsigned long long count;
	unsigned long long sum_diff;
	unsigned long long max_diff;
	/* How far the kernel's signal moved, to show that there was something to track. */
	unsigned long long min_util;
	unsigned long long max_util;
};

#endif
