/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Equipoise's own scheduler: one queue for each set of like CPUs that share a cache, and what little has to be done
 * between them.
 *
 *  - What wakes up goes straight to an idle CPU, if there is one: nothing else is looked at.
 *  - Else it waits in its cluster's queue, ordered by virtual time, for the first CPU that is free. Nobody is
 *    preempted unless he has had his share and is well ahead.
 *  - A task is charged once a stop. One that nobody waits for goes on, charged or not.
 *  - A CPU with nothing to do takes what waits elsewhere; a faster one what runs on slower ones. Where tasks of
 *    different clusters get too far apart in what they got done, they change places (pull.h).
 */
#include <scx/common.bpf.h>

#define SCHEDULER_SETTINGS "equipoise/settings.def"
#include "follow.bpf.h"
#include "idle.h"
#include "pack.h"
#include "pull.h"
#include "wait.h"

char _license[] SEC("license") = "GPL";

/* A task's doing, or an interrupt's: these find an idle CPU, or leave what they have to do to the kernel's threads.
 */
static __always_inline void note_waker(struct task_struct *p, const struct task_struct *waker)
{
	struct task_state *t = task_of(p);

	if (t)
		t->awaited = waker->pid && !(waker->flags & PF_KTHREAD);
}

/* The waker sleeps soon: whom it wakes finds its data here, sooner than on another CPU. */
static __always_inline bool stays_with_waker(struct task_struct *p, u32 this_cpu)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct cpu_state *this = cpu_at(this_cpu);
	struct cluster *c = cluster_at(this->cluster);
	struct task_state *t;

	if (waker->flags & PF_EXITING || !waker->pid)
		return false;
	/* It goes past those who wait: for no longer than one need not be told to stop for. */
	if (this->ran_past >= policy.preempt_after && (may_wait(this->cluster) || may_keep_tasks(this, c)))
		return false;
	if (unlike && c->speed < SCHED_POWER_SCALE)
		return false;
	t = task_of(waker);
	if (!t || t->burst >= policy.sync_burst || !task_allowed(p, this_cpu))
		return false;
	if (is_waited_for(this_cpu))
		return false;
	explain(with_waker, p->pid, this_cpu, t->burst, policy.sync_burst);
	return true;
}

s32 BPF_STRUCT_OPS(equipoise_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = bpf_get_smp_processor_id();

	if (follows())
		note_waker(p, bpf_get_current_task_btf());
	if (!(wake_flags & SCX_WAKE_SYNC) || !stays_with_waker(p, cpu))
		cpu = claim_idle_cpu(p, prev_cpu, wake_flags & SCX_WAKE_FORK);
	if (cpu < 0 && is_heavy(p)) {
		cpu = find_preemptible(p, prev_cpu);
		if (cpu >= 0) {
			explain(preemptible, p->pid, cpu, prev_cpu);
			return cpu;
		}
	}
	if (cpu < 0 && unlike)
		return least_crowded(p, prev_cpu);
	if (cpu < 0) {
		explain(none_idle, p->pid, prev_cpu);
		if (!(wake_flags & SCX_WAKE_FORK))
			wait_for_prev(p, prev_cpu);
		return prev_cpu;
	}
	becomes_runnable(p);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_MAX, 0);
	return cpu;
}

void BPF_STRUCT_OPS(equipoise_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	bool wakes = enq_flags & SCX_ENQ_WAKEUP;
	bool preempted = false;
	u64 got, vtime;

	becomes_runnable(p);
	/* It ran here, and was asked for. */
	if (this->push_to && push(p, cpu, SLICE_MAX, enq_flags))
		return;
	read_cluster(c);
	got = p->scx.dsq_vtime;
	vtime = bound_lead(p, this->cluster, cpu, place(p, c, wakes ? lag_of(p) : MOST_BEHIND));
	if (is_pinned(p)) {
		if (clear_idle(cpu)) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_MAX, enq_flags);
			return;
		}
		if (wakes)
			vtime = place_near(p, running_on(scx_bpf_cpu_rq(cpu)), got, vtime);
		explain(bound, p->pid, cpu, scx_bpf_dsq_nr_queued(own_dsq(cpu)));
		scx_bpf_dsq_insert_vtime(p, own_dsq(cpu), SLICE_MAX, vtime, enq_flags);
		keeps_tasks(cpu, this, c);
	} else {
		s32 idle = -1;

		/* Not one that select_cpu saw, but it may just have begun to idle, or this is no wakeup. */
		if (READ_ONCE(idle_clusters))
			idle = unlike ? claim_idle_cpu(p, cpu, false) : claim_in(p, this->cluster, cpu, false);
		if (idle < 0 && stays(p, c, got)) {
			explain(queued_near, p->pid, cpu, scx_bpf_dsq_nr_queued(own_dsq(cpu)));
			scx_bpf_dsq_insert_vtime(p, own_dsq(cpu), SLICE_MAX, vtime, enq_flags);
			keeps_tasks(cpu, this, c);
		} else {
			explain(queued, p->pid, cpu, scx_bpf_dsq_nr_queued(cluster_dsq(this->cluster)),
				vtime - c->clock);
			c->waits++;
			scx_bpf_dsq_insert_vtime(p, cluster_dsq(this->cluster), SLICE_MAX, vtime, enq_flags);
			somebody_waits(this->cluster);
		}
		if (idle >= 0) {
			kick_cpu(idle, SCX_KICK_IDLE);
			return;
		}
	}
	if (wakes) {
		const struct rq *rq = scx_bpf_cpu_rq(cpu);

		preempted = preempts(p, rq);
		explain_preemption(p, rq, preempted);
	}
	if (preempted) {
		this_counters()->wakeup_preemptions++;
		kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (enq_flags & SCX_ENQ_LAST) {
		kick_cpu(cpu, 0);
	}
}

/* The task that runs here has had its time: may it go on? Then it has a new slice. */
__noinline bool goes_on(struct task_struct *prev __arg_trusted, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	struct task_state *t = task_of(prev);
	bool yields = this->yields;
	u64 first, own;

	this->yields = false;
	if (this->push_to || this->pull_from || !t)
		return false;
	charge(prev, t, speed_of(this, c));
	place(prev, c, MOST_BEHIND);
	first = first_waiting(this->cluster, cpu);
	if (may_keep_tasks(this, c)) {
		own = first_vtime(own_dsq(cpu), cpu);
		if (own == NO_VTIME)
			none_kept(cpu, this, c);
		else if (is_before(own, first))
			first = own;
	}
	if (first == NO_VTIME) {
		forgive(c, prev, t);
		/* Nobody waits. Who comes next need not wait for all of a slice. */
		prev->scx.slice = SLICE_MAX - policy.slice;
		return true;
	}
	/* Also if both are as far ahead as anybody may be. */
	if (yields || !is_before(prev->scx.dsq_vtime, first)) {
		explain(ahead, prev->pid, cpu, first - prev->scx.dsq_vtime);
		return false;
	}
	explain(most_behind, prev->pid, cpu, first - prev->scx.dsq_vtime);
	prev->scx.slice = SLICE_MAX;
	return true;
}

/* The next of those that wait for this CPU or its cluster. */
static __always_inline bool take_next(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);

	this->ran_past = 0;
	if (may_keep_tasks(this, c)) {
		/* To look at a task takes as long as to move it. */
		u64 first = first_waiting(this->cluster, cpu);

		if (first == NO_VTIME || is_before(first_vtime(own_dsq(cpu), cpu), first)) {
			if (scx_bpf_dsq_move_to_local(own_dsq(cpu), 0))
				return true;
			none_kept(cpu, this, c);
		}
	}
	if (scx_bpf_dsq_move_to_local(cluster_dsq(this->cluster), 0))
		return true;
	/* Who looked in vain while a task was on its way there has said that there is none. */
	return scx_bpf_dsq_move_to_local(own_dsq(cpu), 0);
}

void BPF_STRUCT_OPS(equipoise_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_state *this = cpu_at(cpu);
	bool runs = prev && prev->scx.flags & SCX_TASK_QUEUED;

	if (runs && goes_on(prev, cpu))
		return;
	if (this->pull_from) {
		u32 from = this->pull_from - 1;

		this->pull_from = 0;
		if (scx_bpf_dsq_move_to_local(cluster_dsq(from), 0)) {
			this_counters()->pulled++;
			explain(takes_for_fairness, 0, cpu, cluster_at(from)->first_cpu);
			return;
		}
	}
	if (take_next(cpu))
		return;
	nothing_found(this->cluster);
	if (runs && !this->push_to)
		return;
	if (pull_kept(this->cluster))
		return;
	if (nr_clusters > 1) {
		if (pull_waiting(this->cluster))
			return;
		if (unlike && !this->push_to)
			pull_running(cpu);
	}
	explain(nothing_waits, 0, cpu, __builtin_popcountll(waiting_clusters));
	/* A claim that came to nothing. */
	if (!prev)
		set_idle(cpu);
}

void BPF_STRUCT_OPS(equipoise_stopping, struct task_struct *p, bool runnable)
{
	struct cpu_state *this = cpu_at(scx_bpf_task_cpu(p));
	struct cluster *c = cluster_at(this->cluster);
	struct task_state *t = task_of(p);

	if (!t)
		return;
	this->ran_past += charge(p, t, speed_of(this, c));
	/* The clock follows starts; those of light tasks, which others need not have waited for, from afar. */
	if (t->weight >= NICE_0_LOAD)
		advance_clock(c, t->stopped_at);
	else if (may_wait(this->cluster) || may_keep_tasks(this, c))
		advance_clock(c, t->stopped_at - MOST_AHEAD / 2);
	else
		forgive(c, p, t);
	t->stopped_at = p->scx.dsq_vtime;
	if (!runnable) {
		count_runnable(t, false);
		end_burst(t);
		if (this->push_to)
			forget_push(this);
	}
}

/* Does anybody wait for @cpu, and who runs there has had his time? */
static __always_inline bool is_wanted(u32 cpu, const struct task_struct *p)
{
	return ran_of(p) >= policy.slice && is_waited_for(cpu);
}

void BPF_STRUCT_OPS(equipoise_tick, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	struct task_state *t = task_of(p);
	u32 queued = scx_bpf_dsq_nr_queued(cluster_dsq(this->cluster));
	u64 now;

	if (!t)
		return;
	/* Who looked in vain while a task was on its way there has said that there is none. */
	if (queued)
		somebody_waits(this->cluster);
	if (scx_bpf_dsq_nr_queued(own_dsq(cpu)))
		set_bit_once(&c->keeping, this->slot);
	if (follows()) {
		now = bpf_ktime_get_ns();
		follow(p, cpu, now);
		update_idle_cpus(now);
	}
	note_boost(c, cpu);
	charge(p, t, speed_of(this, c));
	place(p, c, MOST_BEHIND);
	/* Who was put there as a CPU began to idle, or waited alone, has told nobody. */
	if ((queued || READ_ONCE(c->keeping)) && READ_ONCE(idle_clusters))
		offer_waiting(this->cluster);
	if (queued || may_keep_tasks(this, c)) {
		if (ran_of(p) >= policy.slice) {
			if (p->scx.slice)
				explain(turn_over, p->pid, cpu, ran_of(p), policy.slice, queued);
			p->scx.slice = 0;
		}
	} else {
		forgive(c, p, t);
		if (is_wanted(cpu, p))
			p->scx.slice = 0;
	}
	if (pack_running(p, t, cpu)) {
		p->scx.slice = 0;
		return;
	}
	if (READ_ONCE(idle_clusters) && policy.prefer != PREFER_POWER && t->burst >= policy.pull_burst &&
	    offer_core(p, cpu)) {
		p->scx.slice = 0;
		return;
	}
	if (nr_clusters == 1)
		return;
	if (unlike && offer_running(p, cpu)) {
		p->scx.slice = 0;
		return;
	}
	/* It leaves the CPU by itself soon, and has had less than its share if it sleeps at all. */
	if (is_heavy(p) && t->burst_so_far < t->burst)
		return;
	now = bpf_ktime_get_ns();
	if (time_before(now, this->look_at))
		return;
	if (even_out(p, cpu, now))
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
	struct cluster *c = cluster_at(this->cluster);

	if (!idle) {
		clear_idle(cpu);
		return;
	}
	set_idle(cpu);
	/* Who came after this CPU had looked found it not to idle yet. */
	if (may_keep_tasks(this, c))
		none_kept(cpu, this, c);
	if (may_wait(this->cluster))
		nothing_found(this->cluster);
	if (may_keep_tasks(this, c) || may_wait(this->cluster))
		kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A higher class takes the CPU: what waits in its local queue goes where others can have it. */
void BPF_STRUCT_OPS(equipoise_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

void BPF_STRUCT_OPS(equipoise_set_weight, struct task_struct *p, u32 weight)
{
	struct task_state *t = task_of(p);

	if (t)
		set_task_weight(p, t);
}

void BPF_STRUCT_OPS(equipoise_enable, struct task_struct *p)
{
	struct task_state *t = task_of(p);
	struct cluster *c;

	if (!t)
		return;
	set_task_weight(p, t);
	t->seen = p->se.sum_exec_runtime;
	c = cluster_of(t->forked ? bpf_get_smp_processor_id() : (u32)scx_bpf_task_cpu(p));
	p->scx.dsq_vtime = t->forked ? inherited_vtime(bpf_get_current_task_btf(), c) : c->clock;
	t->stopped_at = p->scx.dsq_vtime;
	t->forked = false;
}

s32 BPF_STRUCT_OPS(equipoise_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_state *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	/* Until it has shown what it does, it may run for long. */
	t->burst = policy.slice;
	t->forked = args->fork;
	t->seen = t->used_seen = p->se.sum_exec_runtime;
	if (args->fork && follows())
		begin_used(t, scx_bpf_task_cpu(p));
	t->share = share_of(args->cgroup);
	set_task_weight(p, t);
	return 0;
}

/* It ends, or another class has it from now on. */
void BPF_STRUCT_OPS(equipoise_disable, struct task_struct *p)
{
	struct task_state *t = task_of(p);

	if (t)
		count_runnable(t, false);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(equipoise_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	return init_share(cgrp, args->weight);
}

void BPF_STRUCT_OPS(equipoise_cgroup_exit, struct cgroup *cgrp)
{
	exit_share(cgrp);
}

void BPF_STRUCT_OPS(equipoise_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	set_share_weight(cgrp, weight);
}

void BPF_STRUCT_OPS(equipoise_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_state *t = task_of(p);

	if (t)
		move_share(t, share_of(to), t->weight);
}

/*
 * Tells of all classes' tasks. By now the runqueue knows who is runnable. Attached where frequencies are asked for,
 * as its name says.
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
	int cpu;
	s32 err = init_clusters();

	bpf_for(cpu, 0, nr_cpus())
		if (!err)
			err = init_follow(cpu);
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
	       .stopping = (void *)equipoise_stopping,
	       .tick = (void *)equipoise_tick,
	       .yield = (void *)equipoise_yield,
	       .update_idle = (void *)equipoise_update_idle,
	       .cpu_release = (void *)equipoise_cpu_release,
	       .set_weight = (void *)equipoise_set_weight,
	       .enable = (void *)equipoise_enable,
	       .disable = (void *)equipoise_disable,
	       .init_task = (void *)equipoise_init_task,
	       .cgroup_init = (void *)equipoise_cgroup_init,
	       .cgroup_exit = (void *)equipoise_cgroup_exit,
	       .cgroup_set_weight = (void *)equipoise_cgroup_set_weight,
	       .cgroup_move = (void *)equipoise_cgroup_move,
	       .init = (void *)equipoise_init,
	       .exit = (void *)equipoise_exit,
	       .flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING,
	       .name = "equipoise");
