/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of one pass of load_balance() about tasks that are too heavy for their CPU; see misfit.h. */
#ifndef __EQUIPOISE_MISFIT_KEPT_H
#define __EQUIPOISE_MISFIT_KEPT_H

struct misfit_env {
	/* A CPU of the busiest group with such a task, or -1. */
	s32 queue;
};

#endif /* __EQUIPOISE_MISFIT_KEPT_H */
