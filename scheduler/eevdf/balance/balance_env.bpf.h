/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What one pass of load_balance() works on: the kernel's lb_env and sd_lb_stats. Kept per CPU that balances rather
 * than on the stack, of which BPF has 512 bytes.
 */
#ifndef __EQUIPOISE_BALANCE_ENV_H
#define __EQUIPOISE_BALANCE_ENV_H

#include "group.bpf.h"

/* Why a CPU balances: the kernel's CPU_NOT_IDLE, CPU_IDLE, CPU_NEWLY_IDLE. */
enum balance_idle {
	LB_NOT_IDLE,
	LB_IDLE,
	LB_NEWLY_IDLE,
};

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
	/* Tasks looked at, how many at most, and how many moved. */
	u32 loop;
	u32 loop_max;
	u32 pulled;
	/* Does the core of dst_cpu idle but for it? */
	bool dst_core_idle;
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

struct balance_env balance_envs[MAX_CPUS];

/* This processor's. Nothing that balances is interrupted by anything that does. */
static __always_inline struct balance_env *this_balance_env(void)
{
	return &balance_envs[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline struct domain *env_domain(const struct balance_env *env)
{
	return domain_of(env->cpu, env->level);
}

static __always_inline struct domain_state *env_domain_state(const struct balance_env *env)
{
	return domain_state_of(env->cpu, env->level);
}

static __always_inline bool is_idle_balance(const struct balance_env *env)
{
	return env->idle != LB_NOT_IDLE;
}

static __always_inline bool excluded(const struct balance_env *env, u32 cpu)
{
	cpu &= MAX_CPUS - 1;
	return env->any_excluded && (env->excluded[cpu / 64] >> (cpu % 64) & 1);
}

static __always_inline void exclude(struct balance_env *env, u32 cpu)
{
	cpu &= MAX_CPUS - 1;
	if (!env->any_excluded)
		__builtin_memset(env->excluded, 0, sizeof(env->excluded));
	env->any_excluded = true;
	env->excluded[cpu / 64] |= 1ULL << (cpu % 64);
}

/* Have others taken so much of @cpu that it shows beside what a domain with @imbalance_pct lets pass? */
static __always_inline bool check_cpu_capacity(u32 cpu, u32 imbalance_pct)
{
	return power_of(cpu) * imbalance_pct < power_orig_of(cpu) * 100;
}

#endif /* __EQUIPOISE_BALANCE_ENV_H */
