//! Balancing uses the capacity that real-time tasks leave.

use crate::common::{file, json};

#[test]
fn a_cpu_that_is_half_used_gets_half_the_tasks() {
    let tasks = r#"{
        "global": { "duration": 10 },
        "tasks": {
            "half": {
                "cpus": [0], "policy": "SCHED_FIFO", "loop": -1,
                "run": 5000, "timer": { "ref": "half", "period": 10000 }
            },
            "fair": { "instance": 3, "loop": -1, "run": 1000000 }
        }
    }"#;
    let (_folder, file) = file("half.json", tasks);
    let result = json(&format!(
        "compare --machine smp-2 --workload {file} --policy cfs --policy schedutil --runs 3 --format json"
    ));
    let results = result["results"].as_array().unwrap();
    let runs = results.iter().filter(|entry| {
        let metric = entry["metric"].as_str().unwrap();
        metric.starts_with("fair-") && metric.ends_with("/run")
    });
    // Three tasks that compute for a second each share one and a half CPUs.
    let means: Vec<f64> = runs.map(|entry| entry["mean"].as_f64().unwrap()).collect();
    assert_eq!(means.len(), 2 * 3);
    assert!(
        means.iter().all(|mean| (mean / 2e6 - 1.0).abs() < 0.1),
        "{means:?}"
    );
    for counters in result["counters"].as_array().unwrap() {
        assert!(
            counters["migrations"].as_f64().unwrap() < 20.0,
            "{counters}"
        );
    }
}

/// A hardware thread has little more than half of a CPU's cpu_power, and so has every other one, so a
/// busy task is no reason to kick idle CPUs at each tick.
#[test]
fn a_busy_thread_among_equals_kicks_nobody() {
    let result = json(
        "compare --machine smt-4 --workload busy:threads=1,duration=2s --policy capacity --runs 1 --format json",
    );
    let kicks = &result["counters"][0]["balancing"]["nohz_kicks"];
    assert!(kicks.as_f64().unwrap() < 10.0, "{kicks}");
}
