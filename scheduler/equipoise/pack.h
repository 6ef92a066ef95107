/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * prefer = power: use fewer cores and caches, after
 *
 *	[patch v7 0/21] sched: power aware scheduling, Alex Shi, 2013-04-04
 *
 * but only for long-running tasks. Finite work completes sooner on a core of its own, after which
 * all cores sleep: packing it costs more energy than it saves. For kbuild -j2 to -j16 on two
 * sockets of Sandy Bridge, packing from the start costs 13 to 27 % more energy for the same work,
 * packing after 250 ms 4 to 6 %, after 500 ms 1 to 2 %, after pack_after's 1 s nothing. There, 16
 * loops of 20 s each draw 1.3 % more power than if they are packed from the start.
 */
#ifndef __EQUIPOISE_PACK_H
#define __EQUIPOISE_PACK_H

#include "task.bpf.h"

/* Returns an idle CPU whose core or cache is already in use, so that those of @cpu can sleep, or -1. */
__noinline s32 find_packed(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 me = bit(this->slot), others = this->siblings & ~me;
	u64 idle = READ_ONCE(c->idle), half = idle & ~READ_ONCE(c->idle_cores);
	u32 busy = c->nr_cpus - __builtin_popcountll(idle);
	int i;

	half &= ~this->siblings;
	if (others && (idle & others) == others && half) {
		u32 found = nth_of_cluster(c, __builtin_ctzll(half));

		/* Otherwise, two tasks could each move to the other's core. */
		if (__builtin_ctzll(cpu_at(found)->siblings) < __builtin_ctzll(this->siblings))
			return found;
	}
	bpf_for(i, 0, nr_clusters) {
		struct cluster *other = cluster_at(i);
		u64 room = READ_ONCE(other->idle);
		u32 more = other->nr_cpus - __builtin_popcountll(room);

		if (i == (int)this->cluster || !room || !alike(c->capacity, other->capacity))
			continue;
		if (more > busy || (more == busy && i < (int)this->cluster))
			return nth_of_cluster(other, __builtin_ctzll(room));
	}
	return -1;
}

/* At a tick of @cpu, moves its long-running task @p to where it costs less power. */
static __always_inline bool pack_running(struct task_struct *p, const struct task_state *t, u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	s32 to;

	if (tunables.prefer != PREFER_POWER || t->burst_so_far < tunables.pack_after || is_pinned(p) ||
	    READ_ONCE(this->request))
		return false;
	to = find_packed(cpu);
	if (to < 0 || !task_allowed(p, to) || !clear_idle(to) || !send_to_claimed(this, p->pid, to))
		return false;
	this_counters()->power_placed++;
	explain(packs, p->pid, to, cpu, t->burst_so_far);
	return true;
}

#endif /* __EQUIPOISE_PACK_H */
