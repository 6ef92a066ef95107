/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of the CPU time of control groups (cpu.max); a group is also within the limits of those above it. A group
 * that has used up its time is throttled until a new period begins: its tasks are held back (held.h), and it does
 * not count in its parent group.
 *
 * The start of a period is noticed when a task of the group is charged, so a group's timer runs only while the
 * group is throttled. If no group has a limit, the cost is a read of nr_limits for each charge, and a read of
 * nr_throttled wherever a task could be held back.
 */
#ifndef __EQUIPOISE_THROTTLE_H
#define __EQUIPOISE_THROTTLE_H

#include "../timers.bpf.h"
#include "../verifier.h"
#include "bandwidth.h"
#include "share.bpf.h"

/* Indexed by the group's share. */
struct bandwidth limits[MAX_SHARES];
/* The number of groups that have a limit, and of those that are throttled. */
u32 nr_limits __attribute__((aligned(64)));
u32 nr_throttled;

/* Also indexed by the group's share. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SHARES);
	__type(key, u32);
	__type(value, struct scheduler_timer);
} refills SEC(".maps");

static __always_inline struct bandwidth *limit_at(u32 share)
{
	return &limits[share & (MAX_SHARES - 1)];
}

/* The nearest throttled group, from @share upwards; 0: none is throttled. */
__noinline u32 throttled_by(u32 share)
{
	forget_origin(share);
	while (share && !READ_ONCE(share_at(share)->held) && can_loop)
		share = share_at(share)->parent;
	return share;
}

/* Starts the timer of @share, to expire in @delay ns. */
static __always_inline void start_refill(u32 share, u64 delay)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(&refills, &share);

	if (timer)
		bpf_timer_start(&timer->timer, delay, 0);
}

/* The time until the next period of @b begins, in ns. */
static __always_inline u64 until_refill(const struct bandwidth *b, u64 now)
{
	s64 delay = READ_ONCE(b->period_end) - now;

	return delay > 0 ? delay : 0;
}

/* Throttles the group @share or lets it run again. Returns false if it was in that state before. */
__noinline bool hold_share(u32 share, u32 held)
{
	forget_origin(share);
	struct share *s = share_at(share);

	if (__sync_lock_test_and_set(&s->held, held) == held)
		return false;
	__sync_fetch_and_add(&nr_throttled, held ? 1 : -1);
	add_runnable(s->parent, settle_share(share), 0);
	return true;
}

/* Charges @ran ns of running time of a task in the group @share to all limits that apply to it. */
__noinline int charge_limits(u32 share, u64 ran)
{
	u64 now = bpf_ktime_get_ns();

	forget_origin(share);
	while (share && can_loop) {
		struct bandwidth *b = limit_at(share);

		if (is_limited(b)) {
			refill_bandwidth(b, now);
			if (spend_bandwidth(b, ran) && hold_share(share, 1)) {
				this_counters()->throttled++;
				start_refill(share, until_refill(b, now));
			}
		}
		share = share_at(share)->parent;
	}
	return share;
}

/*
 * The timer of the throttled group @share: the group may run again if the new period gives it time, or if it no
 * longer has a limit. Check again afterwards: another CPU may have used up the new time before the group was
 * released, and found it still throttled.
 */
static __always_inline void refill_share(u32 share)
{
	struct bandwidth *b = limit_at(share);
	u64 now = bpf_ktime_get_ns();

	refill_bandwidth(b, now);
	if (!has_run_out(b))
		hold_share(share, 0);
	if (!has_run_out(b))
		return;
	hold_share(share, 1);
	start_refill(share, until_refill(b, now));
}

/* A quota of ~0 means no limit. A new limit starts with a full quota, and no task waits for the old one. */
static __always_inline void limit_share(u32 share, u64 period_us, u64 quota_us, u64 burst_us)
{
	struct bandwidth *b = limit_at(share);
	bool was_limited = is_limited(b), limited = period_us && quota_us != ~0ULL;

	if (limited)
		begin_bandwidth(b, period_us, quota_us, burst_us, bpf_ktime_get_ns());
	else
		WRITE_ONCE(b->period, 0);
	if (limited != was_limited)
		__sync_fetch_and_add(&nr_limits, limited ? 1 : -1);
	if (READ_ONCE(share_at(share)->held))
		start_refill(share, 0);
}

/* The group @share has been removed. */
static __always_inline void forget_limit(u32 share)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(&refills, &share);

	limit_share(share, 0, ~0ULL, 0);
	hold_share(share, 0);
	if (timer)
		bpf_timer_cancel(&timer->timer);
}

#endif /* __EQUIPOISE_THROTTLE_H */
