/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupts' time, which is no task's. It shows in how far the runqueue's two clocks are apart; both stand still
 * together in a kernel that does not count it.
 */
#ifndef __EQUIPOISE_IRQ_TIME_H
#define __EQUIPOISE_IRQ_TIME_H

#include "../rq.bpf.h"

/* What interrupts have taken of the CPU of @core, ns since some time; 0 in a kernel that does not count it. */
static __always_inline u64 irq_time_of(const struct rq *core)
{
	return core->clock - core->clock_task;
}

/*
 * What they have taken of @cpu. Not always of the CPU that this runs on: who changes a running task's class, nice
 * level or CPUs takes it from its CPU and gives it back from where he is.
 */
static __always_inline u64 irq_time(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);

	return core ? irq_time_of(core) : 0;
}

#endif /* __EQUIPOISE_IRQ_TIME_H */
