/* SPDX-License-Identifier: GPL-2.0-only */
/* The time of interrupts, which is not charged to tasks: the difference between the runqueue's two clocks. */
#ifndef __EQUIPOISE_IRQ_TIME_H
#define __EQUIPOISE_IRQ_TIME_H

#include "../rq.bpf.h"

/* The interrupt time of the CPU of @core, in ns since an arbitrary time; 0 in a kernel that does not account it. */
static __always_inline u64 irq_time_of(const struct rq *core)
{
	return core->clock - core->clock_task;
}

/*
 * The interrupt time of @cpu. @cpu need not be the current CPU: when the class, nice level or affinity of a running
 * task changes, the task is taken off its CPU and put back there by code on the caller's CPU.
 */
static __always_inline u64 irq_time(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);

	return core ? irq_time_of(core) : 0;
}

#endif /* __EQUIPOISE_IRQ_TIME_H */
