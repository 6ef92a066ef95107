/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between the simulated kernel and a scheduler. The kernel fills in equipoise_kernel when it loads
 * the object; each call of a scheduler into the kernel goes through it.
 */
#ifndef __EQUIPOISE_SIMULATED_H
#define __EQUIPOISE_SIMULATED_H

#include "vmlinux.h"

/*
 * A map at run time. The first word of each variable in section .maps points to such a structure once the object is
 * loaded. [abi]
 */
struct equipoise_map {
	u32 type;
	u32 key_size;
	u32 value_size;
	u32 stride; /* from value to value: value_size rounded up to 8 */
	u32 max_entries;
	u32 storage; /* task and cgroup storage: the index into equipoise_storage[] */
	u32 index;   /* the map's index among the kernel's maps */
	u8 *values;  /* arrays: values, by CPU and then by key */
};

/* A cache line that CPUs share. [abi] */
struct equipoise_line {
	u32 version;   /* counts writes */
	u32 shared_ns; /* cost for the next writer if others have read it since */
	u32 writer;    /* the last writer */
};

/* The costs of shared memory, on a machine that has them. [abi] */
struct equipoise_memory {
	struct equipoise_line *lines; /* the kernel's line of each CPU, the scheduler's, then lines of no CPU */
	u32 *seen;		      /* the version that a CPU saw last, by CPU and line */
	const u32 *line_ns;	      /* the cost from node to node */
	const u16 *node;	      /* of each CPU */
	u32 nr_lines;
	u32 nr_nodes;
	u32 cached_ns;
	u32 pad;
};

/* [abi] */
struct equipoise_kernel {
	u64 now;
	s32 cpu;
	u32 nr_cpu_ids;
	u64 tick_ns;
	struct task_struct *current;
	void *kernel;
	struct rq *rqs;
	u64 spent; /* ns spent since the running code began */
	struct equipoise_memory *memory;
	s32 references; /* references that the current op has taken and not released */
	s32 locks;	/* locks and RCU read-side critical sections that the op still holds */
	u32 version_code;
	u32 cid_form; /* the scheduler identifies CPUs by cid */
	u32 nr_node_ids;
	u32 preempt_count; /* whether the running code is an interrupt's */
	const s32 *cpu_to_cid;
	const s32 *cid_to_cpu;
	const unsigned long *cpufreq_pressure; /* by CPU, of 1024 */

	s32 (*create_dsq)(void *k, u64 dsq_id, s32 node);
	void (*destroy_dsq)(void *k, u64 dsq_id);
	s32 (*dsq_nr_queued)(void *k, u64 dsq_id);
	s32 (*select_cpu_dfl)(void *k, struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
	s32 (*select_cpu_and)(void *k, struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			      const struct cpumask *allowed, u64 flags);
	void (*dispatch)(void *k, struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags);
	void (*dispatch_vtime)(void *k, struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags);
	u32 (*dispatch_nr_slots)(void *k);
	void (*dispatch_cancel)(void *k);
	bool (*consume)(void *k, u64 dsq_id, u64 enq_flags);
	bool (*sub_dispatch)(void *k);
	bool (*dispatch_from_dsq)(void *k, struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
				  u64 enq_flags);
	u32 (*reenqueue_local)(void *k);
	void (*dsq_reenq)(void *k, u64 dsq_id, u64 flags);
	struct task_struct *(*dsq_peek)(void *k, u64 dsq_id);
	void (*kick_cpu)(void *k, s32 cpu, u64 flags);
	s32 (*iter_dsq_new)(void *k, struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);
	struct task_struct *(*iter_dsq_next)(void *k, struct bpf_iter_scx_dsq *it);
	void (*iter_dsq_destroy)(void *k, struct bpf_iter_scx_dsq *it);
	void (*lock_rqs)(void *k, u32 a, u32 b);
	void (*unlock_rqs)(void *k);
	void (*exit)(void *k, s64 code, const char *message);
	void (*error)(void *k, const char *message);
	void (*dump)(void *k, const char *text);
	void (*printk)(void *k, const char *text);
	u32 (*cpuperf)(void *k, s32 cpu, u32 what);
	void (*cpuperf_set)(void *k, s32 cpu, u32 perf, bool of_any_cpu);
	const struct cpumask *(*cpumask)(void *k, u32 which);
	s32 (*cpu_node)(void *k, s32 cpu);
	const struct cpumask *(*node_cpumask)(void *k, s32 node, bool smt);
	s32 (*pick_cpu_node)(void *k, const struct cpumask *allowed, s32 node, u64 flags, bool idle_only);
	bool (*test_and_clear_cpu_idle)(void *k, s32 cpu);
	s32 (*pick_cpu)(void *k, const struct cpumask *allowed, u64 flags, bool idle_only);
	u32 (*any_distribute)(void *k, const struct cpumask *a, const struct cpumask *b);
	struct task_struct *(*task_from_pid)(void *k, s32 pid);
	struct task_struct *(*tid_to_task)(void *k, u64 tid);
	struct rq *(*locked_rq)(void *k);
	s32 (*cpu_of_cid)(void *k, s32 cid);
	s32 (*cid_of_cpu)(void *k, s32 cpu);
	void (*cid_topo)(void *k, s32 cid, struct scx_cid_topo *out);
	void (*cid_override)(void *k, const s32 *cpu_to_cid, u32 nr_cpus, const s32 *shard_start, u32 nr_shards);
	void (*events)(void *k, struct scx_event_stats *out);
	void (*cpu_only)(void *k, const char *kfunc);
	struct cgroup *(*cgroup)(void *k, u64 id);
	struct cgroup *(*task_cgroup)(void *k, struct task_struct *p);
	void *(*storage_get)(void *k, struct equipoise_map *map, void **slot, const void *init, u64 flags);
	void (*storage_delete)(void *k, struct equipoise_map *map, void **slot);
	void *(*map_lookup)(void *k, struct equipoise_map *map, u32 cpu, const void *key);
	s64 (*map_update)(void *k, struct equipoise_map *map, const void *key, const void *value, u64 flags);
	s64 (*map_delete)(void *k, struct equipoise_map *map, const void *key);
	s64 (*map_push)(void *k, struct equipoise_map *map, const void *value, u64 flags);
	s64 (*map_pop)(void *k, struct equipoise_map *map, void *value, bool keep);
	s64 (*map_for_each)(void *k, struct equipoise_map *map, void *map_variable, void *callback, void *ctx);
	s64 (*timer_init)(void *k, struct bpf_timer *timer, void *map_variable, u64 clock);
	s64 (*timer_set_callback)(void *k, struct bpf_timer *timer, void *callback);
	s64 (*timer_start)(void *k, struct bpf_timer *timer, u64 ns, u64 flags);
	s64 (*timer_cancel)(void *k, struct bpf_timer *timer);
	void *(*alloc)(void *k, u64 size);
	void (*keep)(void *k, void *object);
	void (*free)(void *k, void *object);
	u32 (*random)(void *k);
	s32 (*llc_id)(void *k, s32 cpu);
	u64 (*busy_ns)(void *k, s32 cpu);
	void (*explain)(void *k, u32 decision, s32 pid, s32 cpu, const s64 *numbers);
};

/* Indices of equipoise_kernel.cpumask(). [abi] */
enum equipoise_cpumask {
	EQUIPOISE_POSSIBLE,
	EQUIPOISE_ONLINE,
	EQUIPOISE_IDLE,
	EQUIPOISE_IDLE_SMT,
};

/* Indices of equipoise_kernel.cpuperf(). [abi] */
enum equipoise_cpuperf {
	EQUIPOISE_CPUPERF_CAP,
	EQUIPOISE_CPUPERF_CUR,
};

#ifndef __always_inline
/* Underscores, because compile.rs may replace the name without underscores, which schedulers use. */
#define __always_inline inline __attribute__((__always_inline__))
#endif
/* The function is too long to be copied to each call site. */
#define __equipoise_slow __attribute__((noinline, unused))

#define __equipoise_export __attribute__((visibility("default"), used))

/*
 * Protected visibility exports the variable, and lets this object access it without the global offset table. If a
 * scheduler has several files, the first one defines the variable.
 */
#ifdef EQUIPOISE_FURTHER_FILE
extern __attribute__((visibility("protected"))) struct equipoise_kernel *equipoise_kernel;
#else
__attribute__((visibility("protected"), used)) struct equipoise_kernel *equipoise_kernel;
#endif

#define __KERNEL equipoise_kernel
/* Few machines have [memory], so its code is off the fast path. */
#define __equipoise_has_memory() __builtin_expect(__KERNEL->memory != NULL, 0)
/* Calls entry @fn of the kernel's table. */
#define __kcall(fn, ...) __KERNEL->fn(__KERNEL->kernel, ##__VA_ARGS__)

/* Counts the references that the kernel's verifier counts. NULL is not a reference. */
static __always_inline void *__equipoise_take(const void *object)
{
	__KERNEL->references += object != NULL;
	return (void *)object;
}

static __always_inline void *__equipoise_give(const void *object)
{
	__KERNEL->references -= object != NULL;
	return (void *)object;
}

/*
 * Touches memory that the kernel reads or writes, so that a fault on an invalid pointer has the scheduler's line.
 */
static __always_inline void *__equipoise_there(const void *memory)
{
	(void)*(const volatile u8 *)memory;
	return (void *)memory;
}

static inline u32 __equipoise_line_ns(const struct equipoise_memory *m, u32 from, u32 to)
{
	return m->line_ns[m->node[from] * m->nr_nodes + m->node[to]];
}

/* This CPU reads @line: from its cache, unless another CPU has written to the line since. */
static __equipoise_slow void __equipoise_read_line(u32 line)
{
	struct equipoise_memory *m = __KERNEL->memory;
	u32 cpu = __KERNEL->cpu, ns = m->cached_ns;
	struct equipoise_line *l = &m->lines[line];
	u32 *seen = &m->seen[cpu * m->nr_lines + line];

	if (l->writer == cpu)
		return;
	if (*seen != l->version) {
		*seen = l->version;
		ns = __equipoise_line_ns(m, l->writer, cpu);
		if (l->shared_ns < ns)
			l->shared_ns = ns;
	}
	__KERNEL->spent += ns;
}

/* This CPU writes to @line: it takes the line from the last writer and from all readers. */
static __equipoise_slow void __equipoise_write_line(u32 line)
{
	struct equipoise_memory *m = __KERNEL->memory;
	struct equipoise_line *l = &m->lines[line];
	u32 cpu = __KERNEL->cpu, ns = l->shared_ns;

	if (l->writer != cpu) {
		u32 transfer_ns = __equipoise_line_ns(m, l->writer, cpu);

		if (ns < transfer_ns)
			ns = transfer_ns;
	}
	*l = (struct equipoise_line){ .version = l->version + 1, .writer = cpu };
	__KERNEL->spent += ns;
}

/* The scheduler declares that it reads or writes its data of @cpu. The call has no effect without [memory]. */
static __always_inline void simulated_read(u32 cpu)
{
	if (__equipoise_has_memory() && cpu < __KERNEL->nr_cpu_ids)
		__equipoise_read_line(__KERNEL->nr_cpu_ids + cpu);
}

static __always_inline void simulated_write(u32 cpu)
{
	if (__equipoise_has_memory() && cpu < __KERNEL->nr_cpu_ids)
		__equipoise_write_line(__KERNEL->nr_cpu_ids + cpu);
}

/*
 * The scheduler declares that Linux's fair class would take the locks of both runqueues, and then that the fair
 * class would release them.
 */
static __always_inline void simulated_lock_rqs(u32 a, u32 b)
{
	if (__equipoise_has_memory() && a < __KERNEL->nr_cpu_ids && b < __KERNEL->nr_cpu_ids)
		__kcall(lock_rqs, a, b);
}

static __always_inline void simulated_unlock_rqs(void)
{
	if (__equipoise_has_memory())
		__kcall(unlock_rqs);
}

/* The maximum number of values of a decision that a scheduler records (scheduler/explain.bpf.h). [abi] */
#define EQUIPOISE_EXPLAINED_NUMBERS 4

/* The number of a scheduler's lines that belong to no CPU. [abi] */
#define EQUIPOISE_GLOBAL_LINES 4

/* The CPU reads one of the scheduler's lines that belong to no CPU. */
static __always_inline void simulated_read_global(u32 line)
{
	if (__equipoise_has_memory() && line < EQUIPOISE_GLOBAL_LINES)
		__equipoise_read_line(2 * __KERNEL->nr_cpu_ids + line);
}

static __always_inline void simulated_write_global(u32 line)
{
	if (__equipoise_has_memory() && line < EQUIPOISE_GLOBAL_LINES)
		__equipoise_write_line(2 * __KERNEL->nr_cpu_ids + line);
}

#ifndef EQUIPOISE_FURTHER_FILE
/* Sizes and offsets that the simulated kernel compares with its own, in abi/layout.rs's order. */
__equipoise_export const u32 equipoise_abi[] = {
	sizeof(struct equipoise_kernel),
	offsetof(struct equipoise_kernel, memory),
	sizeof(struct equipoise_line),
	sizeof(struct equipoise_memory),
	EQUIPOISE_GLOBAL_LINES,
	EQUIPOISE_EXPLAINED_NUMBERS,
	sizeof(struct equipoise_map),
	offsetof(struct equipoise_map, values),
	sizeof(struct task_struct),
	offsetof(struct task_struct, se),
	offsetof(struct task_struct, scx),
	offsetof(struct task_struct, policy),
	offsetof(struct task_struct, cpus_mask),
	offsetof(struct task_struct, pid),
	offsetof(struct task_struct, comm),
	offsetof(struct task_struct, equipoise_storage),
	sizeof(struct sched_ext_entity),
	sizeof(struct rq),
	offsetof(struct rq, rt),
	offsetof(struct rq, dl),
	offsetof(struct rq, scx),
	sizeof(struct sched_ext_ops),
	offsetof(struct sched_ext_ops, init),
	offsetof(struct sched_ext_ops, dispatch_max_batch),
	offsetof(struct sched_ext_ops, name),
	offsetof(struct sched_ext_ops, cpu_release),
	offsetof(struct sched_ext_ops_cid, init_cids),
	offsetof(struct sched_ext_ops_cid, name),
	sizeof(struct scx_exit_info),
	sizeof(struct scx_event_stats),
	sizeof(struct scx_cid_topo),
	sizeof(struct scx_cgroup_init_args),
	sizeof(struct scx_init_task_args),
	sizeof(struct scx_cpu_release_args),
	sizeof(struct scx_dump_ctx),
	sizeof(struct bpf_timer),
	sizeof(struct bpf_iter_scx_dsq),
	sizeof(struct cgroup),
	offsetof(struct cgroup, storage),
};
#endif

#endif /* __EQUIPOISE_SIMULATED_H */
