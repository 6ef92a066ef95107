//! CPUs that go offline and come online.

use crate::case::{case, config};
use crate::support::{
    MS, Script, bound, fifo, machine, record, run, run_for, scheduler, task, try_run,
};
use machine::{CpuMask, Level, Machine};
use policy::Policy;
use proptest::prelude::*;
use simulator::{Check, Config, Error, Event, Globals, Trace};
use std::collections::HashMap;
use workload::timeline::{Change, Timed};
use workload::{Env, Op, Rng, Start, TaskSpec, Workload};

fn at(ns: u64, cpu: usize, online: bool) -> Timed {
    Timed {
        at_ns: ns,
        change: Change::Online(CpuMask::one(cpu), online),
    }
}

/// A task that runs for `ms` ms in total, 1 ms at a time with sleeps of 1 ms in between.
fn naps(name: &str, ms: u64) -> TaskSpec {
    let step = |_| [run_for(1), Op::Sleep { ns: MS }];
    task(name, (0..ms).flat_map(step).collect::<Vec<_>>())
}

const CALLBACKS: &str = r#"
void BPF_STRUCT_OPS_SLEEPABLE(h_online, s32 cpu) { note("online", 0, cpu); }
void BPF_STRUCT_OPS_SLEEPABLE(h_offline, s32 cpu) { note("offline", 0, cpu); }
"#;

#[test]
fn a_scheduler_with_callbacks_stays() {
    let machine = machine(3);
    let workload = Script(|| Start {
        tasks: (0..4).map(|_| naps("a", 30)).collect(),
        timeline: vec![
            at(5 * MS, 1, false),
            at(20 * MS, 1, true),
            at(25 * MS, 2, false),
        ],
        ..Start::default()
    });
    let ops = ".cpu_online = (void *)h_online, .cpu_offline = (void *)h_offline";
    let ran = try_run(&machine, &workload, &scheduler(CALLBACKS, ops), &[], None).unwrap();
    let calls: Vec<_> = ran
        .lines()
        .iter()
        .map(|line| (line.what.clone(), line.number))
        .collect();
    let expected = [("offline", 1), ("online", 1), ("offline", 2)];
    assert_eq!(calls, expected.map(|(what, cpu)| (what.to_owned(), cpu)));
}

#[test]
fn a_scheduler_without_callbacks_and_loader_exits() {
    let machine = machine(2);
    let workload = Script(|| Start {
        tasks: vec![naps("a", 30)],
        timeline: vec![at(5 * MS, 1, false)],
        ..Start::default()
    });
    match try_run(
        &machine,
        &workload,
        &scheduler("", ".timeout_ms = 5000"),
        &[],
        None,
    ) {
        Err(Error::SchedulerExit {
            at_ns,
            reason,
            message,
        }) => {
            assert_eq!(at_ns, 5 * MS);
            assert_eq!(reason, "unregistered from the main kernel");
            let code = (1u64 << 48) | (1 << 32);
            let expected = format!("cpu 1 going offline, exiting scheduler (exit code {code})");
            assert_eq!(message, expected);
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

/// The kernel moves the tasks itself. They stay runnable, so the scheduler hears of no sleep.
#[test]
fn tasks_stay_runnable_while_their_cpu_goes_offline() {
    let text = format!(
        "{CALLBACKS}
        s32 BPF_STRUCT_OPS(h_select_cpu, struct task_struct *p, s32 prev, u64 flags) {{ return 1; }}
        void BPF_STRUCT_OPS(h_enqueue, struct task_struct *p, u64 flags)
        {{ note(\"enqueue\", p, scx_bpf_task_cpu(p)); scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, flags); }}
        void BPF_STRUCT_OPS(h_runnable, struct task_struct *p, u64 flags) {{ note(\"runnable\", p, flags); }}
        void BPF_STRUCT_OPS(h_quiescent, struct task_struct *p, u64 flags) {{ note(\"quiescent\", p, flags); }}"
    );
    let ops = ".cpu_online = (void *)h_online, .cpu_offline = (void *)h_offline,
        .select_cpu = (void *)h_select_cpu, .enqueue = (void *)h_enqueue,
        .runnable = (void *)h_runnable, .quiescent = (void *)h_quiescent";
    // The CPUs that the tasks may use, and how often each is dequeued: a broken affinity dequeues the task once.
    for (cpus, dequeued) in [(&[1, 2][..], 1), (&[1], 2)] {
        let workload = Script(move || Start {
            tasks: ["a", "b"]
                .map(|name| TaskSpec {
                    affinity: Some(cpus.iter().copied().collect()),
                    ..task(name, [run_for(30)])
                })
                .into(),
            timeline: vec![at(5 * MS, 1, false)],
            ..Start::default()
        });
        let ran = run(&machine(3), &workload, &scheduler(&text, ops));
        for what in ["runnable", "quiescent"] {
            let number = ran.tasks(what).len();
            assert_eq!(number, 2 * dequeued, "{what}: {:?}", ran.log());
        }
        let lines = ran.lines();
        let late = lines.iter().filter(|line| line.at >= 5 * MS);
        let mut enqueued = late.filter(|line| line.what == "enqueue");
        assert!(enqueued.all(|line| line.number != 1), "{lines:?}");
    }
}

/// The CPUs on which tasks ran, and the tasks that the kernel allowed to run everywhere because their CPUs had gone
/// offline.
#[derive(Default)]
struct Places {
    /// The CPU of each task, at each switch to it: time, name, CPU.
    runs: Vec<(u64, String, usize)>,
    /// The tasks whose affinity was broken, and the times when that happened.
    broken: Vec<(u64, String)>,
    created: HashMap<i32, ()>,
}

impl Trace for Places {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        match event {
            Event::Switch { next, .. } if next.1 != 0 => {
                self.runs.push((now, next.0.to_owned(), cpu));
            }
            Event::Affinity { task, .. } if self.created.insert(task.1, ()).is_some() => {
                self.broken.push((now, task.0.to_owned()));
            }
            _ => {}
        }
    }
}

/// Runs the load under `policy`, which each change restarts.
fn run_policy(
    machine: &Machine,
    workload: &dyn Workload,
    policy: &str,
    trace: &mut dyn Trace,
) -> Result<simulator::Outcome, Error> {
    let policy = Policy::find(policy).unwrap();
    let restart: Globals<'_> = &|machine| policy.globals(machine);
    let globals = policy.globals(machine);
    let config = Config {
        restart: Some(restart),
        time_limit_ns: 10_000_000 * MS,
        trace: Some(trace),
        ..Config::new(machine, workload, policy.object().unwrap(), &globals)
    };
    simulator::run_checked(config, Check::INVARIANTS)
}

#[test]
fn affinity_is_broken_if_none_of_its_cpus_is_online() {
    let machine = machine(4);
    let two = CpuMask::one(2).or(&CpuMask::one(3));
    let workload = Script(move || Start {
        tasks: vec![
            bound("one", 1, [run_for(100)]),
            fifo(
                "urgent",
                1,
                [run_for(10), Op::Sleep { ns: 20 * MS }, run_for(10)],
            ),
            TaskSpec {
                affinity: Some(two),
                ..task("two", [run_for(100)])
            },
        ],
        timeline: vec![
            at(20 * MS, 1, false),
            at(20 * MS, 2, false),
            at(50 * MS, 1, true),
        ],
        ..Start::default()
    });
    for policy in ["equipoise", "eevdf", "cfs"] {
        let mut places = Places::default();
        run_policy(&machine, &workload, policy, &mut places).unwrap();
        let mut broken: Vec<_> = places
            .broken
            .iter()
            .map(|(_, name)| name.as_str())
            .collect();
        broken.sort_unstable();
        assert_eq!(broken, ["one", "urgent"], "{policy}");
        for (time, name, cpu) in &places.runs {
            if name == "two" {
                assert!([2, 3].contains(cpu), "{policy}: two ran on {cpu} at {time}");
            }
            let offline =
                *cpu == 2 && *time > 20 * MS || *cpu == 1 && (20 * MS + 1..50 * MS).contains(time);
            assert!(!offline, "{policy}: {name} ran on {cpu} at {time}");
        }
    }
}

/// `select_fallback_rq()` looks at the node of the task's CPU first, but not again after it has broken the affinity.
#[test]
fn a_task_whose_affinity_is_broken_goes_to_the_first_cpu() {
    let mut machine = machine(4);
    let nodes = [0, 2].map(|first| (first..first + 2).collect::<CpuMask>());
    machine.levels = ["MC", "PKG"]
        .map(|name| Level {
            name,
            spans: nodes.into(),
        })
        .into();
    // The CPUs that the task may use, and the one to which it goes when CPU 3 goes offline.
    for (allowed, to) in [([3, 3], 0), ([0, 3], 0), ([2, 3], 2)] {
        let workload = Script(move || Start {
            tasks: vec![fifo(
                "a",
                3,
                [
                    run_for(1),
                    Op::SetAffinity(Box::new(allowed.into_iter().collect())),
                    run_for(50),
                ],
            )],
            timeline: vec![at(20 * MS, 3, false)],
            ..Start::default()
        });
        let ops = ".cpu_online = (void *)h_online, .cpu_offline = (void *)h_offline";
        let (_, trace) = record(&machine, &workload, &scheduler(CALLBACKS, ops));
        let moves = |line: &&str| line.contains("Migrate { task: (\"a\"");
        let moved = trace.text.lines().find(moves).unwrap();
        assert!(moved.contains(&format!("to: {to}")), "{allowed:?}: {moved}");
    }
}

/// A new task waits for no CPU that is offline: beside eight loops on three CPUs, it runs within 40 ms.
#[test]
fn a_new_task_gets_its_turn_after_a_cpu_has_gone() {
    let machine = machine(4);
    let workload = Script(move || {
        let mut tasks: Vec<TaskSpec> = (0..8)
            .map(|i| task(&format!("loop{i}"), [run_for(600)]))
            .collect();
        let fork = Op::Fork {
            child: Box::new(task("new", [run_for(5)])),
            work: 0,
        };
        tasks.push(task("maker", [Op::Sleep { ns: 300 * MS }, fork]));
        Start {
            tasks,
            timeline: vec![at(20 * MS, 1, false)],
            ..Start::default()
        }
    });
    for policy in ["equipoise", "eevdf", "cfs"] {
        let mut places = Places::default();
        run_policy(&machine, &workload, policy, &mut places).unwrap();
        let first = places.runs.iter().find(|(_, name, _)| name == "new");
        let at = first.map(|&(at, ..)| at);
        assert!(at.is_some_and(|at| at < 340 * MS), "{policy}: {at:?}");
    }
}

#[test]
fn a_change_that_the_kernel_refuses_ends_the_run() {
    let machine = machine(2);
    let deadline = |name: &str| TaskSpec {
        policy: workload::SchedPolicy::Deadline {
            runtime_ns: 6 * MS,
            deadline_ns: 10 * MS,
            period_ns: 10 * MS,
        },
        ..task(name, [run_for(100)])
    };
    let workload = Script(move || Start {
        tasks: vec![deadline("a"), deadline("b")],
        timeline: vec![at(5 * MS, 1, false)],
        ..Start::default()
    });
    let error = run_policy(&machine, &workload, "equipoise", &mut Places::default());
    let message = error.err().unwrap().to_string();
    let expected =
        "CPU 1 could not go offline at 5000000 ns: EBUSY: deadline tasks need its bandwidth";
    assert_eq!(message, expected);
}

/// The length of the windows, in ns, in which CPU time is compared: one after boot, and one after the last event.
const WINDOW: u64 = 4000 * MS;
/// The number of tasks that sleep most of the time.
const NAPS: u64 = 6;

/// The CPU time of each task in two windows.
struct Shares {
    windows: [std::ops::Range<u64>; 2],
    on: HashMap<usize, (String, u64)>,
    of: [HashMap<String, u64>; 2],
    /// The number of times that napping tasks ran in the last window.
    naps: u64,
}

impl Trace for Shares {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        let Event::Switch { next, .. } = event else {
            return;
        };
        if next.0 == "naps" && self.windows[1].contains(&now) {
            self.naps += 1;
        }
        if let Some((task, since)) = self.on.insert(cpu, (next.0.to_owned(), now)) {
            self.add(task, since, now);
        }
    }
}

impl Shares {
    fn add(&mut self, task: String, since: u64, until: u64) {
        for (window, of) in self.windows.iter().zip(&mut self.of) {
            let clamp = |time: u64| time.clamp(window.start, window.end);
            *of.entry(task.clone()).or_default() += clamp(until) - clamp(since);
        }
    }

    /// Charges the running tasks up to the end of the run, at `now`.
    fn end(&mut self, now: u64) {
        for (task, since) in std::mem::take(&mut self.on).into_values() {
            self.add(task, since, now);
        }
    }
}

/// `count` random events from `from` on, none of which takes the last CPU offline, and the time after them. In the end
/// all CPUs are online.
fn random_events(rng: &mut Rng, count: usize, cpus: usize, from: u64) -> (Vec<Timed>, u64) {
    let mut online = CpuMask::first_n(cpus);
    let (mut events, mut now) = (Vec::new(), from);
    while events.len() < count {
        let cpu = rng.below(cpus as u64) as usize;
        let goes = online.contains(cpu);
        if goes && online.count() == 1 {
            continue;
        }
        match goes {
            true => online.clear(cpu),
            false => online.set(cpu),
        }
        events.push(at(now, cpu, !goes));
        // The next event often comes before the scheduler is loaded again.
        now += rng.below(300) * MS + rng.below(MS);
    }
    for cpu in (0..cpus).filter(|&cpu| !online.contains(cpu)) {
        events.push(at(now, cpu, true));
    }
    (events, now)
}

fn endless(name: &str) -> TaskSpec {
    TaskSpec::new(name, |_: &mut Env| run_for(1))
}

/// After hundreds of random events the busy tasks get almost the CPU time that they got after boot, and the load's
/// sleeping tasks are alive.
#[test]
fn balancing_after_hotplug_reaches_what_it_reached_after_boot() {
    let machine = Machine::find("odroid-xu3").unwrap();
    let cpus = machine.cpus.len();
    let events = config(250).cases as usize;
    for policy in Policy::names() {
        let mut rng = Rng::new(7);
        let (timeline, last) = random_events(&mut rng, events, cpus, 1000 * MS + WINDOW);
        let end = last + 1000 * MS + WINDOW;
        let workload = Script(move || Start {
            tasks: (0..cpus)
                .map(|nr| endless(&format!("busy-{nr}")))
                .chain((0..NAPS).map(|_| {
                    let mut ran = false;
                    TaskSpec::new("naps", move |_: &mut Env| {
                        ran = !ran;
                        if ran {
                            Op::Run { work: MS / 5 }
                        } else {
                            Op::Sleep { ns: 20 * MS }
                        }
                    })
                }))
                .collect(),
            timeline: timeline.clone(),
            duration_ns: Some(end),
            ..Start::default()
        });
        let mut shares = Shares {
            windows: [1000 * MS..1000 * MS + WINDOW, end - WINDOW..end],
            naps: 0,
            on: HashMap::new(),
            of: [HashMap::new(), HashMap::new()],
        };
        let outcome = run_policy(&machine, &workload, policy, &mut shares);
        outcome.unwrap_or_else(|error| panic!("{policy}: {error}"));
        shares.end(end);
        let naps = shares.naps;
        let [boot, after] = shares.of.map(|of| {
            let mut busy: Vec<u64> = of
                .into_iter()
                .filter(|(name, _)| name.starts_with("busy"))
                .map(|(_, ns)| ns / MS)
                .collect();
            busy.sort_unstable();
            busy
        });
        assert_eq!(after.len(), cpus, "{policy}: a busy task is lost");
        let sum = |of: &[u64]| of.iter().sum::<u64>();
        assert!(
            100 * sum(&after) >= 96 * sum(&boot) && 100 * after[0] >= 80 * boot[0],
            "{policy}: busy tasks had {boot:?} ms of {WINDOW} ns after boot, and {after:?} after the events"
        );
        assert!(
            naps > WINDOW / (30 * MS) * NAPS,
            "{policy}: they ran {naps} times"
        );
    }
}

/// A random workload during which CPUs go offline and come online.
struct Unsteady {
    workload: Box<dyn Workload>,
    timeline: Vec<Timed>,
}

impl Workload for Unsteady {
    fn name(&self) -> &str {
        "unsteady"
    }
    fn description(&self) -> &str {
        "a random load, and random events"
    }
    fn metrics(&self) -> &[workload::Metric] {
        self.workload.metrics()
    }
    fn start(&self, machine: &Machine) -> Start {
        Start {
            timeline: self.timeline.clone(),
            ..self.workload.start(machine)
        }
    }
}

/// Events at random times; the last CPU stays online.
fn events(machine: &Machine, seed: u64) -> Vec<Timed> {
    let mut rng = Rng::new(seed);
    let all = machine.all_cpus();
    let (mut online, mut now, mut timeline) = (all, 0, Vec::new());
    for _ in 0..40 {
        now += rng.below(40 * MS);
        let nth = rng.below(all.count() as u64) as usize;
        let Some(cpu) = all.iter().nth(nth) else {
            break;
        };
        let goes = online.contains(cpu);
        if goes && online.count() == 1 {
            continue;
        }
        match goes {
            true => online.clear(cpu),
            false => online.set(cpu),
        }
        timeline.push(at(now, cpu, !goes));
    }
    timeline
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn no_task_is_lost(case in case(), seed: u64) {
        let workload = Unsteady {
            workload: case.workload(),
            timeline: events(&case.machine, seed),
        };
        for policy in ["equipoise", "eevdf", "cfs", "hperf"] {
            let outcome = run_policy(&case.machine, &workload, policy, &mut Places::default());
            if let Err(error) = outcome {
                prop_assert!(refused(&error), "{policy}: {error}");
            }
        }
    }
}

/// Has the kernel refused a task's request or an event because too few CPUs are online?
fn refused(error: &Error) -> bool {
    match error {
        Error::Hotplug { .. } => true,
        Error::Task { message, .. } => message.contains("is online") || message.contains("EBUSY"),
        _ => false,
    }
}
