/* SPDX-License-Identifier: GPL-2.0-only */
/* Timers, one per CPU, whose callbacks run on that CPU. */
#ifndef __EQUIPOISE_TIMERS_H
#define __EQUIPOISE_TIMERS_H

#include "topology.bpf.h"

struct scheduler_timer {
	struct bpf_timer timer;
};

/* A timer for each CPU. */
#define CPU_TIMERS(name)                               \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);      \
		__uint(max_entries, MAX_CPUS);         \
		__type(key, u32);                      \
		__type(value, struct scheduler_timer); \
	} name SEC(".maps")

typedef int (*scheduler_timer_fn)(void *timers, int *cpu, struct scheduler_timer *timer);

/* Initializes the timer of @cpu in the map @timers. (In equipoise/held.h, the key is a share instead of a CPU.) */
static __always_inline s32 init_timer(void *timers, u32 cpu)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(timers, &cpu);

	return timer ? bpf_timer_init(&timer->timer, timers, CLOCK_MONOTONIC) : -ENOENT;
}

/*
 * Makes the timer of @cpu call @function. Since Linux 7.2 a callback has the permissions of the program that sets
 * the timer (scx_kfunc_context_filter()). A callback that moves tasks between queues is therefore set in
 * ops.init_task() or ops.cgroup_init(). These ops may move tasks, and may iterate over a queue because they do not
 * sleep; ops.init_task() is called for each task before any task runs.
 */
static __always_inline void set_timer(void *timers, u32 cpu, scheduler_timer_fn function)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(timers, &cpu);

	if (timer)
		bpf_timer_set_callback(&timer->timer, function);
}

/* Starts the timer of this CPU, @cpu, to expire in @delay ns. */
static __always_inline void start_timer(void *timers, u32 cpu, u64 delay)
{
	struct scheduler_timer *timer = bpf_map_lookup_elem(timers, &cpu);

	if (timer)
		bpf_timer_start(&timer->timer, delay, BPF_F_TIMER_CPU_PIN);
}

#endif /* __EQUIPOISE_TIMERS_H */
