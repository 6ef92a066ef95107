/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler with features that our own schedulers use rarely or never: slices that end, the global queue, and the
 * kernel's own choice of an idle CPU.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 7

s32 BPF_STRUCT_OPS(slices_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && p->pid % 3)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

void BPF_STRUCT_OPS(slices_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (p->pid % 2)
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 3000000, enq_flags);
	else
		scx_bpf_dsq_insert_vtime(p, SHARED_DSQ, 5000000, p->scx.dsq_vtime, enq_flags);
}

void BPF_STRUCT_OPS(slices_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

void BPF_STRUCT_OPS(slices_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime += 5000000 - p->scx.slice;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(slices_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

SCX_OPS_DEFINE(slices_ops, .select_cpu = (void *)slices_select_cpu, .enqueue = (void *)slices_enqueue,
	       .dispatch = (void *)slices_dispatch, .stopping = (void *)slices_stopping,
	       .init = (void *)slices_init, .name = "slices");
