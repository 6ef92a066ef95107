/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Newidle balance: a CPU that runs out of work searches for more before it idles, unless no CPU has a task to spare
 * (whole_machine.overloaded), or this CPU usually idles for less time than the search takes. The fewer searches
 * succeed, the rarer they become. This is sched_balance_newidle() of Linux 7.3.
 */
#ifndef __EQUIPOISE_NEWIDLE_H
#define __EQUIPOISE_NEWIDLE_H

#include "balance.h"
#include "nohz.bpf.h"

/*
 * Counts one attempt, made or skipped, that ended at @now, in ns, with @success successes. With NI_RANDOM an
 * attempt that is made stands for skipped ones, too, so its success counts several times.
 */
static __always_inline void update_newidle_stats(struct domain_state *ds, u32 success, u64 now)
{
	u64 ratio;

	ds->newidle_call++;
	ds->newidle_success += success;
	if (ds->newidle_call < 1024)
		return;
	ratio = ds->newidle_success;
	/*
	 * Rare attempts do little harm: the ratio rises by 1/1024 for each 4 ms that 512 attempts took (NI_RATE).
	 */
	if (policy.ni_rate) {
		ratio += (now - ds->newidle_stamp) >> 22;
		if (ratio > 1024)
			ratio = 1024;
	}
	ds->newidle_stamp = now;
	ds->newidle_ratio = ratio;
	ds->newidle_call /= 2;
	ds->newidle_success /= 2;
}

/*
 * Searches @cpu's domain at @level, or skips it: about as large a share of the searches is made as succeeds.
 * *@since is the time, in ns, when the previous search ended, or when the first one began; the time since then is
 * added to *@cost. *@looked becomes true if the domain is searched.
 */
static __always_inline u32 newidle_balance_domain(u32 cpu, u32 level, u64 jiffies, u64 *since, u64 *cost,
						  bool *balance, bool *looked)
{
	struct domain_state *ds = domain_state_of(cpu, level);
	u32 weight = 1, pulled;
	u64 now, took;

	/* Linux 6.12 draws a random number even if the search is certain, which changes nothing else. */
	if (policy.ni_random && (ds->newidle_ratio < 1024 || !policy.ni_rate)) {
		weight = 1 + ds->newidle_ratio;
		if (bpf_get_prandom_u32() % 1024 > weight) {
			update_newidle_stats(ds, 0, *since);
			explain(rarely_finds, 0, cpu, domain_of(cpu, level)->weight, ds->newidle_ratio);
			return 0;
		}
		/*
		 * A successful search counts as this many successes, because it stands for searches that were
		 * skipped.
		 */
		weight = (1024 + weight / 2) / weight;
	}
	*looked = true;
	pulled = load_balance(cpu, level, LB_NEWLY_IDLE, balance);
	now = bpf_ktime_get_ns();
	took = now - *since;
	*since = now;
	*cost += took;
	update_newidle_stats(ds, pulled ? weight : 0, now);
	update_newidle_cost(ds, took, jiffies);
	return pulled;
}

/* The time, in jiffies, at which the domain of @cpu at @level is due for an idle CPU. */
static __always_inline u64 idle_balance_due(u32 cpu, u32 level)
{
	struct domain_state *ds = domain_state_of(cpu, level);

	return ds->last_balance + domain_interval(domain_of(cpu, level), ds, false);
}

/* Makes @rq, which is now idle, balance no later than at @next_balance, in jiffies. */
static __always_inline void advance_next_balance(struct fair_rq *rq, u64 next_balance)
{
	if (time_after(rq->next_balance, next_balance))
		rq->next_balance = next_balance;
}

static __always_inline u64 earlier(u64 a, u64 b)
{
	return time_before(a, b) ? a : b;
}

/*
 * @cpu, which has nothing to run, searches its domains. Returns the number of tasks that it has pulled or, if none,
 * that have arrived in the meantime.
 */
__noinline u32 newidle_balance(u32 cpu, u64 now)
{
	forget_origin(cpu);
	forget_origin(now);
	u64 jiffies = jiffies_at(now), next_balance = jiffies + jiffies_per_sec(), cost = 0, since = now;
	u32 nr_levels = levels_of(cpu)->nr_levels, pulled = 0;
	struct fair_rq *rq = rq_of(cpu);
	bool balance = true, looked = false;
	int level;

	update_blocked_averages(cpu, now);
	bpf_for(level, 0, nr_levels) {
		next_balance = earlier(next_balance, idle_balance_due(cpu, level));
		if (rq->avg_idle < cost + domain_state_of(cpu, level)->max_newidle_lb_cost) {
			explain(idle_too_short, 0, cpu, rq->avg_idle,
				cost + domain_state_of(cpu, level)->max_newidle_lb_cost);
			break;
		}
		if (domain_of(cpu, level)->flags & SD_BALANCE_NEWIDLE)
			pulled = newidle_balance_domain(cpu, level, jiffies, &since, &cost, &balance, &looked);
		if (pulled || !balance)
			break;
	}
	if (cost > rq->max_idle_balance_cost)
		rq->max_idle_balance_cost = cost;
	advance_next_balance(rq, next_balance);
	if (looked)
		this_counters()->newidle_calls++;
	else
		this_counters()->newidle_limited++;
	this_counters()->newidle_ns += cost;
	this_counters()->newidle_pulled += pulled;
	if (!pulled)
		explain(found_none, 0, cpu);
	return pulled ? pulled : rq->nr_running;
}

static __always_inline void idle_balance(u32 cpu, u64 now)
{
	struct fair_rq *rq = rq_of(cpu);

	rq->misfit_task_load = 0;
	rq->idle_stamp = now;
	if (!levels_of(cpu)->nr_levels)
		return;
	if (!whole_machine.overloaded || rq->avg_idle < rq->sd[0].max_newidle_lb_cost) {
		this_counters()->newidle_skipped++;
		if (whole_machine.overloaded)
			explain(idle_too_short, 0, cpu, rq->avg_idle, rq->sd[0].max_newidle_lb_cost);
		else
			explain(none_overloaded, 0, cpu);
		advance_next_balance(rq, earlier(jiffies_at(now) + jiffies_per_sec(), idle_balance_due(cpu, 0)));
	} else if (newidle_balance(cpu, now)) {
		rq->idle_stamp = 0;
		return;
	}
	nohz_newidle_balance(cpu, now);
}

/*
 * Moves the average idle time of @rq, on which a task wakes up, an eighth of the way to the last idle time, up to a
 * limit.
 */
static __always_inline void update_avg_idle(struct fair_rq *rq, u64 now)
{
	u64 max = 2 * rq->max_idle_balance_cost;

	if (!rq->idle_stamp)
		return;
	rq->avg_idle += (s64)(now - rq->idle_stamp - rq->avg_idle) >> 3;
	if (rq->avg_idle > max)
		rq->avg_idle = max;
	rq->idle_stamp = 0;
}

#endif /* __EQUIPOISE_NEWIDLE_H */
