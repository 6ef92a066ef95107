/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balancing for CPUs without a tick. A busy CPU whose tick finds a reason kicks an idle CPU, which then balances
 * for all idle CPUs, or only updates their averages. This is nohz_balancer_kick() and nohz_idle_balance() of Linux
 * 7.3.
 */
#ifndef __EQUIPOISE_NOHZ_H
#define __EQUIPOISE_NOHZ_H

#include "../../../kick.bpf.h"
#include "../../nohz.bpf.h"
#include "../../../signals/frequency.bpf.h"
#include "balance.h"

/* The requests to an idle CPU: rq->nohz_kick. */
#define NOHZ_BALANCE_KICK 0x1
#define NOHZ_STATS_KICK 0x2
#define NOHZ_NEXT_KICK 0x4

/* The pending work for idle CPUs, besides balancing. */
struct nohz_update {
	/* Whether idle CPUs have averages that still decay, and the time of the next update, in jiffies. */
	bool has_blocked;
	u64 next_blocked;
	/* Whether another CPU has become idle, whose due time must count in nohz.next_balance. */
	bool next_balance;
};

struct nohz_update nohz_update;

/* Stops the tick of @cpu, which goes idle. */
static __always_inline void nohz_balance_enter_idle(u32 cpu)
{
	rq_of(cpu)->has_blocked_load = true;
	if (nohz_stop_tick(cpu)) {
		__sync_fetch_and_add(&llc_of(cpu)->nr_busy_cpus, -1);
		nohz_update.next_balance = true;
	}
	nohz_update.has_blocked = true;
}

/* Handles a tick of @cpu, which is no longer idle. */
static __always_inline void nohz_balance_exit_idle(u32 cpu)
{
	if (nohz_start_tick(cpu))
		__sync_fetch_and_add(&llc_of(cpu)->nr_busy_cpus, 1);
}

/* Updates the averages of @cpu, which may be idle, before balancing for it. */
static __always_inline void update_blocked_averages(u32 cpu, u64 now)
{
	rq_of(cpu)->last_blocked_load_update = jiffies_at(now);
	update_rq_clock(cpu, now);
	if (has_groups && nr_fair_groups)
		update_blocked_groups(cpu);
	update_tg_load_avg(rq_of(cpu));
	if (!tracks_util())
		return;
	update_cpu_util(cpu, now);
	if (may_ask_for(cpu))
		update_frequency(cpu, now);
	else
		see_to_idle_cpus(bpf_get_smp_processor_id(), now);
}

/* The periodic balance of @cpu, busy or idle. */
static __always_inline bool periodic_balance(u32 cpu, enum balance_idle idle, u64 now)
{
	update_blocked_averages(cpu, now);
	rebalance_domains(cpu, idle, jiffies_at(now));
	return true;
}

/* Is there an idle CPU without a tick that should take the work of @cpu? */
__noinline bool preferred_cpu_idles(u32 cpu)
{
	forget_origin(cpu);
	const struct domain *sd = NULL;
	bool found = false;
	int i;

	bpf_for(i, 0, levels_of(cpu)->nr_levels)
		if (domain_of(cpu, i)->flags & SD_ASYM_PACKING)
			sd = domain_of(cpu, i);
	if (!sd)
		return false;
	bpf_for(i, 0, sd->weight) {
		u32 other = domain_cpu(sd, i);

		if (nohz_idle_cpu(other) && sched_asym(sd, other, cpu)) {
			found = true;
			break;
		}
	}
	return found;
}

/* Does @cpu, which is busy, have work for an idle CPU? */
static __always_inline bool nohz_kick_needed(u32 cpu, u64 jiffies)
{
	const struct fair_rq *rq = rq_of(cpu);

	if (time_before(jiffies, nohz.next_balance))
		return false;
	if (cpu_nr_running(cpu) >= 2)
		return true;
	if (levels_of(cpu)->nr_levels && balanced_nr_running(cpu) &&
	    check_cpu_capacity(cpu, domain_of(cpu, 0)->imbalance_pct))
		return true;
	if (preferred_cpu_idles(cpu))
		return true;
	/* With heterogeneous capacities, some CPUs may be busy while others idle, as long as tasks fit. */
	if (machine.asymmetric)
		return rq->misfit_task_load;
	return llc_of(cpu)->nr_busy_cpus > 1;
}

/* The first idle CPU without a tick, preferably of a fully idle core; -1 if there is none. */
__noinline s32 find_new_ilb(void)
{
	u32 this_cpu = bpf_get_smp_processor_id();
	s32 found = -1;
	int cpu;

	bpf_for(cpu, 0, nr_cpus())
		if (cpu != (int)this_cpu && nohz_idle_cpu(cpu) && idle_cpu(cpu)) {
			if (policy.ilb_idle_core && !is_core_idle(cpu)) {
				if (found < 0)
					found = cpu;
				continue;
			}
			found = cpu;
			break;
		}
	return found;
}

/* Makes an idle CPU serve all idle CPUs (@flags of nohz_idle_balance()), if a tick of @cpu finds a reason. */
static __always_inline void nohz_balancer_kick(u32 cpu, u64 jiffies)
{
	u32 flags = 0, old;
	s32 ilb;

	simulated_read_global(LINE_NOHZ);
	if (!nohz.nr_cpus)
		return;
	if (nohz_kick_needed(cpu, jiffies))
		flags = NOHZ_STATS_KICK | NOHZ_BALANCE_KICK;
	else if (nohz_update.has_blocked && time_after(jiffies, nohz_update.next_blocked))
		flags = NOHZ_STATS_KICK;
	if (nohz_update.next_balance)
		flags |= NOHZ_NEXT_KICK;
	if (!flags)
		return;
	simulated_write_global(LINE_NOHZ);
	if (flags & NOHZ_BALANCE_KICK)
		nohz.next_balance = jiffies + 1;
	ilb = find_new_ilb();
	if (ilb < 0)
		return;
	old = __sync_fetch_and_or(&rq_of(ilb)->nohz_kick, flags);
	if (old)
		return;
	this_counters()->nohz_kicks++;
	kick_cpu(ilb, SCX_KICK_IDLE);
}

/* Updates the averages of idle @cpu, once per tick. Returns whether any of these averages still decays. */
__noinline bool update_nohz_stats(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	if (!rq->has_blocked_load)
		return false;
	if (time_after(jiffies_at(now), rq->last_blocked_load_update)) {
		update_blocked_averages(cpu, now);
		rq->has_blocked_load = rq->avg.load_avg || rq->avg.util_avg || cpu_util_of(cpu)->blocked;
	}
	return rq->has_blocked_load;
}

/*
 * The work that an idle CPU does for all idle CPUs, for itself last, as long as it has nothing to run. By @flags it
 * updates their averages (NOHZ_STATS_KICK), balances for them (NOHZ_BALANCE_KICK), and updates their due times
 * (NOHZ_NEXT_KICK).
 */
__noinline bool nohz_idle_balance(u32 this_cpu, u32 flags, u64 now)
{
	forget_origin(this_cpu);
	forget_origin(flags);
	forget_origin(now);
	u64 jiffies = jiffies_at(now), next_balance = 0;
	u32 nr = nr_cpus();
	int i;

	if (flags & NOHZ_STATS_KICK)
		nohz_update.has_blocked = false;
	if (flags & NOHZ_NEXT_KICK)
		nohz_update.next_balance = false;
	bpf_for(i, 1, nr + 1) {
		u32 cpu = this_cpu + i < nr ? this_cpu + i : this_cpu + i - nr;
		struct fair_rq *rq = rq_of(cpu);

		if (!nohz_idle_cpu(cpu) || !idle_cpu(cpu))
			continue;
		if (!idle_cpu(this_cpu)) {
			if (flags & NOHZ_STATS_KICK)
				nohz_update.has_blocked = true;
			if (flags & NOHZ_NEXT_KICK)
				nohz_update.next_balance = true;
			return false;
		}
		if (flags & NOHZ_STATS_KICK && update_nohz_stats(cpu, now))
			nohz_update.has_blocked = true;
		if (flags & NOHZ_BALANCE_KICK && !time_before(jiffies, rq->next_balance))
			rebalance_domains(cpu, LB_IDLE, jiffies);
		if (!next_balance || time_before(rq->next_balance, next_balance))
			next_balance = rq->next_balance;
	}
	if (next_balance)
		nohz.next_balance = next_balance;
	if (flags & NOHZ_STATS_KICK)
		nohz_update.next_blocked = jiffies + msecs_to_jiffies(LOAD_AVG_PERIOD);
	return true;
}

/* Answers nohz_balancer_kick(), in ops.dispatch(). */
static __always_inline void nohz_answer_kick(u32 cpu, u64 now)
{
	u32 flags = __sync_fetch_and_and(&rq_of(cpu)->nohz_kick, 0);

	if (idle_cpu(cpu))
		nohz_idle_balance(cpu, flags, now);
}

/* Updates the averages of idle CPUs when @cpu is about to idle, probably for some time. */
static __always_inline void nohz_newidle_balance(u32 cpu, u64 now)
{
	if (rq_of(cpu)->avg_idle < tunables.sched_migration_cost || !nohz_update.has_blocked ||
	    time_before(jiffies_at(now), nohz_update.next_blocked))
		return;
	nohz_idle_balance(cpu, NOHZ_STATS_KICK, now);
}

#endif /* __EQUIPOISE_NOHZ_H */
