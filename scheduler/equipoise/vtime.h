/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual time: the work that a task has received, divided by its weight. A queue's clock is the
 * virtual time at which the task that started last began to run (start-time fair queueing: P.
 * Goyal, H. Vin, H. Cheng, "Start-time Fair Queuing", SIGCOMM 1996). A task's lag is its distance
 * behind that clock: how much more virtual time the others have received.
 *
 *	        clock - behind            clock              clock + ahead
 *	  ------------|---------------------|---------------------|------------> virtual time
 *	   owed too   |     owed a slice    |     used its slice  |  charged too
 *	   much: cut  |                     |                     |  much: cut
 *
 * bound_vtime() is the only place where virtual time changes other than by running. This file uses
 * no kfuncs, so that the tests can run it natively.
 */
#ifndef __EQUIPOISE_VTIME_H
#define __EQUIPOISE_VTIME_H

#include <scx/common.bpf.h>

/* No task: more than any virtual time. */
#define NO_VTIME ~0ULL
/* No bound: more than any difference of two virtual times. */
#define UNBOUNDED (1LL << 62)

static __always_inline bool is_before(u64 a, u64 b)
{
	return b == NO_VTIME ? a != NO_VTIME : a != NO_VTIME && (s64)(a - b) < 0;
}

/*
 * @vtime, or the nearest value at most @behind behind @clock and at most @ahead ahead of it. Both
 * may be negative.
 */
static __always_inline u64 bound_vtime(u64 vtime, u64 clock, s64 behind, s64 ahead)
{
	s64 lag = clock - vtime;

	if (lag > behind)
		return clock - behind;
	return -lag > ahead ? clock + ahead : vtime;
}

/*
 * How far behind the clock a task may be when it wakes up. It keeps the lag with which it went to
 * sleep: otherwise a task that sleeps for 20 us after each 200 us would lose its lag each time and
 * get a fraction of its share. A task with less lag than @sleeper gets @sleeper: it comes before
 * the tasks that ran meanwhile, but is not owed the whole time that it slept. The result is never
 * more than @most.
 */
static __always_inline s64 sleeper_behind(s64 lag, s64 sleeper, s64 most)
{
	s64 behind = lag > sleeper ? lag : sleeper;

	return behind < most ? behind : most;
}

/*
 * How far ahead of the clock it may then be: as far as when it went to sleep, in a cluster whose
 * clock may have been a different one. Between clusters of different speed it may be @apart more,
 * because equal progress is kept there by comparing virtual times.
 */
static __always_inline s64 sleeper_ahead(s64 lag, s64 apart)
{
	return (lag < 0 ? -lag : 0) + apart;
}

#endif /* __EQUIPOISE_VTIME_H */
