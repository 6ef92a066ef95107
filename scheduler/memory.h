/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runqueues are shared, and the line that others look at (nr_running, the sums, idle) is not always where
 * one needs it. The simulated kernel has it cost what it does in hardware.
 */
#ifndef __EQUIPOISE_MEMORY_H
#define __EQUIPOISE_MEMORY_H

#ifndef __EQUIPOISE_SIMULATED_H
#define simulated_read(cpu)
#define simulated_write(cpu)
#define simulated_read_global(line)
#define simulated_write_global(line)
#define simulated_lock_rqs(a, b)
#define simulated_unlock_rqs()
#endif

/* Lines that all CPUs share: struct nohz, and what the root's task group keeps of all CPUs' load. */
enum global_line {
	LINE_NOHZ,
	LINE_TG_LOAD,
};

#endif /* __EQUIPOISE_MEMORY_H */
