/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sched_ext scheduler that is worse than others in a known way (worse.c), which the test `trial` expects a
 * trial to find.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef bpf_ksym_exists
#define bpf_ksym_exists(symbol) (!!symbol)
#endif

char _license[] SEC("license") = "GPL";

/* The computing time, in ns, that is added to each wakeup before the task is queued. */
const volatile u64 delay_ns = 0;
/* Tasks run on CPU 0 if they may. */
const volatile bool crowds = false;
/* Tasks with this name are never queued, so sched_ext's watchdog unloads the scheduler. */
const volatile char forgotten[16];

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
/* The name of scx_bpf_dsq_insert() in Linux 6.12. */
void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym __weak;

static int until(u32 index, void *deadline)
{
	return bpf_ktime_get_ns() >= *(u64 *)deadline;
}

static bool is_forgotten(struct task_struct *p)
{
	return forgotten[0] && !bpf_strncmp(p->comm, sizeof(forgotten), (const char *)forgotten);
}

/* Inserts nothing, so that each wakeup calls enqueue. */
SEC("struct_ops/worse_select_cpu")
int BPF_PROG(worse_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

SEC("struct_ops/worse_enqueue")
int BPF_PROG(worse_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 deadline = bpf_ktime_get_ns() + delay_ns, queue = SCX_DSQ_GLOBAL;

	if (is_forgotten(p))
		return 0;
	if (delay_ns && (enq_flags & SCX_ENQ_WAKEUP))
		bpf_loop(1 << 20, until, &deadline, 0);
	/*
	 * Even tasks that may run nowhere else are inserted here, because in the global queue they would wait until
	 * CPU 0 has no other task.
	 */
	if (crowds && bpf_cpumask_test_cpu(0, p->cpus_ptr))
		queue = SCX_DSQ_LOCAL_ON | 0;
	if (bpf_ksym_exists(scx_bpf_dsq_insert))
		scx_bpf_dsq_insert(p, queue, SCX_SLICE_DFL, enq_flags);
	else
		scx_bpf_dispatch(p, queue, SCX_SLICE_DFL, enq_flags);
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops worse = {
	.select_cpu = (void *)worse_select_cpu,
	.enqueue = (void *)worse_enqueue,
	.timeout_ms = 2000,
	.name = "worse",
};
