/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory for each CPU. Where today's schedulers include it from; the simulated kernel has what it needs in
 * scx/object.bpf.h. */
#ifndef __SCX_PERCPU_BPF_H
#define __SCX_PERCPU_BPF_H

#include "common.bpf.h"

/* What the kernel's per-CPU sd_llc_id says: the first CPU of those that share @cpu's last-level cache. */
static inline int cpu_llc_id(s32 cpu)
{
	return __kcall(llc_id, cpu);
}

#endif /* __SCX_PERCPU_BPF_H */
