/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_cosmos 1.1.7 with default options (src/main.rs). */
#include "main.bpf.c"
#include "scx_smt.h"

LOADER()
{
	bool numa = loader_count(loader_node) > 1;

	loader_set(slice_ns, 1000000);
	loader_set(slice_lag, 20000000);
	loader_set(cpufreq_enabled, true);
	loader_set(smt_enabled, loader_smt());
	loader_set(numa_enabled, numa);
	loader_set(nr_node_ids, loader_count(loader_node));
	loader_set(busy_threshold, 0);
	loader_set(overload_thresh_ns, 1000000);
	loader_set(primary_all, true);
	loader_set(gpu_enabled, false);
	loader_set(all_cpus_same_capacity, loader_least_capacity() == loader_most_capacity());
	loader_for_each_cpu(cpu)
	{
		u32 node = loader_node(cpu);

		bpf_map_update_elem(&cpu_node_map, &cpu, &node, BPF_ANY);
	}
	LOADER_SET_CAPACITIES();
	cosmos_ops.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED |
			   SCX_OPS_ALLOW_QUEUED_WAKEUP | (numa ? SCX_OPS_BUILTIN_IDLE_PER_NODE : 0);
	return LOADER_ENABLE_SIBLINGS();
}
