//! Ctrl-C: the command shows complete results and leaves no half-written file.

use crate::common::{command, files, text};
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn stopped(args: &[&str], wait: Duration) -> Output {
    let mut command = command(args);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sleep(wait);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(60), "it did not stop");
    output
}

const LONG: [&str; 11] = [
    "compare",
    "--machine",
    "tc2",
    "--workload",
    "busy:duration=200ms",
    "--policy",
    "cfs",
    "--policy",
    "hperf",
    "--runs",
    "100000",
];

#[test]
fn complete_runs_are_shown() {
    let output = stopped(
        &[&LONG[..], &["--format", "json"]].concat(),
        Duration::from_secs(3),
    );
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    has!(stderr, "stopping; the complete results follow");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = result["runs"].as_u64().unwrap();
    assert!((1..100_000).contains(&runs), "{runs}");
    assert_eq!(result["asked_runs"], 100_000);
    for entry in result["results"].as_array().unwrap() {
        assert_eq!(entry["runs"].as_array().unwrap().len() as u64, runs);
    }
}

#[test]
fn no_file_is_left_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, out) = (place("trace.txt"), place("out"));
    // The runs are long, so the command is stopped in the first one or in its trace.
    let args = [
        "compare",
        "--machine",
        "tc2",
        "--workload",
        "busy:duration=3600",
        "--policy",
        "cfs",
        "--runs",
        "1",
        "--trace",
        &trace,
        "--out",
        &out,
    ];
    let output = stopped(&args, Duration::from_secs(1));
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let left: Vec<String> = files(folder.path())
        .into_iter()
        .filter(|name| name != "out")
        .collect();
    assert!(left.is_empty() || left == ["trace.txt"], "{left:?}");
    assert!(
        !Path::new(&out).exists()
            || files(Path::new(&out))
                .iter()
                .all(|name| !name.starts_with('.'))
    );
}

#[test]
fn a_hunt_writes_the_worst_load_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("worst.json");
    let hunt = [
        "hunt",
        "--machine",
        "tc2",
        "--policy",
        "cfs",
        "--against",
        "capacity",
        "--file",
        file.to_str().unwrap(),
    ];
    let output = stopped(&hunt, Duration::from_secs(6));
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(files(folder.path()), ["worst.json"]);
    let load = std::fs::read_to_string(file).unwrap();
    has!(load, "under cfs");
}
