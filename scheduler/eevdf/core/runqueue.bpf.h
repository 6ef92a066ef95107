/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runqueues: what one CPU's scheduling knows, and what the others may read of it. The tasks themselves are in the
 * CPU's two dispatch queues (pick.h).
 *
 * A remote CPU may change the counts and sums of what is runnable (atomically) and leave notes (active_balance,
 * ...). Everything else is written by the CPU itself, under its lock, or while it is idle by whoever balances for
 * it.
 */
#ifndef __EQUIPOISE_RUNQUEUE_H
#define __EQUIPOISE_RUNQUEUE_H

#include "../../explain.bpf.h"
#include "../../memory.h"
#include "../../rq.bpf.h"
#include "../../signals/irq_time.h"
#include "load_avg.h"

/* The task on the CPU: what the tick and a waker need of it without looking it up. */
struct running {
	/* 0 if no task of ours runs: idle, or a higher class has the CPU. */
	s32 pid;
	u32 policy;
	u32 weight;
	u32 inv_weight;
	/* What it asks for at a time, ns. */
	u64 slice;
	u64 vruntime;
	u64 deadline;
	/* vruntime counts until here, ns of clock_task. */
	u64 exec_start;
	/* Until this vruntime no task with an earlier deadline interrupts it (RUN_TO_PARITY). */
	u64 vprot;
};

/* What the kernel keeps in each CPU's struct sched_domain. */
struct domain_state {
	/* jiffies */
	u64 last_balance;
	/* ms */
	u32 balance_interval;
	u32 nr_balance_failed;
	/* What newly idle balancing takes here, ns, and when that was last lowered, jiffies. */
	u64 max_newidle_lb_cost;
	u64 last_decay_max_lb_cost;
	/* How often it was asked for and brought something, and of 1024 times. */
	u32 newidle_call;
	u32 newidle_success;
	u32 newidle_ratio;
	u32 pad;
	/* When that was last counted, ns (NI_RATE). */
	u64 newidle_stamp;
};

/* Slices are told apart by the power of two that they are of 100 us, the least that a task may ask for. */
#define SLICE_CLASSES 16

struct fair_rq {
	struct running curr;

	/* The sum of vruntime times weight over the runnable tasks, that of curr as last charged; modulo 2^64. */
	u64 weighted_vruntime;
	u64 load_weight;
	/* Changes of the two by CPUs that balance, begun and done. */
	u32 moves_begun;
	u32 moves_done;
	/* The weighted average of vruntime (V) when it was last looked at. */
	u64 zero_vruntime;
	/* The earliest deadline among the eligible that wait, and the least vruntime of the others, or less; ~0:
	 * none. */
	u64 first_deadline;
	u64 first_vruntime;
	/* The deadline after the first, when a task was last picked. */
	u64 second_deadline;

	/* Our tasks that count here: those that wait, that which runs, and sleepers (delayed.h); and those of them
	 * that are SCHED_IDLE. */
	u32 nr_running;
	u32 nr_idle_policy;
	/* Those of them that ask for another slice than usual, and by slice_class() how many and for what, ns. */
	u32 nr_custom_slice;
	u32 nr_slice[SLICE_CLASSES];
	u64 slice[SLICE_CLASSES];
	/* The sleepers among them, their slots, and the least vruntime of theirs, or less. */
	u32 nr_delayed;
	u64 delayed_mask;
	u32 delayed_next;
	u64 first_delayed;
	/* Does the idle task have the CPU? */
	bool idle;
	/* curr has been told to stop; or to stop when it next enters the kernel (TIF_NEED_RESCHED_LAZY). */
	bool need_resched;
	bool resched_lazy;
	/* Inside ops.dispatch(): what arrives here needs no preemption. */
	bool dispatching;
	/* Its utilization is not what a frequency was last asked for by. */
	bool util_changed;
	/* The tick has been stopped, and not run since: the kernel's NOHZ_TICK_STOPPED. */
	bool tick_stopped;

	/* The task that preempts for its shorter slice, and that slice, ns; 0: none (cfs_rq->next). */
	s32 buddy;
	u64 buddy_slice;
	/* When the slice of curr is over, and when the timer for that expires; 0: none. ns (hrtick.bpf.h) */
	u64 hrtick_at;
	u64 hrtick_armed;

	/* The clocks, ns: less interrupts; and by what the CPU can do, with what it idled too little to make up
	 * for. */
	u64 clock_task;
	u64 clock_pelt;
	u64 lost_idle_time;
	struct load_avg avg;
	/* The sum of the runnable tasks' estimated utilization. */
	u32 util_est;
	/* The load of the running task if the CPU is too small for it, else 0. */
	u32 misfit_task_load;

	/* When the CPU last ran out of work, or 0; how long it usually lasts; the most that looking for some took.
	 * ns */
	u64 idle_stamp;
	u64 avg_idle;
	u64 max_idle_balance_cost;

	/* Someone wants a task of this CPU on push_cpu. */
	u32 active_balance;
	u32 push_cpu;
	/* What it is asked to do for all idle CPUs: NOHZ_*_KICK. */
	u32 nohz_kick;
	/* Idle, it has averages left to decay; and when they were last brought up to date, jiffies. */
	bool has_blocked_load;
	u64 last_blocked_load_update;
	/* The running task, if it is to go to exec_cpu as it starts another program. */
	s32 exec_pid;
	u32 exec_cpu;

	/* When the next domain is due, jiffies. */
	u64 next_balance;
	struct domain_state sd[MAX_LEVELS];
} __attribute__((aligned(64)));

struct fair_rq fair_rqs[MAX_CPUS];

/* What CPUs that share a last-level cache know in common (sched_domain_shared), by llc_id. */
struct llc {
	/* Is there likely a core that idles altogether? */
	bool has_idle_cores;
	/* CPUs that have a tick. */
	u32 nr_busy_cpus;
	/* How many CPUs a search for an idle one may look at (SIS_UTIL); and the same of the domain with CPUs of
	 * every capacity that begins with this cache. */
	u32 nr_idle_scan;
	u32 nr_asym_idle_scan;
} __attribute__((aligned(64)));

struct llc llcs[MAX_CPUS];

/* What is known of the machine as a whole (root_domain). */
struct whole_machine {
	/* Some CPU has more than one task; and, where placement by energy is possible, more to do than fits it. */
	bool overloaded;
	bool overutilized;
};

struct whole_machine whole_machine;

/* @cpu's runqueue, to look at. */
static __always_inline struct fair_rq *rq_of(u32 cpu)
{
	simulated_read(cpu);
	return &fair_rqs[cpu & (MAX_CPUS - 1)];
}

/* @cpu's runqueue, to change what others look at. */
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

/* Idle, and not about to have work. */
static __always_inline bool idle_cpu(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	return rq->idle && !READ_ONCE(rq->nr_running);
}

/* Has it only tasks that anyone else's may interrupt at any time? */
static __always_inline bool sched_idle_cpu(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	return rq->nr_running && rq->nr_running == rq->nr_idle_policy;
}

/* Does @cpu idle for @p, which is SCHED_IDLE or not? */
static __always_inline bool sched_idle_cpu_for(u32 cpu, const struct task_struct *p)
{
	return sched_idle_cpu(cpu) && !(policy.idle_policy_is_busy && p->policy == SCHED_IDLE);
}

static __always_inline bool available_cpu(u32 cpu, const struct task_struct *p)
{
	return idle_cpu(cpu) || sched_idle_cpu_for(cpu, p);
}

/* Our tasks on @cpu that balancing counts. */
static __always_inline u32 balanced_nr_running(u32 cpu)
{
	const struct fair_rq *rq = rq_of(cpu);

	return policy.balance_delayed ? rq->nr_running : rq->nr_running - rq->nr_delayed;
}

/* Without branches, each of which the verifier would follow with an index of its own. */
static __always_inline u32 slice_class(u64 slice)
{
	u64 class = 0;

	for (u32 i = 1; i < SLICE_CLASSES; i++)
		class += ((100000ULL << i) - 1 - slice) >> 63;
	return class & (SLICE_CLASSES - 1);
}

/* One task more or less (@by) on @rq asks for @slice, its own (@custom) or what all do. */
static __always_inline void count_slice(struct fair_rq *rq, bool custom, u64 slice, s32 by)
{
	u32 class;

	if (!custom)
		return;
	class = slice_class(slice);
	rq->slice[class] = slice;
	__sync_fetch_and_add(&rq->nr_slice[class], by);
	__sync_fetch_and_add(&rq->nr_custom_slice, by);
}

/* The shortest slice that a task of @rq asks for: cfs_rq_min_slice(). Of one class the last that came counts. */
static __always_inline u64 rq_min_slice(const struct fair_rq *rq)
{
	u64 least = tunables.sched_base_slice;

	if (!rq->nr_custom_slice)
		return least;
	if (rq->nr_running <= rq->nr_custom_slice)
		least = ~0ULL;
	for (u32 i = 0; i < SLICE_CLASSES; i++)
		if (rq->nr_slice[i] && rq->slice[i] < least)
			least = rq->slice[i];
	return least;
}

/* The longest: cfs_rq_max_slice(). */
static __always_inline u64 rq_max_slice(const struct fair_rq *rq)
{
	u64 most = tunables.sched_base_slice;

	if (!rq->nr_custom_slice)
		return most;
	if (rq->nr_running <= rq->nr_custom_slice)
		most = 0;
	for (u32 i = 0; i < SLICE_CLASSES; i++)
		if (rq->nr_slice[i] && rq->slice[i] > most)
			most = rq->slice[i];
	return most;
}

/* Tasks of all classes that are runnable on @cpu: the kernel's rq->nr_running. */
static __always_inline u32 cpu_nr_running(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);
	u32 nr_running = READ_ONCE(rq_of(cpu)->nr_running);

	return core ? nr_running + core->nr_running - core->scx.nr_running : nr_running;
}

/* The load that balancing sees on @cpu, asleep or not, and the tasks that are. */
static __always_inline u64 cpu_load(u32 cpu)
{
	return not_negative(READ_ONCE(rq_of(cpu)->avg.load_avg));
}

static __always_inline u64 cpu_runnable(u32 cpu)
{
	return not_negative(READ_ONCE(rq_of(cpu)->avg.runnable_avg));
}

/* What fair tasks use of it, or will by their last turns, of 1024: cpu_util_cfs(). */
static __always_inline u64 cpu_fair_util(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);
	u64 util = not_negative(READ_ONCE(rq->avg.util_avg)), capacity = power_orig_of(cpu);

	if (util < rq->util_est)
		util = rq->util_est;
	return util < capacity ? util : capacity;
}

/* The same, or how many would run if they need not wait: cpu_util_cfs_boost(). */
static __always_inline u64 cpu_fair_util_boost(u32 cpu)
{
	u64 util = cpu_fair_util(cpu), runnable = cpu_runnable(cpu), capacity = power_orig_of(cpu);

	if (runnable > util)
		util = runnable;
	return util < capacity ? util : capacity;
}

/* What @cpu's clock_task is at @now, also if it has not looked at it lately; ns */
static __always_inline u64 rq_clock_task_at(u32 cpu, u64 now)
{
	return now - irq_time(cpu);
}

/*
 * Brings the clocks of @cpu up to @now. While it idles clock_pelt is the time of day again, but for what it lost:
 * where a CPU has been busy all the time, there was nothing to catch up with.
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

/* ns */
static __always_inline u64 rq_clock_pelt(const struct fair_rq *rq)
{
	return rq->clock_pelt - rq->lost_idle_time;
}

/* Brings the averages of the runqueue up to its clock. */
static __always_inline void update_rq_load_avg(struct fair_rq *rq)
{
	if (!update_load_sums(&rq->avg, rq_clock_pelt(rq), rq->load_weight, rq->nr_running - rq->nr_delayed,
			      rq->curr.pid))
		return;
	update_load_avgs(&rq->avg, 1);
	rq->util_changed = true;
}

/* The same at a tick and before balancing, when CONFIG_FAIR_GROUP_SCHED has it added to tg->load_avg. */
static __always_inline void update_tg_load_avg(struct fair_rq *rq)
{
	update_rq_load_avg(rq);
	simulated_write_global(LINE_TG_LOAD);
}

/* @cpu begins to idle, or ends it. */
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
	/* Far enough from 0 that no vruntime is ever below it. */
	rq->zero_vruntime = NSEC_PER_SEC;
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
