//! `equipoise hunt` finds the load on which a scheduler does badly.

use crate::common::{json, run, text};
use crate::foreign::Scheduler;

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
    assert!(load.contains("with seed 1"), "{load}");
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
        (&["--policy", "cfs", "--against", "nothing"], "nothing"),
    ] {
        let output = run(&[&["hunt", "--machine", "smp-2"], args].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
        assert_eq!(text(&output.stdout), "");
    }
}
