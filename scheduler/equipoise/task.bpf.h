/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of tasks, and the charge for their running time, which is made once per stop. Virtual
 * time is work divided by weight: time on a CPU counts by that CPU's speed, so that equal virtual
 * times mean equal progress wherever the tasks ran. It is in the task's dsq_vtime, which any CPU
 * may read, also while the task runs elsewhere.
 */
#ifndef __EQUIPOISE_TASK_H
#define __EQUIPOISE_TASK_H

#include "../signals/utilization.bpf.h"
#include "../weight.h"
#include "cluster.bpf.h"
#include "throttle.bpf.h"
#include "vtime.h"

struct task_state {
	/* The running time that has been charged, ns. */
	u64 seen;
	/* How long it runs between a wakeup and the next sleep, ns: on average, and so far. */
	u64 burst;
	u64 burst_so_far;
	/* The virtual time charged since it started to run. */
	u64 charged;
	/* How far it was behind the clock when it went to sleep, in virtual time; negative: ahead. */
	s64 lag;
	u32 weight;
	/* 2^32 / weight */
	u32 inv_weight;
	/* The share of its control group, and whether it counts there as runnable. */
	u32 share;
	bool counted;
	/* It has just been forked. */
	bool forked;
	/* Another task woke or created it. */
	bool awaited;
	/*
	 * Its utilization; the running time included in it, ns; and the estimate of its future
	 * utilization.
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

/*
 * The slice of every task; the tick preempts it sooner if others wait. The rest of the slice shows
 * how long the task has run.
 */
#define SLICE_MAX (100 * NSEC_PER_MSEC)

/*
 * The most that a task is owed. Tasks of different clusters change places well before that, but at ticks, so that
 * the clusters' clocks may be some ticks apart: with HZ=100 and a bound of 20 ms a loop of nice -10 was at that
 * bound and yet ahead of loops elsewhere, which took the fastest CPU from it at each tick.
 */
#define MOST_BEHIND (4 * (tunables.unfairness > machine.tick_ns ? tunables.unfairness : machine.tick_ns))

/* NULL for a task that sched_ext did not announce, which does not happen. */
static __always_inline struct task_state *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline bool task_allowed(const struct task_struct *p, u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* The same function for a task that runs on another CPU, whose affinity no kfunc may read. */
static __always_inline bool running_allowed(const struct task_struct *curr, u32 cpu)
{
	const struct cpumask *mask = curr->cpus_ptr;
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), &mask->bits[cpu % MAX_CPUS / 64]);
	return word >> (cpu & 63) & 1;
}

/* May it run on one CPU only? */
static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 || is_migration_disabled(p);
}

/* Is its affinity restricted? */
static __always_inline bool is_restricted(const struct task_struct *p)
{
	return p->nr_cpus_allowed < (int)nr_cpus();
}

/* May it not run everywhere? */
static __always_inline bool is_bound(const struct task_struct *p)
{
	return is_restricted(p) || is_migration_disabled(p);
}

static __always_inline bool is_heavy(const struct task_struct *p)
{
	return p->static_prio < NICE_0_PRIO;
}

static __always_inline bool is_light(const struct task_struct *p)
{
	return p->static_prio > NICE_0_PRIO || p->policy == SCHED_IDLE;
}

static __always_inline u64 ran_of(const struct task_struct *p)
{
	return SLICE_MAX - p->scx.slice;
}

/* Virtual time for @ran ns on a CPU of @speed. */
static __always_inline u64 charge_of(const struct task_state *t, u64 ran, u32 speed)
{
	u64 vtime = t->share ? (ran << (10 + SHARE_SHIFT)) / shared_weight(t->share, t->weight)
			     : calc_delta_fair(ran, t->weight, t->inv_weight);

	return speed == SCHED_POWER_SCALE ? vtime : vtime * speed / SCHED_POWER_SCALE;
}

/* Charges @p, which runs on @this, for its running time since the last charge. Returns that time, ns. */
static __always_inline u64 charge(struct task_struct *p, struct task_state *t, struct cpu_state *this)
{
	u64 ran = p->se.sum_exec_runtime - t->seen;
	u64 vtime = charge_of(t, ran, speed_of(this, cluster_at(this->cluster)));

	t->seen += ran;
	t->burst_so_far += ran;
	t->charged += vtime;
	p->scx.dsq_vtime += vtime;
	WRITE_ONCE(this->charged_at, bpf_ktime_get_ns());
	if (READ_ONCE(nr_limits) && t->share)
		charge_limits(t->share, ran);
	return ran;
}

/* @t becomes runnable, or stops being so, and counts in its control group's share. */
static __always_inline void count_runnable(struct task_state *t, bool runnable)
{
	if (!t->share || t->counted == runnable)
		return;
	t->counted = runnable;
	add_runnable(t->share, runnable ? (s64)t->weight : -(s64)t->weight);
}

static __always_inline void becomes_runnable(struct task_struct *p)
{
	struct task_state *t = has_shares() ? task_of(p) : NULL;

	if (t)
		count_runnable(t, true);
}

/* @t changes its weight, or its control group. */
static __always_inline void move_share(struct task_state *t, u32 share, u32 weight)
{
	bool counted = t->counted;

	count_runnable(t, false);
	t->share = share;
	t->weight = weight;
	count_runnable(t, counted);
}

/* The task goes to sleep: moves the average by a quarter of the difference towards the last burst. */
static __always_inline void end_burst(struct task_state *t)
{
	t->burst += (s64)(t->burst_so_far - t->burst) / 4;
	t->burst_so_far = 0;
}

/*
 * The clock follows light tasks from this far, ns: the charge of nice 19 for a tick of 10 ms, and
 * half as much again.
 */
#define LIGHT_BEHIND (NSEC_PER_SEC / 2)

/* The virtual time that @ran ns of running cost @p. */
static __always_inline u64 fair_time(const struct task_struct *p, u64 ran)
{
	return p->static_prio == NICE_0_PRIO && p->policy != SCHED_IDLE ? ran : ran * NICE_0_LOAD / task_weight(p);
}

/*
 * A light task starts this far ahead: by the extra cost of one of its slices. At equal virtual
 * times it therefore comes after heavier tasks, as under EEVDF, where its deadline is later.
 * Otherwise they would wait for its slice, which is worth many of theirs.
 */
static __always_inline s64 start_of(const struct task_struct *p)
{
	return is_light(p) ? fair_time(p, tunables.preempt_after) - tunables.preempt_after : 0;
}

/*
 * How far @p may be behind when it wakes up. A heavy task that sleeps at all has had less than its
 * share, and must not wait for lighter tasks that slept, too.
 */
static __always_inline s64 lag_of(const struct task_struct *p)
{
	u64 lag = tunables.lag;

	if (is_heavy(p))
		lag = lag * task_weight(p) / NICE_0_LOAD;
	return (s64)(lag < MOST_BEHIND ? lag : MOST_BEHIND) - start_of(p);
}

/* The initial virtual time of a task that @parent has forked on a CPU of @c: the parent's, but not before @clock.
 */
static __always_inline u64 inherited_vtime(struct task_struct *parent, const struct cluster *c, u64 clock)
{
	struct task_state *t = task_of(parent);
	u64 vtime;

	if (!t || !parent->pid || parent->prio < MAX_RT_PRIO)
		return clock;
	vtime = parent->scx.dsq_vtime + charge_of(t, parent->se.sum_exec_runtime - t->seen, c->speed);
	return (s64)(vtime - clock) > 0 ? vtime : clock;
}

static __always_inline void set_task_weight(struct task_struct *p, struct task_state *t)
{
	move_share(t, t->share, task_weight(p));
	t->inv_weight = (1ULL << 32) / t->weight;
}

#endif /* __EQUIPOISE_TASK_H */
