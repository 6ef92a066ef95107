/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Clusters: CPUs that are alike and share a last-level cache. Each has one dispatch queue, ordered by virtual time,
 * so that among its CPUs there is nothing to balance: whichever is free next takes who is most behind.
 *
 * Which of its CPUs idle is one word. So finding one costs no look at any other CPU, and a CPU that passes through
 * ops.dispatch() in vain says so again, which the kernel's own masks do only from Linux 6.14 on.
 */
#ifndef __EQUIPOISE_CLUSTER_H
#define __EQUIPOISE_CLUSTER_H

#include "../explain.bpf.h"
#include "../kick.bpf.h"
#include "../memory.h"
#include "../topology.bpf.h"
#include "request.h"

/* CPUs are a word's bits, clusters too: a larger cache is cut, and who finds no room joins one of the same kind. */
#define CLUSTER_CPUS 64
#define MAX_CLUSTERS 64
/*
 * Percent: CPUs whose capacities are closer than this are alike. Between turbo bins, 5.8 to 5.5 GHz,
 * there are 5 %, between the two dies of a Ryzen 9 7950X3D 9 %. A Snapdragon 865's prime core is 17 %
 * faster than its other large cores.
 */
#define ALIKE_PCT 110
/*
 * Percent: what of a core's speed a hardware thread has beside another that works. Two get 15 to 30 % more done
 * than one (D. Marr et al., "Hyper-Threading Technology Architecture and Microarchitecture", Intel Technology
 * Journal, 2002).
 */
#define SHARED_PCT 62
/* Not worth a write to a line that others read: virtual time that passes unseen, ns. */
#define CLOCK_STEP 100000

struct cluster {
	/* What changes: its idle CPUs, and those of them all of whose hardware threads idle, by their slots. */
	u64 idle;
	u64 idle_cores;
	/* The virtual time at which the latest of its tasks started to run. */
	u64 clock;
	/* How often a task came to wait. */
	u64 waits;
	/* Its CPUs in whose own queues tasks may wait, by their slots. */
	u64 keeping;
	/* Its CPUs that a higher scheduling class has, by their slots. */
	u64 taken;
	/* Its CPUs run clearly slower than one of them alone: they share a limit of frequency or power. */
	bool held_back;
	/* What does not. */
	u64 cpus __attribute__((aligned(64)));
	u32 nr_cpus;
	u32 capacity;
	/* Work done in a given time, of 1024 on the fastest: by a core's only task, and by a thread that shares it.
	 */
	u32 speed;
	u32 shared_speed;
	u32 first_cpu;
	u16 cpu[CLUSTER_CPUS];
	/* All clusters: faster ones first, then near ones. */
	u16 order[MAX_CLUSTERS];
} __attribute__((aligned(64)));

struct cluster clusters[MAX_CLUSTERS];
u32 nr_clusters;
/* Some are faster than others. */
bool unlike;
/* Which of them have idle CPUs, and which have tasks that wait: hints, that may be late. */
u64 idle_clusters __attribute__((aligned(64)));
u64 waiting_clusters __attribute__((aligned(64)));

/* What is known of a CPU. */
struct cpu_state {
	/* What does not change: where it is, and the slots of its hardware threads. */
	u32 cluster;
	u32 slot;
	u64 siblings;
	/* It has run tasks for so long since it last looked at who waits, ns. */
	u64 ran_past;
	/* The running task lets others go first. */
	bool yields;
	/* It has woken others with SCX_WAKE_SYNC since it started to run. */
	bool woke_sync;
	/* One more than the cluster in whose queue the task that stops next waits; 0: no cluster was chosen. */
	u32 gives_to;
	/* It has been told to stop for a task that wakes up, and when it last was, ns. */
	bool asked;
	u64 stopped_at;
	/* What it is to do at its next switch; see request.h. */
	u64 request;
	/* The virtual time at which the last task that was its turn started here. */
	u64 clock;
	/* When its task was last charged, or started, ns. */
	u64 charged_at;
	/* When to compare with another cluster again, ns, and which was the last. */
	u64 look_at;
	u32 compared;
	/* When it last ran a task that others wait for, ns. */
	u64 hurried_at;
	/* How often tasks had come to wait, here and on slower CPUs, when it last had nothing to do, and when that
	 * was, ns. */
	u64 waits_seen;
	u64 waits_seen_at;
	/* The share of the task that it held back last (held.h), until it has looked again; 0: none. */
	u32 held;
} __attribute__((aligned(64)));

struct cpu_state cpu_states[MAX_CPUS];

static __always_inline struct cpu_state *cpu_at(u32 cpu)
{
	return &cpu_states[cpu & (MAX_CPUS - 1)];
}

static __always_inline struct cluster *cluster_at(u32 index)
{
	return &clusters[index & (MAX_CLUSTERS - 1)];
}

static __always_inline struct cluster *cluster_of(u32 cpu)
{
	return cluster_at(cpu_at(cpu)->cluster);
}

/* Dispatch queues: of clusters, then of CPUs for those that may run nowhere else, or better do not. */
static __always_inline u64 cluster_dsq(u32 cluster)
{
	return cluster;
}

static __always_inline u64 own_dsq(u32 cpu)
{
	return MAX_CLUSTERS + cpu;
}

static __always_inline u32 nth_of_cluster(const struct cluster *c, u32 slot)
{
	return c->cpu[slot & (CLUSTER_CPUS - 1)];
}

static __always_inline bool is_faster(const struct cluster *a, const struct cluster *b)
{
	return (u64)a->capacity * 100 > (u64)b->capacity * ALIKE_PCT;
}

/* Does another hardware thread of @this, a CPU of @c, work? */
static __always_inline bool shares_core(const struct cpu_state *this, const struct cluster *c)
{
	return this->siblings & ~READ_ONCE(c->idle) & ~(1ULL << (this->slot & 63));
}

/* What @this does at the time. Where all are alike it is nothing to be told apart by: as much as any. */
static __always_inline u32 speed_of(const struct cpu_state *this, const struct cluster *c)
{
	return unlike && c->shared_speed < c->speed && shares_core(this, c) ? c->shared_speed : c->speed;
}

/* The words that CPUs share are lines: a cluster's is counted as its first CPU's. */
static __always_inline void read_cluster(const struct cluster *c)
{
	simulated_read(c->first_cpu);
}

static __always_inline void write_cluster(const struct cluster *c)
{
	simulated_write(c->first_cpu);
}

static __always_inline u64 first_bit(u64 word)
{
	return word & -word;
}

static __always_inline void set_bit_once(u64 *word, u32 bit)
{
	if (!(READ_ONCE(*word) >> (bit & 63) & 1))
		__sync_fetch_and_or(word, 1ULL << (bit & 63));
}

static __always_inline void clear_bit_once(u64 *word, u32 bit)
{
	if (READ_ONCE(*word) >> (bit & 63) & 1)
		__sync_fetch_and_and(word, ~(1ULL << (bit & 63)));
}

/*
 * Somebody waits in @cluster's queue, or will: the kernel puts a task there after ops.enqueue(). Who looks in vain
 * until then clears the bit; the next tick of a CPU of @cluster sets it again, and these themselves look at the
 * queue anyway.
 */
static __always_inline void somebody_waits(u32 cluster)
{
	set_bit_once(&waiting_clusters, cluster);
}

static __always_inline bool may_wait(u32 cluster)
{
	return READ_ONCE(waiting_clusters) >> (cluster & 63) & 1;
}

/* This CPU found nothing for itself in @cluster's queue; but who may not run here may wait there for others. */
static __always_inline void nothing_found(u32 cluster)
{
	if (scx_bpf_dsq_nr_queued(cluster_dsq(cluster)))
		return;
	clear_bit_once(&waiting_clusters, cluster);
	if (scx_bpf_dsq_nr_queued(cluster_dsq(cluster)))
		set_bit_once(&waiting_clusters, cluster);
}

/*
 * A task waits in the own queue of @cpu, or will. The CPU may have begun to idle meanwhile: it says so, and then
 * looks whether it keeps tasks; here it is the other way round, so that one of the two sees the other.
 */
static __always_inline void keeps_tasks(u32 cpu, const struct cpu_state *this, struct cluster *c)
{
	set_bit_once(&c->keeping, this->slot);
	if (READ_ONCE(c->idle) >> (this->slot & 63) & 1)
		kick_cpu(cpu, SCX_KICK_IDLE);
}

static __always_inline bool may_keep_tasks(const struct cpu_state *this, const struct cluster *c)
{
	return READ_ONCE(c->keeping) >> (this->slot & 63) & 1;
}

/* A higher class has @cpu, until a task of ours runs there again or is looked for. */
static __always_inline void set_taken(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);

	set_bit_once(&cluster_at(this->cluster)->taken, this->slot);
}

static __always_inline void clear_taken(const struct cpu_state *this)
{
	clear_bit_once(&cluster_at(this->cluster)->taken, this->slot);
}

/* Nobody was found there who may run on the CPU that looked. */
static __always_inline void none_kept(u32 cpu, const struct cpu_state *this, struct cluster *c)
{
	if (scx_bpf_dsq_nr_queued(own_dsq(cpu)))
		return;
	clear_bit_once(&c->keeping, this->slot);
	if (scx_bpf_dsq_nr_queued(own_dsq(cpu)))
		set_bit_once(&c->keeping, this->slot);
}

/* @cpu idles, and may be claimed. */
static __always_inline void set_idle(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 bit = 1ULL << (this->slot & 63), idle;

	write_cluster(c);
	idle = __sync_fetch_and_or(&c->idle, bit) | bit;
	if ((idle & this->siblings) == this->siblings)
		__sync_fetch_and_or(&c->idle_cores, this->siblings);
	set_bit_once(&idle_clusters, this->cluster);
}

/* It does no longer, or is claimed: true for one caller. */
static __always_inline bool clear_idle(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 bit = 1ULL << (this->slot & 63), idle;

	if (!(READ_ONCE(c->idle) & bit) && !(READ_ONCE(c->idle_cores) & this->siblings))
		return false;
	write_cluster(c);
	idle = __sync_fetch_and_and(&c->idle, ~bit);
	__sync_fetch_and_and(&c->idle_cores, ~this->siblings);
	if (!(idle & ~bit)) {
		clear_bit_once(&idle_clusters, this->cluster);
		/* Another may have begun to idle meanwhile. */
		if (READ_ONCE(c->idle))
			set_bit_once(&idle_clusters, this->cluster);
	}
	return idle & bit;
}

/* Has @this send its task @pid to @to, if that is still idle: claimed, so that nothing else is sent there. */
static __always_inline bool send_to_idle(struct cpu_state *this, s32 pid, u32 to)
{
	if (READ_ONCE(this->request) || !clear_idle(to))
		return false;
	if (post_request(&this->request, make_request(REQUEST_SEND, to, pid, 0)))
		return true;
	kick_cpu(to, SCX_KICK_IDLE);
	return false;
}

/* The task that @request was for does not come: the CPU that was claimed for it looks for another. */
static __always_inline void drop_request(u64 request)
{
	if (asks_for_task(request))
		kick_cpu(request_target(request), SCX_KICK_IDLE);
}

/* The clock goes forward only. */
static __always_inline void advance_clock(struct cluster *c, u64 vtime)
{
	if ((s64)(vtime - READ_ONCE(c->clock)) > CLOCK_STEP) {
		write_cluster(c);
		WRITE_ONCE(c->clock, vtime);
	}
}

/* --- Building them, once --------------------------------------------------------------------------- */

static __always_inline bool alike(u32 a, u32 b)
{
	return (u64)a * 100 <= (u64)b * ALIKE_PCT && (u64)b * 100 <= (u64)a * ALIKE_PCT;
}

/* The cluster for @cpu: one with its cache and kind, else a new one, else any of its kind. */
__noinline u32 find_cluster(u32 cpu)
{
	u32 capacity = power_orig_of(cpu), last = 0;
	int i;

	bpf_for(i, 0, MAX_CLUSTERS) {
		struct cluster *c = cluster_at(i);

		if (i >= (int)nr_clusters)
			break;
		if (c->nr_cpus >= CLUSTER_CPUS || !alike(c->capacity, capacity))
			continue;
		if (cpus_share_cache(c->first_cpu, cpu))
			return i;
		last = i;
	}
	return nr_clusters < MAX_CLUSTERS ? nr_clusters : last;
}

static __always_inline void join_cluster(u32 cpu)
{
	u32 index = find_cluster(cpu);
	struct cluster *c = cluster_at(index);
	struct cpu_state *this = cpu_at(cpu);

	if (index == nr_clusters) {
		nr_clusters++;
		c->capacity = power_orig_of(cpu);
		c->first_cpu = cpu;
		/* Far enough from 0 that no virtual time is ever below it. */
		c->clock = NSEC_PER_SEC;
	}
	this->cluster = index;
	this->slot = c->nr_cpus;
	this->siblings = 1ULL << (this->slot & 63);
	c->cpu[c->nr_cpus & (CLUSTER_CPUS - 1)] = cpu;
	c->cpus |= this->siblings;
	c->nr_cpus++;
}

/* Once all have joined: which slots are @cpu's hardware threads. */
__noinline bool find_siblings(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	const struct domain *core;
	int i;

	if (!levels_of(cpu)->nr_levels || !(domain_of(cpu, 0)->flags & SD_SHARE_CPUPOWER))
		return false;
	core = domain_of(cpu, 0);
	bpf_for(i, 0, core->weight) {
		u32 other = cpu_list[(core->first + i) & (MAX_DOMAINS * MAX_LEVELS - 1)];

		if (cpu_at(other)->cluster == this->cluster)
			this->siblings |= 1ULL << (cpu_at(other)->slot & 63);
	}
	return true;
}

/* How many levels up @a and @b meet. */
__noinline u32 cpu_distance(u32 a, u32 b)
{
	u32 nr_levels = levels_of(a)->nr_levels;
	int level;

	bpf_for(level, 0, nr_levels)
		if (same_domain(a, b, level))
			return level;
	return MAX_LEVELS;
}

/* Before the others in the order in which @from looks: faster, then nearer, then by number. */
__noinline u64 order_key(u32 from, u32 to)
{
	struct cluster *a = cluster_at(from), *b = cluster_at(to);
	u64 slowness = 0, distance = from == to ? 0 : 1 + cpu_distance(a->first_cpu, b->first_cpu);
	int i;

	bpf_for(i, 0, nr_clusters)
		slowness += is_faster(cluster_at(i), b);
	return slowness << 32 | distance << 16 | to;
}

/* Where cluster @index looks first, and so on. */
__noinline bool order_clusters(u32 index)
{
	struct cluster *c = cluster_at(index);
	u64 last = 0;
	int i, k;

	bpf_for(i, 0, nr_clusters) {
		u64 least = ~0ULL;

		bpf_for(k, 0, nr_clusters) {
			u64 key = order_key(index, k) + 1;

			if (key > last && key < least)
				least = key;
		}
		c->order[i & (MAX_CLUSTERS - 1)] = (least - 1) & 0xffff;
		last = least;
	}
	return true;
}

static __always_inline s32 init_clusters(void)
{
	u32 fastest = 1;
	s32 err = 0;
	int i;

	bpf_for(i, 0, nr_cpus())
		join_cluster(i);
	bpf_for(i, 0, nr_cpus())
		find_siblings(i);
	bpf_for(i, 0, nr_clusters) {
		order_clusters(i);
		if (cluster_at(i)->capacity > fastest)
			fastest = cluster_at(i)->capacity;
	}
	bpf_for(i, 0, nr_clusters) {
		struct cluster *c = cluster_at(i);

		c->speed = c->shared_speed = SCHED_POWER_SCALE * c->capacity / fastest;
		if (first_bit(cpu_at(c->first_cpu)->siblings) != cpu_at(c->first_cpu)->siblings)
			c->shared_speed = c->speed * SHARED_PCT / 100;
		unlike |= !alike(cluster_at(i)->capacity, fastest);
		err = scx_bpf_create_dsq(cluster_dsq(i), -1);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_cpus()) {
		err = scx_bpf_create_dsq(own_dsq(i), -1);
		if (err)
			return err;
		/* One without domains may be offline; if it is not, it says so itself. */
		if (levels_of(i)->nr_levels)
			set_idle(i);
	}
	return err;
}

#endif /* __EQUIPOISE_CLUSTER_H */
