/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of one pass of load_balance(): the kernel's lb_env and sd_lb_stats. The state is kept for each
 * balancing CPU, because BPF has only 512 bytes of stack.
 */
#ifndef __EQUIPOISE_BALANCE_ENV_H
#define __EQUIPOISE_BALANCE_ENV_H

#include "../../balance_idle.h"
#include "group.bpf.h"

/* The unit of balance_env::imbalance. */
enum migrates {
	MIGRATE_LOAD,
	MIGRATE_UTIL,
	MIGRATE_TASK,
	MIGRATE_MISFIT,
};

/* balance_env::flags */
#define LBF_ALL_PINNED 0x01
#define LBF_SOME_PINNED 0x02
#define LBF_DST_PINNED 0x04

/* The numbers of tasks that stay because of their affinity, a warm cache, or too much load. */
struct refused {
	u32 pinned;
	u32 hot;
	u32 heavy;
};

struct balance_env {
	/* The CPU whose domain is balanced, and the level. */
	u32 cpu;
	u32 level;
	/* dst_cpu is cpu, or another CPU of its group. */
	u32 dst_cpu;
	u32 src_cpu;
	u32 new_dst_cpu;
	enum balance_idle idle;
	/* For explain(), the reasons for which the tasks considered so far stay. */
	struct refused refused;
	enum migrates migration_type;
	u32 flags;
	s64 imbalance;
	/* The start of the pass, in ns. */
	u64 now;
	/*
	 * The next candidate among a CPU's waiting tasks, which is the task that was enqueued or picked least
	 * recently: the task's pid (0: none), the time of that event, and the task's queue.
	 */
	s32 oldest_pid;
	u64 oldest_at;
	u64 oldest_dsq;
	/* The number of tasks considered so far, the limit of that number, and the number of moved tasks. */
	u32 loop;
	u32 loop_max;
	u32 pulled;
	/* Whether the rest of dst_cpu's core is idle. */
	bool dst_core_idle;
	/* Whether dst_cpu has clearly more capacity than every CPU of the group under consideration. */
	bool dst_is_larger;
	/* The domain's part of struct whole_machine. */
	bool overloaded;
	bool overutilized;
	/* The CPUs found to have no movable task; the set is valid only if any_excluded is true. */
	bool any_excluded;
	u64 excluded[MAX_CPUS / 64];
	/* The number of dst_cpu's group, and that of the busiest other group, or -1. */
	s32 busiest_group;
	u32 local_group;
	struct group_stats local;
	struct group_stats busiest;
	struct group_stats sgs;
	/* The sums over the domain, and total_load relative to total_capacity where that is needed. */
	u64 total_load;
	u64 total_capacity;
	u64 avg_load;
	u64 sum_util;
	/* Whether tasks should spread over the groups (SD_PREFER_SIBLING of the busiest group). */
	bool prefer_sibling;
	/* The CPU to pull from, the busiest of its group, or -1; and that CPU's load and capacity. */
	s32 busiest_queue;
	u64 busiest_load;
	u64 busiest_capacity;
} __attribute__((aligned(64)));

#include "../../balance_pass.bpf.h"

/* Do other classes take so much of @cpu that it exceeds the tolerance of a domain with @imbalance_pct? */
static __always_inline bool check_cpu_capacity(u32 cpu, u32 imbalance_pct)
{
	return power_of(cpu) * imbalance_pct < power_orig_of(cpu) * 100;
}

#endif /* __EQUIPOISE_BALANCE_ENV_H */
