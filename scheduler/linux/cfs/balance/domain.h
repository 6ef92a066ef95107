/* SPDX-License-Identifier: GPL-2.0-only */
/* Tests whether a domain is balanced. */
#ifndef __EQUIPOISE_DOMAIN_H
#define __EQUIPOISE_DOMAIN_H

#include "../core/runqueue.bpf.h"

/* Is @sd balanced by comparing groups? */
static __always_inline bool load_balanced(const struct domain *sd)
{
	return sd->flags & SD_LOAD_BALANCE && !hook_balances(sd);
}

#endif /* __EQUIPOISE_DOMAIN_H */
