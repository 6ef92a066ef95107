/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_pair of Linux 7.3 with default options (tools/sched_ext/scx_pair.c). */
#include <scx_pair.bpf.c>
#include <equipoise/loader.h>

LOADER()
{
	u32 stride = __KERNEL->nr_cpu_ids / 2;

	if (__KERNEL->nr_cpu_ids % 2) {
		scx_bpf_error("scx_pair pairs CPUs: the machine has %u, expected an even number", __KERNEL->nr_cpu_ids);
		return -EINVAL;
	}
	loader_set(pair_batch_dur_ns, SCX_SLICE_DFL);
	for (u32 cpu = 0; cpu < stride; cpu++) {
		loader_set(pair_cpu[cpu], cpu + stride);
		loader_set(pair_cpu[cpu + stride], cpu);
		loader_set(pair_id[cpu], cpu);
		loader_set(pair_id[cpu + stride], cpu);
		loader_set(in_pair_idx[cpu], 0);
		loader_set(in_pair_idx[cpu + stride], 1);
	}
	return 0;
}
