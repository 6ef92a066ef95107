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

char _license[] SEC("license") = "GPL";

/*
 * A task is given this long; the tick takes the CPU away sooner where others wait. What is left of it says how long
 * the task has run.
 */
#define SLICE_MAX (100 * NSEC_PER_MSEC)

/* Nobody is owed more: before that, tasks of different clusters change places. */
#define MOST_BEHIND (4 * policy.unfairness)

static __always_inline u64 ran_of(const struct task_struct *p)
{
	return SLICE_MAX - p->scx.slice;
}

/* A task's doing, or an interrupt's: these find an idle CPU, or leave what they have to do to the kernel's threads.
 */
static __always_inline void note_waker(struct task_struct *p, const struct task_struct *waker)
{
	struct task_state *t = task_of(p);

	if (t)
		t->awaited = waker->pid && !(waker->flags & PF_KTHREAD);
}

static __always_inline void becomes_runnable(struct task_struct *p)
{
	struct task_state *t = has_shares() ? task_of(p) : NULL;

	if (t)
		count_runnable(t, true);
}

/* The waker sleeps soon: whom it wakes finds its data here, sooner than on another CPU. */
static __always_inline bool stays_with_waker(struct task_struct *p, u32 this_cpu)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct cpu_state *this = cpu_at(this_cpu);
	struct cluster *c = cluster_at(this->cluster);
	struct task_state *t;
	struct rq *rq;

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
	rq = scx_bpf_cpu_rq(this_cpu);
	if (!rq || rq->scx.local_dsq.nr)
		return false;
	explain(with_waker, p->pid, this_cpu, t->burst, policy.sync_burst);
	return true;
}

static __always_inline bool is_heavy(const struct task_struct *p)
{
	return p->static_prio < NICE_0_PRIO;
}

static __always_inline bool is_light(const struct task_struct *p)
{
	return p->static_prio > NICE_0_PRIO || p->policy == SCHED_IDLE;
}

/*
 * How far @p may be behind when it wakes up. A heavy task has had less than its share if it sleeps at all: it is
 * not to wait for lighter ones that slept, too.
 */
static __always_inline u64 lag_of(const struct task_struct *p)
{
	u64 lag = policy.lag;

	if (is_heavy(p))
		lag = lag * task_weight(p) / NICE_0_LOAD;
	return lag < MOST_BEHIND ? lag : MOST_BEHIND;
}

/* What a CPU's task must have run, and be ahead of @p, to be stopped for it: less, the heavier @p is
 * (wakeup_gran()). */
static __always_inline u64 preempt_after(const struct task_struct *p)
{
	return is_heavy(p) ? policy.preempt_after * NICE_0_LOAD / task_weight(p) : policy.preempt_after;
}

/* The task that runs on @cpu; NULL if there is none. */
static __always_inline const struct task_struct *running_on(u32 cpu)
{
	struct rq *rq = scx_bpf_cpu_rq(cpu);
	const struct task_struct *curr = rq ? rq->curr : NULL;

	return curr && curr->pid ? curr : NULL;
}

/* By how much @curr, which runs, is ahead of @p. Its virtual time is that of its start. */
static __always_inline s64 ahead_of(const struct task_struct *p, const struct task_struct *curr)
{
	return curr->scx.dsq_vtime + ran_of(curr) - p->scx.dsq_vtime;
}

/* Should @p, which wakes up and found no CPU idle, have the CPU of @curr at once? */
static __always_inline bool preempts(const struct task_struct *p, const struct task_struct *curr)
{
	u64 after;

	if (!curr || curr->prio < MAX_RT_PRIO || p->policy == SCHED_BATCH)
		return false;
	if (curr->policy == SCHED_IDLE)
		return p->policy != SCHED_IDLE;
	after = preempt_after(p);
	return ran_of(curr) >= after && ahead_of(p, curr) > (s64)after;
}

/*
 * @p, which may run on the CPU of @curr alone, wakes up, to wait there with the virtual time @vtime; @got is what
 * it slept with. Those who run there may all be far behind their cluster, if they may run nowhere else: not on that
 * account does it wait until each of them has caught up (a kernel thread of CPU 0 beside 30 busy loops pinned
 * there: 0.56 s, under EEVDF 4 ms). So it is placed as if that CPU were all there is, the clock being who runs, the
 * first of them; and if it is ahead of them, it is by no more than a turn of its own takes it.
 */
static __always_inline u64 place_near(struct task_struct *p, const struct task_struct *curr, u64 got, u64 vtime)
{
	struct task_state *t;
	u64 start, most;

	if (!curr || curr->prio < MAX_RT_PRIO)
		return vtime;
	start = curr->scx.dsq_vtime;
	if ((s64)(start - lag_of(p) - got) > 0)
		got = start - lag_of(p);
	if ((s64)(got - start) > (s64)policy.slice) {
		t = task_of(p);
		most = start + (t ? charge_of(t, policy.slice + machine.tick_ns, SCHED_POWER_SCALE) : 0);
		if ((s64)(got - most) > 0)
			got = most;
	}
	if ((s64)(vtime - got) > 0)
		p->scx.dsq_vtime = vtime = got;
	return vtime;
}

/*
 * How far a task that waits on @cpu may be ahead of the clock. sched_ext stops a scheduler under which one does not
 * run for 30 s (scx_watchdog): in a third of that those who wait beside it are past it. So 60 busy loops of one CPU
 * do not keep a SCHED_IDLE task from ever running.
 */
__noinline u64 most_ahead(u32 cluster, u32 cpu)
{
	u64 waiting = scx_bpf_dsq_nr_queued(own_dsq(cpu)) +
		      scx_bpf_dsq_nr_queued(cluster_dsq(cluster)) / cluster_at(cluster)->nr_cpus;

	return 10 * NSEC_PER_SEC / (waiting + 1);
}

/* Worth a look at who waits: so far ahead with 1000 tasks for a CPU, ns. */
#define HARDLY_AHEAD ((s64)(10 * NSEC_PER_MSEC))

static __always_inline u64 bound_lead(struct task_struct *p, u32 cluster, u32 cpu, u64 vtime)
{
	u64 clock = READ_ONCE(cluster_at(cluster)->clock), most;

	if ((s64)(vtime - clock) <= HARDLY_AHEAD)
		return vtime;
	most = clock + most_ahead(cluster, cpu);
	if ((s64)(vtime - most) > 0)
		p->scx.dsq_vtime = vtime = most;
	return vtime;
}

/* Says why @p, which wakes up, has @cpu, where @curr runs, at once or not. */
static __always_inline void explain_preemption(const struct task_struct *p, u32 cpu, const struct task_struct *curr,
					       bool preempted)
{
	if (curr && preempted)
		explain(preempts, p->pid, cpu, curr->pid, ran_of(curr), ahead_of(p, curr), preempt_after(p));
	else if (curr)
		explain(too_early, p->pid, cpu, curr->pid, ran_of(curr), ahead_of(p, curr), preempt_after(p));
}

/* So many clusters a heavy task looks at, faster ones first, and so many CPUs of each. */
#define CLUSTERS_LOOKED_AT 4
#define CPUS_LOOKED_AT 16

/* Of the CPUs of @cluster the one that @p may have at once whose task is most ahead, in @best; -1: there is none.
 */
__noinline s32 preemptible_in(struct task_struct *p __arg_trusted, u32 cluster,
			      struct seen_running *best __arg_nonnull)
{
	struct cluster *c = cluster_at(cluster);
	int slot;

	best->pid = 0;
	bpf_for(slot, 0, CPUS_LOOKED_AT) {
		u32 cpu = nth_of_cluster(c, slot);
		const struct task_struct *curr;
		u64 vtime;

		if (slot >= (int)c->nr_cpus)
			break;
		if (!task_allowed(p, cpu))
			continue;
		curr = running_on(cpu);
		if (!curr || !preempts(p, curr))
			continue;
		vtime = curr->scx.dsq_vtime;
		if (best->pid && !is_before(best->vtime, vtime))
			continue;
		best->pid = p->pid;
		best->cpu = cpu;
		best->vtime = vtime;
	}
	return best->pid ? (s32)best->cpu : -1;
}

/* The CPU that @p, a heavy task that wakes up, may have at once: one of the fastest, if any. */
__noinline s32 find_preemptible(struct task_struct *p __arg_trusted, u32 prev_cpu)
{
	struct seen_running *best = &seen_running[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
	struct cluster *from = cluster_of(prev_cpu);
	int i;

	place(p, from, lag_of(p));
	bpf_for(i, 0, CLUSTERS_LOOKED_AT) {
		s32 cpu;

		if (i >= (int)nr_clusters)
			break;
		cpu = preemptible_in(p, from->order[i & (MAX_CLUSTERS - 1)], best);
		if (cpu >= 0)
			return cpu;
	}
	return -1;
}

/*
 * Does @p, a task of @c, wait for the CPU whose caches have its data? Not while any CPU idles, nor if it is new and
 * has none, nor if it is behind others of its cluster, for then others are to help, nor if it is light: the clock
 * does not tell who of these is behind; nor where clusters differ in speed, which look at who waits in each other's
 * queues. Whoever runs out of work takes it all the same. (kbuild -j32 on two sockets: 31,000 migrations, with one
 * queue for all 144,000; 0.9 % more work for the energy.)
 */
static __always_inline bool stays(const struct task_struct *p, const struct cluster *c, u64 got)
{
	u64 most = policy.unfairness < 2 * policy.slice ? policy.unfairness : 2 * policy.slice;

	return !unlike && p->se.sum_exec_runtime && !is_light(p) && !READ_ONCE(idle_clusters) &&
	       (s64)(READ_ONCE(c->clock) - got) < (s64)most;
}

/*
 * @p wakes up, and no CPU idles: it waits for @cpu, if that is what ops.enqueue() would come to. Then it need not
 * be called. Should @cpu begin to idle meanwhile, the kernel has it look.
 */
static __always_inline void wait_for_prev(struct task_struct *p, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	const struct task_struct *curr;
	u64 got, vtime;

	read_cluster(c);
	if (this->push_to || !stays(p, c, p->scx.dsq_vtime))
		return;
	if (is_restricted(p) && !task_allowed(p, cpu))
		return;
	got = p->scx.dsq_vtime;
	vtime = place(p, c, lag_of(p));
	curr = running_on(cpu);
	if (is_pinned(p))
		vtime = place_near(p, curr, got, vtime);
	if (preempts(p, curr))
		return;
	vtime = bound_lead(p, this->cluster, cpu, vtime);
	explain(queued_near, p->pid, cpu, scx_bpf_dsq_nr_queued(own_dsq(cpu)));
	explain_preemption(p, cpu, curr, false);
	becomes_runnable(p);
	set_bit_once(&c->keeping, this->slot);
	scx_bpf_dsq_insert_vtime(p, own_dsq(cpu), SLICE_MAX, vtime, 0);
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
			vtime = place_near(p, running_on(cpu), got, vtime);
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
		const struct task_struct *curr = running_on(cpu);

		preempted = preempts(p, curr);
		explain_preemption(p, cpu, curr, preempted);
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
	charge(prev, t, c->speed);
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
	this->ran_past += charge(p, t, c->speed);
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
	}
}

/* Does anybody wait for @cpu, and who runs there has had his time? */
static __always_inline bool is_wanted(u32 cpu, const struct task_struct *p)
{
	struct rq *rq = scx_bpf_cpu_rq(cpu);

	return ran_of(p) >= policy.slice && rq && rq->scx.local_dsq.nr;
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
	charge(p, t, c->speed);
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
	now = bpf_ktime_get_ns();
	if (time_before(now, this->look_at))
		return;
	this->look_at = now + policy.unfairness / 2;
	if (even_out(p, cpu))
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
	if (args->fork)
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
