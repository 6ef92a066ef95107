//! The promise of policy hperf for every moment: no fast CPU sleeps for more than two ticks while a slow one has a
//! task. The number of fast CPUs that get a task at once is counted, too.

use crate::support::{
    MS, Recording, Script, bound, play, run_for, simulate, sleep_for, task, two_caches,
};
use machine::Machine;
use policy::{Counters, Policy};
use simulator::{Config, Event, Trace};
use std::collections::BTreeMap;
use workload::{Op, Start, TaskSpec, Workload};

/// On an ODROID-XU3, CPUs 0 to 3 are slow and 4 to 7 fast.
const SLOW: std::ops::Range<usize> = 0..4;
const FAST: std::ops::Range<usize> = 4..8;

fn odroid() -> Machine {
    Machine::find("odroid-xu3").unwrap()
}

/// The longest time for which a fast CPU was idle while some slow CPU had a task at each moment.
#[derive(Default)]
struct Sleepers {
    busy: [bool; 8],
    /// For each CPU, the start of the time in which both hold, in ns.
    since: [Option<u64>; 8],
    longest: u64,
}

impl Trace for Sleepers {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        let Event::Switch { next, .. } = event else {
            return;
        };
        self.busy[cpu] = next.1 != 0;
        let work = SLOW.clone().any(|cpu| self.busy[cpu]);
        for fast in FAST {
            let sleeps = work && !self.busy[fast];
            match (self.since[fast], sleeps) {
                (None, true) => self.since[fast] = Some(now),
                (Some(since), false) => {
                    self.longest = self.longest.max(now - since);
                    self.since[fast] = None;
                }
                _ => {}
            }
        }
    }
}

/// [`Sleepers::longest`] under `policy` with `steady` tasks that compute all the time, and `waves` that compute and
/// sleep.
fn longest(policy: &str, steady: u64, waves: u64) -> u64 {
    let wave = |index: u64| {
        (0..40).flat_map(move |turn| {
            [
                run_for(1 + (index + turn) % 17),
                sleep_for((3 * index + turn) % 13),
            ]
        })
    };
    let workload = Script(move || Start {
        tasks: (0..steady + waves)
            .map(|index| match index < steady {
                true => TaskSpec::new("steady", play([run_for(500 + 40 * index)])),
                false => TaskSpec::new("wave", play(wave(index).collect::<Vec<Op>>())),
            })
            .collect(),
        ..Start::default()
    });
    let mut sleepers = Sleepers::default();
    let odroid = Machine::find("odroid-xu3").unwrap();
    simulate(
        &odroid,
        policy,
        &workload,
        steady * 100 + waves,
        &mut sleepers,
    );
    sleepers.longest
}

#[test]
fn no_fast_cpu_sleeps_over_two_ticks_while_a_slow_one_has_a_task() {
    let tick = 1_000 * MS / 200;
    for (steady, waves) in [
        (1, 0),
        (3, 2),
        (4, 4),
        (5, 0),
        (6, 6),
        (0, 8),
        (8, 0),
        (12, 9),
    ] {
        let longest = longest("hperf", steady, waves);
        assert!(longest <= 2 * tick, "{steady} + {waves}: {longest} ns");
    }
}

#[test]
fn others_let_them_sleep() {
    let tick = 1_000 * MS / 200;
    assert!(longest("cfs", 3, 2) > 2 * tick);
    assert!(longest("linaro-mp", 0, 6) > 2 * tick);
}

/// The times when tasks moved to fast CPUs, in ns.
#[derive(Default)]
struct Ups(Vec<u64>);

impl Trace for Ups {
    fn event(&mut self, now: u64, _cpu: usize, event: Event<'_>) {
        if let Event::Migrate { from, to, .. } = event
            && SLOW.contains(&from)
            && FAST.contains(&to)
        {
            self.0.push(now);
        }
    }
}

/// "Idle A15 cores always pull some task from A7 core."
#[test]
fn fast_cpus_that_run_out_of_work_together_each_get_a_task() {
    // This time is too short for a tick.
    let workload = Script(|| Start {
        tasks: FAST
            .map(|cpu| bound("fast", cpu, [run_for(2)]))
            .chain(SLOW.map(|_| task("slow", [run_for(2)])))
            .collect(),
        ..Start::default()
    });
    let mut ups = Ups::default();
    simulate(&odroid(), "hperf", &workload, 1, &mut ups);
    let Ups(ups) = ups;
    assert!(ups.len() == 4 && ups[3] - ups[0] < MS, "{ups:?}");
}

/// The time of each task, by pid, on fast CPUs from some time on, in ns.
#[derive(Default)]
struct FastTime {
    from: u64,
    /// The running task of each CPU, and the start of its turn.
    running: [(i32, u64); 8],
    time: BTreeMap<i32, u64>,
}

impl FastTime {
    /// The time of `pid` until the run ended at `end`, in ns.
    fn until(&self, pid: i32, end: u64) -> u64 {
        let still = FAST.map(|cpu| self.running[cpu]);
        let still = still.filter(|running| running.0 == pid);
        self.time[&pid]
            + still
                .map(|(_, since)| end - since.max(self.from))
                .sum::<u64>()
    }
}

impl Trace for FastTime {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        let Event::Switch { next, .. } = event else {
            return;
        };
        let (pid, since) = std::mem::replace(&mut self.running[cpu], (next.1, now));
        let ran = now.max(self.from) - since.max(self.from);
        if FAST.contains(&cpu) {
            *self.time.entry(pid).or_default() += ran;
        }
    }
}

/// A sixth task joins five that have been running for 10 s, or has slept for that time. In the next
/// seconds it gets its share of the fast CPUs, and does not keep one until it has caught up.
#[test]
fn a_new_task_gets_an_equal_share_of_the_fast_cpus() {
    const JOINS: u64 = 10_000;
    let workload = |sleeps: bool| {
        Script(move || {
            let late = [sleep_for(JOINS), run_for(3_000)];
            let tasks = (0..5).map(|_| task("hog", [run_for(12_000)]));
            let sixth = match sleeps {
                true => task("sixth", late),
                false => task(
                    "shell",
                    [
                        sleep_for(JOINS),
                        Op::Fork {
                            child: Box::new(task("sixth", [run_for(3_000)])),
                            work: 0,
                        },
                        Op::Join,
                    ],
                ),
            };
            Start {
                tasks: tasks.chain([sixth]).collect(),
                duration_ns: Some((JOINS + 2_000) * MS),
                ..Start::default()
            }
        })
    };
    for sleeps in [false, true] {
        let mut fast = FastTime {
            from: JOINS * MS,
            ..FastTime::default()
        };
        simulate(&odroid(), "hperf", &workload(sleeps), 1, &mut fast);
        let sixth = *fast.time.keys().next_back().unwrap();
        // Six tasks share four CPUs.
        let share = fast.until(sixth, (JOINS + 2_000) * MS) as f64 / (2_000 * MS) as f64;
        assert!((0.55..0.8).contains(&share), "{sleeps}: {share}");
    }
}

/// A fast CPU and a slow one, each alone in its cluster.
fn one_and_one() -> Machine {
    let mut board = odroid();
    board.cpus = vec![
        board.cpus[SLOW.start].clone(),
        board.cpus[FAST.start].clone(),
    ];
    board.levels = two_caches();
    board.cpufreq = None;
    board.power = None;
    board.turbo = None;
    board
}

/// No domain of such a machine is balanced by comparing groups; balancing between the clusters must work all the same.
#[test]
fn clusters_of_one_cpu_are_balanced_too() {
    let hogs = Script(|| Start {
        tasks: (0..2).map(|_| task("hog", [run_for(2_000)])).collect(),
        ..Start::default()
    });
    let ends = |policy| {
        let mut recording = Recording::default();
        simulate(&one_and_one(), policy, &hogs, 1, &mut recording);
        let ends = recording.ends().into_iter();
        ends.filter(|(name, _)| name == "hog")
            .map(|(_, at)| at)
            .collect::<Vec<u64>>()
    };
    // Both tasks end at nearly the same time. Without balancing, one would have run at 37 % of the other's speed.
    let [first, second] = ends("hperf")[..] else {
        panic!("two hogs")
    };
    assert!(second - first < first / 20, "{first} {second}");
    let [first, second] = ends("cfs")[..] else {
        panic!("two hogs")
    };
    assert!(second - first > first / 5, "{first} {second}");
    // Both begin on the fast CPU, and one of them is sent to the slow one.
    let fast_alone = 4_000 * MS;
    assert!(ends("linaro-mp")[1] < fast_alone * 9 / 10);
}

fn counters(machine: &Machine, name: &str, workload: &dyn Workload) -> Counters {
    let policy = Policy::find(name).unwrap();
    let globals = policy.globals(machine);
    let config = Config {
        read: &[Counters::SYMBOL],
        time_limit_ns: 10_000 * MS,
        ..Config::new(machine, workload, policy.object().unwrap(), &globals)
    };
    let outcome = simulator::run(config).unwrap();
    Counters::from_bytes(&outcome.read[0]).unwrap()
}

/// New tasks move nowhere, and a task that leaves a shared core for an idle one does not go from a slow to a fast CPU.
#[test]
fn only_moves_between_unequal_cpus_are_counted() {
    let new = Script(|| Start {
        tasks: (0..4).map(|_| task("new", [run_for(1)])).collect(),
        ..Start::default()
    });
    let counted = counters(&odroid(), "linaro-mp", &new);
    assert_eq!((counted.up_migrations, counted.down_migrations), (0, 0));
    let shared = Script(|| Start {
        tasks: (1..=8)
            .map(|nr| task("shared", [run_for(20 * nr)]))
            .collect(),
        ..Start::default()
    });
    let smt = Machine::find("smt-4").unwrap();
    assert_eq!(counters(&smt, "equipoise", &shared).up_migrations, 0);
    // Both hogs begin on the fast CPU. One is sent to the slow CPU, and comes back when the other has ended.
    let hogs = Script(|| Start {
        tasks: (1..=2).map(|nr| task("hog", [run_for(500 * nr)])).collect(),
        ..Start::default()
    });
    let counted = counters(&one_and_one(), "linaro-mp", &hogs);
    assert!(counted.down_migrations > 0 && counted.up_migrations > 0);
}

/// Both tasks of a swap must be able to move: if a task may not leave the fast CPUs, it stays there, and so the other
/// task of the swap stays on its slow CPU.
#[test]
fn no_half_swaps() {
    let workload = Script(|| Start {
        tasks: FAST
            .map(|cpu| bound("stays", cpu, [run_for(1_000)]))
            .chain(SLOW.map(|_| task("roams", [run_for(500)])))
            .collect(),
        ..Start::default()
    });
    let mut ups = Ups::default();
    simulate(&odroid(), "hperf", &workload, 1, &mut ups);
    // The tasks on the slow CPUs stay there until a task on a fast CPU has finished.
    assert!(ups.0.iter().all(|&at| at > 900 * MS), "{:?}", ups.0);
}
