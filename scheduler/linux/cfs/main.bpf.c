/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CFS: the fair class of Linux 3.9, with the published designs for heterogeneous or sleeping CPUs
 * as options, as a sched_ext scheduler. The same source runs in Linux (6.12 and later) as BPF and
 * in the simulated kernel as a native object.
 *
 * Each CPU has a dispatch queue, its runqueue, ordered by vruntime. A task runs with an endless slice until the
 * tick, a wakeup or the balancer takes the slice away; then ops.dispatch() picks the next task.
 */
#include <scx/common.bpf.h>

#define SCHEDULER_SETTINGS "linux/cfs/settings.def"
#include "../../release.bpf.h"
#include "../../timers.bpf.h"
#include "balance/newidle.h"
#include "balance/nohz.bpf.h"
#include "core/pick.h"
#include "core/placement.h"
#include "group/throttle.bpf.h"

#define DEFINE_HOOKS
#include "hooks.h"

char _license[] SEC("license") = "GPL";

/* Timers for each CPU's periodic balance, which its tick starts: the kernel's SCHED_SOFTIRQ. */
CPU_TIMERS(balance_timers);

static int run_rebalance_domains(void *timers, int *key, struct scheduler_timer *timer)
{
	periodic_balance(bpf_get_smp_processor_id(), LB_NOT_IDLE, bpf_ktime_get_ns());
	return 0;
}

static __always_inline void trigger_load_balance(u32 cpu, u64 jiffies)
{
	if (!time_before(jiffies, rq_of(cpu)->next_balance) && levels_of(cpu)->nr_levels)
		start_timer(&balance_timers, cpu, 0);
	nohz_start_tick(cpu);
	if (nohz_kick_needed(cpu, jiffies))
		nohz_balancer_kick(cpu);
}

/*
 * Timers that replace the ticks, which sched_ext does not report, while a task of a higher class has the CPU and
 * fair tasks wait.
 */
CPU_TIMERS(class_timers);

static int run_class_tick(void *timers, int *key, struct scheduler_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct fair_rq *rq = rq_of(cpu);

	if (rq->idle || rq->curr.pid || !rq->nr_running)
		return 0;
	trigger_load_balance(cpu, jiffies_at(bpf_ktime_get_ns()));
	bpf_timer_start(&timer->timer, machine.tick_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/*
 * Timers that update the CPU's utilization, whether or not fair tasks wait: the kernel accounts interrupts at each
 * tick and may request another frequency.
 */
CPU_TIMERS(util_timers);

static int run_util_tick(void *timers, int *key, struct scheduler_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (!outranks_fair(cpu_util_of(cpu)->running))
		return 0;
	update_blocked_averages(cpu, bpf_ktime_get_ns());
	see_to_idle_cpus(cpu, bpf_ktime_get_ns());
	bpf_timer_start(&timer->timer, machine.tick_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

static __always_inline u32 enqueue_cpu(struct task_struct *p, const struct fair_entity *se)
{
	/* The task is being pushed, or was queued on a different CPU than sched_ext has for it. */
	if (se->on_rq && task_allowed(p, se->cpu))
		return se->cpu;
	return scx_bpf_task_cpu(p);
}

/* Makes @se runnable on @cpu: after a sleep, a fork, or a change of class or affinity. */
static __always_inline void enqueue_entity(struct fair_entity *se, u32 cpu, u64 enq_flags, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	update_rq_load_avg(rq, now);
	if (group_queues())
		update_curr(cpu, now);
	else
		update_min_vruntime(rq, curr_vruntime(rq, now));
	renormalize_vruntime(se, cpu);
	hook_enqueue_entity(se);
	if (se->forked) {
		se->forked = false;
		se->avg.last_update_time = now;
		init_task_util(&se->util, cpu, se->weight, rq->runnable_load_avg);
	} else {
		if (se->util.cpu == cpu)
			update_task_util(&se->util, cpu, false);
		if (in_group(se->group))
			remove_blocked_load(se, now);
		if (enq_flags & SCX_ENQ_WAKEUP && se->cpu != cpu)
			migrate_sleeper(se, now);
		update_entity_load_avg(se, now, false, false);
		if (enq_flags & SCX_ENQ_WAKEUP) {
			place_sleeper(cpu, se);
			update_avg_idle(rq, now);
		}
	}
	account_entity_enqueue(se, cpu);
}

s32 BPF_STRUCT_OPS(equipoise_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return select_task_rq_fair(p, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(equipoise_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct fair_entity *se = entity_of(p);
	u64 now = bpf_ktime_get_ns();
	bool arrives, comes, waits = false;
	u32 cpu;

	if (!se) {
		scx_bpf_error("%d has no storage", p->pid);
		return;
	}
	cpu = enqueue_cpu(p, se);
	arrives = !se->on_rq || (s32)cpu != scx_bpf_task_cpu(p);
	comes = !se->on_rq || se->cpu != cpu;
	if (!se->on_rq)
		enqueue_entity(se, cpu, enq_flags, now);
	else if (comes)
		migrate_entity(se, cpu);
	/* The task's utilization has moved with it, usually under the lock of the CPU's runqueue. */
	if (comes && policy.frequency && (s32)cpu == scx_bpf_task_cpu(p))
		update_frequency(cpu, now);

	if (arrives && (s32)cpu == scx_bpf_task_cpu(p) && runs_at_once(cpu, p, se, now, &waits)) {
		if (!in_group(se->group))
			rq_of(cpu)->next_vruntime = se->vruntime;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	add_leftmost(se->group, cpu, se->vruntime);
	scx_bpf_dsq_insert_vtime(p, cpu, SCX_SLICE_INF, se->vruntime, enq_flags);
	if (arrives && !waits)
		check_preempt_curr(p, cpu, now);
	else if (!arrives && enq_flags & SCX_ENQ_LAST &&
		 !(any_group_is_limited() && throttled_hierarchy(se->group, cpu)))
		kick_cpu(cpu, 0);
}

void BPF_STRUCT_OPS(equipoise_dispatch, s32 cpu, struct task_struct *prev)
{
	struct fair_entity *se = NULL;
	struct fair_rq *rq = rq_of(cpu);
	u64 now = bpf_ktime_get_ns();

	/* Can prev continue? */
	if (prev && prev->scx.flags & SCX_TASK_QUEUED && rq->curr.pid == prev->pid)
		se = entity_of(prev);

	rq->next_vruntime = ~0ULL;
	rq->need_resched = false;
	rq->dispatching = true;
	if (rq->exec_pid && exec_balance(cpu, se ? prev : NULL, now))
		se = NULL;
	if (rq->active_balance && active_load_balance(cpu, se ? prev : NULL, now))
		se = NULL;
	if (rq->nohz_balance_kick)
		nohz_idle_balance(cpu, now);
	else if (!cpu_nr_running(cpu))
		idle_balance(cpu, now);
	hook_dispatch(rq, cpu, now);
	rq->dispatching = false;

	pick_next_entity(cpu, prev, se, now);
}

void BPF_STRUCT_OPS(equipoise_running, struct task_struct *p)
{
	struct fair_entity *se = entity_of(p);
	u32 cpu = scx_bpf_task_cpu(p);

	if (!se)
		return;
	/* This occurs only if sched_ext bypassed our queues. */
	if (!se->on_rq)
		account_entity_enqueue(se, cpu);
	else if (se->cpu != cpu)
		migrate_entity(se, cpu);
	set_curr(cpu, p, se, bpf_ktime_get_ns());
	if (asking_locks)
		update_frequency(cpu, bpf_ktime_get_ns());
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

	if (!se || !se->on_rq)
		return;
	clear_buddies(rq_of(se->cpu), p->pid);
	account_entity_dequeue(se);
	if (deq_flags & SCX_DEQ_SLEEP) {
		util_est_update(&se->util);
		if (in_group(se->group))
			add_blocked_load(se);
	}
}

void BPF_STRUCT_OPS(equipoise_tick, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 now = bpf_ktime_get_ns(), jiffies = jiffies_at(now);
	struct fair_entity *se = entity_of(p);
	struct fair_rq *rq = rq_of(cpu);

	if (!se)
		return;
	update_curr(cpu, now);
	update_entity_load_avg(se, now, true, true);
	update_task_util(&se->util, cpu, true);
	if (in_group(se->group))
		tick_groups(se->group, cpu, now);
	update_tg_load_avg(rq, now);
	rq->curr.load = entity_load(se);
	update_cpu_load_active(cpu, jiffies);
	update_cpu_util(cpu, now);
	if (tracks_util()) {
		update_frequency(cpu, now);
		see_to_idle_cpus(cpu, now);
	}
	/* A CPU that is about to switch to a task that bypassed the dispatch queue loses a kick, so ask again. */
	if (rq->curr_throttled || rq->exec_pid || rq->active_balance ||
	    (rq->nr_running > 1 && check_preempt_tick(rq))) {
		rq->need_resched = true;
		p->scx.slice = 0;
	}
	hook_tick(rq, cpu, se, now);
	trigger_load_balance(cpu, jiffies);
}

bool BPF_STRUCT_OPS(equipoise_yield, struct task_struct *from, struct task_struct *to)
{
	struct fair_rq *rq = rq_of(bpf_get_smp_processor_id());

	if (rq->nr_running > 1) {
		clear_buddies(rq, from->pid);
		rq->skip = true;
	}
	from->scx.slice = 0;
	return false;
}

void BPF_STRUCT_OPS(equipoise_update_idle, s32 cpu, bool idle)
{
	struct fair_rq *rq = rq_for_update(cpu);

	rq->idle = idle;
	/*
	 * A kick that came between ops.dispatch() and the idle task has no effect. Clear it, so that this CPU can
	 * be asked again.
	 */
	rq->nohz_balance_kick = false;
	hook_update_idle(rq);
	if (idle) {
		cpu_util_of(cpu)->blocked = true;
		if (asking_locks)
			update_frequency(cpu, bpf_ktime_get_ns());
		nohz_stop_tick(cpu);
	} else {
		update_cpu_load_nohz(rq, jiffies_at(bpf_ktime_get_ns()));
	}
}

/* A higher class takes the CPU. The tasks in its local queue go back to queues from which other CPUs can pull. */
void BPF_STRUCT_OPS(equipoise_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
	start_timer(&class_timers, cpu, machine.tick_ns);
}

void BPF_STRUCT_OPS(equipoise_set_weight, struct task_struct *p, u32 weight)
{
	struct fair_entity *se = entity_of(p);

	if (se)
		reweight_entity(p, se, se->group);
}

void BPF_STRUCT_OPS(equipoise_enable, struct task_struct *p)
{
	struct fair_entity *se = entity_of(p);

	if (!se)
		return;
	reweight_entity(p, se, se->group);
	if (se->forked) {
		place_forked(se, bpf_get_smp_processor_id(), bpf_ktime_get_ns());
	} else {
		se->cpu = scx_bpf_task_cpu(p);
		simulated_read(se->cpu);
		se->vruntime = *min_vruntime_of(se->group, se->cpu);
	}
}

void BPF_STRUCT_OPS(equipoise_disable, struct task_struct *p)
{
	struct fair_entity *se = entity_of(p);

	if (!se)
		return;
	if (se->on_rq)
		account_entity_dequeue(se);
	detach_task_util(&se->util);
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
		set_timer(&util_timers, cpu, run_util_tick);
	}
}

s32 BPF_STRUCT_OPS(equipoise_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct fair_entity *se = bpf_task_storage_get(&entities, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!se)
		return -ENOMEM;
	set_timers();
	se->forked = args->fork;
#ifdef __EQUIPOISE_SIMULATED_H
	se->group = group_of_task(p, args->cgroup);
#endif
	hook_init_task(p, se, args->fork);
	se->avg.last_update_time = bpf_ktime_get_ns();
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
	if (hook_exec_stays())
		return 0;
	exec_cpu = select_balanced_cpu(p, cpu, cpu, SD_BALANCE_EXEC);
	if (exec_cpu == (s32)cpu)
		return 0;
	rq->exec_cpu = exec_cpu;
	rq->exec_pid = p->pid;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* This tracepoint reports switches to tasks of all classes, after the runqueue has counted its runnable tasks. */
SEC("tp_btf/sched_switch")
int BPF_PROG(equipoise_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id();

	switch_cpu_util(cpu, next);
	if (released_by_switch && outranks_fair(cpu_util_of(cpu)->running)) {
		scx_bpf_reenqueue_local_from_anywhere();
		start_timer(&class_timers, cpu, machine.tick_ns);
	}
	if (tracks_util() && outranks_fair(cpu_util_of(cpu)->running))
		start_timer(&util_timers, cpu, machine.tick_ns);
	if (!asking_locks)
		update_frequency(cpu, bpf_ktime_get_ns());
	/* nohz_newidle_balance(): a CPU that becomes idle has time for this, because no task waits for it. */
	if (tracks_util() && cpu_util_of(cpu)->running == UTIL_NONE)
		see_to_idle_cpus(cpu, bpf_ktime_get_ns());
	return 0;
}

static __noinline s32 init_cpu(u32 cpu, u64 jiffies)
{
	s32 err;

	init_rq(cpu, jiffies);
	init_cpu_util(cpu, bpf_ktime_get_ns());
	/* A CPU without domains may be offline, and could not answer a kick. */
	if (levels_of(cpu)->nr_levels)
		nohz_stop_tick(cpu);
	err = scx_bpf_create_dsq(cpu, -1);
	if (err)
		return err;
	err = init_timer(&balance_timers, cpu);
	if (err)
		return err;
	err = init_timer(&class_timers, cpu);
	if (err)
		return err;
	err = init_timer(&util_timers, cpu);
	return err ? err : init_frequency(cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(equipoise_init)
{
	u64 jiffies = jiffies_at(bpf_ktime_get_ns());
	int cpu;
	s32 err;

	bpf_for(cpu, 0, nr_cpus()) {
		err = init_cpu(cpu, jiffies);
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
	       .name = "equipoise_cfs");
