/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The end of a turn: a task that has run for a slice stops if others wait. A timer ends the turns of tasks that run
 * for long, as HRTICK does for Linux 7.3's EEVDF: the next tick may come a whole turn later, and in one turn a
 * light task gets as much as it is due for several seconds. A task that sleeps before its slice is over needs no
 * timer; if it continues to run, a tick or a task that comes to wait sets one. In a crowd (crowd.h) only ticks end
 * turns: the longer a sender's turn, the more messages its receivers find.
 */
#ifndef __EQUIPOISE_TURN_H
#define __EQUIPOISE_TURN_H

#include "../kick.bpf.h"
#include "../timers.bpf.h"
#include "crowd.h"
#include "pull.h"

CPU_TIMERS(turn_timers);

/* Does a task wait that @cpu may take, or one that was sent to it? */
static __always_inline bool others_wait(u32 cpu)
{
	return has_waiters(cpu_at(cpu)) || stranded_in(cluster_of(cpu)) || is_waited_for(cpu);
}

/* Has @p, which runs on this CPU, @cpu, while others wait, run for a slice? */
static __always_inline bool turn_is_over(struct task_struct *p, u32 cpu)
{
	if (ran_of(p) < slice_of(p))
		return false;
	if (p->scx.slice)
		explain(turn_over, p->pid, cpu, ran_of(p), slice_of(p),
			scx_bpf_dsq_nr_queued(cluster_dsq(cpu_at(cpu)->cluster)));
	return true;
}

/* Sets the timer of this CPU, @cpu, for the end of the turn of @p, which has run for @ran ns while others wait. */
static __always_inline void time_turn(const struct task_struct *p, u32 cpu, u64 ran)
{
	struct cpu_state *this = cpu_at(cpu);
	u64 slice = slice_of(p);

	if (is_crowded(this, bpf_ktime_get_ns()))
		return;
	this->timed = true;
	start_timer(&turn_timers, cpu, ran < slice ? slice - ran : 0);
}

/*
 * @t has come to wait for @cpu at @now. If it may run on this CPU, whose task has a turn without end because no
 * other task waited, sets the timer for the end of that turn.
 */
static __always_inline void time_running(const struct task_state *t, u32 cpu, u64 now)
{
	u32 here = bpf_get_smp_processor_id();
	struct cpu_state *this = cpu_at(here);
	const struct task_struct *curr = running_on(here);

	if (t->bound_to ? here != cpu : this->cluster != cpu_at(cpu)->cluster)
		return;
	if (!this->timed && curr && curr->pid == this->pid && this->burst >= slice_of(curr))
		time_turn(curr, here, ran_of(curr) + uncharged(here, now));
}

/* This CPU, @cpu, looks for work again if it is still idle in @ns; 0: it does not. */
static __always_inline void look_again(u32 cpu, u64 ns)
{
	if (!ns)
		return;
	cpu_at(cpu)->timed = true;
	start_timer(&turn_timers, cpu, ns);
}

/*
 * The callback of a CPU's timer. The running task stops, or the idle CPU looks for work, unless the turn or the
 * idle time for which the timer was set is over.
 */
static int end_turn(void *timers, int *key, struct scheduler_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (cpu_at(cpu)->timed)
		kick_cpu(cpu, SCX_KICK_PREEMPT);
	cpu_at(cpu)->timed = false;
	return 0;
}

static __always_inline s32 init_turn(u32 cpu)
{
	s32 err = init_timer(&turn_timers, cpu);

	init_crowd(cpu_at(cpu), bpf_ktime_get_ns());
	if (!err)
		set_timer(&turn_timers, cpu, end_turn);
	return err;
}

#endif /* __EQUIPOISE_TURN_H */
