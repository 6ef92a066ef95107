/* SPDX-License-Identifier: GPL-2.0-only */
/* Names under which other releases of sched_ext have the same things. */
#ifndef __SCX_COMPAT_BPF_H
#define __SCX_COMPAT_BPF_H

#define __COMPAT_ENUM_OR_ZERO(type, ent) (ent)

/* What 6.12's own compatibility header calls them. */
#define __COMPAT_scx_bpf_task_cgroup(p) scx_bpf_task_cgroup(p)
#define __COMPAT_scx_bpf_dispatch_from_dsq_set_slice(it, slice) scx_bpf_dispatch_from_dsq_set_slice(it, slice)
#define __COMPAT_scx_bpf_dispatch_from_dsq_set_vtime(it, vtime) scx_bpf_dispatch_from_dsq_set_vtime(it, vtime)
#define __COMPAT_scx_bpf_dispatch_from_dsq(it, p, dsq_id, enq_flags) \
	scx_bpf_dispatch_from_dsq(it, p, dsq_id, enq_flags)
#define __COMPAT_scx_bpf_dispatch_vtime_from_dsq(it, p, dsq_id, enq_flags) \
	scx_bpf_dispatch_vtime_from_dsq(it, p, dsq_id, enq_flags)

/* Linux 6.13's names. */
#define scx_bpf_dsq_insert(p, dsq_id, slice, enq_flags) scx_bpf_dispatch(p, dsq_id, slice, enq_flags)
#define scx_bpf_dsq_insert_vtime(p, dsq_id, slice, vtime, enq_flags) \
	scx_bpf_dispatch_vtime(p, dsq_id, slice, vtime, enq_flags)
/* Linux 7.1's has enq_flags as well, which mean nothing in a local queue. */
#define scx_bpf_dsq_move_to_local(dsq_id, ...) scx_bpf_consume(dsq_id)
#define scx_bpf_dsq_move_set_slice(it, slice) scx_bpf_dispatch_from_dsq_set_slice(it, slice)
#define scx_bpf_dsq_move_set_vtime(it, vtime) scx_bpf_dispatch_from_dsq_set_vtime(it, vtime)
#define scx_bpf_dsq_move(it, p, dsq_id, enq_flags) scx_bpf_dispatch_from_dsq(it, p, dsq_id, enq_flags)
#define scx_bpf_dsq_move_vtime(it, p, dsq_id, enq_flags) scx_bpf_dispatch_vtime_from_dsq(it, p, dsq_id, enq_flags)

/* Linux 6.14's cached clock. */
#define scx_bpf_now() bpf_ktime_get_ns()

/* The linker keeps the ops in a section of their own, where the simulated kernel looks for them. */
#define SCX_OPS_DEFINE(__name, ...) \
	SEC(".struct_ops.link")     \
	__attribute__((visibility("default"))) struct sched_ext_ops __name = { __VA_ARGS__ };

#endif /* __SCX_COMPAT_BPF_H */
