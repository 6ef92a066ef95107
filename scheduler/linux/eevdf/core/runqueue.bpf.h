/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runqueues: the scheduling state of one CPU, and the part of that state that other CPUs may read. The tasks are in
 * the CPU's two dispatch queues (pick.h).
 *
 * Another CPU may change the counts and sums of runnable tasks (atomically) and leave notes (active_balance, ...).
 * Everything else is written under the CPU's lock, by the CPU itself or by a CPU that wakes or changes a task
 * there; while the CPU is idle, also by the CPU that balances for it.
 */
#ifndef __EQUIPOISE_RUNQUEUE_H
#define __EQUIPOISE_RUNQUEUE_H

#include "../../../explain.bpf.h"
#include "../../../memory.h"
#include "../../../rq.bpf.h"
#include "../../../signals/irq_time.h"
#include "load_avg.h"

/* The number of fractional bits of the weights of groups and of tasks in groups: scale_load(). */
#define SCALE_LOAD_SHIFT 10
#define NICE_0_WEIGHT ((u64)NICE_0_LOAD << SCALE_LOAD_SHIFT)

/* The running task: the fields that the tick and a waker need without looking the task up. */
struct running {
	/* The task's pid; 0 if no fair task runs, because the CPU is idle or a higher class has it. */
	s32 pid;
	u32 policy;
	/* The task's group (group/group.bpf.h), if any group is limited or groups have queues; 0 is the root. */
	u32 charged_group;
	/* See struct fair_entity. */
	u32 inv_weight;
	u64 weight;
	/* The slice that the task requests, in ns. */
	u64 slice;
	u64 vruntime;
	u64 deadline;
	/* The time up to which vruntime is charged, in ns of clock_task. */
	u64 exec_start;
	/* Until the task reaches this vruntime, no task with an earlier deadline preempts it (RUN_TO_PARITY). */
	u64 vprot;
};

/* The kernel's per-CPU fields of struct sched_domain. */
struct domain_state {
	/* The time of the last balance, in jiffies. */
	u64 last_balance;
	/* The balance interval, in ms. */
	u32 balance_interval;
	u32 nr_balance_failed;
	/* The cost of newidle balancing in the domain, in ns, and the time when it last changed, in jiffies. */
	u64 max_newidle_lb_cost;
	u64 last_decay_max_lb_cost;
	/* The number of attempts, the number of successes, and their ratio in 1024ths. */
	u32 newidle_call;
	u32 newidle_success;
	u32 newidle_ratio;
	u32 pad;
	/* The time of the last count, in ns (NI_RATE). */
	u64 newidle_stamp;
};

/* Slices are classified by powers of two of 100 us, the smallest slice that a task may request. */
#define SLICE_CLASSES 16

/*
 * The averages of tasks that slept here and woke up on other CPUs. The runqueue's averages contain them until
 * the next update, which subtracts them (cfs_rq->removed).
 */
struct removed_load {
	u32 nr;
	u64 load_avg;
	u64 runnable_avg;
	u64 util_avg;
};

/*
 * A queue of entities that share by EEVDF (queue.h): the queue of a CPU or, before Linux 7.3, that of a group on a
 * CPU. Balancing CPUs change the sums of a CPU's queue atomically.
 */
struct eevdf_queue {
	/*
	 * The sum of vruntime times weight over the runnable entities, where the running entity's vruntime is as
	 * last charged; modulo 2^64.
	 */
	u64 weighted_vruntime;
	/* The sum of the weights of these entities, scaled. */
	u64 load_weight;
	/*
	 * The number of changes of these two sums that balancing CPUs have begun, and the number of changes that
	 * they have completed.
	 */
	u32 moves_begun;
	u32 moves_done;
	/* The weighted average of vruntime (V) when it was last computed. */
	u64 zero_vruntime;
	/*
	 * The number of entities, and of those that request a slice other than the default. For each slice_class(),
	 * the number of the latter, and the last such slice, in ns.
	 */
	u32 nr;
	u32 nr_custom_slice;
	u32 nr_slice[SLICE_CLASSES];
	u64 slice[SLICE_CLASSES];
};

struct fair_rq {
	struct running curr;

	struct eevdf_queue queue;
	/* The sum of the weights of the root's group entities, less those of the tasks below them. */
	s64 group_load;
	/*
	 * The earliest deadline among waiting eligible tasks, and the smallest vruntime of the others, or a lower
	 * bound of it; ~0 if there is none.
	 */
	u64 first_deadline;
	u64 first_vruntime;
	/* The second deadline at the last pick. */
	u64 second_deadline;

	/*
	 * The number of tasks that count here, namely waiting tasks, the running task, and sleepers (delayed.h);
	 * and the number of SCHED_IDLE tasks among them.
	 */
	u32 nr_running;
	u32 nr_idle_policy;
	/* The sleepers among these tasks: number, slots, and smallest vruntime or a lower bound of it. */
	u32 nr_delayed;
	u64 delayed_mask;
	u32 delayed_next;
	u64 first_delayed;
	/* Whether the idle task has the CPU. */
	bool idle;
	/*
	 * Whether curr has been asked to stop, and whether it has been asked to stop when it next enters the kernel
	 * (TIF_NEED_RESCHED_LAZY).
	 */
	bool need_resched;
	bool resched_lazy;
	/*
	 * Whether the group of curr, or one above it, is throttled, so that curr stops as soon as it returns to
	 * user mode. Before Linux 6.18: whether such a group has used up its time, so that curr stops at once.
	 */
	bool curr_throttled;
	/* The group of the task that ran last, if that task has run until now. */
	u32 last_group;
	/* Whether the CPU is inside ops.dispatch(), where an arriving task needs no preemption. */
	bool dispatching;
	/* Whether the utilization has changed since the last frequency request. */
	bool util_changed;
	/* Whether the tick has been stopped, and has not run since: the kernel's NOHZ_TICK_STOPPED. */
	bool tick_stopped;

	/* The task that preempts for its shorter slice (0: none), and that slice, in ns (cfs_rq->next). */
	s32 buddy;
	u64 buddy_slice;
	/* The end of curr's slice, and the expiry of the timer for that end, in ns; 0: none (hrtick.bpf.h). */
	u64 hrtick_at;
	u64 hrtick_armed;

	/*
	 * The clocks, in ns: the time without interrupts; that time scaled by the CPU's speed; and the time lost
	 * because idle time did not suffice to catch up.
	 */
	u64 clock_task;
	u64 clock_pelt;
	u64 lost_idle_time;
	struct load_avg avg;
	struct removed_load removed;
	/* The sum of the runnable tasks' estimated utilization. */
	u32 util_est;
	/* The load of the running task if the CPU is too small for it, otherwise 0. */
	u32 misfit_task_load;

	/*
	 * The time when the CPU last ran out of work, or 0; the average idle time; and the maximum cost of a
	 * search, all in ns.
	 */
	u64 idle_stamp;
	u64 avg_idle;
	u64 max_idle_balance_cost;

	/* Whether another CPU requests a task of this CPU for push_cpu. */
	u32 active_balance;
	u32 push_cpu;
	/* The work that this CPU is asked to do for all idle CPUs: NOHZ_*_KICK. */
	u32 nohz_kick;
	/* Whether the idle CPU's averages still decay, and the time of their last update, in jiffies. */
	bool has_blocked_load;
	u64 last_blocked_load_update;
	/* The running task, if it is to move to exec_cpu because it starts another program. */
	s32 exec_pid;
	u32 exec_cpu;

	/* The time when the next domain is due, in jiffies. */
	u64 next_balance;
	struct domain_state sd[MAX_LEVELS];
} __attribute__((aligned(64)));

struct fair_rq fair_rqs[MAX_CPUS];

/* State shared by the CPUs of a last-level cache (sched_domain_shared), by llc_id. */
struct llc {
	/* Whether there probably is a fully idle core. */
	bool has_idle_cores;
	/* The number of CPUs with a tick. */
	u32 nr_busy_cpus;
	/*
	 * The number of CPUs that a search for an idle one may read (SIS_UTIL), and the number for the domain with
	 * CPUs of every capacity that begins with this cache.
	 */
	u32 nr_idle_scan;
	u32 nr_asym_idle_scan;
} __attribute__((aligned(64)));

struct llc llcs[MAX_CPUS];

/* State of the machine as a whole (root_domain). */
struct whole_machine {
	/*
	 * Whether any CPU has more than one task, or a task that does not fit it; and, where placement by energy is
	 * possible, whether any CPU is overutilized.
	 */
	bool overloaded;
	bool overutilized;
};

struct whole_machine whole_machine;

/* @cpu's runqueue, to read it. */
static __always_inline struct fair_rq *rq_of(u32 cpu)
{
	simulated_read(cpu);
	return &fair_rqs[cpu & (MAX_CPUS - 1)];
}

/* @cpu's runqueue, to change its shared fields. */
static __always_inline struct fair_rq *rq_for_update(u32 cpu)
{
	simulated_write(cpu);
	return &fair_rqs[cpu & (MAX_CPUS - 1)];
}

static __always_inline struct llc *llc_of(u32 cpu)
{
	return &llcs[levels_of(cpu)->llc_id & (MAX_CPUS - 1)];
}

static __always_inline struct domain_state *domain_state_of(u32 cpu, u32 level)
{
	return &rq_of(cpu)->sd[level & (MAX_LEVELS - 1)];
}

/* Is the CPU idle, with no task on its way? */
static __always_inline bool idle_cpu(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	return rq->idle && !READ_ONCE(rq->nr_running);
}

/* Does @cpu have only SCHED_IDLE tasks, which any other task may preempt at any time? */
static __always_inline bool sched_idle_cpu(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	return rq->nr_running && rq->nr_running == rq->nr_idle_policy;
}

/* Does @cpu count as idle for @p, because it has only SCHED_IDLE tasks? */
static __always_inline bool sched_idle_cpu_for(u32 cpu, const struct task_struct *p)
{
	return sched_idle_cpu(cpu) && !(policy.idle_policy_is_busy && p->policy == SCHED_IDLE);
}

static __always_inline bool available_cpu(u32 cpu, const struct task_struct *p)
{
	return idle_cpu(cpu) || sched_idle_cpu_for(cpu, p);
}

/* The number of fair tasks on @cpu that balancing counts. */
static __always_inline u32 balanced_nr_running(u32 cpu)
{
	const struct fair_rq *rq = rq_of(cpu);

	return policy.balance_delayed ? rq->nr_running : rq->nr_running - rq->nr_delayed;
}

/*
 * The class of @slice. There are no branches, because the verifier would follow each of them with an index of its
 * own.
 */
static __always_inline u32 slice_class(u64 slice)
{
	u64 class = 0;

	for (u32 i = 1; i < SLICE_CLASSES; i++)
		class += ((100000ULL << i) - 1 - slice) >> 63;
	return class & (SLICE_CLASSES - 1);
}

/*
 * Counts an entity that requests @slice, its own (@custom) or the default one, and that joins @queue or leaves it
 * (@by is 1 or -1).
 */
static __always_inline void count_slice(struct eevdf_queue *queue, bool custom, u64 slice, s32 by)
{
	u32 class;

	if (!custom)
		return;
	class = slice_class(slice);
	queue->slice[class] = slice;
	__sync_fetch_and_add(&queue->nr_slice[class], by);
	__sync_fetch_and_add(&queue->nr_custom_slice, by);
}

/* The shortest slice on @queue: cfs_rq_min_slice(). Within a class of slices, the latest one counts. */
static __always_inline u64 min_slice(const struct eevdf_queue *queue)
{
	u64 least = tunables.sched_base_slice;

	if (!queue->nr_custom_slice)
		return least;
	if (queue->nr <= queue->nr_custom_slice)
		least = ~0ULL;
	for (u32 i = 0; i < SLICE_CLASSES; i++)
		if (queue->nr_slice[i] && queue->slice[i] < least)
			least = queue->slice[i];
	return least;
}

/* The longest slice on @queue: cfs_rq_max_slice(). */
static __always_inline u64 max_slice(const struct eevdf_queue *queue)
{
	u64 most = tunables.sched_base_slice;

	if (!queue->nr_custom_slice)
		return most;
	if (queue->nr <= queue->nr_custom_slice)
		most = 0;
	for (u32 i = 0; i < SLICE_CLASSES; i++)
		if (queue->nr_slice[i] && queue->slice[i] > most)
			most = queue->slice[i];
	return most;
}

/* The number of tasks of all classes that are runnable on @cpu: the kernel's rq->nr_running. */
static __always_inline u32 cpu_nr_running(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);
	u32 nr_running = READ_ONCE(rq_of(cpu)->nr_running);

	return core ? nr_running + core->nr_running - core->scx.nr_running : nr_running;
}

/* The load of @cpu as balancing sees it: that of its tasks, asleep or not. */
static __always_inline u64 cpu_load(u32 cpu)
{
	return not_negative(READ_ONCE(rq_of(cpu)->avg.load_avg));
}

static __always_inline u64 cpu_runnable(u32 cpu)
{
	return not_negative(READ_ONCE(rq_of(cpu)->avg.runnable_avg));
}

/*
 * The utilization of @cpu by fair tasks or, if larger, the estimate from their last activations, where 1024 is the
 * largest CPU: cpu_util_cfs().
 */
static __always_inline u64 cpu_fair_util(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);
	u64 util = not_negative(READ_ONCE(rq->avg.util_avg)), capacity = power_orig_of(cpu);

	if (util < rq->util_est)
		util = rq->util_est;
	return util < capacity ? util : capacity;
}

/*
 * cpu_fair_util() or, if larger, the utilization that tasks would have if they did not have to wait:
 * cpu_util_cfs_boost().
 */
static __always_inline u64 cpu_fair_util_boost(u32 cpu)
{
	u64 util = cpu_fair_util(cpu), runnable = cpu_runnable(cpu), capacity = power_orig_of(cpu);

	if (runnable > util)
		util = runnable;
	return util < capacity ? util : capacity;
}

/* The clock_task of @cpu at @now, in ns, even if it has not been updated lately. */
static __always_inline u64 rq_clock_task_at(u32 cpu, u64 now)
{
	return now - irq_time(cpu);
}

/*
 * Updates the clocks of @cpu to @now. While the CPU is idle, clock_pelt catches up with clock_task, less the lost
 * time. A CPU that is always busy has no idle time in which to catch up, and loses that time.
 */
static __always_inline void update_rq_clock(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u64 clock = rq_clock_task_at(cpu, now), delta = clock - rq->clock_task;

	if ((s64)delta <= 0)
		return;
	rq->clock_task = clock;
	if (rq->idle)
		rq->clock_pelt = clock;
	else
		rq->clock_pelt += (delta * power_orig_of(cpu) >> 10) * scx_bpf_cpuperf_cur(cpu) >> 10;
}

/* The clock_pelt of @rq, in ns. */
static __always_inline u64 rq_clock_pelt(const struct fair_rq *rq)
{
	return rq->clock_pelt - rq->lost_idle_time;
}

/* Takes the tasks that woke up on other CPUs out of the runqueue's averages. */
static __noinline void apply_removed_load(struct fair_rq *rq)
{
	struct removed_load *removed = &rq->removed;
	struct load_avg *avg = &rq->avg;
	u64 divider = load_divider(avg), load, runnable, util;

	/* Clear the number first, so that a task that comes now is seen at the next update. */
	WRITE_ONCE(removed->nr, 0);
	load = __sync_fetch_and_and(&removed->load_avg, 0);
	runnable = __sync_fetch_and_and(&removed->runnable_avg, 0);
	util = __sync_fetch_and_and(&removed->util_avg, 0);
	sub_load_avg(&avg->load_avg, &avg->load_sum, load, load * divider);
	sub_load_avg(&avg->runnable_avg, &avg->runnable_sum, runnable, runnable * divider);
	sub_load_avg(&avg->util_avg, &avg->util_sum, util, util * divider);
	rq->util_changed = true;
}

/* Updates the averages of the runqueue to its clock. */
static __always_inline void update_rq_load_avg(struct fair_rq *rq)
{
	if (READ_ONCE(rq->removed.nr))
		apply_removed_load(rq);
	if (!update_load_sums(&rq->avg, rq_clock_pelt(rq),
			      (rq->queue.load_weight + rq->group_load) >> SCALE_LOAD_SHIFT,
			      rq->nr_running - rq->nr_delayed, rq->curr.pid))
		return;
	update_load_avgs(&rq->avg, 1);
	rq->util_changed = true;
}

/* Updates the averages at a tick and before balancing, when CONFIG_FAIR_GROUP_SCHED adds them to tg->load_avg. */
static __always_inline void update_tg_load_avg(struct fair_rq *rq)
{
	update_rq_load_avg(rq);
	simulated_write_global(LINE_TG_LOAD);
}

/* Records that @cpu becomes idle or busy. */
static __always_inline void set_idle(u32 cpu, bool idle, u64 now)
{
	struct fair_rq *rq = rq_for_update(cpu);

	update_rq_clock(cpu, now);
	if (idle && !rq->idle) {
		if (rq->avg.util_sum >= ((LOAD_AVG_MAX - 1024ULL) << 10) - LOAD_AVG_MAX)
			rq->lost_idle_time += rq->clock_task - rq->clock_pelt;
		rq->clock_pelt = rq->clock_task;
	}
	rq->idle = idle;
}

static __always_inline void init_rq(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	u64 jiffies = jiffies_at(now);

	rq->first_deadline = rq->first_vruntime = ~0ULL;
	/* The initial value is far enough from 0 that no vruntime is ever below 0. */
	rq->queue.zero_vruntime = NSEC_PER_SEC;
	rq->idle = true;
	update_rq_clock(cpu, now);
	rq->avg.last_update_time = rq->clock_pelt;
	rq->max_idle_balance_cost = tunables.sched_migration_cost;
	rq->avg_idle = 2 * tunables.sched_migration_cost;
	rq->next_balance = jiffies;
	for (u32 level = 0; level < MAX_LEVELS; level++)
		rq->sd[level] = (struct domain_state){
			.last_balance = jiffies,
			.last_decay_max_lb_cost = jiffies,
			.balance_interval = domain_of(cpu, level)->min_interval,
			.newidle_call = 512,
			.newidle_success = 256,
			.newidle_ratio = 512,
			.newidle_stamp = now,
		};
}

#endif /* __EQUIPOISE_RUNQUEUE_H */
