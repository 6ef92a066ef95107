/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of scx_forge 1.1.3 with default options (src/main.rs). The maps that describe the topology to
 * generated policies stay empty.
 */
#include "main.bpf.c"
#include "scx_smt.h"

LOADER()
{
	loader_set(slice_ns, 1000000);
	loader_set(smt_enabled, loader_smt());
	loader_set(topo_dsq, TOPO_DSQ_GLOBAL);
	loader_set(ordering, ORDER_VRUNTIME);
	loader_set(idle_policy, IDLE_WAKEE);
	loader_set(primary_all, true);
	loader_set(all_cpus_same_capacity, loader_least_capacity() == loader_most_capacity());
	loader_for_each_cpu(cpu)
	{
		u32 node = loader_node(cpu);

		bpf_map_update_elem(&cpu_node_map, &cpu, &node, BPF_ANY);
	}
	loader_set(perf_threshold, 1000);
	loader_set(perf_sticky_threshold, 1000);
	forge_ops.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED |
			  SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_BUILTIN_IDLE_PER_NODE;
	return LOADER_ENABLE_SIBLINGS();
}
