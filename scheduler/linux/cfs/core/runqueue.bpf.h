/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runqueues: the scheduling state of one CPU, and the part of that state that other CPUs may read. The tasks are in
 * the CPU's dispatch queue, which is ordered by vruntime and whose id is the CPU's number.
 *
 * Another CPU may change nr_running and the load sums (atomically) and leave notes (active_balance, next_pid, ...).
 * Everything else is written by the CPU itself, or by a CPU that wakes or changes a task there or, while the CPU is
 * idle, balances for it.
 */
#ifndef __EQUIPOISE_RUNQUEUE_H
#define __EQUIPOISE_RUNQUEUE_H

#include "../../../explain.bpf.h"
#include "../../../memory.h"
#include "../../../rq.bpf.h"
#include "../../../signals/pelt.h"
#include "../../../topology.bpf.h"
#include "../hooks.h"

#define CPU_LOAD_IDX_MAX 5

/* The running task: the fields that the tick and a waker need without looking the task up. */
struct running {
	/* The task's pid; 0 if no fair task runs, because the CPU is idle or a higher class has it. */
	s32 pid;
	u32 policy;
	u32 weight;
	u32 inv_weight;
	/* The task's group, in whose queue it runs; 0 is the root. */
	u32 group;
	u64 vruntime;
	/* The time up to which vruntime is charged, and the CPU's interrupt time until then, in ns. */
	u64 exec_start;
	u64 irq_time;
	/* The CPU time since the task was picked, in ns. */
	u64 delta_exec;
	/* The task's load in balancing. */
	u64 load;
	struct design_running design;
};

/* The kernel's per-CPU fields of struct sched_domain. */
struct domain_state {
	/* The time of the last balance, in jiffies. */
	u64 last_balance;
	/* The balance interval, in ms. */
	u32 balance_interval;
	u32 nr_balance_failed;
	struct design_domain design;
};

struct fair_rq {
	struct running curr;
	u64 min_vruntime;
	/* The smallest vruntime of the waiting tasks, or a lower bound of it; ~0 if none waits. */
	u64 leftmost;
	/* The vruntime of the task that runs next, which has left the queue; ~0 if there is none. */
	u64 next_vruntime;

	/* The number of runnable fair tasks, waiting and running: the kernel's cfs_rq->nr_running. */
	u32 nr_running;
	/* The number of these tasks that are in groups, and of the groups' entities in the root's queue. */
	u32 group_tasks;
	u32 group_entities;
	/* Whether the idle task has the CPU. */
	bool idle;
	/* Whether curr has been asked to stop. */
	bool need_resched;
	/* Whether a queue above curr has used up its time (cpu.max). */
	bool curr_throttled;
	/* Whether curr yields, so that it is picked only if the next task is too far ahead of it. */
	bool skip;
	/* Whether the CPU is inside ops.dispatch(), where an arriving task needs no preemption. */
	bool dispatching;
	/* The sums over the runnable tasks of weights, and of runnable averages times weights. */
	u64 load_weight;
	u64 runnable_load_avg;

	/* The buddies: the task that should run next, and the task that was preempted. */
	s32 next_pid;
	s32 last_pid;
	/* The groups of the buddies. */
	u32 next_group;
	u32 last_group;

	/* The load over the last ticks, as averages that become slower with the index. */
	u64 cpu_load[CPU_LOAD_IDX_MAX];
	/* The time of the last update of these averages, in jiffies. */
	u64 last_load_update_tick;

	/* The time when the CPU last ran out of work, or 0, and the average idle time, in ns. */
	u64 idle_stamp;
	u64 avg_idle;

	/*
	 * Set to 1 by a CPU that requests a task for push_cpu. Only the CPU that changed the field from 0 to 1 may
	 * set push_cpu and push_pid.
	 */
	u32 active_balance;
	/* The running task, if it is to move to exec_cpu because it starts another program. */
	s32 exec_pid;
	u32 exec_cpu;
	/* Whether the tick has been stopped, and has not run since: the kernel's NOHZ_TICK_STOPPED. */
	bool tick_stopped;
	/* Whether the CPU has been asked to balance for all idle CPUs. */
	bool nohz_balance_kick;
	u32 push_cpu;
	/* The pid of the requested task; 0 is any task. */
	s32 push_pid;

	struct design_rq design;

	/* The time when the next domain is due, in jiffies. */
	u64 next_balance;
	struct domain_state sd[MAX_LEVELS];

	/* The utilization of the CPU by fair tasks. */
	struct pelt avg;
} __attribute__((aligned(64)));

struct fair_rq fair_rqs[MAX_CPUS];

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

/* The number of tasks of all classes that are runnable on @cpu: the kernel's rq->nr_running. */
static __always_inline u32 cpu_nr_running(u32 cpu)
{
	struct rq *core = cpu_rq(cpu);
	u32 nr_running = READ_ONCE(rq_of(cpu)->nr_running);

	return core ? nr_running + core->nr_running - core->scx.nr_running : nr_running;
}

static __always_inline u64 weighted_cpuload(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	return policy.load_tracking == LOAD_PELT ? READ_ONCE(rq->runnable_load_avg) : READ_ONCE(rq->load_weight);
}

static __always_inline void update_rq_load_avg(struct fair_rq *rq, u64 now)
{
	update_pelt(&rq->avg, now, rq->nr_running, rq->curr.pid);
}

/*
 * Calls update_rq_load_avg() at a tick and before balancing, when CONFIG_FAIR_GROUP_SCHED adds the average to
 * tg->load_avg.
 */
static __always_inline void update_tg_load_avg(struct fair_rq *rq, u64 now)
{
	update_rq_load_avg(rq, now);
	simulated_write_global(LINE_TG_LOAD);
}

static __always_inline u64 cpu_avg_load_per_task(u32 cpu)
{
	u64 nr_running = cpu_nr_running(cpu);

	return nr_running ? weighted_cpuload(cpu) / nr_running : 0;
}

static __always_inline void init_rq(u32 cpu, u64 jiffies)
{
	struct fair_rq *rq = rq_of(cpu);

	rq->leftmost = ~0ULL;
	rq->next_vruntime = ~0ULL;
	/* The initial value is far enough from 0 that no vruntime is ever below 0. */
	rq->min_vruntime = NSEC_PER_SEC;
	rq->idle = true;
	rq->avg_idle = 2 * tunables.sched_migration_cost;
	hook_init_rq(rq);
	rq->last_load_update_tick = jiffies;
	rq->next_balance = jiffies;
	for (u32 level = 0; level < MAX_LEVELS; level++) {
		rq->sd[level].last_balance = jiffies;
		rq->sd[level].balance_interval = domain_of(cpu, level)->min_interval;
	}
}

#endif /* __EQUIPOISE_RUNQUEUE_H */
