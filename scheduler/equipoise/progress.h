/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Equal progress between clusters. A task's progress is the work that it did within about the last second, divided
 * by its weight: the rate that fairness makes equal. It decides which tasks change places, and never the order
 * within a queue.
 *
 * It is an average that forgets, so what a task lost or gained long ago does not count, and no two clocks have to
 * be compared. A task that uses a CPU whose speed is a half, or that waits half of its time, has half of the
 * progress.
 */
#ifndef __EQUIPOISE_PROGRESS_H
#define __EQUIPOISE_PROGRESS_H

#include "level.h"
#include "task.bpf.h"

/* A task that has run for this time, in ns, since it woke up asks for more than it gets. */
#define RUNS_LONG (PROGRESS_NS >> 6)
/* A tick takes 1/64 from what the cluster's tasks lack if the running task has all that it asks for. */
#define FORGET_SHIFT 6

/* The age of the averages of @t, in ns, up to the time after which they are forgotten. */
static __always_inline u64 age_at(const struct task_state *t, u64 now)
{
	s64 age = now - t->recent_at;

	/* A CPU begins its turns at the time of the last stop there, when the task may still have run elsewhere. */
	if (age < 0)
		return 0;
	return age < (s64)PROGRESS_NS ? (u64)age : PROGRESS_NS;
}

/* The rest of an average that was @value, after @age ns. */
static __always_inline u64 kept(u64 value, u64 age)
{
	return value - (value * age >> PROGRESS_SHIFT);
}

static __always_inline u64 progress_of(const struct task_state *t, u64 now)
{
	return vtime_for(kept(t->recent, age_at(t, now)), t->full_weight ?: 1);
}

/* @t did @work ns until @now. */
static __always_inline void note_work(struct task_state *t, u64 work, u64 now)
{
	u64 age = age_at(t, now);

	/* Older work is forgotten. */
	if (work > PROGRESS_NS)
		work = PROGRESS_NS;
	t->recent = kept(t->recent, age) + work;
	t->did = kept(t->did, age) + work;
	t->slept = kept(t->slept, age);
	t->recent_at = now;
}

/* The progress that is fair in @c: that of a task which always had its fair share of the machine, less the average
 * shortfall of the tasks here that ask for more. Where a cpuset leaves CPUs idle, a thread that naps would
 * otherwise be far ahead of the loops beside it as soon as it wakes up. */
static __always_inline u64 fair_progress(const struct cluster *c)
{
	u64 level = READ_ONCE(machine_progress), lacks = READ_ONCE(c->lacks);

	return level > lacks ? level - lacks : 0;
}

/*
 * Counts what @t, which has made @progress when a tick finds it running, lacks of its share of the machine. If
 * other tasks wait (@waits), or @t goes on for long, it asks for more than it gets. Otherwise it has all that it
 * asks for, and the cluster's tasks lack less.
 */
static __always_inline void count_progress(const struct task_state *t, u64 progress, bool waits)
{
	struct cluster *c = cluster_at(t->cluster);
	s64 lacks = READ_ONCE(c->lacks);

	if (waits || t->burst_so_far > RUNS_LONG)
		lacks += (s64)(READ_ONCE(machine_progress) - progress - lacks) >> LEVEL_SHIFT;
	else
		lacks -= lacks >> FORGET_SHIFT;
	WRITE_ONCE(c->lacks, lacks > 0 ? lacks : 0);
}

/*
 * The recent work that counts for @t if it wakes up, or is new, at @now: its fair share less the work that it
 * lacks. It lacks what it did not do of its fair share or, if its demand is less, of its demand, the work that it
 * would have done alone on the fastest CPU. A task that did more than its fair share has what it did.
 */
__noinline u64 work_at_wakeup(const struct task_state *t __arg_nonnull, u64 now)
{
	u64 age = age_at(t, now), did = kept(t->did, age), slept = kept(t->slept, age) + age;
	u64 fair = service_for(fair_progress(cluster_at(t->cluster)), t->full_weight ?: 1);
	u64 due = (did << (PROGRESS_SHIFT - 10)) / (((did + slept) >> 10) + 1);

	/* At most what one CPU can do. */
	if (fair > PROGRESS_NS)
		fair = PROGRESS_NS;
	if (did > fair)
		return did;
	if (due > fair)
		due = fair;
	return fair - (due - did);
}

static __always_inline void begin_work(struct task_state *t, u64 now)
{
	u64 age = age_at(t, now);

	t->recent = work_at_wakeup(t, now);
	t->did = kept(t->did, age);
	t->slept = kept(t->slept, age) + age;
	t->nap = towards(t->nap, age);
	t->recent_at = now;
}

#endif /* __EQUIPOISE_PROGRESS_H */
