/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of one pass of load_balance(): the kernel's lb_env, sd_lb_stats and sg_lb_stats. The state is kept for
 * each balancing CPU, because BPF has only 512 bytes of stack.
 */
#ifndef __EQUIPOISE_BALANCE_ENV_H
#define __EQUIPOISE_BALANCE_ENV_H

#include "../../balance_idle.h"
#include "../core/task.bpf.h"
#include "cpu_load.h"

/* balance_env::flags */
#define LBF_ALL_PINNED 0x01
#define LBF_SOME_PINNED 0x02
/* Whether the pass has to empty a group, and whether it has to spread load. */
#define LBF_POWER_BAL 0x04
#define LBF_PERF_BAL 0x08

/* A group's part of the statistics of its domain. */
struct group_stats {
	u64 avg_load;	       /* the load divided by the power */
	u64 group_load;	       /* the load, biased to or from the CPU that balances */
	u64 sum_weighted_load; /* the load without bias */
	u64 sum_nr_running;
	u64 group_capacity; /* the number of tasks that the group should have */
	u64 idle_cpus;
	/* The largest and the smallest load of a CPU in a group that is not the local one. */
	u64 max_cpu_load, min_cpu_load;
	u64 max_nr_running, min_nr_running;
	/* The first idle CPU of the local group, or -1. */
	s32 first_idle_cpu;
	bool group_imb; /* whether the group's CPUs have uneven loads */
	bool group_has_capacity;
	struct design_group_stats design;
};

struct domain_stats {
	u64 total_load;
	u64 total_pwr;
	u64 avg_load;

	/* The statistics of the group of the CPU that balances. */
	u64 this_power;
	u64 this_load;
	u64 this_load_per_task;
	u64 this_nr_running;
	u64 this_idle_cpus;
	bool this_has_capacity;

	/* The number of the busiest of the other groups, or -1. */
	s32 busiest;
	bool busiest_has_capacity;
	bool group_imb;
	u64 busiest_power;
	u64 busiest_weight;
	u64 max_load;
	u64 busiest_load_per_task;
	u64 busiest_nr_running;
	u64 busiest_idle_cpus;
	u64 busiest_group_capacity;

	struct design_domain_stats design;
};

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
	enum balance_idle idle;
	/* For explain(), the reasons for which the tasks considered so far stay. */
	struct refused refused;
	u32 flags;
	u32 new_dst_cpu;
	s64 imbalance;
	/* The number of tasks considered so far, the limit of that number, and the number of moved tasks. */
	u32 loop;
	u32 loop_max;
	u32 pulled;
	/* Whether this CPU balances for its group. */
	bool balance;
	/* The CPUs found to have no movable task; the set is valid only if any_excluded is true. */
	bool any_excluded;
	u64 excluded[MAX_CPUS / 64];
	/* The load of the busiest CPU of the group to pull from, and that CPU, or -1. */
	u64 busiest_queue_load;
	s32 busiest_queue;
	struct design_env design;
	struct domain_stats sds;
	struct group_stats sgs;
} __attribute__((aligned(64)));

#include "../../balance_pass.bpf.h"

static __always_inline u32 env_local_group(const struct balance_env *env)
{
	return local_group_of(env->cpu, env->level);
}

#endif /* __EQUIPOISE_BALANCE_ENV_H */
