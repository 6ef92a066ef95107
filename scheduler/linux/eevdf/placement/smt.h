/* SPDX-License-Identifier: GPL-2.0-only */
/* Tests whether the hardware threads of a core are idle. */
#ifndef __EQUIPOISE_SMT_H
#define __EQUIPOISE_SMT_H

#include "../core/runqueue.bpf.h"

/* Are all other threads of @cpu's core idle? */
__noinline bool is_core_idle(u32 cpu)
{
	forget_origin(cpu);
	const struct domain *sd = smt_domain(cpu);
	bool idle = true;
	int i;

	if (!sd)
		return true;
	bpf_for(i, 0, sd->weight) {
		u32 sibling = domain_cpu(sd, i);

		if (sibling != cpu && !idle_cpu(sibling)) {
			idle = false;
			break;
		}
	}
	return idle;
}

#endif /* __EQUIPOISE_SMT_H */
