/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps of several schedulers' loaders for cores with two hardware threads: init_smt_domains() of src/main.rs.
 */
#ifndef __PEERS_SCX_SMT_H
#define __PEERS_SCX_SMT_H

#include <equipoise/loader.h>

/* Calls the scheduler's enable_sibling_cpu(); its argument has the members cpu_id and sibling_cpu_id. */
#define LOADER_ENABLE_SIBLINGS()                                                            \
	({                                                                                  \
		s32 ___failed = 0;                                                          \
		loader_for_each_cpu(___cpu)                                                 \
		{                                                                           \
			struct domain_arg ___siblings = {                                   \
				.cpu_id = ___cpu,                                           \
				.sibling_cpu_id = loader_sibling(___cpu),                   \
			};                                                                  \
			if (loader_smt() && !___failed && loader_sibling(___cpu) != ___cpu) \
				___failed = enable_sibling_cpu(&___siblings);               \
		}                                                                           \
		___failed;                                                                  \
	})

/* Sets the arrays of capacities, and of the CPUs by capacity, highest first. */
#define LOADER_SET_CAPACITIES()                                                                 \
	({                                                                                      \
		u32 ___place = 0;                                                               \
		for (u32 ___capacity = 1024; ___capacity > 0; ___capacity--)                    \
			loader_for_each_cpu(___cpu) if (loader_capacity(___cpu) == ___capacity) \
			{                                                                       \
				loader_set(cpu_capacity[___cpu], ___capacity);                  \
				loader_set(preferred_cpus[___place++], ___cpu);                 \
			}                                                                       \
	})

#endif /* __PEERS_SCX_SMT_H */
