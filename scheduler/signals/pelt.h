/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Per-entity load tracking.
 *
 * Time is divided into periods of 1024 us (here, as in the kernel, a "us" is 1024 ns). The activity
 * of an entity i periods ago counts y^i, where y^32 = 1/2:
 *
 *	sum = u_0 + u_1 * y + u_2 * y^2 + ...		0 <= u_i <= 1024
 *
 * The state is a sum and the elapsed part of the current period. When d us have passed and with
 * them p period boundaries,
 *
 *	 d1          d2           d3
 *	 ^           ^            ^
 *	 |           |            |
 *	|<->|<----------------->|<--->|
 *	... |---x---|------| ... |-----|-----x (now)
 *
 * the sum so far decays by y^p, the rest of the old period (d1) too, the p - 1 full periods make a
 * geometric series, and the part of the current period (d3) counts in full:
 *
 *	sum' = (sum + d1) y^p + 1024 (y + ... + y^(p-1)) + d3
 *
 * Because the infinite series, 1024 (1 + y + y^2 + ...), is LOAD_AVG_MAX,
 *
 *	1024 (y + ... + y^(p-1)) = LOAD_AVG_MAX - LOAD_AVG_MAX y^p - 1024
 */
#ifndef __EQUIPOISE_PELT_H
#define __EQUIPOISE_PELT_H

#define LOAD_AVG_PERIOD 32
/* The kernel's limit of the series, from arithmetic that rounds down; 1024 / (1 - y) is 47788.1. */
#define LOAD_AVG_MAX 47742

/* The activity of an entity (task, runqueue), as three sums over the same periods. */
struct pelt {
	/* The time of the last update, in ns. */
	u64 last_update_time;
	/* The elapsed part of the current period, 0..1023 us. */
	u32 period_contrib;
	/* All time since the entity was created. */
	u32 period_sum;
	/* The time for which the entity was runnable: waiting or running. */
	u32 runnable_sum;
	/* The time for which the entity was running. */
	u32 running_sum;
};

/* y^n for n < 32, in units of 2^-32: floor((2^32 - 1) * y^n). */
static const u32 pelt_y_inv[LOAD_AVG_PERIOD] = {
	0xffffffff, 0xfa83b2da, 0xf5257d14, 0xefe4b99a, 0xeac0c6e6, 0xe5b906e6, 0xe0ccdeeb, 0xdbfbb796,
	0xd744fcc9, 0xd2a81d91, 0xce248c14, 0xc9b9bd85, 0xc5672a10, 0xc12c4cc9, 0xbd08a39e, 0xb8fbaf46,
	0xb504f333, 0xb123f581, 0xad583ee9, 0xa9a15ab4, 0xa5fed6a9, 0xa2704302, 0x9ef5325f, 0x9b8d39b9,
	0x9837f050, 0x94f4efa8, 0x91c3d373, 0x8ea4398a, 0x8b95c1e3, 0x88980e80, 0x85aac367, 0x82cd8698,
};

/* @val * y^@n, for @val below 2^32. */
static __always_inline u64 decay_load(u64 val, u64 n)
{
	if (n >= LOAD_AVG_PERIOD * 32)
		return 0;
	val >>= n / LOAD_AVG_PERIOD;
	return val * pelt_y_inv[n & (LOAD_AVG_PERIOD - 1)] >> 32;
}

/* The amount that the time which has passed over @periods boundaries adds to the sum, with @d1 and @d3 as above. */
static __always_inline u32 pelt_contrib(u64 periods, u32 d1, u32 d3)
{
	return decay_load(d1, periods) + LOAD_AVG_MAX - decay_load(LOAD_AVG_MAX, periods) - 1024 + d3;
}

/*
 * Updates @sa to @now. Since the last update the entity was runnable or not, and running or not, on a CPU whose
 * time counts @scale / 1024 (its frequency, relative to the highest). Returns true if a period boundary was
 * crossed, so that an average should be recomputed.
 */
static __always_inline bool update_pelt_scaled(struct pelt *sa, u64 now, bool runnable, bool running, u32 scale)
{
	u64 delta = now - sa->last_update_time, periods;
	u32 contrib;

	/* Another CPU's clock may be behind. */
	if ((s64)delta < 0) {
		sa->last_update_time = now;
		return false;
	}
	delta >>= 10;
	if (!delta)
		return false;
	sa->last_update_time += delta << 10;

	contrib = delta;
	delta += sa->period_contrib;
	periods = delta / 1024;
	if (periods) {
		sa->period_sum = decay_load(sa->period_sum, periods);
		sa->runnable_sum = decay_load(sa->runnable_sum, periods);
		sa->running_sum = decay_load(sa->running_sum, periods);
		contrib = pelt_contrib(periods, 1024 - sa->period_contrib, delta % 1024);
	}
	sa->period_contrib = delta % 1024;

	sa->period_sum += contrib;
	contrib = contrib * scale >> 10;
	if (runnable)
		sa->runnable_sum += contrib;
	if (running)
		sa->running_sum += contrib;
	return periods;
}

/* As update_pelt_scaled(), on a CPU whose time counts in full. */
static __always_inline bool update_pelt(struct pelt *sa, u64 now, bool runnable, bool running)
{
	return update_pelt_scaled(sa, now, runnable, running, 1024);
}

/*
 * As update_pelt(), for interrupts, whose exact times are unknown: they are assumed to have had the last @ran ns,
 * and their time counts @scale / 1024 (update_irq_load_avg()).
 */
static __always_inline void update_pelt_last(struct pelt *sa, u64 now, u64 ran, u32 scale)
{
	update_pelt(sa, now - (ran * scale >> 10), false, false);
	update_pelt(sa, now, true, true);
}

/* The factor between a sum and a utilization (get_pelt_divider()). */
static __always_inline u32 pelt_divider(const struct pelt *sa)
{
	return LOAD_AVG_MAX - 1024 + sa->period_contrib;
}

/* The sum that corresponds to a utilization of @util / 1024, which may be negative. */
static __always_inline s64 pelt_sum(const struct pelt *sa, s64 util)
{
	return (s64)pelt_divider(sa) * util >> 10;
}

/*
 * The utilization, where 1024 is all the time. The entity counts as not running before it was created, and the
 * value has no step at the end of a period.
 */
static __always_inline u64 pelt_util(const struct pelt *sa)
{
	u64 util = (u64)sa->running_sum * 1024 / pelt_divider(sa);

	return util < 1024 ? util : 1024;
}

/* @scale times the share of time in @sum, such as a runnable average or a utilization. */
static __always_inline u64 pelt_avg(const struct pelt *sa, u32 sum, u64 scale)
{
	return (u64)sum * scale / (sa->period_sum + 1);
}

#endif /* __EQUIPOISE_PELT_H */
