/* SPDX-License-Identifier: GPL-2.0-only */
/* Has a CPU look for what it is to run: all that a scheduler asks of another CPU goes through here. */
#ifndef __EQUIPOISE_KICK_H
#define __EQUIPOISE_KICK_H

#include "rq.bpf.h"

/* Is this CPU being taken away? Of simulated machines none ever is. */
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
 * Kicks @cpu, as scx_bpf_kick_cpu(), but not from a CPU that goes offline. The kernel kicks by an irq_work of the
 * CPU that asks. One that is queued after that CPU has run them for the last time (smpcfd_dying_cpu()) stays; when
 * the CPU comes back it still stands first in its list, so that no irq_work of this CPU is ever run again, nor is a
 * scheduler told that CPUs come and go (Linux 6.12). Nothing is lost: for the hotplug the scheduler leaves, and all
 * tasks are enqueued anew.
 */
static __always_inline void kick_cpu(s32 cpu, u64 flags)
{
	if (!goes_offline())
		scx_bpf_kick_cpu(cpu, flags);
}

#endif /* __EQUIPOISE_KICK_H */
