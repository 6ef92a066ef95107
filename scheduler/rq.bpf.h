/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads another CPU's runqueue. Linux 7.3 no longer has scx_bpf_cpu_rq(); the per-CPU variable itself is a typed
 * kernel symbol in all kernels with sched_ext.
 */
#ifndef __EQUIPOISE_RQ_H
#define __EQUIPOISE_RQ_H

#include <scx/common.bpf.h>

extern struct rq runqueues __ksym;

/* The runqueue of @cpu; NULL for an impossible CPU. */
static __always_inline struct rq *cpu_rq(u32 cpu)
{
	return (struct rq *)bpf_per_cpu_ptr(&runqueues, cpu);
}

#endif /* __EQUIPOISE_RQ_H */
