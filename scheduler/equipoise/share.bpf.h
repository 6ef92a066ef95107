/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares of control groups: cpu.weight and cpu.idle, as a tree. The weight of a group is divided among its runnable
 * tasks and child groups by their weights, as in the kernel's fair class.
 *
 * The tree is flattened, as in scx_flatcg: a task's weight is multiplied, for each group above it, by that group's
 * weight divided by the sum of the runnable weights in that group, on average. The sums are exact and machine-wide,
 * updated at wakeups and sleeps; so a group is not divided among CPUs, and its parts need no balancing. If the root
 * is the only group, this code does nothing.
 */
#ifndef __EQUIPOISE_SHARE_H
#define __EQUIPOISE_SHARE_H

#include <scx/common.bpf.h>

#include "../verifier.h"
#include "../weight.h"

/* The number of groups with cpu.weight, and of levels. Further groups count as part of the group above. */
#define MAX_SHARES 4096
#define MAX_SHARE_LEVELS 12
/* The default cpu.weight, equivalent to a task of nice 0. */
#define CGROUP_WEIGHT_DFL 100
/* The weight of a group with cpu.idle, as of a task with SCHED_IDLE (WEIGHT_IDLEPRIO). */
#define IDLE_GROUP_WEIGHT 3
/* The number of fractional bits of a weight: weights are in 1024ths. */
#define SHARE_SHIFT 10

struct share {
	/* The sum of the runnable weights in the group. */
	s64 runnable;
	/*
	 * Averages at the time @averaged_at, in 2^-SUM_SHIFT: of the runnable weights while there are any, and of
	 * the weights of sleeping debtors. The time is in ns.
	 */
	u64 average;
	u64 owing;
	u64 averaged_at;
	/* The part of the group's own weight that counts in the group above. */
	s64 counted;
	u32 parent;
	/* The group's weight, in the unit of a task's weight (1024 by default); 0 if there is no such group. */
	u32 weight;
	/* The weight without cpu.idle. */
	u32 given;
	/* The group is throttled (throttle.bpf.h), so its tasks do not count. */
	u32 held;
} __attribute__((aligned(64)));

/* The first share is the root's, which divides nothing. */
struct share shares[MAX_SHARES];
/* The share that was allocated last: a task that has just ended may still point to a freed one. */
u32 last_share;

struct share_of_cgroup {
	u32 index;
	/* The group has a share of its own. */
	bool own;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct share_of_cgroup);
} cgroups SEC(".maps");

static __always_inline struct share *share_at(u32 index)
{
	return &shares[index & (MAX_SHARES - 1)];
}

/* Does @s count in the group above? */
static __always_inline bool counts(const struct share *s)
{
	return READ_ONCE(s->runnable) > 0 && !READ_ONCE(s->held);
}

/* The part of its weight with which @s should count in the group above. */
static __always_inline s64 counting_weight(const struct share *s)
{
	return counts(s) ? READ_ONCE(s->weight) : 0;
}

/*
 * Makes group @index count in its parent if, and only if, it has runnable tasks and is not throttled. Returns the
 * change of the parent's sum.
 */
__noinline s64 settle_share(u32 index)
{
	forget_origin(index);
	struct share *s = share_at(index);
	s64 change = 0, weight;
	int i;

	/* The last caller sees the final state; if two callers interleave, they need two rounds. */
	for (i = 0; i < 4 && can_loop; i++) {
		weight = counting_weight(s);
		change += weight - __sync_lock_test_and_set(&s->counted, weight);
		if (counting_weight(s) == weight)
			break;
	}
	return change;
}

/* Averages are over 2^25 ns, about PELT's half-life: shorter ones would follow the periods of a thread at 60 Hz. */
#define AVERAGE_SHIFT 25
/* The number of fractional bits of an average sum. A sum of weights is between 3 and 2^34. */
#define SUM_SHIFT 4

#define AVERAGE_NS (1ULL << AVERAGE_SHIFT)

/* An average that was @from, of what has been @value for @age ns since, up to AVERAGE_NS. */
static __always_inline u64 averaged(u64 from, u64 value, u64 age)
{
	return from - (from * age >> AVERAGE_SHIFT) + (value * age >> AVERAGE_SHIFT);
}

/*
 * The time since the averages of @s, in ns, up to AVERAGE_NS, after which they are forgotten. Another CPU may have
 * noted a time after @now.
 */
static __always_inline u64 age_of(const struct share *s, u64 now)
{
	s64 age = now - READ_ONCE(s->averaged_at);

	if (age < 0)
		return 0;
	return age < (s64)AVERAGE_NS ? (u64)age : AVERAGE_NS;
}

/* The average of the runnable weights in the group @index, at @now, in 2^-SUM_SHIFT. */
static __always_inline u64 average_runnable(u32 index, u64 now)
{
	const struct share *s = share_at(index);
	u64 average = READ_ONCE(s->average);
	s64 runnable = READ_ONCE(s->runnable);

	return averaged(average, runnable > 0 ? (u64)runnable << SUM_SHIFT : average, age_of(s, now));
}

/* The average of all weights that compete in the group @index, in the same unit. */
__noinline u64 average_sum(u32 index, u64 now)
{
	const struct share *s = share_at(index);

	return average_runnable(index, now) + averaged(READ_ONCE(s->owing), 0, age_of(s, now));
}

/*
 * The sum of the group @index is about to change: adds the time since the last change to its averages. @owing ns of
 * a debtor's @weight are counted ahead of time, up to the time of an average, which would forget more.
 */
__noinline bool note_average(u32 index, s64 weight, u64 owing)
{
	struct share *s = share_at(index);
	u64 now = bpf_ktime_get_ns(), last = READ_ONCE(s->averaged_at);
	u64 average = average_runnable(index, now);
	s64 debts = averaged(READ_ONCE(s->owing), 0, age_of(s, now));

	if (__sync_val_compare_and_swap(&s->averaged_at, last, now) != last)
		return false;
	WRITE_ONCE(s->average, average);
	debts += weight * (s64)(owing < AVERAGE_NS ? owing : AVERAGE_NS) >> (AVERAGE_SHIFT - SUM_SHIFT);
	WRITE_ONCE(s->owing, debts > 0 ? debts : 0);
	return true;
}

/*
 * The runnable weight of the group @index grows by @weight. A task that goes to sleep as a debtor competes until it
 * has paid (fair.h), for @owing ns, and counts in averages for that time. If it wakes up earlier, by @owing ns, it
 * counts as runnable again.
 */
__noinline int add_runnable(u32 index, s64 weight, u64 owing)
{
	forget_origin(index);
	while (index && weight && can_loop) {
		struct share *s = share_at(index);
		s64 before;

		note_average(index, -weight, owing);
		before = __sync_fetch_and_add(&s->runnable, weight);
		if ((before > 0) == (before + weight > 0))
			break;
		weight = settle_share(index);
		index = s->parent;
	}
	return index;
}

/*
 * The weight with which a task of @weight counts in the group @index: at most twice the average of runnable weights
 * there. A heavy thread that naps cannot use its weight, so the rest of the group would get less than the group is
 * due. If the thread runs for long, the sum grows until it counts in full.
 */
__noinline u32 countable(u32 index, u32 weight)
{
	u64 most = 2 * average_runnable(index, bpf_ktime_get_ns()) >> SUM_SHIFT;

	return most < weight ? most ?: 1 : weight;
}

/* The part of a group that a weight of 1 has if it is the only one. */
#define PART_SHIFT 40
#define FULL_PART (1ULL << PART_SHIFT)

/*
 * The machine-wide weight of a task of @weight in the group @index now, in 1024ths of a weight; at least 1.
 * Each group is divided as it was on average, because a task may wait for much longer than others of its group run:
 * if a thread of nice -11 there wakes up for 50 us, a loop that is queued meanwhile would wait as if it weighed a
 * tenth.
 */
__noinline u64 shared_weight(u32 index, u32 weight)
{
	u64 shared = (u64)weight << SHARE_SHIFT, now = bpf_ktime_get_ns();

	forget_origin(index);
	while (index && can_loop) {
		struct share *s = share_at(index);
		u64 part = FULL_PART / (average_sum(index, now) ?: 1) << SUM_SHIFT,
		    most = FULL_PART / (weight ?: 1);

		/* A task weighs no more than its group. */
		if (part > most)
			part = most;
		weight = READ_ONCE(s->weight);
		/* The group has just been removed; its tasks are on their way to another. */
		if (!weight)
			break;
		shared = (shared * part >> PART_SHIFT / 2) * weight >> PART_SHIFT / 2;
		index = s->parent;
	}
	return shared ? shared : 1;
}

static __always_inline u32 weight_of_cgroup(u32 cpu_weight)
{
	return cpu_weight * NICE_0_LOAD / CGROUP_WEIGHT_DFL;
}

/* The share of @cgrp; the root's if it has none. */
static __always_inline u32 share_of(struct cgroup *cgrp)
{
	struct share_of_cgroup *of = bpf_cgrp_storage_get(&cgroups, cgrp, NULL, 0);

	return of ? of->index : 0;
}

/* A free share; 0 if there is none. */
__noinline u32 find_free_share(void)
{
	u32 index;
	int i;

	bpf_for(i, 1, MAX_SHARES) {
		index = (last_share + i) & (MAX_SHARES - 1);
		if (index && !share_at(index)->weight)
			return index;
	}
	return 0;
}

/*
 * Gives the new group @cgrp a share of its own, if one is free. Groups come from the root downwards, one at a time.
 */
static __always_inline s32 init_share(struct cgroup *cgrp, u32 cpu_weight, bool idle)
{
	struct share_of_cgroup *of = bpf_cgrp_storage_get(&cgroups, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cgroup *above;
	u32 parent = 0, index;
	struct share *s;

	if (!of)
		return -ENOMEM;
	if (cgrp->level < 1)
		return 0;
	above = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (above) {
		parent = share_of(above);
		bpf_cgroup_release(above);
	}
	index = cgrp->level < MAX_SHARE_LEVELS ? find_free_share() : 0;
	if (!index) {
		of->index = parent;
		return 0;
	}
	s = share_at(index);
	s->runnable = s->counted = s->held = 0;
	s->average = NICE_0_LOAD << SUM_SHIFT;
	s->owing = 0;
	s->parent = parent;
	s->given = weight_of_cgroup(cpu_weight);
	s->weight = idle ? IDLE_GROUP_WEIGHT : s->given;
	of->index = last_share = index;
	of->own = true;
	return 0;
}

/* The share that @cgrp has of its own; 0 if it has none. */
static __always_inline u32 own_share(struct cgroup *cgrp)
{
	struct share_of_cgroup *of = bpf_cgrp_storage_get(&cgroups, cgrp, NULL, 0);

	return of && of->own ? of->index : 0;
}

static __always_inline void weigh_share(u32 index, u32 weight)
{
	struct share *s = share_at(index);

	WRITE_ONCE(s->weight, weight);
	add_runnable(s->parent, settle_share(index), 0);
}

/* The kernel takes no cpu.weight for a group with cpu.idle. */
static __always_inline void set_share_weight(struct cgroup *cgrp, u32 cpu_weight)
{
	u32 index = own_share(cgrp), weight = weight_of_cgroup(cpu_weight);

	if (!index)
		return;
	share_at(index)->given = weight;
	weigh_share(index, weight);
}

static __always_inline void set_share_idle(struct cgroup *cgrp, bool idle)
{
	u32 index = own_share(cgrp);

	if (index)
		weigh_share(index, idle ? IDLE_GROUP_WEIGHT : share_at(index)->given);
}

#endif /* __EQUIPOISE_SHARE_H */
