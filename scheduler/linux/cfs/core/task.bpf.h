/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks: the state of each, and the runqueue in which it counts. A task counts in one runqueue from
 * its wakeup until it sleeps, whether it waits in that CPU's dispatch queue or runs.
 */
#ifndef __EQUIPOISE_TASK_H
#define __EQUIPOISE_TASK_H

#include "../../../signals/task_util.h"
#include "../../../weight.h"
#include "../group/queues.h"
#include "runqueue.bpf.h"

/* The kernel's sched_entity. While the task runs, its vruntime is in the runqueue's curr. */
struct fair_entity {
	/*
	 * Protects the CPU on which the task counts, and its contribution there (on_rq, cpu, weight,
	 * load_avg_contrib), because other CPUs move tasks.
	 */
	struct bpf_spin_lock lock;
	/* The vruntime, as it compares with min_vruntime of the runqueue of cpu. */
	u64 vruntime;
	/* The time at which the task last ran, in ns. */
	u64 exec_start;
	/* The CPU on which the task counts, or last counted. */
	u32 cpu;
	u32 weight;
	/* 2^32 / weight */
	u32 inv_weight;
	bool on_rq;
	/* Whether the task is forked but not woken yet. */
	bool forked;
	/* The task's group; 0 is the root. */
	u32 group;
	/* The task's part of runnable_load_avg: its runnable average times its weight. */
	u64 load_avg_contrib;
	/* For a task in a group that counts there as a sleeper, the period in which it went to sleep. */
	u64 decay_count;
	struct pelt avg;
	struct task_util util;
	struct design_entity design;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fair_entity);
} entities SEC(".maps");

/* The entity of @p; NULL for a task that sched_ext did not announce, which does not happen. */
static __always_inline struct fair_entity *entity_of(struct task_struct *p)
{
	return bpf_task_storage_get(&entities, p, NULL, 0);
}

static __always_inline bool task_allowed(const struct task_struct *p, u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* task_h_load(): the load that balancing would move with the task. */
static __always_inline u64 entity_load(const struct fair_entity *se)
{
	u64 load = balanced_load(se->weight, se->load_avg_contrib);

	if (in_group(se->group))
		load = load * group_h_load(se->group, se->cpu) /
		       (balanced_load(*load_weight_of(se->group, se->cpu), *runnable_load_of(se->group, se->cpu)) +
			1);
	return load;
}

/*
 * Updates the task's averages to @now. As in the kernel, the averages of a queued task are as old as its last
 * event.
 */
static __always_inline void update_entity_load_avg(struct fair_entity *se, u64 now, bool runnable, bool running)
{
	struct fair_rq *rq = NULL;
	u64 contrib;

	if (!update_pelt(&se->avg, now, runnable, running))
		return;
	contrib = pelt_avg(&se->avg, se->avg.runnable_sum, se->weight);
	bpf_spin_lock(&se->lock);
	if (se->on_rq) {
		rq = rq_of(se->cpu);
		__sync_fetch_and_add(runnable_load_of(se->group, se->cpu), contrib - se->load_avg_contrib);
	}
	se->load_avg_contrib = contrib;
	hook_update_entity_load(se, rq);
	bpf_spin_unlock(&se->lock);
}

/*
 * Decays the averages of @se, which wakes up on a different CPU than the one on which it went to sleep. The
 * averages have decayed only up to the last event of its old runqueue, and so hardly at all if the old CPU idled
 * without a tick (migrate_task_rq_fair(), from Linux 3.8 on; Linux 5.19 began to estimate the rest).
 */
static __always_inline void migrate_sleeper(struct fair_entity *se, u64 now)
{
	u64 slept = rq_of(se->cpu)->avg.last_update_time - se->avg.last_update_time;

	se->avg.last_update_time = (s64)slept > 0 ? now - slept : now;
}

/* Is the task's group throttled on one of the CPUs (throttled_lb_pair())? */
static __always_inline bool is_throttled_pair(const struct fair_entity *se, u32 src_cpu, u32 dst_cpu)
{
	return any_group_is_limited() &&
	       (throttled_hierarchy(se->group, src_cpu) || throttled_hierarchy(se->group, dst_cpu));
}

/* Counts the task in the runqueue of @cpu. The lock is held. */
static __always_inline void add_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *rq = rq_for_update(cpu);

	se->cpu = cpu;
	se->on_rq = true;
	if (in_group(se->group)) {
		join_group(se->group, cpu, se->weight);
	} else {
		__sync_fetch_and_add(&rq->nr_running, 1);
		__sync_fetch_and_add(&rq->load_weight, se->weight);
	}
	__sync_fetch_and_add(runnable_load_of(se->group, cpu), se->load_avg_contrib);
	attach_task_util(&se->util, cpu);
	util_est_enqueue(&se->util, cpu);
	hook_add_entity(rq, se);
}

/* No longer counts the task in its runqueue. The lock is held. */
static __always_inline void remove_entity(struct fair_entity *se)
{
	struct fair_rq *rq = rq_for_update(se->cpu);

	se->on_rq = false;
	__sync_fetch_and_add(runnable_load_of(se->group, se->cpu), -se->load_avg_contrib);
	if (in_group(se->group)) {
		leave_group(se->group, se->cpu, se->weight);
	} else {
		__sync_fetch_and_add(&rq->nr_running, -1);
		__sync_fetch_and_add(&rq->load_weight, -(u64)se->weight);
	}
	util_est_dequeue(&se->util, se->cpu);
	hook_remove_entity(rq, se);
}

static __always_inline void account_entity_enqueue(struct fair_entity *se, u32 cpu)
{
	prepare_attach(cpu);
	bpf_spin_lock(&se->lock);
	if (!se->on_rq)
		add_entity(se, cpu);
	bpf_spin_unlock(&se->lock);
}

/*
 * Adds the load of the task, which goes to sleep, to the blocked load of its group. The load decays, but counts
 * until the task wakes up.
 */
static __always_inline void add_blocked_load(struct fair_entity *se)
{
	se->decay_count = decay_periods(bpf_ktime_get_ns());
	__sync_fetch_and_add(&group_rq_at(se->group, se->cpu)->blocked_load_avg, se->load_avg_contrib);
}

/* Removes the load of the task, which slept, and wakes up or leaves the group. */
static __always_inline void remove_blocked_load(struct fair_entity *se, u64 now)
{
	u64 slept = decay_periods(now) - se->decay_count;

	if (!se->decay_count)
		return;
	se->decay_count = 0;
	subtract(&group_rq_at(se->group, se->cpu)->blocked_load_avg, decay_load(se->load_avg_contrib, slept));
}

static __always_inline void account_entity_dequeue(struct fair_entity *se)
{
	bpf_spin_lock(&se->lock);
	if (se->on_rq)
		remove_entity(se);
	bpf_spin_unlock(&se->lock);
}

/* Keeps the task's lead or lag when it changes to the runqueue of @cpu, which has another min_vruntime. */
static __always_inline void renormalize_vruntime(struct fair_entity *se, u32 cpu)
{
	if (in_group(se->group))
		se->vruntime += *min_vruntime_of(se->group, cpu) - *min_vruntime_of(se->group, se->cpu);
	else
		se->vruntime += rq_of(cpu)->min_vruntime - rq_of(se->cpu)->min_vruntime;
}

/* migrate_entity() for several tasks to one @cpu, after a prepare_attach() for all of them. */
static __always_inline void migrate_prepared(struct fair_entity *se, u32 cpu)
{
	bpf_spin_lock(&se->lock);
	if (se->on_rq) {
		if (!hook_place_migrated(se, cpu))
			renormalize_vruntime(se, cpu);
		remove_entity(se);
		add_entity(se, cpu);
	}
	bpf_spin_unlock(&se->lock);
}

/*
 * Moves a runnable task's account to @cpu. While another CPU moves a task, the task may stop being runnable, or its
 * old CPU may pick it; the CPU that runs the task corrects the account.
 */
static __always_inline void migrate_entity(struct fair_entity *se, u32 cpu)
{
	prepare_attach(cpu);
	migrate_prepared(se, cpu);
}

/* Gives @p a new nice level, policy or group. */
static __noinline void reweight_entity(struct task_struct *p, struct fair_entity *se, u32 group)
{
	u32 weight = task_weight(p);
	u64 contrib = se->avg.period_sum ? pelt_avg(&se->avg, se->avg.runnable_sum, weight) : weight;
	bool on_rq;

	bpf_spin_lock(&se->lock);
	on_rq = se->on_rq;
	if (on_rq)
		remove_entity(se);
	if (se->group != group) {
		if (in_group(se->group))
			remove_blocked_load(se, bpf_ktime_get_ns());
		/* task_move_group_fair() */
		se->vruntime += *min_vruntime_of(group, se->cpu) - *min_vruntime_of(se->group, se->cpu);
		se->group = group;
	}
	se->weight = weight;
	se->inv_weight = (1ULL << 32) / weight;
	se->load_avg_contrib = contrib;
	if (on_rq)
		add_entity(se, se->cpu);
	bpf_spin_unlock(&se->lock);
}

#endif /* __EQUIPOISE_TASK_H */
