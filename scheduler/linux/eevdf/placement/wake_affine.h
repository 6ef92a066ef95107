/* SPDX-License-Identifier: GPL-2.0-only */
/* The CPU near which a task wakes up, its last one or its waker's, by Linux 7.3's rules. */
#ifndef __EQUIPOISE_WAKE_AFFINE_H
#define __EQUIPOISE_WAKE_AFFINE_H

#include "../core/eevdf.h"

/* Records that @waker wakes @pid, to show whether @waker wakes many tasks in turn. */
static __always_inline void record_wakee(struct fair_entity *waker, s32 pid, u64 jiffies)
{
	if (time_after(jiffies, waker->wakee_flip_decay + jiffies_per_sec())) {
		waker->wakee_flips >>= 1;
		waker->wakee_flip_decay = jiffies;
	}
	if (waker->last_wakee != pid) {
		waker->last_wakee = pid;
		waker->wakee_flips++;
	}
}

/*
 * A fork copies the parent's record of wakeups with the rest of the task, and nothing resets it. A
 * task that is older than this scheduler has the kernel's record.
 */
static __always_inline void inherit_wakees(const struct task_struct *p, struct fair_entity *se, bool fork)
{
	const struct fair_entity *parent = fork ? entity_of(bpf_get_current_task_btf()) : NULL;

	if (!parent) {
		se->wakee_flips = p->wakee_flips;
		se->wakee_flip_decay = jiffies_at(bpf_ktime_get_ns());
		return;
	}
	se->last_wakee = parent->last_wakee;
	se->wakee_flips = parent->wakee_flips;
	se->wakee_flip_decay = parent->wakee_flip_decay;
}

/*
 * If a task wakes more tasks than a cache has CPUs, and the woken tasks wake others in turn, the tasks should not
 * all be near the waker.
 */
static __always_inline bool wake_wide(const struct fair_entity *waker, const struct fair_entity *se, u32 cpu)
{
	u32 master = waker->wakee_flips, slave = se->wakee_flips, factor = levels_of(cpu)->llc_weight;

	if (master < slave) {
		u32 other = master;

		master = slave;
		slave = other;
	}
	return slave >= factor && master >= slave * factor;
}

/*
 * The choice by idleness, or -1 if that is not decisive. An idle CPU wakes tasks in an interrupt, which is no
 * reason for a task to leave its cache.
 */
static __always_inline s32 wake_affine_idle(u32 this_cpu, u32 prev_cpu, bool sync)
{
	if (idle_cpu(this_cpu) && cpus_share_cache(this_cpu, prev_cpu))
		return idle_cpu(prev_cpu) ? prev_cpu : this_cpu;
	if (sync && cpu_nr_running(this_cpu) - rq_of(this_cpu)->nr_delayed == 1)
		return this_cpu;
	return idle_cpu(prev_cpu) ? (s32)prev_cpu : -1;
}

/*
 * The choice by load: with a task of @task_load, would this CPU be less busy than the task's last CPU, relative to
 * their capacities? A waker that is about to sleep (@sync), of @current_load, does not count.
 */
static __always_inline bool wake_affine_weight(u32 this_cpu, u32 prev_cpu, u32 imbalance_pct, s64 task_load,
					       s64 current_load, bool sync)
{
	s64 this_eff_load = cpu_load(this_cpu), prev_eff_load = cpu_load(prev_cpu);

	if (sync) {
		if (current_load > this_eff_load)
			return true;
		this_eff_load -= current_load;
	}
	this_eff_load = (this_eff_load + task_load) * 100 * (s64)power_of(prev_cpu);
	prev_eff_load = (prev_eff_load - task_load) * (s64)(100 + (imbalance_pct - 100) / 2) *
			(s64)power_of(this_cpu);
	return this_eff_load < prev_eff_load + sync;
}

/* The CPU near which @se, last on @prev_cpu, wakes up; @imbalance_pct is that of the domain of both CPUs. */
static __always_inline u32 wake_affine(const struct fair_entity *waker, const struct fair_entity *se, u32 this_cpu,
				       u32 prev_cpu, u32 imbalance_pct, bool sync)
{
	s32 target = wake_affine_idle(this_cpu, prev_cpu, sync);
	u64 current_load = waker && waker->on_rq ? task_h_load(waker) : 0;

	if (target >= 0)
		return target;
	return wake_affine_weight(this_cpu, prev_cpu, imbalance_pct, task_h_load(se), current_load, sync)
		       ? this_cpu
		       : prev_cpu;
}

#endif /* __EQUIPOISE_WAKE_AFFINE_H */
