/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Clusters, the state of CPUs, and hints: words with a bit for each CPU or cluster that idles or has waiting tasks.
 * A CPU that passes through ops.dispatch() and finds nothing sets its idle bit again; the kernel's own masks do
 * that only from Linux 6.14 on.
 */
#ifndef __EQUIPOISE_CLUSTER_H
#define __EQUIPOISE_CLUSTER_H

#include "../explain.bpf.h"
#include "../kick.bpf.h"
#include "../memory.h"
#include "../topology.bpf.h"
#include "fair.h"
#include "request.h"

/*
 * CPUs are bits of a word, and so are clusters. The CPUs of a larger cache are split into several clusters; when
 * MAX_CLUSTERS exist, further CPUs join an existing one, if possible of the same kind.
 */
#define CLUSTER_CPUS 64
#define MAX_CLUSTERS 64
/*
 * CPUs whose capacities differ by at most this factor, in percent, are alike. Turbo bins, 5.8 and 5.5 GHz, differ
 * by 5 %; the two dies of a Ryzen 9 7950X3D by 9 %; a Snapdragon 865's prime core is 17 % faster than its other
 * large cores.
 */
#define ALIKE_PCT 110
/* The worth of a CPU before the first tick: more than the weight of any task. */
#define NOT_LEVELLED (1ULL << 40)

/* The word in which only bit @nr is set. */
static __always_inline u64 bit(u32 nr)
{
	return 1ULL << (nr & 63);
}

static __always_inline bool has_bit(u64 word, u32 nr)
{
	return word >> (nr & 63) & 1;
}

static __always_inline void set_bit_once(u64 *word, u32 nr)
{
	if (!has_bit(READ_ONCE(*word), nr))
		__sync_fetch_and_or(word, bit(nr));
}

static __always_inline void clear_bit_once(u64 *word, u32 nr)
{
	if (has_bit(READ_ONCE(*word), nr))
		__sync_fetch_and_and(word, ~bit(nr));
}

struct cluster {
	/* Mutable: the idle CPUs, and the idle CPUs on fully idle cores, by their slots. */
	u64 idle;
	u64 idle_cores;
	/* The clock of the cluster's tasks. All tasks that are bound to a CPU are one entity on it. */
	struct clock clock;
	/* The CPUs in whose own queues tasks may wait, by their slots. */
	u64 keeping;
	/* The CPUs that a higher scheduling class has, by their slots. */
	u64 taken;
	/* Their number, in 2^-16, on average over 32 updates of levels, because interrupt threads run briefly. */
	u32 mean_taken;
	/*
	 * At the last tick here, a CPU ran clearly below the highest frequency, although it requested that: cores
	 * boost less while others boost.
	 */
	bool held_back;
	/* The weight that one CPU is worth (level.h), and the time of the last update, in ns. */
	u64 worth __attribute__((aligned(64)));
	u64 levelled_at;
	/* The progress that tasks here lack, on average, of their share of the machine (progress.h). */
	u64 lacks;
	/* The weights of the running tasks that are not bound, by slot, as of the last tick or switch. */
	u32 running[CLUSTER_CPUS];
	/* The part of each of these weights that the cluster's clock counts. */
	u32 counted[CLUSTER_CPUS];
	/* Immutable, unless a frequency limit changes. */
	u32 nr_cpus __attribute__((aligned(64)));
	/* The number of hardware threads of the cluster's cores, including those that have not joined yet. */
	u32 promised;
	/*
	 * The capacity at the highest frequency, and the part of it that a frequency limit leaves now, in 1024ths.
	 */
	u32 full_capacity;
	u32 limit;
	/* The capacity that the limit leaves. */
	u32 capacity;
	/* The number of clusters that are faster. */
	u32 slowness;
	/*
	 * The speed of a core's only task, and of each of two tasks that share the core; 1024 on the fastest CPU.
	 */
	u32 speed;
	u32 shared_speed;
	u16 cpu[CLUSTER_CPUS];
	/* All clusters: faster ones first, then near ones. One may be missing while the order changes. */
	u16 order[MAX_CLUSTERS];
} __attribute__((aligned(64)));

struct cluster clusters[MAX_CLUSTERS];
u32 nr_clusters;
/* Some clusters are faster than others at present. */
bool unlike;
/* The clusters with idle CPUs, and those with waiting tasks. Both are hints, which may lag. */
u64 idle_clusters __attribute__((aligned(64)));
u64 waiting_clusters __attribute__((aligned(64)));

/* The state of a CPU. Times are in ns. */
struct cpu_state {
	/* Immutable: the CPU's cluster, its slot there, and the slots of its core's hardware threads. */
	u32 cluster;
	u32 slot;
	u64 siblings;
	/*
	 * The running task, its running time (burst_of()) and progress (progress.h), as of the last tick or switch.
	 */
	s32 pid;
	u64 burst;
	u64 progress;
	/* The running task is bound to the CPU. */
	bool runs_bound;
	/* The running task came from another cluster, and has not been charged here yet. */
	bool arrived;
	/* The running task called sched_yield(). */
	bool yields;
	/* A timer ends the turn of the running task, or makes the idle CPU look for work again. */
	bool timed;
	/* The CPU has been asked to stop for a waking task. */
	bool asked;
	/* The time at which a stop is next free of charge. */
	u64 next_stop_at;
	/*
	 * The running task's task_state::after_wakeup, and the time of its first wakeup with SCX_WAKE_SYNC in this
	 * turn, or 0.
	 */
	u64 after_wakeup;
	u64 woke_at;
	/* The time when the task that last stopped here usually wakes up again; 0: that task does not sleep. */
	u64 back_at;
	/*
	 * The time of the running task's last charge in this turn or, if there is none yet, of the end of the turn
	 * or idle period before it.
	 */
	u64 charged_at;
	/* The time for which the CPU has run tasks that bypassed the queue since it last took a waiting one. */
	u64 ran_past;
	/* The request for the CPU's next switch; see request.h. */
	u64 request;
	/* The clock of the tasks that are bound to the CPU, and their entity on the cluster's clock. */
	struct clock own;
	struct entity bound;
	/* The slot of the CPU that any_allowed() last returned on this CPU. */
	u32 sent_to;
	/*
	 * The family whose tasks last competed for the CPU (crowd.h), the times when one of them and when one of
	 * another family last did, and the time when a member of a crowd last came to wait here.
	 */
	s32 family;
	u64 family_at;
	u64 others_at;
	u64 crowd_at;
	/*
	 * The time of the next comparison with a cluster; the cluster, and the slot there, that were compared last.
	 */
	u64 look_at;
	u32 compared;
	u32 compared_slot;
	/* The cluster whose frequency limit this CPU's tick read last. */
	u32 limit_read;
	/* The time when the CPU last ran a task that others wait for. */
	u64 hurried_at;
	/* The share for which the CPU last held back a task, until the CPU checks it again (held.h); 0: none. */
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

/* The queues of a cluster, ordered by its clock, and of a CPU's bound tasks, ordered by the CPU's clock. */
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

/* The slots of all CPUs of @c. */
static __always_inline u64 slots_of(const struct cluster *c)
{
	return ~0ULL >> (CLUSTER_CPUS - c->nr_cpus);
}

static __always_inline bool alike(u32 a, u32 b)
{
	return (u64)a * 100 <= (u64)b * ALIKE_PCT && (u64)b * 100 <= (u64)a * ALIKE_PCT;
}

static __always_inline bool is_faster(const struct cluster *a, const struct cluster *b)
{
	return (u64)a->capacity * 100 > (u64)b->capacity * ALIKE_PCT;
}

/* The slots of the busy hardware threads of @this's core, without @this. */
static __always_inline u64 busy_siblings(const struct cpu_state *this)
{
	return this->siblings & ~READ_ONCE(cluster_at(this->cluster)->idle) & ~bit(this->slot);
}

/* The current speed of @this. */
static __always_inline u32 speed_of(const struct cpu_state *this)
{
	const struct cluster *c = cluster_at(this->cluster);

	return c->shared_speed < c->speed && busy_siblings(this) ? c->shared_speed : c->speed;
}

/* The sum of the speeds of the CPUs of @c while all are busy, less the part that higher classes take. */
static __always_inline u64 open_speed(const struct cluster *c)
{
	return (((u64)c->nr_cpus << 16) - READ_ONCE(c->mean_taken)) * c->shared_speed >> 16;
}

/* Tells the simulator, which charges for shared cache lines, of an access to @c. */
static __always_inline void read_cluster(const struct cluster *c)
{
	simulated_read(c->cpu[0]);
}

static __always_inline void write_cluster(const struct cluster *c)
{
	simulated_write(c->cpu[0]);
}

/*
 * A task waits in @cluster's queue, or will soon: the kernel inserts a task after ops.enqueue(). A
 * CPU that looks before that clears the bit; the next tick of a CPU of @cluster sets it again, and
 * CPUs of @cluster look at the queue anyway.
 */
static __always_inline void somebody_waits(u32 cluster)
{
	set_bit_once(&waiting_clusters, cluster);
}

static __always_inline bool may_wait(u32 cluster)
{
	return has_bit(READ_ONCE(waiting_clusters), cluster);
}

/*
 * A task waits in @cpu's own queue, or will soon. The CPU may have become idle meanwhile. A CPU that becomes idle
 * first sets its idle bit and then checks whether it keeps tasks. The order here is the reverse, so that at least
 * one of the two sees what the other did.
 */
static __always_inline void keeps_tasks(u32 cpu)
{
	const struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);

	set_bit_once(&c->keeping, this->slot);
	if (has_bit(READ_ONCE(c->idle), this->slot))
		kick_cpu(cpu, SCX_KICK_IDLE);
}

static __always_inline bool may_keep_tasks(const struct cpu_state *this)
{
	return has_bit(READ_ONCE(cluster_at(this->cluster)->keeping), this->slot);
}

/* May tasks wait for @this or its cluster? */
static __always_inline bool has_waiters(const struct cpu_state *this)
{
	return may_wait(this->cluster) || may_keep_tasks(this);
}

/* Clears bit @nr of @hints if no task waits in @dsq. A task that is queued meanwhile is seen, or sets the bit. */
static __always_inline void settle_hint(u64 *hints, u32 nr, u64 dsq)
{
	if (!has_bit(READ_ONCE(*hints), nr) || scx_bpf_dsq_nr_queued(dsq))
		return;
	__sync_fetch_and_and(hints, ~bit(nr));
	if (scx_bpf_dsq_nr_queued(dsq))
		set_bit_once(hints, nr);
}

/* A CPU found nothing to run in @cluster's queue, where tasks may still wait for other CPUs. */
static __always_inline void nothing_found(u32 cluster)
{
	settle_hint(&waiting_clusters, cluster, cluster_dsq(cluster));
}

/* As nothing_found(), for @cpu's own queue. */
static __always_inline void none_kept(u32 cpu)
{
	settle_hint(&cluster_of(cpu)->keeping, cpu_at(cpu)->slot, own_dsq(cpu));
}

/* A higher scheduling class has @cpu until the CPU again runs, or looks for, a task of this scheduler. */
static __always_inline void set_taken(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);

	set_bit_once(&cluster_at(this->cluster)->taken, this->slot);
}

static __always_inline bool is_taken(u32 cpu)
{
	return has_bit(READ_ONCE(cluster_of(cpu)->taken), cpu_at(cpu)->slot);
}

static __always_inline void clear_taken(const struct cpu_state *this)
{
	clear_bit_once(&cluster_at(this->cluster)->taken, this->slot);
}

/*
 * Updates the hint that tells whether @cluster has idle CPUs. Another CPU may change them meanwhile, so a CPU that
 * has changed the hint checks it again: the last change is then correct.
 */
static __always_inline void settle_idle_hint(u32 cluster)
{
	for (int i = 0; i < 4; i++) {
		bool idle = READ_ONCE(cluster_at(cluster)->idle);

		if (idle == has_bit(READ_ONCE(idle_clusters), cluster))
			return;
		if (idle)
			set_bit_once(&idle_clusters, cluster);
		else
			clear_bit_once(&idle_clusters, cluster);
	}
}

/* @cpu is idle, and may be claimed. */
__noinline bool set_idle(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 me = bit(this->slot), idle;

	write_cluster(c);
	idle = __sync_fetch_and_or(&c->idle, me) | me;
	if ((idle & this->siblings) == this->siblings)
		__sync_fetch_and_or(&c->idle_cores, this->siblings);
	settle_idle_hint(this->cluster);
	return true;
}

/* Marks @cpu as no longer idle. Returns true to one caller only, which has thereby claimed it. */
static __always_inline bool clear_idle(u32 cpu)
{
	struct cpu_state *this = cpu_at(cpu);
	struct cluster *c = cluster_at(this->cluster);
	u64 me = bit(this->slot), idle;

	if (!(READ_ONCE(c->idle) & me) && !(READ_ONCE(c->idle_cores) & this->siblings))
		return false;
	write_cluster(c);
	idle = __sync_fetch_and_and(&c->idle, ~me);
	__sync_fetch_and_and(&c->idle_cores, ~this->siblings);
	if (!(idle & ~me))
		settle_idle_hint(this->cluster);
	return idle & me;
}

/* The task of @request does not come, so the CPU that was claimed for it looks for another task. */
static __always_inline void drop_request(u64 request)
{
	if (asks_for_task(request))
		kick_cpu(request_target(request), SCX_KICK_IDLE);
}

/* Makes @this send its task @pid to @to, which has been claimed for it. */
static __always_inline bool send_to_claimed(struct cpu_state *this, s32 pid, u32 to)
{
	u64 request = make_request(REQUEST_SEND, to, pid, 0);

	if (post_request(&this->request, request))
		return true;
	drop_request(request);
	return false;
}

#endif /* __EQUIPOISE_CLUSTER_H */
