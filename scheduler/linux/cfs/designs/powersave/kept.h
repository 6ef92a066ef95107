/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of power balance; see power_balance.h. */
#ifndef __EQUIPOISE_POWERSAVE_KEPT_H
#define __EQUIPOISE_POWERSAVE_KEPT_H

struct powersave_domain {
	/* One bit for each of the last balances, the latest in the lowest bit: 1 if it was for performance. */
	u64 perf_lb_record;
};

struct powersave_group_stats {
	/* The utilization that the group's CPUs may reach. */
	u64 group_util;
};

struct powersave_domain_stats {
	/* The numbers of the local group, the group to fill and the group to empty, or -1. */
	s32 this_group;
	s32 group_leader;
	s32 group_min;
	u64 leader_util;
	u64 min_util;
	u64 min_load_per_task;
};

#endif /* __EQUIPOISE_POWERSAVE_KEPT_H */
