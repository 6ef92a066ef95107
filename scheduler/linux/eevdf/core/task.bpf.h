/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks: the state of each, and the runqueue in which it counts. A task's weight and vruntime count from its wakeup
 * until it sleeps, or longer (delayed.h), whether it waits or runs; its averages count until it wakes up on another
 * CPU.
 */
#ifndef __EQUIPOISE_TASK_H
#define __EQUIPOISE_TASK_H

#include "../../../signals/util_est.h"
#include "../../../weight.h"
#include "../group/hierarchy.h"
#include "../group/queues.h"

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

/* Is @p a thread of the kernel's own that is bound to its CPU? */
static __always_inline bool is_per_cpu_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1;
}

/* The expected utilization of a task, where 1024 is the largest CPU: task_util_est(). */
static __always_inline u64 task_util_est(const struct fair_entity *se)
{
	return se->avg.util_avg > se->util_est ? se->avg.util_avg : se->util_est;
}

/* Does @util fit into the capacity of @cpu, with a margin (fits_capacity())? */
static __always_inline bool util_fits_cpu(u64 util, u32 cpu)
{
	return util * 1280 < (u64)power_of(cpu) * 1024;
}

/* Is @cpu overutilized, on a machine where placement by energy is possible? */
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

/* Is placement by energy possible, and no CPU overutilized? */
static __always_inline bool energy_aware(void)
{
	return sched_energy_enabled() && !READ_ONCE(whole_machine.overutilized);
}

/* Is @cap1 noticeably (5 %) larger than @cap2? */
static __always_inline bool capacity_greater(u64 cap1, u64 cap2)
{
	return cap1 * 1024 > cap2 * 1078;
}

/* The averages that include those of a task in @group on @cpu, of which @rq is the runqueue. */
static __always_inline struct load_avg *avg_of(struct fair_rq *rq, u32 group, u32 cpu)
{
	return in_group(group) ? &group_rq_at(group, cpu)->avg : &rq->avg;
}

/* The clock of the averages of @se, whose CPU has the runqueue @rq. */
static __always_inline u64 se_clock_pelt(const struct fair_rq *rq, const struct fair_entity *se)
{
	return in_group(se->group) ? group_clock_pelt(rq, group_rq_at(se->group, se->cpu)) : rq_clock_pelt(rq);
}

static __noinline void update_avg_of_group(struct fair_rq *rq, u32 group, u32 cpu)
{
	struct group_rq *grq = group_rq_at(group, cpu);

	if (update_group_rq_load_avg(rq, grq))
		update_group_load_avg(group, grq);
}

/*
 * Subtracts the weight of @se, whose group is not the root, from fair_rq::group_load when @se joins the runqueue of
 * @cpu (@by is 1), and adds it again when @se leaves (@by is -1). The load includes the weight of its group's
 * entity instead.
 */
static __always_inline void count_in_group(const struct fair_entity *se, u32 cpu, s32 by)
{
	if (!group_queues())
		__sync_fetch_and_add(&rq_of(cpu)->group_load, by < 0 ? se->h_weight : -se->h_weight);
}

/* Updates the averages to which tasks in @group on @cpu are attached, and the sums over the group's CPUs. */
static __always_inline void update_avg_of(struct fair_rq *rq, u32 group, u32 cpu)
{
	if (in_group(group))
		update_avg_of_group(rq, group, cpu);
	else
		update_rq_load_avg(rq);
}

/* Updates the task's averages to the clock of the runqueue to which they are attached. */
static __always_inline void update_entity_load_avg(struct fair_entity *se, u64 clock_pelt, bool running)
{
	if (!update_load_sums(&se->avg, clock_pelt, se->on_rq, se->on_rq, running))
		return;
	update_load_avgs(&se->avg, se->weight);
	se->util_changed = true;
}

/* The time to which the averages of sleeping @se have to decay; an idle CPU does not update its own. */
static __always_inline u64 sleepers_clock(const struct fair_entity *se, u64 now)
{
	struct fair_rq *rq = rq_of(se->cpu);

	if (!rq->idle)
		return avg_of(rq, se->group, se->cpu)->last_update_time;
	if (in_group(se->group))
		now -= group_rq_at(se->group, se->cpu)->throttled_clock_pelt_time;
	return now - irq_time(se->cpu) - rq->lost_idle_time;
}

/* Updates the averages of @se, which has been @running, and those of its runqueue: update_load_avg(). */
static __always_inline void update_root_load(struct fair_rq *rq, struct fair_entity *se, bool running)
{
	update_entity_load_avg(se, rq_clock_pelt(rq), running);
	update_rq_load_avg(rq);
}

/* Does the work of update_root_load() for a task in a group. */
static __noinline void update_group_load(struct fair_rq *rq, struct fair_entity *se, bool running)
{
	update_entity_load_avg(se, se_clock_pelt(rq, se), running);
	update_avg_of_group(rq, se->group, se->cpu);
}

static __always_inline void attach_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *rq = rq_for_update(cpu);

	attach_load_avg(avg_of(rq, se->group, cpu), &se->avg, se->weight);
	if (in_group(se->group))
		add_tg_cfs_propagate(group_rq_at(se->group, cpu), se->avg.load_sum);
	rq->util_changed = true;
	se->attached = true;
	se->cpu = cpu;
}

static __always_inline void detach_entity(struct fair_entity *se)
{
	detach_load_avg(avg_of(rq_for_update(se->cpu), se->group, se->cpu), &se->avg, se->weight);
	if (in_group(se->group))
		add_tg_cfs_propagate(group_rq_at(se->group, se->cpu), -se->avg.load_sum);
	se->attached = false;
}

/*
 * Lets the sleeping task leave its runqueue for another CPU's. The averages of the old runqueue keep the task's
 * part until the runqueue's CPU, or the CPU that balances for idle CPUs, updates them.
 */
static __always_inline void remove_entity_load_avg(struct fair_entity *se)
{
	struct removed_load *removed = &rq_for_update(se->cpu)->removed;

	if (in_group(se->group))
		removed = &group_rq_at(se->group, se->cpu)->removed;
	__sync_fetch_and_add(&removed->load_avg, se->avg.load_avg);
	__sync_fetch_and_add(&removed->runnable_avg, se->avg.runnable_avg);
	__sync_fetch_and_add(&removed->util_avg, se->avg.util_avg);
	__sync_fetch_and_add(&removed->nr, 1);
	se->attached = false;
}

/* The initial utilization of a new task: its part of the spare capacity (post_init_entity_util_avg()). */
static __always_inline void init_entity_util(struct fair_entity *se, u32 cpu)
{
	const struct load_avg *avg = avg_of(rq_of(cpu), se->group, cpu);
	s64 cap = (s64)(power_orig_of(cpu) - not_negative(avg->util_avg)) / 2;

	se->avg.load_avg = se->weight;
	if (cap > 0) {
		u64 util = avg->util_avg ? avg->util_avg * se->weight / (avg->load_avg + 1) : (u64)cap;

		se->avg.util_avg = util < (u64)cap ? util : (u64)cap;
	}
	se->avg.runnable_avg = se->avg.util_avg;
}

/*
 * At the end of an activation, updates the estimate of the task's utilization: it rises to the utilization at once,
 * and falls by a quarter of the difference (util_est_update()). It does not fall if the task had to wait for the
 * CPU, which hides its demand.
 */
static __always_inline void update_util_est(struct fair_entity *se)
{
	u32 util = se->avg.util_avg;

	if (!se->util_changed)
		return;
	if (!policy.util_est_beyond_capacity && util + UTIL_EST_MARGIN <= se->util_est &&
	    util > power_orig_of(se->cpu))
		return;
	if (util >= se->util_est || util + UTIL_EST_MARGIN >= se->avg.runnable_avg)
		se->util_est = next_util_est(se->util_est, util);
	se->util_changed = false;
}

/*
 * Counts the task in the runqueue of @cpu. The lock is held. A task in a group's queue is not added to nr_running
 * here: join_group() and leave_group() count it, if no queue above is throttled.
 */
static __always_inline void add_entity(struct fair_entity *se, u32 cpu)
{
	struct fair_rq *rq = rq_for_update(cpu);
	struct eevdf_queue *queue = queue_in(rq, se->group, cpu);

	se->cpu = cpu;
	se->on_rq = true;
	count_entity(queue, se->h_weight, se->vruntime, 1);
	__sync_fetch_and_add(&rq->util_est, se->util_est);
	count_slice(queue, se->custom_slice, se->slice, 1);
	if (queue != &rq->queue)
		return;
	if (__sync_fetch_and_add(&rq->nr_running, 1) && !whole_machine.overloaded)
		whole_machine.overloaded = true;
	if (se->h_idle)
		__sync_fetch_and_add(&rq->nr_idle_policy, 1);
}

/* No longer counts the task in its runqueue. The lock is held. */
static __always_inline void remove_entity(struct fair_entity *se)
{
	struct fair_rq *rq = rq_for_update(se->cpu);
	struct eevdf_queue *queue = queue_in(rq, se->group, se->cpu);

	se->on_rq = false;
	count_entity(queue, se->h_weight, se->vruntime, -1);
	__sync_fetch_and_add(&rq->util_est, -se->util_est);
	count_slice(queue, se->custom_slice, se->slice, -1);
	if (queue != &rq->queue)
		return;
	__sync_fetch_and_add(&rq->nr_running, -1);
	if (se->h_idle)
		__sync_fetch_and_add(&rq->nr_idle_policy, -1);
	else if (sched_idle_cpu(se->cpu))
		/* A CPU that is left with only SCHED_IDLE tasks soon searches for others. */
		rq->next_balance = 0;
}

/* The flag of exiting tasks, as in Linux. */
#ifndef PF_EXITING
#define PF_EXITING 0x00000004
#endif

/* Must @p stop when it returns to user mode, because a group above it has used up its time? */
static __always_inline bool is_throttled(const struct task_struct *p, const struct fair_entity *se)
{
	return any_group_is_limited() && se->group && !(p->flags & (PF_EXITING | PF_KTHREAD)) &&
	       throttled_hierarchy(se->group, se->cpu);
}

static __noinline u64 load_in_group(u64 load, u32 group, u32 cpu)
{
	u64 h_load = group_h_load(group, cpu, jiffies_at(bpf_ktime_get_ns()));

	return load * h_load / (group_rq_at(group, cpu)->avg.load_avg + 1);
}

/* The load of @se as balancing sees it, which is its part of its CPU's load. */
static __always_inline u64 task_h_load(const struct fair_entity *se)
{
	return in_group(se->group) ? load_in_group(se->avg.load_avg, se->group, se->cpu) : se->avg.load_avg;
}

#endif /* __EQUIPOISE_TASK_H */
