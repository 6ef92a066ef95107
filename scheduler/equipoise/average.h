/* SPDX-License-Identifier: GPL-2.0-only */
/* Averages over 2^shift ns, which forget what is older. */
#ifndef __EQUIPOISE_AVERAGE_H
#define __EQUIPOISE_AVERAGE_H

#include <scx/common.bpf.h>

/*
 * The time from @since to @now, in ns, up to 2^@shift, after which an average is forgotten. Another CPU may have
 * noted a time after @now.
 */
static __always_inline u64 age_of(u64 since, u64 now, u32 shift)
{
	s64 age = now - since, most = 1LL << shift;

	if (age < 0)
		return 0;
	return age < most ? age : most;
}

/* An average that was @from, of what has been @value for the time @age since. */
static __always_inline u64 averaged(u64 from, u64 value, u64 age, u32 shift)
{
	return from - (from * age >> shift) + (value * age >> shift);
}

#endif /* __EQUIPOISE_AVERAGE_H */
