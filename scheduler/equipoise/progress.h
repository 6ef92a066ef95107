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

/* No task: more than any progress. */
#define NO_PROGRESS ~0ULL

/* The work of @t within about the last second before @now, ns. */
static __always_inline u64 recent_work(const struct task_state *t, u64 now)
{
	s64 age = now - t->recent_at;

	/* A CPU begins its turns at the time of the last stop there, when the task may still have run elsewhere. */
	if (age < 0)
		age = 0;
	return age >= (s64)PROGRESS_NS ? 0 : t->recent - (t->recent * age >> PROGRESS_SHIFT);
}

static __always_inline u64 progress_of(const struct task_state *t, u64 now)
{
	return vtime_for(recent_work(t, now), t->full_weight ?: 1);
}

/* @t did @work ns until @now. */
static __always_inline void note_work(struct task_state *t, u64 work, u64 now)
{
	t->recent = recent_work(t, now) + work;
	t->recent_at = now;
}

/* The recent work of a task like @t that always had its fair share of the machine, ns. */
static __always_inline u64 usual_work(const struct task_state *t)
{
	return service_for(READ_ONCE(machine_progress), t->full_weight ?: 1);
}

/*
 * How far a task that slept is behind one that always has its share of the machine, ns of work: by no more than
 * twice the difference at which tasks change places. It gets a fast CPU soon, and does not keep it.
 */
static __always_inline u64 behind_at_wakeup(void)
{
	return 2 * tunables.unfairness;
}

/* The recent work of @t, which wakes up at @now or is new. */
static __always_inline u64 work_at_wakeup(const struct task_state *t, u64 now)
{
	u64 recent = recent_work(t, now), usual = usual_work(t), behind = behind_at_wakeup();

	usual -= usual < behind ? usual : behind;
	return recent > usual ? recent : usual;
}

static __always_inline void begin_work(struct task_state *t, u64 now)
{
	t->recent = work_at_wakeup(t, now);
	t->recent_at = now;
}

#endif /* __EQUIPOISE_PROGRESS_H */
