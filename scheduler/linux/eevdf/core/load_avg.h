/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The averages of a task and of a runqueue: load (weight while runnable), runnable tasks, and utilization. They are
 * PELT by the series of signals/pelt.h, with the sums of kernel/sched/pelt.c of Linux 6.12. The sums of a
 * runqueue cover all attached tasks, asleep or not, so a task takes its part along when it leaves.
 *
 * Time is the runqueue's clock_pelt, which runs slower on a slower CPU and catches up while that CPU is idle, so a
 * task has the same utilization on any CPU that has some idle time.
 */
#ifndef __EQUIPOISE_LOAD_AVG_H
#define __EQUIPOISE_LOAD_AVG_H

#include "../../../signals/pelt.h"
#include "../../../topology.bpf.h"

struct load_avg {
	/* The time of the last update, in ns of clock_pelt. */
	u64 last_update_time;
	u64 load_sum;
	u64 runnable_sum;
	u64 util_sum;
	/*
	 * The weight times the share of the time in which the task was runnable; the averages of runnable tasks and
	 * of utilization, where 1024 is all the time.
	 */
	u64 load_avg;
	u64 runnable_avg;
	u64 util_avg;
	/* The elapsed part of the current period, 0..1023 us. */
	u32 period_contrib;
};

/* The value of a sum that has counted 1 all the time, which is the largest one: get_load_divider(). */
static __always_inline u64 load_divider(const struct load_avg *sa)
{
	return LOAD_AVG_MAX - 1024 + sa->period_contrib;
}

/* @val * y^@n: like decay_load(), for any @val. */
static __always_inline u64 decay_sum(u64 val, u64 n)
{
	u64 inv = pelt_y_inv[n & (LOAD_AVG_PERIOD - 1)];

	if (n >= LOAD_AVG_PERIOD * 64)
		return 0;
	val >>= n / LOAD_AVG_PERIOD;
	return (val >> 32) * inv + ((val & 0xffffffff) * inv >> 32);
}

/*
 * Returns @sum, or 0 if it is negative, because other CPUs may have subtracted more than the sum while it was
 * updated.
 */
static __always_inline u64 not_negative(u64 sum)
{
	return (s64)sum < 0 ? 0 : sum;
}

/*
 * Updates the sums to @now: since the last update there have been @runnable tasks with a total of @load, and one of
 * them or none has run. Returns true if a period has ended, so that averages are recomputed (accumulate_sum()).
 */
static __always_inline bool update_load_sums(struct load_avg *sa, u64 now, u64 load, u64 runnable, bool running)
{
	u64 delta = now - sa->last_update_time, contrib, periods;

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
		sa->load_sum = decay_sum(not_negative(sa->load_sum), periods);
		sa->runnable_sum = decay_sum(not_negative(sa->runnable_sum), periods);
		sa->util_sum = decay_sum(not_negative(sa->util_sum), periods);
		contrib = pelt_contrib(periods, 1024 - sa->period_contrib, delta % 1024);
	}
	sa->period_contrib = delta % 1024;
	if (load) {
		sa->load_sum += load * contrib;
		sa->runnable_sum += runnable * contrib << 10;
		if (running)
			sa->util_sum += contrib << 10;
	}
	return periods;
}

/* Computes the averages from the sums, for a load that counts @weight times. */
static __always_inline void update_load_avgs(struct load_avg *sa, u64 weight)
{
	u64 divider = load_divider(sa);

	sa->load_avg = weight * sa->load_sum / divider;
	sa->runnable_avg = sa->runnable_sum / divider;
	sa->util_avg = sa->util_sum / divider;
}

/*
 * Adds to the averages of the runqueue @rq a task with @sa and @weight, whose periods become those
 * of the runqueue (attach_entity_load_avg()). Other CPUs may do so while they balance.
 */
static __always_inline void attach_load_avg(struct load_avg *rq, struct load_avg *sa, u64 weight)
{
	u64 divider = load_divider(rq);

	sa->last_update_time = rq->last_update_time;
	sa->period_contrib = rq->period_contrib;
	sa->util_sum = sa->util_avg * divider;
	sa->runnable_sum = sa->runnable_avg * divider;
	sa->load_sum = sa->load_avg * divider;
	sa->load_sum = weight < sa->load_sum ? sa->load_sum / weight : 1;
	__sync_fetch_and_add(&rq->load_avg, sa->load_avg);
	__sync_fetch_and_add(&rq->load_sum, weight * sa->load_sum);
	__sync_fetch_and_add(&rq->runnable_avg, sa->runnable_avg);
	__sync_fetch_and_add(&rq->runnable_sum, sa->runnable_sum);
	__sync_fetch_and_add(&rq->util_avg, sa->util_avg);
	__sync_fetch_and_add(&rq->util_sum, sa->util_sum);
}

/* Subtracts a task's part from @avg and @sum of a runqueue, where rounding may have left less. */
static __always_inline void sub_load_avg(u64 *avg, u64 *sum, u64 task_avg, u64 task_sum)
{
	u64 had = READ_ONCE(*avg), had_sum = READ_ONCE(*sum);

	__sync_fetch_and_add(avg, -(task_avg < had ? task_avg : had));
	__sync_fetch_and_add(sum, -(task_sum < had_sum ? task_sum : had_sum));
}

/*
 * Subtracts the averages @sa of a task with @weight, which leaves the runqueue, from @rq's
 * (detach_entity_load_avg()).
 */
static __always_inline void detach_load_avg(struct load_avg *rq, const struct load_avg *sa, u64 weight)
{
	sub_load_avg(&rq->load_avg, &rq->load_sum, sa->load_avg, weight * sa->load_sum);
	sub_load_avg(&rq->runnable_avg, &rq->runnable_sum, sa->runnable_avg, sa->runnable_sum);
	sub_load_avg(&rq->util_avg, &rq->util_sum, sa->util_avg, sa->util_sum);
}

#endif /* __EQUIPOISE_LOAD_AVG_H */
