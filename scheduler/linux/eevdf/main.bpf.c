/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Linux 7.3's fair class as a sched_ext scheduler: EEVDF, its placement and its load balancing; or Linux 6.12's, if
 * the policy says so (settings.def). This scheduler is the baseline of the published comparisons. The same source
 * runs in Linux as BPF, where it can be compared with the original, and in the simulated kernel as a native object.
 *
 * A task runs with an endless slice until its own deadline, a wakeup or the balancer takes the slice away; then
 * ops.dispatch() picks the next task.
 *
 * docs/design/eevdf.md lists the parts of the kernel that this scheduler leaves out, with the effects.
 */

#include <scx/common.bpf.h>

#define SCHEDULER_SETTINGS "linux/eevdf/settings.def"
#define FREQUENCY_UTIL_FAIR cpu_fair_util_boost
#include "../../release.bpf.h"
#include "../../timers.bpf.h"
#include "balance/newidle.h"
#include "balance/nohz.bpf.h"
#include "group/throttle.bpf.h"
#include "../group/ops.bpf.h"
#include "placement/select.h"

char _license[] SEC("license") = "GPL";

/* Timers call rebalance_domains() for the tick's softirq, because a tick may not move tasks between queues. */
CPU_TIMERS(balance_timers);

static int run_rebalance_domains(void *timers, int *key, struct scheduler_timer *timer)
{
	periodic_balance(bpf_get_smp_processor_id(), LB_NOT_IDLE, bpf_ktime_get_ns());
	return 0;
}

static __always_inline void trigger_load_balance(u32 cpu, u64 jiffies)
{
	if (!levels_of(cpu)->nr_levels)
		return;
	if (!time_before(jiffies, rq_of(cpu)->next_balance))
		start_timer(&balance_timers, cpu, 0);
	nohz_balance_exit_idle(cpu);
	nohz_balancer_kick(cpu, jiffies);
}

/* Ends a slice (hrtick.bpf.h). */
static int run_hrtick(void *timers, int *key, struct scheduler_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (hrtick_expired(cpu, bpf_ktime_get_ns())) {
		struct fair_rq *rq = rq_of(cpu);

		explain(slice_over, rq->curr.pid, cpu, rq->curr.slice, rq->nr_running - 1);
		resched_now(rq, cpu);
	}
	return 0;
}

/* Timers that replace the ticks that sched_ext does not report, while a task of a higher class has the CPU. */
CPU_TIMERS(class_timers);

static int run_class_tick(void *timers, int *key, struct scheduler_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct fair_rq *rq = rq_of(cpu);
	u64 now = bpf_ktime_get_ns();

	if (rq->idle || rq->curr.pid)
		return 0;
	update_blocked_averages(cpu, now);
	trigger_load_balance(cpu, jiffies_at(now));
	bpf_timer_start(&timer->timer, machine.tick_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/*
 * Requests the frequency, in an op of @cpu, which is about to switch: the next task is known, and so is the
 * frequency.
 */
static __always_inline void ask_before_switch(u32 cpu)
{
	if (!asking_locks || !rq_of(cpu)->util_changed)
		return;
	rq_of(cpu)->util_changed = false;
	update_frequency(cpu, bpf_ktime_get_ns());
}

static __always_inline u32 enqueue_cpu(struct task_struct *p, const struct fair_entity *se)
{
	/* The task is being pushed, or was queued on a different CPU than sched_ext has for it. */
	if (se->on_rq && task_allowed(p, se->cpu))
		return se->cpu;
	return scx_bpf_task_cpu(p);
}

/* Notes whether the task that runs on @cpu does not fit it, if it might run elsewhere. */
static __always_inline void update_misfit_status(u32 cpu, const struct task_struct *p, const struct fair_entity *se)
{
	struct fair_rq *rq = rq_of(cpu);

	rq->misfit_task_load = 0;
	if (!machine.asymmetric || p->nr_cpus_allowed == 1 || power_orig_of(cpu) == SCHED_POWER_SCALE ||
	    util_fits_cpu(task_util_est(se), cpu))
		return;
	rq->misfit_task_load = task_h_load(se);
	rq->misfit_task_load += !rq->misfit_task_load;
}

s32 BPF_STRUCT_OPS(equipoise_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_task_rq_fair(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(equipoise_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct fair_entity *se = entity_of(p);
	bool arrives, here, new, waits = false, slice_over = false;
	u64 now = bpf_ktime_get_ns();
	struct fair_rq *rq;
	u32 cpu;

	if (!se) {
		scx_bpf_error("%d has no storage", p->pid);
		return;
	}
	cpu = enqueue_cpu(p, se);
	here = (s32)cpu == scx_bpf_task_cpu(p);
	arrives = !se->on_rq || !here;
	rq = rq_of(cpu);
	if (!se->on_rq) {
		update_rq_clock(cpu, now);
		slice_over = update_curr(cpu);
		if (se->forked)
			init_entity_util(se, cpu);
		new = se->forked;
		enqueue_entity(se, cpu, now);
		/* The utilization of a new task is a guess. */
		if (!new)
			check_update_overutilized(cpu);
		if (enq_flags & SCX_ENQ_WAKEUP)
			update_avg_idle(rq, now);
	} else if (se->cpu != cpu) {
		migrate_entity(se, cpu);
	}
	if (!arrives && !group_queues() && is_throttled(p, se)) {
		hold_back(p, se, cpu, enq_flags);
		return;
	}

	if (arrives && here && !slice_over && runs_at_once(cpu, p, se, &waits)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	queue_task(p, se, cpu, enq_flags);
	if (slice_over && !rq->need_resched) {
		if (resched_curr(cpu))
			kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (arrives && !waits) {
		check_preempt_curr(p, cpu);
	} else if (!arrives && enq_flags & SCX_ENQ_LAST) {
		kick_cpu(cpu, 0);
	}
	if (arrives)
		hrtick_update(cpu);
	resched_if_lazy(bpf_get_smp_processor_id());
}

/*
 * Picks the next task of @cpu if groups have queues. Throttled queues and sleepers leave before @cpu may look for
 * work elsewhere.
 */
static __always_inline void dispatch_from_queues(u32 cpu, struct task_struct *prev, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	if (prev) {
		update_rq_clock(cpu, now);
		update_curr(cpu);
	}
	if (rq->nohz_kick)
		nohz_answer_kick(cpu, now);
	if (start_from_queues(cpu, prev))
		return;
	if (!cpu_nr_running(cpu)) {
		idle_balance(cpu, now);
		start_from_queues(cpu, NULL);
	}
}

void BPF_STRUCT_OPS(equipoise_dispatch, s32 cpu, struct task_struct *prev)
{
	struct fair_rq *rq = rq_of(cpu);
	u64 now = bpf_ktime_get_ns();

	/* Can prev continue? */
	if (!(prev && prev->scx.flags & SCX_TASK_QUEUED && rq->curr.pid == prev->pid))
		prev = NULL;
	if (prev && hrtick_asked_alone(rq)) {
		prev->scx.slice = SCX_SLICE_INF;
		hrtick_start_fair(cpu, now);
		return;
	}
	rq->need_resched = rq->resched_lazy = false;
	rq->dispatching = true;
	if (rq->exec_pid && exec_balance(cpu, prev, now))
		prev = NULL;
	if (rq->active_balance && active_load_balance(cpu, prev, now))
		prev = NULL;
	if (group_queues()) {
		dispatch_from_queues(cpu, prev, now);
		rq->dispatching = false;
		return;
	}
	if (any_group_is_limited()) {
		if (prev && rq->curr_throttled)
			prev = NULL;
		if (!prev)
			hold_picked(cpu);
	}
	if (rq->nr_delayed && rq->nr_running == rq->nr_delayed)
		dequeue_delayed(cpu, avg_vruntime(&rq->queue), ~0ULL);
	if (rq->nohz_kick)
		nohz_answer_kick(cpu, now);
	else if (!cpu_nr_running(cpu))
		idle_balance(cpu, now);
	rq->dispatching = false;

	pick_next_entity(cpu, prev, now);
	if (prev)
		hrtick_answer(cpu, now);
}

void BPF_STRUCT_OPS(equipoise_running, struct task_struct *p)
{
	struct fair_entity *se = entity_of(p);
	u32 cpu = scx_bpf_task_cpu(p);

	if (!se)
		return;
	/* This happens only if sched_ext bypassed our queues. */
	if (!se->on_rq)
		enqueue_entity(se, cpu, bpf_ktime_get_ns());
	else if (se->cpu != cpu)
		migrate_entity(se, cpu);
	set_curr(cpu, p, se, bpf_ktime_get_ns());
	hrtick_start_fair(cpu, bpf_ktime_get_ns());
	update_misfit_status(cpu, p, se);
	ask_before_switch(cpu);
}

void BPF_STRUCT_OPS(equipoise_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct fair_entity *se;

	/* A pushed task has already stopped. */
	if (rq_of(cpu)->curr.pid == p->pid && (se = entity_of(p)))
		put_curr(cpu, se, bpf_ktime_get_ns());
}

void BPF_STRUCT_OPS(equipoise_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct fair_entity *se = entity_of(p);

	if (se && se->on_rq)
		dequeue_entity(se, deq_flags & SCX_DEQ_SLEEP, bpf_ktime_get_ns());
}

void BPF_STRUCT_OPS(equipoise_tick, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct fair_entity *se = entity_of(p);
	struct fair_rq *rq = rq_of(cpu);
	u64 now = bpf_ktime_get_ns();
	bool slice_over;

	if (!se)
		return;
	update_rq_clock(cpu, now);
	slice_over = update_curr(cpu);
	update_entity_load_avg(se, se_clock_pelt(rq, se), true);
	if (in_group(se->group)) {
		update_avg_of(rq, se->group, cpu);
		if (group_queues())
			tick_groups(se->group, cpu);
		else
			reweight_curr(rq, se, tick_hierarchy(se->group, cpu, se->weight));
	}
	update_tg_load_avg(rq);
	update_cpu_util(cpu, now);
	update_frequency(cpu, now);
	if (slice_over)
		explain(slice_over, p->pid, cpu, rq->curr.slice, rq->nr_running - 1);
	else if (rq->resched_lazy)
		explain(lazy_preemption, p->pid, cpu);
	/* A CPU that is about to switch to a task that bypassed the dispatch queue loses a kick, so ask again. */
	if (slice_over || rq->resched_lazy || rq->curr_throttled || rq->exec_pid || rq->active_balance) {
		rq->need_resched = true;
		p->scx.slice = 0;
	}
	update_misfit_status(cpu, p, se);
	check_update_overutilized(cpu);
	trigger_load_balance(cpu, jiffies_at(now));
}

/* An eligible task forfeits the rest of its slice. A task that has had more than its share loses nothing more. */
bool BPF_STRUCT_OPS(equipoise_yield, struct task_struct *from, struct task_struct *to)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct fair_rq *rq = rq_of(cpu);
	struct running *curr = &rq->curr;

	if (rq->nr_running > 1 && curr->pid == from->pid) {
		struct eevdf_queue *queue = queue_in(rq, curr->charged_group, cpu);

		update_rq_clock(cpu, bpf_ktime_get_ns());
		update_curr(cpu);
		if (eligible(avg_vruntime(queue), curr->vruntime)) {
			u64 rest = curr->deadline - curr->vruntime;

			__sync_fetch_and_add(&queue->weighted_vruntime, curr->weight * rest);
			curr->vruntime = curr->deadline;
			curr->deadline += calc_delta_weight(curr->slice, curr->weight, curr->inv_weight);
			clear_buddy(rq, curr->pid);
		}
	}
	from->scx.slice = 0;
	return false;
}

void BPF_STRUCT_OPS(equipoise_update_idle, s32 cpu, bool idle)
{
	struct fair_rq *rq = rq_of(cpu);

	set_idle(cpu, idle, bpf_ktime_get_ns());
	rq->last_group = 0;
	/*
	 * A kick that came between ops.dispatch() and the idle task has no effect. Clear it, so that this CPU can
	 * be asked again.
	 */
	rq->nohz_kick = 0;
	if (!idle)
		return;
	cpu_util_of(cpu)->blocked = true;
	ask_before_switch(cpu);
	nohz_balance_enter_idle(cpu);
	if (!llc_of(cpu)->has_idle_cores && is_core_idle(cpu))
		llc_of(cpu)->has_idle_cores = true;
}

/* A higher class takes the CPU. The tasks in its local queue go back to queues from which other CPUs can pull. */
void BPF_STRUCT_OPS(equipoise_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
	if (group_queues())
		rq_of(cpu)->last_group = 0;
	start_timer(&class_timers, cpu, machine.tick_ns);
}

/* If @p runs and its nice value has risen, its CPU reschedules (prio_changed_fair()). */
void BPF_STRUCT_OPS(equipoise_set_weight, struct task_struct *p, u32 weight)
{
	struct fair_entity *se = entity_of(p);
	u32 cpu = scx_bpf_task_cpu(p);
	u64 was;

	if (!se)
		return;
	was = se->weight;
	reweight_entity(p, se, se->group);
	if (se->weight < was && scx_bpf_task_running(p))
		resched_now(rq_of(cpu), cpu);
}

void BPF_STRUCT_OPS(equipoise_enable, struct task_struct *p)
{
	struct fair_entity *se = entity_of(p);

	if (!se)
		return;
	se->cpu = scx_bpf_task_cpu(p);
	se->pid = p->pid;
	reweight_entity(p, se, se->group);
}

void BPF_STRUCT_OPS(equipoise_disable, struct task_struct *p)
{
	struct fair_entity *se = entity_of(p);

	if (!se)
		return;
	if (se->on_rq)
		dequeue_entity(se, false, bpf_ktime_get_ns());
	else if (se->delayed)
		end_delay(se->cpu, se->delayed_slot, se->pid);
	if (se->attached)
		detach_entity(se);
}

bool timers_set;

/* See set_timer(). */
static __always_inline void set_timers(void)
{
	int cpu;

	if (timers_set)
		return;
	timers_set = true;
	bpf_for(cpu, 0, nr_cpus()) {
		set_timer(&balance_timers, cpu, run_rebalance_domains);
		set_timer(&class_timers, cpu, run_class_tick);
		set_timer(&hrtick_timers, cpu, run_hrtick);
	}
}

s32 BPF_STRUCT_OPS(equipoise_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct fair_entity *se = bpf_task_storage_get(&entities, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!se)
		return -ENOMEM;
	set_timers();
	se->forked = true;
#ifdef __EQUIPOISE_SIMULATED_H
	se->group = group_of_task(p, args->cgroup);
#endif
	inherit_wakees(p, se, args->fork);
	return 0;
}

/* A task executes another program. This is a good time to move the task, because its cache is empty. */
SEC("tp_btf/sched_prepare_exec")
int BPF_PROG(equipoise_exec, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct fair_rq *rq = rq_of(cpu);
	s32 exec_cpu;

	if (rq->curr.pid != p->pid || p->nr_cpus_allowed == 1)
		return 0;
	exec_cpu = select_idlest_cpu(p, cpu, cpu, SD_BALANCE_EXEC);
	if (exec_cpu == (s32)cpu)
		return 0;
	rq->exec_cpu = exec_cpu;
	rq->exec_pid = p->pid;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/*
 * This tracepoint reports switches to tasks of all classes, after the runqueue has counted its runnable tasks. A
 * switch between fair tasks changes nothing that the runqueue does not count already.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(equipoise_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct fair_rq *rq = rq_of(cpu);
	bool fair = next->pid && next->prio >= MAX_RT_PRIO;

	if (!fair || cpu_util_of(cpu)->running != UTIL_FAIR)
		switch_cpu_util(cpu, next);
	else if (!rq->util_changed)
		return 0;
	if (released_by_switch && outranks_fair(cpu_util_of(cpu)->running)) {
		scx_bpf_reenqueue_local_from_anywhere();
		start_timer(&class_timers, cpu, machine.tick_ns);
	}
	rq->util_changed = false;
	if (!asking_locks)
		update_frequency(cpu, bpf_ktime_get_ns());
	return 0;
}

static __noinline s32 init_cpu(u32 cpu, u64 now)
{
	struct llc *llc = llc_of(cpu);
	s32 err;

	init_rq(cpu, now);
	init_groups(cpu);
	init_cpu_util(cpu, now);
	llc->nr_busy_cpus++;
	llc->nr_idle_scan = levels_of(cpu)->llc_weight;
	llc->nr_asym_idle_scan = nr_cpus();
	llc->has_idle_cores = true;
	/* A CPU without domains may be offline, and could not answer a kick. */
	if (levels_of(cpu)->nr_levels)
		nohz_balance_enter_idle(cpu);
	err = scx_bpf_create_dsq(eligible_dsq(cpu), -1);
	if (!err)
		err = scx_bpf_create_dsq(ineligible_dsq(cpu), -1);
	if (!err)
		err = scx_bpf_create_dsq(limbo_dsq(cpu), -1);
	if (!err)
		err = init_timer(&balance_timers, cpu);
	if (!err)
		err = init_timer(&class_timers, cpu);
	if (!err)
		err = init_timer(&hrtick_timers, cpu);
	return err ? err : init_frequency(cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(equipoise_init)
{
	u64 now = bpf_ktime_get_ns();
	int cpu;
	s32 err;

	bpf_for(cpu, 0, nr_cpus()) {
		err = init_cpu(cpu, now);
		if (err)
			return err;
	}
	return 0;
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
	       .quiescent = (void *)equipoise_quiescent,
	       .tick = (void *)equipoise_tick,
	       .yield = (void *)equipoise_yield,
	       .update_idle = (void *)equipoise_update_idle,
	       .cpu_release = (void *)equipoise_cpu_release,
	       .set_weight = (void *)equipoise_set_weight,
	       .enable = (void *)equipoise_enable,
	       .disable = (void *)equipoise_disable,
	       .init_task = (void *)equipoise_init_task,
	       GROUP_OPS
	       .init = (void *)equipoise_init,
	       .exit = (void *)equipoise_exit,
	       .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_KEEP_BUILTIN_IDLE,
	       .name = "equipoise_eevdf");
