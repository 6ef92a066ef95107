/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of tasks, and which CPUs they may use. */
#ifndef __EQUIPOISE_TASK_H
#define __EQUIPOISE_TASK_H

#include "../signals/utilization.bpf.h"
#include "../weight.h"
#include "cluster.bpf.h"
#include "throttle.bpf.h"

struct task_state {
	/* The running time that has been charged, in ns. */
	u64 seen;
	/* The task's running time between a wakeup and the next sleep, in ns: on average, and so far. */
	u64 burst;
	u64 burst_so_far;
	/* Averages, in ns: time from the first wakeup with SCX_WAKE_SYNC in a turn to its end; sleep time. */
	u64 after_wakeup;
	u64 nap;
	/* The task's place on the clock of @cluster or, if @bound_to is not 0, of the CPU @bound_to - 1. */
	struct entity fair;
	u32 cluster;
	u32 bound_to;
	/* The task's weight with its groups when it was last placed or charged, in fair.h's unit. */
	u64 full_weight;
	/* The clusters of which the task may use all CPUs. */
	u64 whole;
	/*
	 * Averages of about the last second (progress.h), in ns, at the time @recent_at: the task's work that
	 * counts, the work that it did, and its sleep time.
	 */
	u64 recent;
	u64 did;
	u64 slept;
	u64 recent_at;
	u32 weight;
	/* The share of the task's control group, and the weight that counts there while the task is runnable. */
	u32 share;
	u32 counted;
	/* Another task woke or created this task. */
	bool awaited;
	/*
	 * The task's utilization; the running time that it includes, in ns; and the estimate of future utilization.
	 */
	struct pelt used;
	u64 used_seen;
	u32 util_est;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

/* The slice of every task: its rest shows how long the task has run. A task stops sooner if others wait. */
#define SLICE_MAX (100 * NSEC_PER_MSEC)

/* NULL for a task that sched_ext did not announce, which does not happen. */
static __always_inline struct task_state *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline bool task_allowed(const struct task_struct *p, u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* task_allowed() for a task that runs on another CPU, whose affinity no kfunc may read. */
static __always_inline bool running_allowed(const struct task_struct *curr, u32 cpu)
{
	const struct cpumask *mask = curr->cpus_ptr;
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), &mask->bits[cpu % MAX_CPUS / 64]);
	return has_bit(word, cpu);
}

/* May @p run on one CPU only? */
static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 || is_migration_disabled(p);
}

/* Is @p bound to some of the CPUs of @cluster? */
static __always_inline bool is_bound_in(const struct task_struct *p, const struct task_state *t, u32 cluster)
{
	return !has_bit(t->whole, cluster) || is_migration_disabled(p);
}

/* Notes the clusters of which @mask, the new affinity of @p, has all CPUs. */
__noinline bool note_affinity(struct task_struct *p __arg_trusted, const struct cpumask *mask __arg_trusted)
{
	struct task_state *t = task_of(p);
	int cpu;

	if (!t)
		return false;
	t->whole = ~0ULL;
	bpf_for(cpu, 0, nr_cpus())
		if (is_online(cpu) && !bpf_cpumask_test_cpu(cpu, mask))
			t->whole &= ~bit(cpu_at(cpu)->cluster);
	return true;
}

static __always_inline u64 ran_of(const struct task_struct *p)
{
	return SLICE_MAX - p->scx.slice;
}

/* The running time of @t before it sleeps, in ns: its average burst or, if longer, the current one. */
static __always_inline u64 burst_of(const struct task_state *t)
{
	return t->burst > t->burst_so_far ? t->burst : t->burst_so_far;
}

/* Moves @average towards @value, by a quarter of the difference. */
static __always_inline u64 towards(u64 average, u64 value)
{
	return average + ((s64)(value - average) >> 2);
}

/* The task goes to sleep. */
static __always_inline void end_burst(struct task_state *t)
{
	t->burst = towards(t->burst, t->burst_so_far);
	t->burst_so_far = 0;
}

#endif /* __EQUIPOISE_TASK_H */
