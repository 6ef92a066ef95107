/* SPDX-License-Identifier: GPL-2.0-only */
/* Weights of nice levels, and virtual time. */
#ifndef __EQUIPOISE_WEIGHT_H
#define __EQUIPOISE_WEIGHT_H

#include "topology.bpf.h"

/* From include/uapi/linux/sched.h, because a kernel's vmlinux.h has no macros. */
#ifndef SCHED_BATCH
#define SCHED_BATCH 3
#define SCHED_IDLE 5
#endif

/*
 * The weights of the nice levels. Of two tasks at neighbouring levels, one gets about 55 % of the CPU and the other
 * 45 % (sched_prio_to_weight in kernel/sched/core.c).
 */
static const u32 prio_to_weight[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
	3906,  3121,  2501,  1991,  1586,  1277,  1024,	 820,	655,   526,   423,  335,  272,	215,
	172,   137,   110,   87,    70,	   56,	  45,	 36,	29,    23,    18,   15,
};
#define WEIGHT_IDLEPRIO 3

static __always_inline u32 task_weight(const struct task_struct *p)
{
	u32 nice = p->static_prio - 100;

	if (p->policy == SCHED_IDLE)
		return WEIGHT_IDLEPRIO;
	return nice < 40 ? prio_to_weight[nice] : NICE_0_LOAD;
}

#define WMULT_SHIFT 32

/* Shift right, and round. */
static __always_inline u64 srr(u64 x, u32 shift)
{
	return (x + (1ULL << (shift - 1))) >> shift;
}

/* @delta * @weight / w, for @inv_weight = 2^32 / w. Valid for a @delta of minutes. */
static __always_inline u64 calc_delta(u64 delta, u32 weight, u32 inv_weight)
{
	u64 tmp = delta * weight;

	if (tmp >> 32)
		return srr(srr(tmp, WMULT_SHIFT / 2) * inv_weight, WMULT_SHIFT / 2);
	return srr(tmp * inv_weight, WMULT_SHIFT);
}

/* The virtual time for @delta: the vruntime of a heavier task advances more slowly. */
static __always_inline u64 calc_delta_fair(u64 delta, u32 weight, u32 inv_weight)
{
	return weight == NICE_0_LOAD ? delta : calc_delta(delta, NICE_0_LOAD, inv_weight);
}

#endif /* __EQUIPOISE_WEIGHT_H */
