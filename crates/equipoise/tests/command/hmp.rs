//! Promises of the policies for fast and slow CPUs, tested on an ODROID-XU3.

use crate::common::{file, json};
use serde_json::Value;

fn means(result: &Value, metric: &str) -> Vec<f64> {
    let results = result["results"].as_array().unwrap();
    let wanted = results.iter().filter(|entry| entry["metric"] == metric);
    wanted
        .map(|entry| entry["mean"].as_f64().unwrap())
        .collect()
}

fn compare(workload: &'static str, policies: &[&'static str]) -> Value {
    let mut args = vec!["compare", "--machine", "odroid-xu3", "--workload", workload];
    args.extend(policies.iter().flat_map(|policy| ["--policy", policy]));
    args.extend(["--runs", "2", "--format", "json"]);
    json(&args)
}

#[test]
fn equal_tasks_make_equal_progress_under_hperf() {
    for workload in [
        "busy:threads=5,duration=10s",
        "busy:threads=6,duration=10s",
        "busy:threads=7,duration=10s",
        "busy:threads=8,duration=10s",
    ] {
        let spread = means(&compare(workload, &["linaro-mp", "hperf"]), "spread");
        assert!(
            spread[1] <= 5.0 && spread[0] > 50.0,
            "{workload}: {spread:?}"
        );
    }
}

/// Some tasks have a CPU to themselves and others share one; tasks that had to share catch up
/// (`scheduler/linux/cfs/designs/hperf/clock.bpf.h`).
#[test]
fn more_equal_tasks_than_cpus_make_equal_progress_too() {
    for workload in [
        "busy:threads=9,duration=10s",
        "busy:threads=11,duration=10s",
        "busy:threads=13,duration=10s",
        "busy:threads=20,duration=10s",
        "busy:threads=24,duration=10s",
    ] {
        let spread = means(&compare(workload, &["hperf"]), "spread");
        assert!(spread[0] <= 5.0, "{workload}: {spread:?}");
    }
}

#[test]
fn a_lone_task_runs_on_a_fast_cpu() {
    for policy in ["linaro-mp", "hperf"] {
        let work = means(&compare("busy:threads=1,duration=10s", &[policy]), "work");
        assert!(work[0] > 9.9, "{policy}: {work:?}");
    }
}

#[test]
fn hperf_uses_all_cpus() {
    // 4 fast CPUs, and 4 slow ones with 0.368 of their speed.
    let work = means(&compare("busy:threads=8,duration=10s", &["hperf"]), "work");
    assert!((work[0] / 54.7 - 1.0).abs() < 0.02, "{work:?}");
}

#[test]
fn a_pinned_task_leaves_fast_cpus_alone() {
    let tasks = r#"{ "global": { "duration": 2 }, "tasks": { "pinned": { "cpus": [0], "loop": -1, "run": 1000 } } }"#;
    let (_folder, file) = file("pinned.json", tasks);
    let mut args = vec!["compare", "--machine", "odroid-xu3", "--policy", "hperf"];
    args.extend(["--runs", "1", "--format", "json", "--workload", &file]);
    let looked = &json(&args)["counters"][0]["balancing"]["newidle_calls"];
    assert!(looked.as_f64().unwrap() < 20.0, "{looked}");
}

#[test]
fn waiting_for_a_straggler_is_what_hperf_saves() {
    let time = |threads| {
        let workload = match threads {
            4 => "streamcluster:threads=4,scale=10",
            _ => "streamcluster:threads=6,scale=10",
        };
        means(&compare(workload, &["linaro-mp", "hperf"]), "time")
    };
    let equal = time(4);
    assert!((equal[0] / equal[1] - 1.0).abs() < 0.05, "{equal:?}");
    let better = time(6);
    assert!(better[1] / better[0] < 0.65, "{better:?}");
}

#[test]
fn the_published_table_can_be_run_in_part() {
    let result =
        json("reproduce hperf-hmp --rows blackscholes_[189]t --scale 4 --runs 1 --format json");
    let cells = result["experiments"][0]["cells"].as_array().unwrap();
    let of_the_table =
        |cell: &&Value| ["linaro-mp", "hperf"].contains(&cell["policy"].as_str().unwrap());
    let averages: Vec<&Value> = cells
        .iter()
        .filter(of_the_table)
        .filter(|cell| cell["stat"] == "avg")
        .collect();
    assert_eq!(averages.len(), 3 * 2);
    // The work is scaled down, and reported as the whole.
    for cell in &averages {
        let published = cell["published"].as_f64().unwrap_or(2.2);
        let simulated = cell["simulated"].as_f64().unwrap();
        assert!((simulated / published - 1.0).abs() < 0.15, "{cell}");
        assert!(cell["limit"].as_f64().unwrap() <= simulated);
    }
    // The published numbers of nine threads are withheld, but these threads are simulated as well.
    assert!(averages[4]["published"].is_null() && averages[5]["published"].is_null());
}
