/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of Linaro's big.LITTLE MP scheduler; see hmp.h. */
#ifndef __EQUIPOISE_HMP_KEPT_H
#define __EQUIPOISE_HMP_KEPT_H

struct hmp_entity {
	/* The times when it last went to a faster and to a slower CPU, ns; 0 is long ago. */
	u64 last_up;
	u64 last_down;
	/* Its runnable average, of 1024. */
	u32 load_avg_ratio;
};

struct hmp_running {
	u32 load_avg_ratio;
};

struct hmp_rq {
	/* The sum of its tasks' runnable averages, whatever their weights. */
	u64 load_avg_ratio;
	/* The times when a task last arrived here from a CPU of the other kind, up or down, ns. */
	u64 last_up;
	u64 last_down;
	/* Asked to pull a task from a slow CPU. */
	bool wake_for_idle_pull;
};

#endif /* __EQUIPOISE_HMP_KEPT_H */
