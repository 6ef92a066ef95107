//! The checker itself finds the errors that it is meant to find.

use crate::support::*;
use native::Object;
use simulator::{Check, Config, Counters, Error, Outcome};
use workload::Workload;

/// Runs two spinners, which both start on CPU 0 of two.
fn checked(scheduler: &Object, check: Check) -> Result<Outcome, Error> {
    let workload = tasks(|| ["a", "b"].map(|name| task(name, [run_for(50)])));
    checked_with(&workload, scheduler, check)
}

fn checked_with(
    workload: &dyn Workload,
    scheduler: &Object,
    check: Check,
) -> Result<Outcome, Error> {
    let machine = machine(2);
    let config = Config {
        time_limit_ns: 1000 * MS,
        ..Config::new(&machine, workload, scheduler, &[])
    };
    simulator::run_checked(config, check)
}

fn all_on_cpu_0() -> Object {
    let text = "s32 BPF_STRUCT_OPS(zero, struct task_struct *p, s32 prev_cpu, u64 wake_flags) { return 0; }
        void BPF_STRUCT_OPS(local, struct task_struct *p, u64 enq_flags)
        { scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, SCX_SLICE_DFL, enq_flags); }";
    scheduler(text, ".select_cpu = (void *)zero, .enqueue = (void *)local")
}

#[test]
fn an_idle_cpu_beside_a_loaded_one_is_seen_if_asked_for() {
    let unfair = all_on_cpu_0();
    checked(&unfair, Check::INVARIANTS).unwrap();
    let Err(Error::Invariant { message, at_ns }) = checked(&unfair, Check::work_conserving(5 * MS))
    else {
        panic!("CPU 1 was idle")
    };
    assert!(message.starts_with("CPU 1 was idle for"), "{message}");
    assert!((5 * MS..15 * MS).contains(&at_ns), "{at_ns}");
}

#[test]
fn sharing_one_queue_is_work_conserving() {
    let fair = scheduler("", ".flags = 0");
    let outcome = checked(&fair, Check::work_conserving(MS)).unwrap();
    assert!(outcome.counters.wasted_ns < MS, "{outcome:?}");
}

#[test]
fn the_time_of_an_idle_cpu_beside_a_loaded_one_is_wasted() {
    let outcome = checked(&all_on_cpu_0(), Check::INVARIANTS).unwrap();
    // CPU 1 could have run one of them until the first of them ends.
    let Counters {
        wasted_ns,
        longest_waste_ns,
        ..
    } = outcome.counters;
    assert!((80 * MS..100 * MS).contains(&wasted_ns), "{wasted_ns}");
    assert_eq!(longest_waste_ns, wasted_ns);
}

#[test]
fn a_cpu_wastes_no_time_on_tasks_that_it_may_not_run() {
    let workload = tasks(|| ["a", "b"].map(|name| bound(name, 0, [run_for(50)])));
    let outcome = checked_with(&workload, &all_on_cpu_0(), Check::INVARIANTS).unwrap();
    assert_eq!(outcome.counters.wasted_ns, 0);
}

#[test]
fn a_counter_that_a_scheduler_corrupts_is_seen() {
    let text = "void BPF_STRUCT_OPS(corrupt, struct task_struct *p)
        { if (p->pid != 1000) *(u32 *)&bpf_per_cpu_ptr(&runqueues, scx_bpf_task_cpu(p))->nr_running += 5; }";
    let bad = scheduler(text, ".running = (void *)corrupt");
    let Err(Error::Invariant { message, .. }) = checked(&bad, Check::INVARIANTS) else {
        panic!("nr_running was wrong")
    };
    assert!(message.starts_with("nr_running of CPU"), "{message}");
}

#[test]
fn a_task_that_is_moved_behind_the_kernels_back_is_seen() {
    let text = "void BPF_STRUCT_OPS(corrupt, struct task_struct *p)
        { if (p->pid != 1000) *(u32 *)&p->thread_info.cpu ^= 1; }";
    let bad = scheduler(text, ".tick = (void *)corrupt");
    let Err(Error::Invariant { message, .. }) = checked(&bad, Check::INVARIANTS) else {
        panic!("the task did not know where it was")
    };
    assert!(
        message.ends_with("is running, but its state differs"),
        "{message}"
    );
}
