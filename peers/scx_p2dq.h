/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings that the loaders of scx_p2dq and scx_chaos (which contains scx_p2dq) take from the machine or from
 * their defaults.
 */
#ifndef __PEERS_SCX_P2DQ_H
#define __PEERS_SCX_P2DQ_H

#include "scx_arena.h"

/* The most CPUs of a last-level cache. */
static inline u32 p2dq_llc_cpus(void)
{
	return loader_most_children(loader_llc, loader_itself);
}

static inline void p2dq_set_cpus(u32 nr_llcs)
{
	loader_set(topo_config.nr_cpus, __KERNEL->nr_cpu_ids);
	loader_set(topo_config.nr_llcs, nr_llcs);
	loader_set(topo_config.nr_nodes, loader_count(loader_node));
	loader_set(topo_config.smt_enabled, loader_smt());
	loader_set(topo_config.has_little_cores, loader_least_capacity() < loader_most_capacity());
	loader_for_each_cpu(cpu)
	{
		big_core_ids[cpu] = loader_capacity(cpu) == loader_most_capacity();
		cpu_core_ids[cpu] = loader_core(cpu);
		cpu_llc_ids[cpu] = loader_llc(cpu);
		cpu_node_ids[cpu] = loader_node(cpu);
		cpu_capacity[cpu] = loader_capacity(cpu);
		cpu_energy_cost[cpu] = 100;
	}
	for (u32 llc = 0; llc < nr_llcs; llc++)
		llc_ids[llc] = llc;
}

static inline s32 p2dq_loader(struct sched_ext_ops *ops, u64 task_size)
{
	static const u64 slices_us[] = { 500, 2500, 5000 };
	u32 queues = sizeof(slices_us) / sizeof(slices_us[0]);
	u32 nr_llcs = loader_count(loader_llc), shards = p2dq_llc_cpus() / 4;
	bool one_llc = nr_llcs == 1;

	p2dq_set_cpus(nr_llcs);
	for (u32 i = 0; i < queues; i++)
		dsq_time_slices[i] = slices_us[i] * 1000;

	loader_set(timeline_config.min_slice_us, 100);
	loader_set(timeline_config.max_exec_ns, 2 * dsq_time_slices[queues - 1]);
	loader_set(timeline_config.autoslice, false);
	loader_set(timeline_config.deadline, false);

	loader_set(lb_config.slack_factor, 5);
	loader_set(lb_config.min_nr_queued_pick2, 0);
	loader_set(lb_config.min_llc_runs_pick2, log2_u32(nr_llcs));
	loader_set(lb_config.max_dsq_pick2, false);
	loader_set(lb_config.eager_load_balance, true);
	loader_set(lb_config.dispatch_pick2_disable, one_llc);
	loader_set(lb_config.dispatch_lb_busy, 75);
	loader_set(lb_config.dispatch_lb_interactive, true);
	loader_set(lb_config.wakeup_lb_busy, 0);
	loader_set(lb_config.wakeup_llc_migrations, false);
	loader_set(lb_config.single_llc_mode, one_llc);

	loader_set(p2dq_config.interactive_ratio, 10);
	loader_set(p2dq_config.dsq_shift, 4);
	loader_set(p2dq_config.task_slice, false);
	loader_set(p2dq_config.kthreads_local, true);
	loader_set(p2dq_config.nr_dsqs_per_llc, queues);
	loader_set(p2dq_config.init_dsq_index, 0);
	loader_set(p2dq_config.saturated_percent, 5);
	loader_set(p2dq_config.sched_mode, MODE_DEFAULT);
	loader_set(p2dq_config.llc_shards, p2dq_llc_cpus() <= 4 ? 1 : shards);
	loader_set(p2dq_config.atq_enabled, false);
	loader_set(p2dq_config.dhq_enabled, false);
	loader_set(p2dq_config.dhq_max_imbalance, 3);
	loader_set(p2dq_config.cpu_priority, false);
	loader_set(p2dq_config.freq_control, false);
	loader_set(p2dq_config.interactive_sticky, false);
	loader_set(p2dq_config.keep_running_enabled, false);
	loader_set(p2dq_config.pelt_enabled, true);
	loader_set(p2dq_config.fork_balance, true);
	loader_set(p2dq_config.exec_balance, true);
	loader_set(p2dq_config.enable_eas, false);
	loader_set(p2dq_config.small_task_threshold, 256);
	loader_set(p2dq_config.large_task_threshold, 768);
	loader_set(latency_config.latency_priority_enabled, false);
	loader_set(latency_config.wakeup_preemption_enabled, false);
	loader_set(debug, 0);

	ops->flags |= SCX_OPS_KEEP_BUILTIN_IDLE;
	return loader_arena(task_size, 0);
}

#endif /* __PEERS_SCX_P2DQ_H */
