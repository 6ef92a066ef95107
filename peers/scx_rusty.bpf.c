/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of scx_rusty 1.1.4 with default options (src/main.rs, src/tuner.rs). A domain is a
 * last-level cache. The load balancer between domains, which user space runs every two seconds, is left out.
 */
#include "main.bpf.c"
#include <equipoise/loader.h>

/* --tune-interval; --slice-us-underutil and --slice-us-overutil; --direct-greedy-under */
#define TUNE_NS 100000000ULL
#define SLICE_UNDERUTIL_NS 20000000ULL
#define SLICE_OVERUTIL_NS 1000000ULL
#define DIRECT_GREEDY_UNDER_PCT 90

static u64 loader_busy_before[MAX_CPUS];
static u64 loader_tuned_at;

/* The busy time of the CPUs of @dom (of all if it is -1) since the last call, and the total time of these CPUs. */
static void loader_utilization(u64 elapsed, s32 dom, u64 *busy, u64 *had)
{
	*busy = 0, *had = 0;
	loader_for_each_cpu(cpu)
	{
		if (dom >= 0 && loader_llc(cpu) != (u32)dom)
			continue;
		*busy += loader_busy_ns(cpu) - loader_busy_before[cpu];
		*had += elapsed;
	}
}

/* Tuner::step() */
static void loader_tune(u64 now)
{
	u64 elapsed = now - loader_tuned_at, busy, had;

	loader_utilization(elapsed, -1, &busy, &had);
	tune_input.slice_ns = busy >= had ? SLICE_OVERUTIL_NS : SLICE_UNDERUTIL_NS;
	loader_for_each_cpu(cpu)
	{
		u64 bit = 1ULL << cpu % 64;

		loader_utilization(elapsed, loader_llc(cpu), &busy, &had);
		tune_input.direct_greedy_cpumask[cpu / 64] &= ~bit;
		if (busy * 100 < had * DIRECT_GREEDY_UNDER_PCT)
			tune_input.direct_greedy_cpumask[cpu / 64] |= bit;
		/* --kick-greedy-under is 100 %. */
		tune_input.kick_greedy_cpumask[cpu / 64] |= bit;
	}
	tune_input.genn++;
	loader_for_each_cpu(cpu) loader_busy_before[cpu] = loader_busy_ns(cpu);
	loader_tuned_at = now;
}

LOADER_TIMER(loader_tuner)
{
	(void)map, (void)key;
	loader_tune(bpf_ktime_get_ns());
	bpf_timer_start(&loader_tuner->timer, TUNE_NS, 0);
	return 0;
}

LOADER()
{
	u32 nr_domains = loader_count(loader_llc);

	if (nr_domains > MAX_DOMS || __KERNEL->nr_cpu_ids > MAX_CPUS)
		return -E2BIG;
	slice_ns = SCX_SLICE_DFL;
	loader_set(nr_nodes, loader_count(loader_node));
	loader_set(nr_doms, nr_domains);
	loader_set(nr_cpu_ids, __KERNEL->nr_cpu_ids);
	for (u32 cpu = 0; cpu < MAX_CPUS; cpu++)
		loader_set(cpu_dom_id_map[cpu], (u32)-1);
	loader_for_each_cpu(cpu)
	{
		u64 bit = 1ULL << cpu % 64;
		u32 dom = loader_llc(cpu), node = loader_node(cpu);

		loader_set(cpu_dom_id_map[cpu], dom);
		loader_set(dom_numa_id_map[dom], node);
		loader_set(dom_cpumasks[dom][cpu / 64], dom_cpumasks[dom][cpu / 64] | bit);
		loader_set(numa_cpumasks[node][cpu / 64], numa_cpumasks[node][cpu / 64] | bit);
	}
	loader_set(load_half_life, 1000000000);
	loader_set(kthreads_local, false);
	loader_set(fifo_sched, false);
	loader_set(greedy_threshold, 1);
	loader_set(greedy_threshold_x_numa, 0);
	loader_set(direct_greedy_numa, false);
	loader_set(mempolicy_affinity, false);
	loader_set(debug, 0);
	loader_set(rusty_perf_mode, 0);

	loader_tuner_start(TUNE_NS, 0);
	return 0;
}
