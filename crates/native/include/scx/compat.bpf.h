/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions that work in all kernels. If a kernel lacks one, the closest equivalent is called. */
#ifndef __SCX_COMPAT_BPF_H
#define __SCX_COMPAT_BPF_H

#define __COMPAT_ENUM_OR_ZERO(type, ent) (__equipoise_asked(__equipoise_asks_##ent _, 1, ) ? (type)(ent) : (type)0)

/* The names in Linux 6.12's own compatibility header. */
#define __COMPAT_scx_bpf_task_cgroup(p) scx_bpf_task_cgroup(p)
#define __COMPAT_scx_bpf_dispatch_from_dsq_set_slice(it, slice) scx_bpf_dsq_move_set_slice(it, slice)
#define __COMPAT_scx_bpf_dispatch_from_dsq_set_vtime(it, vtime) scx_bpf_dsq_move_set_vtime(it, vtime)
#define __COMPAT_scx_bpf_dispatch_from_dsq(it, p, dsq_id, enq_flags) scx_bpf_dsq_move(it, p, dsq_id, enq_flags)
#define __COMPAT_scx_bpf_dispatch_vtime_from_dsq(it, p, dsq_id, enq_flags) \
	scx_bpf_dsq_move_vtime(it, p, dsq_id, enq_flags)

/* Linux 6.13 renamed these functions. */
static inline bool scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	__kcall(dispatch, p, dsq_id, slice, enq_flags);
	return true;
}

static inline bool scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags)
{
	__kcall(dispatch_vtime, p, dsq_id, slice, vtime, enq_flags);
	return true;
}

static inline bool __equipoise_move_to_local(u64 dsq_id, u64 enq_flags)
{
	return __kcall(consume, dsq_id, enq_flags);
}
/* Linux 7.1 added the argument enq_flags. */
#define scx_bpf_dsq_move_to_local(dsq_id, ...) __equipoise_move_to_local(dsq_id, (0ULL __VA_OPT__(| (__VA_ARGS__))))

static inline void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	it->slice = slice;
	it->flags |= EQUIPOISE_ITER_HAS_SLICE;
}

static inline void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	it->vtime = vtime;
	it->flags |= EQUIPOISE_ITER_HAS_VTIME;
}

static inline bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags)
{
	return __kcall(dispatch_from_dsq, it, p, dsq_id, enq_flags);
}

static inline bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
					  u64 enq_flags)
{
	return __kcall(dispatch_from_dsq, it, p, dsq_id, enq_flags | EQUIPOISE_ENQ_VTIME);
}

/*
 * Linux 6.14's cached clock. The clock starts a minute before the simulation, as if the kernel had booted then:
 * schedulers initialize timestamps to 0 and expect that to be in the past (otherwise, scx_pair stops). The other
 * clocks start with the simulation, so a difference between them and this one is a minute off.
 */
static __always_inline u64 scx_bpf_now(void)
{
	return bpf_ktime_get_ns() + (bpf_ksym_exists(scx_bpf_now) ? 60 * 1000000000ULL : 0);
}

/*
 * Linux 6.12 reenqueues the tasks of the local queue immediately, and only in ops.cpu_release(). Later kernels
 * allow it everywhere and defer it until the runqueue is unlocked.
 */
static inline void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_reenq))
		__kcall(dsq_reenq, dsq_id, reenq_flags);
	else if (dsq_id == SCX_DSQ_LOCAL && reenq_flags == 0)
		__kcall(reenqueue_local);
	else
		scx_bpf_error("kernel too old to reenqueue foreign local or user DSQs");
}

/*
 * Returns the number of tasks on Linux 6.12, else 0. Schedulers compiled for all kernels call 6.12's kfunc, which
 * still exists in later kernels.
 */
static inline u32 scx_bpf_reenqueue_local(void)
{
	if (!EQUIPOISE_COMPILED_FOR || !bpf_ksym_exists(scx_bpf_dsq_reenq))
		return __kcall(reenqueue_local);
	__kcall(dsq_reenq, SCX_DSQ_LOCAL, 0);
	return 0;
}

static inline bool __COMPAT_has_generic_reenq(void)
{
	return bpf_ksym_exists(scx_bpf_dsq_reenq);
}

static inline bool __COMPAT_scx_bpf_reenqueue_local_from_anywhere(void)
{
	return bpf_ksym_exists(scx_bpf_reenqueue_local___v2);
}

static inline int scx_bpf_reenqueue_local_from_anywhere(void)
{
	if (!__COMPAT_scx_bpf_reenqueue_local_from_anywhere())
		return -EOPNOTSUPP;
	__kcall(dsq_reenq, SCX_DSQ_LOCAL, 0);
	return 0;
}

/* Linux 6.12 lacks these functions; the fallbacks are those of the kernel's compatibility header. */
#define __COMPAT_HAS_scx_bpf_select_cpu_and bpf_ksym_exists(scx_bpf_select_cpu_and)
#define __COMPAT_scx_bpf_events(events, size) \
	(bpf_ksym_exists(scx_bpf_events) ? scx_bpf_events(events, size) : (void)0)
#define __COMPAT_scx_bpf_nr_node_ids() (bpf_ksym_exists(scx_bpf_nr_node_ids) ? scx_bpf_nr_node_ids() : 1U)
#define __COMPAT_scx_bpf_cpu_node(cpu) (bpf_ksym_exists(scx_bpf_cpu_node) ? scx_bpf_cpu_node(cpu) : 0)
#define __COMPAT_scx_bpf_get_idle_cpumask_node(node)                                          \
	(bpf_ksym_exists(scx_bpf_get_idle_cpumask_node) ? scx_bpf_get_idle_cpumask_node(node) \
							: scx_bpf_get_idle_cpumask())
#define __COMPAT_scx_bpf_get_idle_smtmask_node(node)                                          \
	(bpf_ksym_exists(scx_bpf_get_idle_smtmask_node) ? scx_bpf_get_idle_smtmask_node(node) \
							: scx_bpf_get_idle_smtmask())
#define __COMPAT_scx_bpf_pick_idle_cpu_node(mask, node, flags)                                       \
	(bpf_ksym_exists(scx_bpf_pick_idle_cpu_node) ? scx_bpf_pick_idle_cpu_node(mask, node, flags) \
						     : scx_bpf_pick_idle_cpu(mask, flags))
#define __COMPAT_scx_bpf_pick_any_cpu_node(mask, node, flags)                                      \
	(bpf_ksym_exists(scx_bpf_pick_any_cpu_node) ? scx_bpf_pick_any_cpu_node(mask, node, flags) \
						    : scx_bpf_pick_any_cpu(mask, flags))

static __kfunc(bpf_cpumask_populate) int bpf_cpumask_populate(struct bpf_cpumask *mask, void *src, size_t size)
{
	if (size < sizeof(mask->cpumask))
		return -EINVAL;
	__builtin_memcpy(&mask->cpumask, src, sizeof(mask->cpumask));
	return 0;
}
#define __COMPAT_bpf_cpumask_populate(mask, src, size) \
	(bpf_ksym_exists(bpf_cpumask_populate) ? bpf_cpumask_populate(mask, src, size) : -EOPNOTSUPP)

/* Did this wakeup call ops.select_cpu()? */
static inline bool __COMPAT_is_enq_cpu_selected(u64 enq_flags)
{
	return enq_flags & SCX_ENQ_CPU_SELECTED;
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

/* Falls back to the CPU that scx_bpf_select_cpu_dfl() finds, if that is allowed. */
static inline s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
					 const struct cpumask *allowed, u64 flags)
{
	bool is_idle = false;
	s32 cpu;

	__equipoise_cpu_only("scx_bpf_select_cpu_and");
	if (bpf_ksym_exists(scx_bpf_select_cpu_and))
		return __kcall(select_cpu_and, p, prev_cpu, wake_flags, allowed, flags);
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	return is_idle && bpf_cpumask_test_cpu(cpu, allowed) ? cpu : -EBUSY;
}

static inline s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *allowed,
					   struct scx_bpf_select_cpu_and_args *args)
{
	return scx_bpf_select_cpu_and(p, args->prev_cpu, args->wake_flags, allowed, args->flags);
}

static inline bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args)
{
	return scx_bpf_dsq_insert_vtime(p, args->dsq_id, args->slice, args->vtime, args->enq_flags);
}

static inline struct task_struct *__COMPAT_scx_bpf_cpu_curr(s32 cpu)
{
	struct rq *rq = __equipoise_rq(cpu);

	return rq ? rq->curr : NULL;
}

/* The first task of a queue, which stays there. */
static inline struct task_struct *__COMPAT_scx_bpf_dsq_peek(u64 dsq_id)
{
	struct task_struct *p = NULL, *first = NULL;

	if (bpf_ksym_exists(scx_bpf_dsq_peek))
		return __kcall(dsq_peek, dsq_id);
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		first = p;
		break;
	}
	return first;
}

/* A task of nice 0 has a weight of 100. */

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

/* Defines the ops of a cid-form scheduler. */
#define SCX_OPS_CID_DEFINE(__name, ...)                                                \
	__attribute__((visibility("default"), used)) const u32 equipoise_cid_form = 1; \
	SEC(".struct_ops.link")                                                        \
	__attribute__((visibility("default"))) struct sched_ext_ops_cid __name = { __VA_ARGS__ };

#endif /* __SCX_COMPAT_BPF_H */
