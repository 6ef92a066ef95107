/* The task that was last on a CPU goes first again: the others on that CPU never run. */
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(lifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags | SCX_ENQ_HEAD);
}
SCX_OPS_DEFINE(lifo_ops, .enqueue = (void *)lifo_enqueue, .name = "lifo");
