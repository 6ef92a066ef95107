/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler shares with user space: the policy and the topology, which user space fills in
 * before it loads the scheduler, and the counters, which it reads. crates/policy mirrors these
 * structures; a test there compares sizes and offsets.
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

/* struct policy::load_tracking: what the load of a task is in balancing. */
#define LOAD_WEIGHT 0 /* its weight, as in Linux 3.9 */
#define LOAD_PELT 1   /* its runnable average times its weight, as in Linux 3.11 */

/* struct policy::sched_balance_policy: what balancing is for. */
#define BALANCE_PERFORMANCE 0 /* to spread tasks */
#define BALANCE_POWERSAVING 1 /* to pack them into few groups as long as these have room */

/* struct policy::frequency */
#define FREQUENCY_FAIR 0x1
#define FREQUENCY_RT 0x2
#define FREQUENCY_DL 0x4
#define FREQUENCY_IRQ 0x8

/* struct policy::scale_rt_capacity: what tells how much of a CPU other classes and interrupts leave. */
#define RT_CAPACITY_AVG 0  /* rq->rt_avg, as until Linux 4.18 */
#define RT_CAPACITY_PELT 1 /* their utilization */

/* Switches and numbers over the one body of code; a preset in policies/ is a set of these. */
struct policy {
	/* CFS's tunables, as scaled to the number of CPUs, ns. */
	__u64 sched_latency;
	__u64 sched_min_granularity;
	__u64 sched_wakeup_granularity;
	/* A task that ran within this time is cache-hot, ns. */
	__u64 sched_migration_cost;
	/* How many tasks one pass over a busy runqueue looks at. */
	__u32 sched_nr_migrate;
	/* LOAD_WEIGHT or LOAD_PELT. */
	__u32 load_tracking;
	/* Force a task that is too heavy for its CPU onto a CPU of higher capacity. */
	__u32 misfit;
	/* An idle CPU pulls wherever a group has more tasks than CPUs. */
	__u32 idle_pull;
	/* A CPU that runs out of work more often than this on average does not look for some, ns; 0:
	   however often. */
	__u64 newidle_limit;
	/* A CPU that idles for less than this on average is woken in bursts, ns. */
	__u64 sched_burst_threshold;
	/* BALANCE_PERFORMANCE or BALANCE_POWERSAVING. */
	__u32 sched_balance_policy;
	/* Whose utilization decides about a CPU's frequency: FREQUENCY_*; 0: always the highest. */
	__u32 frequency;
	/* A CPU asks for another frequency no sooner than this after the last time, ns. */
	__u64 frequency_rate_limit;
	/* Who moves tasks between fast and slow CPUs: HMP_OFF, HMP_LINARO or HMP_HPERF. */
	__u32 hmp;
	/* HMP_LINARO: runnable averages (of 1024) of tasks that go up and down. */
	__u32 hmp_up_threshold;
	__u32 hmp_down_threshold;
	/* Wake up small tasks on as few slow CPUs as hold them below this (of 1024); 0: spread them. */
	__u32 hmp_full_threshold;
	/* A task that went up, or down, does not do so again within these times, ns. */
	__u64 hmp_next_up;
	__u64 hmp_next_down;
	/* RT_CAPACITY_AVG or RT_CAPACITY_PELT. */
	__u32 scale_rt_capacity;
	/* What an interrupt wakes stays on its idle CPU. */
	__u32 wake_affine_idle;
};

/* struct policy::hmp, on a machine whose CPUs differ in capacity. */
#define HMP_OFF 0    /* all domains are balanced alike */
#define HMP_LINARO 1 /* by thresholds on a task's load */
#define HMP_HPERF 2  /* by the clusters' loads and fairness in time on fast CPUs */

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
	__u32 pad;
};

/* struct domain::flags, named as in include/linux/sched.h of Linux 3.9. */
#define SD_LOAD_BALANCE 0x0001
#define SD_BALANCE_NEWIDLE 0x0002
#define SD_BALANCE_EXEC 0x0004
#define SD_BALANCE_FORK 0x0008
#define SD_BALANCE_WAKE 0x0010
#define SD_WAKE_AFFINE 0x0020
#define SD_SHARE_CPUPOWER 0x0080
#define SD_SHARE_PKG_RESOURCES 0x0200
#define SD_PREFER_SIBLING 0x1000
/* Ours: has both fast and slow CPUs. */
#define SD_HMP 0x10000

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
	__u32 pad;
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
	/* One of machine::fast_group. */
	__u32 fast;
	/* The domain at each level, smallest span first, and the group of it that has the CPU. */
	__u16 domain[MAX_LEVELS];
	__u16 group[MAX_LEVELS];
};

/* What happened on one CPU. Only that CPU counts. */
struct counters {
	/* Passes of load_balance(), over all domains and kinds of idleness. */
	__u64 balance_calls;
	/* Time in them, ns. */
	__u64 balance_ns;
	/* Tasks that they pulled. */
	__u64 pulled;
	/* Times that the CPU ran out of work and looked for some; did not, because it would soon be
	   busy; did not, because that happens too often; tasks that it pulled; and how long it looked, ns. */
	__u64 newidle_calls;
	__u64 newidle_skipped;
	__u64 newidle_limited;
	__u64 newidle_pulled;
	__u64 newidle_ns;
	/* Running tasks asked for from another CPU, and of these the ones too heavy for theirs. */
	__u64 active_balances;
	__u64 misfit_moves;
	/* Idle CPUs asked to balance for all idle CPUs. */
	__u64 nohz_kicks;
	/* Tasks placed by packing, and passes of load_balance() that were to empty a group. */
	__u64 power_placed;
	__u64 power_balances;
	/* Frequencies asked for, and the sum of what was asked for, of 1024. */
	__u64 frequency_requests;
	__u64 frequency_requested;
	/* Tasks moved from slow to fast CPUs, from fast to slow ones, and pairs that changed places. */
	__u64 up_migrations;
	__u64 down_migrations;
	__u64 swaps;
};

#endif /* __EQUIPOISE_INTF_H */
