/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of one pass of load_balance(), for any scheduler that defines a struct balance_env with
 * cpu, level, idle, any_excluded and excluded.
 */
#ifndef __EQUIPOISE_BALANCE_PASS_H
#define __EQUIPOISE_BALANCE_PASS_H

struct balance_env balance_envs[MAX_CPUS];

/* This CPU's state. One state is enough, because no balancing pass interrupts another one on the same CPU. */
static __always_inline struct balance_env *this_balance_env(void)
{
	return &balance_envs[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline struct domain *env_domain(const struct balance_env *env)
{
	return domain_of(env->cpu, env->level);
}

static __always_inline struct domain_state *env_domain_state(const struct balance_env *env)
{
	return domain_state_of(env->cpu, env->level);
}

static __always_inline bool is_idle_balance(const struct balance_env *env)
{
	return env->idle != LB_NOT_IDLE;
}

static __always_inline bool excluded(const struct balance_env *env, u32 cpu)
{
	cpu &= MAX_CPUS - 1;
	return env->any_excluded && (env->excluded[cpu / 64] >> (cpu % 64) & 1);
}

static __always_inline void exclude(struct balance_env *env, u32 cpu)
{
	cpu &= MAX_CPUS - 1;
	if (!env->any_excluded)
		__builtin_memset(env->excluded, 0, sizeof(env->excluded));
	env->any_excluded = true;
	env->excluded[cpu / 64] |= 1ULL << (cpu % 64);
}

#endif /* __EQUIPOISE_BALANCE_PASS_H */
