/* SPDX-License-Identifier: GPL-2.0-only */
/* Queues that are no longer throttled, and the functions that ../../group requires of this scheduler. */
#ifndef __EQUIPOISE_CFS_THROTTLE_H
#define __EQUIPOISE_CFS_THROTTLE_H

#include "../core/fair.h"

/* Charges the task that runs on @cpu until @now (../../group/period.bpf.h). */
static __always_inline void update_curr_at(u32 cpu, u64 now)
{
	update_curr(cpu, now);
}

/* Lets the queue of @group on @cpu run again: unthrottle_cfs_rq(). */
__noinline bool unthrottle_cfs_rq(u32 group, u32 cpu)
{
	struct group_rq *grq;
	u64 now = bpf_ktime_get_ns();

	forget_origin(group);
	forget_origin(cpu);
	grq = group_rq_at(group, cpu);
	update_curr(cpu, now);
	if (!grq->throttled || (group_is_limited(group) && grq->runtime_remaining <= 0))
		return false;
	grq->throttled = 0;
	__sync_fetch_and_add(&bandwidth_of(group)->nr_throttled, -1);
	unthrottle_queue(group, cpu, now);
	if (!rq_of(cpu)->curr.pid && rq_of(cpu)->nr_running)
		kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/* Initializes the part of @group on @cpu: alloc_fair_sched_group(). */
static __always_inline void init_group_rq(u32 group, u32 cpu)
{
	struct group_rq *grq = group_rq_at(group, cpu);
	u64 now = bpf_ktime_get_ns();

	__builtin_memset(grq, 0, sizeof(*grq));
	/* The same initial value as in init_rq(). */
	grq->min_vruntime = NSEC_PER_SEC;
	grq->leftmost = ~0ULL;
	grq->vruntime = *min_vruntime_of(group_parent(group), cpu);
	grq->last_decay = decay_periods(now);
	grq->avg.last_update_time = now;
	set_group_entity_weight(grq, fair_group_at(group)->shares);
}

/* Changes the weight of a group: sched_group_set_shares(). */
__noinline bool set_group_shares(u32 group, u64 shares)
{
	int cpu;

	forget_origin(group);
	forget_origin(shares);
	fair_group_at(group)->shares = shares;
	bpf_for(cpu, 0, nr_cpus()) {
		struct group_rq *grq = group_rq_at(group, cpu);

		update_group_entity(group, grq, cpu, bpf_ktime_get_ns());
		update_cfs_shares(group, grq, cpu);
	}
	return true;
}

#include "../../group/ops.bpf.h"

#endif /* __EQUIPOISE_CFS_THROTTLE_H */
