/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of scx_layered 1.1.4 with --run-example and otherwise default options (src/main.rs, src/alloc.rs,
 * src/layer_core_growth.rs): four layers, among which the loader divides the cores every 100 ms by use. The demand of
 * tasks that are bound to one node is not told apart from that of others. Orders that the loader shuffles are the
 * order of the numbers here, each from another start.
 */
#include "main.bpf.c"
#include <equipoise/loader.h>
#include "scx_layered.h"

/* --interval; a usage of one CPU; the unit of duty cycles for the rates between nodes, half of it a step */
#define STEP_NS 100000000ULL
#define ONE_CPU 1000000LL
#define RATE_STEP (1LL << (DUTY_CYCLE_SHIFT - 1))

enum { BATCH, IMMEDIATE, STRESS_NG, NORMAL, LAYERS };

/* util_range in per cent, and the most CPUs of cpus_range; an open layer has none. */
static const struct {
	u32 low_pct, high_pct, most;
	bool includes_open;
} loader_ranges[LAYERS] = {
	[BATCH] = { .low_pct = 80, .high_pct = 90, .most = 16 },
	[STRESS_NG] = { .low_pct = 20, .high_pct = 80, .most = MAX_CPUS },
	[NORMAL] = { .low_pct = 50, .high_pct = 60, .most = MAX_CPUS, .includes_open = true },
};

/* The layer to which each CPU belongs (LAYERS if none), and the CPU's place in it. */
static u8 loader_owner[MAX_CPUS];
static u32 loader_node_of[MAX_CPUS], loader_core_of[MAX_CPUS];

/* The cores of each node, which are consecutive. */
static u32 loader_first_core[MAX_NUMA_NODES], loader_cores[MAX_NUMA_NODES];

/* Usages, in millionths of a CPU: averages with a half-life of one step. */
static struct loader_usage {
	u64 before;
	s64 mean;
} loader_owned[LAYERS], loader_opened[LAYERS], loader_of_node[LAYERS][MAX_NUMA_NODES],
	loader_duty[LAYERS][MAX_NUMA_NODES];

static u32 loader_granted[LAYERS][MAX_NUMA_NODES];
static bool loader_denied[LAYERS][MAX_NUMA_NODES];

static bool loader_is_open(u32 layer)
{
	return layer == IMMEDIATE;
}

/* CpuPool::alloc_unit(): the threads of the first core. */
static u32 loader_unit(void)
{
	return loader_sibling(0) == 0 ? 1 : 2;
}

/* The CPUs of @node, or of all if it is -1, that @layer has. */
static u32 loader_has(u32 layer, s32 node)
{
	u32 count = 0;

	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (node < 0 || loader_node_of[cpu] == (u32)node)
			count += loader_owner[cpu] == layer;
	return count;
}

static u32 loader_node_cpus(u32 node)
{
	u32 count = 0;

	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++)
		count += loader_node_of[cpu] == node;
	return count;
}

static void loader_average(struct loader_usage *usage, u64 now)
{
	usage->mean = (usage->mean + (s64)((now - usage->before) * ONE_CPU / STEP_NS)) / 2;
	usage->before = now;
}

/* Stats::refresh() */
static void loader_measure(void)
{
	for (u32 layer = 0; layer < LAYERS; layer++) {
		u64 owned = 0, opened = 0, nodes[MAX_NUMA_NODES] = {}, duties[MAX_NUMA_NODES] = {};

		for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
			struct cpu_ctx *cpuc = lookup_cpu_ctx(cpu);
			u64 *usages = cpuc->layer_usages[layer];
			u32 node = loader_node_of[cpu];

			owned += usages[LAYER_USAGE_OWNED];
			opened += usages[LAYER_USAGE_OPEN];
			nodes[node] += usages[LAYER_USAGE_OWNED] + usages[LAYER_USAGE_OPEN];
			duties[node] += cpuc->layer_duty_sum[layer];
		}
		loader_average(&loader_owned[layer], owned);
		loader_average(&loader_opened[layer], opened);
		for (u32 node = 0; node < nr_nodes; node++) {
			loader_average(&loader_of_node[layer][node], nodes[node]);
			loader_average(&loader_duty[layer][node], duties[node]);
		}
	}
}

/* calc_target_nr_cpus(), and the dampening of refresh_cpumasks() */
static u32 loader_target(u32 layer)
{
	u32 has = loader_has(layer, -1), low, high, target, most;
	s64 util = loader_owned[layer].mean;

	if (loader_is_open(layer))
		return 0;
	if (loader_ranges[layer].includes_open || !has)
		util += loader_opened[layer].mean;
	if (util < ONE_CPU / 100)
		util = 0;
	low = (util * 100 + loader_ranges[layer].high_pct * ONE_CPU - 1) / (loader_ranges[layer].high_pct * ONE_CPU);
	high = util * 100 / (loader_ranges[layer].low_pct * ONE_CPU);
	high = high > low ? high : low;
	most = loader_ranges[layer].most < nr_cpu_ids ? loader_ranges[layer].most : nr_cpu_ids;
	target = has < low ? low : has > high ? high : has;
	target = target < most ? target : most;
	return target < has ? has - (has - target + 1) / 2 : target;
}

/* water_fill() with equal weights: divides @pool among the layers with a @demand. Each gets an equal share, and the
 * first ones get one more if the number does not divide. The part that some do not need goes to the others.
 */
static void loader_fill(u32 pool, const u32 demand[LAYERS], u32 share[LAYERS])
{
	bool locked[LAYERS] = {};

	for (;;) {
		u32 open = 0, nth = 0, left = pool;
		bool any = false;

		for (u32 layer = 0; layer < LAYERS; layer++)
			open += !locked[layer];
		if (!open)
			return;
		for (u32 layer = 0; layer < LAYERS; layer++) {
			if (locked[layer])
				continue;
			share[layer] = left / open + (nth++ < left % open);
			if (share[layer] <= demand[layer])
				continue;
			share[layer] = demand[layer];
			pool -= demand[layer];
			locked[layer] = true;
			any = true;
		}
		if (!any)
			return;
	}
}

/* unified_alloc(): how many units of each node each layer gets. A layer's first node is another one each. */
static void loader_divide(u32 units[LAYERS][MAX_NUMA_NODES])
{
	u32 unit = loader_unit(), demand[LAYERS], left[LAYERS], capacity[MAX_NUMA_NODES];

	for (u32 layer = 0; layer < LAYERS; layer++)
		demand[layer] = (loader_target(layer) + unit - 1) / unit;
	loader_fill(nr_cpu_ids / unit, demand, left);
	for (u32 node = 0; node < nr_nodes; node++)
		capacity[node] = loader_node_cpus(node) / unit;
	for (u32 rank = 0; rank < nr_nodes; rank++)
		for (u32 node = 0; node < nr_nodes; node++) {
			u32 wanted[LAYERS], share[LAYERS];

			for (u32 layer = 0; layer < LAYERS; layer++) {
				bool here = (layer + rank) % nr_nodes == node;

				wanted[layer] = !here ? 0 : left[layer] < capacity[node] ? left[layer] : capacity[node];
			}
			loader_fill(capacity[node], wanted, share);
			for (u32 layer = 0; layer < LAYERS; layer++) {
				units[layer][node] += share[layer];
				left[layer] -= share[layer];
				capacity[node] -= share[layer];
			}
		}
}

/* The core that is @nth in the order in which @layer takes those of @node: grow_sticky() is the identity for the first
 * layer; grow_linear() begins at another place for each layer.
 */
static u32 loader_core_at(u32 layer, u32 node, u32 nth)
{
	u32 cores = loader_cores[node], chunk = (cores + LAYERS - 1) / LAYERS * layer;

	return loader_first_core[node] + (nth + cores - (chunk < cores ? chunk : cores)) % cores;
}

/* Gives the CPUs of @core that @from has to @to; returns how many. */
static u32 loader_move(u32 core, u32 from, u32 to)
{
	u32 moved = 0;

	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (loader_core_of[cpu] == core && loader_owner[cpu] == from) {
			loader_owner[cpu] = to;
			moved++;
		}
	return moved;
}

/* Gives cores back (the last first) or takes cores (the first first) until @layer has @wanted CPUs of @node. Returns
 * whether a core moved.
 */
static bool loader_resize(u32 layer, u32 node, u32 wanted, bool shrink)
{
	u32 cores = loader_cores[node], has = loader_has(layer, node);
	bool any = false;

	for (u32 nth = 0; nth < cores && (shrink ? has > wanted : has < wanted); nth++) {
		u32 core = loader_core_at(layer, node, shrink ? cores - 1 - nth : nth);
		u32 moved = loader_move(core, shrink ? layer : LAYERS, shrink ? LAYERS : layer);

		has = shrink ? has - moved : has + moved;
		any |= moved > 0;
	}
	return any;
}

/* update_bpf_layer_cpumask(): an open layer has the CPUs that no other has. */
static void loader_publish(u32 id)
{
	struct layer *layer = &layers[id];
	u32 owner = loader_is_open(id) ? LAYERS : id;

	__builtin_memset(layer->cpus, 0, sizeof(layer->cpus));
	__builtin_memset(layer->nr_llc_cpus, 0, sizeof(layer->nr_llc_cpus));
	for (u32 node = 0; node < nr_nodes; node++)
		layer->node[node].nr_cpus = loader_has(owner, node);
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (loader_owner[cpu] == owner) {
			layer->cpus[cpu / 8] |= 1 << cpu % 8;
			layer->nr_llc_cpus[cpu_llc_id_map[cpu]]++;
		}
	layer->nr_cpus = loader_has(owner, -1);
	layer->refresh_cpus = 1;
}

/* refresh_node_ctx() of src/main.rs */
static void loader_set_node(u32 node, bool init)
{
	struct refresh_node_ctx_arg arg = { .node_id = node, .init = init };

	for (u32 layer = 0; layer < MAX_LAYERS; layer++)
		arg.empty_layer_ids[layer] = MAX_LAYERS;
	for (u32 layer = 0; layer < LAYERS; layer++)
		if (init || !layers[layer].node[node].nr_cpus)
			arg.empty_layer_ids[arg.nr_empty_layer_ids++] = layer;
	for (u32 llc = 0; llc < nr_llcs; llc++)
		if (llc_numa_id_map[llc] == node)
			arg.llcs[arg.nr_llcs++] = llc;
	refresh_node_ctx(&arg);
}

/* The layers by how many CPUs they get, fewest first. */
static void loader_ascending(u32 units[LAYERS][MAX_NUMA_NODES], u32 order[LAYERS])
{
	u32 totals[LAYERS] = {};

	for (u32 layer = 0; layer < LAYERS; layer++) {
		u32 at = layer;

		for (u32 node = 0; node < nr_nodes; node++)
			totals[layer] += units[layer][node];
		for (; at && totals[order[at - 1]] > totals[layer]; at--)
			order[at] = order[at - 1];
		order[at] = layer;
	}
}

/* refresh_cpumasks() */
static void loader_refresh(void)
{
	u32 units[LAYERS][MAX_NUMA_NODES] = {}, order[LAYERS], unit = loader_unit();
	bool changed[LAYERS] = {}, updated = false;

	loader_divide(units);
	loader_ascending(units, order);
	for (u32 layer = 0; layer < LAYERS; layer++)
		for (u32 node = 0; node < nr_nodes; node++)
			loader_granted[layer][node] = loader_has(layer, node);
	for (u32 i = LAYERS; i--;)
		for (u32 node = 0; node < nr_nodes; node++)
			changed[order[i]] |= loader_resize(order[i], node, units[order[i]][node] * unit, true);
	for (u32 i = 0; i < LAYERS; i++)
		for (u32 rank = 0; rank < nr_nodes; rank++) {
			u32 layer = order[i], node = (layer + rank) % nr_nodes;

			changed[layer] |= loader_resize(layer, node, units[layer][node] * unit, false);
		}
	for (u32 layer = 0; layer < LAYERS; layer++) {
		if (changed[layer])
			loader_publish(layer);
		updated |= changed[layer];
		if (loader_is_open(layer))
			continue;
		layers[layer].fully_allocated = !loader_has(LAYERS, -1);
		for (u32 node = 0; node < nr_nodes; node++) {
			u32 has = loader_has(layer, node);
			s64 needs = loader_of_node[layer][node].mean * 100 / loader_ranges[layer].high_pct;

			loader_denied[layer][node] = needs > has * ONE_CPU && has <= loader_granted[layer][node];
		}
	}
	if (!updated)
		return;
	loader_publish(IMMEDIATE);
	for (u32 node = 0; node < nr_nodes; node++) {
		u32 first = nr_cpu_ids, available = nr_cpu_ids;

		for (u32 cpu = nr_cpu_ids; cpu--;)
			if (loader_node_of[cpu] == node) {
				first = cpu;
				available = loader_owner[cpu] == LAYERS ? cpu : available;
			}
		fallback_cpus[node] = available < nr_cpu_ids ? available : first;
	}
	refresh_layer_cpumasks();
	for (u32 node = 0; node < nr_nodes; node++)
		loader_set_node(node, false);
}

/* refresh_xnuma(), with the default thresholds of 0.6 and 0.7 of the load and 0.2 and 0.3 of the surplus */
static void loader_connect_nodes(u32 layer)
{
	s64 surplus[MAX_NUMA_NODES], total = 0, has = loader_has(loader_is_open(layer) ? LAYERS : layer, -1), deficit = 0;

	for (u32 node = 0; node < nr_nodes; node++)
		total += loader_duty[layer][node].mean;
	for (u32 node = 0; node < nr_nodes; node++) {
		s64 cpus = layers[layer].node[node].nr_cpus;

		surplus[node] = loader_duty[layer][node].mean - (has ? total * cpus / has : 0);
		deficit -= surplus[node] < 0 ? surplus[node] : 0;
	}
	for (u32 src = 0; src < nr_nodes; src++) {
		struct layer_node_ctx *node = &layers[layer].node[src];
		s64 cpus = node->nr_cpus, load = loader_duty[layer][src].mean;

		for (u32 dst = 0; dst < nr_nodes; dst++) {
			bool flows = has && src != dst && deficit > 0 && surplus[src] > 0 && surplus[dst] < 0;

			node->xnuma[dst].rate =
				flows ? surplus[src] * -surplus[dst] / deficit * RATE_STEP / ONE_CPU : 0;
		}
		if (!cpus)
			node->xnuma_is_mig_src = load > 0 && loader_denied[layer][src];
		else if (10 * load > 7 * cpus * ONE_CPU && 10 * surplus[src] > 3 * cpus * ONE_CPU &&
			 loader_denied[layer][src])
			node->xnuma_is_mig_src = true;
		else if (10 * load < 6 * cpus * ONE_CPU || 10 * surplus[src] < 2 * cpus * ONE_CPU ||
			 !loader_denied[layer][src])
			node->xnuma_is_mig_src = false;
	}
}

LOADER_TIMER(loader_divider)
{
	(void)map, (void)key;
	loader_measure();
	loader_refresh();
	for (u32 layer = 0; layer < LAYERS && nr_nodes > 1; layer++)
		loader_connect_nodes(layer);
	bpf_timer_start(&loader_divider->timer, STEP_NS, 0);
	return 0;
}

static void loader_set_cpu(u32 from, bool is_big)
{
	struct cpu_ctx *cpuc = lookup_cpu_ctx(from);
	u32 *const orders[] = { cpuc->ogp_layer_order, cpuc->ogn_layer_order, cpuc->op_layer_order,
				cpuc->on_layer_order,  cpuc->gp_layer_order,  cpuc->gn_layer_order };

	cpuc->cpu = from;
	cpuc->layer_id = MAX_LAYERS;
	cpuc->is_big = is_big;
	for (u32 kind = 0; kind < sizeof(orders) / sizeof(orders[0]); kind++)
		for (u32 i = 0; i < MAX_LAYERS; i++)
			orders[kind][i] = MAX_LAYERS;
	cpuc->ogp_layer_order[0] = IMMEDIATE;
	cpuc->op_layer_order[0] = IMMEDIATE;
	cpuc->ogn_layer_order[0] = NORMAL;
	cpuc->gn_layer_order[0] = NORMAL;
	loader_order_cpus(from, &cpuc->prox_map);
}

static void loader_match(struct layer *layer, u32 kind, const char *cgroup, s32 nice)
{
	struct layer_match_ands *ands = &layer->matches[layer->nr_match_ors];
	struct layer_match *match = &ands->matches[ands->nr_match_ands++];

	match->kind = kind;
	match->nice = nice;
	for (u32 i = 0; cgroup && cgroup[i]; i++)
		match->cgroup_prefix[i] = cgroup[i];
}

static void loader_match_comm(struct layer *layer, u32 kind, const char *prefix)
{
	struct layer_match_ands *ands = &layer->matches[layer->nr_match_ors];
	struct layer_match *match = &ands->matches[ands->nr_match_ands++];

	match->kind = kind;
	for (u32 i = 0; prefix[i]; i++)
		(kind == MATCH_COMM_PREFIX ? match->comm_prefix : match->pcomm_prefix)[i] = prefix[i];
}

/* EXAMPLE_CONFIG, init_layers() */
static void loader_set_layers(void)
{
	static const char *const names[] = { "batch", "immediate", "stress-ng", "normal" };
	static const u32 kinds[] = { LAYER_KIND_CONFINED, LAYER_KIND_OPEN, LAYER_KIND_CONFINED, LAYER_KIND_GROUPED };
	static const u32 slices_us[] = { 20000, 20000, 800, 20000 };
	static const u32 least_us[] = { 1000, 100, 800, 200 };
	static const u32 migrate_us[] = { 1000, 0, 0, 100 };
	static const u32 growth[] = { GROWTH_ALGO_STICKY, GROWTH_ALGO_STICKY, GROWTH_ALGO_TOPO, GROWTH_ALGO_LINEAR };

	for (u32 id = 0; id < LAYERS; id++) {
		struct layer *layer = &layers[id];
		bool preempts = id == IMMEDIATE || id == STRESS_NG;

		for (u32 i = 0; names[id][i]; i++)
			layer->name[i] = names[id][i];
		layer->kind = kinds[id];
		layer->slice_ns = slices_us[id] * NSEC_PER_USEC;
		layer->min_exec_ns = least_us[id] * NSEC_PER_USEC;
		/* yield_ignore is 0.25 for `immediate`, otherwise 0. */
		layer->yield_step_ns = id == IMMEDIATE ? layer->slice_ns * 3 / 4 : layer->slice_ns;
		layer->xllc_mig_min_ns = migrate_us[id] * NSEC_PER_USEC;
		layer->growth_algo = growth[id];
		layer->preempt = preempts;
		layer->excl = id == IMMEDIATE;
		layer->prev_over_idle_core = id == IMMEDIATE;
		layer->disallow_open_after_ns = preempts ? ~0ULL : 2 * SCX_SLICE_DFL;
		layer->disallow_preempt_after_ns = preempts ? ~0ULL : 4 * SCX_SLICE_DFL;
		layer->weight = DEFAULT_LAYER_WEIGHT;
		layer->perf = 1024;
		layer->task_place = PLACEMENT_STD;
		__builtin_memset(layer->cpuset, 0xff, sizeof(layer->cpuset));
		loader_set(layer_iteration_order[id], id);
	}
	loader_match(&layers[BATCH], MATCH_CGROUP_PREFIX, "system.slice/", 0);
	layers[BATCH].nr_match_ors++;
	loader_match(&layers[BATCH], MATCH_NICE_ABOVE, NULL, 0);
	layers[BATCH].nr_match_ors++;
	loader_match(&layers[IMMEDIATE], MATCH_CGROUP_PREFIX, "workload.slice/", 0);
	loader_match(&layers[IMMEDIATE], MATCH_NICE_BELOW, NULL, 0);
	layers[IMMEDIATE].nr_match_ors++;
	loader_match_comm(&layers[STRESS_NG], MATCH_COMM_PREFIX, "stress-ng");
	layers[STRESS_NG].nr_match_ors++;
	loader_match_comm(&layers[STRESS_NG], MATCH_PCOMM_PREFIX, "stress-ng");
	layers[STRESS_NG].nr_match_ors++;
	layers[NORMAL].nr_match_ors++;

	loader_set(nr_layers, LAYERS);
	loader_set(nr_op_layers, 1);
	loader_set(nr_on_layers, 0);
	loader_set(nr_gp_layers, 0);
	loader_set(nr_gn_layers, 1);
	loader_set(nr_excl_layers, 1);
	/* The loader sets these two variables, which are in ns, to numbers of us. */
	loader_set(min_open_layer_disallow_open_after_ns, 2 * SCX_SLICE_DFL / NSEC_PER_USEC);
	loader_set(min_open_layer_disallow_preempt_after_ns, 4 * SCX_SLICE_DFL / NSEC_PER_USEC);
}

/* The types of cores of scx_utils 1.1.4 (src/topology.rs) */
static void loader_set_cpus(void)
{
	u32 mean = 0, count = 0, most = loader_most_capacity();
	bool little = false;

	loader_for_each_cpu(cpu)
	{
		mean += loader_capacity(cpu);
		count++;
	}
	mean /= count;
	loader_for_each_cpu(cpu)
	{
		u32 sibling = loader_sibling(cpu);

		loader_set_cpu(cpu, mean < most && loader_capacity(cpu) == most);
		little |= 10 * most >= 13 * loader_least_capacity() && loader_capacity(cpu) < mean;
		loader_set(__sibling_cpu[cpu], sibling == cpu ? -1 : (s32)sibling);
		loader_set(all_cpus[cpu / 8], all_cpus[cpu / 8] | 1 << cpu % 8);
	}
	loader_set(has_little_cores, little);
	loader_set(smt_enabled, loader_smt());
}

LOADER()
{
	if (loader_count(loader_node) > MAX_NUMA_NODES || loader_count(loader_llc) > MAX_LLCS ||
	    __KERNEL->nr_cpu_ids > MAX_CPUS)
		return -E2BIG;
	for (u32 cpu = 0; cpu < __KERNEL->nr_cpu_ids; cpu++)
		if (!loader_online(cpu)) {
			scx_bpf_error("scx_layered expects all CPUs online: CPU %u is offline", cpu);
			return -EINVAL;
		}
	loader_set(nr_nodes, loader_count(loader_node));
	loader_set(nr_llcs, loader_count(loader_llc));
	loader_for_each_cpu(cpu)
	{
		u32 node = loader_node(cpu), llc = loader_llc(cpu);

		loader_set(numa_cpumasks[node][cpu / 64], numa_cpumasks[node][cpu / 64] | 1ULL << cpu % 64);
		loader_set(llc_numa_id_map[llc], node);
		loader_set(cpu_llc_id_map[cpu], llc);
		loader_owner[cpu] = LAYERS;
		loader_node_of[cpu] = node;
		loader_core_of[cpu] = loader_core(cpu);
	}
	for (u32 core = loader_count(loader_core); core--;) {
		u32 node = loader_node_of[loader_first(loader_core, core)];

		loader_first_core[node] = core;
		loader_cores[node]++;
	}
	loader_set(nr_cpu_ids, __KERNEL->nr_cpu_ids);
	loader_set(nr_possible_cpus, __KERNEL->nr_cpu_ids);
	loader_set(slice_ns, 20000000);
	loader_set(max_exec_ns, 400000000);
	loader_set(antistall_sec, 3);
	loader_set(lo_fb_wait_ns, 10000000);
	loader_set(lo_fb_share_ppk, 51);
	loader_set(kfuncs_supported_in_syscall, true);
	loader_set_layers();
	loader_set_cpus();
	loader_set_near();
	for (u32 node = 0; node < nr_nodes; node++)
		loader_set_node(node, true);
	layered.flags |= SCX_OPS_ALLOW_QUEUED_WAKEUP;

	loader_divider_start(STEP_NS, 0);
	return 0;
}
