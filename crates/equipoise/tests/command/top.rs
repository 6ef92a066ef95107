//! `equipoise top` on a computer that consists of files; a thread of the test plays its
//! scx_equipoise.

use crate::common::{json, run_badly, stdout};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A fast core at 2 GHz and a slow one of unknown frequency.
fn computer() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| write(&root.path().join(name), text);
    let cpus = "sys/devices/system/cpu";
    file(&format!("{cpus}/online"), "0-1\n");
    file(&format!("{cpus}/cpu0/cpu_capacity"), "1024\n");
    file(&format!("{cpus}/cpu1/cpu_capacity"), "400\n");
    file(
        &format!("{cpus}/cpu0/cpufreq/scaling_cur_freq"),
        "2000000\n",
    );
    file(
        "proc/stat",
        "cpu  2 0 0 2\ncpu0 1 0 0 1\ncpu1 1 0 0 1\nintr 7\n",
    );
    root
}

fn serve(path: &Path, answer: String) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            for _ in BufReader::new(&client).lines().map_while(Result::ok) {
                let _ = writeln!(&client, "{answer}");
            }
        }
    });
}

fn once(root: &Path) -> Vec<&str> {
    vec![
        "top",
        "--once",
        "--interval",
        "0.1",
        "--root",
        root.to_str().unwrap(),
    ]
}

#[test]
fn without_a_scheduler_of_ours_there_are_the_cpus() {
    let root = computer();
    let shown = stdout(&once(root.path()));
    assert!(
        shown.starts_with("Linux's own scheduler, 2 CPUs\n"),
        "{shown}"
    );
    assert!(
        shown.contains("1 x core-1024") && shown.contains("1 x core-400"),
        "{shown}"
    );
    assert!(
        shown.contains("2000") && !shown.contains("callback"),
        "{shown}"
    );
    has!(shown, "decisions: this kernel has no sched_ext");
}

#[test]
fn a_running_scheduler_says_what_it_does_and_costs() {
    let root = computer();
    let at = |name: &str| root.path().join(name);
    write(&at("sys/kernel/sched_ext/root/ops"), "equipoise_cfs\n");
    serve(
        &at("run/scx_equipoise/control"),
        json!({ "Done": "policy = \"hperf\"\n" }).to_string(),
    );
    let counted = json!({
        "pulled": 30, "balance_ns": 5_000_000, "misfit_moves": 0,
        "energy_uj": { "package-0": 1_000_000 },
        "callbacks": { "enqueue": { "calls": 100, "ns_per_call": 500.0 } },
    });
    let answer = json!({ "errno": 0, "args": { "resp": counted } });
    serve(&at("run/scx/root/stats"), answer.to_string());
    let shown = json(&[once(root.path()), vec!["--format", "json"]].concat());
    assert_eq!(shown["title"], "scx_equipoise, policy hperf, 2 CPUs");
    assert_eq!(shown["cpus"][0]["khz"], 2_000_000);
    assert!(shown["cpus"][1]["khz"].is_null());
    assert_eq!(shown["cpus"][1]["capacity"], 400);
    assert_eq!(shown["decisions"][0]["name"], "pulled");
    let pulled = shown["decisions"][0]["per_s"].as_f64().unwrap();
    let seconds = shown["seconds"].as_f64().unwrap();
    assert!((pulled * seconds - 30.0).abs() < 1e-6, "{shown}");
    let text = shown.to_string();
    for expected in [
        "Tasks that load balancing pulled",
        "enqueue",
        "500",
        "package-0",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // Zero counts and sums of times are omitted.
    assert!(
        !text.contains("too heavy") && !text.contains("these passes, ns"),
        "{text}"
    );
}

#[test]
fn a_missing_terminal_is_one_message() {
    let root = computer();
    let message = run_badly(&["top", "--root", root.path().to_str().unwrap()]);
    has!(message, "--once");
    run_badly(&["top", "--once", "--root", "/nowhere"]);
    run_badly(&["top", "--once", "--interval", "0"]);
}
