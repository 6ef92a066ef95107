/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx's performance counters of tasks (lib/pmu.h). A simulated CPU has no counters, so no event can
 * be counted, as on a virtual machine without them.
 */
#ifndef __EQUIPOISE_LIB_PMU_H
#define __EQUIPOISE_LIB_PMU_H

static inline int scx_pmu_install(u64 event)
{
	return -ENOENT;
}

static inline int scx_pmu_uninstall(u64 event)
{
	return -ENOENT;
}

static inline int scx_pmu_task_init(struct task_struct *p)
{
	return 0;
}

static inline int scx_pmu_task_fini(struct task_struct *p)
{
	return 0;
}

static inline int scx_pmu_event_start(struct task_struct *p, bool update)
{
	return 0;
}

static inline int scx_pmu_event_stop(struct task_struct *p)
{
	return 0;
}

static inline int scx_pmu_read(struct task_struct *p, u64 event, u64 *value, bool clear)
{
	return -ENOENT;
}

#endif /* __EQUIPOISE_LIB_PMU_H */
