//! Periods of recorded loads: the periods found in the wakeups of loads whose periods are known,
//! and the misses of a replay alongside those of the load itself.

use crate::common::{command, json, stdout, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Threads with periods of 60 Hz, 90 Hz and 10 ms (audio), and a chain of two stages; and threads
/// without a deadline, some of which pause after work that other threads delay, and one of which
/// answers another.
const FRAMES: &str = r#"{
    "tasks": {
        "game": {
            "loop": -1, "run": 5000, "resume": "draw",
            "timer": { "ref": "vsync", "period": 16667, "mode": "absolute" }
        },
        "draw": { "loop": -1, "suspend": "draw", "run": 4000, "resume": "show" },
        "show": { "loop": -1, "suspend": "show", "run": 1500 },
        "headset": {
            "loop": -1, "run": 3000, "timer": { "ref": "unique", "period": 11111, "mode": "absolute" }
        },
        "audio": { "priority": -10, "loop": -1, "run": 700, "timer": { "ref": "unique", "period": 10000 } },
        "pause": { "instance": 2, "loop": -1, "run": 7300, "sleep": 4100 },
        "ask": { "loop": -1, "run": 1900, "resume": "answer", "suspend": "ask" },
        "answer": { "loop": -1, "suspend": "answer", "run": 700, "resume": "ask" }
    },
    "global": { "duration": 4 }
}"#;

struct Load<'a> {
    folder: &'a Path,
    machine: &'a str,
    workload: &'a str,
    policy: &'a str,
}

impl Load<'_> {
    fn run(&self) -> (Value, PathBuf) {
        let trace = self.folder.join("t.dat");
        let results = self.compared(self.workload, &["--trace", trace.to_str().unwrap()]);
        (results, trace)
    }

    fn compared(&self, workload: &str, more: &[&str]) -> Value {
        let args = [
            "compare",
            "--machine",
            self.machine,
            "--workload",
            workload,
            "--policy",
            self.policy,
            "--runs",
            "1",
            "--format",
            "json",
        ];
        json(&[&args[..], more].concat())
    }

    fn imported(&self, trace: &Path, more: &[&str]) -> String {
        let output = command(&["workload", "import", "--machine", self.machine, "--out"])
            .args([self.folder, trace])
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        self.folder.join("t.json").to_str().unwrap().to_owned()
    }
}

/// The periods of a recording by `workload show`: names and ms.
fn periods(recording: &str) -> Vec<(String, f64)> {
    let shown = json(&["workload", "show", recording, "--format", "json"]);
    let tables = shown["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["title"] == "Periods");
    let rows = table.map_or(&[][..], |table| table["rows"].as_array().unwrap());
    let row = |row: &Value| {
        let text = |column: usize| row[column].as_str().unwrap();
        if text(4) != "set" {
            let confidence: f64 = text(4).trim_end_matches(" %").parse().unwrap();
            assert!((70.0..=100.0).contains(&confidence), "{row}");
        }
        (text(0).to_owned(), text(1).parse().unwrap())
    };
    rows.iter().map(row).collect()
}

fn mean(results: &Value, metric: &str) -> f64 {
    let results = results["results"].as_array().unwrap();
    let found = results.iter().find(|it| it["metric"] == metric);
    let found = found.unwrap_or_else(|| panic!("no {metric}"));
    found["mean"].as_f64().unwrap()
}

#[test]
fn known_periods_are_found_and_missed_alike() {
    let folder = tempfile::tempdir().unwrap();
    let frames = folder.path().join("frames.json");
    std::fs::write(&frames, FRAMES).unwrap();
    let frames = frames.to_str().unwrap();
    let of_frames = [
        ("audio", 10.0),
        ("draw", 16.667),
        ("game", 16.667),
        ("headset", 11.111),
        ("show", 16.667),
    ];
    let of_mixed = [("decoder", 33.333), ("render", 16.667), ("ui", 16.667)];
    let of_audio = [("mixer", 20.0), ("player", 20.0)];
    let of_pipeline = [("filter", 10.0), ("sink", 10.0), ("source", 10.0)];
    // On heterogeneous CPUs the misses depend on where a thread runs. The replay lacks some
    // wakeups of the contended mutex that rt-app's threads share, so its placements differ: render of
    // mixed misses 6.6 % on tc2 under eevdf, and 3.1 % in the load itself (means of five seeds).
    for (alike, machine, workload, policy, known) in [
        (true, "smp-8", frames, "eevdf", &of_frames[..]),
        (true, "smp-2", frames, "eevdf", &of_frames),
        (true, "smp-2", frames, "equipoise", &of_frames),
        (false, "tc2", "mixed:duration=4", "eevdf", &of_mixed),
        (false, "tc2", "mixed:duration=4", "hperf", &of_mixed),
        (true, "smp-2", "mixed:duration=4", "equipoise", &of_mixed),
        (true, "smp-2", "mixed:duration=4", "eevdf", &of_mixed),
        (true, "snb-laptop", "audio:duration=4", "eevdf", &of_audio),
        (true, "smp-8", "pipeline:duration=2", "eevdf", &of_pipeline),
        (true, "smp-8", "spinners:duration=2", "eevdf", &[]),
        (true, "smp-2", "hackbench", "eevdf", &[]),
    ] {
        let what = format!("{workload} on {machine} under {policy}");
        let load = Load {
            folder: folder.path(),
            machine,
            workload,
            policy,
        };
        let (own, trace) = load.run();
        let recording = load.imported(&trace, &[]);
        let found = periods(&recording);
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        let wanted: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, wanted, "{what}: {found:?}");
        let replayed = load.compared(&recording, &[]);
        for ((name, ms), (_, known)) in found.iter().zip(known) {
            assert!((ms / known - 1.0).abs() <= 0.02, "{what}: {name} {ms} ms");
            let metric = format!("{name}/missed");
            let (own, replayed) = (mean(&own, &metric), mean(&replayed, &metric));
            println!("{what}: {name} {ms} ms, missed {own:.2} %, replayed {replayed:.2} %");
            assert!(
                !alike || (own - replayed).abs() <= 3.0,
                "{what}: {metric} {replayed} %, not {own} %"
            );
        }
    }
}

#[test]
fn a_period_can_be_set_or_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let load = Load {
        folder: folder.path(),
        machine: "smp-2",
        workload: "mixed:duration=2",
        policy: "eevdf",
    };
    let (_, trace) = load.run();
    let recording = load.imported(&trace, &["--period", "ui=none", "--period", "decoder=50ms"]);
    let found = periods(&recording);
    assert!(found.contains(&("decoder".to_owned(), 50.0)), "{found:?}");
    assert!(found.iter().all(|(name, _)| name != "ui"), "{found:?}");
    let output = command(&["workload", "import", "--period", "gui=16ms"])
        .arg(&trace)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--period gui: no such thread"));
    let output = command(&["workload", "import", "--period", "ui=soon"])
        .arg(&trace)
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("expected THREAD=TIME or THREAD=none"));
    for placed in [recording.clone(), format!("{recording}:nice=5")] {
        let shown = stdout(&["workload", "show", &placed]);
        assert!(shown.contains("Periods"));
        // A recording refuses `duration`, a parameter of rt-app files.
        assert!(!shown.contains("Parameters"), "{shown}");
    }
}
