//! `equipoise hunt` finds the load on which a scheduler does badly.

use crate::common::{command, file, files, json, objects, root, run, run_badly, text, words};
use crate::foreign::Scheduler;
use std::path::Path;
use std::process::Command;

/// Leaves CPU 1 to threads that may run on no other.
fn planted() -> Scheduler {
    let body = "if (bpf_cpumask_test_cpu(0, p->cpus_ptr))
    scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, SCX_SLICE_DFL, enq_flags);
else
    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);";
    Scheduler::new("", body)
}

#[test]
fn it_finds_a_planted_flaw_and_writes_a_small_load_that_shows_it() {
    let scheduler = planted();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("found.json");
    let common = [
        "hunt",
        "--machine",
        "smp-2",
        "--scheduler",
        scheduler.file().to_str().unwrap(),
        "--by",
        "time",
        "--format",
        "json",
    ];
    let file = file.to_str().unwrap();
    let output = run(&[&common[..], &["--batches", "4", "--file", file]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let load = std::fs::read_to_string(file).unwrap();
    has!(load, "with seed 1");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let note = found["notes"][0].as_str().unwrap();
    let threads: u32 = note.split(' ').next().unwrap().parse().unwrap();
    assert!((2..=4).contains(&threads), "{note}");
    let again = json(&[&common[..], &["--load", file]].concat());
    let factor = |page: &serde_json::Value| -> f64 {
        let cell = page["tables"][0]["rows"][0][4].as_str();
        cell.unwrap().parse().unwrap()
    };
    assert!(factor(&found) > 1.7, "{note}");
    assert_eq!(factor(&found), factor(&again), "{load}");
}

#[test]
fn hunts_that_are_impossible_are_one_line() {
    for (args, says) in [
        (
            &["--by", "wait", "--against", "limit"][..],
            "there is no limit for --by wait",
        ),
        (
            &["--by", "energy"],
            "the power of machine `smp-2` is not known",
        ),
        (&["--load", "nothing.json"], "nothing.json"),
        // These messages come before the hunt, which takes ten minutes.
        (
            &["--file", "nothing/x.json"],
            "nothing/x.json: no such folder",
        ),
        (&["--file", "/tmp"], "/tmp: this is a folder"),
        (&["--format", "svg"], "this result has no chart"),
        (&["--policy", "cfs", "--against", "nothing"], "nothing"),
        (
            &["--policy", "cfs", "--against", "cfs"],
            "this is the hunted policy itself",
        ),
    ] {
        let message = run_badly(&[&["hunt", "--machine", "smp-2"], args].concat());
        has!(message, says);
    }
}

#[test]
fn a_load_of_real_time_threads_has_no_share() {
    let load = r#"{ "tasks": { "a": { "policy": "SCHED_FIFO", "priority": 10, "loop": -1, "run": 1000,
        "sleep": 1000 } }, "global": { "duration": 1 } }"#;
    let (_folder, file) = file("load.json", load);
    let message = run_badly(&["hunt", "-m", "smp-2", "--by", "share", "--load", &file]);
    has!(message, "share cannot be measured for this load");
    has!(message, "a thread that is not real-time");
}

/// A machine file has another name than its machine. Its path may have a space, so the printed commands quote it.
#[test]
fn a_machine_file_is_hunted_on_under_a_scheduler_in_c_too() {
    let smp_2 = std::fs::read_to_string(root().join("machines/smp-2.toml")).unwrap();
    let (folder, machine) = file("my board.toml", smp_2.replace("\"smp-2\"", "\"mine\""));
    let scheduler = planted();
    let scheduler = scheduler.file().to_str().unwrap();
    let hunt = words("hunt --by time --against eevdf-6.12 --batches 1 --kernel 6.12");
    for hunted in [["--scheduler", scheduler], ["--policy", "cfs-3.10"]] {
        let mut command = command(&[&hunt[..], &["-m", &machine], &hunted].concat());
        let output = command.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        let again = said.split("again: ").nth(1).expect(&said);
        has!(again, &format!("--machine '{machine}'"));
        has!(again, "--kernel 6.12");
        let repeated = shell(again.lines().next().unwrap(), folder.path());
        assert_eq!(factor(&said), factor(&repeated), "{said}\n{repeated}");
    }
    has!(
        files(folder.path()).join(" "),
        "hunt-mine-cfs-3.10-time.json"
    );
}

#[test]
fn a_load_is_written_to_the_folder_of_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let hunt = "hunt --by time --against eevdf-6.12 --batches 1 --kernel 6.12 -m smp-2 -p cfs-3.10 --out a/b";
    let out = folder.path().join("a/b");
    let load = "hunt-smp-2-cfs-3.10-time.json";
    let second = "hunt-smp-2-cfs-3.10-time.2.json";
    for (written, there) in [
        (load, &[load, "hunt.txt"][..]),
        (second, &[second, load, "hunt.txt"]),
    ] {
        let output = command(hunt).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(files(folder.path()), ["a"]);
        assert_eq!(files(&out), there);
        let page = std::fs::read_to_string(out.join("hunt.txt")).unwrap();
        has!(page, &format!("written to a/b/{written}"));
    }
}

fn factor(page: &str) -> Option<&str> {
    let row = page.lines().find(|line| line.starts_with(" mine "))?;
    row.split_whitespace().last()
}

fn shell(line: &str, folder: &Path) -> String {
    let equipoise = Path::new(env!("CARGO_BIN_EXE_equipoise"));
    let path = format!(
        "{}:{}",
        equipoise.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("sh")
        .args(["-c", line])
        .env("PATH", path)
        .env("EQUIPOISE_OBJECTS", objects())
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The result for a thread that never runs is a stall, not a factor of a thousand. The printed command that explains
/// it can be typed.
#[test]
fn it_says_which_thread_stalls_since_when_and_how_to_see_why() {
    let body = "if (p->scx.weight >= 100)
    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);";
    let scheduler = Scheduler::new("", body);
    let load = r#"{ "tasks": { "nice": { "priority": 5, "loop": -1, "run": 1000, "sleep": 500 },
        "spin": { "instance": 2, "loop": -1, "run": 1000 } }, "global": { "duration": 2 } }"#;
    let (_folder, file) = file("load.json", load);
    let scheduler = scheduler.file().to_str().unwrap().to_owned();
    let args = [
        "hunt",
        "--machine",
        "smp-2",
        "--scheduler",
        &scheduler,
        "--by",
        "wait",
    ];
    let more = ["--against", "eevdf", "--load", &file];
    let said = crate::common::stdout(&[&args[..], &more].concat());
    has!(said, ", nice was runnable and did not run from 0.0");
    let why = said.split("why: equipoise ").nth(1).expect(&said);
    let line = why.lines().next().unwrap();
    let explained = crate::common::stdout(&line.split(' ').collect::<Vec<_>>());
    let first = explained.split("\n\n").nth(1).unwrap();
    assert!(
        first.starts_with("nice waited ") && first.contains("until the end of the run"),
        "{first}"
    );
}

#[test]
fn a_hunts_file_is_explained_from_its_victim() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("found.json");
    let file = file.to_str().unwrap();
    let hunt = words("hunt -m smp-2 -p cfs --by wait");
    let output = run(&[&hunt[..], &["--seconds", "6", "--file", file]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let load = std::fs::read_to_string(file).unwrap();
    // The kernel schedules real-time threads, not the policy.
    assert!(!load.contains("SCHED_FIFO"), "{load}");
    has!(text(&output.stdout), "10 runs (a few runs of the search: ");
    let why = load.split("To see why: ").nth(1).expect(&load);
    let victim = why
        .split(" --task ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let said = crate::common::stdout(&["explain", "-m", "smp-2", "-p", "cfs", "-w", file]);
    let first = said.split("\n\n").nth(1).unwrap();
    assert!(first.starts_with(victim), "{victim}: {said}");
}
