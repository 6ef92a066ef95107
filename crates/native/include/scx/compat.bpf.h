/* SPDX-License-Identifier: GPL-2.0-only */
/* Names under which other releases of sched_ext have the same things. */
#ifndef __SCX_COMPAT_BPF_H
#define __SCX_COMPAT_BPF_H

#define __COMPAT_ENUM_OR_ZERO(type, ent) (ent)

/* What 6.12's own compatibility header calls them. */
#define __COMPAT_scx_bpf_task_cgroup(p) scx_bpf_task_cgroup(p)
#define __COMPAT_scx_bpf_dispatch_from_dsq_set_slice(it, slice) scx_bpf_dispatch_from_dsq_set_slice(it, slice)
#define __COMPAT_scx_bpf_dispatch_from_dsq_set_vtime(it, vtime) scx_bpf_dispatch_from_dsq_set_vtime(it, vtime)
#define __COMPAT_scx_bpf_dispatch_from_dsq(it, p, dsq_id, enq_flags) \
	scx_bpf_dispatch_from_dsq(it, p, dsq_id, enq_flags)
#define __COMPAT_scx_bpf_dispatch_vtime_from_dsq(it, p, dsq_id, enq_flags) \
	scx_bpf_dispatch_vtime_from_dsq(it, p, dsq_id, enq_flags)

/* Linux 6.13's names. */
#define scx_bpf_dsq_insert(p, dsq_id, slice, enq_flags) scx_bpf_dispatch(p, dsq_id, slice, enq_flags)
#define scx_bpf_dsq_insert_vtime(p, dsq_id, slice, vtime, enq_flags) \
	scx_bpf_dispatch_vtime(p, dsq_id, slice, vtime, enq_flags)
/* Linux 7.1's has enq_flags as well, which mean nothing in a local queue. */
#define scx_bpf_dsq_move_to_local(dsq_id, ...) scx_bpf_consume(dsq_id)
#define scx_bpf_dsq_move_set_slice(it, slice) scx_bpf_dispatch_from_dsq_set_slice(it, slice)
#define scx_bpf_dsq_move_set_vtime(it, vtime) scx_bpf_dispatch_from_dsq_set_vtime(it, vtime)
#define scx_bpf_dsq_move(it, p, dsq_id, enq_flags) scx_bpf_dispatch_from_dsq(it, p, dsq_id, enq_flags)
#define scx_bpf_dsq_move_vtime(it, p, dsq_id, enq_flags) scx_bpf_dispatch_vtime_from_dsq(it, p, dsq_id, enq_flags)

/* Linux 6.14's cached clock. */
#define scx_bpf_now() bpf_ktime_get_ns()

/*
 * What later kernels have and Linux 6.12 has not: a scheduler that asks is told so, and what stands for it there
 * stands for it here. NUMA nodes have no idle masks of their own before 6.15: all CPUs are of one node.
 */
#define __COMPAT_HAS_scx_bpf_select_cpu_and false

static inline u32 __COMPAT_scx_bpf_nr_node_ids(void)
{
	return 1;
}

static inline int __COMPAT_scx_bpf_cpu_node(s32 cpu)
{
	(void)cpu;
	return 0;
}

#define __COMPAT_scx_bpf_get_idle_cpumask_node(node) ((void)(node), scx_bpf_get_idle_cpumask())
#define __COMPAT_scx_bpf_get_idle_smtmask_node(node) ((void)(node), scx_bpf_get_idle_smtmask())
#define __COMPAT_scx_bpf_pick_idle_cpu_node(mask, node, flags) ((void)(node), scx_bpf_pick_idle_cpu(mask, flags))
#define __COMPAT_scx_bpf_pick_any_cpu_node(mask, node, flags) ((void)(node), scx_bpf_pick_any_cpu(mask, flags))

/* Without SCX_ENQ_CPU_SELECTED no wakeup skips ops.select_cpu(). */
static inline bool __COMPAT_is_enq_cpu_selected(u64 enq_flags)
{
	(void)enq_flags;
	return true;
}

static inline bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	p->scx.slice = slice;
	return true;
}

static inline bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	p->scx.dsq_vtime = vtime;
	return true;
}

/*
 * Never called where __COMPAT_HAS_scx_bpf_select_cpu_and is asked first. Who does not ask gets what the fallback of
 * today's headers gives on Linux 6.12: the idle CPU that scx_bpf_select_cpu_dfl() finds, if it is allowed.
 */
static inline s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					 const struct cpumask *allowed, u64 flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	(void)flags;
	return is_idle && bpf_cpumask_test_cpu(cpu, allowed) ? cpu : -EBUSY;
}

static inline struct task_struct *__COMPAT_scx_bpf_cpu_curr(s32 cpu)
{
	struct rq *rq = scx_bpf_cpu_rq(cpu);

	return rq ? rq->curr : NULL;
}

/* The first task of a queue, which stays there. */
static inline struct task_struct *__COMPAT_scx_bpf_dsq_peek(u64 dsq_id)
{
	struct task_struct *p = NULL, *first = NULL;

	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		first = p;
		break;
	}
	return first;
}

/* A task's weight of 100 is that of nice 0. */

static inline u64 scale_by_task_weight(const struct task_struct *p, u64 value)
{
	return value * p->scx.weight / 100;
}

static inline u64 scale_by_task_weight_inverse(const struct task_struct *p, u64 value)
{
	return value * 100 / p->scx.weight;
}

/* The linker keeps the ops in a section of their own, where the simulated kernel looks for them. */
#define SCX_OPS_DEFINE(__name, ...) \
	SEC(".struct_ops.link")     \
	__attribute__((visibility("default"))) struct sched_ext_ops __name = { __VA_ARGS__ };

#endif /* __SCX_COMPAT_BPF_H */
