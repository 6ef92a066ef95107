/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory for each CPU. Where today's schedulers include it from; the simulated kernel has what it needs in
 * scx/object.bpf.h. */
#ifndef __SCX_PERCPU_BPF_H
#define __SCX_PERCPU_BPF_H

#include "common.bpf.h"

#endif /* __SCX_PERCPU_BPF_H */
