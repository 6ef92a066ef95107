//! Results fit the terminal.

use crate::common::{command, files, root, text};
use crate::rt_app;

/// Runs the command in a terminal of `columns` and returns its standard output, in which no line
/// may be longer.
fn fits(columns: usize, args: &[&str]) -> String {
    let output = command(args)
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for line in shown.lines() {
        let length = line.chars().count();
        assert!(length <= columns, "{args:?}: {length} columns: {line}");
    }
    shown
}

/// One row of each experiment is enough: its columns and remarks are those of all rows.
#[test]
fn every_experiment_fits_the_terminal() {
    let rows = [
        ("aim7-rates", "disk on XFS*"),
        ("groups", "a loop of nice 19"),
        ("hperf-hmp", "blackscholes_8t"),
        ("hybrid", "a frame"),
        ("i-mmap-rwsem", "short"),
        ("idle-balance-limit", "short"),
        ("many-caches", "loops, one pair"),
        ("mixed-capacity", "sysbench_1*"),
        ("newidle-history", "fserver: attempts"),
        ("power-aware", "x = 1"),
        ("quiet", "power at 5 %"),
        ("small", "longest waste"),
        ("utilization-tracking", "Tx"),
        ("warm-cores", "a piece of work"),
        ("wasted-cores", "a step of the database"),
    ];
    let named = rows.map(|(name, _)| format!("{name}.toml"));
    assert_eq!(files(&root().join("experiments")), named);
    for (name, rows) in rows {
        let shown = fits(80, &["reproduce", name, "--rows", rows, "--runs", "1"]);
        has!(shown, "simulated");
    }
}

const LOAD: [&str; 4] = ["--machine", "tc2", "--workload", "mixed:duration=100ms"];

#[test]
fn a_comparison_fits_the_terminal() {
    for more in [&["--runs", "2"][..], &["--runs", "2", "--all"]] {
        for columns in [80, 100] {
            let args = [&["compare"], &LOAD[..], more].concat();
            let shown = fits(columns, &args);
            has!(shown, "equipoise-performance");
        }
    }
}

#[test]
fn a_table_of_many_threads_has_those_that_differ() {
    let threads: Vec<String> = (0..40)
        .map(|index| {
            let cpus = match index {
                17 => "0",
                _ => "1, 2, 3, 4, 5, 6, 7",
            };
            let period = 10_000 + 100 * index;
            format!(
                r#""thread{index}": {{"loop": -1, "cpus": [{cpus}], "run": 300,
                    "timer": {{"ref": "unique", "period": {period}}}}}"#
            )
        })
        .collect();
    let tasks = format!(
        r#"{}, "loops": {{"instance": 3, "loop": -1, "cpus": [0], "run": 1000}}"#,
        threads.join(", ")
    );
    let file = rt_app::file(1, &tasks);
    let load = file.path().to_str().unwrap();
    let args = ["--machine", "smp-8", "--workload", load, "--runs", "3"];
    let policies = ["--policy", "cfs", "--policy", "equipoise"];
    let shown = fits(100, &[&["compare"], &args[..], &policies].concat());
    has!(shown, "Latency: the 12 of 80 measures that differ most");
    has!(shown, "thread17");
}

#[test]
fn an_explanation_fits_the_terminal() {
    for columns in [80, 100] {
        let args = [&["explain"], &LOAD[..], &["--policy", "eevdf"]].concat();
        let shown = fits(columns, &args);
        has!(shown, "waited");
        let shown = fits(columns, &[&args[..], &["--diff", "equipoise"]].concat());
        has!(shown, "Under equipoise: ");
    }
}

#[test]
fn catalogues_fit_the_terminal() {
    for what in ["machine", "workload", "policy"] {
        fits(80, &[what, "list"]);
    }
    fits(80, &["machine", "show", "tc2"]);
    fits(80, &["workload", "show", "kbuild"]);
    fits(80, &["policy", "show", "eevdf"]);
}
