//! Loads during which CPUs go offline or have their frequency capped, through the command.

use crate::common::{file, json, run_badly};
use crate::rt_app::mean;
use tempfile::TempDir;

/// A file of threads that each have 1 s of work on a CPU at full speed.
fn load(threads: u32, timeline: &str) -> (TempDir, String) {
    let tasks = format!(r#""busy": {{ "instance": {threads}, "loop": 1000, "run": 1000 }}"#);
    let text = format!("{{ \"tasks\": {{ {tasks} }}, \"timeline\": [\n{timeline}\n] }}");
    file("load.json", text)
}

fn time(machine: &str, policy: &str, threads: u32, timeline: &str) -> f64 {
    let (_folder, file) = load(threads, timeline);
    let mut args = vec!["compare", "--machine", machine, "--policy", policy];
    args.extend([
        "--workload",
        &file,
        "--runs",
        "1",
        "--exact",
        "--format",
        "json",
    ]);
    mean(&json(&args), "time")
}

#[test]
fn a_load_takes_longer_while_cpus_are_offline() {
    let offline = r#"{ "at": 1000, "cpus": [4, 5, 6, 7], "online": false }"#;
    let back = format!(r#"{offline}, {{ "at": 1000000, "cpus": [4, 5, 6, 7], "online": true }}"#);
    for policy in ["equipoise", "eevdf", "cfs"] {
        for (timeline, expected) in [("", 1.0), (offline, 2.0), (&back, 1.5)] {
            let time = time("smp-8", policy, 8, timeline);
            let close = (time / expected - 1.0).abs() < 0.1;
            assert!(close, "{policy}: {time} s, expected {expected}: {timeline}");
        }
    }
}

#[test]
fn a_load_takes_longer_on_capped_cpus() {
    // 432 of 1200 MHz is the highest OPP of at most 40 %.
    let cap = r#"{ "at": 0, "cpus": [0], "scaling_max_freq": "40%" }"#;
    for policy in ["equipoise", "eevdf", "schedutil"] {
        let time = time("hikey-6220", policy, 8, cap);
        assert!(
            (time / (1200.0 / 432.0) - 1.0).abs() < 0.05,
            "{policy}: {time} s"
        );
    }
}

/// At 200 of 2000 MHz, Cortex-A15 have less capacity than Cortex-A7. `eevdf` notices that.
#[test]
fn a_heavy_thread_leaves_capped_cpus_in_linux() {
    let cap = r#"{ "at": 0, "cpus": [4, 5, 6, 7], "scaling_max_freq": 200000 }"#;
    let blind = time("odroid-xu3", "eevdf:cpufreq_pressure=false", 1, cap);
    let seeing = time("odroid-xu3", "eevdf", 1, cap);
    assert!(
        seeing < 0.4 * blind,
        "{seeing} s, and {blind} s without cpufreq's pressure"
    );
}

/// The cap comes at once or after half of the work, and stays or goes; once it is gone, the fast CPUs count again.
#[test]
fn equipoise_ranks_cpus_by_what_their_limits_leave() {
    let cap = |from: u32, until: u32| {
        let change = |at, percent| {
            format!(r#"{{ "at": {at}, "cpus": [4], "scaling_max_freq": "{percent}%" }}"#)
        };
        format!("{}, {}", change(from, 10), change(until, 100))
    };
    let limit = |timeline: &str| time("odroid-xu3", "eevdf", 1, timeline);
    for timeline in [
        cap(1000, 100_000_000),
        cap(1000, 1_000_000),
        cap(500_000, 1_000_000),
    ] {
        let (ours, linux) = (
            time("odroid-xu3", "equipoise", 1, &timeline),
            limit(&timeline),
        );
        assert!(
            ours < 1.03 * linux,
            "{ours} s, {linux} s under `eevdf`: {timeline}"
        );
    }
    let capped = cap(1000, 100_000_000);
    let (ours, linux) = (
        time("odroid-xu3", "equipoise", 9, &capped),
        time("odroid-xu3", "eevdf", 9, &capped),
    );
    assert!(ours < 1.03 * linux, "{ours} s, {linux} s under `eevdf`");
}

#[test]
fn an_impossible_timeline_is_refused_with_its_line() {
    for (timeline, message) in [
        (
            r#"{ "at": 0, "cpus": [8], "online": false }"#,
            "load.json:2: CPUs 8: machine `smp-8`",
        ),
        (
            r#"{ "at": 0, "cpus": [0, 1, 2, 3, 4, 5, 6, 7], "online": false }"#,
            "load.json:2: no CPU is online",
        ),
        (
            r#"{ "at": 0, "cpus": [0], "offline": true }"#,
            "load.json:2: unknown key `offline`",
        ),
    ] {
        let (_folder, file) = load(1, timeline);
        let says = run_badly(&["compare", "--machine", "smp-8", "--workload", &file]);
        has!(says, message);
    }
}
