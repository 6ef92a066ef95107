/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A higher class takes a CPU: the tasks in its local queue go back through ops.enqueue(), so that
 * other CPUs can take them. Before Linux 6.19 only ops.cpu_release() may do that. Later kernels
 * allow it anywhere, and warn about a scheduler with that op; there the loader leaves it out, and
 * the program at sched_switch does its work, also for a CPU that was idle, for which the op was
 * never called.
 */
#ifndef __EQUIPOISE_RELEASE_H
#define __EQUIPOISE_RELEASE_H

#include <scx/common.bpf.h>

/* Set by the loader. */
const volatile bool released_by_switch;

#endif /* __EQUIPOISE_RELEASE_H */
