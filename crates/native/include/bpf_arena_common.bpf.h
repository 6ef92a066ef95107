/* SPDX-License-Identifier: GPL-2.0-only */
/* The name by which scx's library includes the arena header. */
#include <scx/common.bpf.h>
