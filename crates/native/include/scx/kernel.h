/* SPDX-License-Identifier: GPL-2.0-only */
/* Generated from crates/native/src/kernels.rs: the features of the kernel for which a scheduler is compiled. */
/* clang-format off */
#ifndef __SCX_KERNEL_H
#define __SCX_KERNEL_H

#define EQUIPOISE_VERSION_CODE __KERNEL->version_code
#define EQUIPOISE_COMPILED_FOR 0x0
#define __equipoise_asks_scx_bpf_dispatch 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x60d00),
#define __kfunc_scx_bpf_dispatch inline
#define __equipoise_asks_scx_bpf_dispatch_vtime 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x60d00),
#define __kfunc_scx_bpf_dispatch_vtime inline
#define __equipoise_asks_scx_bpf_consume 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x60d00),
#define __kfunc_scx_bpf_consume inline
#define __equipoise_asks_scx_bpf_dispatch_from_dsq 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x60d00),
#define __kfunc_scx_bpf_dispatch_from_dsq inline
#define __equipoise_asks_scx_bpf_dispatch_vtime_from_dsq 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x60d00),
#define __kfunc_scx_bpf_dispatch_vtime_from_dsq inline
#define __equipoise_asks_scx_bpf_dispatch_from_dsq_set_slice 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x60d00),
#define __kfunc_scx_bpf_dispatch_from_dsq_set_slice inline
#define __equipoise_asks_scx_bpf_dispatch_from_dsq_set_vtime 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x60d00),
#define __kfunc_scx_bpf_dispatch_from_dsq_set_vtime inline
#define __equipoise_asks_scx_bpf_cpu_rq 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x70300),
#define __kfunc_scx_bpf_cpu_rq inline
#define __equipoise_asks_SCX_OPS_HAS_CGROUP_WEIGHT 0, (__KERNEL->version_code >= 0x60c00 && __KERNEL->version_code < 0x70200),
#define __equipoise_asks_scx_bpf_dsq_insert 0, (__KERNEL->version_code >= 0x60d00),
#define __equipoise_asks_scx_bpf_dsq_insert_vtime 0, (__KERNEL->version_code >= 0x60d00),
#define __equipoise_asks_scx_bpf_dsq_move_to_local 0, (__KERNEL->version_code >= 0x60d00),
#define __equipoise_asks_scx_bpf_dsq_move 0, (__KERNEL->version_code >= 0x60d00),
#define __equipoise_asks_scx_bpf_dsq_move_vtime 0, (__KERNEL->version_code >= 0x60d00),
#define __equipoise_asks_scx_bpf_dsq_move_set_slice 0, (__KERNEL->version_code >= 0x60d00),
#define __equipoise_asks_scx_bpf_dsq_move_set_vtime 0, (__KERNEL->version_code >= 0x60d00),
#define __equipoise_asks_scx_bpf_now 0, (__KERNEL->version_code >= 0x60e00),
#define __equipoise_asks_scx_bpf_events 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_scx_bpf_events inline
#define __equipoise_asks_bpf_cpumask_populate 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_bpf_cpumask_populate inline
#define __equipoise_asks_scx_bpf_nr_node_ids 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_scx_bpf_nr_node_ids inline
#define __equipoise_asks_scx_bpf_cpu_node 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_scx_bpf_cpu_node inline
#define __equipoise_asks_scx_bpf_get_idle_cpumask_node 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_scx_bpf_get_idle_cpumask_node inline
#define __equipoise_asks_scx_bpf_get_idle_smtmask_node 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_scx_bpf_get_idle_smtmask_node inline
#define __equipoise_asks_scx_bpf_pick_idle_cpu_node 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_scx_bpf_pick_idle_cpu_node inline
#define __equipoise_asks_scx_bpf_pick_any_cpu_node 0, (__KERNEL->version_code >= 0x60f00),
#define __kfunc_scx_bpf_pick_any_cpu_node inline
#define __equipoise_asks_scx_bpf_select_cpu_and 0, (__KERNEL->version_code >= 0x61000),
#define __equipoise_asks_scx_bpf_locked_rq 0, (__KERNEL->version_code >= 0x61200),
#define __kfunc_scx_bpf_locked_rq inline
#define __equipoise_asks_scx_bpf_cpu_curr 0, (__KERNEL->version_code >= 0x61200),
#define __kfunc_scx_bpf_cpu_curr inline
#define __equipoise_asks_scx_bpf_dsq_peek 0, (__KERNEL->version_code >= 0x61300),
#define __kfunc_scx_bpf_dsq_peek inline
#define __equipoise_asks_scx_bpf_task_set_slice 0, (__KERNEL->version_code >= 0x61300),
#define __equipoise_asks_scx_bpf_task_set_dsq_vtime 0, (__KERNEL->version_code >= 0x61300),
#define __equipoise_asks_scx_bpf_reenqueue_local___v2 0, (__KERNEL->version_code >= 0x61300),
#define __equipoise_asks_scx_bpf_dsq_reenq 0, (__KERNEL->version_code >= 0x70100),
#define __equipoise_asks_scx_bpf_sub_dispatch 0, (__KERNEL->version_code >= 0x70100),
#define __equipoise_asks_scx_bpf_tid_to_task 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_tid_to_task inline
#define __equipoise_asks_scx_bpf_cpu_to_cid 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_cpu_to_cid inline
#define __equipoise_asks_scx_bpf_cid_to_cpu 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_cid_to_cpu inline
#define __equipoise_asks_scx_bpf_cid_topo 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_cid_topo inline
#define __equipoise_asks_scx_bpf_cid_curr 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_cid_curr inline
#define __equipoise_asks_scx_bpf_task_cid 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_task_cid inline
#define __equipoise_asks_scx_bpf_this_cid 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_this_cid inline
#define __equipoise_asks_scx_bpf_nr_cids 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_nr_cids inline
#define __equipoise_asks_scx_bpf_nr_online_cids 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_nr_online_cids inline
#define __equipoise_asks_scx_bpf_kick_cid 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_kick_cid inline
#define __equipoise_asks_scx_bpf_cidperf_cap 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_cidperf_cap inline
#define __equipoise_asks_scx_bpf_cidperf_cur 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_cidperf_cur inline
#define __equipoise_asks_scx_bpf_cidperf_set 0, (__KERNEL->version_code >= 0x70200),
#define __kfunc_scx_bpf_cidperf_set inline
#define __equipoise_asks_scx_bpf_cid_override 0, (__KERNEL->version_code >= 0x70200),
#define __equipoise_asks_scx_bpf_online_cmask 0, (__KERNEL->version_code >= 0x70300),
#define __kfunc_scx_bpf_online_cmask inline
#define __equipoise_asks_scx_bpf_sub_grant 0, (__KERNEL->version_code >= 0x70300),
#define __kfunc_scx_bpf_sub_grant inline
#define __equipoise_asks_scx_bpf_sub_revoke 0, (__KERNEL->version_code >= 0x70300),
#define __kfunc_scx_bpf_sub_revoke inline
#define __equipoise_asks_scx_bpf_sub_caps 0, (__KERNEL->version_code >= 0x70300),
#define __kfunc_scx_bpf_sub_caps inline
#define __equipoise_asks_scx_bpf_sub_kill_bstr 0, (__KERNEL->version_code >= 0x70300),
#define __equipoise_asks_SCX_OPS_ENQ_MIGRATION_DISABLED 0, (__KERNEL->version_code >= 0x60e00),
#define __equipoise_asks_SCX_OPS_ALLOW_QUEUED_WAKEUP 0, (__KERNEL->version_code >= 0x60e00),
#define __equipoise_asks_SCX_OPS_BUILTIN_IDLE_PER_NODE 0, (__KERNEL->version_code >= 0x60f00),
#define __equipoise_asks_SCX_OPS_ALWAYS_ENQ_IMMED 0, (__KERNEL->version_code >= 0x70100),
#define __equipoise_asks_SCX_OPS_TID_TO_TASK 0, (__KERNEL->version_code >= 0x70200),
#define __equipoise_asks_SCX_ENQ_IMMED 0, (__KERNEL->version_code >= 0x70100),
#define __enumerator_SCX_ENQ_IMMED(value) value
#define __equipoise_asks_SCX_ENQ_RESCUE 0, (__KERNEL->version_code >= 0x70300),
#define __enumerator_SCX_ENQ_RESCUE(value) value
#define __equipoise_asks_SCX_DEQ_SCHED_CHANGE 0, (__KERNEL->version_code >= 0x70100),
#define __enumerator_SCX_DEQ_SCHED_CHANGE(value) value
#define __equipoise_asks_SCX_PICK_IDLE_IN_NODE 0, (__KERNEL->version_code >= 0x60f00),
#define __enumerator_SCX_PICK_IDLE_IN_NODE(value) value
#define __equipoise_asks_SCX_TASK_REENQ_REASON_MASK 0, (__KERNEL->version_code >= 0x70100),
#define __enumerator_SCX_TASK_REENQ_REASON_MASK(value) value
#define __equipoise_asks_SCX_CAP_BASE 0, (__KERNEL->version_code >= 0x70300),
#define __enumerator_SCX_CAP_BASE(value) value
#define __equipoise_asks_SCX_REENQ_ANY 0, (__KERNEL->version_code >= 0x70100),
#define __enumerator_SCX_REENQ_ANY(value) value
#define __equipoise_lacks_field(text) ( \
	(__equipoise_ends(text, "SCX_EV_SELECT_CPU_FALLBACK") && !((__KERNEL->version_code >= 0x60f00))) || \
	(__equipoise_ends(text, "exit_cpu") && !((__KERNEL->version_code >= 0x70200))) || \
	(__equipoise_ends(text, "bw_period_us") && !((__KERNEL->version_code >= 0x61100))) || \
	(__equipoise_ends(text, "bw_quota_us") && !((__KERNEL->version_code >= 0x61100))) || \
	(__equipoise_ends(text, "bw_burst_us") && !((__KERNEL->version_code >= 0x61100))) || \
	(__equipoise_ends(text, "sched_idle") && !((__KERNEL->version_code >= 0x70300))) || \
	false)
#define __equipoise_lacks_type(text) ( \
	(__equipoise_ends(text, "scx_bpf_select_cpu_and_args") && !((__KERNEL->version_code >= 0x61300))) || \
	(__equipoise_ends(text, "scx_bpf_dsq_insert_vtime_args") && !((__KERNEL->version_code >= 0x61300))) || \
	(__equipoise_ends(text, "scx_event_stats") && !((__KERNEL->version_code >= 0x60f00))) || \
	(__equipoise_ends(text, "scx_cmask") && !((__KERNEL->version_code >= 0x70200))) || \
	false)

#endif /* __SCX_KERNEL_H */
