//! Promises of Equipoise's own scheduler, tested through the command.

use crate::common::json;
use crate::rt_app::{self, entry, mean};
use serde_json::Value;

fn compare(machine: &str, workload: &str, policy: &str) -> Value {
    let mut args = vec!["compare", "--machine", machine, "--workload", workload];
    args.extend(["--policy", policy, "--runs", "2", "--format", "json"]);
    json(&args)
}

fn run(machine: &str, duration: u32, tasks: &str) -> Value {
    rt_app::run(machine, duration, tasks, "equipoise", "2")
}

/// Heavy threads run on the fast CPUs, no CPU idles while there is work, and all threads finish at
/// the same time. (Six threads take turns of 3 ms on five CPUs, and each switch costs some us.)
#[test]
fn sysbench_is_as_fast_as_the_machine_allows() {
    for threads in 1..=6 {
        let result = compare(
            "tc2",
            &format!("sysbench-cpu:threads={threads}"),
            "equipoise",
        );
        let time = entry(&result, "time");
        let ratio = time["mean"].as_f64().unwrap() / time["limit"].as_f64().unwrap();
        assert!(ratio < 1.007, "{threads} threads: {ratio} of the limit");
    }
}

#[test]
fn tasks_have_the_slices_that_they_ask_for() {
    // Beside a single loop any task gets its CPU at once: its arrival ends the loop's turn.
    rt_app::slices_are_those_asked_for("equipoise", 4);
}

#[test]
fn equal_tasks_make_equal_progress_on_unlike_cpus() {
    for (threads, bar) in [
        (5, 1.0),
        (6, 1.0),
        (7, 1.0),
        (8, 1.0),
        (9, 2.0),
        (12, 5.0),
        (24, 5.0),
        (32, 5.0),
    ] {
        let workload = format!("busy:threads={threads},duration=2");
        let spread = mean(&compare("odroid-xu3", &workload, "equipoise"), "spread");
        assert!(spread < bar, "{threads} threads: {spread} %");
    }
}

#[test]
fn equal_tasks_make_equal_progress_on_hardware_threads() {
    for (machine, threads) in [
        ("smt-4", 5),
        ("snb-laptop", 7),
        ("raptor-lake-h", 15),
        ("zen4-x3d", 18),
    ] {
        let workload = format!("busy:threads={threads},duration=2");
        let spread = mean(&compare(machine, &workload, "equipoise"), "spread");
        assert!(spread < 2.0, "{threads} threads on {machine}: {spread} %");
    }
}

/// No loop shares a core for long while another core idles: not with a thread that may use no other core, and not if
/// it has run only briefly until now.
#[test]
fn a_loop_leaves_a_shared_core_for_an_idle_one() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/loads/loop-shares-a-core.json"
    );
    let mut args = vec!["compare", "--machine", "smt-4", "--workload", file];
    args.extend(["--policy", "equipoise", "--runs", "8", "--format", "json"]);
    let time = mean(&json(&args), "time");
    assert!(time < 1.01, "{time} s");
}

/// A thread that had too much on one CPU and wakes up on another has paid for it while it slept: it does not wait for
/// four loops, as if it had just run.
#[test]
fn a_bound_task_pays_its_debt_while_it_sleeps() {
    let result = rt_app::run(
        "tc2",
        5,
        r#""thread": { "cpus": [1, 2, 3], "loop": -1, "run": 500, "timer": { "ref": "unique", "period": 10000 } },
           "loop": { "instance": 15, "loop": -1, "run": 1000 }"#,
        "equipoise",
        "5",
    );
    let missed = mean(&result, "thread/missed");
    assert!(missed < 4.0, "{missed} %");
}

/// The fast cores of a hybrid have two hardware threads each, and Linux does not know their
/// capacities. The scheduler treats such a core as fast while one thread works, and as no faster
/// than a slow core while both work.
#[test]
fn fast_cores_with_hardware_threads_are_told_from_slow_ones() {
    for (machine, threads) in [("alder-lake", 8), ("alder-lake", 20), ("zen5-laptop", 6)] {
        let workload = format!("sysbench-cpu:threads={threads},requests=200");
        let time = |policy| mean(&compare(machine, &workload, policy), "time");
        let (equipoise, eevdf) = (time("equipoise"), time("eevdf"));
        assert!(
            equipoise < 1.005 * eevdf,
            "{machine}, {threads} threads: {equipoise} s, {eevdf} s"
        );
    }
    for threads in [12, 24] {
        let workload = format!("busy:threads={threads},duration=2");
        let spread = mean(&compare("alder-lake", &workload, "equipoise"), "spread");
        assert!(spread < 2.0, "{threads} threads: {spread} %");
    }
}

/// If there are more threads that wait for each other than CPUs, a fast CPU that runs out of work takes over the task
/// of a slower one.
#[test]
fn fast_cpus_take_over_tasks_of_slow_ones() {
    let workload = "streamcluster:threads=9,scale=20";
    let time = |policy: &str| mean(&compare("odroid-xu3", workload, policy), "time");
    let (equipoise, eevdf) = (time("equipoise"), time("eevdf"));
    assert!(equipoise < 0.85 * eevdf, "{equipoise} s, eevdf {eevdf} s");
}

/// Shares depend on the ratios of weights alone, and on what else may use the same CPUs: not on nice 0, and not on
/// when a task started.
#[test]
fn shares_follow_from_ratios_of_weights() {
    for (load, machine, metric, most) in [
        ("eight-bound-to-one-cpu", "rk3588", "bound/spread", 5.0),
        ("eight-bound-to-one-cpu", "zen5-laptop", "bound/spread", 5.0),
        ("heavier-loops-beside-lighter", "tc2", "c/spread", 2.0),
        ("heavier-loops-beside-lighter", "tc2", "a/spread", 2.0),
        ("groups-100-and-1", "odroid-xu3", "c/spread", 2.0),
        ("groups-100-and-1", "odroid-xu3", "a/spread", 2.0),
        ("groups-1000-and-100", "rk3588", "ui/missed", 1.0),
        ("boss-wakes-16-workers", "rk3588", "main/missed", 1.0),
        ("herd-of-16-new-threads", "smp-8", "ui/missed", 0.5),
    ] {
        let file = format!(
            "{}/../../tests/loads/{load}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let found = mean(&compare(machine, &file, "equipoise"), metric);
        assert!(found < most, "{load} on {machine}: {metric} {found} %");
    }
}

#[test]
fn nice_levels_share_by_weight() {
    rt_app::shares_are_by_weight("equipoise", "2", 0.05);
}

/// One of two tasks runs and the other waits. At each switch the queue is empty for a moment, but the lighter
/// task is charged.
#[test]
fn two_loops_share_a_cpu_by_weight() {
    let result = run(
        "smp-2",
        10,
        r#""loop": { "cpus": [0], "loop": -1, "run": 200 },
           "light": { "cpus": [0], "priority": 5, "loop": -1, "run": 200 }"#,
    );
    let (part, expected) = (200.0 / mean(&result, "light/run"), 335.0 / 1359.0);
    assert!((part / expected - 1.0).abs() < 0.05, "{part} of {expected}");
}

#[test]
fn a_pinned_task_does_not_wait_behind_a_long_slice() {
    let result = run(
        "smp-2",
        10,
        r#""loop": { "instance": 4, "loop": -1, "run": 1000 },
           "rare": { "cpus": [0], "loop": -1, "run": 200, "timer": { "ref": "unique", "period": 20000 } }"#,
    );
    let latency = mean(&result, "rare/wu_lat");
    assert!(latency < 7_100.0, "{latency} us");
}

#[test]
fn a_task_that_ran_alone_need_not_wait_for_as_long() {
    let result = run(
        "smp-2",
        10,
        r#""early": { "cpus": [0], "loop": -1, "run": 1000 },
           "late": { "cpus": [0], "loop": -1, "delay": 5000000, "run": 1000 }"#,
    );
    // The loop is alone for the first half of the time, and shares the CPU for the other half.
    let early = mean(&result, "early/run");
    assert!(early < 1_400.0, "{early} us for 1000 us of work");
}

/// Threads that wait for each other at barriers look light, and slow ones even more so: they still
/// run at the highest frequency, and finish as early as possible.
#[test]
fn the_cpu_of_a_task_that_others_wait_for_runs_at_full_speed() {
    let result = compare("odroid-xu3", "blackscholes:threads=4", "equipoise");
    let time = entry(&result, "time");
    let ratio = time["mean"].as_f64().unwrap() / time["limit"].as_f64().unwrap();
    assert!(ratio < 1.01, "{ratio} of the limit");
}

#[test]
fn pairs_do_not_hold_up_others() {
    let result = compare(
        "smp-2",
        "netperf:pairs=4,time=2+busy:threads=1,duration=2",
        "equipoise",
    );
    let work = mean(&result, "work");
    assert!(work > 0.35, "{work} s");
}

/// If all CPUs are busy, tasks stay where their data is, and no core is shared while another one idles.
#[test]
fn compilers_are_done_as_soon_as_under_eevdf() {
    let time = |policy| mean(&compare("snb-ep-2s", "kbuild:jobs=16", policy), "time");
    let (equipoise, eevdf) = (time("equipoise"), time("eevdf"));
    assert!(equipoise < eevdf, "{equipoise} s, {eevdf} s");
}

/// New tasks stay on their socket if two of its cores boost as high as one, and go to the other
/// socket if four do not. This takes no more time and no more energy than spreading always does.
#[test]
fn compilers_spread_where_they_hold_each_other_back() {
    let measured = |jobs: u32, policy| {
        let result = compare("snb-ep-2s", &format!("kbuild:jobs={jobs}"), policy);
        (mean(&result, "time"), mean(&result, "runs_per_energy"))
    };
    for jobs in [2, 4] {
        let (time, per_joule) = measured(jobs, "equipoise");
        let (eevdf_time, eevdf_per_joule) = measured(jobs, "eevdf");
        assert!(
            time < 1.02 * eevdf_time,
            "-j{jobs}: {time} s, {eevdf_time} s"
        );
        assert!(
            per_joule > eevdf_per_joule,
            "-j{jobs}: {per_joule}, {eevdf_per_joule} builds a MJ"
        );
    }
}

/// `power` packs long-running tasks, and draws no more power than half as many busy cores.
#[test]
fn power_packs_what_runs_on_and_on() {
    let watts = |policy| {
        mean(
            &compare("snb-ep-2s", "busy:threads=8,duration=20", policy),
            "power",
        )
    };
    let (power, performance) = (watts("equipoise-power"), watts("equipoise-performance"));
    assert!(power < 0.9 * performance, "{power} W, {performance} W");
}
