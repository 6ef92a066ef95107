/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records why an idle CPU pulled no task in one of its domains, with explain(), for Linux's load balancing of any
 * version. Include it after struct balance_env and env_domain().
 */
#ifndef __EQUIPOISE_BALANCE_EXPLAIN_H
#define __EQUIPOISE_BALANCE_EXPLAIN_H

static __always_inline void forget_refused(struct refused *refused)
{
	if (explaining)
		*refused = (struct refused){};
}

/* Counts a task that stays, in the count of its reason, *@count. */
static __always_inline void note_refused(u32 *count)
{
	if (explaining)
		(*count)++;
}

/*
 * Records why nothing could be moved from env->src_cpu. Outside of explain(), looking at that CPU would take
 * simulated time.
 */
static __always_inline void explain_failed(const struct balance_env *env)
{
	const struct refused *refused = &env->refused;

	if (!explaining || env->idle == LB_NOT_IDLE)
		return;
	if (refused->pinned || refused->hot || refused->heavy)
		explain(none_movable, 0, env->cpu, env->src_cpu, refused->pinned, refused->hot, refused->heavy);
	else
		explain(only_running, 0, env->cpu, env->src_cpu, env_domain(env)->weight);
}

/*
 * Records that there is no group to pull from, or that env->cpu is not the CPU that balances for its group
 * (!@balance).
 */
static __always_inline void explain_balanced(const struct balance_env *env, bool balance)
{
	if (!explaining || env->idle == LB_NOT_IDLE)
		return;
	if (balance)
		explain(no_imbalance, 0, env->cpu, env_domain(env)->weight, env_domain(env)->imbalance_pct - 100);
	else
		explain(not_its_turn, 0, env->cpu, env_domain(env)->weight);
}

#endif /* __EQUIPOISE_BALANCE_EXPLAIN_H */
