/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock of a queue, and the service that each entity on it is owed. An entity is a task, or all tasks that are
 * bound to one CPU.
 *
 * An entity of weight w that did x of work is charged x / w of virtual time, and the clock of its queue advances by
 * x / W, where W is the sum of the weights of all entities there. So the clock is the mean of their virtual times
 * (EEVDF's avg_vruntime()), and an entity's lag,
 *
 *	lag = w * (clock - vtime)		ns of work on the fastest CPU,
 *
 * is the service that it is owed; a negative lag is a debt. The lags of a queue sum to zero. An entity that is owed
 * service and leaves takes its lag along, and brings it to the queue that it joins next. The others then owe less,
 * so the clock moves to their mean. A debt stays on the clock until the others have caught up (leave()).
 *
 * The weights are feasible: an entity that is worth more than one CPU counts only as much as one CPU of its queue
 * is worth (A. Chandra et al., "Surplus Fair Scheduling", OSDI 2000; level.h). All entities of a queue can then
 * advance at the rate of its clock.
 *
 * Context: any CPU may change a clock. Its time, its weight and the debtors' weight change atomically, so no change
 * is lost; of changes of the debtors' mean time at the same instant, only the last counts. A CPU that reads the
 * clock between two changes that belong together sees an error of no more than these changes. A task's entity is
 * changed by the CPU that runs the task or holds its lock. This file uses no kfuncs, so that the tests can run it
 * natively, with threads.
 */
#ifndef __EQUIPOISE_FAIR_H
#define __EQUIPOISE_FAIR_H

#include <scx/common.bpf.h>

/* Weights are in 1024ths of the kernel's: nice 0 is 1 << WEIGHT_SHIFT, and its virtual time passes like time. */
#define WEIGHT_SHIFT 20
/* The bound of every lag, in ns; keeps products within 64 bits. */
#define MOST_SERVICE NSEC_PER_SEC
/* Stands for no task: larger than any virtual time. */
#define NO_VTIME ~0ULL

/* A sum of weights has at most this many bits, which is enough for 2^17 tasks of nice -20. */
#define DEBTORS_SHIFT 44
#define DEBTORS_MASK ((1ULL << DEBTORS_SHIFT) - 1)

struct clock {
	u64 now;
	/* The sum of the weights on this clock, including those of the debtors. */
	s64 weight;
	/*
	 * The debtors, as one entity: the sum of their weights in the lower DEBTORS_SHIFT bits, above these their
	 * round, the number of times that they have left together; and the mean of their virtual times.
	 */
	u64 debtors;
	u64 debtors_vtime;
};

struct entity {
	u64 vtime;
	/* 0: the entity is on no clock, or is one of the debtors. */
	u64 weight;
	/* For a debtor that left, until it comes back: its weight, and the debtors' round. */
	u64 left_at;
	u32 round;
	/* For any other entity that left: the service that it was owed then, in ns of work. */
	s64 left_with;
};

static __always_inline bool is_before(u64 a, u64 b)
{
	return a != NO_VTIME && (b == NO_VTIME || (s64)(a - b) < 0);
}

/* The virtual time for @work ns at @weight. */
static __always_inline u64 vtime_for(u64 work, u64 weight)
{
	return (work << WEIGHT_SHIFT) / weight;
}

/*
 * The virtual time for @lag of service at @weight; negative if the service is a debt. BPF has no division of signed
 * numbers, and each branch here would double the paths that the verifier follows.
 */
static __always_inline s64 vtime_of_lag(s64 lag, u64 weight)
{
	s64 sign = lag >> 63;
	s64 vtime = vtime_for((lag ^ sign) - sign, weight);

	return (vtime ^ sign) - sign;
}

/* The service that @vtime of virtual time is worth at @weight, in ns, up to MOST_SERVICE. */
static __always_inline s64 service_for(s64 vtime, u64 weight)
{
	s64 most = vtime_for(MOST_SERVICE, weight);

	if (vtime >= most)
		return MOST_SERVICE;
	if (vtime <= -most)
		return -(s64)MOST_SERVICE;
	return vtime * (s64)weight >> WEIGHT_SHIFT;
}

static __always_inline s64 lag_at(const struct clock *clock, u64 vtime, u64 weight)
{
	return service_for(READ_ONCE(clock->now) - vtime, weight);
}

static __always_inline s64 lag_of(const struct clock *clock, const struct entity *e)
{
	u64 weight = READ_ONCE(e->weight);

	return weight ? lag_at(clock, READ_ONCE(e->vtime), weight) : 0;
}

/* The entities on @clock together are owed @service more, each by its weight. */
static __always_inline void owe(struct clock *clock, s64 service)
{
	s64 weight = READ_ONCE(clock->weight);

	if (service && weight > 0)
		__sync_fetch_and_add(&clock->now, vtime_of_lag(service, weight));
}

static __always_inline s64 weight_of_debtors(const struct clock *clock)
{
	return READ_ONCE(clock->debtors) & DEBTORS_MASK;
}

/* The debtors have paid, so they leave @clock together. The others get what the debtors paid in excess. */
static __always_inline void dismiss_debtors(struct clock *clock)
{
	u64 vtime = READ_ONCE(clock->debtors_vtime), debtors = READ_ONCE(clock->debtors);
	s64 weight = debtors & DEBTORS_MASK;

	if (__sync_val_compare_and_swap(&clock->debtors, debtors, debtors - weight + (1ULL << DEBTORS_SHIFT)) !=
	    debtors)
		return;
	__sync_fetch_and_add(&clock->weight, -weight);
	if (weight > 0)
		owe(clock, lag_at(clock, vtime, weight));
}

/* Advances @clock for @work ns of its entities' work, rounded, so that the clock keeps up with them. */
static __always_inline void advance(struct clock *clock, u64 work)
{
	s64 weight = READ_ONCE(clock->weight);

	if (weight <= 0)
		return;
	__sync_fetch_and_add(&clock->now, ((work << WEIGHT_SHIFT) + weight / 2) / (u64)weight);
	if (weight_of_debtors(clock) && (s64)(READ_ONCE(clock->now) - READ_ONCE(clock->debtors_vtime)) >= 0)
		dismiss_debtors(clock);
}

/* Changes the weight of @e, but not its vtime. If several CPUs do so at once, the sum agrees with the last change.
 */
static __always_inline void set_weight(struct clock *clock, struct entity *e, u64 weight)
{
	u64 before = __sync_lock_test_and_set(&e->weight, weight);

	if (weight != before)
		__sync_fetch_and_add(&clock->weight, (s64)(weight - before));
}

static __always_inline void set_lag(const struct clock *clock, struct entity *e, s64 lag, u64 weight)
{
	WRITE_ONCE(e->vtime, READ_ONCE(clock->now) - vtime_of_lag(lag, weight));
}

/* Puts @e, which is owed @lag, on @clock with @weight. On an empty clock no entity is owed anything. */
static __always_inline void join(struct clock *clock, struct entity *e, u64 weight, s64 lag)
{
	if (READ_ONCE(clock->weight) <= 0)
		lag = 0;
	owe(clock, -lag);
	set_lag(clock, e, lag, weight);
	set_weight(clock, e, weight);
}

/* @e, which is on @clock, is owed @lag more by the other entities there. */
static __always_inline void give(struct clock *clock, struct entity *e, s64 lag)
{
	u64 weight = READ_ONCE(e->weight);
	s64 others = READ_ONCE(clock->weight) - weight, step;

	if (!lag || !weight || others <= 0)
		return;
	step = vtime_of_lag(lag, others);
	__sync_fetch_and_add(&clock->now, -(u64)step);
	__sync_fetch_and_add(&e->vtime, -(u64)(step + vtime_of_lag(lag, weight)));
}

/*
 * A part (a task of a CPU's bound tasks) joins @e and brings @lag along, or leaves @e and takes -@lag along. @e has
 * its weight without that part. The clock moves to the mean, as for an entity that joins or leaves: a part that
 * goes to another entity of @clock changes what these two are owed, and no more.
 */
static __always_inline void bring(struct clock *clock, struct entity *e, s64 lag)
{
	u64 weight = READ_ONCE(e->weight);

	if (!lag || !weight)
		return;
	owe(clock, -lag);
	__sync_fetch_and_add(&e->vtime, -(u64)vtime_of_lag(lag, weight));
}

/*
 * If @e, which runs, is owed more than @most, the others get the excess. Without a bound, an entity that is worth a
 * CPU only at times would be owed more and more for the times when it has one.
 */
static __always_inline void bound_lag(struct clock *clock, struct entity *e, s64 most)
{
	s64 lag = lag_of(clock, e);

	if (lag > most)
		give(clock, e, most - lag);
}

/* Takes @e off @clock. Returns its lag. */
static __always_inline s64 take_off(struct clock *clock, struct entity *e)
{
	s64 lag = lag_of(clock, e);

	set_weight(clock, e, 0);
	owe(clock, lag);
	return lag;
}

/*
 * Moves the mean of the debtors: @weight at @vtime was added, or taken away if @sign is -1, which made the sum
 * @sum.
 */
static __always_inline void move_debtors(struct clock *clock, u64 vtime, u64 weight, s64 sum, s64 sign)
{
	s64 apart = vtime - READ_ONCE(clock->debtors_vtime);
	u64 distance = apart < 0 ? -apart : apart, all = sum;
	s64 part;

	if (sum <= 0)
		return;
	/* The product of both may exceed 64 bits. */
	part = distance / all * weight + distance % all * weight / all;
	WRITE_ONCE(clock->debtors_vtime, READ_ONCE(clock->debtors_vtime) + (apart < 0 ? -sign : sign) * part);
}

/*
 * @e goes to sleep or to another cluster. It keeps what it is owed, up to @most. If it owes service, it becomes one
 * of the debtors, which stay on the clock as if they competed, until the others have caught up (EEVDF's delayed
 * dequeue). If a debtor left at once, the others would lose what it owes them: two tasks that run in turn would
 * keep a loop from running, and a thread of short runs and naps would get a third of its due. A debt has no bound:
 * if each debt had one, each swing of the clock would forgive a part of it.
 */
static __always_inline void leave(struct clock *clock, struct entity *e, s64 most)
{
	s64 lag = lag_of(clock, e), sum;
	u64 weight, debtors;

	if (lag >= 0) {
		take_off(clock, e);
		e->left_with = lag < most ? lag : most;
		return;
	}
	weight = __sync_lock_test_and_set(&e->weight, 0);
	if (!weight)
		return;
	e->left_with = 0;
	debtors = __sync_fetch_and_add(&clock->debtors, weight);
	e->round = debtors >> DEBTORS_SHIFT;
	sum = (debtors & DEBTORS_MASK) + weight;
	if (sum == (s64)weight)
		WRITE_ONCE(clock->debtors_vtime, e->vtime);
	else
		move_debtors(clock, e->vtime, weight, sum, 1);
	WRITE_ONCE(e->left_at, weight);
}

/* Takes @weight from the debtors of @round. Returns false if they have left @clock, or change too often. */
static __always_inline bool leave_debtors(struct clock *clock, u32 round, u64 weight, s64 *sum)
{
	/* If other CPUs change the debtors four times meanwhile, the entity stays one of them until they leave. */
	for (int i = 0; i < 4; i++) {
		u64 debtors = READ_ONCE(clock->debtors);

		if ((u32)(debtors >> DEBTORS_SHIFT) != round)
			return false;
		*sum = (debtors & DEBTORS_MASK) - weight;
		if (__sync_val_compare_and_swap(&clock->debtors, debtors, debtors - weight) == debtors)
			return true;
	}
	return false;
}

/* @e, one of the debtors, comes back. Takes it off the clock, and returns what is left of its debt. */
__noinline s64 end_debt(struct clock *clock __arg_nonnull, struct entity *e __arg_nonnull)
{
	/* If two CPUs bring back the entity of a CPU's bound tasks at once, only one finds its weight. */
	u64 weight = __sync_lock_test_and_set(&e->left_at, 0);
	s64 lag, sum = 0;

	if (!weight)
		return 0;
	lag = lag_at(clock, e->vtime, weight);
	if (leave_debtors(clock, e->round, weight, &sum)) {
		move_debtors(clock, e->vtime, weight, sum, -1);
		__sync_fetch_and_add(&clock->weight, -(s64)weight);
		owe(clock, lag);
	}
	return lag < 0 ? lag : 0;
}

/* @e, which slept, comes back. Returns what it is owed. */
static __always_inline s64 come_back(struct clock *clock, struct entity *e)
{
	return READ_ONCE(e->left_at) ? end_debt(clock, e) : e->left_with;
}

/* Changes the weight of @e, which keeps its lag. */
static __always_inline void reweigh(struct clock *clock, struct entity *e, u64 weight)
{
	s64 lag;

	if (weight == READ_ONCE(e->weight))
		return;
	lag = lag_of(clock, e);
	set_weight(clock, e, weight);
	set_lag(clock, e, lag, weight);
}

#endif /* __EQUIPOISE_FAIR_H */
