/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_tickless 1.1.4 with default options (src/main.rs): the first CPU is the primary one. */
#include "main.bpf.c"
#include "scx_smt.h"

struct loader_start {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct loader_start);
} loader_start SEC(".maps");

/* Its own timer can be started only after ops.init(). */
static int loader_start_timer(void *map, u32 *key, struct loader_start *value)
{
	struct cpu_arg here = { .cpu_id = bpf_get_smp_processor_id() };

	(void)map, (void)key, (void)value;
	if (start_timer(&here))
		scx_bpf_error("failed to start the scheduling timer");
	return 0;
}

LOADER()
{
	struct cpu_arg first = { .cpu_id = bpf_get_smp_processor_id() };
	struct loader_start *start;
	u32 place = 0, only = 0;

	loader_set(smt_enabled, loader_smt());
	loader_set(slice_ns, 20000000);
	loader_set(tick_freq, 0);
	for (u32 capacity = 1024; capacity > 0; capacity--)
		loader_for_each_cpu(cpu) if (loader_capacity(cpu) == capacity)
			loader_set(preferred_cpus[place++], cpu);
	tickless_ops.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED | SCX_OPS_ALLOW_QUEUED_WAKEUP;
	start = bpf_map_lookup_elem(&loader_start, &only);
	bpf_timer_init(&start->timer, &loader_start, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&start->timer, loader_start_timer);
	bpf_timer_start(&start->timer, 0, BPF_F_TIMER_CPU_PIN);
	return enable_primary_cpu(&first);
}
