//! Promises of today's Linux (`eevdf`) and its fair class, tested through the command.

use crate::rt_app::{self, mean};
use serde_json::Value;

fn run(machine: &str, duration: u32, tasks: &str) -> Value {
    rt_app::run(machine, duration, tasks, "eevdf", "1")
}

#[test]
fn nice_levels_share_by_weight() {
    rt_app::shares_are_by_weight("eevdf", "1", 0.02);
}

/// A task that wakes up now and then gets the CPU soon (PLACE_LAG): it does not wait for all of the
/// four loops alongside it.
#[test]
fn a_task_that_sleeps_a_lot_waits_for_a_slice_at_most() {
    let result = run(
        "smp-2",
        10,
        r#""loop": { "instance": 4, "cpus": [0], "loop": -1, "run": 1000 },
           "rare": { "cpus": [0], "loop": -1, "run": 200, "timer": { "ref": "unique", "period": 20000 } }"#,
    );
    // A timer ends a base slice for two CPUs after 1.4 ms (HRTICK), and the next tick at the latest, after 4 ms. Four
    // loops' slices take 5.6 ms.
    let latency = mean(&result, "rare/wu_lat");
    assert!(latency < 4_100.0, "{latency} us");
}

/// A wakeup from another CPU next to a lone task makes that task's CPU set the timer for the end of the
/// slice. The interrupt for that preempts no task. If the wakeup does not preempt, the end of the slice does,
/// at most 1.4 ms later, or the tick, at most 4 ms later.
#[test]
fn an_interrupt_that_sets_the_slices_timer_preempts_nobody() {
    let result = run(
        "smp-2",
        5,
        r#""loop": { "cpus": [0], "loop": -1, "run": 1000 },
           "waker": { "cpus": [1], "loop": -1, "run": 300, "resume": "sleeper",
             "timer": { "ref": "unique", "period": 10370 } },
           "sleeper": { "cpus": [0], "loop": -1, "suspend": "sleeper", "run": 500 }"#,
    );
    let latency = mean(&result, "sleeper/wu_lat");
    assert!((100.0..4_100.0).contains(&latency), "{latency} us");
}

#[test]
fn idle_tasks_are_preempted_and_batch_tasks_do_not_preempt() {
    let waits = |loops: &str, wakes: &str| {
        let tasks = format!(
            r#""loop": {{ "cpus": [0], "loop": -1, "run": 1000{loops} }},
               "wakes": {{ "cpus": [0], "loop": -1, "run": 500{wakes}, "timer": {{ "ref": "unique", "period": 10000 }} }}"#
        );
        mean(&run("smp-2", 5, &tasks), "wakes/wu_lat")
    };
    let (idle, batch) = (
        r#", "policy": "SCHED_IDLE""#,
        r#", "policy": "SCHED_BATCH""#,
    );
    let (preempts, waits_for_slice) = (waits(idle, ""), waits("", batch));
    assert!(preempts < 200.0, "{preempts} us");
    assert!(waits_for_slice > 500.0, "{waits_for_slice} us");
}

#[test]
fn tasks_have_the_slices_that_they_ask_for() {
    for policy in ["eevdf", "eevdf-6.12"] {
        rt_app::slices_are_those_asked_for(policy, 1);
    }
}

/// A task that does not fit a slow CPU is forced onto a fast one (misfit): two heavy tasks use the two fast ones.
#[test]
fn heavy_tasks_go_to_fast_cpus() {
    let heavy = run(
        "tc2",
        5,
        r#""heavy": { "instance": 2, "loop": -1, "run": 10000 }"#,
    );
    let took = mean(&heavy, "heavy-0/run").max(mean(&heavy, "heavy-1/run"));
    assert!(took < 10_500.0, "{took} us");
}

/// A thread that is forked 50 ms before the end, and never runs, counts with its age, and not with the time of the
/// whole run.
#[test]
fn a_forked_thread_is_as_old_as_its_fork() {
    let tasks = r#" "p": { "cpus": [0], "loop": 1, "phases": {
            "forks": { "loop": 9, "fork": "c", "sleep": 100000 },
            "last": { "policy": "SCHED_FIFO", "run": 50000, "fork": "c", "runtime": 5000000 } } },
        "c": { "instance": 0, "loop": 5, "run": 1000 } "#;
    let period = mean(&run("smp-2", 1, tasks), "c/period");
    assert!((1900.0..2300.0).contains(&period), "{period} us");
}

/// A call that changes the affinity, the policy or the group of a thread loses none of its CPU time, whatever its
/// class.
#[test]
fn a_thread_that_changes_itself_has_had_its_cpu_time() {
    for policy in ["SCHED_OTHER", "SCHED_FIFO"] {
        let tasks = format!(
            r#" "a": {{ "policy": "{policy}", "loop": -1, "cpu_time": "more", "phases": {{
                "bound": {{ "cpus": [0], "run": 1000 }}, "free": {{ "cpus": [0, 1], "run": 1000 }} }} }} "#
        );
        let seconds = mean(&run("smp-2", 1, &tasks), "a/cpu_time");
        assert!((0.99..1.001).contains(&seconds), "{policy}: {seconds} s");
    }
}
