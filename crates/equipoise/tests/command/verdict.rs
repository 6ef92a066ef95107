//! The verdict of a comparison, in words and in few numbers.

use crate::common::{file, json, stdout};
use serde_json::Value;

fn args<'a>(
    machine: &'a str,
    workload: &'a str,
    policies: &[&'a str],
    more: &[&'a str],
) -> Vec<&'a str> {
    let mut args = vec!["compare", "--machine", machine, "--workload", workload];
    for policy in policies {
        args.extend(["--policy", policy]);
    }
    if !more.contains(&"--runs") {
        args.extend(["--runs", "3"]);
    }
    args.extend(more);
    args
}

fn line<'a>(text: &'a str, goal: &str) -> &'a str {
    let start = format!("{goal}: ");
    let found = text.lines().find(|line| line.starts_with(&start));
    found.unwrap_or_else(|| panic!("no line about {goal} in {text}"))
}

fn entry<'a>(result: &'a Value, policy: &str, metric: &str) -> &'a Value {
    let entries = result["results"].as_array().unwrap();
    let fits = |entry: &&Value| entry["policy"] == policy && entry["metric"] == metric;
    entries
        .iter()
        .find(fits)
        .unwrap_or_else(|| panic!("no {metric}"))
}

#[test]
fn each_goal_has_a_winner_and_its_price() {
    let policies = ["eevdf", "cfs", "capacity"];
    let text = stdout(&args("tc2", "mixed:duration=2", &policies, &[]));
    let verdict: Vec<&str> = text
        .lines()
        .skip(3)
        .take_while(|line| !line.is_empty())
        .collect();
    assert!((3..=4).contains(&verdict.len()), "{text}");
    for goal in ["Latency", "Throughput", "Fairness"] {
        assert!(verdict.contains(&line(&text, goal)), "{verdict:?}");
    }
    // On such a machine, Linux 3.9 cannot give busy loops equal shares of the CPUs' time.
    let busy = ["cfs", "hperf"];
    let text = stdout(&args(
        "odroid-xu3",
        "busy:threads=6,duration=2s",
        &busy,
        &[],
    ));
    assert!(
        line(&text, "Fairness").starts_with("Fairness: hperf is best: equal threads "),
        "{text}"
    );
    let only = stdout(&args(
        "odroid-xu3",
        "busy:threads=6,duration=2s",
        &busy,
        &["--goal", "fairness"],
    ));
    assert_eq!(line(&only, "Fairness"), line(&text, "Fairness"));
    assert!(!only.contains("Throughput"), "{only}");
    assert!(only.contains("spread") && !only.contains("work"), "{only}");
    has!(text, "`change` is the change of the geometric mean");
    assert!(!only.contains("`change`"), "{only}");
    let none = stdout(&args(
        "odroid-xu3",
        "busy:duration=10ms",
        &busy,
        &["--goal", "latency"],
    ));
    has!(none, "Latency: this workload has no measure for this goal.");
    let unknown = stdout(&args(
        "smp-8",
        "busy:duration=10ms",
        &busy,
        &["--goal", "energy"],
    ));
    has!(unknown, "Energy: the power of this machine is not known.");
}

/// The spread of equal threads has no change in %, but its runs differ, too: with three runs `equipoise` is best.
#[test]
fn runs_that_differ_in_spread_may_be_told_apart_by_more_runs() {
    let policies = ["eevdf", "equipoise"];
    let fairness = |runs| {
        let more = ["--goal", "fairness", "--runs", runs];
        stdout(&args(
            "smp-2",
            "busy:threads=3,duration=100ms",
            &policies,
            &more,
        ))
    };
    let two = fairness("2");
    has!(
        two,
        "Fairness: no significant difference of 1 % or more.\nThis comparison cannot tell the policies apart: the runs \
         of a policy differ by more than the policies do (± "
    );
    has!(two, " points). More runs may tell them apart.");
    has!(fairness("3"), "Fairness: equipoise is best");
}

#[test]
fn nothing_is_marked_where_nothing_differs() {
    // The same policy under another name: every number is the same.
    let policies = ["cfs", "cfs:newidle_limit_ns=0"];
    let text = stdout(&args("tc2", "mixed:duration=500ms", &policies, &["--all"]));
    assert!(!text.contains('*'), "{text}");
    assert!(!text.contains("-0.0"), "{text}");
    for goal in ["Latency", "Throughput", "Fairness"] {
        assert!(
            line(&text, goal).ends_with("no significant difference of 1 % or more."),
            "{text}"
        );
    }
    let same = "This comparison cannot tell the policies apart";
    has!(text, same);
    let policies = ["cfs", "hperf"];
    let others = stdout(&args(
        "odroid-xu3",
        "busy:threads=6,duration=2s",
        &policies,
        &[],
    ));
    assert!(!others.contains(same), "{others}");
}

#[test]
fn one_run_is_no_verdict() {
    let text = stdout(&args(
        "tc2",
        "busy:duration=10ms",
        &["cfs", "hperf"],
        &["--runs", "1"],
    ));
    has!(
        text,
        "No verdict: one run cannot show which differences are significant."
    );
}

#[test]
fn a_large_group_has_a_spread_and_no_row_for_each_thread() {
    let spin = r#"{ "instance": 24, "loop": -1, "run": 1000 }"#;
    let load = format!(r#"{{ "tasks": {{ "spin": {spin} }}, "global": {{ "duration": 2 }} }}"#);
    let (_folder, file) = file("crowd.json", load);
    let policies = ["linaro-mp", "equipoise"];
    let result = json(&args("tc2", &file, &policies, &["--format", "json"]));
    // For each thread, the number of its completed loops counts.
    for policy in policies {
        let period = entry(&result, policy, "spin/period");
        let spread = entry(&result, policy, "spin/spread");
        assert_eq!(spread["decides"], true);
        for (run, fewest) in [0, 1].map(|run| (run, period["fewest"][run].as_f64().unwrap())) {
            let mean = period["runs"][run]["n"].as_f64().unwrap() / 24.0;
            let least = 100.0 * (mean - fewest) / mean;
            let spread = spread["runs"][run]["mean"].as_f64().unwrap();
            assert!((0.0..100.0).contains(&least), "{fewest} of {mean}");
            assert!(spread >= least, "{policy}: {spread} %, {least} %");
        }
    }
    // Under linaro-mp the threads of a big CPU do more than those of a little one.
    let spread = |policy| {
        entry(&result, policy, "spin/spread")["mean"]
            .as_f64()
            .unwrap()
    };
    let [linaro, equipoise] = policies.map(spread);
    assert!(
        linaro > 20.0 && equipoise < 20.0,
        "{linaro} and {equipoise}"
    );
    let text = stdout(&args("tc2", &file, &policies, &[]));
    has!(text, "Fairness: equipoise is best");
    assert!(
        text.contains(" spread\n") && !text.contains("spin-"),
        "{text}"
    );
}

#[test]
fn threads_that_do_the_same_are_one_measure() {
    let result = json(&args(
        "tc2",
        "mixed:duration=1",
        &["cfs"],
        &["--format", "json"],
    ));
    let samples = |metric: &str| entry(&result, "cfs", metric)["n"].as_u64().unwrap();
    assert_eq!(
        samples("background/period"),
        samples("background-3/period") + samples("background-4/period")
    );
    let part = |metric: &str| entry(&result, "cfs", metric)["part"].as_bool().unwrap();
    assert!(part("background-3/period") && !part("background/period"));
    let spread = &entry(&result, "cfs", "background/spread")["mean"];
    assert!((0.0..100.0).contains(&spread.as_f64().unwrap()), "{spread}");
    let text = stdout(&args("tc2", "mixed:duration=1", &["cfs"], &[]));
    assert!(!text.contains("background-3"), "{text}");
}

#[test]
fn a_period_that_a_timer_gives_has_no_better() {
    let result = json(&args(
        "tc2",
        "mixed:duration=1",
        &["cfs", "hperf"],
        &["--format", "json"],
    ));
    for (metric, better) in [
        ("ui/period", "neither"),
        ("render/period", "neither"),
        ("background/period", "lower"),
        ("ui/response", "lower"),
    ] {
        assert_eq!(entry(&result, "cfs", metric)["better"], better, "{metric}");
    }
    assert_eq!(entry(&result, "hperf", "ui/period")["best"], false);
}

const LATE: &str = r#"{ "global": { "duration": 1 }, "tasks": { "late": { "cpus": [0],
    "run": 15000, "timer": { "ref": "unique", "period": 10000, "mode": "absolute" } } } }"#;

#[test]
fn missed_periods_are_counted_and_response_times_grow_with_them() {
    let (_folder, file) = file("late.json", LATE);
    let result = json(&args("smp-2", &file, &["cfs"], &["--format", "json"]));
    let of = |metric: &str, what: &str| entry(&result, "cfs", metric)[what].as_f64().unwrap();
    assert_eq!(of("late/missed", "mean"), 100.0);
    let (first, last) = (of("late/response", "min"), of("late/response", "max"));
    assert!((14_990.0..15_100.0).contains(&first), "{first}");
    assert!(last > 300_000.0, "{last}");
}

/// A thread that works for 1 ms when another one tells it to, on a CPU that a third one uses.
const WAKES: &str = r#"{ "global": { "duration": 1 }, "tasks": {
    "hog": { "cpus": [0], "run": 1000 },
    "wakes": { "cpus": [0], "suspend": "wakes", "run": 1000 },
    "timer": { "cpus": [1], "run": 100, "resume": "wakes", "timer": { "ref": "unique", "period": 20000 } } } }"#;

#[test]
fn a_thread_that_waits_for_another_has_a_wakeup_latency_too() {
    let (_folder, file) = file("wakes.json", WAKES);
    let result = json(&args("smp-2", &file, &["cfs"], &["--format", "json"]));
    let of = |metric: &str| entry(&result, "cfs", metric)["mean"].as_f64().unwrap();
    let (latency, response) = (of("wakes/wu_lat"), of("wakes/response"));
    assert!(latency > 1.0 && latency < 10_000.0, "{latency}");
    assert!(
        response > latency + 990.0 && response < 20_000.0,
        "{response}"
    );
}

/// A thread that a timer wakes wakes another one, which needs more than the timer's period.
const CHAIN: &str = r#"{ "global": { "duration": 1 }, "tasks": {
    "ui": { "run": 1000, "resume": "render", "timer": { "ref": "unique", "period": 10000 } },
    "render": { "suspend": "render", "run": 15000 } } }"#;

#[test]
fn a_thread_woken_by_another_misses_the_period_of_the_chain() {
    let (_folder, file) = file("chain.json", CHAIN);
    let result = json(&args("smp-2", &file, &["cfs"], &["--format", "json"]));
    let missed = |task: &str| {
        let entry = entry(&result, "cfs", &format!("{task}/missed"));
        (entry["mean"].as_f64().unwrap(), entry["decides"].clone())
    };
    assert_eq!(missed("ui"), (0.0, true.into()));
    assert_eq!(missed("render"), (100.0, true.into()));
}

#[test]
fn a_price_is_a_number_that_is_worse() {
    // Under `equipoise` the longest wakeup latency of `decoder` is longer in some runs, but the longest of all runs is
    // not.
    let said = stdout(&args(
        "smp-8",
        "mixed",
        &["eevdf", "equipoise"],
        &["--runs", "20"],
    ));
    let latency = said
        .lines()
        .find(|line| line.starts_with("Latency: equipoise is best"));
    assert!(
        !latency
            .unwrap_or_else(|| panic!("{said}"))
            .contains("wu_lat"),
        "{said}"
    );
}

#[test]
fn comma_separated_values_have_every_run() {
    let text = stdout(&args(
        "tc2",
        "busy:duration=10ms",
        &["cfs", "hperf"],
        &["--format", "csv"],
    ));
    let lines: Vec<&str> = text.lines().collect();
    let header = "machine,workload,policy,metric,unit,better,goal,decides,part,run,seed,n,mean,min,max,p50,p95,p99,p999";
    assert_eq!(lines[0], header);
    // Seven measures, four of them of waits and wasted time; two policies, three runs.
    assert_eq!(lines.len(), 1 + 7 * 2 * 3);
    assert!(
        lines[1].starts_with("tc2,busy:duration=10ms,cfs,work,s,higher,throughput,true,false,0,0x")
    );
    let table = stdout("reproduce mixed-capacity --rows sysbench_1t --runs 1 --format csv");
    assert!(
        table.starts_with("experiment,block,row,column,stat,unit,better,published,"),
        "{table}"
    );
    let list = stdout(&["machine", "list", "--format", "csv"]);
    assert!(list.starts_with("name,description\n"), "{list}");
}

#[test]
fn joules_at_full_speed_and_at_the_loads_are_told_apart() {
    let args = |policies| args("snb-laptop", "audio:duration=300ms", policies, &[]);
    let text = stdout(&args(&["cfs", "schedutil"]));
    let says = "frequencies followed the load under";
    assert!(
        text.contains(&format!(
            "energy: the CPUs' {says} schedutil, and were always the highest under cfs."
        )),
        "{text}"
    );
    let text = stdout(&args(&["schedutil", "schedutil-cfs"]));
    assert!(text.contains("mean J") && !text.contains(says), "{text}");
}
