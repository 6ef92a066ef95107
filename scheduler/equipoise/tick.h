/* SPDX-License-Identifier: GPL-2.0-only */
/* A tick looks at limits, the frequency and where tasks run, besides the running task's turn. */
#ifndef __EQUIPOISE_TICK_H
#define __EQUIPOISE_TICK_H

#include "follow.bpf.h"
#include "pack.h"
#include "pull.h"
#include "ranks.bpf.h"
#include "turn.bpf.h"

/* A CPU may find a queue empty before the kernel inserts the task, and clear its bit: set it again here. */
static __always_inline void find_forgotten(u32 cpu)
{
	const struct cpu_state *this = cpu_at(cpu);

	if (scx_bpf_dsq_nr_queued(cluster_dsq(this->cluster)))
		somebody_waits(this->cluster);
	if (scx_bpf_dsq_nr_queued(own_dsq(cpu)))
		set_bit_once(&cluster_at(this->cluster)->keeping, this->slot);
}

/* Reads the frequency limits of this CPU's cluster and of one other, in turn, whose CPUs may be idle. */
static __always_inline void follow_limits(struct cpu_state *this)
{
	if (!policy.cpufreq_pressure || nr_clusters == 1)
		return;
	follow_limit(this->cluster);
	this->limit_read = this->limit_read + 1 < nr_clusters ? this->limit_read + 1 : 0;
	follow_limit(this->limit_read);
	follow_ranks();
}

/*
 * At a tick of @cpu, while tasks wait for it or in its cluster's queue: wakes an idle CPU that may take one. The
 * kernel inserts a task after ops.enqueue(), so a CPU that became idle in between has seen neither the task nor a
 * kick.
 */
__noinline bool call_idle(u32 cpu)
{
	const struct cpu_state *this = cpu_at(cpu);
	const struct cluster *c = cluster_at(this->cluster);
	u64 own = READ_ONCE(c->keeping) & bit(this->slot);
	int i;

	/* The search of a queue for a task of one CPU may take long, so one CPU of each cluster is tried. */
	bpf_for(i, 0, nr_clusters) {
		struct cluster *other = cluster_at(c->order[i & (MAX_CLUSTERS - 1)]);
		u64 idle = READ_ONCE(other->idle);
		u32 to = nth_of_cluster(other, idle ? __builtin_ctzll(idle) : 0);

		if (idle && find_first_of(this->cluster, own, to) != NO_VTIME) {
			kick_cpu(to, SCX_KICK_IDLE);
			return true;
		}
	}
	return false;
}

/*
 * Tasks wait here although CPUs are idle: no CPU is notified of a task that is queued just as a CPU becomes idle,
 * or that waits for one CPU alone. If no idle CPU is found that may run one of them, @p itself moves to an idle
 * CPU.
 */
static __always_inline bool makes_room(struct task_struct *p, u32 cpu)
{
	return others_wait(cpu) && !call_idle(cpu) && leave_room(p, cpu);
}

/*
 * At a tick of @cpu, sends @p elsewhere if that saves power, makes room or gives @p a better CPU. Returns true if
 * @p has to stop for that.
 */
static __always_inline bool is_to_move(struct task_struct *p, const struct task_state *t, u32 cpu)
{
	return pack_running(p, t, cpu) ||
	       (READ_ONCE(idle_clusters) && (makes_room(p, cpu) || offer_running(p, cpu)));
}

#endif /* __EQUIPOISE_TICK_H */
