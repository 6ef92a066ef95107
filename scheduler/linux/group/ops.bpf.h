/* SPDX-License-Identifier: GPL-2.0-only */
/* The ops of control groups, for a scheduler that defines what autogroup.bpf.h and its includes require. */
#ifndef __EQUIPOISE_GROUP_OPS_H
#define __EQUIPOISE_GROUP_OPS_H

#ifdef __EQUIPOISE_SIMULATED_H
#include "autogroup.bpf.h"

/* These ops are not sleepable, because they set the callbacks of timers that iterate over a queue. */
s32 BPF_STRUCT_OPS(equipoise_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	s32 err = init_cgroup(cgrp, args->weight, args->sched_idle);

	if (!err && own_group(cgrp))
		set_cfs_bandwidth(own_group(cgrp), args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	return err;
}

void BPF_STRUCT_OPS(equipoise_cgroup_exit, struct cgroup *cgrp)
{
	exit_cgroup(cgrp);
}

void BPF_STRUCT_OPS(equipoise_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	set_group_weight(cgrp, weight);
}

void BPF_STRUCT_OPS(equipoise_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	set_group_idle(cgrp, idle);
}

void BPF_STRUCT_OPS(equipoise_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	if (own_group(cgrp))
		set_cfs_bandwidth(own_group(cgrp), period_us, quota_us, burst_us);
}

/* sched_change_group() */
void BPF_STRUCT_OPS(equipoise_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct fair_entity *se = entity_of(p);

	if (se)
		reweight_entity(p, se, group_of_task(p, to));
}

/* The members of struct sched_ext_ops for groups. */
/* clang-format off */
#define GROUP_OPS						\
	.cgroup_init = (void *)equipoise_cgroup_init,		\
	.cgroup_exit = (void *)equipoise_cgroup_exit,		\
	.cgroup_set_weight = (void *)equipoise_cgroup_set_weight,	\
	.cgroup_set_idle = (void *)equipoise_cgroup_set_idle,	\
	.cgroup_set_bandwidth = (void *)equipoise_cgroup_set_bandwidth, \
	.cgroup_move = (void *)equipoise_cgroup_move,
/* clang-format on */
#else
#define GROUP_OPS
#endif

#endif /* __EQUIPOISE_GROUP_OPS_H */
