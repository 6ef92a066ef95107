/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What one pass of load_balance() works on: the kernel's lb_env and sd_lb_stats. Kept per CPU that balances rather
 * than on the stack, of which BPF has 512 bytes.
 */
#ifndef __EQUIPOISE_BALANCE_ENV_H
#define __EQUIPOISE_BALANCE_ENV_H

#include "../../balance_idle.h"
#include "group.bpf.h"

/* What balance_env::imbalance counts. */
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

struct balance_env {
	/* Whose domain it is, and at which level. */
	u32 cpu;
	u32 level;
	/* dst_cpu is cpu, or another of its group. */
	u32 dst_cpu;
	u32 src_cpu;
	u32 new_dst_cpu;
	enum balance_idle idle;
	enum migrates migration_type;
	u32 flags;
	s64 imbalance;
	/* When it began, ns. */
	u64 now;
	/* Who of those that wait on a CPU is to be asked next: the one that was enqueued or had the CPU longest
	 * ago, when that was, and its queue. 0: nobody. */
	s32 oldest_pid;
	u64 oldest_at;
	u64 oldest_dsq;
	/* How many tasks have been asked, are to be at most, and were moved. */
	u32 loop;
	u32 loop_max;
	u32 pulled;
	/* Does the core of dst_cpu idle but for it? */
	bool dst_core_idle;
	/* Has dst_cpu clearly more capacity than any CPU of the group that is looked at? */
	bool dst_is_larger;
	/* Is there a CPU with more than a task, with more to do than fits it? */
	bool overloaded;
	bool overutilized;
	/* CPUs found to have nothing that may move; valid if any is. */
	bool any_excluded;
	u64 excluded[MAX_CPUS / 64];
	/* The groups: dst_cpu's, and the busiest of the others or -1. */
	s32 busiest_group;
	u32 local_group;
	struct group_stats local;
	struct group_stats busiest;
	struct group_stats sgs;
	/* Of the whole domain. */
	u64 total_load;
	u64 total_capacity;
	u64 avg_load;
	u64 sum_util;
	bool prefer_sibling;
	/* The CPU to pull from: the busiest of its group, or -1. */
	s32 busiest_queue;
	u64 busiest_load;
	u64 busiest_capacity;
} __attribute__((aligned(64)));

#include "../../balance_pass.bpf.h"

/* Have others taken so much of @cpu that it shows beside what a domain with @imbalance_pct lets pass? */
static __always_inline bool check_cpu_capacity(u32 cpu, u32 imbalance_pct)
{
	return power_of(cpu) * imbalance_pct < power_orig_of(cpu) * 100;
}

#endif /* __EQUIPOISE_BALANCE_ENV_H */
