//! The cache lines of dispatch queues and of the masks of idle CPUs, on a machine that describes its memory.

use crate::support::*;
use machine::Machine;
use simulator::Counters;
use workload::Workload;

const OPS: &str = ".init = (void *)queues_init, .select_cpu = (void *)queues_select_cpu,
	.enqueue = (void *)queues_enqueue, .dispatch = (void *)queues_dispatch";

/// A scheduler that has a queue for each `span` CPUs and runs the tasks of a queue in turn.
fn queues(span: usize) -> String {
    format!("#define SPAN {span}\n")
        + r#"
s32 BPF_STRUCT_OPS_SLEEPABLE(queues_init)
{
	int queue;

	bpf_for(queue, 0, (scx_bpf_nr_cpu_ids() + SPAN - 1) / SPAN)
		if (scx_bpf_create_dsq(queue, -1))
			return -1;
	return 0;
}
s32 BPF_STRUCT_OPS(queues_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
}
void BPF_STRUCT_OPS(queues_enqueue, struct task_struct *p, u64 flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	scx_bpf_dsq_insert(p, cpu / SPAN, SCX_SLICE_DFL, flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}
void BPF_STRUCT_OPS(queues_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(cpu / SPAN);
}
"#
}

fn counters(machine: &Machine, workload: &dyn Workload, span: usize) -> Counters {
    let ran = run(machine, workload, &scheduler(&queues(span), OPS));
    ran.outcome.counters
}

/// A machine of eight CPUs. If `line_ns` is given, fetching a cache line takes this time in ns; otherwise it is free.
fn machine_with(line_ns: Option<u32>) -> Machine {
    let mut machine = Machine::find("smp-8").unwrap();
    machine.numa.memory = line_ns.map(|line_ns| machine::Memory {
        cached_ns: 3,
        line_ns: vec![vec![line_ns]],
        lock_ns: 100,
        spinlock: machine::Spinlock::Queued,
    });
    machine
}

/// As in scx issue 998, the fewer CPUs share a queue, the more often pairs pass a word to and fro.
#[test]
fn pipes_are_faster_the_fewer_cpus_share_a_queue() {
    let loops = |line_ns, span| {
        let workload = models::load("pipe:pairs=8,time=0.01").unwrap();
        counters(&machine_with(line_ns), &*workload, span).wakeups
    };
    let own = loops(Some(200), 1);
    let half = loops(Some(200), 4);
    let one = loops(Some(200), 8);
    assert!(own > half && half > one, "{own} {half} {one}");
    assert!(own > 2 * one, "{own} {half} {one}");
    // If lines cost nothing, one queue is at most slightly worse.
    assert!(loops(None, 8) > loops(None, 1) * 9 / 10);
}

#[test]
fn lines_cost_time_on_machines_with_memory_alone() {
    let workload = models::load("pipe:pairs=8,time=0.002").unwrap();
    assert_eq!(counters(&machine_with(None), &*workload, 8).memory_ns, 0);
    assert!(counters(&machine_with(Some(100)), &*workload, 8).memory_ns > 0);
}
