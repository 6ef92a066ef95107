/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The capacity that a limit of the frequency leaves: scaling_max_freq, or the kernel's thermal cooling
 * (get_actual_cpu_capacity(), kernel/sched/fair.c of Linux 6.12). Pressure from firmware (hw_load_avg()) is left
 * out, because sched_ext does not expose it.
 */
#ifndef __EQUIPOISE_PRESSURE_H
#define __EQUIPOISE_PRESSURE_H

#include "utilization.bpf.h"

extern const unsigned long cpufreq_pressure __ksym __weak;

/* cpufreq_get_pressure(): the lost capacity of @cpu, where the largest CPU has 1024. */
static __always_inline u64 cpufreq_get_pressure(u32 cpu)
{
	/* NULL if the kernel was built without CONFIG_CPU_FREQ. */
	const unsigned long *pressure = &cpufreq_pressure;

	if (!policy.cpufreq_pressure || !pressure)
		return 0;
	pressure = bpf_per_cpu_ptr(&cpufreq_pressure, cpu);
	return pressure ? *pressure : 0;
}

/* The part of @capacity, the capacity of @cpu, that a limit leaves. */
static __always_inline u64 actual_cpu_capacity(u32 cpu, u64 capacity)
{
	u64 pressure = cpufreq_get_pressure(cpu);

	return capacity > pressure ? capacity - pressure : 0;
}

#endif /* __EQUIPOISE_PRESSURE_H */
