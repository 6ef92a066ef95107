/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Newidle balance: a CPU that runs out of work searches for more before it idles, unless it usually idles for less
 * time than a migration costs. This is idle_balance() of Linux 3.9.
 */
#ifndef __EQUIPOISE_NEWIDLE_H
#define __EQUIPOISE_NEWIDLE_H

#include "balance.h"

/* @rq runs out of work at @now: is a search worthwhile? */
static __always_inline bool newidle_wanted(struct fair_rq *rq, u64 now)
{
	rq->idle_stamp = now;
	if (rq->avg_idle < tunables.sched_migration_cost) {
		this_counters()->newidle_skipped++;
		explain(idle_too_short, 0, bpf_get_smp_processor_id(), rq->avg_idle, tunables.sched_migration_cost);
		return false;
	}
	if (hook_newidle_limited(rq, now)) {
		this_counters()->newidle_limited++;
		return false;
	}
	return true;
}

/* @cpu, which has nothing to run, searches its domains. Returns the number of pulled tasks. */
__noinline u32 newidle_balance(u32 cpu, u64 now)
{
	u64 jiffies = jiffies_at(now), next_balance = jiffies + jiffies_per_sec(), began;
	u32 nr_levels = levels_of(cpu)->nr_levels, pulled = 0;
	struct fair_rq *rq = rq_of(cpu);
	bool balance = true, balanced = false;
	int level;

	this_counters()->newidle_calls++;
	began = bpf_ktime_get_ns();
	update_tg_load_avg(rq, now);
	if (group_queues())
		update_blocked_groups(cpu, now);

	bpf_for(level, 0, nr_levels) {
		struct domain_state *ds = domain_state_of(cpu, level);
		struct domain *sd = domain_of(cpu, level);
		u64 due;

		if (!load_balanced(sd))
			continue;
		balanced = true;
		if (sd->flags & SD_BALANCE_NEWIDLE)
			pulled = load_balance(cpu, level, LB_NEWLY_IDLE, now, &balance);
		due = ds->last_balance + msecs_to_jiffies(ds->balance_interval);
		if (time_before(due, next_balance))
			next_balance = due;
		if (pulled) {
			rq->idle_stamp = 0;
			this_counters()->newidle_pulled += pulled;
			break;
		}
	}
	this_counters()->newidle_ns += bpf_ktime_get_ns() - began;
	/*
	 * A due time that was set while the CPU was busy is too late for an idle CPU. If no domain has a due time,
	 * Linux 3.9 waits for a second, but later versions do not. This code does not wait, either, because work
	 * between clusters would wait, too.
	 */
	if (balanced && (pulled || time_before(rq->next_balance, jiffies)))
		rq->next_balance = next_balance;
	return pulled;
}

/* Balances for @cpu, which has nothing to run. */
static __always_inline void idle_balance(u32 cpu, u64 now)
{
	bool wanted = newidle_wanted(rq_of(cpu), now);

	if (wanted && newidle_balance(cpu, now))
		return;
	if (wanted)
		explain(found_none, 0, cpu);
	hook_idle_balance(cpu, wanted, now);
}

/*
 * Moves the average idle time of @rq, on which a task wakes up, an eighth of the way to the last idle time; a last
 * idle time beyond the limit makes the average the limit.
 */
static __always_inline void update_avg_idle(struct fair_rq *rq, u64 now)
{
	u64 max = 2 * tunables.sched_migration_cost, delta;

	if (!rq->idle_stamp)
		return;
	delta = now - rq->idle_stamp;
	if (delta > max)
		rq->avg_idle = max;
	else
		rq->avg_idle += (s64)(delta - rq->avg_idle) >> 3;
	rq->idle_stamp = 0;
}

#endif /* __EQUIPOISE_NEWIDLE_H */
