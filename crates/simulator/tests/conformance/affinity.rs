//! Affinities, weights and short sleeps under `equipoise`, on loads that `equipoise hunt` found: no CPU asks for a task
//! that it may not run, and no task waits for long next to a CPU that it may use or that another task could leave.

use crate::support::*;
use machine::{CpuMask, Machine};
use simulator::{Event, Trace};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use workload::rtapp::RtApp;
use workload::{Env, Op, SchedPolicy, Start, TaskSpec};

const FROM: u64 = 500 * MS;
const UNTIL: u64 = 2500 * MS;

/// A task that computes until the end, or that sleeps for `sleep` ns after each `run` ns.
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

/// Returns the share of a CPU that each task gets on TC2, whose fast CPUs are 0 and 1.
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

/// The task on a fast CPU was ahead of a task on the slow CPUs. At each tick, the fast CPU stopped the slow CPUs' task,
/// but it never got that task.
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

/// A fast CPU's task continued until a task of a slow CPU arrived, which never happened, and the
/// task that is bound to the fast CPU waited for 150 ms.
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

/// Each tick tried the idle CPUs of seven other sockets, and for each of these CPUs it read the queue of the tasks that
/// are bound to one socket. This took a sixth of the time on 10 CPUs with hundreds of waiting tasks.
#[test]
fn idle_sockets_cost_tasks_that_are_bound_to_another_next_to_nothing() {
    const TASKS: u64 = 400;
    let end = Arc::new(AtomicU64::new(0));
    let workload = Script(|| Start {
        tasks: (0..TASKS)
            .map(|index| {
                let (end, mut works) = (end.clone(), true);
                let program = move |env: &mut Env| {
                    if std::mem::take(&mut works) {
                        return Op::Run { work: 5 * MS };
                    }
                    end.fetch_max(env.now, Ordering::Relaxed);
                    Op::Exit
                };
                TaskSpec {
                    affinity: Some((0..10).collect()),
                    ..TaskSpec::new(format!("{index}"), program)
                }
            })
            .collect(),
        ..Start::default()
    });
    let hp = Machine::find("hp-8s-80c").unwrap();
    equipoise_cpu_time(&hp, &workload, 1, 1000 * MS, 0..MS).unwrap();
    let (took, least) = (end.load(Ordering::Relaxed), TASKS * 5 * MS / 10);
    assert!(
        took < least * 106 / 100,
        "{} us for {}",
        took / 1000,
        least / 1000
    );
}

#[derive(Clone, Copy, Debug, Default)]
struct Got {
    share: f64,
    /// The longest wait for a CPU, in ns.
    wait: u64,
    /// The time since which it has been running, and the time since which it has been waiting, in ns.
    running: Option<u64>,
    waiting: Option<u64>,
}

/// The threads of an rt-app load, by name.
#[derive(Default)]
struct Threads(HashMap<String, Got>);

impl Trace for Threads {
    fn event(&mut self, now: u64, _cpu: usize, event: Event<'_>) {
        match event {
            Event::Wakeup { task, .. } => {
                let got = self.0.entry(task.0.to_owned()).or_default();
                got.waiting.get_or_insert(now);
            }
            Event::Switch {
                prev,
                prev_runnable,
                next,
                ..
            } => {
                let got = self.0.entry(prev.0.to_owned()).or_default();
                got.waiting = prev_runnable.then_some(now);
                let since = got.running.take().unwrap_or(now);
                got.share += (now - since) as f64 / LOAD_NS as f64;
                let got = self.0.entry(next.0.to_owned()).or_default();
                got.wait = got.wait.max(now - got.waiting.take().unwrap_or(now));
                got.running = Some(now);
            }
            _ => {}
        }
    }
}

const LOAD_NS: u64 = 2000 * MS;

/// Runs the `tasks` of an rt-app file on the machine `name`.
fn run_load(name: &str, tasks: &str) -> HashMap<String, Got> {
    let text = format!(r#"{{ "tasks": {{ {tasks} }} }}"#);
    let load = RtApp::parse("load", "load", &text, Some(LOAD_NS)).unwrap();
    let machine = Machine::find(name).unwrap();
    let mut threads = Threads::default();
    run_policy(
        "equipoise",
        &machine,
        &load,
        1,
        60_000 * MS,
        Some(&mut threads),
    )
    .unwrap();
    // The idle task "waits" while its CPU is busy.
    threads.0.remove("swapper");
    threads.0
}

/// The tasks of a fast and a slow CPU changed places at each tick and bypassed one that waited for the fast CPU.
#[test]
fn tasks_do_not_change_places_past_one_that_is_bound_there() {
    let got = run_load(
        "tc2",
        r#""first": { "priority": -2, "cpus": [0, 2, 3], "loop": -1, "run": 1000,
                   "timer": { "ref": "unique", "period": 200 } },
        "free": { "delay": 328, "loop": -1, "run": 10000 },
        "both": { "cpus": [1, 4], "delay": 25459, "loop": -1, "run": 50000 },
        "bound": { "cpus": [1], "delay": 70015, "loop": -1, "run": 1000 }"#,
    );
    assert!(got["bound"].share > 0.0, "it never ran on CPU 1: {got:?}");
}

/// A loop of nice -16 needed half a second to be ahead of a task that was bound to its CPU, which
/// waited for that long next to idle CPUs.
#[test]
fn a_task_leaves_a_cpu_that_others_need_for_an_idle_one() {
    let got = run_load(
        "smp-8",
        r#""first": { "loop": -1, "run": 1000, "timer": { "ref": "unique", "period": 200 } },
        "bound": { "priority": 14, "cpus": [5], "loop": -1, "run": 310, "sleep": 206603 },
        "second": { "instance": 2, "delay": 181, "loop": -1, "run": 1000, "sleep": 111049 },
        "heavy": { "instance": 4, "priority": -16, "delay": 21183, "loop": -1, "run": 80667 }"#,
    );
    assert!(got["bound"].wait < 10 * MS, "{got:?}");
}

/// Tasks waited for the one fast CPU for as long as a real-time thread had it: the tasks on the other CPUs had less
/// than their share of the whole machine, so these CPUs left the waiting tasks to each other.
#[test]
fn no_task_waits_for_a_cpu_that_a_real_time_thread_has() {
    let got = run_load(
        "sm8250",
        r#""rt": { "policy": "SCHED_FIFO", "priority": 50, "cpus": [7], "delay": 100000, "loop": -1, "run": 1000000 },
        "loop": { "instance": 12, "loop": -1, "run": 1000000 },
        "nap": { "instance": 6, "loop": -1, "run": 3000, "sleep": 4000 }"#,
    );
    let waited = got.iter().filter(|(_, got)| got.wait > 250 * MS);
    assert_eq!(waited.count(), 0, "{got:?}");
}

/// The part of a CPU that interrupt threads take counts as long as they are there, not only while they run: 250 us of
/// each ms are over half of a slow CPU. A thread of 1 ms every 10 ms stayed on slow CPUs, where it always lagged behind
/// and used a quarter of a CPU.
#[test]
fn interrupt_threads_make_slow_cpus_slower() {
    let irqs = (0..8).map(|cpu| {
        format!(
            r#""irq{cpu}": {{ "policy": "SCHED_FIFO", "priority": 50, "cpus": [{cpu}], "loop": -1, "run": 250,
                "timer": {{ "ref": "unique", "period": 1000, "mode": "absolute" }} }},"#
        )
    });
    let load = irqs.collect::<String>()
        + r#""loop": { "instance": 16, "loop": -1, "run": 1000 },
        "periodic": { "loop": -1, "run": 1000, "timer": { "ref": "unique", "period": 10000, "mode": "absolute" } }"#;
    for machine in ["odroid-xu3", "rk3588"] {
        let got = run_load(machine, &load);
        assert!(got["periodic"].share < 0.15, "{machine}: {got:?}");
    }
}

/// A waking task went to a CPU to which another CPU was about to send a task, and waited there for 400 ms next to idle
/// CPUs, while other tasks changed places and bypassed the waiting task.
#[test]
fn a_cpu_that_asked_for_a_task_and_idles_is_claimed_when_it_arrives() {
    let got = run_load(
        "tc2",
        r#""nap": { "loop": -1, "run": 1425, "sleep": 365 },
        "short": { "loop": -1, "run": 21, "sleep0": 490, "sleep1": 577 },
        "loop": { "loop": -1, "run": 160 },
        "other": { "loop": -1, "run0": 870, "run1": 75223, "run2": 1989 }"#,
    );
    assert!(got.values().all(|got| got.wait < 25 * MS), "{got:?}");
}

/// The virtual time of a heavy task passes slowly. With just the lead that it gets at a wakeup, such a task would keep
/// a CPU for 130 ms while another task of the same weight waits.
#[test]
fn a_heavy_task_does_not_keep_its_cpu_from_others_of_its_weight() {
    let got = run_load(
        "smp-8",
        r#""other": { "loop": -1, "run": 2863, "sleep": 1000 },
        "heavy": { "instance": 3, "priority": -15, "cpus": [1, 3], "loop": -1, "phases": {
            "first": { "loop": 8, "sleep": 8950, "run": 26101 },
            "then": { "loop": 500, "run": 100000 } } }"#,
    );
    let longest = got.values().map(|got| got.wait).max().unwrap();
    assert!(longest < 60 * MS, "{got:?}");
}

/// When a light task's lead was reduced for a time in which no other task could use its CPU, the task lost all of its
/// lead, including the part that it had gained while another task waited. That task got a tenth of a CPU.
#[test]
fn a_light_task_keeps_the_lead_that_others_waited_for() {
    let got = run_load(
        "smp-2",
        r#""light": { "priority": 5, "loop": -1, "run": 1000 },
        "nap": { "loop": -1, "run": 189, "sleep": 10 },
        "heavy": { "priority": -10, "loop": -1, "run": 1000 }"#,
    );
    // The task gets three quarters of the CPU that it shares with `light`, less the timers' slack.
    assert!(got["nap"].share > 0.5, "{got:?}");
}

/// While one of the two tasks on the slow CPU slept, the clock of the slow CPU followed other CPUs of its cluster. The
/// clock took the sleeper along and left the other task behind, which then ran for 28 ms at a time.
#[test]
fn equal_tasks_on_one_slow_cpu_get_equal_shares() {
    let got = run_load(
        "alder-lake",
        r#""beside": { "cpus": [23], "loop": -1, "phases": {
            "nap": { "loop": 2, "run": 1000, "sleep": 968 }, "long": { "run": 27730 } } },
        "nap": { "cpus": [20], "loop": -1, "run": 1000, "sleep": 272 },
        "some": { "cpus": [0, 1, 2, 4, 5, 12, 15, 22], "loop": -1,
                  "timer": { "ref": "unique", "period": 200 }, "run": 36 },
        "loop": { "cpus": [20], "delay": 56, "loop": -1,
                  "timer": { "ref": "unique", "period": 6298 }, "run": 22833 },
        "light": { "priority": 15, "delay": 61, "loop": -1, "run0": 117190, "run1": 159 },
        "rare": { "delay": 848, "loop": -1, "run": 1000, "sleep": 67386 }"#,
    );
    assert!(got["nap"].share > 0.4 && got["loop"].share > 0.4, "{got:?}");
}

/// If a fast CPU took over a loop from a slow CPU whenever the tasks that are bound to the fast one
/// sleep for an instant, these tasks would have to wait until the loop makes room at the next tick.
#[test]
fn a_cpu_that_its_own_tasks_come_back_to_takes_over_no_other() {
    let got = run_load(
        "rk3588",
        r#""loop": { "instance": 4, "loop": -1, "run": 115171, "sleep": 233 },
        "bound": { "instance": 2, "cpus": [5], "delay": 62, "loop": -1, "phases": {
            "a": { "run": 28, "sleep": 62 }, "b": { "run": 24 } } }"#,
    );
    let bound = got.iter().filter(|(name, _)| name.starts_with("bound"));
    assert!(
        bound.clone().count() == 2 && bound.clone().all(|(_, got)| got.share > 0.2),
        "{got:?}"
    );
}
