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

/* The kernel chooses the address; @addr is ignored. */
static inline void *bpf_arena_alloc_pages(void *map, void *addr, u32 page_cnt, int node_id, u64 flags)
{
	(void)map, (void)addr, (void)node_id, (void)flags;
	return __kcall(alloc, (u64)page_cnt * PAGE_SIZE);
}

/* Frees a whole allocation, whatever @page_cnt says. */
static inline void bpf_arena_free_pages(void *map, void *ptr, u32 page_cnt)
{
	(void)map, (void)page_cnt;
	__kcall(free, ptr);
}

#endif /* __SCX_BPF_ARENA_COMMON_BPF_H */
