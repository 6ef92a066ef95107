/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds an idle CPU for a waking or new task. */
#ifndef __EQUIPOISE_IDLE_H
#define __EQUIPOISE_IDLE_H

#include "level.h"
#include "task.bpf.h"

/* Claims one of @idle, the idle CPUs of @cluster, for @p. Returns -1 if @p may use none. */
__noinline s32 claim_allowed(struct task_struct *p __arg_trusted, u32 cluster, u64 idle)
{
	forget_origin(cluster);
	forget_origin(idle);
	struct cluster *c = cluster_at(cluster);
	int slot;

	bpf_for(slot, 0, c->nr_cpus) {
		u32 cpu = nth_of_cluster(c, slot);

		if (has_bit(idle, slot) && task_allowed(p, cpu) && clear_idle(cpu))
			return cpu;
	}
	return -1;
}

/* The idle CPUs of @c; @cores: only those whose hardware threads are all idle. */
static __always_inline u64 idle_of(const struct cluster *c, bool cores)
{
	u64 idle = READ_ONCE(c->idle);

	return cores && idle ? idle & READ_ONCE(c->idle_cores) : idle;
}

/*
 * Claims one of @idle, the idle CPUs of @cluster, for @p: @prev_cpu if it is among them. Returns -1 if @p may use
 * none, or if another CPU claims the chosen one first. (A task that is bound to some CPUs tries all of them.)
 */
__noinline s32 claim_of(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull, u32 cluster,
			u32 prev_cpu, u64 idle)
{
	forget_origin(cluster);
	forget_origin(prev_cpu);
	forget_origin(idle);
	struct cluster *c = cluster_at(cluster);
	struct cpu_state *prev = cpu_at(prev_cpu);
	s32 cpu;

	if (!idle)
		return -1;
	cpu = nth_of_cluster(c, __builtin_ctzll(idle));
	if (prev->cluster == cluster && has_bit(idle, prev->slot))
		cpu = prev_cpu;
	if (!task_allowed(p, cpu) || !clear_idle(cpu))
		cpu = is_bound_in(p, t, cluster) ? claim_allowed(p, cluster, idle) : -1;
	if (cpu >= 0)
		explain(idle, p->pid, cpu, prev_cpu, c->capacity);
	return cpu;
}

static __always_inline s32 claim_in(struct task_struct *p, const struct task_state *t, u32 cluster, u32 prev_cpu,
				    bool cores)
{
	const struct cluster *c = cluster_at(cluster);

	read_cluster(c);
	return claim_of(p, t, cluster, prev_cpu, idle_of(c, cores));
}

/* Searches all clusters for an idle CPU, faster clusters first, then nearer ones. */
__noinline s32 claim_anywhere(struct task_struct *p __arg_trusted, const struct task_state *t __arg_nonnull,
			      u32 prev_cpu, bool cores)
{
	forget_origin(prev_cpu);
	forget_origin(cores);
	struct cluster *c = cluster_of(prev_cpu);
	s32 cpu = -1;
	int i;

	bpf_for(i, 0, nr_clusters) {
		u32 cluster = c->order[i & (MAX_CLUSTERS - 1)];

		if (!has_bit(READ_ONCE(idle_clusters), cluster))
			continue;
		cpu = claim_in(p, t, cluster, prev_cpu, cores);
		if (cpu >= 0)
			break;
	}
	return cpu;
}

/* On a machine with equal CPUs, the cluster with the most idle cores; that of @prev_cpu if it has as many. */
__noinline u32 roomiest(u32 prev_cpu)
{
	struct cluster *from = cluster_of(prev_cpu);
	u32 best = cpu_at(prev_cpu)->cluster, most = 0;
	int i;

	bpf_for(i, 0, nr_clusters) {
		u32 index = from->order[i & (MAX_CLUSTERS - 1)], room;

		read_cluster(cluster_at(index));
		room = __builtin_popcountll(READ_ONCE(cluster_at(index)->idle_cores));
		if (room > most) {
			most = room;
			best = index;
		}
	}
	return best;
}

/*
 * On a machine with equal CPUs, does a new task leave @c? Yes, if time comes first, or if work per energy comes
 * first and the CPUs of @c slow each other down: in kbuild -j4 on two sockets of Sandy Bridge, four cores run at
 * 3.2 GHz if they share a socket, and at 3.5 GHz if each socket has two.
 */
static __always_inline bool spreads(const struct cluster *c)
{
	return tunables.prefer == PREFER_PERFORMANCE ||
	       (tunables.prefer == PREFER_BALANCED && READ_ONCE(c->held_back));
}

/*
 * Claims an idle CPU for @p, or returns -1. Where all CPUs are alike, the cache that has the task's data comes
 * first; a new task has no data there yet. On heterogeneous CPUs, speed comes first: an idle core anywhere before
 * an idle thread of a faster core, whose sibling would be halved.
 */
static __always_inline s32 claim_idle_cpu(struct task_struct *p, const struct task_state *t, u32 prev_cpu,
					  bool is_new)
{
	u32 cluster = cpu_at(prev_cpu)->cluster;
	s32 cpu;

	if (!unlike && !is_new) {
		cpu = claim_in(p, t, cluster, prev_cpu, true);
		if (cpu < 0)
			cpu = claim_of(p, t, cluster, prev_cpu, READ_ONCE(cluster_at(cluster)->idle));
		if (cpu >= 0 || nr_clusters == 1)
			return cpu;
	}
	if (!READ_ONCE(idle_clusters))
		return -1;
	if (!unlike && is_new && nr_clusters > 1 && spreads(cluster_at(cluster))) {
		cpu = claim_in(p, t, roomiest(prev_cpu), prev_cpu, true);
		if (cpu >= 0)
			return cpu;
	}
	cpu = claim_anywhere(p, t, prev_cpu, true);
	return cpu >= 0 ? cpu : claim_anywhere(p, t, prev_cpu, false);
}

#endif /* __EQUIPOISE_IDLE_H */
