/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupts' time, which is not charged to tasks. It is the difference between the runqueue's two
 * clocks; in a kernel that does not account it, they do not diverge.
 */
#ifndef __EQUIPOISE_IRQ_TIME_H
#define __EQUIPOISE_IRQ_TIME_H

#include "../rq.bpf.h"

/*
 * The time of interrupts on the CPU of @core, ns since an arbitrary start; 0 in a kernel that does
 * not account it.
 */
static __always_inline u64 irq_time_of(const struct rq *core)
{
	return core->clock - core->clock_task;
}

/*
 * The interrupt time of @cpu. That need not be the current CPU: changing a running task's class,
 * nice level or affinity takes the task from its CPU and puts it back, from the CPU of the caller.
 */
static __always_inline u64 irq_time(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);

	return core ? irq_time_of(core) : 0;
}

#endif /* __EQUIPOISE_IRQ_TIME_H */
