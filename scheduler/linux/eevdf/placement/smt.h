/* SPDX-License-Identifier: GPL-2.0-only */
/* The hardware threads of a core, and whether all are idle. */
#ifndef __EQUIPOISE_SMT_H
#define __EQUIPOISE_SMT_H

#include "../core/runqueue.bpf.h"

/* The domain of @cpu's core, or NULL if it has one thread. */
static __always_inline const struct domain *smt_domain(u32 cpu)
{
	const struct domain *sd = domain_of(cpu, 0);

	return levels_of(cpu)->nr_levels && sd->flags & SD_SHARE_CPUPOWER ? sd : NULL;
}

/* The @i-th CPU of @sd. */
static __always_inline u32 domain_cpu(const struct domain *sd, u32 i)
{
	return cpu_list[(sd->first + i) & (MAX_DOMAINS * MAX_LEVELS - 1)];
}

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
