/* SPDX-License-Identifier: GPL-2.0-only */
/* Times that may wrap around: include/linux/jiffies.h. */
#ifndef __SCX_TIME_BPF_H
#define __SCX_TIME_BPF_H

static inline bool time_after(u64 a, u64 b)
{
	return (s64)(b - a) < 0;
}

/* The time from @before to @after; 0 if @after is earlier. */
static inline s64 time_delta(u64 after, u64 before)
{
	s64 delta = after - before;

	return delta > 0 ? delta : 0;
}

static inline bool time_before(u64 a, u64 b)
{
	return time_after(b, a);
}

static inline bool time_after_eq(u64 a, u64 b)
{
	return (s64)(a - b) >= 0;
}

static inline bool time_before_eq(u64 a, u64 b)
{
	return time_after_eq(b, a);
}

static inline bool time_in_range(u64 a, u64 from, u64 to)
{
	return time_after_eq(a, from) && time_before_eq(a, to);
}

static inline bool time_in_range_open(u64 a, u64 from, u64 before)
{
	return time_after_eq(a, from) && time_before(a, before);
}

#endif /* __SCX_TIME_BPF_H */
