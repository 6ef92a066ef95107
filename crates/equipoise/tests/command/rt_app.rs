//! Loads of rt-app under one policy, through the command, and their measures.

use crate::common::{json, stdout};
use serde_json::Value;
use std::fmt::Write as _;
use tempfile::NamedTempFile;

/// Loops of these nice levels on one CPU, and their weights (sched_prio_to_weight in kernel/sched/core.c).
const LEVELS: [(i32, f64); 5] = [
    (-5, 3121.0),
    (0, 1024.0),
    (3, 526.0),
    (5, 335.0),
    (10, 110.0),
];

pub fn entry<'a>(result: &'a Value, metric: &str) -> &'a Value {
    let results = result["results"].as_array().unwrap();
    let found = results.iter().find(|entry| entry["metric"] == metric);
    found.unwrap_or_else(|| panic!("no {metric}"))
}

pub fn mean(result: &Value, metric: &str) -> f64 {
    entry(result, metric)["mean"].as_f64().unwrap()
}

/// An rt-app file of `tasks` for `duration` s.
pub fn file(duration: u32, tasks: &str) -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let text = format!(r#"{{ "global": {{ "duration": {duration} }}, "tasks": {{ {tasks} }} }}"#);
    std::fs::write(&file, text).unwrap();
    file
}

pub fn run(machine: &str, duration: u32, tasks: &str, policy: &str, runs: &str) -> Value {
    let file = file(duration, tasks);
    let mut args = vec!["compare", "--machine", machine, "--policy", policy];
    args.extend(["--workload", file.path().to_str().unwrap()]);
    args.extend(["--runs", runs, "--format", "json"]);
    json(&args)
}

/// Five loops on one CPU for 20 s: each gets a share by its weight, within `tolerance`.
pub fn shares_are_by_weight(policy: &str, runs: &str, tolerance: f64) {
    let mut tasks = String::new();
    for (index, (nice, _)) in LEVELS.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(
            tasks,
            r#"{comma} "loop{index}": {{ "cpus": [0], "priority": {nice}, "loop": -1, "run": 200 }}"#
        )
        .unwrap();
    }
    let result = run("smp-2", 20, &tasks, policy, runs);
    // Turns of other tasks fall into a step of work, so on average it takes the longer, the smaller the
    // task's share is.
    let total: f64 = LEVELS.iter().map(|(_, weight)| weight).sum();
    for (index, (nice, weight)) in LEVELS.iter().enumerate() {
        let part = 200.0 / mean(&result, &format!("loop{index}/run"));
        let expected = weight / total;
        assert!(
            (part / expected - 1.0).abs() < tolerance,
            "nice {nice}: {part} of {expected}"
        );
    }
}

/// A finite load alongside a load with a duration: if the finite one is cut short it has no time,
/// and the command says so.
#[test]
fn a_load_that_a_duration_cuts_short_is_named() {
    let load = r#"{ "global": { "duration": 1 }, "tasks": {
        "camera": { "run": 1000, "timer": { "ref": "t", "period": 33000 }, "loop": -1 } } }"#;
    let (_folder, file) = crate::common::file("call.json", load);
    let said = |first: &str| {
        let workload = format!("{first}+{file}");
        let args = ["compare", "--machine", "smp-8", "--workload", &workload];
        stdout(
            &[
                &args[..],
                &["--policy", "eevdf", "--policy", "cfs", "--runs", "2"],
            ]
            .concat(),
        )
    };
    let cut = said("kbuild");
    let words = "kbuild/time: missing in 4 of 4 runs, which the duration of 1.000 s cut short";
    has!(cut, words);
    has!(cut, "duration=, or this one less work");
    assert!(!cut.contains("call/time: missing"), "{cut}");
    let done = said("kbuild:objects=2,serial=1ms");
    assert!(!done.contains("missing in"), "{done}");
}

/// 3 ms of work in 16 ms are less than a fifth of a CPU, so that schedutil asks for a low frequency
/// unless the task's clamps forbid it. The page says what they do.
#[test]
fn clamps_of_utilization_decide_the_frequency() {
    let response = |clamp: &str, policy: &str| {
        let timer = r#""timer": { "ref": "t", "period": 16000 }"#;
        let task = format!(r#""ui": {{ {clamp} "loop": -1, "run": 3000, {timer} }}"#);
        mean(&run("hikey-6220", 3, &task, policy, "1"), "ui/response")
    };
    for policy in ["eevdf", "equipoise"] {
        let plain = response("", policy);
        let boosted = response(r#""util_min": 1024,"#, policy);
        let capped = response(r#""util_max": 200,"#, policy);
        let said = format!("{policy}: {plain} us, boosted {boosted}, capped {capped}");
        // At the highest frequency the work takes 3 ms, at 200 of 1024 more than two times as long.
        assert!((3000.0..3300.0).contains(&boosted), "{said}");
        assert!(plain > 2.0 * boosted && capped > 2.0 * boosted, "{said}");
        assert!(capped >= plain, "{said}");
    }

    let load = r#"{ "global": { "duration": 1 }, "tasks": {
        "ui": { "util_min": 512, "loop": -1, "run": 3000, "sleep": 13000 } } }"#;
    let (_folder, file) = crate::common::file("load.json", load);
    let said = stdout(&["workload", "show", &file]);
    has!(said, "util_min and util_max (uclamp) of ui");
}

/// A task with a shorter slice than others (`sched_attr::sched_runtime`, rt-app's `dl-runtime`) gets the CPU sooner than
/// without one, beside this number of `loops`, and loops with a longer one switch less often. Their shares stay the same.
pub fn slices_are_those_asked_for(policy: &str, loops: u32) {
    let response = |slice: &str| {
        let tasks = format!(
            r#""loop": {{ "instance": {loops}, "cpus": [0], "loop": -1, "run": 1000 }},
               "wakes": {{ "cpus": [0], "loop": -1, "run": 3000{slice}, "timer": {{ "ref": "unique", "period": 40000 }} }}"#
        );
        mean(&self::run("smp-2", 5, &tasks, policy, "1"), "wakes/wu_lat")
    };
    let (usual, short) = (response(""), response(r#", "dl-runtime": 200"#));
    assert!(short < 0.2 * usual, "{policy}: {short} us of {usual}");

    let switches = |slice: &str| {
        let tasks =
            format!(r#""loop": {{ "instance": 2, "cpus": [0], "loop": -1, "run": 1000{slice} }}"#);
        let result = self::run("smp-2", 5, &tasks, policy, "1");
        let done = ["loop-0/run", "loop-1/run"].map(|metric| mean(&result, metric));
        assert!((done[0] / done[1] - 1.0).abs() < 0.02, "{done:?}");
        result["counters"][0]["context_switches"].as_f64().unwrap()
    };
    let (usual, long) = (switches(""), switches(r#", "dl-runtime": 40000"#));
    assert!(usual > 5.0 * long, "{policy}: {long} of {usual}");
}
