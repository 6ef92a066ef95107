/* SPDX-License-Identifier: GPL-2.0-only */
/* Makes a CPU choose its next task. Every request of a scheduler to another CPU goes through this file. */
#ifndef __EQUIPOISE_KICK_H
#define __EQUIPOISE_KICK_H

#include "rq.bpf.h"

/* Is this CPU going offline? The simulated kernel has no irq_work to lose (kick_cpu()). */
static __always_inline bool goes_offline(void)
{
#ifdef __EQUIPOISE_SIMULATED_H
	return false;
#else
	struct rq *rq = cpu_rq(bpf_get_smp_processor_id());

	return !rq || !rq->online;
#endif
}

/*
 * Kicks @cpu, like scx_bpf_kick_cpu(), but not from a CPU that is going offline. The kernel kicks with an irq_work
 * of the requesting CPU. An irq_work that is queued after that CPU has run its list for the last time
 * (smpcfd_dying_cpu()) stays queued. When the CPU comes back, the list is not empty, so no irq_work of this CPU
 * ever runs again, and no scheduler is notified that CPUs come and go (Linux 6.12). Nothing is lost without the
 * kick: the hotplug event unloads the scheduler, and all tasks are enqueued anew.
 */
static __always_inline void kick_cpu(s32 cpu, u64 flags)
{
	if (!goes_offline())
		scx_bpf_kick_cpu(cpu, flags);
}

#endif /* __EQUIPOISE_KICK_H */
