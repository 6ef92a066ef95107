/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policy hperf's virtual time, one for all CPUs. It is not in the posting, of whose fairness it is our part: there
 * equal shares come of swaps by druntime alone.
 *
 * The same goes for druntime. Where there are fewer slow CPUs than fast ones, or more, and all are busy,
 * everybody's grows or shrinks with time. A task that began with 0, or slept meanwhile, would have to catch up
 * before it left the fast CPUs, or the slow ones. So a new task begins where an equal share would have come to, and
 * who slept has lost and gained nothing.
 *
 * A vruntime means something on its own runqueue alone. With more tasks than CPUs some have a CPU to
 * themselves and others share one, and whoever changes CPUs starts with a clean slate. Where tasks change
 * places all the time, it is then left to chance how often each comes to a CPU that it has to share. So
 * each task's share of all CPUs is compared to a clock that goes as fast as a task's vruntime would if
 * everything was shared by weight, and who is behind on moving gets a head start, within limits.
 */
#ifndef __EQUIPOISE_HPERF_CLOCK_H
#define __EQUIPOISE_HPERF_CLOCK_H

#include "../../../topology.bpf.h"

/* The longest time that passes between two updates, ns. */
#define HPERF_CLOCK_MAX_DELTA NSEC_PER_SEC

struct hperf_clock {
	u64 time;
	/* The druntime of a task that had its share of all CPUs from the start, ns. */
	s64 druntime;
	/* Until when it has been counted, ns. */
	u64 updated;
};

struct hperf_clock hperf_clock;

/* Since the last time so many CPUs had something to run, of weight @load together. One caller at a time. */
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

/* How far @vruntime, of all CPUs, is ahead of the clock; at most a latency either way, ns. */
static __always_inline s64 hperf_ahead(u64 vruntime)
{
	s64 ahead = vruntime - READ_ONCE(hperf_clock.time), limit = tunables.sched_latency;

	if (ahead > limit)
		return limit;
	return ahead < -limit ? -limit : ahead;
}

#endif /* __EQUIPOISE_HPERF_CLOCK_H */
