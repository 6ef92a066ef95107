/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balancing for CPUs without a tick. A busy CPU whose tick finds a reason kicks the first idle CPU (the idle load
 * balancer), which then balances for all idle CPUs. These are Linux 3.9's nohz_kick_needed(), nohz_balancer_kick()
 * and nohz_idle_balance().
 */
#ifndef __EQUIPOISE_NOHZ_H
#define __EQUIPOISE_NOHZ_H

#include "../../../kick.bpf.h"
#include "../../nohz.bpf.h"
#include "../../../signals/frequency.bpf.h"
#include "balance.h"

/* The number of CPUs of @sg with a tick: sgp->nr_busy_cpus. */
static __always_inline u32 nr_busy_cpus(const struct group *sg)
{
	u32 busy = 0;
	int i;

	bpf_for(i, 0, sg->weight)
		busy += !rq_of(nth_cpu(sg, i))->tick_stopped;
	return busy;
}

/* Does @cpu, which is busy, have work for an idle CPU? */
__noinline bool nohz_kick_needed(u32 cpu, u64 jiffies)
{
	u32 nr_levels = levels_of(cpu)->nr_llc_levels;
	int level;

	simulated_read_global(LINE_NOHZ);
	if (!nohz.nr_cpus || time_before(jiffies, nohz.next_balance))
		return false;
	if (cpu_nr_running(cpu) >= 2 || hook_kick_needed(cpu))
		return true;
	/* Several CPUs of a group that shares a cache are busy. */
	bpf_for(level, 0, nr_levels)
		if (nr_busy_cpus(group_at(local_group_of(cpu, level))) > 1)
			return true;
	return false;
}

/* The first CPU without a tick, or -1. */
__noinline s32 find_new_ilb(void)
{
	s32 found = -1;
	int cpu;

	bpf_for(cpu, 0, nr_cpus())
		if (nohz_idle_cpu(cpu)) {
			found = cpu;
			break;
		}
	return found;
}

/* Updates the averages of @cpu, which may be idle, before balancing for it. */
static __always_inline void update_blocked_averages(u32 cpu, u64 now)
{
	update_tg_load_avg(rq_of(cpu), now);
	if (!tracks_util())
		return;
	update_cpu_util(cpu, now);
	if (may_ask_for(cpu))
		update_frequency(cpu, now);
}

/* The periodic balance of @cpu, busy or idle. */
static __always_inline bool periodic_balance(u32 cpu, enum balance_idle idle, u64 now)
{
	update_blocked_averages(cpu, now);
	hook_periodic_balance(now);
	rebalance_domains(cpu, idle, now);
	return true;
}

/* Kicks an idle CPU, because @cpu has work for one. */
static __always_inline void nohz_balancer_kick(u32 cpu)
{
	s32 ilb;

	simulated_write_global(LINE_NOHZ);
	nohz.next_balance++;
	if (!hook_find_new_ilb(cpu, &ilb))
		ilb = find_new_ilb();
	if (ilb < 0 || !idle_cpu(ilb) || rq_of(ilb)->nohz_balance_kick)
		return;
	rq_of(ilb)->nohz_balance_kick = true;
	this_counters()->nohz_kicks++;
	kick_cpu(ilb, SCX_KICK_IDLE);
}

/*
 * The work of the idle load balancer, which balances first for itself and then for the other idle CPUs, until it
 * has a task to run.
 */
static __noinline void nohz_idle_balance(u32 this_cpu, u64 now)
{
	struct fair_rq *this_rq = rq_of(this_cpu);
	u64 jiffies = jiffies_at(now);
	int cpu;

	this_rq->nohz_balance_kick = false;
	if (!idle_cpu(this_cpu))
		return;
	/*
	 * The kick took the CPU out of the idle loop, where it accounts its missed ticks (tick_nohz_idle_exit()).
	 */
	update_cpu_load_nohz(this_rq, jiffies);
	periodic_balance(this_cpu, LB_IDLE, now);
	bpf_for(cpu, 0, nr_cpus()) {
		struct fair_rq *rq = rq_of(cpu);

		if (cpu == (int)this_cpu || !nohz_idle_cpu(cpu) || !idle_cpu(cpu))
			continue;
		if (cpu_nr_running(this_cpu))
			break;
		if (!weighted_cpuload(cpu))
			update_cpu_load_nohz(rq, jiffies);
		update_blocked_averages(cpu, now);
		rebalance_domains(cpu, LB_IDLE, now);
		if (time_before(rq->next_balance, this_rq->next_balance))
			this_rq->next_balance = rq->next_balance;
	}
	nohz.next_balance = this_rq->next_balance;
}

#endif /* __EQUIPOISE_NOHZ_H */
