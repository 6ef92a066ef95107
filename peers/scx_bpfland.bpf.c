/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_bpfland 1.1.4 with default options (src/main.rs): all CPUs are primary. */
#include "main.bpf.c"
#include "scx_smt.h"

LOADER()
{
	bool numa = loader_count(loader_node) > 1;

	loader_set(smt_enabled, loader_smt());
	loader_set(numa_enabled, numa);
	loader_set(slice_max, 1000000);
	loader_set(slice_min, 0);
	loader_set(slice_lag, 40000000);
	loader_set(throttle_ns, 0);
	loader_set(primary_all, true);
	loader_set(local_pcpu, false);
	loader_set(local_kthreads, false);
	loader_set(sticky_tasks, false);
	LOADER_SET_CAPACITIES();
	bpfland_ops.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED |
			    SCX_OPS_ALLOW_QUEUED_WAKEUP | (numa ? SCX_OPS_BUILTIN_IDLE_PER_NODE : 0);
	return LOADER_ENABLE_SIBLINGS();
}
