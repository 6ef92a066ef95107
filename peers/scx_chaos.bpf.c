/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_chaos 1.1.4 with default options (src/lib.rs): scx_p2dq without any disturbance. */
#include "main.bpf.c"
#include "scx_p2dq.h"

LOADER()
{
	loader_set(ppid_targeting_ppid, -1);
	for (u32 trait = 0; trait < CHAOS_TRAIT_MAX; trait++)
		loader_set(trait_delay_freq_frac32[trait], (u32)-1);
	return p2dq_loader(&chaos, sizeof(struct task_p2dq));
}
