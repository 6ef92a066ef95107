//! The experiments with published complaints, through the command: what each of them must show.

use crate::common::{command, json, text};
use serde_json::Value;

fn reproduce(experiment: &str, rows: &str) -> Vec<Value> {
    reproduce_runs(experiment, rows, "1")
}

fn reproduce_runs(experiment: &str, rows: &str, runs: &str) -> Vec<Value> {
    let args = ["--rows", rows, "--runs", runs, "--format", "json"];
    let result = json(&[&["reproduce", experiment][..], &args].concat());
    result["experiments"][0]["cells"]
        .as_array()
        .unwrap()
        .clone()
}

/// The simulated value of a row under a column; `None` if the column is left out.
fn under(cells: &[Value], row: &str, column: &str, stat: &str) -> Option<f64> {
    let is_it =
        |cell: &&Value| cell["row"] == row && cell["column"] == column && cell["stat"] == stat;
    let cell = cells.iter().find(is_it)?;
    Some(cell["simulated"].as_f64().unwrap())
}

fn simulated(cells: &[Value], row: &str, stat: &str) -> Vec<f64> {
    let of_row = cells
        .iter()
        .filter(|cell| cell["row"] == row && cell["stat"] == stat);
    of_row
        .map(|cell| cell["simulated"].as_f64().unwrap())
        .collect()
}

/// Between sessions nice levels mean nothing with autogroup, which sched_ext does not see.
#[test]
fn a_nice_level_counts_within_its_session() {
    let rows = ["a loop of nice 0", "a loop of nice 19"];
    let cells = reproduce("groups", "a loop*");
    let works = |column: &str| rows.map(|row| under(&cells, row, column, "avg").unwrap());
    for linux in ["Linux", "Linux 7.3"] {
        let [high, low] = works(linux);
        assert!((high / low - 1.0).abs() < 0.05, "{linux}: {high} and {low}");
    }
    let [high, low] = works("equipoise");
    assert!(high > 20.0 * low, "{high} and {low}");
}

/// The more threads use up a quota of two CPUs, the longer all of them stall: until the period ends. A group that uses
/// less than its quota does not.
#[test]
fn threads_under_a_quota_stall_for_the_rest_of_its_period() {
    let cells = reproduce("groups", "*thr*");
    for column in ["Linux", "Linux 7.3", "equipoise"] {
        for threads in [3.0, 4.0, 8.0, 24.0] {
            let row = format!("{threads} threads");
            let stall = under(&cells, &row, column, "p99.9").unwrap() / 1000.0;
            let rest = 100.0 - 200.0 / threads;
            assert!(
                (rest - 5.0..rest + 10.0).contains(&stall),
                "{column}, {row}: {stall} ms"
            );
        }
        let throttled = under(&cells, "throttled periods", column, "avg").unwrap();
        assert_eq!(throttled, 0.0, "{column}");
    }
    // Before Linux 5.4 unused slices of the quota expired.
    let cells = reproduce("groups", "longest wait");
    let wait = |column: &str| under(&cells, "longest wait", column, "max").unwrap();
    let since = ["Linux", "Linux 7.3", "equipoise"].map(wait);
    assert!(since.iter().all(|&us| us < 1000.0), "{since:?}");
    assert!(wait("Linux 3.9") > 10_000.0, "{}", wait("Linux 3.9"));
}

/// Work of low priority on all CPUs delays a service: that of nice 19 more than that of SCHED_IDLE. `equipoise` lets
/// neither delay it.
#[test]
fn work_of_low_priority_delays_a_service() {
    let rows =
        ["alone", "beside SCHED_IDLE", "beside nice 19"].map(|row| format!("a service {row}"));
    let cells = reproduce_runs("groups", "a service *", "4");
    let times = |column: &str| {
        rows.each_ref()
            .map(|row| under(&cells, row, column, "p99").unwrap())
    };
    let [alone, idle, nice] = times("Linux");
    assert!(1.25 * alone < idle && idle < nice, "{:?}", times("Linux"));
    let [alone, idle, nice] = times("equipoise");
    assert!(idle.max(nice) < 1.05 * alone, "{:?}", times("equipoise"));
}

#[test]
fn the_scheduler_complained_about_is_a_column() {
    let row = "loops, 128 pairs";
    let cells = reproduce("many-caches", row);
    let Some(simple) = under(&cells, row, "scx_simple", "avg") else {
        eprintln!("skipped: no sources of scx_simple; run `equipoise scheduler fetch`");
        return;
    };
    let eevdf = under(&cells, row, "EEVDF", "avg").unwrap();
    assert!(10.0 * simple < eevdf, "{simple} {eevdf}");
}

#[test]
fn a_column_without_sources_is_left_out_and_the_reason_is_said() {
    let run = |format: &str| {
        let rows = ["--rows", "wakeup latency", "--runs", "1"];
        let args = [&["reproduce", "small", "--format", format][..], &rows].concat();
        let mut command = command(&args);
        command.env("EQUIPOISE_SCHEDULERS", "/no/such/folder");
        let output = command.output().unwrap();
        assert!(output.status.success());
        (text(&output.stdout), text(&output.stderr))
    };
    let says = "Column `scx_p2dq` is left out: no sources in /no/such/folder";
    let (table, _) = run("table");
    assert!(table.contains(says));
    assert!(!table.contains("scx_pandemonium"));
    assert!(run("csv").1.contains(says));
    let (json, _) = run("json");
    let json: Value = serde_json::from_str(&json).unwrap();
    let experiment = &json["experiments"][0];
    let sentences = experiment["left_out"].as_array().unwrap();
    let mut sentences = sentences.iter().map(|sentence| sentence.as_str().unwrap());
    assert!(
        sentences.any(
            |one| one.starts_with(says) && one.contains("`equipoise scheduler fetch scx_p2dq`")
        )
    );
    let mut cells = experiment["cells"].as_array().unwrap().iter();
    assert!(!cells.any(|cell| cell["column"] == "scx_p2dq"));
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

/// If there are twice as many threads as CPUs, threads that poll at a barrier are in each other's way,
/// and threads that sleep at it are not.
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

#[test]
fn a_bound_thread_waits_less_than_a_slice() {
    let cells = reproduce("small", "wakeup latency");
    let longest = under(&cells, "wakeup latency", "equipoise", "max").unwrap();
    assert!(longest < 5_000.0, "{longest}");
}

/// No CPU idles for 100 ms beside a waiting task under `equipoise`.
#[test]
fn equipoise_wastes_no_cpu_in_small_sequences() {
    let cells = reproduce("small", "longest waste");
    let of_ours = cells
        .iter()
        .filter(|cell| cell["column"] == "equipoise" && cell["stat"] == "max");
    let waste: Vec<f64> = of_ours
        .map(|cell| cell["simulated"].as_f64().unwrap())
        .collect();
    assert_eq!(waste.len(), 2);
    assert!(waste.iter().all(|&ms| ms < 100.0), "{waste:?}");
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
    let of = |column: &str| under(&cells, "wakeup latency at 30 %", column, "avg").unwrap();
    let (spread, packed) = (of("spread"), of("packed"));
    assert!((packed / spread - 1.0).abs() < 0.1, "{spread} {packed}");
}
