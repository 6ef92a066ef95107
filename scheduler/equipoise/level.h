/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Feasible weights: how much weight one CPU of a cluster is worth.
 *
 * A task cannot use more than one CPU, and the tasks that are bound to a CPU cannot together use more than that
 * CPU, however heavy they are. The fair rate of each task or bound set is min(1, f * weight) CPUs, where f is such
 * that the rates add up to the CPUs. A task or a CPU's bound tasks that are worth a CPU therefore count as 1 / f.
 * Their virtual time then passes at the rate of the cluster's clock: such a task or set is owed nothing, and no
 * task waits for it to catch up.
 *
 * Weights on four CPUs:
 *
 *	8 | 4 1 1 1 1	8 > 16 / 4, so it has a CPU; a weight of 8 is left for three
 *	8 4 | 1 1 1 1	4 > 8 / 3, so it has one, too; a weight of 4 is left for two
 *	1 / f = 2
 *
 * The search for f looks only at running tasks and bound sets: a task that is worth a CPU never waits for long.
 */
#ifndef __EQUIPOISE_LEVEL_H
#define __EQUIPOISE_LEVEL_H

#include "cluster.bpf.h"

/* 2^30 ns, about a second: the time after which progress is forgotten (progress.h). */
#define PROGRESS_SHIFT 30
#define PROGRESS_NS (1ULL << PROGRESS_SHIFT)
/* The level is an average over 8 ticks, because each tick sees only some of the tasks that nap. */
#define LEVEL_SHIFT 3

/*
 * The state of a CPU's search for the level. It is in memory, because the verifier would follow the loops once for
 * each value of a local variable.
 */
struct level {
	/* The weight of the tasks that are not worth a CPU, and the number of CPUs for them. */
	s64 weight;
	s64 cpus;
	/* The slots of CPUs whose running task is worth a CPU, and of those whose bound tasks are. */
	u64 running;
	u64 bound;
	/* The least weight of a running task, or of a CPU's bound tasks. */
	u64 least;
} __attribute__((aligned(64)));

struct level levels[MAX_CPUS];

static __always_inline struct level *this_level(void)
{
	return &levels[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline void write_if_other(u32 *to, u32 value)
{
	if (READ_ONCE(*to) != value)
		WRITE_ONCE(*to, value);
}

/* @this runs a task of @weight that is not bound, of which the cluster's clock counts @counted; 0: no such task. */
static __always_inline void note_running(const struct cpu_state *this, u32 weight, u32 counted)
{
	struct cluster *c = cluster_at(this->cluster);
	u32 slot = this->slot & (CLUSTER_CPUS - 1);

	write_if_other(&c->running[slot], weight);
	write_if_other(&c->counted[slot], counted);
}

/* The weight that a CPU of the fastest kind would be worth if the whole machine were one cluster. */
u64 machine_worth = 1;

/*
 * Is @weight, of a task that is not bound, worth a CPU of @c? In the ideal such a task never waits: it gets a CPU
 * at once from one that is not. A cluster's only CPU is worth the weight of all tasks there, so a task is compared
 * with the machine's level instead.
 */
static __always_inline bool is_worth_cpu(const struct cluster *c, u64 weight)
{
	if (c->nr_cpus > 1)
		return weight > READ_ONCE(c->worth);
	return nr_clusters > 1 && weight > READ_ONCE(machine_worth);
}

/* The weight of the task that runs on the CPU of @slot, if it is not bound; 0: there is none. */
static __always_inline u64 running_weight(const struct cluster *c, u32 slot)
{
	return READ_ONCE(c->running[slot & (CLUSTER_CPUS - 1)]);
}

static __always_inline u64 bound_weight(u32 cpu)
{
	s64 weight = READ_ONCE(cpu_at(cpu)->own.weight);

	return weight > 0 ? weight : 0;
}

/* Are the tasks that are bound to @this worth the CPU? */
static __always_inline bool bound_are_worth_cpu(const struct cpu_state *this)
{
	return READ_ONCE(this->own.weight) > (s64)READ_ONCE(cluster_at(this->cluster)->worth);
}

/* Adds the parts of weights that the cluster's clock does not count. */
static __always_inline void add_to_level(struct level *l, const struct cluster *c, u32 slot)
{
	u32 cpu = nth_of_cluster(c, slot);
	u64 running = running_weight(c, slot), bound = bound_weight(cpu);

	if (running) {
		l->weight += (s64)running - READ_ONCE(c->counted[slot & (CLUSTER_CPUS - 1)]);
		if (running < l->least)
			l->least = running;
	}
	l->weight += bound - READ_ONCE(cpu_at(cpu)->bound.weight);
	if (bound && bound < l->least)
		l->least = bound;
}

/* If @weight is worth a CPU, gives it a CPU and adds @slot to the set @worth_one. */
static __always_inline void give_cpu(struct level *l, u64 *worth_one, u64 weight, u32 slot)
{
	if (!weight || has_bit(*worth_one, slot) || l->cpus < 1 || (s64)weight * l->cpus <= l->weight)
		return;
	*worth_one |= bit(slot);
	l->weight -= weight;
	l->cpus--;
}

__noinline bool give_cpus(u32 cluster)
{
	const struct cluster *c = cluster_at(cluster);
	struct level *l = this_level();
	s64 before = l->cpus;
	int slot;

	bpf_for(slot, 0, c->nr_cpus) {
		give_cpu(l, &l->running, running_weight(c, slot), slot);
		give_cpu(l, &l->bound, bound_weight(nth_of_cluster(c, slot)), slot);
	}
	return l->cpus != before;
}

/*
 * Sets what a CPU of @cluster is worth. If all tasks have a CPU, it is the least weight of them: at that level all
 * are charged alike.
 *
 * Context: update_level(), with interrupts off.
 */
__noinline bool find_level(u32 cluster)
{
	struct cluster *c = cluster_at(cluster);
	struct level *l = this_level();
	s64 worth = READ_ONCE(c->worth), found;
	int i;

	*l = (struct level){ .weight = READ_ONCE(c->clock.weight), .cpus = c->nr_cpus, .least = ~0ULL };
	bpf_for(i, 0, c->nr_cpus)
		add_to_level(l, c, i);
	/* Each round except the last gives away at least one CPU. */
	bpf_for(i, 0, c->nr_cpus)
		if (!give_cpus(cluster))
			break;
	if (l->least == ~0ULL)
		return false;
	found = l->cpus > 0 && l->weight > 0 ? (u64)l->weight / (u64)l->cpus : l->least;
	if (worth < (s64)NOT_LEVELLED)
		found = worth + ((found - worth) >> LEVEL_SHIFT);
	WRITE_ONCE(c->worth, found > 0 ? found : 1);
	return true;
}

/* The progress (progress.h) of a task that always had its fair share of the machine, and its time, in ns. */
u64 machine_progress, machine_progress_at;

/*
 * Lets the fair progress grow until @now, and forgets it as that of each task is forgotten. No task can have made
 * more progress than a task of the weight @least that always had a CPU.
 */
static __always_inline void advance_machine(u64 now, u64 least)
{
	u64 progress = READ_ONCE(machine_progress), most = vtime_for(PROGRESS_NS, least);
	u64 last = READ_ONCE(machine_progress_at);
	s64 past = now - last;

	/* A tick that began earlier may come here later, and ticks of two clusters may come at once. */
	if (past <= 0 || __sync_val_compare_and_swap(&machine_progress_at, last, now) != last)
		return;
	if (past > (s64)PROGRESS_NS)
		past = PROGRESS_NS;
	if (progress > most)
		progress = most;
	progress -= progress / PROGRESS_NS * past + (progress % PROGRESS_NS * (u64)past >> PROGRESS_SHIFT);
	WRITE_ONCE(machine_progress, progress + vtime_for(past, READ_ONCE(machine_worth)));
}

/* Updates the average of any cluster, also of one whose CPUs have no ticks because a higher class has them. */
static __always_inline void note_taken(struct cluster *c)
{
	s64 mean = READ_ONCE(c->mean_taken), taken = (u64)__builtin_popcountll(READ_ONCE(c->taken)) << 16;

	write_if_other(&c->mean_taken, mean + ((taken - mean) >> 5));
}

/*
 * The machine's level: that of the sum of all clusters, but no less than the least level of a cluster. An idle
 * cluster keeps its last level, because its sleeping tasks may be that light. Without that limit a machine that
 * idles would let a task be due a thousand CPUs, and for seconds afterwards no task would have had more than its
 * share.
 *
 * Context: as find_level().
 */
__noinline bool find_machine_worth(u64 now)
{
	struct level *l = this_level();
	u64 found;
	int i;

	*l = (struct level){ .cpus = 1, .least = NOT_LEVELLED };
	bpf_for(i, 0, nr_clusters) {
		struct cluster *c = cluster_at(i);
		s64 sum = READ_ONCE(c->clock.weight);
		u64 worth = READ_ONCE(c->worth);

		note_taken(c);
		l->weight += sum > 0 ? sum : 0;
		/* In 1024ths of a CPU. */
		l->cpus += open_speed(c);
		if (worth < l->least)
			l->least = worth;
	}
	found = l->weight * SCHED_POWER_SCALE / (u64)l->cpus;
	WRITE_ONCE(machine_worth, found > l->least ? found : l->least);
	advance_machine(now, l->least);
	return true;
}

/*
 * At a tick of a CPU of @cluster, at the time @now: finds the levels, unless another CPU there did so in this tick.
 * A tick that began earlier may come here later, so the difference is signed.
 */
static __always_inline void update_level(u32 cluster, u64 now)
{
	struct cluster *c = cluster_at(cluster);
	u64 last = READ_ONCE(c->levelled_at);

	if ((s64)(now - last) < (s64)(machine.tick_ns / 2) ||
	    __sync_val_compare_and_swap(&c->levelled_at, last, now) != last)
		return;
	find_level(cluster);
	find_machine_worth(now);
}

#endif /* __EQUIPOISE_LEVEL_H */
