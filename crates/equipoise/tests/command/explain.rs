//! Why threads wait, as the command says it.

use crate::common::{json, run, stdout, text};
use serde_json::Value;

fn args<'a>(machine: &'a str, workload: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["explain", "--machine", machine, "--workload", workload];
    args.extend(more);
    args
}

fn waits(explained: &Value) -> &[Value] {
    explained["waits"].as_array().unwrap()
}

fn ns(wait: &Value) -> u64 {
    wait["to_ns"].as_u64().unwrap() - wait["from_ns"].as_u64().unwrap()
}

#[test]
fn the_longest_wait_of_a_thread_is_answered_by_a_chain_of_decisions() {
    for policy in ["eevdf", "cfs", "capacity", "hperf", "equipoise"] {
        let more = ["--policy", policy, "--task", "ui", "--format", "json"];
        let explained = json(&args("tc2", "mixed:duration=2", &more));
        let waits = waits(&explained);
        assert_eq!(waits.len(), 3, "{policy}");
        assert!(
            waits.is_sorted_by_key(|wait| u64::MAX - ns(wait)),
            "{policy}"
        );
        for wait in waits {
            let chain = wait["chain"].as_array().unwrap();
            let times: Vec<u64> = chain
                .iter()
                .map(|link| link["at_ns"].as_u64().unwrap())
                .collect();
            assert!(times.is_sorted(), "{policy}: {wait:#}");
            let last = chain.last().unwrap();
            assert_eq!(
                (&last["what"], &last["at_ns"]),
                (&"runs".into(), &wait["to_ns"])
            );
            let decided = |link: &&Value| link["what"] == "decided";
            assert!(
                chain.iter().any(|link| decided(&link)),
                "{policy}: {wait:#}"
            );
            // Who had the CPU meanwhile had it for no longer than that.
            let others = chain.iter().filter(|link| link["what"] == "other");
            let others: u64 = others.map(|link| link["ns"].as_u64().unwrap()).sum();
            assert!(others <= ns(wait), "{policy}: {wait:#}");
            if wait["after"] == "wakeup" {
                assert_eq!(chain[0]["what"], "woken");
                assert_eq!(
                    chain[1]["says"].as_str().unwrap().split_at(11).0,
                    "ui goes to ",
                    "{policy}"
                );
            }
        }
        let woken = waits.iter().find(|wait| wait["after"] == "wakeup");
        if let (Some(woken), Value::Array(threads)) = (woken, &explained["threads"]) {
            assert_eq!(threads[0]["name"], "ui");
            assert_eq!(threads[0]["max_ns"], ns(woken));
        }
    }
}

/// On one CPU, a loop and a thread that wakes up every 10 ms: by Linux 3.9's rules it takes the CPU, being behind.
#[test]
fn a_thread_that_is_behind_takes_the_cpu_and_the_numbers_say_so() {
    let load = r#"{ "tasks": {
        "loop": { "run": 400000, "loop": 1, "cpus": [0] },
        "light": { "run": 1000, "timer": { "ref": "t", "period": 10000 }, "loop": 30, "cpus": [0] } } }"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("load.json");
    std::fs::write(&file, load).unwrap();
    let more = ["--policy", "cfs", "--task", "loop", "--format", "json"];
    let explained = json(&args("smp-2", file.to_str().unwrap(), &more));
    // What takes the CPU from the loop is light, which is behind it, by more than it has to be.
    let wait = waits(&explained)
        .iter()
        .find(|wait| wait["chain"][0]["decision"] == "less_vruntime")
        .unwrap();
    let taken = &wait["chain"][0];
    assert_eq!(
        (&wait["after"], &taken["says"]),
        (&"running".into(), &"light takes CPU 0".into())
    );
    let number = |name: &str| taken["numbers"][name].as_i64().unwrap();
    assert!(
        number("lead") > number("needed") && number("needed") > 0,
        "{taken}"
    );
    assert_eq!(number("running"), wait["pid"]);
    let other = &wait["chain"][1];
    assert_eq!(
        (&other["what"], &other["thread"]),
        (&"other".into(), &"light".into())
    );
    assert_eq!(ns(wait), other["ns"]);
}

#[test]
fn a_time_finds_the_wait_and_nothing_is_up_to_chance() {
    let more = [
        "--policy", "cfs", "--task", "ui", "--worst", "1", "--format", "json",
    ];
    let longest = json(&args("tc2", "mixed:duration=2", &more));
    let wait = &waits(&longest)[0];
    let middle = format!(
        "{}ns",
        (wait["from_ns"].as_u64().unwrap() + wait["to_ns"].as_u64().unwrap()) / 2
    );
    let mut at = more.to_vec();
    at.extend(["--at", &middle]);
    let found = json(&args("tc2", "mixed:duration=2", &at));
    assert_eq!(waits(&found), std::slice::from_ref(wait));
    assert_eq!(
        stdout(&args("tc2", "mixed:duration=2", &at)),
        stdout(&args("tc2", "mixed:duration=2", &at))
    );
    // Before anything runs nobody waits; that is said.
    let early = stdout(&args(
        "tc2",
        "mixed:duration=2",
        &["--policy", "cfs", "--task", "ui", "--at", "0"],
    ));
    assert!(
        early.contains("Nobody of these waited at 0.000000 s"),
        "{early}"
    );
    assert!(early.contains("ui runs"), "{early}");
}

#[test]
fn the_answer_is_in_words() {
    let said = stdout(&args(
        "tc2",
        "mixed:duration=2",
        &["--policy", "eevdf", "--task", "ui"],
    ));
    for words in [
        "Why threads wait: mixed",
        "ui waited ",
        "What was decided about them, and why",
        "From waking up to running",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Without names those that the workload is judged by.
    let said = stdout(&args("tc2", "mixed:duration=2", &[]));
    assert!(
        said.contains("decoder ") && !said.contains("\n background "),
        "{said}"
    );
    for (format, words) in [("csv", "wakes up"), ("html", "waited")] {
        let said = stdout(&args("smp-2", "busy:duration=10ms", &["--format", format]));
        assert!(said.contains(words), "{format}");
    }
}

#[test]
fn a_trace_has_the_same_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let mut compare = vec![
        "compare",
        "--machine",
        "tc2",
        "--workload",
        "mixed:duration=2",
    ];
    compare.extend([
        "--policy",
        "equipoise",
        "--runs",
        "1",
        "--trace",
        file.to_str().unwrap(),
    ]);
    stdout(&compare);
    let trace: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let decisions: Vec<&Value> = trace
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["cat"] == "decision")
        .collect();
    let explained = json(&args(
        "tc2",
        "mixed:duration=2",
        &["--task", "ui", "--format", "json"],
    ));
    for link in waits(&explained)[0]["chain"].as_array().unwrap() {
        if link["what"] == "decided" {
            let same = |event: &&&Value| {
                event["args"]["why"] == link["why"] && event["name"] == link["says"]
            };
            let found = decisions.iter().find(same);
            assert!(found.is_some(), "{link}");
        }
    }
}

#[test]
fn an_unknown_thread_is_answered_with_the_one_that_was_meant() {
    let output = run(&args("tc2", "mixed:duration=1", &["--task", "rendr"]));
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("rendr") && said.contains("did you mean `render`?"),
        "{said}"
    );
    let output = run(&args("tc2", "mixed", &["--at", "soon"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("1204ms"),
        "{}",
        text(&output.stderr)
    );
}
