/* SPDX-License-Identifier: GPL-2.0-only */
/* Placement at a wakeup, fork or exec: select_task_rq_fair() of Linux 7.3. */
#ifndef __EQUIPOISE_SELECT_H
#define __EQUIPOISE_SELECT_H

#include "energy.h"
#include "idle_sibling.h"
#include "idlest.h"
#include "wake_affine.h"

/* The imbalance_pct of the lowest domain that has both CPUs and pulls tasks to wakers; 0 if there is none. */
__noinline u32 wake_affine_domain(u32 cpu, u32 prev_cpu)
{
	forget_origin(cpu);
	forget_origin(prev_cpu);
	u32 imbalance_pct = 0;
	int level;

	bpf_for(level, 0, levels_of(cpu)->nr_levels) {
		struct domain *sd = domain_of(cpu, level);

		if (sd->flags & SD_WAKE_AFFINE && same_domain(cpu, prev_cpu, level)) {
			imbalance_pct = sd->imbalance_pct;
			break;
		}
	}
	return imbalance_pct;
}

/* The CPU for @p, which wakes up and was on @prev_cpu. @wake_flags: SCX_WAKE_*. */
__noinline s32 select_wake_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu, u64 wake_flags)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct fair_entity *se = entity_of(p), *waker = entity_of(current);
	u32 cpu = bpf_get_smp_processor_id(), target = prev_cpu, imbalance_pct;
	bool sync = wake_flags & SCX_WAKE_SYNC && !(current->flags & PF_EXITING);
	u64 now = bpf_ktime_get_ns();

	if (!se)
		return prev_cpu;
	/* In the kernel, the task is still queued on that CPU. */
	if (still_delayed(se) && (s32)se->cpu == prev_cpu) {
		explain(keeps_place, p->pid, prev_cpu);
		return prev_cpu;
	}
	if (se->attached && !se->on_rq)
		update_delayed_load_avg(se, sleepers_clock(se, now));
	if (waker)
		record_wakee(waker, p->pid, jiffies_at(now));
	if (machine.asymmetric)
		sync_entity_load_avg(se);
	if (energy_aware())
		return find_energy_efficient_cpu(p, prev_cpu);
	if ((s32)cpu != prev_cpu && task_allowed(p, cpu) && !(waker && wake_wide(waker, se, cpu))) {
		imbalance_pct = wake_affine_domain(cpu, prev_cpu);
		if (imbalance_pct)
			target = wake_affine(waker, se, cpu, prev_cpu, imbalance_pct, sync);
	}
	return select_idle_sibling(p, prev_cpu, target);
}

/* The CPU for @p, which was on @prev_cpu. @wake_flags: SCX_WAKE_*. */
static __always_inline s32 select_task_rq_fair(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	if (wake_flags & SCX_WAKE_FORK)
		return select_idlest_cpu(p, bpf_get_smp_processor_id(), prev_cpu, SD_BALANCE_FORK);
	return select_wake_cpu(p, prev_cpu, wake_flags);
}

#endif /* __EQUIPOISE_SELECT_H */
