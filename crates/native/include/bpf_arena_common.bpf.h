/* SPDX-License-Identifier: GPL-2.0-only */
/* The name by which scx's library includes the arena header. */
#include <scx/common.bpf.h>

/* The library gets this macro from scx's common.bpf.h; a few of Linux's examples have a function with this name. */
#define div_round_up(a, b) (((a) + (b) - 1) / (b))
