//! Traces read by other projects' readers. A missing reader is skipped, with a message
//! (tests/readers/install).

use crate::common::{root, run, stdout, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A trace of a run in `folder`, of the kind that its file name selects.
fn trace(folder: &Path, machine: &str, workload: &str, policy: &str, name: &str) -> PathBuf {
    let path = folder.join(name);
    let mut args = vec!["compare", "--machine", machine, "--workload", workload];
    args.extend(["--policy", policy, "--runs", "1"]);
    args.extend(["--trace", path.to_str().unwrap()]);
    stdout(&args);
    path
}

fn python(module: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let ours = Path::new(&home).join(".cache/equipoise/readers/bin/python");
    let has = |python: &PathBuf| {
        let mut command = Command::new(python);
        let command = command.args(["-c", &format!("import {module}")]);
        command.output().is_ok_and(|output| output.status.success())
    };
    let found = [ours, PathBuf::from("python3")].into_iter().find(has);
    if found.is_none() {
        eprintln!("skipped: no Python with {module}; tests/readers/install has one");
    }
    found
}

fn read(python: &Path, script: &str, args: &[&str]) -> Value {
    let mut command = Command::new(python);
    command.arg(root().join("tests/readers").join(script));
    // LISA looks for trace-cmd, and needs a home folder of its own.
    command.args(args).env("LISA_HOME", std::env::temp_dir());
    let output = command.output().unwrap();
    let complaint = text(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Time, CPU, task, event and fields of a line.
type Line = (String, String, String, String, String);

/// A line of ftrace's, or of `trace-cmd report`'s.
fn parsed(line: &str) -> Option<Line> {
    let (task, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (head, rest) = rest.split_once(": ")?;
    let (event, fields) = rest.split_once(':')?;
    let time = head.split_whitespace().last()?;
    let words = [time, cpu, task, event, fields].map(|word| word.trim().to_owned());
    Some(words.into())
}

#[test]
fn trace_cmd_reads_what_the_text_says() {
    if Command::new("trace-cmd").arg("--version").output().is_err() {
        eprintln!("skipped: no trace-cmd");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The trace has power, idle states, frequencies and every class; traces of other tests have a
    // scheduler's prints.
    let every_class = root().join("crates/lab/tests/decisions/every-class.json");
    for (machine, workload) in [
        ("snb-laptop", "mixed"),
        ("odroid-xu3", every_class.to_str().unwrap()),
        ("tc2", "mixed"),
    ] {
        let lines = |text: &str| -> Vec<Line> {
            let events = text.lines().filter(|line| !line.starts_with('#'));
            let mut lines: Vec<Line> = events.filter_map(parsed).collect();
            // trace-cmd sorts events of the same time by CPU.
            lines.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
            lines
        };
        let ours = trace(folder.path(), machine, workload, "equipoise", "t.txt");
        let dat = trace(folder.path(), machine, workload, "equipoise", "t.dat");
        let mut report = Command::new("trace-cmd");
        let report = report.args(["report", "-t", "-N", "-i", dat.to_str().unwrap()]);
        let output = report.output().unwrap();
        assert!(output.status.success());
        assert_eq!(text(&output.stderr), "");
        let (ours, theirs) = (
            std::fs::read_to_string(ours).unwrap(),
            text(&output.stdout)
                .replace("print:", "tracing_mark_write:")
                .replace(" 0x0: C|", " C|"),
        );
        let (ours, theirs) = (lines(&ours), lines(&theirs));
        assert!(ours.len() > 1000, "{machine}");
        assert_eq!(ours.len(), theirs.len(), "{machine}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{machine}");
        }
    }
}

#[test]
fn perfetto_s_classes_read_all_of_it() {
    let Some(python) = python("perfetto") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [proto, plain, json] = ["t.perfetto-trace", "t.txt", "t.json"]
        .map(|name| trace(folder.path(), "snb-laptop", "mixed", "schedutil", name));
    let found = read(&python, "perfetto_reads.py", &[proto.to_str().unwrap()]);
    assert_eq!(found["unknown"], 0);
    // The text has the same number of events of each kind.
    let plain = std::fs::read_to_string(plain).unwrap();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for (.., kind, _) in plain.lines().filter_map(parsed) {
        *kinds.entry(kind).or_default() += 1;
    }
    for kind in [
        "sched_switch",
        "sched_wakeup",
        "sched_wakeup_new",
        "sched_migrate_task",
        "sched_process_fork",
        "task_rename",
        "cpu_idle",
        "cpu_frequency",
    ] {
        assert_eq!(found["events"][kind], kinds[kind], "{kind}");
    }
    let switch = &found["switches"][1000];
    let ns = switch[0].as_u64().unwrap();
    let time = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let next = format!("next_comm={}", switch[3].as_str().unwrap());
    let line = plain
        .lines()
        .find(|line| line.contains(&time) && line.contains(&next));
    assert!(line.is_some(), "{switch}");
    for track in [
        "CPU 0 utilization",
        "ui 1001 utilization",
        "cpu-0 power",
        "package-0 power",
    ] {
        assert!(found["counters"][track].as_u64() > Some(10), "{track}");
    }
    assert!(found["instants"]["Decisions on CPU 0"].as_u64() > Some(10));
    let whys = found["whys"].as_u64().unwrap();
    assert!(whys > 100);
    let mut args = vec!["compare", "--machine", "snb-laptop", "--workload", "mixed"];
    args.extend(["--policy", "schedutil", "--runs", "1", "--format", "json"]);
    let result: Value = serde_json::from_str(&stdout(&args)).unwrap();
    let joules = result["counters"][0]["energy_j"].as_f64().unwrap();
    let traced = found["last"]["Energy"].as_f64().unwrap() / 1e3;
    assert!((traced / joules - 1.0).abs() < 0.001, "{traced} {joules}");
    let chrome: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let decisions = chrome.as_array().unwrap().iter();
    let decisions = decisions.filter(|event| event["cat"] == "decision");
    let said = |event: &&Value| !event["args"]["why"].as_str().unwrap().is_empty();
    assert_eq!(decisions.filter(said).count() as u64, whys);
    let counters = chrome.as_array().unwrap().iter();
    let counters =
        counters.filter(|event| event["ph"] == "C" && event["name"] == "CPU 0 frequency");
    assert!(counters.count() > 10);
}

#[test]
fn lisa_s_analyses_run_and_its_pelt_agrees() {
    let Some(python) = python("lisa") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let pinned = folder.path().join("pinned.json");
    // LISA's model knows only one clock for a CPU.
    let tasks = r#"{ "tasks": {
        "pinned": { "cpus": [5], "loop": 180, "run": 3000, "timer": { "ref": "unique", "period": 16000 } },
        "little": { "cpus": [1], "loop": 290, "run": 2000, "timer": { "ref": "unique", "period": 10000 } }
    }, "global": { "duration": 3 } }"#;
    std::fs::write(&pinned, tasks).unwrap();
    let mut found = Vec::new();
    for (name, task) in [("t.dat", "pinned"), ("t.txt", "little")] {
        let workload = pinned.to_str().unwrap();
        let path = trace(folder.path(), "odroid-xu3", workload, "schedutil", name);
        let read = read(&python, "lisa_reads.py", &[path.to_str().unwrap(), task]);
        let number = |key: &str| read[key].as_f64().unwrap();
        let (traced, modelled) = (number("utilization"), number("modelled_utilization"));
        assert!(
            (modelled / traced - 1.0).abs() < 0.01,
            "{traced} {modelled}"
        );
        assert!(number("activations") > 170.0 && number("wakeup_latencies") > 170.0);
        assert!(number("runtime_s") > 0.3);
        assert!(number("cpu_utilization") > 100.0 && number("cpu_capacity") >= 8.0);
        for cpu in 0..8 {
            assert!(read["idle"][cpu].as_u64() >= Some(1), "{read}");
            assert!(read["frequency_s"][cpu].as_f64() > Some(2.5), "{read}");
        }
        found.push(read);
    }
    assert!(found[0]["frequency_transitions"][5].as_u64() > Some(1));
}

#[test]
fn where_traces_of_several_schedulers_are_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.txt");
    let mut args = vec![
        "compare",
        "--machine",
        "smp-2",
        "--workload",
        "busy:duration=1ms",
    ];
    args.extend(["--runs", "1", "--trace", file.to_str().unwrap()]);
    args.extend(["--policy", "cfs", "--policy", "eevdf"]);
    let output = run(&args);
    assert!(output.status.success());
    let said = text(&output.stderr);
    for name in ["t.cfs.txt", "t.eevdf.txt"] {
        let path = folder.path().join(name);
        assert!(path.is_file());
        has!(said, &format!("written: {}\n", path.display()));
    }
    // A file with the name that the user gave needs no message.
    let output = run(&args[..args.len() - 2]);
    assert!(file.is_file() && !text(&output.stderr).contains("written"));
}
