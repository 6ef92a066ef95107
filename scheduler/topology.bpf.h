/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine: sched domains, their groups, and the place of each CPU. User space builds the tables
 * (crates/policy) and drops redundant levels, as build_sched_domains() does.
 *
 * Most indices are masked or bounded here, so that the rest of the scheduler can use the kernel's terms and still
 * pass the verifier.
 */
#ifndef __EQUIPOISE_TOPOLOGY_H
#define __EQUIPOISE_TOPOLOGY_H

#include "verifier.h"
#include "intf.h"
#include "policy.bpf.h"

/* The kernel's units of power (capacity), load and weight. */
#define SCHED_POWER_SCALE 1024
#define SCHED_LOAD_SCALE 1024
#define NICE_0_LOAD 1024

const volatile struct machine machine;

struct domain domains[MAX_DOMAINS];
struct group groups[MAX_GROUPS];
__u16 cpu_list[MAX_DOMAINS * MAX_LEVELS];
__u16 llc_list[MAX_CPUS];
struct cpu_levels cpu_levels[MAX_CPUS];
struct energy_domain energy_domains[MAX_ENERGY_DOMAINS];
struct energy_state energy_states[MAX_ENERGY_STATES];
struct counters counters[MAX_CPUS];

static __always_inline u32 nr_cpus(void)
{
	return machine.nr_cpus;
}

static __always_inline struct cpu_levels *levels_of(u32 cpu)
{
	return &cpu_levels[cpu & (MAX_CPUS - 1)];
}

/* The capacity of @cpu for fair tasks, less what other classes and interrupts use (capacity.h); and in full. */
static __always_inline u32 power_of(u32 cpu)
{
	return levels_of(cpu)->power;
}

static __always_inline u32 power_orig_of(u32 cpu)
{
	return levels_of(cpu)->power_orig;
}

/* Does the firmware's ranking prefer @a to @b (arch_asym_cpu_priority())? */
static __always_inline bool sched_asym_prefer(u32 a, u32 b)
{
	return levels_of(a)->priority > levels_of(b)->priority;
}

/* Is @cpu online? The answer is constant, because a scheduler is loaded anew when a CPU comes or goes. */
static __always_inline bool is_online(u32 cpu)
{
	return levels_of(cpu)->online;
}

static __always_inline bool is_fast(u32 cpu)
{
	return levels_of(cpu)->fast;
}

static __always_inline struct counters *this_counters(void)
{
	return &counters[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* The domain at @level of @cpu; the caller knows that there is one. */
static __always_inline struct domain *domain_of(u32 cpu, u32 level)
{
	return &domains[levels_of(cpu)->domain[level & (MAX_LEVELS - 1)] & (MAX_DOMAINS - 1)];
}

/* @cpu's group among the groups of its domain at @level. */
static __always_inline u32 local_group_of(u32 cpu, u32 level)
{
	return levels_of(cpu)->group[level & (MAX_LEVELS - 1)];
}

static __always_inline struct group *group_at(u32 index)
{
	return &groups[index & (MAX_GROUPS - 1)];
}

/*
 * The number of the @i-th group of @sd, counted from group @local, like the kernel's circular list
 * of groups: each CPU meets its own group first.
 */
static __always_inline u32 nth_group(const struct domain *sd, u32 local, u32 i)
{
	u32 n = local + i;

	return n < sd->first_group + sd->nr_groups ? n : n - sd->nr_groups;
}

/* The domain of @cpu's core, or NULL if it has one thread. */
static __always_inline const struct domain *smt_domain(u32 cpu)
{
	const struct domain *sd = domain_of(cpu, 0);

	return levels_of(cpu)->nr_levels && sd->flags & SD_SHARE_CPUPOWER ? sd : NULL;
}

static __always_inline u32 domain_cpu(const struct domain *sd, u32 i)
{
	return cpu_list[(sd->first + i) & (MAX_DOMAINS * MAX_LEVELS - 1)];
}

static __always_inline u32 nth_cpu(const struct group *sg, u32 i)
{
	return cpu_list[(sg->first + i) & (MAX_DOMAINS * MAX_LEVELS - 1)];
}

/*
 * Is @other in @cpu's domain at @level, although the level has another number for @other? A level that one of the
 * CPUs lacks shifts the levels above it. The number of a domain is the same for all of its CPUs.
 */
__noinline bool same_domain_moved(u32 cpu, u32 other, u32 level)
{
	struct cpu_levels *a = levels_of(cpu), *b = levels_of(other);

	for (u32 i = 0; i < MAX_LEVELS; i++)
		if (i < b->nr_levels && a->domain[level & (MAX_LEVELS - 1)] == b->domain[i])
			return true;
	return false;
}

/* Is @other in the domain at @level of @cpu, which has one there? */
static __always_inline bool same_domain(u32 cpu, u32 other, u32 level)
{
	struct cpu_levels *a = levels_of(cpu), *b = levels_of(other);

	level &= MAX_LEVELS - 1;
	return (level < b->nr_levels && a->domain[level] == b->domain[level]) ||
	       same_domain_moved(cpu, other, level);
}

static __always_inline bool cpus_share_cache(u32 a, u32 b)
{
	return levels_of(a)->llc_id == levels_of(b)->llc_id;
}

/*
 * cpu_power in units of a full CPU: DIV_ROUND_CLOSEST(power, SCHED_POWER_SCALE). The caller handles
 * a result of 0 (fix_small_capacity()).
 */
static __always_inline u64 capacity_of_power(u64 power)
{
	return (power + SCHED_POWER_SCALE / 2) / SCHED_POWER_SCALE;
}

/*
 * A CPU of a group of SMT siblings may have less than half the power of a full CPU, but the group can run a task,
 * so its capacity is 1 as long as other classes have not taken a tenth of it (fix_small_capacity()). @power is that
 * of @sg or of one of its CPUs.
 */
static __always_inline u64 group_capacity(const struct domain *sd, const struct group *sg, u64 power)
{
	u64 capacity = capacity_of_power(power);

	if (!capacity && sd->flags & SD_SHARE_CPUPOWER)
		return (u64)sg->power * 32 > (u64)sg->power_orig * 29;
	return capacity;
}

/* Conversions from times to ticks and back, with the kernel's names. */
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL

static __always_inline u64 jiffies_at(u64 now)
{
	return now / machine.tick_ns;
}

/* The jiffies in @ms, rounded up as in the kernel. */
static __always_inline u64 msecs_to_jiffies(u64 ms)
{
	return (ms * NSEC_PER_MSEC + machine.tick_ns - 1) / machine.tick_ns;
}

/* The number of ticks per second (HZ). */
static __always_inline u64 jiffies_per_sec(void)
{
	return NSEC_PER_SEC / machine.tick_ns;
}

#endif /* __EQUIPOISE_TOPOLOGY_H */
