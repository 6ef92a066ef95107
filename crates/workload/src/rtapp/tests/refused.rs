//! Refused files, with the line and the expectation in the message.

use super::*;

/// As [`all_refused`], with lines inside `tasks`.
#[track_caller]
fn refused(table: &str) {
    all_refused(
        |line| parse(&format!("{{ \"tasks\": {{\n{line}\n}} }}")),
        table,
    );
}

#[test]
fn refuses_what_it_does_not_know() {
    refused(
        r#"
        "a": { "rum": 1 }                                        | unknown key `rum` in task `a` | run, sleep
        "a": { "run": 1, "loops": 1 }                            | unknown key `loops` | loop
        "a": { "phases": { "p": { "delay": 1, "run": 1 } } }     | unknown key `delay` in phase `p` | loop
        "a": { "run": 1, "util_mean": 1 }                        | unknown key `util_mean` | priority
        "a": { "memrun": {} }                                    | `memrun` lacks `type` | an object with `type`
        "a": { "timer": { "ref": "x", "period": 1, "unit": 1 } } | unknown key `unit` | ref, period, mode
        "#,
    );
}

#[test]
fn refuses_wrong_types_and_ranges() {
    refused(
        r#"
        "a": { "run": "1" }                                          | `run` is "1" | work in us, an integer from 0
        "a": { "run": 1.5 }                                          | `run` is 1.5 | integer
        "a": { "sleep": -1 }                                         | `sleep` is -1 | from 0
        "a": { "run": 99999999999 }                                  | `run` is 99999999999 | to 2147483647
        "a": { "delay": -5, "run": 1 }                               | `delay` is -5 | in us
        "a": { "run" }                                               | `run` has no value | work in us
        "a": { "loop": 0, "run": 1 }                                 | `loop` is 0 | -1 for no limit
        "a": { "loop": -2, "run": 1 }                                | `loop` is -2 | -1 for no limit
        "a": { "instance": -1, "run": 1 }                            | `instance` is -1 | from 0
        "a": { "lock": 3, "unlock": 3 }                              | `lock` is 3 | mutex's name, a string
        "a": { "timer": 5 }                                          | `timer` is 5 | { ref, period, mode }
        "a": { "timer": { "ref": "x", "period": 1, "mode": "abs" } } | `mode` is "abs" | did you mean `absolute`
        "a": { "cpus": 0, "run": 1 }                                 | `cpus` is 0 | array of CPU numbers
        "a": { "cpus": [], "run": 1 }                                | `cpus` is an empty array | [0, 2]
        "a": { "cpus": [0, -1], "run": 1 }                           | `cpus` has -1 | array of CPU numbers
        "a": { "cpus": [4096], "run": 1 }                            | `cpus` has 4096 | below 4096
        "a": { "taskgroup": "x", "run": 1 }                          | `taskgroup` is "x" | begins with `/`
        "a": { "cpu_time": "most", "run": 1 }                        | `cpu_time` is "most" | `more` or `less`
        "a": 5                                                       | `a` is 5 | a task, an object
        "a": { "phases": {} }                                        | `phases` is an empty object | at least one phase
        "a": { "phases": { "p": {} } }                               | `p` has no events | run
        "a": { "loop": 1 }                                           | `a` has no events | run
        "#,
    );
}

#[test]
fn words_of_an_expectation_are_not_suggested() {
    for event in [r#""run": "x""#, r#""sleep": "time""#, r#""lock": 5"#] {
        let text = format!(r#"{{ "tasks": {{ "a": {{ {event} }} }} }}"#);
        let error = parse(&text).err().unwrap();
        assert!(
            error.expected().starts_with("expected "),
            "{}",
            error.expected()
        );
    }
}

#[test]
fn refuses_bad_scheduling_settings() {
    refused(
        r#"
        "a": { "policy": "SCHED_NORMAL", "run": 1 }                      | `policy` is "SCHED_NORMAL" | SCHED_OTHER
        "a": { "priority": 20, "run": 1 }                                | `priority` is 20 | from -20 to 19
        "a": { "policy": "SCHED_RR", "priority": 0, "run": 1 }           | `priority` is 0 | from 1 to 99
        "a": { "policy": "SCHED_FIFO", "phases": { "p": { "priority": -3, "run": 1 } } } | `priority` is -3 | from 1 to 99
        "a": { "policy": "SCHED_DEADLINE", "run": 1 }                    | SCHED_DEADLINE with a runtime of 0 | dl-runtime
        "a": { "policy": "SCHED_DEADLINE", "dl-runtime": 9, "dl-period": 5, "run": 1 } | SCHED_DEADLINE with a runtime of 9 | <= dl-period
        "a": { "policy": "SCHED_DEADLINE", "dl-runtime": 9, "phases": { "p": { "dl-period": 20, "run": 1 } } } | SCHED_DEADLINE with a runtime of 0 | dl-runtime
        "a": { "policy": "SCHED_DEADLINE", "dl-runtime": 9, "phases": { "p": { "priority": 1, "run": 1 } } } | SCHED_DEADLINE with a runtime of 0 | dl-runtime
        "#,
    );
}

#[test]
fn refuses_a_taskgroup_with_another_policy_than_a_fair_one() {
    refused(
        r#"
        "a": { "policy": "SCHED_FIFO", "taskgroup": "/g", "run": 1 } | `a` has a taskgroup and is SCHED_FIFO | SCHED_OTHER
        "a": { "taskgroup": "/", "phases": { "p": { "policy": "SCHED_RR", "run": 1 } } } | `p` has a taskgroup and is SCHED_RR | SCHED_IDLE
        "a": { "policy": "SCHED_BATCH", "phases": { "p": { "taskgroup": "/g", "run": 1 }, "q": { "policy": "SCHED_FIFO", "run": 1 } } } | `q` has a taskgroup and is SCHED_FIFO | SCHED_OTHER
        "#,
    );
    let allowed = r#"{ "tasks": { "a": { "policy": "SCHED_FIFO", "phases": {
        "p": { "taskgroup": "", "run": 1 }, "q": { "policy": "SCHED_IDLE", "taskgroup": "/g", "run": 1 } } } } }"#;
    assert!(parse(allowed).is_ok());
}

#[test]
fn refuses_control_groups_that_are_no_path_or_stand_twice() {
    let read = |groups: &str| {
        parse(&format!(
            "{{ \"tasks\": {{ \"a\": {{ \"run\": 1 }} }}, \"taskgroups\": {{\n{groups}\n}} }}"
        ))
    };
    all_refused(
        read,
        r#"
        "a": {}             | `a` is not the path of a cgroup | begins with `/`
        "/a/../b": {}       | `/a/../b` is not the path of a cgroup | without `.` and `..`
        "/": {}             | `/` is the root | below `/`
        "/a": {}, "/a/": {} | control group `/a/` already has settings above | once
        "#,
    );
}

#[test]
fn refuses_keys_that_stand_twice() {
    refused(
        r#"
        "a": { "loop": 1, "loop": 2, "run": 1 } | `loop` occurs twice | once
        "a": { "run": 1 }, "a": { "run": 1 }    | `a` occurs twice | once
        "#,
    );
    let twice = parse("{ \"tasks\": { \"a\": { \"run\": 1 } },\n\"tasks\": {} }");
    assert!(
        twice
            .err()
            .unwrap()
            .message()
            .starts_with("t.json:2: `tasks` occurs twice")
    );
}

#[test]
fn refuses_what_could_never_run_or_go_on() {
    refused(
        r#"
        "a": { "fork": "b" }                                         | `fork` is "b" | one of the tasks a
        "a": { "suspend": "b" }                                      | nothing ever wakes the waiters for `b` | resume
        "a": { "sem_wait": "b" }                                     | nothing ever wakes the waiters for `semaphore b` | sem_post
        "a": { "memrun": { "type": "copy", "size": 1, "count": 1 } } | `type` is "copy" | read, write, chase
        "a": { "run": 1, "phases": { "p": { "run": 1 } } }           | event `run` next to `phases` | inside a phase
        "a": { "unlock": "m" }                                       | `m` is unlocked but not held | `lock` before
        "a": { "lock": "m" }                                         | `m` is locked again by the task that already holds it | `unlock`
        "a": { "loop": 1, "lock": "m" }                              | task `a` never unlocks `m` | `unlock`
        "a": { "policy": "SCHED_DEADLINE", "dl-runtime": 9, "fork": "a" } | task `a` forks while it is SCHED_DEADLINE | EAGAIN
        "a": { "phases": { "p": { "fork": "a" }, "q": { "policy": "SCHED_DEADLINE", "dl-runtime": 9, "run": 1 } } } | task `a` forks | EAGAIN
        "a": { "wait": { "ref": "c", "mutex": "m" } }                | the wait uses mutex `m`, which is not held | `lock`
        "#,
    );
}

#[test]
fn refuses_barriers_that_can_never_be_passed() {
    let text = "{ \"tasks\": {\n\
        \"a\": { \"barrier\": \"x\", \"run\": 1, \"barrier\": \"y\" },\n\
        \"b\": { \"barrier\": \"y\", \"barrier\": \"z\" },\n\
        \"c\": { \"barrier\": \"z\",\n\"barrier\": \"x\" } } }";
    let error = parse(text).err().unwrap();
    assert_eq!(error.message(), "t.json:5: barrier `x` can never be passed");
    refused(
        r#"
        "a": { "barrier": "x", "barrier": "x" }                      | barrier `x` occurs twice | a different name
        "a": { "instance": 0, "barrier": "x" }, "b": { "fork": "a" } | barrier `x` is in task `a`, which is forked | instance
        "#,
    );
}

#[test]
fn refuses_wrong_files_and_globals() {
    let error = |text| parse(text).err().unwrap();
    assert!(
        error("[]")
            .message()
            .starts_with("t.json:1: the file is an empty array")
    );
    assert!(
        error("\n{ }")
            .message()
            .starts_with("t.json:2: `tasks` is missing")
    );
    assert!(
        error("{ \"tasks\": {} }")
            .message()
            .contains("starts no thread")
    );
    for (key, expected) in [
        ("\"duration\": 0", "at least 1 second"),
        ("\"duration\": \"2\"", "seconds"),
        ("\"default_policy\": \"FIFO\"", "SCHED_FIFO"),
        ("\"calibration\": \"cpu0\"", "CPU0"),
        ("\"calibration\": 0", "ns per loop"),
        ("\"gnuplot\": 1", "true or false"),
        ("\"mem_buffer_size\": 0", "bytes"),
        ("\"durations\": 1", "duration"),
    ] {
        let text =
            format!("{{ \"tasks\": {{ \"a\": {{ \"run\": 1 }} }}, \"global\": {{\n{key} }} }}");
        let error = parse(&text)
            .err()
            .unwrap_or_else(|| panic!("accepted {key}"));
        assert!(error.message().starts_with("t.json:2: "), "{error}");
        assert!(error.expected().contains(expected), "{}", error.expected());
    }
}
