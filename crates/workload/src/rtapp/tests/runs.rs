//! The behaviour of files when they run.

use super::*;
use crate::fake::{self, Kernel};
use crate::{SchedPolicy, UtilClamps};
use machine::CpuMask;

fn tasks(tasks: &str) -> RtApp {
    parse(&format!("{{ \"tasks\": {{ {tasks} }} }}")).unwrap_or_else(|error| panic!("{error}"))
}

fn samples(workload: &RtApp, kernel: &Kernel, name: &str) -> Vec<f64> {
    let metric = workload
        .metrics()
        .iter()
        .position(|metric| metric.name == name)
        .unwrap_or_else(|| panic!("no metric {name}"));
    kernel.recorder.samples(metric).to_vec()
}

fn runs(kernel: &Kernel, task: &str) -> Vec<u64> {
    let own = kernel.runs.iter().filter(|(name, _)| name == task);
    own.map(|&(_, at)| at / 1000).collect()
}

#[test]
fn run_and_sleep_alternate() {
    let workload = tasks(r#" "a": { "loop": 3, "run": 1000, "sleep": 2000 } "#);
    let kernel = Kernel::run(&workload, 1);
    assert_eq!(samples(&workload, &kernel, "a/run"), [1000.0; 3]);
    // The kernel's timer slack of 50 us is part of the period.
    assert_eq!(samples(&workload, &kernel, "a/period"), [3050.0; 3]);
    assert_eq!(samples(&workload, &kernel, "time"), [0.009153]);
}

#[test]
fn a_timer_keeps_the_period_and_measures_slack() {
    let workload = tasks(
        r#" "a": { "loop": 4, "run": 3000, "timer": { "ref": "unique", "period": 10000 } } "#,
    );
    let kernel = Kernel::run(&workload, 1);
    let slack = samples(&workload, &kernel, "a/slack");
    assert_eq!(slack[0], 7000.0);
    // Later loops begin 50 us late by timer slack, and 1 us by the log.
    assert_eq!(slack[1..], [6949.0; 3]);
    assert_eq!(samples(&workload, &kernel, "a/wu_lat"), [50.0; 4]);
}

#[test]
fn a_missed_timer_starts_anew_only_if_it_is_relative() {
    let slack = |mode: &str| {
        let workload = tasks(&format!(
            r#" "a": {{ "loop": 1, "phases": {{
                "late": {{ "run": 25000, "timer": {{ "ref": "unique", "period": 10000, "mode": "{mode}" }} }},
                "early": {{ "run": 1000, "timer": {{ "ref": "unique", "period": 10000 }} }} }} }} "#
        ));
        let kernel = Kernel::run(&workload, 1);
        samples(&workload, &kernel, "a/slack")
    };
    assert_eq!(slack("relative"), [-15000.0, 10000.0 - 1001.0]);
    assert_eq!(slack("absolute"), [-15000.0, 20000.0 - 26001.0]);
}

#[test]
fn instances_share_a_named_timer_and_have_their_own_unique_one() {
    let wakeups = |name: &str| {
        let workload = tasks(&format!(
            r#" "a": {{ "instance": 2, "loop": 2, "run": 100, "timer": {{ "ref": "{name}", "period": 10000 }} }} "#
        ));
        let kernel = Kernel::run(&workload, 2);
        (
            runs(&kernel, "a-0").len(),
            samples(&workload, &kernel, "time")[0],
        )
    };
    let (_, own) = wakeups("unique");
    let (_, shared) = wakeups("tick");
    assert!((0.02..0.021).contains(&own), "{own}");
    assert!((0.04..0.041).contains(&shared), "{shared}");
}

#[test]
fn cumulative_slack_adds_up_the_timers_of_a_phase() {
    let slack = |cumulative: bool| {
        let workload = parse(&format!(
            r#"{{ "global": {{ "cumulative_slack": {cumulative} }}, "tasks": {{ "a": {{ "loop": 1,
                "run": 1000, "timer": {{ "ref": "unique", "period": 5000 }},
                "run": 1000, "timer": {{ "ref": "unique", "period": 5000 }} }} }} }}"#
        ))
        .unwrap();
        let kernel = Kernel::run(&workload, 1);
        samples(&workload, &kernel, "a/slack")
    };
    assert_eq!(slack(false), [3950.0]);
    assert_eq!(slack(true), [4000.0 + 3950.0]);
}

#[test]
fn runtime_ends_by_the_clock() {
    let workload = tasks(r#" "a": { "loop": 1, "runtime": 1000 } "#);
    let kernel = Kernel::run(&workload, 1);
    assert_eq!(samples(&workload, &kernel, "a/run"), [1024.0]);
    let workload = tasks(r#" "a": { "instance": 2, "loop": 1, "runtime": 10000 } "#);
    let kernel = Kernel::run(&workload, 1);
    let time = samples(&workload, &kernel, "time")[0];
    assert!((0.01..0.0102).contains(&time), "{time}");
}

#[test]
fn resume_wakes_every_suspended_task() {
    let workload = tasks(
        r#" "one": { "loop": 2, "suspend", "run": 100 },
            "two": { "loop": 2, "suspend": "one", "run": 100 },
            "waker": { "loop": 2, "sleep": 5000, "resume": "one" } "#,
    );
    let kernel = Kernel::run(&workload, 2);
    assert!(kernel.left().is_empty(), "{:?}", kernel.left());
    for task in ["one", "two"] {
        let periods = samples(&workload, &kernel, &format!("{task}/period"));
        assert!(periods.iter().all(|&us| us > 5000.0), "{periods:?}");
    }
}

#[test]
fn barriers_hold_all_instances() {
    let workload = tasks(
        r#" "a": { "instance": 3, "loop": 2, "run": 100, "barrier": "b" },
            "late": { "loop": 2, "sleep": 9000, "barrier": "b", "run": 100 } "#,
    );
    let kernel = Kernel::run(&workload, 4);
    assert!(kernel.left().is_empty());
    for index in 0..3 {
        let periods = samples(&workload, &kernel, &format!("a-{index}/period"));
        assert!(periods.iter().all(|&us| us > 8000.0), "{periods:?}");
    }
}

#[test]
fn wait_and_signal_pass_a_token() {
    let workload = tasks(
        r#" "a": { "loop": 5, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "run": 10 },
            "b": { "loop": 5, "sleep": 1000, "lock": "m", "signal": "c", "unlock": "m" } "#,
    );
    let kernel = Kernel::run(&workload, 1);
    assert!(kernel.left().is_empty());
    assert_eq!(samples(&workload, &kernel, "a/run"), [10.0; 5]);
}

#[test]
fn delay_counts_from_the_common_start() {
    let workload =
        tasks(r#" "a": { "loop": 1, "run": 10 }, "b": { "delay": 4000, "loop": 1, "run": 10 } "#);
    let kernel = Kernel::run(&workload, 1);
    assert_eq!(runs(&kernel, "a")[0], 0);
    assert_eq!(runs(&kernel, "b")[0], 4050);
}

#[test]
fn fork_starts_another_thread_of_a_task() {
    let workload = tasks(
        r#" "child": { "instance": 0, "loop": 1, "run": 500 },
            "parent": { "loop": 3, "fork": "child", "sleep": 1000 } "#,
    );
    let kernel = Kernel::run(&workload, 2);
    assert_eq!(samples(&workload, &kernel, "child/run"), [500.0; 3]);
    assert_eq!(kernel.tasks.len(), 4);
    assert!(kernel.left().is_empty());
}

#[test]
fn a_task_may_not_fork_for_ever() {
    let workload = tasks(r#" "a": { "loop": -1, "fork": "a" } "#);
    let kernel = Kernel::run(&workload, 2);
    assert_eq!(kernel.tasks.len(), 1 + 1024);
}

#[test]
fn policies_and_priorities_change_by_phase() {
    let workload = tasks(
        r#" "a": { "policy": "SCHED_FIFO", "priority": 30, "loop": 1, "phases": {
                "as-task": { "run": 10 },
                "higher": { "priority": 40, "run": 10 },
                "fair": { "policy": "SCHED_OTHER", "priority": -5, "run": 10 },
                "stays": { "run": 10 } } },
            "dl": { "policy": "SCHED_DEADLINE", "dl-runtime": 1000, "dl-period": 10000, "loop": 1, "phases": {
                "as-task": { "run": 10 },
                "more": { "dl-runtime": 2000, "dl-period": 9000, "run": 10 },
                "all": { "dl-runtime": 3000, "run": 10 },
                "stays": { "run": 10 } } },
            "rr": { "policy": "SCHED_RR", "loop": 1, "run": 10 } "#,
    );
    let kernel = Kernel::run(&workload, 3);
    let of = |task: &str| {
        let own = kernel.policies.iter().filter(|(name, _)| name == task);
        own.map(|&(_, policy)| policy).collect::<Vec<_>>()
    };
    assert_eq!(
        of("a"),
        [
            SchedPolicy::Fifo { priority: 30 },
            SchedPolicy::Fifo { priority: 40 },
            SchedPolicy::Normal {
                nice: -5,
                slice_ns: 0
            },
        ]
    );
    let deadline = |runtime_us: u64, period_us: u64| SchedPolicy::Deadline {
        runtime_ns: runtime_us * 1000,
        deadline_ns: period_us * 1000,
        period_ns: period_us * 1000,
    };
    assert_eq!(
        of("dl"),
        [
            deadline(1000, 10_000),
            deadline(2000, 9000),
            deadline(3000, 3000)
        ]
    );
    assert_eq!(of("rr"), [SchedPolicy::RoundRobin { priority: 10 }]);
}

#[test]
fn fair_tasks_have_slices() {
    let workload = tasks(
        r#" "a": { "priority": 3, "dl-runtime": 200, "loop": 1, "phases": {
                "as-task": { "run": 10 },
                "longer": { "dl-runtime": 5000, "run": 10 },
                "no-deadline": { "dl-period": 5000, "dl-deadline": 4000, "run": 10 },
                "nicer": { "priority": 5, "run": 10 },
                "batch": { "policy": "SCHED_BATCH", "run": 10 } } },
            "event": { "policy": "SCHED_OTHER", "loop": 1, "runtime": 300 } "#,
    );
    let kernel = Kernel::run(&workload, 3);
    let of = |task: &str| {
        let own = kernel.policies.iter().filter(|(name, _)| name == task);
        own.map(|&(_, policy)| policy).collect::<Vec<_>>()
    };
    let normal = |nice, slice_ns| SchedPolicy::Normal { nice, slice_ns };
    assert_eq!(
        of("a"),
        [
            normal(3, 200_000),
            normal(3, 5_000_000),
            normal(5, 5_000_000),
            SchedPolicy::Batch {
                nice: 0,
                slice_ns: 0
            },
        ]
    );
    assert_eq!(of("event"), []);
}

#[test]
fn affinity_is_the_phases_then_the_tasks_then_all() {
    let workload = tasks(
        r#" "a": { "cpus": [2], "loop": 1, "phases": {
                "p1": { "cpus": [0], "run": 10 }, "p2": { "loop": 2, "run": 10 } } },
            "b": { "loop": 1, "phases": { "p1": { "cpus": [1, 2], "run": 10 }, "p2": { "run": 10 } } } "#,
    );
    let kernel = Kernel::run(&workload, 3);
    let of = |task: &str| {
        let own = kernel.affinities.iter().filter(|(name, _)| name == task);
        own.map(|(_, mask)| mask.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of("a"), ["0", "2"]);
    assert_eq!(of("b"), ["1-2", "0-2"]);
}

#[test]
fn cpus_must_be_the_machines() {
    let workload = tasks(r#" "a": { "phases": { "p": { "cpus": [0, 7], "run": 10 } } } "#);
    assert!(workload.check(&fake::machine(8)).is_ok());
    let error = workload.check(&fake::machine(4)).unwrap_err();
    assert!(error.message().contains("0,7"), "{error}");
    assert!(error.message().contains("0-3"), "{error}");
}

#[test]
fn duration_is_given_or_the_files_or_needed() {
    let start = |text: &str, duration| {
        let workload = RtApp::parse("t", "t.json", text, duration).unwrap();
        workload.start(&fake::machine(1)).duration_ns
    };
    let endless = r#"{ "tasks": { "a": { "run": 10 } } }"#;
    let ends = r#"{ "tasks": { "a": { "loop": 2, "run": 10 } } }"#;
    let limited = r#"{ "tasks": { "a": { "loop": -1, "run": 10 } }, "global": { "duration": 6 } }"#;
    assert_eq!(start(endless, None), Some(10_000_000_000));
    assert_eq!(start(ends, None), None);
    assert_eq!(start(limited, None), Some(6_000_000_000));
    assert_eq!(start(limited, Some(500_000_000)), Some(500_000_000));
}

#[test]
fn threads_of_large_or_forked_tasks_share_metrics() {
    let workload = tasks(
        r#" "few": { "instance": 2, "loop": 1, "run": 10 },
            "many": { "instance": 9, "loop": 1, "run": 10 },
            "parent": { "loop": 1, "sleep": 10, "fork": "few" } "#,
    );
    let names: Vec<_> = workload.metrics().iter().map(|m| &*m.name).collect();
    assert_eq!(
        names,
        [
            "time",
            "few/run",
            "few/period",
            "many/run",
            "many/period",
            "parent/period"
        ]
    );
    let kernel = Kernel::run(&workload, 2);
    assert_eq!(samples(&workload, &kernel, "many/run").len(), 9);
    assert_eq!(samples(&workload, &kernel, "few/run").len(), 3);
    assert_eq!(kernel.tasks[2].0, "many-2");
}

#[test]
fn the_mask_of_all_cpus_is_the_machines() {
    let workload = tasks(
        r#" "a": { "loop": 2, "phases": { "p": { "cpus": [0], "run": 1 }, "q": { "run": 1 } } } "#,
    );
    let kernel = Kernel::run(&workload, 2);
    assert_eq!(kernel.affinities[1].1, CpuMask::first_n(2));
}

#[test]
fn sync_signals_and_then_waits() {
    let workload = tasks(
        r#" "server": { "loop": 2, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m",
                        "run": 3000, "lock": "m", "signal": "c", "unlock": "m" },
            "client": { "loop": 2, "sleep": 1000, "lock": "m", "sync": { "ref": "c", "mutex": "m" },
                        "unlock": "m" } "#,
    );
    let kernel = Kernel::run(&workload, 2);
    assert!(kernel.left().is_empty(), "{:?}", kernel.left());
    // The period is the thread's sleep and timer slack, and the server's work.
    assert_eq!(samples(&workload, &kernel, "client/period"), [4050.0; 2]);
}

#[test]
fn memory_and_io_take_time_that_is_not_run() {
    let workload = parse(
        r#"{ "global": { "mem_buffer_size": 1000 },
             "tasks": { "a": { "loop": 1, "mem": 4000000, "run": 100, "iorun": 20000 } } }"#,
    )
    .unwrap();
    let kernel = Kernel::run(&workload, 1);
    assert_eq!(samples(&workload, &kernel, "a/run"), [100.0]);
    assert_eq!(
        samples(&workload, &kernel, "a/period"),
        [1000.0 + 100.0 + 10.0]
    );
}

#[test]
fn yield_lets_another_go_first() {
    let workload =
        tasks(r#" "a": { "loop": 1, "yield", "run": 100 }, "b": { "loop": 1, "run": 100 } "#);
    let kernel = Kernel::run(&workload, 1);
    assert!(runs(&kernel, "b")[0] < runs(&kernel, "a")[0]);
}

fn missed(workload: &RtApp, kernel: &Kernel) -> Vec<(String, Vec<f64>)> {
    let names = workload.metrics().iter().map(|metric| &*metric.name);
    let missed = names.filter_map(|name| name.strip_suffix("/missed"));
    missed
        .map(|task| {
            let samples = samples(workload, kernel, &format!("{task}/missed"));
            (task.to_owned(), samples)
        })
        .collect()
}

#[test]
fn a_woken_thread_has_the_period_of_the_chain_s_first_thread() {
    let workload = tasks(
        r#" "head": { "loop": 4, "run": 1000, "resume": "middle", "timer": { "ref": "t", "period": 10000 } },
            "middle": { "loop": 3, "suspend", "run": 100, "resume": "last" },
            "last": { "loop": 3, "suspend", "run": 9000 } "#,
    );
    let of = |task: &str, shares: &[f64]| (task.to_owned(), shares.to_vec());
    // The last response has no end, because the thread exits.
    assert_eq!(
        missed(&workload, &Kernel::run(&workload, 4)),
        [
            of("head", &[0.0; 4]),
            of("middle", &[0.0; 2]),
            of("last", &[0.0; 2])
        ]
    );
}

#[test]
fn a_wakeup_that_is_lost_is_a_period_missed() {
    let workload = tasks(
        r#" "head": { "loop": 6, "run": 1000, "resume": "last", "timer": { "ref": "t", "period": 10000 } },
            "last": { "loop": 1, "phases": {
                "late": { "loop": 1, "suspend": "last", "run": 25000 },
                "early": { "loop": 2, "suspend": "last", "run": 100 } } } "#,
    );
    let kernel = Kernel::run(&workload, 4);
    let missed = missed(&workload, &kernel);
    assert_eq!(
        missed[1],
        ("last".to_owned(), vec![100.0, 100.0, 100.0, 0.0])
    );
    // The first period began when `head` resumed `last`, and the third one was released 20 ms later.
    let mut names = workload.metrics().iter().map(|metric| &*metric.name);
    let metric = names.position(|name| name == "last/missed").unwrap();
    let last = kernel.recorder.last_missed_ns(metric).unwrap();
    assert!((20_000_000..23_000_000).contains(&last), "{last}");
}

#[test]
fn a_chain_without_one_period_has_no_deadline() {
    let has_deadline = |others: &str| {
        let workload = tasks(&format!(
            r#" "woken": {{ "loop": 1, "suspend", "run": 100 }}, {others} "#
        ));
        let mut names = workload.metrics().iter().map(|metric| &*metric.name);
        names.any(|name| name == "woken/missed")
    };
    let paced = |name: &str, period: u32| {
        format!(
            r#" "{name}": {{ "loop": 1, "resume": "woken", "timer": {{ "ref": "{name}", "period": {period} }} }} "#
        )
    };
    assert!(has_deadline(&paced("a", 1000)));
    let two = |second: u32| format!("{}, {}", paced("a", 1000), paced("b", second));
    assert!(has_deadline(&two(1000)));
    assert!(!has_deadline(&two(2000)));
    let unpaced = r#" "c": { "loop": 1, "sleep": 1000, "resume": "woken" } "#;
    assert!(!has_deadline(unpaced));
    assert!(!has_deadline(&format!("{}, {unpaced}", paced("a", 1000))));
    assert!(!has_deadline(
        r#" "d": { "loop": 1, "resume": "woken", "timer": { "ref": "x", "period": 1000 },
            "timer": { "ref": "y", "period": 1000 } } "#
    ));
    assert!(!has_deadline(&paced("a", 0)));
    assert!(!has_deadline(
        r#" "e": { "loop": 1, "phases": { "rest": { "loop": 9, "timer": { "ref": "x", "period": 1000 } },
            "wake": { "resume": "woken" } } } "#
    ));
}

#[test]
fn a_thread_sets_its_utilization_clamps() {
    let file = |clamp: &str| {
        format!(
            r#"{{ "tasks" : {{ "ui" : {{ {clamp}, "loop" : 2, "run" : 100 }}, "other" : {{ "loop" : 1, "run" : 5 }} }} }}"#
        )
    };
    let parsed = |clamp: &str| RtApp::parse("t", "t.json", &file(clamp), None);
    let clamped = parsed(r#""util_min" : 512, "util_max" : -1"#).unwrap();
    let notes = clamped.notes();
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].starts_with("util_min and util_max (uclamp) of ui clamp the frequency"),
        "{notes:?}"
    );
    let clamps = UtilClamps {
        min: Some(512),
        max: None,
    };
    let set = Kernel::run(&clamped, 2).clamps;
    assert_eq!(set, [("ui".to_owned(), clamps)]);
    // As in rt-app, -1 changes nothing.
    for unclamped in [r#""delay" : 1"#, r#""util_min" : -1, "util_max" : -1"#] {
        let unclamped = parsed(unclamped).unwrap();
        assert!(unclamped.notes().is_empty());
        assert!(Kernel::run(&unclamped, 2).clamps.is_empty());
    }
    let error = parsed(r#""util_min" : 1025"#).err().unwrap();
    assert!(error.expected().contains("1024"), "{error}");
    let error = parsed(r#""util_min" : 600, "util_max" : 500"#)
        .err()
        .unwrap();
    assert!(error.expected().contains("at most util_max"), "{error}");
}

/// As in `doc/examples/tutorial/example11.json` of rt-app.
#[test]
fn a_phase_without_a_taskgroup_stays_in_the_group() {
    let workload = tasks(
        r#" "a": { "loop": 2, "taskgroup": "/of-task", "phases": {
                "as-task": { "run": 10 },
                "moves": { "taskgroup": "/of-phase", "run": 10 },
                "stays": { "run": 10 } } } "#,
    );
    let groups = Kernel::run(&workload, 1).groups;
    let groups: Vec<_> = groups.iter().map(|&(_, group)| group).collect();
    assert_eq!(groups, [Some(0), Some(1)]);
}

#[test]
fn cpu_time_counts_where_a_thread_is() {
    let workload = parse(
        r#"{
            "taskgroups": { "/a": { "cpu_time": "more" }, "/a/in": {}, "/b": { "cpu_time": "less" } },
            "tasks": {
                "moves": { "instance": 2, "taskgroup": "/a/in", "cpu_time": "less", "loop": 1, "phases": {
                    "first": { "run": 3000 }, "then": { "taskgroup": "/b", "fork": "child", "run": 1000 } } },
                "child": { "instance": 0, "loop": 1, "run": 500 },
                "other": { "loop": 1, "run": 7000 }
            }
        }"#,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let kernel = Kernel::run(&workload, 2);
    // Forks and the ends of threads take some time, too.
    let close = |name: &str, seconds: f64| {
        let found = samples(&workload, &kernel, name);
        let is_close = matches!(found[..], [one] if (one - seconds).abs() < 100e-6);
        assert!(is_close, "{name}: {found:?} instead of {seconds}");
    };
    close("/a/cpu_time", 0.006);
    close("/b/cpu_time", 0.003);
    close("moves/cpu_time", 0.008);
    let better = |name: &str| {
        let mut metrics = workload.metrics().iter();
        metrics.find(|it| it.name == name).unwrap().better
    };
    assert_eq!(
        (better("/a/cpu_time"), better("/b/cpu_time")),
        (Better::Higher, Better::Lower)
    );
}
