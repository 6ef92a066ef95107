/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between clusters: work for a CPU that has none, faster CPUs for what runs on slower ones, and equal progress.
 */
#ifndef __EQUIPOISE_PULL_H
#define __EQUIPOISE_PULL_H

#include "idle.h"
#include "preempt.h"

/* The virtual time of the first task of @dsq that may run on @cpu, or NO_VTIME. Looks at a few. */
__noinline u64 first_vtime(u64 dsq, u32 cpu)
{
	struct task_struct *p;
	u64 vtime = NO_VTIME;
	u32 looked = 0;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (task_allowed(p, cpu)) {
			vtime = p->scx.dsq_vtime;
			break;
		}
		if (++looked >= 8)
			break;
	}
	return vtime;
}

/* The same of those that wait in @cluster's queue: mostly there is nobody, and it is known without a look. */
static __always_inline u64 first_waiting(u32 cluster, u32 cpu)
{
	u64 vtime;

	if (!may_wait(cluster))
		return NO_VTIME;
	vtime = first_vtime(cluster_dsq(cluster), cpu);
	if (vtime == NO_VTIME)
		nothing_found(cluster);
	return vtime;
}

/* Takes a task that another CPU of @cluster keeps to itself. */
__noinline bool pull_kept(u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	u64 keeping = READ_ONCE(c->keeping);
	int slot;

	if (!keeping)
		return false;
	bpf_for(slot, 0, c->nr_cpus) {
		u32 cpu = nth_of_cluster(c, slot);

		if (!(keeping >> (slot & 63) & 1))
			continue;
		if (scx_bpf_dsq_move_to_local(own_dsq(cpu), 0)) {
			this_counters()->pulled++;
			explain(takes_kept, 0, bpf_get_smp_processor_id(), cpu);
			return true;
		}
		none_kept(cpu, cpu_at(cpu), c);
	}
	return false;
}

/* Takes a waiting task of another cluster, of near ones first. */
__noinline bool pull_waiting(u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	int i;

	this_counters()->newidle_calls++;
	bpf_for(i, 0, nr_clusters) {
		u32 other = c->order[i & (MAX_CLUSTERS - 1)];

		if (other == cluster)
			continue;
		if (pull_kept(other)) {
			this_counters()->newidle_pulled++;
			return true;
		}
		if (!may_wait(other))
			continue;
		if (scx_bpf_dsq_move_to_local(cluster_dsq(other), 0)) {
			this_counters()->newidle_pulled++;
			explain(takes_waiting, 0, bpf_get_smp_processor_id(), cluster_at(other)->first_cpu);
			return true;
		}
		nothing_found(other);
	}
	return false;
}

/* Does anybody wait in the queues of @cluster and its CPUs who may run on @to? */
__noinline bool has_for(u32 cluster, u32 to)
{
	struct cluster *c = cluster_at(cluster);
	u64 keeping = READ_ONCE(c->keeping);
	int slot;

	if (first_vtime(cluster_dsq(cluster), to) != NO_VTIME)
		return true;
	if (!keeping)
		return false;
	bpf_for(slot, 0, c->nr_cpus) {
		if (keeping >> (slot & 63) & 1 && first_vtime(own_dsq(nth_of_cluster(c, slot)), to) != NO_VTIME)
			return true;
	}
	return false;
}

/*
 * The tick of a CPU of @cluster, for whose queue nobody in the cluster is free: has an idle CPU elsewhere come for
 * it. Not one that can do nothing for who waits, which would only be woken up.
 */
__noinline bool offer_waiting(u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	int i;

	bpf_for(i, 0, nr_clusters) {
		u32 index = c->order[i & (MAX_CLUSTERS - 1)], cpu;
		struct cluster *other = cluster_at(index);
		u64 idle = READ_ONCE(other->idle);

		if (!idle)
			continue;
		cpu = nth_of_cluster(other, __builtin_ctzll(idle));
		if (!has_for(cluster, cpu))
			continue;
		if (index != cluster)
			cpu_at(cpu)->pull_from = cluster + 1;
		kick_cpu(cpu, SCX_KICK_IDLE);
		return true;
	}
	return false;
}

/*
 * Of the tasks that run in @cluster and may change CPUs, the one most behind, if it is before @before; its virtual
 * time is as of its CPU's last tick. Whether it may use this CPU is seen when it gets there.
 */
__noinline bool most_behind(struct seen_running *best __arg_nonnull, u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	int slot;

	bpf_for(slot, 0, c->nr_cpus) {
		u32 cpu = nth_of_cluster(c, slot);
		struct rq *rq;
		struct task_struct *curr;

		if (READ_ONCE(c->idle) >> (slot & 63) & 1 || cpu_at(cpu)->push_to)
			continue;
		rq = scx_bpf_cpu_rq(cpu);
		curr = rq ? rq->curr : NULL;
		if (!curr || !curr->pid || curr->prio < MAX_RT_PRIO || curr->nr_cpus_allowed == 1)
			continue;
		if (!is_before(curr->scx.dsq_vtime, best->vtime))
			continue;
		best->pid = curr->pid;
		best->cpu = cpu;
		best->vtime = curr->scx.dsq_vtime;
	}
	return best->pid;
}

/*
 * Has @cpu send task @pid, which it runs, to @to, in exchange for @swap_pid if that is not 0; so the faster of the
 * two CPUs does not idle meanwhile.
 */
static __always_inline void push_running(u32 cpu, s32 pid, u32 to, s32 swap_pid)
{
	simulated_write(cpu);
	ask_for(cpu_at(cpu), pid, to, swap_pid);
	this_counters()->active_balances++;
	kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* How often tasks came to wait in @c and in slower clusters. */
static __always_inline u64 waits_below(const struct cluster *c)
{
	u64 waits = c->waits;
	int i;

	bpf_for(i, 0, nr_clusters)
		if (is_faster(c, cluster_at(i)))
			waits += cluster_at(i)->waits;
	return waits;
}

/* @this, which has nothing to do, will have soon: since it last had nothing, tasks came to wait again and again. */
static __always_inline bool is_awaited(struct cpu_state *this, const struct cluster *c)
{
	u64 now = bpf_ktime_get_ns(), waits = waits_below(c);
	bool awaited = now - this->waits_seen_at < (waits - this->waits_seen) * policy.pull_interval;

	this->waits_seen = waits;
	this->waits_seen_at = now;
	return awaited;
}

/*
 * @this_cpu has nothing to do, and what waits anywhere it may not have: if slower CPUs work, it takes over the task
 * that is most behind there (hperf: no fast CPU idles while a slow one works; mixed-capacity: nor with one too
 * heavy for its CPU). Unless it will have a task anyway, or is half a core, whose other half that would slow down.
 */
__noinline bool pull_running(u32 this_cpu)
{
	struct seen_running *best = &seen_running[this_cpu & (MAX_CPUS - 1)];
	struct cpu_state *this = cpu_at(this_cpu);
	struct cluster *c = cluster_at(this->cluster);
	int i;

	if (is_awaited(this, c) || shares_core(this, c))
		return false;
	best->pid = 0;
	best->vtime = NO_VTIME;
	bpf_for(i, 0, nr_clusters)
		if (is_faster(c, cluster_at(i)))
			most_behind(best, i);
	if (!best->pid)
		return false;
	push_running(best->cpu, best->pid, this_cpu, 0);
	this_counters()->up_migrations++;
	explain(faster_takes, best->pid, this_cpu, best->cpu, cluster_of(best->cpu)->capacity, c->capacity);
	return true;
}

/* The tick of a CPU whose task might run faster: an idle core that would serve it better gets it. */
__noinline bool offer_running(struct task_struct *p __arg_trusted, u32 cpu)
{
	struct cluster *c = cluster_of(cpu);
	int i;

	if (!READ_ONCE(idle_clusters) || is_pinned(p))
		return false;
	bpf_for(i, 0, nr_clusters) {
		struct cluster *other = cluster_at(c->order[i & (MAX_CLUSTERS - 1)]);
		u64 idle = idle_of(other, true);
		int slot;

		if (!is_faster(other, c))
			break;
		bpf_for(slot, 0, other->nr_cpus) {
			u32 to = nth_of_cluster(other, slot);

			if (idle >> (slot & 63) & 1 && task_allowed(p, to) &&
			    send_to_idle(cpu_at(cpu), p->pid, to)) {
				this_counters()->up_migrations++;
				explain(faster_idles, p->pid, to, cpu, c->capacity, other->capacity);
				return true;
			}
		}
	}
	return false;
}

/*
 * The tick of a CPU that shares its core with another that works, while a whole core idles somewhere, also beside
 * another cache: there its task would get half as much done again, or on a slower core hardly less, and the other
 * task more. Of a core's tasks one goes.
 */
__noinline bool offer_core(struct task_struct *p __arg_trusted, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 me = 1ULL << (this->slot & 63), busy = this->siblings & ~READ_ONCE(c->idle);
	int i;

	if (first_bit(busy) == me || is_pinned(p) || this->push_to)
		return false;
	bpf_for(i, 0, nr_clusters) {
		struct cluster *other = cluster_at(c->order[i & (MAX_CLUSTERS - 1)]);
		u64 idle = idle_of(other, true);
		u32 to;

		if (!idle || (u64)c->shared_speed * 100 > (u64)other->speed * ALIKE_PCT)
			continue;
		to = nth_of_cluster(other, __builtin_ctzll(idle));
		if (!task_allowed(p, to) || !send_to_idle(this, p->pid, to))
			continue;
		this_counters()->active_balances++;
		explain(core_idles, p->pid, to, cpu);
		return true;
	}
	return false;
}

/*
 * The next cluster whose tasks @p, which runs on @this, may have to give way to: one that has some waiting, or is
 * slower. Each in turn: to look into queues beyond other caches takes microseconds (2 % of all time on 160 CPUs of
 * eight nodes, when each tick looked into all). NULL: there is none.
 */
static __always_inline struct cluster *next_to_compare(struct task_struct *p, struct cpu_state *this)
{
	const struct cluster *c = cluster_at(this->cluster);
	u64 waiting = READ_ONCE(waiting_clusters);
	int i;

	bpf_for(i, 0, nr_clusters) {
		this->compared = this->compared + 1 < nr_clusters ? this->compared + 1 : 0;
		if (this->compared == this->cluster)
			continue;
		if (waiting >> (this->compared & 63) & 1 ||
		    (is_faster(c, cluster_at(this->compared)) && !is_pinned(p)))
			return cluster_at(this->compared);
	}
	return NULL;
}

/*
 * The tick of a CPU whose task, @p, may be ahead of others elsewhere: of one that runs on a slower CPU, and then
 * they change places; of one that waits, and then this CPU takes that. True: @p is to stop.
 */
__noinline bool even_out(struct task_struct *p __arg_trusted, u32 cpu, u64 now)
{
	struct seen_running *best = &seen_running[cpu & (MAX_CPUS - 1)];
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster), *other = next_to_compare(p, this);
	u64 vtime;

	this->look_at = now + policy.unfairness;
	if (!other)
		return false;
	best->pid = 0;
	best->vtime = p->scx.dsq_vtime - policy.unfairness;
	vtime = may_wait(this->compared) ? first_vtime(cluster_dsq(this->compared), cpu) : NO_VTIME;
	if (is_before(vtime, best->vtime)) {
		best->vtime = vtime;
		this->pull_from = this->compared + 1;
	}
	if (is_faster(c, other) && !is_pinned(p) && most_behind(best, this->compared))
		this->pull_from = 0;
	if (this->pull_from)
		return true;
	if (!best->pid || this->push_to || !task_allowed(p, best->cpu))
		return false;
	if (!p->scx.slice) {
		/* Another has its CPU next: who waits here and is further behind. Else it goes on until @best
		 * comes. */
		if (!is_before(best->vtime, first_waiting(this->cluster, cpu)))
			return false;
		p->scx.slice = SLICE_MAX - policy.slice;
	}
	this_counters()->swaps++;
	explain(change_places, best->pid, cpu, p->pid, p->scx.dsq_vtime - best->vtime);
	push_running(best->cpu, best->pid, cpu, p->pid);
	return false;
}

/* Does a task wait on @cpu that was sent there? Whom others go past again and again never runs. */
static __always_inline bool is_waited_for(u32 cpu)
{
	const struct rq *rq = scx_bpf_cpu_rq(cpu);

	return rq && rq->scx.local_dsq.nr;
}

/*
 * @p has stopped on @cpu, from which it was asked for: sends it there. Not if it is another, or may not go, or one
 * has come there first.
 */
__noinline bool push(struct task_struct *p __arg_trusted, u32 cpu, u64 slice, u64 enq_flags)
{
	struct cpu_state *this = cpu_at(cpu), *peer;
	u32 to = this->push_to - 1;

	if (this->push_pid != p->pid || is_pinned(p) || !task_allowed(p, to) || is_waited_for(to)) {
		forget_push(this);
		return false;
	}
	this->push_to = 0;
	explain(sent, p->pid, to, cpu);
	peer = cpu_at(to);
	if (this->gives_way) {
		s32 idle = clear_idle(to) ? (s32)to : claim_idle_cpu(p, to, false);

		if (idle >= 0) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, slice, enq_flags);
			return true;
		}
		scx_bpf_dsq_insert_vtime(p, cluster_dsq(peer->cluster), slice, p->scx.dsq_vtime, enq_flags);
		somebody_waits(peer->cluster);
		return true;
	}
	if (this->swap_pid) {
		peer->push_pid = this->swap_pid;
		peer->gives_way = true;
		peer->push_to = cpu + 1;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | to, slice, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

#endif /* __EQUIPOISE_PULL_H */
