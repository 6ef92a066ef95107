//! Affinities and `equipoise` on heterogeneous CPUs: no CPU asks for a task that it may not run,
//! nor changes places with one while a task that may run nowhere else waits. `equipoise hunt` found these loads.

use crate::support::*;
use machine::{CpuMask, Machine};
use policy::Policy;
use simulator::{Check, Config, Event, Trace};
use std::collections::HashMap;
use workload::rtapp::RtApp;
use workload::{Env, Op, SchedPolicy, Start, TaskSpec};

const FROM: u64 = 500 * MS;
const UNTIL: u64 = 2500 * MS;

/// A task that computes until the end, or sleeps after each `run` (ns) for `sleep` (ns).
fn task_of(name: &str, nice: i8, cpus: &[usize], run: u64, sleep: u64) -> TaskSpec {
    let affinity: Option<CpuMask> = (!cpus.is_empty()).then(|| cpus.iter().copied().collect());
    let mut ran = false;
    let program = move |env: &mut Env| {
        ran = !ran || sleep == 0;
        match ran {
            _ if env.now >= UNTIL => Op::Exit,
            true => Op::Run { work: run },
            false => Op::Sleep { ns: sleep },
        }
    };
    TaskSpec {
        affinity,
        policy: SchedPolicy::Normal { nice, slice_ns: 0 },
        timer_slack_ns: Some(0),
        ..TaskSpec::new(name, program)
    }
}

/// The share of a CPU that each task gets on TC2, with the fast CPUs 0 and 1.
fn shares(tasks: impl Fn() -> Vec<TaskSpec> + Send + Sync) -> HashMap<String, f64> {
    let workload = Script(|| Start {
        tasks: tasks(),
        ..Start::default()
    });
    let tc2 = Machine::find("tc2").unwrap();
    let times = equipoise_cpu_time(&tc2, &workload, 1, 60_000 * MS, FROM..UNTIL).unwrap();
    times
        .into_iter()
        .map(|(name, ns)| (name, ns as f64 / (UNTIL - FROM) as f64))
        .collect()
}

/// A fast CPU's task was ahead of one of theirs, which it stopped at each tick and never got.
#[test]
fn equal_tasks_that_may_not_run_on_fast_cpus_get_equal_shares() {
    let got = shares(|| {
        let slow = |name| task_of(name, 0, &[3, 4], MS, 0);
        vec![
            task_of("fast", 4, &[], MS, 0),
            slow("a"),
            slow("b"),
            slow("c"),
        ]
    });
    for name in ["a", "b", "c"] {
        assert!((got[name] - 2.0 / 3.0).abs() < 0.05, "{got:?}");
    }
}

/// A fast CPU's task went on until one of a slow CPU would have arrived, and the task that may run
/// nowhere else waited for 150 ms.
#[test]
fn a_task_bound_to_a_fast_cpu_does_not_wait_for_one_that_never_comes() {
    let got = shares(|| {
        vec![
            task_of("slow", 0, &[2, 3], MS, 0),
            task_of("bound", -5, &[0], MS, 364_000),
            task_of("free", 0, &[], MS, 0),
            task_of("other", 0, &[], MS, 0),
            task_of("third", 0, &[], MS, 35_000_000),
        ]
    });
    assert!(got["bound"] > 0.6, "{got:?}");
}

/// Did the task `bound` run on CPU 1?
struct RanOnFast(bool);

impl Trace for RanOnFast {
    fn event(&mut self, _now: u64, cpu: usize, event: Event<'_>) {
        if let Event::Switch { next, .. } = event {
            self.0 |= cpu == 1 && next.0 == "bound";
        }
    }
}

/// The tasks of a fast and a slow CPU changed places at each tick, past one that waited for the fast CPU.
#[test]
fn tasks_do_not_change_places_past_one_that_is_bound_there() {
    let text = r#"{ "tasks": {
        "first": { "priority": -2, "cpus": [0, 2, 3], "loop": -1, "run": 1000,
                   "timer": { "ref": "unique", "period": 200 } },
        "free": { "delay": 328, "loop": -1, "run": 10000 },
        "both": { "cpus": [1, 4], "delay": 25459, "loop": -1, "run": 50000 },
        "bound": { "cpus": [1], "delay": 70015, "loop": -1, "run": 1000 } } }"#;
    let load = RtApp::parse("bound", "bound", text, Some(UNTIL + 500 * MS)).unwrap();
    let tc2 = Machine::find("tc2").unwrap();
    let policy = Policy::find("equipoise").unwrap();
    let mut ran = RanOnFast(false);
    simulator::run_checked(
        Config {
            machine: &tc2,
            workload: &load,
            scheduler: policy.object(),
            globals: &policy.globals(&tc2),
            restart: None,
            read: &[],
            seed: 1,
            time_limit_ns: 60_000 * MS,
            trace: Some(&mut ran),
        },
        Check::INVARIANTS,
    )
    .unwrap();
    assert!(ran.0, "it never ran on CPU 1");
}
