/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of scx_lavd 1.1.4 with default options (src/main.rs, src/cpu_order.rs), in a kernel without an
 * energy model. The boost for holders of futexes is off, because the simulated kernel has no hooks in futex system
 * calls.
 */
#include "main.bpf.c"
#include "scx_arena.h"

extern const volatile u64 nr_llcs, lb_low_util_wall, lb_local_dsq_util_wall, xmig_min_gain_ns, pinned_slice_ns;
extern const volatile u32 cpu_sibling[LAVD_CPU_ID_MAX], pco_bounds[LAVD_PCO_STATE_MAX];
extern const volatile u16 pco_nr_primary[LAVD_PCO_STATE_MAX], pco_table[LAVD_PCO_STATE_MAX][LAVD_CPU_ID_MAX];
extern const volatile u16 lat_load_target_pct;
extern const volatile u8 preempt_shift, nr_pco_states;
extern const volatile bool is_smt_active, is_autopilot_on, bw_kick_builtin_idle;

/* libbpf sets this variable from the kernel's configuration. */
bool CONFIG_NO_HZ_IDLE = true;

LOADER_ATTACH(lavd_sched_switch);

static bool loader_is_big(u32 cpu)
{
	return loader_capacity(cpu) == loader_most_capacity();
}

/* The number of @cpu among the threads of its core. */
static u32 loader_thread(u32 cpu)
{
	u32 before = 0;

	loader_for_each_cpu(other) before += other < cpu && loader_core(other) == loader_core(cpu);
	return before;
}

/* The sort key of CpuOrderCtx::build_topo_order(), most significant first. */
static void loader_sort_key(u32 cpu, bool powersave, u32 key[6])
{
	bool hybrid = loader_least_capacity() < loader_most_capacity();
	u32 capacity = powersave && hybrid ? loader_capacity(cpu) : 1024 - loader_capacity(cpu);
	u32 thread = loader_thread(cpu);

	key[0] = powersave ? 0 : thread;
	key[1] = loader_node(cpu);
	key[2] = loader_llc(cpu);
	key[3] = capacity;
	key[4] = loader_core(cpu);
	key[5] = thread;
}

static bool loader_precedes(u32 a, u32 b, bool powersave)
{
	u32 of_a[6], of_b[6];

	loader_sort_key(a, powersave, of_a);
	loader_sort_key(b, powersave, of_b);
	for (u32 i = 0; i < 6; i++)
		if (of_a[i] != of_b[i])
			return of_a[i] < of_b[i];
	return a < b;
}

static u16 loader_order[EQUIPOISE_MAX_CPUS];

/* Sorts the CPUs into loader_order[]; returns how many there are. */
static u32 loader_sort(bool powersave)
{
	u32 count = 0;

	loader_for_each_cpu(cpu)
	{
		u32 at = count++;

		for (; at && loader_precedes(cpu, loader_order[at - 1], powersave); at--)
			loader_order[at] = loader_order[at - 1];
		loader_order[at] = cpu;
	}
	return count;
}

/* In state @state, CPUs are preferred in the order of loader_order[]; up to @bound, the first CPU is used alone. */
static void loader_set_state(u32 state, u32 bound, u32 count)
{
	loader_set(pco_bounds[state], bound);
	loader_set(pco_nr_primary[state], 1);
	for (u32 i = 0; i < count; i++)
		loader_set(pco_table[state][i], loader_order[i]);
}

/* EnergyModelOptimizer::get_fake_perf_cpu_order_table(): to save power, and for performance */
static void loader_set_states(void)
{
	u32 count = loader_sort(true), total = 0;

	loader_for_each_cpu(cpu) total += loader_capacity(cpu);
	loader_set_state(0, loader_capacity(loader_order[0]), count);
	loader_sort(false);
	for (u32 state = count > 1; state < LAVD_PCO_STATE_MAX; state++)
		loader_set_state(state, total, count);
	loader_set(nr_pco_states, count > 1 ? 2 : 1);
}

/* CpuOrderCtx::dist() */
static u32 loader_distance(struct cpdom_ctx *a, struct cpdom_ctx *b)
{
	u32 distance = a->is_big != b->is_big ? 100 : 0;

	if (a->numa_id != b->numa_id)
		return distance + 10;
	return distance + (a->llc_id != b->llc_id ? 2 : 0);
}

/* Makes @dom's neighbours at @distance those of its @nth distance, in a circle, the nearest number first.
 */
static void loader_set_neighbors(struct cpdom_ctx *dom, u32 distance, u32 nth, u32 nr_domains)
{
	u32 members[LAVD_CPDOM_MAX_NR], count = 0, self = 0, placed = 0;

	for (u32 id = 0; id < nr_domains; id++) {
		if (id == dom->id)
			self = count;
		else if (loader_distance(dom, &cpdom_ctxs[id]) != distance)
			continue;
		members[count++] = id;
	}
	for (u32 step = 1; step <= count / 2; step++)
		for (u32 i = 0; i < count; i++) {
			u32 ahead = (i + count - self) % count;

			if (ahead == step || count - ahead == step)
				dom->neighbor_ids[nth * LAVD_CPDOM_MAX_NR + placed++] = members[i];
		}
	dom->nr_neighbors[nth] = placed;
}

/* CpuOrderCtx::build_cpdom(): a domain has the CPUs of one kind below one last-level cache. */
static s32 loader_set_domains(void)
{
	u32 count = loader_sort(false), nr_domains = 0;

	for (u32 i = 0; i < count; i++) {
		u32 cpu = loader_order[i], id = 0;
		struct cpdom_ctx *dom;

		for (; id < nr_domains; id++)
			if (cpdom_ctxs[id].llc_id == loader_llc(cpu) && cpdom_ctxs[id].is_big == loader_is_big(cpu))
				break;
		if (id == LAVD_CPDOM_MAX_NR)
			return -E2BIG;
		dom = &cpdom_ctxs[id];
		if (id == nr_domains) {
			nr_domains++;
			dom->id = id;
			dom->alt_id = id;
			dom->numa_id = loader_node(cpu);
			dom->llc_id = loader_llc(cpu);
			dom->is_big = loader_is_big(cpu);
			dom->is_valid = 1;
		}
		dom->__cpumask[cpu / 64] |= 1ULL << cpu % 64;
	}
	for (u32 id = 0; id < nr_domains; id++) {
		struct cpdom_ctx *dom = &cpdom_ctxs[id];
		u32 nth = 0, nearest = ~0U;

		for (u32 distance = 0; distance <= 110; distance++) {
			bool any = false;

			for (u32 other = 0; other < nr_domains; other++)
				any |= other != id && loader_distance(dom, &cpdom_ctxs[other]) == distance;
			if (!any)
				continue;
			if (nth == LAVD_CPDOM_MAX_DIST)
				return -E2BIG;
			loader_set_neighbors(dom, distance, nth++, nr_domains);
		}
		for (u32 other = 0; other < nr_domains; other++) {
			u32 distance = loader_distance(dom, &cpdom_ctxs[other]);

			if (cpdom_ctxs[other].is_big != dom->is_big && distance < nearest) {
				nearest = distance;
				dom->alt_id = other;
			}
		}
	}
	return 0;
}

LOADER()
{
	s32 failed;

	loader_for_each_cpu(cpu)
	{
		loader_set(cpu_capacity[cpu], loader_capacity(cpu));
		loader_set(cpu_big[cpu], loader_is_big(cpu));
		loader_set(cpu_turbo[cpu], 0);
		loader_set(cpu_sibling[cpu], loader_sibling(cpu));
	}
	loader_set_states();
	failed = loader_set_domains();
	if (failed)
		return failed;
	loader_set(nr_llcs, loader_count(loader_llc));
	loader_set(is_smt_active, loader_smt());
	loader_set(is_autopilot_on, true);
	loader_set(slice_max_ns, 5000000);
	loader_set(slice_min_ns, 500000);
	loader_set(pinned_slice_ns, 5000000);
	loader_set(preempt_shift, 6);
	loader_set(lat_load_target_pct, 100);
	loader_set(lb_low_util_wall, (25 << 10) / 100);
	loader_set(lb_local_dsq_util_wall, (10 << 10) / 100);
	loader_set(xmig_min_gain_ns, 350000);
	loader_set(bw_kick_builtin_idle, true);
	lavd_ops.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED |
			 SCX_OPS_KEEP_BUILTIN_IDLE;
	if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2))
		lavd_ops.cpu_release = NULL;
	return loader_arena(sizeof(task_ctx), 0);
}
