/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balancing for CPUs that have no tick. A busy CPU whose tick sees a reason kicks an idle CPU, which then balances
 * on behalf of all of them, or only brings their averages up to date. nohz_balancer_kick() and nohz_idle_balance()
 * of Linux 6.12.
 */
#ifndef __EQUIPOISE_NOHZ_H
#define __EQUIPOISE_NOHZ_H

#include "../../signals/frequency.bpf.h"
#include "balance.h"

struct nohz {
	/* CPUs with tick_stopped. */
	u64 idle_cpus_mask[MAX_CPUS / 64];
	u32 nr_cpus;
	/* Idle CPUs have averages left to decay. */
	bool has_blocked;
	/* When they are looked at again, and balanced; jiffies. */
	u64 next_blocked;
	u64 next_balance;
};

struct nohz nohz;

/* The tick of @cpu stops as it goes idle. */
static __always_inline void nohz_balance_enter_idle(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	nohz.has_blocked = true;
	if (rq->tick_stopped)
		return;
	rq->tick_stopped = true;
	simulated_write_global(LINE_NOHZ);
	__sync_fetch_and_or(&nohz.idle_cpus_mask[cpu / 64 % (MAX_CPUS / 64)], 1ULL << (cpu % 64));
	__sync_fetch_and_add(&nohz.nr_cpus, 1);
	__sync_fetch_and_add(&llc_of(cpu)->nr_busy_cpus, -1);
}

/* The first tick of @cpu after it was idle. */
static __always_inline void nohz_balance_exit_idle(u32 cpu)
{
	struct fair_rq *rq = rq_of(cpu);

	if (!rq->tick_stopped)
		return;
	rq->tick_stopped = false;
	simulated_write_global(LINE_NOHZ);
	__sync_fetch_and_and(&nohz.idle_cpus_mask[cpu / 64 % (MAX_CPUS / 64)], ~(1ULL << (cpu % 64)));
	__sync_fetch_and_add(&nohz.nr_cpus, -1);
	__sync_fetch_and_add(&llc_of(cpu)->nr_busy_cpus, 1);
}

static __always_inline bool nohz_idle_cpu(u32 cpu)
{
	return nohz.idle_cpus_mask[cpu / 64 % (MAX_CPUS / 64)] >> (cpu % 64) & 1;
}

/* Before balancing for @cpu, which may be idle. */
static __always_inline void update_blocked_averages(u32 cpu, u64 now)
{
	update_rq_clock(cpu, now);
	update_tg_load_avg(rq_of(cpu));
	if (!tracks_util())
		return;
	update_cpu_util(cpu, now);
	update_frequency(cpu, now);
}

/* The periodic balance of @cpu, which is busy or not. */
static __always_inline bool periodic_balance(u32 cpu, enum balance_idle idle, u64 now)
{
	update_blocked_averages(cpu, now);
	rebalance_domains(cpu, idle, now);
	return true;
}

/* Has @cpu, which is busy, work for an idle one? */
static __always_inline bool nohz_kick_needed(u32 cpu, u64 jiffies)
{
	const struct fair_rq *rq = rq_of(cpu);

	if (time_before(jiffies, nohz.next_balance))
		return false;
	if (cpu_nr_running(cpu) >= 2)
		return true;
	if (levels_of(cpu)->nr_levels && rq->nr_running &&
	    check_cpu_capacity(cpu, domain_of(cpu, 0)->imbalance_pct))
		return true;
	/* Where CPUs are not alike, some may be busy and others not as long as tasks fit. */
	if (machine.asymmetric)
		return rq->misfit_task_load;
	return llc_of(cpu)->nr_busy_cpus > 1;
}

/* The first idle CPU without a tick, or -1. */
__noinline s32 find_new_ilb(void)
{
	s32 found = -1;
	int cpu;

	bpf_for(cpu, 0, nr_cpus())
		if (nohz_idle_cpu(cpu) && idle_cpu(cpu)) {
			found = cpu;
			break;
		}
	return found;
}

/* The tick of @cpu: an idle CPU is to look at all of them, if there is a reason. */
static __always_inline void nohz_balancer_kick(u32 cpu, u64 jiffies)
{
	bool balance;
	s32 ilb;

	simulated_read_global(LINE_NOHZ);
	if (!nohz.nr_cpus)
		return;
	balance = nohz_kick_needed(cpu, jiffies);
	if (!balance && !(nohz.has_blocked && time_after(jiffies, nohz.next_blocked)))
		return;
	simulated_write_global(LINE_NOHZ);
	if (balance)
		nohz.next_balance = jiffies + 1;
	ilb = find_new_ilb();
	if (ilb < 0)
		return;
	if (balance)
		rq_of(ilb)->nohz_balance_kick = true;
	if (rq_of(ilb)->nohz_stats_kick)
		return;
	rq_of(ilb)->nohz_stats_kick = true;
	this_counters()->nohz_kicks++;
	scx_bpf_kick_cpu(ilb, SCX_KICK_IDLE);
}

/* Brings the averages of idle @cpu up to date. Is there something left to decay? */
static __always_inline bool update_nohz_stats(u32 cpu, u64 now)
{
	update_blocked_averages(cpu, now);
	return rq_of(cpu)->avg.load_avg || rq_of(cpu)->avg.util_avg || cpu_util_of(cpu)->blocked;
}

/*
 * An idle CPU's work for all that idle: their averages, and with @balance their balancing, itself last, as long as
 * it has no work to run.
 */
__noinline bool nohz_idle_balance(u32 this_cpu, bool balance, u64 now)
{
	u64 jiffies = jiffies_at(now), next_balance = jiffies + 60 * jiffies_per_sec();
	bool has_blocked = false;
	u32 nr = nr_cpus();
	int i;

	nohz.has_blocked = false;
	bpf_for(i, 1, nr + 1) {
		u32 cpu = this_cpu + i < nr ? this_cpu + i : this_cpu + i - nr;
		struct fair_rq *rq = rq_of(cpu);

		if (!nohz_idle_cpu(cpu) || !idle_cpu(cpu))
			continue;
		if (!idle_cpu(this_cpu)) {
			nohz.has_blocked = true;
			return false;
		}
		has_blocked |= update_nohz_stats(cpu, now);
		if (balance && !time_before(jiffies, rq->next_balance))
			rebalance_domains(cpu, LB_IDLE, now);
		if (time_before(rq->next_balance, next_balance))
			next_balance = rq->next_balance;
	}
	nohz.next_balance = next_balance;
	nohz.next_blocked = jiffies + msecs_to_jiffies(LOAD_AVG_PERIOD);
	if (has_blocked)
		nohz.has_blocked = true;
	return true;
}

/* In ops.dispatch(): answers nohz_balancer_kick(). */
static __always_inline void nohz_answer_kick(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);
	bool balance = rq->nohz_balance_kick;

	rq->nohz_stats_kick = rq->nohz_balance_kick = false;
	if (idle_cpu(cpu))
		nohz_idle_balance(cpu, balance, now);
}

/* @cpu is about to idle, for a while by the looks of it: it may as well see to idle CPUs' averages. */
static __always_inline void nohz_newidle_balance(u32 cpu, u64 now)
{
	if (rq_of(cpu)->avg_idle < policy.sched_migration_cost || !nohz.has_blocked ||
	    time_before(jiffies_at(now), nohz.next_blocked))
		return;
	nohz_idle_balance(cpu, false, now);
}

#endif /* __EQUIPOISE_NOHZ_H */
