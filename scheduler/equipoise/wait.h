/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task waits that found no idle CPU, in the queue of its cluster or near its CPU's caches, and with which
 * virtual time.
 */
#ifndef __EQUIPOISE_WAIT_H
#define __EQUIPOISE_WAIT_H

#include "preempt.h"

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
	const struct rq *rq;
	u64 got, vtime;

	read_cluster(c);
	if (this->push_to || !stays(p, c, p->scx.dsq_vtime))
		return;
	if (is_restricted(p) && !task_allowed(p, cpu))
		return;
	got = p->scx.dsq_vtime;
	vtime = place(p, c, lag_of(p));
	rq = scx_bpf_cpu_rq(cpu);
	if (is_pinned(p))
		vtime = place_near(p, running_on(rq), got, vtime);
	if (preempts(p, rq))
		return;
	vtime = bound_lead(p, this->cluster, cpu, vtime);
	explain(queued_near, p->pid, cpu, scx_bpf_dsq_nr_queued(own_dsq(cpu)));
	explain_preemption(p, rq, false);
	becomes_runnable(p);
	set_bit_once(&c->keeping, this->slot);
	scx_bpf_dsq_insert_vtime(p, own_dsq(cpu), SLICE_MAX, vtime, 0);
}

#endif /* __EQUIPOISE_WAIT_H */
