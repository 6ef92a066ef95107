/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The loader's part of scx_p2dq 1.1.4 with default options (src/lib.rs: init_open_skel!(), init_skel!();
 * src/main.rs). The energy model is off, as in a kernel without one.
 */
#include "main.bpf.c"
#include "scx_p2dq.h"

LOADER()
{
	return p2dq_loader(&p2dq, sizeof(struct task_p2dq));
}
