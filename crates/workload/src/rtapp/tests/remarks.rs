//! Files that rt-app runs, too, although a part of them has no effect, or has a different effect in rt-app; and files
//! with json-c's quotes, semaphores and `memrun`.

use super::*;
use crate::fake::Kernel;

fn notes(tasks: &str) -> Vec<String> {
    let text = format!("{{ \"tasks\": {{ {tasks} }} }}");
    let workload = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    workload.notes()
}

#[test]
fn a_waker_without_a_waiter_does_nothing() {
    for waker in ["resume", "signal", "broad"] {
        let task = format!(r#" "a": {{ "loop": 2, "run": 1000, "{waker}": "missing" }} "#);
        assert_eq!(
            notes(&task),
            ["no task ever waits for missing, which other tasks wake."]
        );
    }
}

#[test]
fn rt_apps_defaults_are_taken_with_a_remark() {
    for (task, kind, key, default) in [
        (
            r#""timer": { "period": 1000 }"#,
            "timer",
            "ref",
            "`unknown`",
        ),
        (r#""timer": { "ref": "unique" }"#, "timer", "period", "0"),
        (
            r#""lock": "unknown", "wait": { "ref": "c" }, "unlock": "unknown""#,
            "wait",
            "mutex",
            "`unknown`",
        ),
    ] {
        let tasks = format!(
            r#" "a": {{ "loop": 1, "run": 1, {task} }}, "b": {{ "loop": 1, "sleep": 9, "signal": "c" }} "#
        );
        let note =
            format!("a `{kind}` lacks `{key}`, for which {default} is used, as rt-app does.");
        assert!(notes(&tasks).contains(&note), "{:?}", notes(&tasks));
    }
}

#[test]
fn a_task_without_threads_may_never_run() {
    let tasks =
        r#" "a": { "instance": 0, "run": 1, "barrier": "x" }, "b": { "run": 1, "barrier": "x" } "#;
    assert_eq!(
        notes(tasks),
        ["task a starts no thread, and no task forks it."]
    );
    let text = r#"{ "tasks": { "a": { "instance": 0, "run": 1 } } }"#;
    let error = parse(text).err().unwrap();
    assert!(
        error.message().contains("`tasks` starts no thread"),
        "{error}"
    );
}

/// Versions of rt-app since June 2025 ignore the string of `suspend`.
#[test]
fn a_suspend_under_another_name_is_named() {
    let suspend = |name: &str| {
        notes(&format!(
            r#" "a": {{ "run": 1, "resume": "b", "sleep": 9 }}, "b": {{ "suspend"{name}, "run": 5 }} "#
        ))
    };
    assert!(suspend("").is_empty());
    assert!(suspend(r#": "b""#).is_empty());
    let other = notes(
        r#" "a": { "run": 1, "resume": "c", "sleep": 9 }, "b": { "suspend": "c", "run": 5 } "#,
    );
    assert_eq!(other.len(), 1);
    assert!(
        other[0].starts_with("task b suspends until c is resumed; rt-app since June 2025 ignores"),
        "{other:?}"
    );
}

/// Versions of rt-app since February 2025 request a slice with `runtime`.
#[test]
fn a_runtime_that_may_be_a_slice_is_named() {
    let runtime = |more: &str| notes(&format!(r#" "a": {{ {more} "loop": 1, "runtime": 300 }} "#));
    let slice = "task a has the default slice; rt-app since February 2025 takes its `runtime` also as `dl-runtime`, \
                 a slice of 300 us.";
    assert_eq!(runtime(""), [slice]);
    assert_eq!(runtime(r#""policy": "SCHED_BATCH","#), [slice]);
    assert!(runtime(r#""dl-runtime": 500,"#).is_empty());
    assert!(runtime(r#""policy": "SCHED_IDLE","#).is_empty());
    assert!(runtime(r#""policy": "SCHED_DEADLINE", "dl-period": 900,"#).is_empty());
    assert!(notes(r#" "a": { "loop": 1, "runtime1": 300 } "#).is_empty());
}

#[test]
fn json_c_takes_single_quotes() {
    let text = "{ 'tasks': { 'a': { \"loop\": 1, 'lock': 'it\\'s', 'unlock': \"it's\" } } }";
    assert!(parse(text).is_ok());
}

#[test]
fn semaphores_count() {
    let text = r#"{ "tasks": {
        "a": { "loop": 1, "sem_post": "s", "sem_post2": "s", "sleep": 20000, "sem_post3": "s" },
        "b": { "loop": 3, "delay": 5000, "sem_wait": "s", "run": 1000 } } }"#;
    let workload = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert!(workload.notes().is_empty());
    let kernel = Kernel::run(&workload, 2);
    let period = workload
        .metrics()
        .iter()
        .position(|it| it.name == "b/period");
    let periods = kernel.recorder.samples(period.unwrap()).to_vec();
    assert_eq!(periods[..2], [1_000.0; 2]);
    // The third wait lasts until 20 ms, and timer slack, after the beginning.
    assert!((13_000.0..15_000.0).contains(&periods[2]), "{periods:?}");
}

#[test]
fn a_semaphore_has_a_deadline() {
    let text = r#"{ "tasks": {
        "a": { "loop": 9, "run": 100, "sem_post": "s", "timer": { "ref": "unique", "period": 10000 } },
        "b": { "loop": 9, "sem_wait": "s", "run": 1000 } } }"#;
    let workload = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert!(workload.metrics().iter().any(|it| it.name == "b/missed"));
}

#[test]
fn memrun_is_work() {
    let time = |event: &str| {
        let text = format!(r#"{{ "tasks": {{ "a": {{ "loop": 1, "memrun": {{ {event} }} }} }} }}"#);
        let workload = parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let kernel = Kernel::run(&workload, 1);
        let period = workload
            .metrics()
            .iter()
            .position(|it| it.name == "a/period");
        kernel.recorder.samples(period.unwrap())[0]
    };
    assert_eq!(
        time(r#" "type": "read", "size": 4096, "count": 5000 "#),
        5.0
    );
    assert_eq!(
        time(r#" "type": "write", "size": 4096, "count": 9000, "ref": "x" "#),
        9.0
    );
    let chase = |size: u32, more: &str| {
        time(&format!(
            r#" "type": "chase", "size": {size}, "count": 1000{more} "#
        ))
    };
    let (near, far) = (chase(16 << 10, ""), chase(64 << 20, r#", "stride": 64"#));
    assert!(near < far, "{near} {far}");
    assert_eq!(chase(64 << 20, r#", "pattern": "sequential""#), near);
}
