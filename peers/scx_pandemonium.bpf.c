/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of scx_pandemonium 5.23.1 (src/scheduler.rs). The user-space layer that adapts its knobs
 * is left out: they stay at their compiled-in defaults.
 */
#include "main.bpf.c"
#include <equipoise/loader.h>

LOADER()
{
	loader_set(nr_cpu_ids, __KERNEL->nr_cpu_ids);
	return 0;
}
