/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a higher class takes a CPU, the tasks in its local queue go back through ops.enqueue(), so that other CPUs
 * can take them. Before Linux 6.19 only ops.cpu_release() may reenqueue them. Later kernels allow that anywhere,
 * and warn about a scheduler that has the op. In these kernels the loader leaves out the op of a scheduler that
 * includes this file, and the scheduler's program at sched_switch does the op's work, even for an idle CPU, for
 * which the kernel does not call the op.
 */
#ifndef __EQUIPOISE_RELEASE_H
#define __EQUIPOISE_RELEASE_H

#include <scx/common.bpf.h>

/* Whether the program at sched_switch does the work of ops.cpu_release(). The loader sets this. */
const volatile bool released_by_switch;

#endif /* __EQUIPOISE_RELEASE_H */
