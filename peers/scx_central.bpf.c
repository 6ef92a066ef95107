/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_central of Linux 7.3 with default options (tools/sched_ext/scx_central.c). */
#include <scx_central.bpf.c>
#include <equipoise/loader.h>

LOADER()
{
	loader_set(slice_ns, SCX_SLICE_DFL);
	return 0;
}
