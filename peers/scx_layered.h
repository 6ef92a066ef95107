/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps of scx_layered's loader of the CPUs, caches and nodes that are near another one (src/main.rs). */
#ifndef __PEERS_SCX_LAYERED_H
#define __PEERS_SCX_LAYERED_H

static u32 loader_far(u32 a, u32 b)
{
	return a < b ? b - a : a - b;
}

/* The level at which @cpu is near @from: 0 for itself, then its core, cache, node and the system. */
static u32 loader_level(u32 from, u32 cpu)
{
	if (cpu == from)
		return 0;
	if (loader_core(cpu) == loader_core(from))
		return 1;
	if (loader_llc(cpu) == loader_llc(from))
		return 2;
	return loader_node(cpu) == loader_node(from) ? 3 : 4;
}

/* The sort key of init_cpu_prox_map() */
static u64 loader_nearness(u32 from, u32 cpu)
{
	u64 level = loader_level(from, cpu);

	if (level == 3)
		return level << 40 | loader_far(loader_node(from), cpu);
	return level << 40 | (u64)loader_far(loader_core(from), loader_core(cpu)) << 20 | loader_far(from, cpu);
}

/* init_cpu_prox_map() */
static void loader_order_cpus(u32 from, struct cpu_prox_map *near)
{
	u32 count = 0, ends[5] = {};

	loader_for_each_cpu(cpu)
	{
		u32 at = count++;

		for (; at && loader_nearness(from, near->cpus[at - 1]) > loader_nearness(from, cpu); at--)
			near->cpus[at] = near->cpus[at - 1];
		near->cpus[at] = cpu;
		for (u32 level = loader_level(from, cpu); level < 5; level++)
			ends[level]++;
	}
	near->core_end = ends[1];
	near->llc_end = ends[2];
	near->node_end = ends[3];
	near->sys_end = ends[4];
}

/* init_single_prox_map_per_llc(), init_node_prox_map() */
static void loader_set_near(void)
{
	for (u32 llc = 0; llc < nr_llcs; llc++) {
		struct llc_ctx *llcc = lookup_llc_ctx(llc);

		for (u32 map = 0; map < NUM_PROXIMITY_MAPS; map++) {
			struct llc_prox_map *near = &llcc->prox_maps[map];
			u32 count = 1;

			near->llcs[0] = llc;
			for (u32 far = 0; far < 2; far++) {
				for (u32 i = 0; i < nr_llcs; i++) {
					u32 other = (llc + map + i) % nr_llcs;
					bool same_node = llc_numa_id_map[other] == llc_numa_id_map[llc];

					if (other != llc && same_node == !far)
						near->llcs[count++] = other;
				}
				if (!far)
					near->node_end = count;
			}
			near->sys_end = count;
		}
	}
	for (u32 node = 0; node < nr_nodes; node++) {
		struct node_prox_map *near = &lookup_node_ctx(node)->prox_map;

		for (u32 other = 0; other < nr_nodes; other++)
			if (other != node)
				near->nodes[near->sys_end++] = other;
	}
}

#endif /* __PEERS_SCX_LAYERED_H */
