//! Explanations of waits, through the command.

use crate::common::{file, json, run_badly, stdout, words};
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

/// On one CPU there are a loop and a thread that wakes up every 10 ms. By Linux 3.9's rules the thread takes
/// the CPU, because it is behind.
#[test]
fn a_thread_that_is_behind_takes_the_cpu_and_the_numbers_say_so() {
    let load = r#"{ "tasks": {
        "loop": { "run": 400000, "loop": 1, "cpus": [0] },
        "light": { "run": 1000, "timer": { "ref": "t", "period": 10000 }, "loop": 30, "cpus": [0] } } }"#;
    let (_folder, file) = file("load.json", load);
    let more = ["--policy", "cfs", "--task", "loop", "--format", "json"];
    let explained = json(&args("smp-2", &file, &more));
    let wait = waits(&explained)
        .iter()
        .find(|wait| wait["chain"][0]["decision"] == "less_vruntime")
        .unwrap();
    let taken = &wait["chain"][0];
    assert_eq!(
        (&wait["after"], &taken["says"]),
        (&"running".into(), &"light preempts on CPU 0".into())
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
    let more = words("--policy cfs --task ui --worst 1 --format json");
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
    let early = stdout(&args(
        "tc2",
        "mixed:duration=2",
        &["--policy", "cfs", "--task", "ui", "--at", "0"],
    ));
    has!(early, "None of these threads waited at 0.000000 s");
    has!(early, "ui runs");
    let late = words("--policy cfs --task ui --at 5s");
    let late = stdout(&args("tc2", "mixed:duration=2", &late));
    has!(late, "The run ended at 2.0000");
    has!(late, " s, before 5.000000 s; the nearest wait is shown.");
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
        "Decisions about these threads by reason",
        "Time from wakeup to running",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = stdout(&args("tc2", "mixed:duration=2", &[]));
    assert!(
        said.contains("decoder ") && !said.contains("\n background "),
        "{said}"
    );
    for (format, words) in [("csv", "wakes up"), ("html", "waited")] {
        let said = stdout(&args("smp-2", "busy:duration=10ms", &["--format", format]));
        has!(said, words);
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
    let said = run_badly(&args("tc2", "mixed:duration=1", &["--task", "rendr"]));
    assert!(
        said.contains("rendr") && said.contains("did you mean `render`?"),
        "{said}"
    );
    let said = run_badly(&args("tc2", "mixed", &["--at", "soon"]));
    has!(said, "1204ms");
}

/// One queue serves tasks in the order of their arrival, in turns of 100 ms. The last task waits,
/// and the tasks that had the CPUs are known.
const FIFO: &str = r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile u64 turn_ns = 100000000;
void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, turn_ns, enq_flags);
}
SCX_OPS_DEFINE(fifo_ops, .enqueue = (void *)fifo_enqueue, .name = "fifo");
"#;

#[test]
fn a_scheduler_in_c_is_asked_why_by_what_the_trace_shows() {
    let load = r#"{ "tasks": {
        "loop": { "instance": 3, "run": 400000, "loop": 1 },
        "light": { "run": 1000, "timer": { "ref": "t", "period": 10000 }, "loop": 30 } } }"#;
    let folder = tempfile::tempdir().unwrap();
    let (file, source) = (
        folder.path().join("load.json"),
        folder.path().join("fifo.bpf.c"),
    );
    std::fs::write(&file, load).unwrap();
    std::fs::write(&source, FIFO).unwrap();
    let of = |more: &[&str]| {
        let mut all = vec![
            "--scheduler",
            source.to_str().unwrap(),
            "--task",
            "light",
            "--exact",
        ];
        all.extend(more);
        let machine_and_load = args("smp-2", file.to_str().unwrap(), &all);
        machine_and_load
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let explained = |more: &[&str]| {
        let args = of(more);
        json(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let long = explained(&["--format", "json", "--worst", "1"]);
    assert_eq!(long["policy"], "fifo");
    let wait = &waits(&long)[0];
    assert!(ns(wait) > 50_000_000, "{wait:#}");
    let sum = |key: &str| {
        let all = wait[key].as_array().unwrap().iter();
        all.map(|one| one["ns"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum("ran") + sum("idled"), 2 * ns(wait), "{wait:#}");
    let loops = |key: &str| {
        let names = wait[key].as_array().unwrap().iter();
        names
            .map(|one| one["thread"].as_str().unwrap())
            .all(|name| name.starts_with("loop-"))
    };
    assert!(
        sum("waited") > 0 && loops("waited") && loops("ran"),
        "{wait:#}"
    );
    let short = explained(&[
        "--format",
        "json",
        "--worst",
        "1",
        "--set",
        "turn_ns=1000000",
    ]);
    assert!(ns(&waits(&short)[0]) < ns(wait) / 10, "{short:#}");
    let args = of(&[]);
    let said = stdout(&args.iter().map(String::as_str).collect::<Vec<_>>());
    for words in ["reports no decisions", "CPU 1 is busy, for", "wait, too"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// 10 ms of work on the fastest core take 20 ms on a core with half its speed: the task is slow, although it never
/// waits.
#[test]
fn a_slow_thread_that_hardly_waits_is_explained_by_its_cpu_s_speed() {
    let load = r#"{ "tasks": { "light": {
        "run": 10000, "timer": { "ref": "t", "period": 40000 }, "loop": 10, "cpus": [2] } } }"#;
    let (_folder, file) = file("load.json", load);
    let of = |machine, more: &[&str]| {
        let mut all = vec!["--policy", "cfs", "--worst", "1"];
        all.extend(more);
        stdout(&args(machine, &file, &all))
    };
    let slow: Value = serde_json::from_str(&of("tc2", &["--format", "json"])).unwrap();
    let slow = &slow["slow"][0];
    let number = |key: &str| slow[key].as_u64().unwrap();
    assert_eq!(slow["thread"], "light");
    assert!(
        (10_000_000..10_500_000).contains(&number("fastest_ns")),
        "{slow:#}"
    );
    assert!(number("ran_ns") > 2 * number("fastest_ns"), "{slow:#}");
    assert!(
        number("ran_ns") <= number("to_ns") - number("from_ns"),
        "{slow:#}"
    );
    // The first microseconds, in which it pins itself, do not count.
    let ran = slow["ran"].as_array().unwrap().last().unwrap();
    assert_eq!(ran["cpu"], 2);
    assert!(
        ran["ns"].as_u64().unwrap() + 100_000 > number("ran_ns"),
        "{slow:#}"
    );
    assert!(
        ran["from_ns"].as_u64().unwrap() > number("from_ns"),
        "{slow:#}"
    );
    assert_eq!(slow["idle_ns"][0], number("to_ns") - number("from_ns"));
    let said = of("tc2", &[]);
    let first = said.find("light took ").unwrap();
    assert!(
        said.find("light waited 4.00 us from ")
            .is_none_or(|wait| first < wait),
        "{said}"
    );
    for words in [
        "on the fastest CPU the same work takes 10.",
        "CPU 0 idles, for",
        "speed 1024 of 1024",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let same: Value = serde_json::from_str(&of("smp-8", &["--format", "json"])).unwrap();
    assert_eq!(same["slow"].as_array().unwrap().len(), 0);
}

const TALKS: &str = r#"#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(talks_enqueue, struct task_struct *p, u64 enq_flags)
{
    bpf_printk("%s takes turns of %d ms", p->comm, 20);
    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 20000000, enq_flags);
}
SCX_OPS_DEFINE(talks_ops, .enqueue = (void *)talks_enqueue, .name = "talks");
"#;

#[test]
fn lines_that_a_scheduler_in_c_prints_about_a_thread_are_shown() {
    let (_folder, source) = file("talks.bpf.c", TALKS);
    let more = [
        "--scheduler",
        &source,
        "--task",
        "background-3",
        "--worst",
        "1",
    ];
    let args = args("smp-2", "mixed:duration=1", &more);
    let said = stdout(&args);
    has!(said, "the scheduler says ");
    has!(said, "background-3 takes turns of 20 ms");
    assert!(!said.contains("ui takes turns"), "{said}");
    let result = json(&[&args[..], &["--format", "json"]].concat());
    let chain = waits(&result)[0]["chain"].as_array().unwrap();
    let lines: Vec<_> = chain.iter().filter(|step| step["what"] == "said").collect();
    assert_eq!(lines[0]["line"], "background-3 takes turns of 20 ms");
}

/// The parts of a period's time by reason, and the whole, ns.
fn went(side: &Value) -> (u64, u64) {
    let parts = side["parts"].as_object().unwrap();
    let sum = parts.values().map(|ns| ns.as_u64().unwrap()).sum();
    (sum, ns(side))
}

#[test]
fn a_period_stands_beside_the_same_one_under_another_policy() {
    let more = words("--policy eevdf --diff equipoise --task decoder");
    let load = args("tc2", "mixed:duration=5", &more);
    let both = json(&[&load[..], &["--format", "json"]].concat());
    let [first, second] = both["sides"].as_array().unwrap().as_slice() else {
        panic!("{both:#}");
    };
    assert_eq!(
        (&first["policy"], &second["policy"]),
        (&"eevdf".into(), &"equipoise".into())
    );
    for side in [first, second] {
        let (sum, all) = went(side);
        assert!(sum.abs_diff(all) < 10, "{sum} of {all}: {side:#}");
        let thread = &side["whole"]["thread"];
        assert_eq!(thread, &both["thread"]);
    }
    // The explained period lost time under `eevdf`. The period that is shown beside it may end before it begins, but by
    // less than 100 ms.
    assert!(first["cause"]["says"].is_string(), "{first:#}");
    let at = |side: &Value, key: &str| side[key].as_u64().unwrap();
    let apart = at(first, "from_ns").saturating_sub(at(second, "to_ns"));
    assert!(apart < 100_000_000, "{apart}");

    let shown = stdout(&load);
    let thread = both["thread"].as_str().unwrap();
    has!(shown, &format!("\n{thread} took "));
    for expected in [
        "Under eevdf: ",
        "Under equipoise: ",
        " slept after ",
        "eevdf: all of the period",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let nearest = format!("No period of {thread} contains 100.000000 s; the nearest one is shown.");
    assert!(!shown.contains("No period of"), "{shown}");
    has!(stdout(&[&load[..], &["--at", "100s"]].concat()), &nearest);
}

/// A policy compared with itself, whose default is spelled out, shows no difference at any time.
#[test]
fn a_period_beside_itself_is_the_same() {
    for at in [&[][..], &["--at", "1.3s"]] {
        let same = "cfs:sched_migration_cost_ns=500000";
        let more = ["--policy", "cfs", "--diff", same, "--format", "json"];
        let load = args("tc2", "mixed:duration=2", &more);
        let mut both = json(&[&load[..], at].concat());
        for (side, name) in [(0, "cfs"), (1, same)] {
            assert_eq!(both["sides"][side]["policy"].take(), name);
        }
        assert_eq!(both["sides"][0], both["sides"][1]);
    }
}

#[test]
fn a_policy_beside_itself_is_refused() {
    for more in [
        &["--diff", "equipoise"][..],
        &["--policy", "cfs", "--diff", "cfs"],
    ] {
        let message = run_badly(&args("tc2", "mixed", more));
        has!(message, "this is the explained policy itself");
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
    }
}

#[test]
fn a_period_beside_a_policy_that_is_unknown_is_one_line() {
    let error = run_badly(&args("tc2", "mixed", &["--diff", "eevfd"]));
    assert!(
        error.contains("eevfd") && error.contains("eevdf"),
        "{error}"
    );
}
