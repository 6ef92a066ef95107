/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records the reasons for decisions: the code that decides calls explain(decision, pid, cpu,
 * numbers...) with a row of decisions.def.
 *
 * Recording costs nothing when disabled. For the simulated kernel, each scheduler is compiled to two objects, one
 * of them without records. In Linux, recording depends on a constant, so that the verifier removes the code. The
 * records go to a ring buffer, whose reader is not woken up for them, because that would cause another decision.
 */
#ifndef __EQUIPOISE_EXPLAIN_H
#define __EQUIPOISE_EXPLAIN_H

#include "intf.h"

#define DECISION(name, ...) DECIDED_##name,
enum decision {
#include "decisions.def"
};
#undef DECISION

/* The number of values of each decision. */
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

#ifndef __EQUIPOISE_SIMULATED_H

/*
 * Whether decisions are recorded. User space sets this constant, and the size of the buffer, before it loads the
 * scheduler.
 */
const volatile bool explains;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} explanations SEC(".maps");

/* The number of records that did not fit into the buffer. */
u64 explanations_lost;

#endif

#if defined(__EQUIPOISE_SIMULATED_H) && defined(EQUIPOISE_EXPLAINS)

_Static_assert(EXPLAINED_NUMBERS == EQUIPOISE_EXPLAINED_NUMBERS, "the simulated kernel takes as many");

/* Reading the numbers costs no simulated time, so the scheduler makes the same decisions. */
#define explaining true
#define ___explain(number, about, on, values...)                                       \
	do {                                                                           \
		struct equipoise_memory *___memory = __KERNEL->memory;                 \
		__KERNEL->memory = NULL;                                               \
		{                                                                      \
			const s64 ___numbers[EXPLAINED_NUMBERS] = { values };          \
			__kcall(explain, number, (s32)(about), (s32)(on), ___numbers); \
		}                                                                      \
		__KERNEL->memory = ___memory;                                          \
	} while (0)

#elif defined(__EQUIPOISE_SIMULATED_H)

#define explaining false
#define ___explain(number, about, on, values...)                      \
	do {                                                          \
		const s64 ___numbers[EXPLAINED_NUMBERS] = { values }; \
		(void)___numbers, (void)(about), (void)(on);          \
	} while (0)

#else

static __always_inline struct explained *begin_record(void)
{
	struct explained *e = bpf_ringbuf_reserve(&explanations, sizeof(*e), 0);

	if (!e)
		explanations_lost++;
	return e;
}

static __always_inline void end_record(struct explained *e, enum decision decision)
{
	e->at = bpf_ktime_get_ns();
	e->decision = decision;
	e->by = bpf_get_smp_processor_id();
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

#define explaining explains
/*
 * The numbers are written directly into the record, because the stack of the deepest call chain has
 * no room for them.
 */
#define ___explain(number, about, on, values...)                                            \
	do {                                                                                \
		struct explained *___e = begin_record();                                    \
                                                                                            \
		if (___e) {                                                                 \
			const s64 ___numbers[EXPLAINED_NUMBERS] = { values };               \
			__builtin_memcpy(___e->numbers, ___numbers, sizeof(___e->numbers)); \
			___e->pid = (about);                                                \
			___e->cpu = (on);                                                   \
			end_record(___e, number);                                           \
		}                                                                           \
	} while (0)

#endif

/*
 * Records the decision @name about the task @about, given by its pid or 0, and the CPU @on. The numbers are
 * computed only if records are enabled, so the computation may be expensive.
 */
#define explain(name, about, on, values...)                                                  \
	do {                                                                                 \
		_Static_assert(sizeof((s64[]){ values }) == NUMBERS_OF_##name * sizeof(s64), \
			       #name " has other numbers in decisions.def");                 \
		if (explaining)                                                              \
			___explain(DECIDED_##name, about, on, ##values);                     \
	} while (0)

#endif /* __EQUIPOISE_EXPLAIN_H */
