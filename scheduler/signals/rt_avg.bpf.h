/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The use of a CPU by other classes, as Linux counted it until 4.18 (rq->rt_avg): the time of real-time and
 * deadline tasks and of interrupts, halved every half a second. Time at a low frequency counts less, as in Linux
 * 4.1 and later.
 */
#ifndef __EQUIPOISE_RT_AVG_H
#define __EQUIPOISE_RT_AVG_H

#include "../topology.bpf.h"

/* sched_avg_period(): half of sysctl_sched_time_avg, which is one second. */
#define SCHED_AVG_PERIOD (500 * NSEC_PER_MSEC)
/* The number of halvings after which nothing is left of the sum. */
#define RT_AVG_PERIODS 32

struct rt_avg {
	/* The sum of the time of other classes and interrupts, in ns. */
	u64 sum;
	/* The time at which the sum was last halved, in ns. */
	u64 age_stamp;
};

struct rt_avg rt_avgs[MAX_CPUS];

static __always_inline struct rt_avg *rt_avg_of(u32 cpu)
{
	return &rt_avgs[cpu & (MAX_CPUS - 1)];
}

/*
 * Updates @avg to @now: since the last update, other classes had the CPU for the last @used ns, which count @scale
 * / 1024. The kernel adds such time from tick to tick; here it counts in the period in which it passed.
 */
static __always_inline void update_rt_avg(struct rt_avg *avg, u64 now, u64 used, u32 scale)
{
	u64 periods = (now - avg->age_stamp) / SCHED_AVG_PERIOD, from = now - used;
	int i;

	if ((s64)(now - avg->age_stamp) < 0)
		return;
	if (periods > RT_AVG_PERIODS) {
		avg->sum = 0;
		avg->age_stamp += (periods - RT_AVG_PERIODS) * SCHED_AVG_PERIOD;
	}
	if (from < avg->age_stamp)
		from = avg->age_stamp;
	bpf_for(i, 0, RT_AVG_PERIODS + 1) {
		u64 end = avg->age_stamp + SCHED_AVG_PERIOD;

		if (now <= end)
			break;
		if (from < end) {
			avg->sum += (end - from) * scale / SCHED_POWER_SCALE;
			from = end;
		}
		avg->sum /= 2;
		avg->age_stamp = end;
	}
	avg->sum += (now - from) * scale / SCHED_POWER_SCALE;
}

/*
 * The part of the time, in 1024ths, that other classes leave at @now: scale_rt_power() of Linux 3.9. The current
 * period counts for its elapsed part.
 */
static __always_inline u64 rt_avg_leaves(const struct rt_avg *avg, u64 now)
{
	u64 total = SCHED_AVG_PERIOD + now - avg->age_stamp;

	return total < avg->sum ? 0 : (total - avg->sum) / (total / SCHED_POWER_SCALE);
}

#endif /* __EQUIPOISE_RT_AVG_H */
