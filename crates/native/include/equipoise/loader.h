/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of a scheduler: the work that user space does in Linux between opening the object and attaching
 * its ops. A file that includes this header and then defines LOADER() is compiled with the scheduler. The function
 * runs before ops.init(), may write to constants and to the ops, may call the scheduler's SEC("syscall") programs,
 * and returns 0 or an errno.
 */
#ifndef __EQUIPOISE_LOADER_H
#define __EQUIPOISE_LOADER_H

#include <scx/common.bpf.h>

#define LOADER() __equipoise_export s32 equipoise_loader(void)

/*
 * Sets a `const volatile` variable, or an element or a member of one. The compiler must not see that it is
 * constant: it would drop the assignment.
 */
#define loader_set(variable, value)                                                 \
	({                                                                          \
		typeof(variable) ___value = (value);                                \
		void *___to = (void *)&(variable);                                  \
		asm volatile("" : "+r"(___to)::"memory");                           \
		__builtin_memcpy(___to, (const void *)&___value, sizeof(___value)); \
	})

/* Attaches @program, whose section begins with `?`. */
#define LOADER_ATTACH(program) __equipoise_export const u32 equipoise_attach_##program = 1

/*
 * A timer for work that a loader does later. LOADER() starts the timer with NAME_start(), which takes the delay in
 * ns and flags of bpf_timer_start(). On expiry, NAME_fires() is called; the body of this function follows the
 * macro, and may start the timer again.
 */
#define LOADER_TIMER(name)                                               \
	struct name {                                                    \
		struct bpf_timer timer;                                  \
	};                                                               \
	struct {                                                         \
		__uint(type, BPF_MAP_TYPE_ARRAY);                        \
		__uint(max_entries, 1);                                  \
		__type(key, u32);                                        \
		__type(value, struct name);                              \
	} name SEC(".maps");                                             \
	static int name##_fires(void *map, u32 *key, struct name *name); \
	static inline long name##_start(u64 ns, u64 flags)               \
	{                                                                \
		u32 first = 0;                                           \
		struct name *value = bpf_map_lookup_elem(&name, &first); \
                                                                         \
		bpf_timer_init(&value->timer, &name, CLOCK_MONOTONIC);   \
		bpf_timer_set_callback(&value->timer, name##_fires);     \
		return bpf_timer_start(&value->timer, ns, flags);        \
	}                                                                \
	static int name##_fires(void *map, u32 *key, struct name *name)

static inline bool loader_online(u32 cpu)
{
	const struct cpumask *online = __kcall(cpumask, EQUIPOISE_ONLINE);

	return cpu < __KERNEL->nr_cpu_ids && online->bits[cpu / 64] >> cpu % 64 & 1;
}
#define loader_for_each_cpu(cpu)                             \
	for (u32 cpu = 0; cpu < __KERNEL->nr_cpu_ids; cpu++) \
		if (!loader_online(cpu)) {                   \
		} else

/* The place of @cpu in the topology. Cores, last-level caches and nodes are numbered machine-wide from 0 on. */
static inline struct scx_cid_topo loader_topology(u32 cpu)
{
	struct scx_cid_topo place;

	__kcall(cid_topo, __KERNEL->cpu_to_cid[cpu], &place);
	return place;
}

static inline u32 loader_core(u32 cpu)
{
	return loader_topology(cpu).core_idx;
}

static inline u32 loader_llc(u32 cpu)
{
	return loader_topology(cpu).llc_idx;
}

static inline u32 loader_node(u32 cpu)
{
	return loader_topology(cpu).node_idx;
}

/* The number of different values of @of, one of the three functions above. */
static inline u32 loader_count(u32 (*of)(u32 cpu))
{
	u32 count = 0;

	loader_for_each_cpu(cpu) if (of(cpu) >= count) count = of(cpu) + 1;
	return count;
}

/* The first online CPU whose @of is @number; -1 if there is none. */
static inline s32 loader_first(u32 (*of)(u32 cpu), u32 number)
{
	loader_for_each_cpu(cpu) if (of(cpu) == number) return cpu;
	return -1;
}

/* The next hardware thread of @cpu's core, in cyclic order; @cpu itself if it is the only one. */
static inline u32 loader_sibling(u32 cpu)
{
	u32 nr = __KERNEL->nr_cpu_ids;

	for (u32 i = 1; i < nr; i++) {
		u32 other = (cpu + i) % nr;

		if (loader_online(other) && loader_core(other) == loader_core(cpu))
			return other;
	}
	return cpu;
}

/* Does any core have several hardware threads? */
static inline bool loader_smt(void)
{
	loader_for_each_cpu(cpu) if (loader_sibling(cpu) != cpu) return true;
	return false;
}

/* The highest performance of @cpu, relative to 1024 for the machine's fastest CPU. */
static inline u32 loader_capacity(u32 cpu)
{
	return __kcall(cpuperf, cpu, EQUIPOISE_CPUPERF_CAP);
}

/* The highest and the lowest loader_capacity() of the machine's CPUs. */
static inline u32 loader_most_capacity(void)
{
	u32 most = 0;

	loader_for_each_cpu(cpu) if (loader_capacity(cpu) > most) most = loader_capacity(cpu);
	return most;
}

static inline u32 loader_least_capacity(void)
{
	u32 least = 1024;

	loader_for_each_cpu(cpu) if (loader_capacity(cpu) < least) least = loader_capacity(cpu);
	return least;
}

/* The time in ns for which @cpu has not been idle: /proc/stat's user, nice, system, irq and softirq. */
static inline u64 loader_busy_ns(u32 cpu)
{
	return __kcall(busy_ns, cpu);
}

#endif /* __EQUIPOISE_LOADER_H */
