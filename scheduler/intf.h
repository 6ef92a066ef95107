/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a scheduler shares with user space: the topology, which user space fills in before it loads the
 * scheduler, as it does the policy (policy.bpf.h), and the counters, which it reads. crates/policy mirrors the
 * topology's structures; a test there compares sizes and offsets.
 *
 * Fixed-width types only; __u32 and __u64 come from vmlinux.h or <linux/types.h>.
 */
#ifndef __EQUIPOISE_INTF_H
#define __EQUIPOISE_INTF_H

/* Static limits. MAX_CPUS is a power of two, so that an index can be masked. */
#define MAX_CPUS 1024
/* Domain levels above one CPU. */
#define MAX_LEVELS 8
/*
 * Domains of at least two CPUs that grow from level to level: at most 512 + 256 + ... And groups
 * partition domains: at most 1024 + 512 + ...
 */
#define MAX_DOMAINS 1024
#define MAX_GROUPS 2048

/* The machine as a whole. */
struct machine {
	/* Time between ticks, ns. */
	__u64 tick_ns;
	/* CPUs are numbered 0..nr_cpus. */
	__u32 nr_cpus;
	/* Linux's schedutil adds what real-time, deadline and interrupt time use, and a margin, to what is
	   asked for. */
	__u32 governor_adds;
	/* Do CPUs differ in capacity? Then two groups, of no domain: those of the highest, and the rest. */
	__u32 asymmetric;
	__u32 fast_group;
	__u32 slow_group;
	/* The largest cpu_power of a CPU, with nothing taken from it. */
	__u32 max_power;
	/* How many of energy_domains[] there are: 0 if CPUs are all alike, or what they take is not known. */
	__u32 nr_energy_domains;
	/* Does some CPU's frequency follow what is asked for? */
	__u32 scales;
};

/* struct domain::flags, named as in include/linux/sched.h of Linux 3.9, and as in later ones what that has not. */
#define SD_LOAD_BALANCE 0x0001
#define SD_BALANCE_NEWIDLE 0x0002
#define SD_BALANCE_EXEC 0x0004
#define SD_BALANCE_FORK 0x0008
#define SD_BALANCE_WAKE 0x0010
#define SD_WAKE_AFFINE 0x0020
#define SD_SHARE_CPUPOWER 0x0080
#define SD_SHARE_PKG_RESOURCES 0x0200
#define SD_SERIALIZE 0x0400
#define SD_ASYM_PACKING 0x0800
#define SD_PREFER_SIBLING 0x1000
#define SD_NUMA 0x4000
/* Ours: has both fast and slow CPUs. */
#define SD_HMP 0x10000
/* CPUs differ in capacity; and there are those of each that the machine has. */
#define SD_ASYM_CPUCAPACITY 0x20000
#define SD_ASYM_CPUCAPACITY_FULL 0x40000

/*
 * A sched_domain. Its CPUs are cpu_list[first .. first + weight), its groups
 * groups[first_group .. first_group + nr_groups), by their first CPU.
 */
struct domain {
	__u32 first;
	__u32 weight;
	__u32 first_group;
	__u32 nr_groups;
	__u32 flags;
	/* Percent of the local load that the busiest must exceed. */
	__u32 imbalance_pct;
	/* So many failed attempts leave cache-hot tasks alone. */
	__u32 cache_nice_tries;
	/* Which cpu_load[] counts, by why the CPU balances. */
	__u32 busy_idx;
	__u32 idle_idx;
	__u32 newidle_idx;
	__u32 wake_idx;
	__u32 forkexec_idx;
	/* A busy CPU balances this many times less often. */
	__u32 busy_factor;
	/* Bounds of the balance interval, ms. */
	__u32 min_interval;
	__u32 max_interval;
	/* So many tasks may be on one node before the others' idle CPUs count. */
	__u32 imb_numa_nr;
};

/* A sched_group: CPUs cpu_list[first .. first + weight). */
struct group {
	__u32 first;
	__u32 weight;
	/* Sum of its CPUs' capacities, as last found, and with nothing taken from them. */
	__u32 power;
	__u32 power_orig;
	/* A CPU that runs out of work finds it anew from then on, jiffies. */
	__u64 next_update;
};

/* The energy model: CPUs that share a frequency, a group of no domain, and their frequencies from the lowest up. */
#define MAX_ENERGY_DOMAINS 64
#define MAX_ENERGY_STATES 1024

struct energy_domain {
	__u32 group;
	__u32 first_state;
	__u32 nr_states;
	__u32 pad;
};

/* What one CPU can do at a frequency, of 1024 of the largest, and what a unit of that costs it: 0.1 uW. */
struct energy_state {
	__u64 performance;
	__u64 cost;
};

/* A CPU's place in the topology. */
struct cpu_levels {
	/* cpu_power, cpu_capacity: 1024 is nominal; as last found, and with nothing taken from it. */
	__u32 power;
	__u32 power_orig;
	/* How many domains span the CPU. */
	__u32 nr_levels;
	/* How many of them, from the bottom, share a last-level cache. */
	__u32 nr_llc_levels;
	/* The first CPU that shares the last-level cache: equal ids share. */
	__u32 llc_id;
	/* Those CPUs, by their numbers: llc_list[llc_first .. llc_first + llc_weight). */
	__u32 llc_first;
	__u32 llc_weight;
	/* One of machine::fast_group. */
	__u32 fast;
	/* The firmware's ranking of CPUs: the higher, the rather a task should have it. */
	__u32 priority;
	/* The domain at each level, smallest span first, and the group of it that has the CPU. */
	__u16 domain[MAX_LEVELS];
	__u16 group[MAX_LEVELS];
};

/* What happened on one CPU. Only that CPU counts. */
struct counters {
#define COUNTER(name, ...) __u64 name;
#include "counters.def"
#undef COUNTER
};

/* No row of decisions.def has more. */
#define EXPLAINED_NUMBERS 4

/* A decision as it is told in Linux, one of the ring buffer's records (explain.bpf.h). */
struct explained {
	/* When, ns of CLOCK_MONOTONIC. */
	__u64 at;
	/* Which row of decisions.def, and the CPU that decided. */
	__u32 decision;
	__u32 by;
	/* The task and the CPU that it is about; 0: no task. */
	__s32 pid;
	__s32 cpu;
	__s64 numbers[EXPLAINED_NUMBERS];
};

#endif /* __EQUIPOISE_INTF_H */
