/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of the verifier. A value that bounds an access must be precise, and the verifier tracks it back to its
 * origin. If the origin is an argument of a global function, the verifier cannot find it, and treats every number
 * in the function as precise, even dead numbers. Two states are then hardly ever equal. Linux 6.18 to 7.0 even
 * reject the program if such a number was in a register that a call has overwritten since: "verifier bug:
 * backtracking call unexpected regs". A global function with a loop therefore hides the origin of its arguments
 * before it uses them.
 */
#ifndef __EQUIPOISE_VERIFIER_H
#define __EQUIPOISE_VERIFIER_H

#include <scx/common.bpf.h>

#ifdef __EQUIPOISE_SIMULATED_H
#define forget_origin(argument) ((void)0)
#else
/* Returns its argument. For the verifier, the result of a global function can be any number. */
__noinline u64 any_number(u64 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

#define forget_origin(argument) ((argument) = any_number(argument))
#endif

#endif /* __EQUIPOISE_VERIFIER_H */
