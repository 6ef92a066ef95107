/* A scheduler with callbacks for groups and weights, and none for quotas. */
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
s32 BPF_STRUCT_OPS(weights_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	return 0;
}
void BPF_STRUCT_OPS(weights_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
}
SCX_OPS_DEFINE(weights_ops, .cgroup_init = (void *)weights_cgroup_init,
	       .cgroup_set_weight = (void *)weights_cgroup_set_weight, .name = "weights");
