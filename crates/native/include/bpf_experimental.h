/* SPDX-License-Identifier: GPL-2.0-only */
/* BPF's newer kfuncs. scx/object.bpf.h and bpf_helpers.h have them. */
#include <scx/common.bpf.h>
