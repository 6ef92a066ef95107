/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __EQUIPOISE_BALANCE_IDLE_H
#define __EQUIPOISE_BALANCE_IDLE_H

/* The reason why a CPU balances: the kernel's CPU_NOT_IDLE, CPU_IDLE, CPU_NEWLY_IDLE. */
enum balance_idle {
	LB_NOT_IDLE,
	LB_IDLE,
	LB_NEWLY_IDLE,
};

#endif /* __EQUIPOISE_BALANCE_IDLE_H */
