/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface to user space: the topology, which user space fills in before it loads the scheduler, like the
 * policy (policy.bpf.h); and the counters, which user space reads. crates/policy mirrors the structures of the
 * topology; a test there compares sizes and offsets.
 *
 * All types have a fixed width; __u32 and __u64 come from vmlinux.h or <linux/types.h>.
 */
#ifndef __EQUIPOISE_INTF_H
#define __EQUIPOISE_INTF_H

/* The static limits. MAX_CPUS is a power of two, so that an index can be masked. */
#define MAX_CPU_BITS 12
#define MAX_CPUS (1 << MAX_CPU_BITS)
/* The number of domain levels above one CPU. */
#define MAX_LEVELS 8
/*
 * Domains have at least two CPUs and grow from level to level, so there are at most 1/2 + 1/4 + ... times as many
 * domains as CPUs. Groups partition domains, so there are at most 1 + 1/2 + ... times as many groups as CPUs.
 */
#define MAX_DOMAINS MAX_CPUS
#define MAX_GROUPS (2 * MAX_CPUS)

/* The machine as a whole. */
struct machine {
	/* The time between ticks, in ns. */
	__u64 tick_ns;
	/* CPUs are numbered from 0 to nr_cpus - 1. */
	__u32 nr_cpus;
	/* Whether Linux's schedutil adds a margin, and the use by other classes and interrupts, to requests. */
	__u32 governor_adds;
	/*
	 * Whether CPUs differ in capacity. If so, there are two groups outside any domain: the CPUs with the
	 * highest capacity, and the other CPUs.
	 */
	__u32 asymmetric;
	__u32 fast_group;
	__u32 slow_group;
	/* The largest cpu_power of a CPU, before other classes and interrupts reduce it. */
	__u32 max_power;
	/* The number of energy_domains[]: 0 if all CPUs are equal, or their power is unknown. */
	__u32 nr_energy_domains;
	/* Whether the frequency of any CPU follows requests. */
	__u32 scales;
};

/*
 * struct domain::flags, named as in include/linux/sched.h of Linux 3.9; flags that 3.9 lacks are named as in later
 * versions.
 */
#define SD_LOAD_BALANCE 0x0001
#define SD_BALANCE_NEWIDLE 0x0002
#define SD_BALANCE_EXEC 0x0004
#define SD_BALANCE_FORK 0x0008
#define SD_BALANCE_WAKE 0x0010
#define SD_WAKE_AFFINE 0x0020
#define SD_SHARE_CPUPOWER 0x0080
#define SD_SHARE_PKG_RESOURCES 0x0200
#define SD_ASYM_PACKING 0x0800
#define SD_PREFER_SIBLING 0x1000
#define SD_NUMA 0x4000
/* Our own flag: the domain has both fast and slow CPUs. */
#define SD_HMP 0x10000
/*
 * The first flag says that the domain's CPUs differ in capacity, the second flag that the domain has CPUs of all
 * capacities of the machine.
 */
#define SD_ASYM_CPUCAPACITY 0x20000
#define SD_ASYM_CPUCAPACITY_FULL 0x40000

/*
 * A sched_domain. Its CPUs are cpu_list[first .. first + weight). Its groups, sorted by their first CPU, are
 * groups[first_group .. first_group + nr_groups).
 */
struct domain {
	__u32 first;
	__u32 weight;
	__u32 first_group;
	__u32 nr_groups;
	__u32 flags;
	/* The percentage of the local load that the busiest group or CPU must exceed. */
	__u32 imbalance_pct;
	/* The number of failed attempts to balance up to which cache-hot tasks stay. */
	__u32 cache_nice_tries;
	/* The index into cpu_load[] for each reason to balance. */
	__u32 busy_idx;
	__u32 idle_idx;
	__u32 newidle_idx;
	__u32 wake_idx;
	__u32 forkexec_idx;
	/* The factor by which the balance interval of a busy CPU is longer than that of an idle CPU. */
	__u32 busy_factor;
	/* The bounds of the balance interval, in ms. */
	__u32 min_interval;
	__u32 max_interval;
	/* The number of tasks that may be on one node before the other nodes' idle CPUs count. */
	__u32 imb_numa_nr;
};

/* A sched_group: CPUs cpu_list[first .. first + weight). */
struct group {
	__u32 first;
	__u32 weight;
	/*
	 * The sum of the capacities of the group's CPUs: as last computed, and before other classes and interrupts
	 * reduce it.
	 */
	__u32 power;
	__u32 power_orig;
	/* The time in jiffies from which a CPU that runs out of work computes the capacity anew. */
	__u64 next_update;
};

/*
 * The energy model: groups of CPUs that share a frequency, outside any domain, and their
 * frequencies in rising order.
 */
#define MAX_ENERGY_DOMAINS 64
#define MAX_ENERGY_STATES 1024

struct energy_domain {
	__u32 group;
	__u32 first_state;
	__u32 nr_states;
	__u32 pad;
};

/*
 * The capacity of one CPU at a frequency, where the largest CPU has 1024, and the cost of a unit of this capacity,
 * in 0.1 uW.
 */
struct energy_state {
	__u64 performance;
	__u64 cost;
};

/* A CPU's place in the topology. */
struct cpu_levels {
	/* cpu_power, cpu_capacity (1024 is nominal): the value last computed, and the original one. */
	__u32 power;
	__u32 power_orig;
	/* The number of domains that span the CPU. */
	__u32 nr_levels;
	/* The number of these domains, from the bottom, whose CPUs share a last-level cache. */
	__u32 nr_llc_levels;
	/* The first CPU that shares the last-level cache. CPUs with equal ids share a cache. */
	__u32 llc_id;
	/* The numbers of the cache's CPUs are llc_list[llc_first .. llc_first + llc_weight). */
	__u32 llc_first;
	__u32 llc_weight;
	/* Whether the CPU is online. */
	__u32 online;
	/* Whether the CPU is in machine::fast_group. */
	__u32 fast;
	/* The CPU's place in the firmware's ranking; tasks prefer CPUs with a higher value. */
	__u32 priority;
	/* The speed of the hardware thread with all threads of its core busy, in 1024ths of its speed alone. */
	__u32 thread_speed;
	/* The domain at each level, smallest span first, and the group of that domain that has the CPU. */
	__u16 domain[MAX_LEVELS];
	__u16 group[MAX_LEVELS];
};

/* Events on one CPU. Only that CPU counts them. */
struct counters {
#define COUNTER(name, ...) __u64 name;
#include "counters.def"
#undef COUNTER
};

/* The maximum number of values of a row of decisions.def. */
#define EXPLAINED_NUMBERS 4

/* A decision as recorded in Linux, a record of the ring buffer (explain.bpf.h). */
struct explained {
	/* The time of CLOCK_MONOTONIC, in ns. */
	__u64 at;
	/* The row of decisions.def, and the CPU that decided. */
	__u32 decision;
	__u32 by;
	/* The task and the CPU that the decision is about; a pid of 0 stands for no task. */
	__s32 pid;
	__s32 cpu;
	__s64 numbers[EXPLAINED_NUMBERS];
};

#endif /* __EQUIPOISE_INTF_H */
