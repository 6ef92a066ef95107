/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recognizes a crowd of tasks that send each other messages and have the CPUs to themselves, such as hackbench or a
 * shell's pipeline.
 */
#ifndef __EQUIPOISE_CROWD_H
#define __EQUIPOISE_CROWD_H

#include "task.bpf.h"

/* If one family alone competed for a CPU for this time, in ns, hardly any other task waits: eight ticks of 4 ms. */
#define ALONE_FOR (32 * NSEC_PER_MSEC)

/* A family has one parent: the tasks of a process, and the processes that another one started. */
static __always_inline s32 family_of(const struct task_struct *p)
{
	return p->real_parent->tgid;
}

/*
 * @p, which could go on, stops on @this at @now: its family competes for the CPU. (A task that goes to sleep needs
 * no more of it for now.) The parent of a family belongs to it. Kernel threads run for short times and on behalf of
 * any task, so they do not count as a family.
 */
static __always_inline void note_family(struct cpu_state *this, const struct task_struct *p, u64 now)
{
	s32 family = family_of(p);

	if (p->flags & PF_KTHREAD)
		return;
	if (family != this->family && p->tgid != this->family) {
		WRITE_ONCE(this->others_at, this->family_at);
		WRITE_ONCE(this->family, family);
	}
	this->family_at = now;
}

/* No family competes for @this yet, and no crowd has come: a time of 0 would look recent just after boot. */
static __always_inline void init_crowd(struct cpu_state *this, u64 now)
{
	this->family_at = this->crowd_at = now - ALONE_FOR;
}

/* Has a member of a crowd come to wait for @this shortly before @now? */
static __always_inline bool is_crowded(const struct cpu_state *this, u64 now)
{
	return (s64)(now - READ_ONCE(this->crowd_at)) < (s64)ALONE_FOR;
}

/*
 * Averages the time for which @t, which stops at @now, ran on after the first wakeup with SCX_WAKE_SYNC of its turn
 * on @this. If @t does not go to sleep (@runnable), it will run on for longer, so only a time above the average
 * counts.
 */
static __always_inline void note_after_wakeup(const struct cpu_state *this, struct task_state *t, bool runnable,
					      u64 now)
{
	u64 after = now - this->woke_at;

	if (this->woke_at && (!runnable || after > t->after_wakeup))
		t->after_wakeup = towards(t->after_wakeup, after);
}

/*
 * Does @waker, which runs on this CPU and has just woken a task with SCX_WAKE_SYNC, usually sleep soon after its
 * first wakeup? How long it runs before does not matter: a database computes an answer for 100 us, sends it and
 * waits for the next request. (False for the idle task, which has no turns.)
 */
static __always_inline bool sleeps_soon(const struct cpu_state *this, const struct task_struct *waker)
{
	return this->pid == waker->pid && this->after_wakeup < tunables.sync_burst &&
	       bpf_ktime_get_ns() - this->woke_at < tunables.sync_burst;
}

/*
 * Is @p, which the current task wakes up with SCX_WAKE_SYNC at @now and which would wait on @cpu, a member of a
 * crowd? In a crowd the waker continues (a waker that goes to sleep instead is one half of a pair, each of which
 * waits for the other), and only tasks of the family of both competed for @cpu lately.
 *
 * A member of a crowd preempts no task, because the later its turn comes, the more messages it finds; its share
 * stays the same. (On two CPUs, hackbench -g 8 makes 9,000 switches instead of 16,000.) Beside tasks of other
 * families it preempts: a thread that draws what another one sends would be late otherwise.
 */
static __always_inline bool is_in_crowd(const struct task_struct *p, u32 cpu, u64 now)
{
	const struct task_struct *waker = bpf_get_current_task_btf();
	const struct cpu_state *near = cpu_at(cpu);
	s32 family = family_of(p);

	return !sleeps_soon(cpu_at(bpf_get_smp_processor_id()), waker) && family == READ_ONCE(near->family) &&
	       (family == family_of(waker) || family == waker->tgid) &&
	       (s64)(now - READ_ONCE(near->others_at)) > (s64)ALONE_FOR;
}

#endif /* __EQUIPOISE_CROWD_H */
