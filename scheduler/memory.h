/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runqueues are shared, and the cache lines that other CPUs read (nr_running, the sums, idle) are not
 * always in the local cache. The simulated kernel charges for the transfer as hardware does.
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
/* Stops the simulation at a limit that the kernel does not have. In Linux, a loaded scheduler continues instead. */
#define simulated_error(...)
#else
#define simulated_error(...) scx_bpf_error(__VA_ARGS__)
#endif

/* The cache lines that all CPUs share: struct nohz, and the load of all CPUs in the root's task group. */
enum global_line {
	LINE_NOHZ,
	LINE_TG_LOAD,
};

#endif /* __EQUIPOISE_MEMORY_H */
