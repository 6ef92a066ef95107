/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual time: what a task has had, by its weight. A queue's clock is the virtual time at which the latest of its
 * tasks started to run (start-time fair queueing: P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queuing", SIGCOMM
 * 1996). How far a task is behind that clock is its lag: what the others have had and it has not.
 *
 *	        clock - behind            clock              clock + ahead
 *	  ------------|---------------------|---------------------|------------> virtual time
 *	   owed too   |     owed a turn     |     had its turn    |  charged too
 *	   much: cut  |                     |                     |  much: cut
 *
 * bound_vtime() is the only place where virtual time is given or taken other than by running. Without kfuncs, so
 *that the tests run it natively.
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

/* @vtime, or the nearest that is at most @behind behind @clock, and at most @ahead ahead of it. Either may be
 * negative. */
static __always_inline u64 bound_vtime(u64 vtime, u64 clock, s64 behind, s64 ahead)
{
	s64 lag = clock - vtime;

	if (lag > behind)
		return clock - behind;
	return -lag > ahead ? clock + ahead : vtime;
}

/*
 * How far behind the clock a task may be when it wakes up. It keeps the lag that it went to sleep with: a task that
 * sleeps for 20 us after each 200 us would else lose what it is owed each time, and get a fraction of its share. A
 * task that was owed less is owed @sleeper: it comes before those that ran meanwhile, and is not owed all of its
 * sleep. Never more than @most.
 */
static __always_inline s64 sleeper_behind(s64 lag, s64 sleeper, s64 most)
{
	s64 behind = lag > sleeper ? lag : sleeper;

	return behind < most ? behind : most;
}

/*
 * How far ahead of the clock it may be then: as far as it was when it went to sleep, in a cluster whose clock may
 * have been another's. Between clusters of different speed it is @apart more, as equal progress is kept there by
 * comparing virtual times.
 */
static __always_inline s64 sleeper_ahead(s64 lag, s64 apart)
{
	return (lag < 0 ? -lag : 0) + apart;
}

#endif /* __EQUIPOISE_VTIME_H */
