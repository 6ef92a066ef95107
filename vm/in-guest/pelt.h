/* SPDX-License-Identifier: GPL-2.0-only */
/* A comparison of a signal, from pelt.bpf.c to pelt.c. */
#ifndef __PELT_COMPARED_H
#define __PELT_COMPARED_H

/* Of 1024; the bar is 2 %. */
#define TOLERANCE 20

struct compared {
	/* The task's, or the class's. */
	char name[16];
	/* Where it was first seen. */
	unsigned int cpu;
	/* Comparisons after the warm-up, and by how much the two differed, of 1024. */
	unsigned long long count;
	unsigned long long sum_diff;
	unsigned long long max_diff;
	/* In how many they did by more than the tolerance. */
	unsigned long long nr_off;
	/* How far the kernel's signal moved, to show that there was something to track. */
	unsigned long long min_util;
	unsigned long long max_util;
};

#endif
