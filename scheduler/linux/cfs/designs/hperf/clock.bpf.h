/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine-wide virtual time of policy hperf. The clock is our addition: in the posting, only swaps by druntime
 * make shares equal.
 *
 * A vruntime is meaningful on its own runqueue only. If there are more tasks than CPUs, some tasks have a CPU of
 * their own and others share one, and a task that changes CPUs takes along only its lead or lag on the old CPU. If
 * tasks change places all the time, chance decides how often each comes to a shared CPU. Therefore each task's
 * share of all CPUs is compared with a clock. The clock advances as the vruntime of a task would if all CPUs were
 * shared by weight. A task that is behind the clock when it moves gets a head start, within limits.
 *
 * Druntime needs a clock, too. If there are fewer or more slow CPUs than fast ones, and all are busy, the druntime
 * of every task grows or shrinks with time. A task that began with 0, or slept meanwhile, would have to catch up
 * before it could leave the fast or the slow CPUs. A new task therefore begins with the druntime that an equal
 * share would have given it, and a sleeping task loses and gains nothing.
 */
#ifndef __EQUIPOISE_HPERF_CLOCK_H
#define __EQUIPOISE_HPERF_CLOCK_H

#include "../../../../topology.bpf.h"

/* The longest time that counts between two updates, in ns. */
#define HPERF_CLOCK_MAX_DELTA NSEC_PER_SEC

struct hperf_clock {
	u64 time;
	/* The druntime of a task that has had its share of all CPUs from the start, in ns. */
	s64 druntime;
	/* The time until which this druntime has been counted, in ns. */
	u64 updated;
};

struct hperf_clock hperf_clock;

/*
 * Advances the clock, given the present numbers of CPUs with tasks and the total @load of these tasks. Only one
 * caller may do so at a time.
 */
static __always_inline void update_hperf_clock(u64 nr_fast, u64 nr_slow, u64 load, u64 now)
{
	u64 delta = now - hperf_clock.updated;

	if ((s64)delta <= 0)
		return;
	if (delta > HPERF_CLOCK_MAX_DELTA)
		delta = HPERF_CLOCK_MAX_DELTA;
	if (load) {
		hperf_clock.time += delta * (nr_fast + nr_slow) * NICE_0_LOAD / load;
		if (nr_fast >= nr_slow)
			hperf_clock.druntime += delta * (nr_fast - nr_slow) * NICE_0_LOAD / load;
		else
			hperf_clock.druntime -= delta * (nr_slow - nr_fast) * NICE_0_LOAD / load;
	}
	hperf_clock.updated = now;
}

/* How far @vruntime, over all CPUs, is ahead of the clock, in ns, limited to a latency in both directions. */
static __always_inline s64 hperf_ahead(u64 vruntime)
{
	s64 ahead = vruntime - READ_ONCE(hperf_clock.time), limit = tunables.sched_latency;

	if (ahead > limit)
		return limit;
	return ahead < -limit ? -limit : ahead;
}

#endif /* __EQUIPOISE_HPERF_CLOCK_H */
