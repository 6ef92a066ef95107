/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_qmap of Linux 7.3 with default options (tools/sched_ext/scx_qmap.c). */
#include <scx_qmap.bpf.c>
#include <equipoise/loader.h>

LOADER()
{
	loader_set(slice_ns, SCX_SLICE_DFL);
	loader_set(max_tasks, 16384);
	loader_set(round_robin_ns, 200000000);
	return 0;
}
