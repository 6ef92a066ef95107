//! `equipoise trial`: the input that it refuses, and how it shows bundles. Trials themselves run in a guest
//! (vm/in-guest/trial).

use crate::common::{run_badly, stdout};
use ::trial::bundle::{Bundle, More, Tuning};
use ::trial::{About, Outcome, Plan, Scheduler, Turn};
use std::path::Path;

#[test]
fn a_wrong_trial_is_refused_with_one_message() {
    let own = ["--scheduler", "eevdf"];
    let refused = |args: &[&str]| run_badly(&[&["trial"], args].concat());
    let with = |args: &[&str]| refused(&[&own[..], args].concat());
    assert!(with(&["--", "no-such-program"]).contains("no program `no-such-program`"));
    assert!(with(&["--workload", "/nowhere.json"]).contains("/nowhere.json"));
    assert!(with(&["--watch", "1ms"]).contains("at least 0.1 s"));
    assert!(with(&["--rounds", "0", "--", "true"]).contains("0 is not in 1..=10000"));
    assert!(with(&["--bundle", "x.zip", "--", "true"]).contains("ends in .tar.zst"));
    let nowhere = with(&["--bundle", "/nowhere/x.tar.zst", "--", "true"]);
    has!(nowhere, "/nowhere/x.tar.zst: no such folder");
    let frames = |file: &str| with(&["--watch", "1s", "--frames", file]);
    has!(frames("/nowhere.csv"), "/nowhere.csv: No such file");
    has!(frames("/dev/null"), "/dev/null: not a regular file");
    assert!(with(&[]).contains("COMMAND"));
    let unknown = refused(&["--scheduler", "scx_nothing", "--", "true"]);
    has!(unknown, "--scheduler scx_nothing: no program `scx_nothing`");
    let setting = refused(&["--scheduler", "equipoise:nothing=1", "--", "true"]);
    has!(setting, "nothing");
    assert!(refused(&["show", "/nowhere.tar.zst"]).contains("/nowhere.tar.zst: No such file"));
    assert!(refused(&["show"]).contains("FILE.tar.zst"));
}

/// A trial on `machine` in which the second scheduler takes `percent` of the first one's time.
fn bundle(file: &Path, machine: &str, percent: u64) {
    let turn = |ms: u64| Turn {
        elapsed_ns: ms * 1_000_000,
        is_timed: true,
        ..Turn::default()
    };
    let block = |base: u64| vec![turn(base), turn(base * percent / 100)];
    let scheduler = |name: &str| Scheduler {
        name: name.to_owned(),
        loader: None,
    };
    let plan = Plan {
        schedulers: vec![scheduler("eevdf"), scheduler("scx_fast -s 5")],
        rounds: 4,
        until_decided: false,
        seed: 7,
    };
    let outcome = Outcome {
        schedulers: vec![0, 1],
        blocks: [1000, 1010, 1002, 997].map(block).to_vec(),
        ..Outcome::default()
    };
    let about = About {
        load: "make -C /home/user".to_owned(),
        machine: machine.to_owned(),
        ..About::default()
    };
    let tuning = Tuning {
        header: vec!["policy".to_owned(), "predicted\nmakespan".to_owned()],
        rows: vec![vec!["equipoise:slice_ns=1".to_owned(), "-3.0 %".to_owned()]],
        best: Some("equipoise:slice_ns=1".to_owned()),
        measured: Some((plan.clone(), outcome.clone())),
    };
    let bundle = Bundle::new(&about, &plan, &outcome, Some(&tuning), false);
    let more = More {
        machine: None,
        recording: None,
        page: String::new(),
    };
    std::fs::write(file, bundle.write(&more, false).unwrap()).unwrap();
}

#[test]
fn bundles_are_shown_as_a_trial_and_as_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (here, there) = (path("here.tar.zst"), path("there.tar.zst"));
    bundle(Path::new(&here), "laptop", 80);
    bundle(Path::new(&there), "server", 100);
    let one = stdout(&["trial", "show", &here]);
    assert!(one.starts_with("a load on laptop\n"), "{one}");
    has!(one, "Throughput: scx_fast -s 5 is best: 20.0");
    has!(one, "Settings of equipoise, simulated");
    has!(one, "Then equipoise:slice_ns=1 beside equipoise: ");
    let both = stdout(&["trial", "show", &here, &there, "--format", "csv"]);
    let lines: Vec<&str> = both.lines().collect();
    assert!(
        lines[0].starts_with("machine,load,scheduler,blocks,throughput"),
        "{both}"
    );
    assert!(
        lines[1].starts_with("laptop,a load,scx_fast -s 5,4,-20.0"),
        "{both}"
    );
    assert!(
        lines[2].starts_with("server,a load,scx_fast -s 5,4,0.0 %,"),
        "{both}"
    );
}
