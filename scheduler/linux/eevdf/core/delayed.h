/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delayed dequeue (DELAY_DEQUEUE, DELAY_ZERO): a task that goes to sleep after it has had more than its share stays
 * in the runqueue's sums, and so in the average, until the other tasks have caught up and the task would be picked.
 * Then it leaves with a lag of zero. A task that wakes up on the same CPU before the others have caught up keeps
 * its place.
 *
 * In the kernel such a task is queued. For sched_ext it sleeps, so its contribution is stored here, in one of its
 * CPU's slots. That CPU fills the slots. To empty a slot, a CPU takes the pid out of it: the same CPU when it picks
 * a task, or any CPU that wakes or changes the slot's task.
 */
#ifndef __EQUIPOISE_DELAYED_H
#define __EQUIPOISE_DELAYED_H

#include "task.bpf.h"

/* The number of bits of fair_rq::delayed_mask. Further sleepers are dequeued without delay. */
#define MAX_DELAYED 64

struct delayed_slot {
	/* The pid of the slot's task (0: the slot is free), and that of its last task. */
	s32 pid;
	s32 last_pid;
	/* The end of the task's delay, in ns of clock_pelt. */
	u64 ended_at;
	/* The task's weight on the CPU, scaled, and its weight in its group. */
	u64 h_weight;
	u32 weight;
	u32 group;
	u64 vruntime;
	u64 deadline;
	u64 slice;
	bool custom_slice;
	bool h_idle;
	bool idle_policy;
};

struct delayed_rq {
	struct delayed_slot slots[MAX_DELAYED];
} __attribute__((aligned(64)));

struct delayed_rq delayed_rqs[MAX_CPUS];

static __always_inline struct delayed_slot *delayed_slot(u32 cpu, u32 slot)
{
	return &delayed_rqs[cpu & (MAX_CPUS - 1)].slots[slot & (MAX_DELAYED - 1)];
}

/* Is @se asleep, but still counted? */
static __always_inline bool still_delayed(const struct fair_entity *se)
{
	return se->delayed && READ_ONCE(delayed_slot(se->cpu, se->delayed_slot)->pid) == se->pid;
}

/* Keeps counting @se, which goes to sleep; with the lock held. Returns false if no slot is free. */
static __always_inline bool delay_entity(struct fair_entity *se)
{
	struct fair_rq *rq = rq_for_update(se->cpu);
	u64 free = ~rq->delayed_mask, next = free & ~0ULL << rq->delayed_next % MAX_DELAYED;
	struct delayed_slot *slot;
	u32 nr;

	if (!free)
		return false;
	/* Slots are used in turn, so that the data of a freed slot lasts for some time. */
	nr = __builtin_ctzll(next ? next : free);
	rq->delayed_next = nr + 1;
	slot = delayed_slot(se->cpu, nr);
	slot->last_pid = se->pid;
	slot->h_weight = se->h_weight;
	slot->weight = se->weight;
	slot->group = se->group;
	slot->vruntime = se->vruntime;
	slot->deadline = se->deadline;
	slot->slice = se->slice;
	slot->custom_slice = se->custom_slice;
	slot->h_idle = se->h_idle;
	slot->idle_policy = se->idle_policy;
	WRITE_ONCE(slot->pid, se->pid);
	if (!rq->nr_delayed || time_before(se->vruntime, rq->first_delayed))
		rq->first_delayed = se->vruntime;
	__sync_fetch_and_or(&rq->delayed_mask, 1ULL << nr);
	__sync_fetch_and_add(&rq->nr_delayed, 1);
	__sync_fetch_and_add(&rq->util_est, -se->util_est);
	se->delayed_slot = nr;
	se->on_rq = false;
	return true;
}

/* Stops counting the task @pid in slot @nr of @cpu. Returns false if it no longer counted. */
static __always_inline bool end_delay(u32 cpu, u32 nr, s32 pid)
{
	struct delayed_slot *slot = delayed_slot(cpu, nr);
	struct fair_rq *rq = rq_for_update(cpu);
	struct eevdf_queue *queue = queue_in(rq, slot->group, cpu);

	if (!pid || !__sync_bool_compare_and_swap(&slot->pid, pid, 0))
		return false;
	slot->ended_at = rq_clock_pelt(rq);
	__sync_fetch_and_and(&rq->delayed_mask, ~(1ULL << (nr % MAX_DELAYED)));
	count_entity(queue, slot->h_weight, slot->vruntime, -1);
	count_slice(queue, slot->custom_slice, slot->slice, -1);
	if (in_group(slot->group)) {
		slot->ended_at = group_clock_pelt(rq, group_rq_at(slot->group, cpu));
		if (queue != &rq->queue) {
			leave_group(slot->group, cpu, slot->idle_policy, false);
			return true;
		}
		__sync_fetch_and_add(&rq->group_load, slot->h_weight);
		dequeue_hierarchy(slot->group, cpu, slot->weight, slot->idle_policy, false);
	}
	__sync_fetch_and_add(&rq->nr_running, -1);
	if (slot->h_idle)
		__sync_fetch_and_add(&rq->nr_idle_policy, -1);
	__sync_fetch_and_add(&rq->nr_delayed, -1);
	return true;
}

/*
 * Updates the averages of @se, which sleeps, to the end of its delay or, if it is still delayed, to @now of its
 * runqueue's clock_pelt. For that time, the task counted as load, though not as runnable (se_runnable()). The
 * kernel does so when it finally dequeues the task.
 */
static __always_inline void update_delayed_load_avg(struct fair_entity *se, u64 now)
{
	const struct delayed_slot *slot = delayed_slot(se->cpu, se->delayed_slot);
	u64 until = now;

	if (!se->delayed || slot->last_pid != se->pid)
		return;
	if (slot->pid != se->pid)
		until = slot->ended_at;
	if (time_after(until, se->avg.last_update_time) && update_load_sums(&se->avg, until, true, false, false))
		update_load_avgs(&se->avg, se->weight);
}

/* Updates the averages of @se, which has slept, to @now of its runqueue's clock_pelt. */
static __always_inline void update_sleeper_load_avg(struct fair_entity *se, u64 now)
{
	update_delayed_load_avg(se, now);
	update_entity_load_avg(se, now, false);
}

/* Decays the averages of @se, which sleeps, as far as those of its runqueue have decayed. */
static __always_inline void sync_entity_load_avg(struct fair_entity *se)
{
	if (se->attached && !se->on_rq)
		update_sleeper_load_avg(se, avg_of(rq_of(se->cpu), se->group, se->cpu)->last_update_time);
}

/* Decays the averages of @se, which has left its CPU, for the time in which that CPU idled without updates. */
static __always_inline void migrate_se_pelt_lag(struct fair_entity *se, u64 now)
{
	if (rq_of(se->cpu)->idle)
		update_sleeper_load_avg(se, sleepers_clock(se, now));
}

#endif /* __EQUIPOISE_DELAYED_H */
