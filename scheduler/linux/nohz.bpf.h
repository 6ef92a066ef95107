/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs that have stopped their tick, so that other CPUs balance for them. This file is for any scheduler whose
 * rq_of() has tick_stopped.
 */
#ifndef __EQUIPOISE_NOHZ_MASK_H
#define __EQUIPOISE_NOHZ_MASK_H

#include "../memory.h"
#include "../topology.bpf.h"

struct nohz {
	/* CPUs with tick_stopped. */
	u64 idle_cpus_mask[MAX_CPUS / 64];
	u32 nr_cpus;
	/* The time of the next balancing for these CPUs, in jiffies. */
	u64 next_balance;
};

struct nohz nohz;

static __always_inline u64 *nohz_word(u32 cpu)
{
	return &nohz.idle_cpus_mask[cpu / 64 % (MAX_CPUS / 64)];
}

static __always_inline bool nohz_idle_cpu(u32 cpu)
{
	return *nohz_word(cpu) >> (cpu % 64) & 1;
}

/* Stops the tick of @cpu, which becomes idle. Returns false if the tick was already stopped. */
static __always_inline bool nohz_stop_tick(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	if (rq->tick_stopped)
		return false;
	rq->tick_stopped = true;
	simulated_write_global(LINE_NOHZ);
	__sync_fetch_and_or(nohz_word(cpu), 1ULL << (cpu % 64));
	__sync_fetch_and_add(&nohz.nr_cpus, 1);
	return true;
}

/* Starts the tick of @cpu. Returns true if this is the CPU's first tick since it was idle. */
static __always_inline bool nohz_start_tick(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	if (!rq->tick_stopped)
		return false;
	rq->tick_stopped = false;
	simulated_write_global(LINE_NOHZ);
	__sync_fetch_and_and(nohz_word(cpu), ~(1ULL << (cpu % 64)));
	__sync_fetch_and_add(&nohz.nr_cpus, -1);
	return true;
}

#endif /* __EQUIPOISE_NOHZ_MASK_H */
