//! The section `timeline`.

use super::*;
use crate::timeline::{Change, Limit, Timed};

fn file(timeline: &str) -> Result<RtApp, Box<BadInput>> {
    parse(&format!(
        "{{ \"tasks\": {{ \"a\": {{ \"run\": 1 }} }}, \"timeline\": [\n{timeline}\n] }}"
    ))
}

fn machine(name: &str) -> Machine {
    Machine::find(name).unwrap()
}

#[test]
fn changes_are_in_order_of_time() {
    let workload = file(
        r#" { "at": 3000, "cpus": [3], "online": true },
            { "at": 1000, "cpus": [3, 2], "online": false },
            { "at": 2000, "cpus": [0], "scaling_max_freq": "40%" },
            { "at": 2000, "cpus": [4], "scaling_max_freq": 900000 } "#,
    );
    let machine = machine("hikey-6220");
    let workload = workload.unwrap();
    workload.check(&machine).unwrap();
    let cpus = |list: &str| list.parse().unwrap();
    let at = |ms: u64, change| Timed {
        at_ns: ms * 1_000_000,
        change,
    };
    let expected = [
        at(1, Change::Online(cpus("2-3"), false)),
        at(2, Change::MaxFreq(cpus("0"), Limit::Percent(40))),
        at(2, Change::MaxFreq(cpus("4"), Limit::Khz(900_000))),
        at(3, Change::Online(cpus("3"), true)),
    ];
    assert_eq!(workload.start(&machine).timeline, expected);
}

#[test]
fn mistakes_are_refused_on_their_line() {
    all_refused(
        file,
        r#"
        1                                                               | `timeline` has 1 | an array of changes
        { "cpus": [0], "online": false }                                | `at` is missing | `at`, `cpus`
        { "at": 1, "online": false }                                    | `cpus` is missing | `at`, `cpus`
        { "at": 1, "cpus": [0] }                                        | `online` is missing | scaling_max_freq
        { "at": 1, "cpus": [], "online": true }                         | `cpus` is | an array of CPU numbers
        { "at": -1, "cpus": [0], "online": true }                       | `at` is -1 | from 0
        { "at": 1, "cpus": [0], "online": 0 }                           | `online` is 0 | true or false
        { "at": 1, "cpu": 0, "online": true }                           | unknown key `cpu` | at, cpus, online
        { "at": 1, "at": 1, "cpus": [0] }                               | `at` occurs twice | once
        { "at": 1, "cpus": [0], "online": true, "scaling_max_freq": 1 } | one change has both `online` and `scaling_max_freq` | one of the two keys
        { "at": 1, "cpus": [0], "scaling_max_freq": 0 }                 | `scaling_max_freq` is 0 | kHz
        { "at": 1, "cpus": [0], "scaling_max_freq": "0%" }              | `scaling_max_freq` is | 40%
        { "at": 1, "cpus": [0], "scaling_max_freq": "40" }              | `scaling_max_freq` is | 40%
        "#,
    );
    let error = parse("{ \"tasks\": { \"a\": { \"run\": 1 } },\n\"timeline\": {} }")
        .err()
        .unwrap();
    assert!(
        error.message().starts_with("t.json:2: `timeline` is"),
        "{error}"
    );
}

#[test]
fn changes_that_the_machine_does_not_support_are_refused() {
    for (timeline, name, message) in [
        (
            r#"{ "at": 1, "cpus": [8], "online": false }"#,
            "hikey-6220",
            "CPUs 8: machine",
        ),
        (
            r#"{ "at": 1, "cpus": [0, 1], "online": false }"#,
            "tc2-smp",
            "no CPU is online",
        ),
        (
            r#"{ "at": 1, "cpus": [0], "scaling_max_freq": 900000 }"#,
            "tc2",
            "CPU 0 of machine `tc2` has only one frequency",
        ),
    ] {
        let error = file(timeline).unwrap().check(&machine(name)).err().unwrap();
        let start = format!("t.json:2: {message}");
        assert!(error.message().starts_with(&start), "{error}");
    }
    let back = r#" { "at": 1, "cpus": [0], "online": false }, { "at": 2, "cpus": [0], "online": true },
                   { "at": 3, "cpus": [1], "online": false } "#;
    file(back).unwrap().check(&machine("tc2-smp")).unwrap();
}
