/* SPDX-License-Identifier: GPL-2.0-only */
/* The result of comparing a signal, passed from pelt.bpf.c to pelt.c. */
#ifndef __PELT_COMPARED_H
#define __PELT_COMPARED_H

/* The tolerance in 1024ths, about 2 %. */
#define TOLERANCE 20

struct compared {
	/* The name of the task or the class. */
	char name[16];
	/* The CPU where the signal was first seen. */
	unsigned int cpu;
	/* The number of comparisons after the warm-up, and the differences, in 1024ths. */
	unsigned long long count;
	unsigned long long sum_diff;
	unsigned long long max_diff;
	/* The number of comparisons in which the difference exceeded the tolerance. */
	unsigned long long nr_off;
	/* The range of the kernel's signal, which shows that there was something to track. */
	unsigned long long min_util;
	unsigned long long max_util;
};

#endif
