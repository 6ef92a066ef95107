//! `workload import`: a replayed recording is the same as the recorded load.

use crate::common::{command, file, recorded, run, run_badly, stdout, text};
use machine::Machine;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use trace::import::{Imported, import};
use workload::recording::Step;

fn traced(folder: &Path, name: &str, [machine, workload, policy]: [&str; 3]) -> PathBuf {
    let trace = folder.join(name);
    stdout(&format!(
        "compare --machine {machine} --workload {workload} --policy {policy} --runs 1 --exact --trace {}",
        trace.display()
    ));
    trace
}

fn read(trace: &Path, machine: &str) -> Imported {
    let machine = Machine::find(machine).unwrap();
    let text = std::fs::read(trace).unwrap();
    import("trace", &*text, Some(&machine)).unwrap_or_else(|error| panic!("{}", error.message()))
}

/// The totals of the threads of each name: their running time, ns, and their work, ns of the
/// fastest core. The shell, which only starts them, is left out.
fn ran(imported: &Imported) -> Vec<(String, [u64; 2])> {
    let mut by_name: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    let threads = imported.recording.threads.iter();
    let threads = threads.zip(&imported.summary.threads);
    for (thread, ran) in threads.filter(|(thread, _)| thread.name != "sh") {
        let work = thread.steps.iter().map(|step| match step {
            Step::Run(work) => *work,
            _ => 0,
        });
        let sum = by_name.entry(&thread.name).or_default();
        sum[0] += ran.ran_ns;
        sum[1] += work.sum::<u64>();
    }
    let named = by_name.into_iter();
    named.map(|(name, sums)| (name.to_owned(), sums)).collect()
}

fn off(a: u64, b: u64) -> f64 {
    100.0 * (a as f64 / b as f64 - 1.0).abs()
}

#[test]
fn a_trace_replayed_is_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    for (alike, machine, workload, policy) in [
        (true, "smp-2", "mixed:duration=2", "eevdf"),
        (false, "tc2", "mixed:duration=2", "equipoise"),
        (false, "tc2", "heavy-and-light:duration=2", "cfs"),
        (true, "smt-4", "pipeline:duration=2", "eevdf"),
        (false, "odroid-xu3", "audio:duration=2", "schedutil"),
        (true, "smp-8", "spinners:duration=2", "eevdf"),
    ] {
        let what = format!("{workload} on {machine} under {policy}");
        let trace = traced(folder.path(), "trace.txt", [machine, workload, policy]);
        let recording = folder.path().join("trace.json");
        let imported = command(&["workload", "import", "--machine", machine, "--out"])
            .args([folder.path(), &trace])
            .output()
            .unwrap();
        let said = text(&imported.stderr);
        assert!(
            imported.status.success() && said.contains(" 0 lost"),
            "{what}: {said}"
        );
        let replayed = traced(
            folder.path(),
            "again.txt",
            [machine, recording.to_str().unwrap(), policy],
        );
        let (then, now) = (read(&trace, machine), read(&replayed, machine));
        let (runs_then, runs_now) = (ran(&then), ran(&now));
        assert_eq!(runs_then.len(), runs_now.len(), "{what}");
        // On heterogeneous CPUs the running time depends on the scheduler; the amount of work is the same.
        let (measure, unit) = match alike {
            true => (0, "ns"),
            false => (1, "ns of the fastest core"),
        };
        let mut worst = 0.0_f64;
        for ((name, then), (again, now)) in runs_then.iter().zip(&runs_now) {
            assert_eq!(name, again, "{what}");
            let (then, now) = (then[measure], now[measure]);
            worst = worst.max(off(now, then));
            assert!(
                worst <= 2.0,
                "{what}: {name} ran for {now} {unit}, not {then}"
            );
        }
        let (then, now) = (&then.summary, &now.summary);
        let switches = off(now.switches, then.switches);
        let span = off(now.span_ns, then.span_ns);
        println!(
            "{what}: runs {worst:.2} % off, switches {switches:.2} % off, makespan {span:.2} %"
        );
        assert!(
            switches <= 15.0,
            "{what}: {} switches, not {}",
            now.switches,
            then.switches
        );
        assert!(
            span <= 10.0,
            "{what}: {} ns, not {}",
            now.span_ns,
            then.span_ns
        );
    }
}

fn imported(trace: &Path) -> Value {
    let recording = run_well(command(&["workload", "import"]).arg(trace)).stdout;
    let mut recording: Value = serde_json::from_slice(&recording).unwrap();
    recording["threads"].take()
}

fn run_well(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output
}

/// The output of `trace-cmd report` with `options` for `trace`, in ns; none if trace-cmd is not
/// installed.
fn report(trace: &Path, options: &[&str]) -> Option<Vec<u8>> {
    let mut report = Command::new("trace-cmd");
    let report = report.args(["report", "-t"]).args(options).arg(trace);
    match report.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: no trace-cmd");
            None
        }
        _ => Some(run_well(report).stdout),
    }
}

/// Each form of a trace gives the same threads, run times and wakeups: the forms that the command writes, the
/// forms into which trace-cmd converts its file, and the page and the JSON that contain the text.
#[test]
fn every_form_of_a_trace_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let load = ["tc2", "mixed:duration=0.3", "eevdf"];
    for name in ["t.txt", "t.dat", "t.perfetto-trace"] {
        traced(folder.path(), name, load);
    }
    let mut forms = vec!["t.dat", "t.perfetto-trace", "t.html", "t.json"];
    let plain = std::fs::read_to_string(path("t.txt")).unwrap();
    let page = format!("<!DOCTYPE html>\n<script class=\"trace-data\">\n{plain}</script>\n");
    std::fs::write(path("t.html"), page).unwrap();
    let json = serde_json::json!({"traceEvents": [], "systemTraceEvents": plain});
    std::fs::write(path("t.json"), json.to_string()).unwrap();
    for (name, options) in [
        ("report.txt", &[][..]),
        ("raw.txt", &["-R"]),
        ("latency.txt", &["-l"]),
    ] {
        if let Some(report) = report(&path("t.dat"), options) {
            std::fs::write(path(name), report).unwrap();
            forms.push(name);
        }
    }
    if forms.contains(&"report.txt") {
        for (name, compression) in [("7.dat", "none"), ("zstd.dat", "zstd")] {
            let mut convert = Command::new("trace-cmd");
            convert.args([
                "convert",
                "--file-version",
                "7",
                "--compression",
                compression,
            ]);
            run_well(
                convert
                    .arg("-i")
                    .arg(path("t.dat"))
                    .arg("-o")
                    .arg(path(name)),
            );
            forms.push(name);
        }
    }
    let expected = imported(&path("t.txt"));
    assert!(expected.as_array().unwrap().len() > 5);
    for name in forms {
        assert_eq!(imported(&path(name)), expected, "{name}");
    }
}

/// With -R, trace-cmd prints the fields of Linux's events by name; without -R, it formats them itself. Neither report
/// has the flags of interrupts.
#[test]
fn both_reports_of_a_real_trace_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, options: &[&str]| {
        let text = report(&recorded("sysbench-mutex.dat"), options)?;
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(imported(&path))
    };
    if let (Some(report), Some(raw)) = (of("t.txt", &[]), of("t.txt", &["-R"])) {
        assert!(report.as_array().unwrap().len() >= 4, "{report}");
        assert_eq!(raw, report);
    }
}

/// A recording from a guest with two CPUs (Linux 6.12, `sysbench mutex` under `equipoise record`)
/// takes as long in the simulator as it did there.
#[test]
fn a_real_trace_is_replayed() {
    let [machine, trace] = ["machine.toml", "sysbench-mutex.dat"].map(recorded);
    let shown = stdout(&format!(
        "validate --machine {} {} --format csv",
        machine.display(),
        trace.display()
    ));
    let off = |name: &str| -> f64 {
        let line = shown.lines().find(|line| line.contains(name));
        let cell = line.and_then(|line| line.rsplit(',').nth(2));
        cell.unwrap_or_else(|| panic!("{name}: {shown}"))
            .parse()
            .unwrap()
    };
    assert!(off("makespan").abs() <= 10.0, "{shown}");
    assert!(off("worst run time of a thread").abs() <= 2.0, "{shown}");
    assert!(off("switches to its threads").abs() <= 15.0, "{shown}");
}

/// The shell that starts a simulated load is not one of its threads, however slow the machine is.
#[test]
fn the_simulated_shell_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let machine = folder.path().join("slow.toml");
    let slow = "name = \"slow\"\n[core.any]\n[core.any.costs]\nsource = \"none\"\n\
                context_switch_ns = 500_000\nwakeup_ns = 500_000\n\
                [[package]]\n[[package.cluster]]\ncore = \"any\"\ncpus = \"0\"\n";
    std::fs::write(&machine, slow).unwrap();
    let machine = machine.to_str().unwrap();
    let trace = traced(
        folder.path(),
        "t.dat",
        [machine, "mixed:duration=1", "eevdf"],
    );
    let said = run(&["validate", "--machine", machine, trace.to_str().unwrap()]);
    let said = text(&said.stdout);
    let line = said.lines().find(|line| line.starts_with(" threads "));
    assert!(line.is_some_and(|line| line.contains("PASS")), "{said}");
}

#[test]
fn a_trace_that_is_cut_off_is_one_message_with_its_byte() {
    let fixture = recorded("sysbench-mutex.dat");
    let whole = std::fs::read(fixture).unwrap();
    let import = |content: &[u8]| {
        let (_folder, cut) = file("cut.dat", content);
        run_badly(&["workload", "import", &cut])
    };
    for bytes in [20, 400, 5_000, whole.len() - 4096] {
        let output = import(&whole[..bytes]);
        assert!(output.contains("cut.dat: at byte "), "{bytes}: {output}");
    }
    let old = [&b"\x17\x08\x44tracing7\0"[..], &whole[12..]].concat();
    has!(import(&old), "version 7");
}

#[test]
fn impossible_recordings_are_refused() {
    for (args, says) in [
        (vec!["record"], "required"),
        (vec!["record", "--all", "--", "true"], "cannot be used with"),
        (
            vec!["record", "--output", "t.txt", "--", "true"],
            "t.txt: unknown kind of recording",
        ),
        (
            vec!["record", "--output", "/nowhere/t.dat", "--", "true"],
            "/nowhere/t.dat: no such folder",
        ),
        (vec!["record", "--all", "--seconds", "-1"], "seconds"),
        (
            vec![
                "record",
                "--output",
                "t.json",
                "--machine",
                "tc2",
                "--",
                "true",
            ],
            "but this computer has",
        ),
    ] {
        let said = run_badly(&args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn a_recording_runs_on_another_machine() {
    let folder = tempfile::tempdir().unwrap();
    let trace = traced(folder.path(), "t.txt", ["tc2", "mixed:duration=1", "cfs"]);
    let recorded = run(&format!(
        "workload import --machine tc2 {}",
        trace.display()
    ));
    let file = folder.path().join("recorded.json");
    std::fs::write(&file, &recorded.stdout).unwrap();
    let file = file.to_str().unwrap();
    assert!(stdout(&["workload", "check", file]).contains("recorded"));
    assert!(stdout(&["workload", "show", file]).contains("makespan"));
    let compared = stdout(&format!(
        "compare --machine smp-8 --workload {file} --policy cfs --policy eevdf --runs 2"
    ));
    has!(compared, "makespan");
}

#[test]
fn bad_input_is_one_message() {
    let (_folder, wrong) = file("wrong.txt", "# tracer: nop\nwhat is this\n");
    for (args, says) in [
        (
            vec![wrong.as_str()],
            "wrong.txt:2: `what is this` is not a line",
        ),
        (vec!["no/such.txt"], "no/such.txt"),
        (vec![wrong.as_str(), "--machine", "cray-1"], "cray-1"),
    ] {
        let message = run_badly(&[&["workload", "import"], &args[..]].concat());
        has!(message, says);
    }
}

#[test]
fn a_million_events_fit() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("long.txt");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&trace).unwrap());
    for us in 0..333_334 {
        let task = us % 1000 + 10;
        let us = us * 10;
        let at = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        writeln!(
            file,
            "<idle>-0 [000] d.h2. {}: sched_waking: comm=t pid={task} prio=120 target_cpu=000\n\
             <idle>-0 [000] d..2. {}: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> \
             next_comm=t next_pid={task} next_prio=120\n\
             t-{task} [000] d..2. {}: sched_switch: prev_comm=t prev_pid={task} prev_prio=120 prev_state=S ==> \
             next_comm=swapper/0 next_pid=0 next_prio=120",
            at(us),
            at(us + 2),
            at(us + 7)
        )
        .unwrap();
    }
    drop(file);
    let limited = std::process::Command::new("bash")
        .args([
            "-c",
            "ulimit -v 488281; exec \"$@\"",
            "bash",
            env!("CARGO_BIN_EXE_equipoise"),
            "workload",
            "import",
            "--out",
        ])
        .args([folder.path(), &trace])
        .output()
        .unwrap();
    let said = text(&limited.stderr);
    assert!(limited.status.success(), "{said}");
    assert!(
        said.contains("1000002 events") && said.contains("1000 threads"),
        "{said}"
    );
    assert!(folder.path().join("long.json").is_file());
}
