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

/* Stands for no task: larger than any progress. */
#define NO_PROGRESS ~0ULL

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

	t->recent = kept(t->recent, age) + work;
	t->did = kept(t->did, age) + work;
	t->slept = kept(t->slept, age);
	t->recent_at = now;
}

/* The work of a task like @t that always had its fair share of the machine, in ns: at most what one CPU can do. */
static __always_inline u64 fair_work(const struct task_state *t)
{
	u64 work = service_for(READ_ONCE(machine_progress), t->full_weight ?: 1);

	return work < PROGRESS_NS ? work : PROGRESS_NS;
}

/* The work that a task which @did and @slept so many ns would have done if it had always had the fastest CPU. */
static __always_inline u64 demanded_work(u64 did, u64 slept)
{
	return (did << (PROGRESS_SHIFT - 10)) / (((did + slept) >> 10) + 1);
}

/*
 * The distance, in ns of work, by which a task that slept is at least behind one that always has its share of the
 * machine: twice the difference at which tasks change places. So a waking task soon gets a fast CPU, but does not
 * keep it.
 */
static __always_inline u64 behind_at_wakeup(void)
{
	return 2 * tunables.unfairness;
}

/*
 * The recent work that counts for @t, which @did and @slept so many ns, and wakes up or is new: its fair share less
 * the work that it lacks, which is the part of its fair share, or of its demand if that is less, that it did not
 * do. A task that did more than its fair share has what it did.
 */
__noinline u64 work_at_wakeup(const struct task_state *t __arg_nonnull, u64 did, u64 slept)
{
	u64 fair = fair_work(t), lacks = behind_at_wakeup(), due;

	if (did > fair)
		return did;
	due = demanded_work(did, slept);
	if (due > fair)
		due = fair;
	if (due > did + lacks)
		lacks = due - did;
	return fair > lacks ? fair - lacks : 0;
}

/* The progress of @t, which has slept, if it wakes up at @now. */
static __always_inline u64 progress_at_wakeup(const struct task_state *t, u64 now)
{
	u64 age = age_at(t, now);

	return vtime_for(work_at_wakeup(t, kept(t->did, age), kept(t->slept, age) + age), t->full_weight ?: 1);
}

static __always_inline void begin_work(struct task_state *t, u64 now)
{
	u64 age = age_at(t, now);

	t->did = kept(t->did, age);
	t->slept = kept(t->slept, age) + age;
	t->recent = work_at_wakeup(t, t->did, t->slept);
	t->recent_at = now;
}

#endif /* __EQUIPOISE_PROGRESS_H */
