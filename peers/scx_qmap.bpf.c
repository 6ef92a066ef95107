/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of scx_qmap of Linux 7.3 with default options (tools/sched_ext/scx_qmap.c). The scheduler
 * notices an idle CPU only when that CPU becomes idle again. In Linux kernel threads wake on each CPU within about a
 * second of the scheduler's start; the simulated kernel has none, so the CPUs that are idle at the start are set
 * here.
 */
#include <scx_qmap.bpf.c>
#include <equipoise/loader.h>

/* Runs after ops.init(), which clears the mask. */
LOADER_TIMER(loader_marks_idle)
{
	(void)map, (void)key, (void)loader_marks_idle;
	bpf_rcu_read_lock();
	loader_for_each_cpu(cpu)
	{
		struct task_struct *running = scx_bpf_cid_curr(__KERNEL->cpu_to_cid[cpu]);

		if (running && !running->pid)
			cmask_set(__KERNEL->cpu_to_cid[cpu], &qa.idle_cids.mask);
	}
	bpf_rcu_read_unlock();
	return 0;
}

LOADER()
{
	loader_set(slice_ns, SCX_SLICE_DFL);
	loader_set(max_tasks, 16384);
	loader_set(round_robin_ns, 200000000);
	return loader_marks_idle_start(0, 0);
}
