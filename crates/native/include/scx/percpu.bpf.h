/* SPDX-License-Identifier: GPL-2.0-only */
/* Per-CPU data of the kernel. The other contents of scx's header of this name are in scx/object.bpf.h. */
#ifndef __SCX_PERCPU_BPF_H
#define __SCX_PERCPU_BPF_H

#include "common.bpf.h"

/* The kernel's per-CPU sd_llc_id: the first of the CPUs that share @cpu's last-level cache. */
static inline int cpu_llc_id(s32 cpu)
{
	return __kcall(llc_id, cpu);
}

/* As in a kernel without ITMT, cores have no priorities. */
static inline int cpu_priority(s32 cpu)
{
	(void)cpu;
	return -ENOENT;
}

#endif /* __SCX_PERCPU_BPF_H */
