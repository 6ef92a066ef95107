/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Says why: explain(decision, pid, cpu, numbers...), beside what decides, with a row of decisions.def.
 *
 * It costs nothing where nobody asks. The simulated kernel has two objects of each scheduler, of which one says nothing;
 * in Linux it depends on a constant, so that the verifier takes the code out. There the records go into a ring buffer,
 * whose reader is not woken up for them: that would be a decision of its own.
 */
#ifndef __EQUIPOISE_EXPLAIN_H
#define __EQUIPOISE_EXPLAIN_H

#include "intf.h"

#define DECISION(name, ...) DECIDED_##name,
enum decision {
#include "decisions.def"
};
#undef DECISION

/* How many numbers go with each. */
#define NS(name) 0
#define LEAD(name) 0
#define CPU(name) 0
#define TASK(name) 0
#define OF_1024(name) 0
#define POWER(name) 0
#define COUNT(name) 0
#define DECISION(name, kind, words, numbers...) NUMBERS_OF_##name = sizeof((char[]){ 0, ##numbers }) - 1,
enum decision_numbers {
#include "decisions.def"
};
#undef DECISION
#undef NS
#undef LEAD
#undef CPU
#undef TASK
#undef OF_1024
#undef POWER
#undef COUNT

#if defined(__EQUIPOISE_SIMULATED_H) && defined(EQUIPOISE_EXPLAINS)

_Static_assert(EXPLAINED_NUMBERS == EQUIPOISE_EXPLAINED_NUMBERS, "the simulated kernel takes as many");

/* What is looked at to say why costs the scheduler no time, so that it decides the same. */
#define explaining true
#define ___explain(number, about, on, numbers...)                                   \
	do {                                                                        \
		struct equipoise_memory *___memory = __KERNEL->memory;              \
		__KERNEL->memory = NULL;                                            \
		{                                                                   \
			const s64 ___numbers[EXPLAINED_NUMBERS] = { numbers };      \
			__kcall(explain, number, (s32)(about), (s32)(on), ___numbers); \
		}                                                                   \
		__KERNEL->memory = ___memory;                                       \
	} while (0)

#elif defined(__EQUIPOISE_SIMULATED_H)

#define explaining false
#define ___explain(number, about, on, numbers...)                      \
	do {                                                           \
		const s64 ___numbers[EXPLAINED_NUMBERS] = { numbers }; \
		(void)___numbers, (void)(about), (void)(on);           \
	} while (0)

#else

/* Set by user space before it loads the scheduler, as is the size of the buffer. */
const volatile bool explains;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} explanations SEC(".maps");

#define explaining explains
#define ___explain(number, about, on, numbers...)                                                    \
	do {                                                                                         \
		const s64 ___numbers[EXPLAINED_NUMBERS] = { numbers };                               \
		struct explained *___e = bpf_ringbuf_reserve(&explanations, sizeof(*___e), 0);       \
		if (___e) {                                                                          \
			___e->at = bpf_ktime_get_ns();                                               \
			___e->decision = number;                                                     \
			___e->by = bpf_get_smp_processor_id();                                       \
			___e->pid = about;                                                           \
			___e->cpu = on;                                                              \
			__builtin_memcpy(___e->numbers, ___numbers, sizeof(___numbers));             \
			bpf_ringbuf_submit(___e, BPF_RB_NO_WAKEUP);                                  \
		}                                                                                    \
	} while (0)

#endif

/*
 * About task @about, by its pid, or 0; and CPU @on. What the numbers are computed from is not looked at unless somebody
 * asks, so it may cost something.
 */
#define explain(name, about, on, numbers...)                                                            \
	do {                                                                                            \
		_Static_assert(sizeof((s64[]){ numbers }) == NUMBERS_OF_##name * sizeof(s64),            \
			       #name " has other numbers in decisions.def");                            \
		if (explaining)                                                                         \
			___explain(DECIDED_##name, about, on, ##numbers);                               \
	} while (0)

#endif /* __EQUIPOISE_EXPLAIN_H */
