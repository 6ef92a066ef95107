/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the verifier must not follow. A value that bounds an access must be precise, and the verifier
 * looks back for where it comes from. If that is an argument of a global function, it finds no
 * beginning and takes every number there to be precise, also dead ones. States then hardly ever equal
 * one another, and Linux 6.18 to 7.0 give up where such a number was in a register that a call has
 * overwritten since: "verifier bug: backtracking call unexpected regs". So a global function that has
 * a loop forgets where its arguments come from before it uses them.
 */
#ifndef __EQUIPOISE_VERIFIER_H
#define __EQUIPOISE_VERIFIER_H

#include <scx/common.bpf.h>

#ifdef __EQUIPOISE_SIMULATED_H
#define forget_origin(argument) ((void)0)
#else
/* A global function's result can be any number; what comes in may come out. */
__noinline u64 any_number(u64 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

#define forget_origin(argument) ((argument) = any_number(argument))
#endif

#endif /* __EQUIPOISE_VERIFIER_H */
