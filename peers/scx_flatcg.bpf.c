/* SPDX-License-Identifier: GPL-2.0-only */
/* The loader's part of scx_flatcg of Linux 7.3 with default options (tools/sched_ext/scx_flatcg.c). */
#include <scx_flatcg.bpf.c>
#include <equipoise/loader.h>

LOADER()
{
	loader_set(nr_cpus, __KERNEL->nr_cpu_ids);
	loader_set(cgrp_slice_ns, SCX_SLICE_DFL);
	return 0;
}
