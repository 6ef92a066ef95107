/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler `equipoise`: low latency and full use of heterogeneous CPUs, with few rules.
 *
 * Principles
 * ==========
 *
 * Most wakeups find an idle CPU, so that path must be short. When there is none, the order of tasks matters more
 * than their place, and a shared queue keeps the order without balancing. Balancing is needed only where sharing a
 * queue would be wrong or slow: between CPUs of different speed, or without a common cache.
 *
 * 1. Clusters (cluster.bpf.h)
 * ---------------------------
 *
 * CPUs with capacities within 10 % of each other that share a cache form a cluster. It has one queue, ordered by
 * deadline (4.); each CPU also has a queue of its own, for tasks that are bound to it:
 *
 *        cluster 0: fast CPUs                      cluster 1: slow CPUs
 *
 *     ┌─────────────────────────┐               ┌─────────────────────────┐
 *     │   queue, by deadline    │               │   queue, by deadline    │
 *     └──┬───────┬───────┬──────┘               └──┬───────┬───────┬──────┘
 *        ▼       ▼       ▼        pull.h           ▼       ▼       ▼
 *      CPU 0   CPU 1   CPU 2   <───────────>     CPU 3   CPU 4   CPU 5
 *        ▲       ▲       ▲    take, exchange       ▲       ▲       ▲
 *     ┌──┴──┐ ┌──┴──┐ ┌──┴──┐                   ┌──┴──┐ ┌──┴──┐ ┌──┴──┐
 *     │ own │ │ own │ │ own │                   │ own │ │ own │ │ own │
 *     └─────┘ └─────┘ └─────┘                   └─────┘ └─────┘ └─────┘
 *
 * 2. Waking up (idle.h)
 * ---------------------
 *
 * A waking task goes to an idle CPU: its last one, another of the cluster, or one of another cluster. A bit mask
 * per cluster holds its idle CPUs, so that finding one does not read the state of other CPUs. If CPUs differ in
 * speed, idle fast cores come first, then slow ones, and then the second hardware threads of fast cores. If the
 * waker announces its sleep (SCX_WAKE_SYNC) and usually sleeps within 50 us after such a wakeup, the task runs on
 * the waker's CPU instead, because it finds its data in that CPU's cache.
 *
 * 3. Fair shares (fair.h, level.h, place.h)
 * ----------------------------------------
 *
 * Each queue has a clock, which is the mean virtual time of its tasks. A task's lag is the service that it is owed:
 * its weight times its distance behind the clock. The lags of a queue sum to zero. A task that changes clusters or
 * sleeps takes along what it is owed, and leaves behind what it owes; a bound task that changes CPUs takes both
 * along. A task whose weight exceeds what one CPU is worth is charged as if it weighed only that, so that no task
 * waits for it to catch up. The tasks that are bound to a CPU have a clock of their own.
 *
 * 4. Waiting (wait.h, queue.h)
 * ----------------------------
 *
 * A task that finds no idle CPU waits in its cluster's queue. A new task, and any task without a debt if CPUs
 * differ in speed, waits in the queue of the cluster with the least load. Queues are ordered by deadline: virtual
 * time plus the time that the task usually runs for, up to a turn, or two when it wakes up. A task that is bound to
 * some CPUs of a cluster waits for one of them.
 *
 * 5. Preemption (preempt.h, crowd.h, next.h, turn.bpf.h)
 * -----------------------------------------------------
 *
 * A waking task preempts another whose deadline is later. Each stop of a CPU has a price, which falls to zero
 * within a millisecond. A task whose slice is over stops only if another task waits; the last task continues
 * without a switch. In a crowd of senders and receivers no wakeup preempts, so that each receiver finds many
 * messages.
 *
 * 6. Between clusters (progress.h, pull.h, request.h)
 * ---------------------------------------------------
 *
 * A CPU without work takes a waiting task of another cluster, and a faster CPU takes over the running task of a
 * slower one. Tasks whose progress (recent work divided by weight) is 5 ms apart change places if one of them has a
 * faster CPU now, or a core to itself. Requests from CPU to CPU are one word each, posted by compare-and-swap, so
 * that none overwrites another.
 *
 * 7. Power and frequency (pack.h, follow.bpf.h)
 * ---------------------------------------------
 *
 * The setting `prefer` chooses what comes first: time, work per energy, or power. Under `power`, long-running tasks
 * are packed into few cores and caches. Each CPU requests the frequency that its utilization needs or, except under
 * `power`, the highest one if a task waits for the CPU or for its running task.
 *
 * 8. Control groups and higher classes (share.bpf.h, throttle.bpf.h, held.h)
 * --------------------------------------------------------------------------
 *
 * Each group's `cpu.weight` scales the weights of the tasks in it, level by level. When a real-time task takes a
 * CPU, the cluster's other CPUs take the tasks that wait there.
 *
 * Words
 * =====
 *
 *	lag		the service that a task or a CPU's bound tasks are owed, in ns of work; negative: a debt
 *	weight		of a task, with its groups; the feasible weight is what counts on a clock (level.h)
 *	worth		the weight that a CPU is worth: a heavier task gets a CPU of its own
 *	bound		a task that may use only some of a cluster's CPUs waits for one of them
 *	kept		bound, and waiting for one CPU, not in the cluster's queue
 *	held		throttled by cpu.max (held.h)
 *	progress	recent work divided by weight: tasks far apart change places
 *	turn		how long a task runs beside others: a slice
 *
 * docs/design/equipoise.md has the reason for each rule, and the loads at which `equipoise` gives something up.
 */
#include <scx/common.bpf.h>
#include <bpf_experimental.h>

#define SCHEDULER_SETTINGS "equipoise/settings.def"
#include "crowd.h"
#include "follow.bpf.h"
#include "idle.h"
#include "next.h"
#include "ranks.bpf.h"
#include "tick.h"
#include "wait.h"

char _license[] SEC("license") = "GPL";

/*
 * Notes whether a task waits for @t, which wakes up. If a timer or a device wakes it, no task does: such an
 * interrupt has nothing to do with the task that it interrupts, and may leave its work to kernel threads. A softirq
 * may do the work of a task, which sends something to another one.
 */
static __always_inline void note_waker(struct task_state *t, const struct task_struct *waker)
{
	t->awaited = waker->pid && !(waker->flags & PF_KTHREAD) && !bpf_in_hardirq();
}

/* The task that runs here wakes up @p with SCX_WAKE_SYNC: is it about to sleep, so that @p stays here? */
static __always_inline bool stays_with_waker(struct task_struct *p, u32 this_cpu)
{
	const struct task_struct *waker = bpf_get_current_task_btf();
	struct cpu_state *this = cpu_at(this_cpu);

	if (!this->woke_at)
		this->woke_at = bpf_ktime_get_ns();
	if (waker->flags & PF_EXITING || !sleeps_soon(this, waker))
		return false;
	/* A task that bypasses the queue may run only for a time too short to be worth a preemption. */
	if (this->ran_past >= tunables.preempt_after && has_waiters(this))
		return false;
	if (!task_allowed(p, this_cpu) || is_waited_for(this_cpu))
		return false;
	explain(with_waker, p->pid, this_cpu, this->after_wakeup, tunables.sync_burst);
	return true;
}

/*
 * @p, which wakes up, found no idle CPU: it waits near @cpu, or a CPU stops for it. Returns the CPU to which it
 * goes. If @p is worth a CPU, it gets, at once, the CPU of a task that is not, if one is found. Otherwise @p goes
 * through the queue, so that the first waiting task gets the CPU.
 */
__noinline u32 wait_or_preempt(struct task_struct *p __arg_trusted, struct task_state *t __arg_nonnull, u32 cpu,
			       bool sync, u64 enq_flags)
{
	u64 now = bpf_ktime_get_ns();
	bool at_once;
	s32 found;

	cpu = place(p, t, cpu, now);
	at_once = !t->bound_to && is_worth_cpu(cluster_of(cpu), t->full_weight);
	set_deadline(p, t, 0);
	found = at_once ? find_preemptible(p, t, cpu, now, true) : -1;
	at_once = found >= 0;
	if (!at_once && sync && is_in_crowd(p, cpu, now))
		WRITE_ONCE(cpu_at(cpu)->crowd_at, now);
	else if (!at_once)
		found = find_preemptible(p, t, cpu, now, false);
	explain_preemption(p, t, cpu, now, found);
	if (found >= 0) {
		note_stop(found, now);
		this_counters()->wakeup_preemptions++;
	}
	/* A bound task waits for one CPU: the one that stops. */
	if (found >= 0 && t->bound_to && (u32)found != cpu) {
		cpu = found;
		enter_clock(p, t, cpu, now);
		set_deadline(p, t, 0);
	}
	if (at_once) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | found, SLICE_MAX, enq_flags | SCX_ENQ_PREEMPT);
		return found;
	}
	queue_up(p, t, cpu, enq_flags);
	if (found >= 0)
		kick_cpu(found, SCX_KICK_PREEMPT);
	else
		time_running(t, cpu, now);
	return cpu;
}

s32 BPF_STRUCT_OPS(equipoise_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu;
	struct task_state *t = task_of(p);

	if (!t)
		return prev_cpu;
	if (follows())
		note_waker(t, bpf_get_current_task_btf());
	/* ops.enqueue() then holds the task back. */
	if (stopped_by(p, t))
		return prev_cpu;
	if (wake_flags & SCX_WAKE_SYNC && stays_with_waker(p, this_cpu)) {
		cpu = this_cpu;
		this_counters()->waker_hits++;
	} else {
		/* The CPU on which the task slept may be offline now. */
		if (!is_online(prev_cpu))
			prev_cpu = this_cpu;
		cpu = claim_idle_cpu(p, t, prev_cpu, wake_flags & SCX_WAKE_FORK);
		this_counters()->idle_hits += cpu >= 0;
	}
	if (cpu >= 0) {
		s32 idle = cpu;

		if (unlike && !(wake_flags & (SCX_WAKE_FORK | SCX_WAKE_SYNC)))
			cpu = place_of_ahead(p, t, idle);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_MAX, cpu == idle ? 0 : SCX_ENQ_PREEMPT);
		return cpu;
	}
	/*
	 * A debtor waits where its debt is. A new task, which has no data in a cache, waits where its turn comes
	 * soonest, as does any task without a debt if CPUs differ in speed.
	 */
	if ((unlike && !owes(t)) || wake_flags & SCX_WAKE_FORK)
		prev_cpu = least_loaded(p, t, prev_cpu);
	else
		explain(none_idle, p->pid, prev_cpu);
	if (!task_allowed(p, prev_cpu))
		return prev_cpu;
	return wait_or_preempt(p, t, prev_cpu, wake_flags & SCX_WAKE_SYNC, 0);
}

void BPF_STRUCT_OPS(equipoise_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p), share, to;
	struct cpu_state *this = cpu_at(cpu);
	bool wakes = enq_flags & SCX_ENQ_WAKEUP;
	u64 request = wakes ? 0 : READ_ONCE(this->request);
	struct task_state *t = task_of(p);
	s32 idle = -1;

	if (!t) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SLICE_MAX, enq_flags);
		return;
	}
	share = held_by(p, t);
	if (share) {
		if (asks_for_task(request))
			drop_request(take_request(&this->request));
		hold_back(p, t, share, cpu, enq_flags);
		return;
	}
	/* The task ran here until another CPU asked for it. */
	if (asks_for_task(request) && push(p, cpu, request, enq_flags))
		return;
	read_cluster(cluster_at(this->cluster));
	if (is_pinned(p) && clear_idle(cpu)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_MAX, enq_flags);
		return;
	}
	if (wakes) {
		wait_or_preempt(p, t, cpu, false, enq_flags);
		return;
	}
	/* A CPU may have become idle since the task got this one. */
	if (!is_pinned(p) && READ_ONCE(idle_clusters))
		idle = claim_idle_cpu(p, t, cpu, false);
	to = place(p, t, cpu, bpf_ktime_get_ns());
	set_deadline(p, t, 0);
	queue_up(p, t, to, enq_flags);
	if (idle >= 0)
		kick_cpu(idle, SCX_KICK_IDLE);
	else if (enq_flags & SCX_ENQ_LAST)
		kick_cpu(cpu, 0);
}

void BPF_STRUCT_OPS(equipoise_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *this = cpu_at(cpu);
	struct task_state *runs = prev && prev->scx.flags & SCX_TASK_QUEUED ? task_of(prev) : NULL;
	u64 request;

	clear_taken(this);
	check_held(this);
	/* Another CPU asked for a task that was going to sleep, after ops.stopping(). */
	if (!runs && asks_for_task(READ_ONCE(this->request)))
		drop_request(take_request(&this->request));
	/* The task stops and is held back. */
	if (runs && stopped_by(prev, runs))
		runs = NULL;
	if (runs && goes_on(prev, runs, cpu))
		return;
	request = READ_ONCE(this->request);
	if (request_kind(request) == REQUEST_PULL && take_this_request(&this->request, request) &&
	    pull_for_fairness(cpu, request))
		return;
	if (take_next(cpu))
		return;
	nothing_found(this->cluster);
	request = READ_ONCE(this->request);
	if (runs && !asks_for_task(request))
		return;
	/* Another task is about to come for the one that goes. */
	if (request_kind(request) == REQUEST_SWAP)
		return;
	if (pull_kept(this->cluster) || (nr_clusters > 1 && pull_waiting(this->cluster)))
		return;
	if (unlike && !asks_for_task(request))
		look_again(cpu, pull_running(cpu));
	explain(nothing_waits, 0, cpu, __builtin_popcountll(waiting_clusters));
	/* The CPU was claimed, but no task came. */
	if (!prev)
		become_idle(cpu);
}

/* @p starts to run. It is on no clock here yet if it was sent to an idle CPU or comes from another cluster. */
void BPF_STRUCT_OPS(equipoise_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct task_state *t = task_of(p);

	if (!t)
		return;
	if (asking_locks && follows())
		ask_before_switch(cpu, t);
	begin_turn(p, t, cpu);
	if (burst_of(t) >= slice_of(p) && others_wait(cpu))
		time_turn(p, cpu, ran_of(p));
}

void BPF_STRUCT_OPS(equipoise_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *this = cpu_at(cpu);
	struct task_state *t = task_of(p);

	this->asked = this->yields = this->timed = false;
	clear_taken(this);
	if (!t)
		return;
	this->ran_past += charge(p, t, cpu);
	this->back_at = runnable ? 0 : this->charged_at + t->nap;
	note_after_wakeup(this, t, runnable, this->charged_at);
	if (runnable) {
		note_family(this, p, this->charged_at);
		return;
	}
	leave_clock(t);
	count_runnable(t, false);
	end_burst(t);
	if (asks_for_task(READ_ONCE(this->request)))
		drop_request(take_request(&this->request));
}

void BPF_STRUCT_OPS(equipoise_tick, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *this = cpu_at(cpu);
	struct task_state *t = task_of(p);
	bool waits, over;

	if (!t)
		return;
	find_forgotten(cpu);
	follow_limits(this);
	if (follows())
		follow(p, t, cpu);
	note_boost(cpu);
	charge_running(p, t, cpu);
	update_level(this->cluster, this->charged_at);
	set_deadline(p, t, ran_of(p) % slice_of(p));
	waits = others_wait(cpu);
	count_progress(t, this->progress, waits);
	over = waits && turn_is_over(p, cpu);
	if (waits && !over)
		time_turn(p, cpu, ran_of(p));
	if (!is_to_move(p, t, cpu)) {
		u32 evened = even_out(p, t, cpu);

		if (evened == EVEN_SWAPS || (evened == EVEN && !over && !stopped_by(p, t)))
			return;
	}
	p->scx.slice = 0;
}

bool BPF_STRUCT_OPS(equipoise_yield, struct task_struct *from, struct task_struct *to)
{
	cpu_at(bpf_get_smp_processor_id())->yields = true;
	from->scx.slice = 0;
	return false;
}

void BPF_STRUCT_OPS(equipoise_update_idle, s32 cpu, bool idle)
{
	struct cpu_state *this = cpu_at(cpu);

	clear_taken(this);
	if (!idle) {
		clear_idle(cpu);
		this->timed = false;
		this->ran_past = 0;
		WRITE_ONCE(this->charged_at, bpf_ktime_get_ns());
		/*
		 * If a real-time task takes an idle CPU, the kernel does not call ops.cpu_release(). Before Linux
		 * 6.19, tasks that were sent here stay.
		 */
		if (rt_rq_is_runnable(cpu)) {
			set_taken(cpu);
			scx_bpf_reenqueue_local_from_anywhere();
		}
		return;
	}
	note_running(this, 0, 0);
	if (asking_locks && follows())
		ask_before_switch(cpu, NULL);
	become_idle(cpu);
}

/*
 * A higher class takes this CPU. Other CPUs take the tasks that wait here; tasks that were sent here go elsewhere.
 */
void BPF_STRUCT_OPS(equipoise_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	set_taken(cpu);
	scx_bpf_reenqueue_local();
}

/* The weight of @p has changed. If @p runs, it is compared with the waiting tasks at once, as in the fair class. */
static __always_inline void compare_anew(struct task_struct *p)
{
	if (scx_bpf_task_running(p))
		kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(equipoise_set_weight, struct task_struct *p, u32 weight)
{
	struct task_state *t = task_of(p);

	if (!t)
		return;
	set_task_weight(p, t);
	compare_anew(p);
}

void BPF_STRUCT_OPS(equipoise_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	note_affinity(p, cpumask);
}

void BPF_STRUCT_OPS(equipoise_enable, struct task_struct *p)
{
	struct task_state *t = task_of(p);

	if (!t)
		return;
	set_task_weight(p, t);
	t->seen = p->se.sum_exec_runtime;
	note_affinity(p, p->cpus_ptr);
}

s32 BPF_STRUCT_OPS(equipoise_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_state *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	/* Until its behaviour is known, assume that it runs for long. */
	t->burst = t->after_wakeup = tunables.slice;
	t->seen = t->used_seen = p->se.sum_exec_runtime;
	/* The task starts as if it had slept until now. */
	t->recent_at = bpf_ktime_get_ns() - PROGRESS_NS;
	if (args->fork && follows())
		begin_used(t, scx_bpf_task_cpu(p));
	t->share = share_of(args->cgroup);
	set_task_weight(p, t);
	return 0;
}

/*
 * The task ends, or leaves sched_ext. If it is running, as with `chrt`, the new class has the CPU, which
 * ops.cpu_release() does not report.
 */
void BPF_STRUCT_OPS(equipoise_disable, struct task_struct *p)
{
	struct task_state *t = task_of(p);

	if (t) {
		leave_clock(t);
		count_runnable(t, false);
	}
	if (scx_bpf_task_running(p))
		set_taken(scx_bpf_task_cpu(p));
}

/* This op is not sleepable, because it sets the callback of a group's timer, which iterates over a queue. */
s32 BPF_STRUCT_OPS(equipoise_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	s32 err = init_share(cgrp, args->weight, bpf_core_field_exists(args->sched_idle) && args->sched_idle);

	if (!err && bpf_core_field_exists(args->bw_quota_us)) {
		init_refill(cgrp);
		limit_group(cgrp, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	}
	return err;
}

void BPF_STRUCT_OPS(equipoise_cgroup_exit, struct cgroup *cgrp)
{
	u32 share = own_share(cgrp);

	if (!share)
		return;
	forget_limit(share);
	/* From now on another group may get the share. */
	WRITE_ONCE(share_at(share)->weight, 0);
}

void BPF_STRUCT_OPS(equipoise_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	set_share_weight(cgrp, weight);
}

void BPF_STRUCT_OPS(equipoise_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	set_share_idle(cgrp, idle);
}

void BPF_STRUCT_OPS(equipoise_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	limit_group(cgrp, period_us, quota_us, burst_us);
}

void BPF_STRUCT_OPS(equipoise_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_state *t = task_of(p);

	if (!t)
		return;
	move_share(t, share_of(to), t->weight);
	compare_anew(p);
}

/*
 * This tracepoint reports switches to tasks of all classes, after the runqueue has counted its runnable tasks. By
 * its name, the loader attaches the program only if frequencies are requested.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(equipoise_frequency_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (follows())
		follow_switch(bpf_get_smp_processor_id(), prev, next);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(equipoise_init)
{
	int cpu, i;
	s32 err = init_clusters();

	bpf_for(i, 0, HELD_QUEUES)
		if (!err)
			err = scx_bpf_create_dsq(held_dsq(i), -1);
	bpf_for(cpu, 0, nr_cpus())
		if (!err)
			err = init_turn(cpu) ?: init_follow(cpu);
	return err;
}

UEI_DEFINE(uei);

void BPF_STRUCT_OPS(equipoise_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

/* clang-format off */
SCX_OPS_DEFINE(equipoise_ops,
	       .select_cpu = (void *)equipoise_select_cpu,
	       .enqueue = (void *)equipoise_enqueue,
	       .dispatch = (void *)equipoise_dispatch,
	       .running = (void *)equipoise_running,
	       .stopping = (void *)equipoise_stopping,
	       .tick = (void *)equipoise_tick,
	       .yield = (void *)equipoise_yield,
	       .update_idle = (void *)equipoise_update_idle,
	       .cpu_release = (void *)equipoise_cpu_release,
	       .set_weight = (void *)equipoise_set_weight,
	       .set_cpumask = (void *)equipoise_set_cpumask,
	       .enable = (void *)equipoise_enable,
	       .disable = (void *)equipoise_disable,
	       .init_task = (void *)equipoise_init_task,
	       .cgroup_init = (void *)equipoise_cgroup_init,
	       .cgroup_exit = (void *)equipoise_cgroup_exit,
	       .cgroup_set_weight = (void *)equipoise_cgroup_set_weight,
	       .cgroup_set_idle = (void *)equipoise_cgroup_set_idle,
	       .cgroup_set_bandwidth = (void *)equipoise_cgroup_set_bandwidth,
	       .cgroup_move = (void *)equipoise_cgroup_move,
	       .init = (void *)equipoise_init,
	       .exit = (void *)equipoise_exit,
	       .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING,
	       .name = "equipoise");
