/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_tickless 1.1.4 with default options (src/main.rs): the first CPU is the primary one. */
#include "main.bpf.c"
#include "scx_smt.h"

/* The scheduler's own timer can be started only after ops.init(). */
LOADER_TIMER(loader_scheduling)
{
	struct cpu_arg here = { .cpu_id = bpf_get_smp_processor_id() };

	(void)map, (void)key, (void)loader_scheduling;
	if (start_timer(&here))
		scx_bpf_error("failed to start the scheduling timer");
	return 0;
}

LOADER()
{
	struct cpu_arg first = { .cpu_id = bpf_get_smp_processor_id() };
	u32 place = 0;

	loader_set(smt_enabled, loader_smt());
	loader_set(slice_ns, 20000000);
	loader_set(tick_freq, 0);
	for (u32 capacity = 1024; capacity > 0; capacity--)
		loader_for_each_cpu(cpu) if (loader_capacity(cpu) == capacity)
			loader_set(preferred_cpus[place++], cpu);
	tickless_ops.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED | SCX_OPS_ALLOW_QUEUED_WAKEUP;
	loader_scheduling_start(0, BPF_F_TIMER_CPU_PIN);
	return enable_primary_cpu(&first);
}
