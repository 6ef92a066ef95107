/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of Linaro's big.LITTLE MP scheduler; see hmp.h. */
#ifndef __EQUIPOISE_HMP_KEPT_H
#define __EQUIPOISE_HMP_KEPT_H

struct hmp_entity {
	/* The times when the task last went to a faster and to a slower CPU, in ns; 0 is long ago. */
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
	/* The times when a task last arrived on this CPU from a CPU of the other kind, up or down, in ns. */
	u64 last_up;
	u64 last_down;
	/* Whether the CPU has been asked to pull a task from a slow CPU. */
	bool wake_for_idle_pull;
};

#endif /* __EQUIPOISE_HMP_KEPT_H */
