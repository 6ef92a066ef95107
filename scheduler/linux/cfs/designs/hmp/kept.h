/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of Linaro's big.LITTLE MP scheduler; see hmp.h. */
#ifndef __EQUIPOISE_HMP_KEPT_H
#define __EQUIPOISE_HMP_KEPT_H

struct hmp_entity {
	/* The time of the task's last migration, up or down, in ns; the other time is 0. */
	u64 last_up;
	u64 last_down;
	/* The task's runnable average, in 1024ths. */
	u32 load_avg_ratio;
};

struct hmp_running {
	u32 load_avg_ratio;
};

struct hmp_rq {
	/* The sum of the runnable averages of the runqueue's tasks, whatever their weights. */
	u64 load_avg_ratio;
	/*
	 * The time of the last migration to this CPU, up (also that of a new task) or down (also from another slow
	 * CPU), in ns; the other time is 0.
	 */
	u64 last_up;
	u64 last_down;
	/* Whether the CPU has been asked to pull a task from a slow CPU. */
	bool wake_for_idle_pull;
};

#endif /* __EQUIPOISE_HMP_KEPT_H */
