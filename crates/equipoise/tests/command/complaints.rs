//! The experiments with published complaints, through the command: what each of them must show.

use crate::common::json;
use serde_json::Value;

/// The cells of these rows of an experiment, from one run.
fn reproduce(experiment: &str, rows: &str) -> Vec<Value> {
    let args = ["--rows", rows, "--runs", "1", "--format", "json"];
    let result = json(&[&["reproduce", experiment][..], &args].concat());
    result["experiments"][0]["cells"]
        .as_array()
        .unwrap()
        .clone()
}

/// The simulated value of a row under each column.
fn simulated(cells: &[Value], row: &str, stat: &str) -> Vec<f64> {
    let of_row = cells
        .iter()
        .filter(|cell| cell["row"] == row && cell["stat"] == stat);
    of_row
        .map(|cell| cell["simulated"].as_f64().unwrap())
        .collect()
}

/// A cold core takes up to three times as long for the first piece of work; `equipoise` is no slower.
#[test]
fn a_wakee_s_first_work_is_slow_on_a_cold_core() {
    let cells = reproduce("warm-cores", "a piece of work");
    let longest = simulated(&cells, "a piece of work", "max");
    let shortest = simulated(&cells, "a piece of work", "min");
    assert!((10_000.0..13_000.0).contains(&longest[0]), "{longest:?}");
    assert!(shortest.iter().all(|&us| us < 4_100.0), "{shortest:?}");
    assert!(longest[2] <= longest[0] * 1.01, "{longest:?}");
}

/// Threads that poll at a barrier are in each other's way if there are twice as many as CPUs, and those
/// that sleep are not.
#[test]
fn twice_as_many_threads_as_cpus_must_not_poll() {
    let rows = "8 threads, poll*";
    let cells = reproduce("small", rows);
    let sleeps = simulated(&cells, "8 threads, poll then sleep", "avg");
    let polls = simulated(&cells, "8 threads, poll", "avg");
    for (sleeps, polls) in sleeps.iter().zip(&polls) {
        assert!(*sleeps > 20.0 * polls, "{sleeps} {polls}");
    }
}

/// A thread that is bound to a busy CPU does not wait for a slice of 20 ms.
#[test]
fn a_bound_thread_waits_less_than_a_slice() {
    let cells = reproduce("small", "wakeup latency");
    let longest = simulated(&cells, "wakeup latency", "max");
    assert!(longest[3] < 5_000.0, "{longest:?}");
}

/// No CPU idles for 100 ms beside a waiting task under `equipoise`.
#[test]
fn equipoise_wastes_no_cpu_in_small_sequences() {
    let cells = reproduce("small", "longest waste");
    let waste = simulated(&cells, "longest waste", "avg");
    assert_eq!(waste.len(), 2 * 4);
    assert!(waste[3] < 100.0 && waste[7] < 100.0, "{waste:?}");
}

/// A pair that passes a word back and forth.
#[test]
fn a_pair_on_pipes_is_faster_on_one_cpu() {
    let cells = reproduce("many-caches", "loops, one pair");
    let loops = simulated(&cells, "loops, one pair", "avg");
    assert!(loops.iter().all(|&loops| loops > 50_000.0), "{loops:?}");
}

/// Packing periodic threads keeps their latency.
#[test]
fn packing_keeps_latency_at_partial_load() {
    let cells = reproduce("quiet", "wakeup latency at 30 %");
    let change = simulated(&cells, "wakeup latency at 30 %", "avg");
    assert!((change[1] / change[0] - 1.0).abs() < 0.1, "{change:?}");
}
