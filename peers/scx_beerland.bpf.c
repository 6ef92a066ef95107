/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_beerland 1.1.4 with default options (src/main.rs). */
#include "main.bpf.c"
#include "scx_smt.h"

LOADER()
{
	bool numa = loader_count(loader_node) > 1;

	loader_set(slice_ns, 1000000);
	loader_set(slice_lag, 20000000);
	loader_set(smt_enabled, loader_smt());
	loader_set(numa_enabled, numa);
	loader_set(busy_threshold, 0);
	loader_set(primary_all, true);
	loader_for_each_cpu(cpu) loader_set(cpu_capacity[cpu], loader_capacity(cpu));
	beerland_ops.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED |
			     SCX_OPS_ALWAYS_ENQ_IMMED | SCX_OPS_ALLOW_QUEUED_WAKEUP |
			     (numa ? SCX_OPS_BUILTIN_IDLE_PER_NODE : 0);
	return LOADER_ENABLE_SIBLINGS();
}
