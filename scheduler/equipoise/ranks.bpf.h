/* SPDX-License-Identifier: GPL-2.0-only */
/* The clusters are built once, and ranked by speed: at first, and when a limit of the frequency changes. */
#ifndef __EQUIPOISE_RANKS_H
#define __EQUIPOISE_RANKS_H

#include "../signals/pressure.h"
#include "cluster.bpf.h"

/*
 * The smallest change of a frequency limit after which the clusters are ranked anew, in 1024ths of a CPU's
 * capacity; the end of a limit always counts. It is 5 %, as in the kernel's fair class, which treats capacities
 * with a smaller difference as equal (capacity_greater()).
 */
#define LIMIT_STEP 52

/*
 * The cluster for the @threads of @cpu's core: a cluster with its cache and kind, otherwise a new one, otherwise
 * any cluster of its kind, otherwise any; MAX_CLUSTERS if no cluster has room.
 */
__noinline u32 find_cluster(u32 cpu, u32 threads)
{
	u32 capacity = power_orig_of(cpu), of_kind = MAX_CLUSTERS, any = MAX_CLUSTERS;
	int i;

	bpf_for(i, 0, nr_clusters) {
		struct cluster *c = cluster_at(i);

		if (c->promised + threads > CLUSTER_CPUS)
			continue;
		any = i;
		if (!alike(c->full_capacity, capacity))
			continue;
		if (cpus_share_cache(c->cpu[0], cpu))
			return i;
		of_kind = i;
	}
	if (nr_clusters < MAX_CLUSTERS)
		return nr_clusters;
	return of_kind < MAX_CLUSTERS ? of_kind : any;
}

/* Adds @cpu to the cluster of its core, because the threads of a core know each other only within a cluster. */
static __always_inline bool join_cluster(u32 cpu)
{
	const struct domain *core = smt_domain(cpu);
	u32 first = core ? domain_cpu(core, 0) : cpu, threads = core ? core->weight : 1;
	u32 index = first < cpu ? cpu_at(first)->cluster : find_cluster(cpu, threads);
	struct cluster *c = cluster_at(index);
	struct cpu_state *this = cpu_at(cpu);

	if (index == MAX_CLUSTERS)
		return false;
	if (index == nr_clusters) {
		nr_clusters++;
		c->full_capacity = power_orig_of(cpu);
		c->limit = SCHED_POWER_SCALE;
		c->worth = NOT_LEVELLED;
	}
	if (first == cpu)
		c->promised += threads;
	this->cluster = index;
	this->slot = c->nr_cpus;
	this->siblings = bit(this->slot);
	c->cpu[c->nr_cpus++ & (CLUSTER_CPUS - 1)] = cpu;
	return true;
}

/* Sets the slots of @cpu's hardware threads, once all CPUs have joined. */
__noinline bool find_siblings(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	const struct domain *core = smt_domain(cpu);
	int i;

	if (!core)
		return false;
	bpf_for(i, 0, core->weight)
		this->siblings |= bit(cpu_at(domain_cpu(core, i))->slot);
	return true;
}

/* The lowest domain level that has both @a and @b; MAX_LEVELS if none has both. */
__noinline u32 cpu_distance(u32 a, u32 b)
{
	u32 nr_levels = levels_of(a)->nr_levels;
	int level;

	bpf_for(level, 0, nr_levels)
		if (same_domain(a, b, level))
			return level;
	return MAX_LEVELS;
}

/* The key by which cluster @from sorts the others: faster ones first, then nearer ones, then by number. */
static __always_inline u64 order_key(u32 from, u32 to)
{
	struct cluster *a = cluster_at(from), *b = cluster_at(to);
	u64 distance = from == to ? 0 : 1 + cpu_distance(a->cpu[0], b->cpu[0]);

	return (u64)b->slowness << 32 | distance << 16 | to;
}

/* Sets the order in which cluster @index searches the others. */
__noinline bool order_clusters(u32 index)
{
	struct cluster *c = cluster_at(index);
	int i, k;

	bpf_for(i, 0, nr_clusters) {
		u64 key = order_key(index, i);
		u32 before = 0;

		bpf_for(k, 0, nr_clusters)
			before += order_key(index, k) < key;
		/* Otherwise the verifier follows the loop for each value of this index. */
		forget_origin(before);
		c->order[before & (MAX_CLUSTERS - 1)] = i;
	}
	return true;
}

/*
 * Sets the speed of cluster @index, where the fastest has capacity @fastest, and the number of faster clusters.
 * Returns whether the cluster is of another kind than the fastest.
 */
__noinline bool rank_cluster(u32 index, u32 fastest)
{
	struct cluster *c = cluster_at(index);
	u32 speed = SCHED_POWER_SCALE * c->capacity / fastest, slowness = 0;
	u32 thread_speed = levels_of(c->cpu[0])->thread_speed;
	int i;

	bpf_for(i, 0, nr_clusters)
		slowness += is_faster(cluster_at(i), c);
	c->slowness = slowness;
	c->speed = speed ?: 1;
	c->shared_speed = speed * thread_speed / SCHED_POWER_SCALE ?: 1;
	return !alike(c->capacity, fastest);
}

/* Ranks the clusters by the capacities that limits of the frequencies leave. */
__noinline bool rank_clusters(void)
{
	u32 fastest = 1;
	bool differ = false;
	int i;

	bpf_for(i, 0, nr_clusters) {
		struct cluster *c = cluster_at(i);

		c->capacity = (u64)c->full_capacity * READ_ONCE(c->limit) / SCHED_POWER_SCALE ?: 1;
		if (c->capacity > fastest)
			fastest = c->capacity;
	}
	bpf_for(i, 0, nr_clusters)
		differ |= rank_cluster(i, fastest);
	bpf_for(i, 0, nr_clusters)
		order_clusters(i);
	WRITE_ONCE(unlike, differ);
	return differ;
}

/* The number of changes of limits, the number that the current ranks include, and whether a CPU is ranking now. */
u32 limits_changed, limits_ranked, ranking;

/*
 * Ranks the clusters if a limit has changed since they were ranked.
 *
 * Context: a tick of any CPU; one CPU at a time. A change that another CPU makes meanwhile waits for the next tick.
 */
__noinline bool follow_ranks(void)
{
	u32 changed = READ_ONCE(limits_changed);

	if (changed == READ_ONCE(limits_ranked) || __sync_val_compare_and_swap(&ranking, 0, 1))
		return false;
	rank_clusters();
	WRITE_ONCE(limits_ranked, changed);
	__sync_fetch_and_add(&ranking, -1);
	return true;
}

/* Reads the limit of cluster @index from its first CPU, although on some processors each CPU has its own limit. */
static __always_inline void follow_limit(u32 index)
{
	struct cluster *c = cluster_at(index);
	u64 full = scx_bpf_cpuperf_cap(c->cpu[0]), limit, change;

	limit = full ? actual_cpu_capacity(c->cpu[0], full) * SCHED_POWER_SCALE / full : SCHED_POWER_SCALE;
	change = limit > c->limit ? limit - c->limit : c->limit - limit;
	if (!change || (change < LIMIT_STEP && limit != SCHED_POWER_SCALE))
		return;
	WRITE_ONCE(c->limit, limit);
	__sync_fetch_and_add(&limits_changed, 1);
}

/*
 * The cluster of the CPUs that are offline now, to whose tasks the CPUs of other clusters pay no attention. The
 * kernel ends this scheduler when one of these CPUs comes online, but before that the CPU runs tasks, and its
 * hotplug thread may have to wait for them (sched_cpu_activate() rebuilds the domains before it calls
 * scx_rq_activate()).
 */
static __always_inline u32 absent_cluster(void)
{
	return nr_clusters < MAX_CLUSTERS ? nr_clusters : MAX_CLUSTERS - 1;
}

static __always_inline void init_absent(void)
{
	u32 index = absent_cluster();
	struct cluster *c = cluster_at(index);
	int i;

	bpf_for(i, 0, nr_cpus())
		if (!is_online(i))
			cpu_at(i)->cluster = index;
	if (index < nr_clusters)
		return;
	c->nr_cpus = 1;
	c->speed = c->shared_speed = SCHED_POWER_SCALE;
	c->worth = NOT_LEVELLED;
	order_clusters(index);
}

static __always_inline s32 init_clusters(void)
{
	s32 err = 0;
	int i;

	bpf_for(i, 0, nr_cpus())
		if (is_online(i) && !join_cluster(i)) {
			scx_bpf_error("no cluster has room for CPU %d", i);
			return -ENOMEM;
		}
	bpf_for(i, 0, nr_cpus())
		find_siblings(i);
	rank_clusters();
	init_absent();
	bpf_for(i, 0, absent_cluster() + 1)
		if (!err)
			err = scx_bpf_create_dsq(cluster_dsq(i), -1);
	bpf_for(i, 0, nr_cpus()) {
		if (!err)
			err = scx_bpf_create_dsq(own_dsq(i), -1);
		if (is_online(i))
			set_idle(i);
	}
	return err;
}

#endif /* __EQUIPOISE_RANKS_H */
