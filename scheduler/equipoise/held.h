/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of throttled groups (throttle.bpf.h) wait in a queue that no CPU takes from until the group may run again.
 *
 * A task that is running when its group is throttled moves there when it stops, at the next tick. A waiting task
 * moves there when it becomes the first of its queue, before a CPU takes it.
 */
#ifndef __EQUIPOISE_HELD_H
#define __EQUIPOISE_HELD_H

#include "idle.h"
#include "place.h"

#define HELD_DSQ (MAX_CLUSTERS + MAX_CPUS)

/*
 * A task that has waited for this long runs in spite of the limit, ns: sched_ext ends a scheduler under which a
 * task waits for 30 s, and many tasks that share a small quota would.
 */
#define LONGEST_HELD LONGEST_WAIT

static __always_inline bool is_overdue(const struct task_struct *p)
{
	return (bpf_jiffies64() - p->scx.runnable_at) * machine.tick_ns >= LONGEST_HELD;
}

/*
 * Must @p, which is running, stop because of its group? An exiting task may continue, because it is
 * about to release its resources.
 */
static __always_inline bool is_to_stop(struct task_struct *p)
{
	const struct task_state *t;

	if (!READ_ONCE(nr_throttled) || p->flags & PF_EXITING)
		return false;
	t = task_of(p);
	return t && t->share && is_throttled(t->share);
}

/* The same question for @p, which waits or is about to wait. */
static __always_inline bool is_held_back(struct task_struct *p)
{
	return is_to_stop(p) && !is_overdue(p);
}

/*
 * Holds back @p, which is in ops.enqueue(). The kernel inserts it only afterwards. If the group becomes runnable in
 * between, the release finds an empty queue, so the CPU checks again (check_held()).
 */
static __always_inline void hold_back(struct task_struct *p, u32 cpu, u64 enq_flags)
{
	const struct task_state *t = task_of(p);

	explain(held_back, p->pid, cpu);
	this_counters()->queue_waits++;
	scx_bpf_dsq_insert_vtime(p, HELD_DSQ, SLICE_MAX, p->scx.dsq_vtime, enq_flags);
	WRITE_ONCE(cpu_at(cpu)->held, t ? t->share : 0);
	kick_cpu(cpu, 0);
}

/* Releases the task that @this has held back last, if it may run by now. */
static __always_inline void check_held(struct cpu_state *this)
{
	u32 share = READ_ONCE(this->held);

	if (!share)
		return;
	WRITE_ONCE(this->held, 0);
	if (!is_throttled(share))
		start_refill(0, 0);
}

/* Holds back tasks from the head of @dsq while their groups are throttled. */
__noinline bool hold_first(u64 dsq)
{
	struct task_struct *p;
	u32 share = 0;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct task_state *t;

		if (!is_held_back(p))
			break;
		t = task_of(p);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, HELD_DSQ, 0) && t)
			share = t->share;
	}
	/* Their group may have become runnable meanwhile. */
	if (share && !is_throttled(share))
		start_refill(0, 0);
	return share;
}

/* Takes the first task of @dsq that may run. */
static __always_inline bool take_first(u64 dsq)
{
	if (READ_ONCE(nr_throttled))
		hold_first(dsq);
	return scx_bpf_dsq_move_to_local(dsq, 0);
}

/*
 * The queue in which @p, whose group may run again, waits for a CPU. Its time in the hold queue counts as a sleep,
 * after which it is owed no more than after any other.
 */
static __always_inline u64 dsq_after_hold(struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);

	return is_pinned(p) ? own_dsq(cpu) : cluster_dsq(cpu_at(cpu)->cluster);
}

static __always_inline u64 vtime_after_hold(struct task_struct *p)
{
	struct cpu_state *this = cpu_at(scx_bpf_task_cpu(p));
	u64 clock = clock_of(p, this, cluster_at(this->cluster));

	return bound_vtime(p->scx.dsq_vtime, clock, lag_of(p), UNBOUNDED);
}

/* @p waits for a CPU: wake an idle one. */
__noinline bool call_for(struct task_struct *p __arg_trusted)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *this = cpu_at(cpu);
	s32 idle;

	if (is_pinned(p)) {
		keeps_tasks(cpu, this, cluster_at(this->cluster));
		return true;
	}
	somebody_waits(this->cluster);
	idle = claim_idle_cpu(p, cpu, false);
	if (idle >= 0)
		kick_cpu(idle, SCX_KICK_IDLE);
	return idle >= 0;
}

/* Releases all tasks that need not wait any longer. */
__noinline bool release_held(void)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, HELD_DSQ, 0) {
		if (is_held_back(p))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, vtime_after_hold(p));
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_after_hold(p), 0))
			call_for(p);
	}
	return true;
}

static int run_refill(void *timers, int *share, struct scheduler_timer *timer)
{
	if (*share)
		refill_share(*share);
	release_held();
	return 0;
}

/* Gives @share its timer. */
static __always_inline void init_refill(u32 share)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(&refills, &share);

	if (!timer)
		return;
	bpf_timer_init(&timer->timer, &refills, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, run_refill);
}

/* The limit of @cgrp changes or is set for the first time; see limit_share(). */
static __always_inline void limit_group(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	u32 share = own_share(cgrp);

	if (!share)
		return;
	init_refill(0);
	init_refill(share);
	limit_share(share, period_us, quota_us, burst_us);
}

#endif /* __EQUIPOISE_HELD_H */
