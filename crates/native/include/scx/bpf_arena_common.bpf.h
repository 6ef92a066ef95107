/* SPDX-License-Identifier: GPL-2.0-only */
/* Arenas: memory that a scheduler shares with its loader. Here they are ordinary memory of the simulation. */
#ifndef __SCX_BPF_ARENA_COMMON_BPF_H
#define __SCX_BPF_ARENA_COMMON_BPF_H

#include "../simulated.h"

#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif

#define __arena
#define __arena_global
#define cast_kern(ptr)
#define cast_user(ptr)

/*
 * The kernel chooses the address; @addr is ignored. The pages begin at a multiple of their size; the word in front
 * of them holds the start of the allocation.
 */
static inline void *bpf_arena_alloc_pages(void *map, void *addr, u32 page_cnt, int node_id, u64 flags)
{
	char *block = __kcall(alloc, ((u64)page_cnt + 1) * PAGE_SIZE), **pages;

	(void)map, (void)addr, (void)node_id, (void)flags;
	if (!block)
		return NULL;
	pages = (char **)(((u64)block + PAGE_SIZE) & ~(PAGE_SIZE - 1ULL));
	pages[-1] = block;
	return pages;
}

/* Frees the whole allocation; @page_cnt is ignored. */
static inline void bpf_arena_free_pages(void *map, void *ptr, u32 page_cnt)
{
	(void)map, (void)page_cnt;
	if (ptr)
		__kcall(free, ((char **)ptr)[-1]);
}

/* There are no addresses to reserve: all of them belong to the process. */
static inline int bpf_arena_reserve_pages(void *map, void *ptr, u32 page_cnt)
{
	(void)map, (void)ptr, (void)page_cnt;
	return 0;
}

#define arena_base(map) ((void *)0)

#define arena_container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define bpf_arena_for(var, start, end) for ((var) = (start); (var) < (end); (var)++)

#endif /* __SCX_BPF_ARENA_COMMON_BPF_H */
