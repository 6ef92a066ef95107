/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPU time that a control group may use: cpu.max and cpu.max.burst (Documentation/scheduler/sched-bwc.rst).
 * Each period adds the quota; the time that is left at the end of a period is kept, up to the burst. A CPU notices
 * only at a tick or a switch that no time is left, so a group may overdraw its quota. Later periods pay the
 * overdraft back, so that over many periods the group gets exactly its quota.
 *
 *	left
 *	quota + burst ----------------------------------  a refill adds no more than up to here
 *	                  \         .\
 *	                   \       .  \
 *	            0 ------\-----.----\----------------  the group is throttled below
 *	                     \...'      \...
 *	      - owed ------------------------------------  a refill forgives what is below
 *	              |---- period ---|---- period ---|
 *
 * This file uses no kfuncs, so that the tests can run it natively, with threads.
 */
#ifndef __EQUIPOISE_BANDWIDTH_H
#define __EQUIPOISE_BANDWIDTH_H

#include <scx/common.bpf.h>

#include "../intf.h"

/*
 * The longest time for which an overdraft keeps a group throttled, in ns, for the reason of LONGEST_WAIT (place.h).
 * On 64 CPUs, a group with a quota of 1 ms a second can overdraw it by 256 ms between two ticks, if these are 4 ms
 * apart.
 */
#define LONGEST_DEBT (10ULL * 1000 * 1000 * 1000)

struct bandwidth {
	/* In ns; if the period is 0, there is no limit. */
	u64 period;
	u64 quota;
	u64 burst;
	/* CPU time that may still be used, in ns. */
	s64 left;
	/* The end of the current period, in ns. */
	u64 period_end;
} __attribute__((aligned(64)));

static __always_inline bool is_limited(const struct bandwidth *b)
{
	return READ_ONCE(b->period);
}

static __always_inline bool has_run_out(const struct bandwidth *b)
{
	return is_limited(b) && READ_ONCE(b->left) <= 0;
}

/*
 * Starts a limit at the time @now, with a full quota. A quota that exceeds what all CPUs can use is cut to that, so
 * that no sum overflows.
 */
static __always_inline void begin_bandwidth(struct bandwidth *b, u64 period_us, u64 quota_us, u64 burst_us, u64 now)
{
	u64 period = period_us * 1000;
	u64 most_us = period_us * MAX_CPUS;

	WRITE_ONCE(b->quota, (quota_us < most_us ? quota_us : most_us) * 1000);
	WRITE_ONCE(b->burst, (burst_us < most_us ? burst_us : most_us) * 1000);
	WRITE_ONCE(b->left, b->quota);
	WRITE_ONCE(b->period_end, now + period);
	WRITE_ONCE(b->period, period);
}

/* The change of @left when @periods periods of @period ns begin. */
static __always_inline s64 refill_of(const struct bandwidth *b, u64 period, s64 left, u64 periods)
{
	u64 quota = READ_ONCE(b->quota);
	s64 most = quota + READ_ONCE(b->burst), least = -(s64)(LONGEST_DEBT / period * quota), refilled;
	/* After this many periods the account is surely full, because the kernel bounds the burst by the quota. */
	u64 enough = LONGEST_DEBT / period + 2;

	refilled = left > least ? left : least;
	refilled += (periods < enough ? periods : enough) * quota;
	return (refilled < most ? refilled : most) - left;
}

/* Adds the quota of each period that has begun by @now. Only one CPU does so for each period. */
static __always_inline void refill_bandwidth(struct bandwidth *b, u64 now)
{
	u64 end = READ_ONCE(b->period_end), period = READ_ONCE(b->period), periods;

	if (!period || (s64)(now - end) < 0)
		return;
	periods = (now - end) / period + 1;
	if (__sync_val_compare_and_swap(&b->period_end, end, end + periods * period) == end)
		__sync_fetch_and_add(&b->left, refill_of(b, period, READ_ONCE(b->left), periods));
}

/* Charges @ran ns of running time. Returns true only to the caller that used up the last of the group's time. */
static __always_inline bool spend_bandwidth(struct bandwidth *b, u64 ran)
{
	s64 left = __sync_fetch_and_add(&b->left, -(s64)ran);

	return left > 0 && left <= (s64)ran;
}

#endif /* __EQUIPOISE_BANDWIDTH_H */
