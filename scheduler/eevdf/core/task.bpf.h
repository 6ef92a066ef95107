/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks: what the scheduler knows of each, and which runqueue it counts in: with its weight and vruntime from its
 * wakeup until it sleeps, whether it waits or runs; with its averages until it wakes up elsewhere.
 */
#ifndef __EQUIPOISE_TASK_H
#define __EQUIPOISE_TASK_H

#include "../../signals/util_est.h"
#include "../../weight.h"
#include "runqueue.bpf.h"

/* The kernel's sched_entity. While the task runs, its vruntime and deadline are in the runqueue's curr. */
struct fair_entity {
	/* For where it counts and with how much: other CPUs move it. */
	struct bpf_spin_lock lock;
	/* Where it counts, or last did. */
	u32 cpu;
	u64 vruntime;
	/* When it should have had its slice, in vruntime. */
	u64 deadline;
	/* What it asks for at a time, ns; and whether that is its own. */
	u64 slice;
	bool custom_slice;
	/* How much less than the average it has had, in vruntime, when it last stopped being runnable. */
	s64 vlag;
	/* When it last ran, ns of clock_task; 0: it has been moved since. */
	u64 exec_start;
	/* When it became runnable or was last picked, ns: balancing takes first who has been least favoured. */
	u64 listed_at;
	u32 weight;
	/* 2^32 / weight */
	u32 inv_weight;
	bool on_rq;
	bool idle_policy;
	/* Its averages are part of the runqueue's. */
	bool attached;
	/* Forked and not yet woken; and woken for the first time just now. */
	bool forked;
	bool is_new;
	/* It went to sleep when it was not eligible, and waits for that asleep, in a slot of its CPU (delayed.h).
	 */
	bool delayed;
	u32 delayed_slot;
	s32 pid;
	/* Its averages have changed since its estimate was made. */
	bool util_changed;
	/* Utilization by its last turns, of 1024, slow to fall. */
	u32 util_est;
	/* Whom it woke last, how often that has changed lately, and since when, jiffies (wake_wide()). */
	s32 last_wakee;
	u32 wakee_flips;
	u64 wakee_flip_decay;
	/* Where it was before. */
	u32 recent_used_cpu;
	struct load_avg avg;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fair_entity);
} entities SEC(".maps");

/* NULL for a task that sched_ext did not announce, which does not happen. */
static __always_inline struct fair_entity *entity_of(struct task_struct *p)
{
	return bpf_task_storage_get(&entities, p, NULL, 0);
}

static __always_inline bool task_allowed(const struct task_struct *p, u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* Is @p a thread of the kernel's own that is bound to its CPU? */
static __always_inline bool is_per_cpu_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1;
}

/* What a task will use, of 1024: task_util_est(). */
static __always_inline u64 task_util_est(const struct fair_entity *se)
{
	return se->avg.util_avg > se->util_est ? se->avg.util_avg : se->util_est;
}

/* Does @util fit what is left of @cpu, with some room (fits_capacity())? */
static __always_inline bool util_fits_cpu(u64 util, u32 cpu)
{
	return util * 1280 < (u64)power_of(cpu) * 1024;
}

/* Does @cpu have more to do than fits it, on a machine where placement by energy is possible? */
static __always_inline bool cpu_overutilized(u32 cpu)
{
	return machine.nr_energy_domains && !util_fits_cpu(cpu_fair_util(cpu), cpu);
}

static __always_inline void check_update_overutilized(u32 cpu)
{
	if (!whole_machine.overutilized && cpu_overutilized(cpu))
		whole_machine.overutilized = true;
}

/* Is placement by energy possible? */
static __always_inline bool sched_energy_enabled(void)
{
	return machine.nr_energy_domains && policy.frequency;
}

/* And is no CPU too small for what it has? */
static __always_inline bool energy_aware(void)
{
	return sched_energy_enabled() && !READ_ONCE(whole_machine.overutilized);
}

/* Is there noticeably more of @cap1 than of @cap2 (5 %)? */
static __always_inline bool capacity_greater(u64 cap1, u64 cap2)
{
	return cap1 * 1024 > cap2 * 1078;
}

/* Brings the task's averages up to those of its runqueue, which it is attached to. */
static __always_inline void update_entity_load_avg(struct fair_entity *se, u64 clock_pelt, bool running)
{
	if (!update_load_sums(&se->avg, clock_pelt, se->on_rq, se->on_rq, running))
		return;
	update_load_avgs(&se->avg, se->weight);
	se->util_changed = true;
}

/* How far the averages of what sleeps on @cpu have decayed: where it idles, nobody has written it down. */
static __always_inline u64 sleepers_clock(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	return rq->idle ? now - irq_time(cpu) - rq->lost_idle_time : rq->avg.last_update_time;
}

static __always_inline void attach_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *rq = rq_for_update(cpu);

	attach_load_avg(&rq->avg, &se->avg, se->weight);
	rq->util_changed = true;
	se->attached = true;
	se->cpu = cpu;
}

static __always_inline void detach_entity(struct fair_entity *se)
{
	detach_load_avg(&rq_for_update(se->cpu)->avg, &se->avg, se->weight);
	se->attached = false;
}

/* What a new task is taken to use until it shows: its part of what is left (post_init_entity_util_avg()). */
static __always_inline void init_entity_util(struct fair_entity *se, u32 cpu)
{
	const struct load_avg *avg = &rq_of(cpu)->avg;
	s64 cap = (s64)(power_orig_of(cpu) - not_negative(avg->util_avg)) / 2;

	se->avg.load_avg = se->weight;
	if (cap > 0) {
		u64 util = avg->util_avg ? avg->util_avg * se->weight / (avg->load_avg + 1) : (u64)cap;

		se->avg.util_avg = util < (u64)cap ? util : (u64)cap;
	}
	se->avg.runnable_avg = se->avg.util_avg;
}

/*
 * At the end of a turn, the estimate of what the task will use: what it used, or a quarter of the way there if that
 * was less (util_est_update()). Not if it had to wait for the CPU, which hides what it would have used.
 */
static __always_inline void update_util_est(struct fair_entity *se)
{
	u32 util = se->avg.util_avg;

	if (!se->util_changed)
		return;
	if (!policy.util_est_beyond_capacity && util + UTIL_EST_MARGIN <= se->util_est &&
	    util > power_orig_of(se->cpu))
		return;
	/* A smaller one may be that of a task that had to wait. */
	if (util >= se->util_est || util + UTIL_EST_MARGIN >= se->avg.runnable_avg)
		se->util_est = next_util_est(se->util_est, util);
	se->util_changed = false;
}

/* Something of the runqueue's sums changes that the average of vruntime is made of, and has changed. */
static __always_inline void begin_move(struct fair_rq *rq)
{
	__sync_fetch_and_add(&rq->moves_begun, 1);
}

static __always_inline void end_move(struct fair_rq *rq)
{
	__sync_fetch_and_add(&rq->moves_done, 1);
}

/* With the lock: counts the task in the runqueue of @cpu. */
static __always_inline void add_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *rq = rq_for_update(cpu);

	se->cpu = cpu;
	se->on_rq = true;
	begin_move(rq);
	__sync_fetch_and_add(&rq->load_weight, se->weight);
	__sync_fetch_and_add(&rq->weighted_vruntime, se->weight * se->vruntime);
	end_move(rq);
	if (__sync_fetch_and_add(&rq->nr_running, 1) && !whole_machine.overloaded)
		whole_machine.overloaded = true;
	__sync_fetch_and_add(&rq->util_est, se->util_est);
	count_slice(rq, se->custom_slice, se->slice, 1);
	if (se->idle_policy)
		__sync_fetch_and_add(&rq->nr_idle_policy, 1);
}

/* With the lock: counts it no longer. */
static __always_inline void remove_entity(struct fair_entity *se)
{
	struct fair_rq *rq = rq_for_update(se->cpu);

	se->on_rq = false;
	begin_move(rq);
	__sync_fetch_and_add(&rq->load_weight, -(u64)se->weight);
	__sync_fetch_and_add(&rq->weighted_vruntime, -(se->weight * se->vruntime));
	end_move(rq);
	__sync_fetch_and_add(&rq->nr_running, -1);
	__sync_fetch_and_add(&rq->util_est, -se->util_est);
	count_slice(rq, se->custom_slice, se->slice, -1);
	if (se->idle_policy)
		__sync_fetch_and_add(&rq->nr_idle_policy, -1);
	else if (sched_idle_cpu(se->cpu))
		/* Left with SCHED_IDLE tasks it looks for better ones soon. */
		rq->next_balance = 0;
}

#endif /* __EQUIPOISE_TASK_H */
