/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Another CPU's runqueue, to read. Linux 7.3 has no scx_bpf_cpu_rq() any more; the per-CPU variable itself is a
 * typed kernel symbol in all kernels that have sched_ext.
 */
#ifndef __EQUIPOISE_RQ_H
#define __EQUIPOISE_RQ_H

#include <scx/common.bpf.h>

extern struct rq runqueues __ksym;

/* NULL for a CPU that is not possible. */
static __always_inline struct rq *cpu_rq(u32 cpu)
{
	return (struct rq *)bpf_per_cpu_ptr(&runqueues, cpu);
}

#endif /* __EQUIPOISE_RQ_H */
