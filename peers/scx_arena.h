/* SPDX-License-Identifier: GPL-2.0-only */
/* The steps that scx's arena library needs from each loader that uses it (scx_arena 1.1.4, src/arenalib.rs:
 * ArenaLib::setup()).
 */
#ifndef __PEERS_SCX_ARENA_H
#define __PEERS_SCX_ARENA_H

#include <equipoise/loader.h>
#include <lib/arena.h>
#include <lib/cpumask.h>

/* ArenaLib::STATIC_ALLOC_PAGES_GRANULARITY */
#define LOADER_STATIC_PAGES 8

static inline u32 loader_top(u32 cpu)
{
	(void)cpu;
	return 0;
}

static inline u32 loader_itself(u32 cpu)
{
	return cpu;
}

/* Adds the node @number of a level to the library's tree: the CPUs for which @of is @number. */
static inline s32 loader_arena_node(u32 (*of)(u32 cpu), u32 number)
{
	struct arena_topology_node_init_args node = { .id = number };
	struct arena_alloc_mask_args mask = {};
	s32 failed = arena_alloc_mask(&mask);

	if (failed)
		return failed;
	loader_for_each_cpu(cpu) if (of(cpu) == number)((u64 *)mask.bitmap)[cpu / 64] |= 1ULL << cpu % 64;
	node.bitmap = mask.bitmap;
	return arena_topology_node_init(&node);
}

/* The maximum number of nodes of the level @below in one node of @of, the level above. */
static inline u32 loader_most_children(u32 (*of)(u32 cpu), u32 (*below)(u32 cpu))
{
	u32 most = 0;

	for (u32 number = 0; number < loader_count(of); number++) {
		u32 children = 0;

		loader_for_each_cpu(cpu) if (of(cpu) == number && loader_first(below, below(cpu)) == (s32)cpu)
			children++;
		most = children > most ? children : most;
	}
	return most;
}

/* @task_size: the size of the scheduler's data of a task; @task_align: its alignment, 0 for that of a word. */
static inline s32 loader_arena(u64 task_size, u64 task_align)
{
	u32 (*const levels[])(u32) = { loader_top, loader_node, loader_llc, loader_core, loader_itself };
	struct arena_init_args init = {
		.static_pages = LOADER_STATIC_PAGES,
		.task_ctx_size = task_size,
		.task_ctx_align = task_align,
	};
	struct arena_topology_init_args topology = {};
	s32 failed = arena_init(&init);

	for (u32 level = 0; level + 1 < 5; level++)
		topology.max_children[level] = loader_most_children(levels[level], levels[level + 1]);
	if (!failed)
		failed = arena_topology_init(&topology);
	for (u32 level = 0; level < 5 && !failed; level++)
		for (u32 number = 0; number < loader_count(levels[level]) && !failed; number++)
			if (loader_first(levels[level], number) >= 0)
				failed = loader_arena_node(levels[level], number);
	return failed;
}

#endif /* __PEERS_SCX_ARENA_H */
