//! Deadline tasks: their order, budgets and admission. They get their guaranteed time, even if the frequency follows
//! the utilization.

use crate::case::config;
use crate::support::*;
use machine::{CpuMask, Machine};
use native::{Kernel, Object};
use policy::Policy;
use proptest::prelude::*;
use simulator::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use workload::{Env, Op, Program, SchedPolicy, Start, TaskSpec};

/// The runtime, deadline and period of a task, in us.
type Times = (u64, u64, u64);

static SCHEDULER: LazyLock<Object> = LazyLock::new(|| scheduler(FIFO, "FIFO_OPS"));

/// A task of this runtime, deadline and period, in us.
fn deadline(
    name: &str,
    (runtime, deadline, period): Times,
    program: impl Program + 'static,
) -> TaskSpec {
    TaskSpec {
        policy: SchedPolicy::Deadline {
            runtime_ns: runtime * 1000,
            deadline_ns: deadline * 1000,
            period_ns: period * 1000,
        },
        ..TaskSpec::new(name, program)
    }
}

/// The name and the exit time, in ns, of each task of `workload`.
fn ends(machine: &Machine, workload: &dyn workload::Workload) -> Vec<(String, u64)> {
    record(machine, workload, &SCHEDULER).1.ends()
}

fn end_of(ends: &[(String, u64)], name: &str) -> u64 {
    ends.iter().find(|(task, _)| task == name).unwrap().1
}

fn error_of(machine: &Machine, workload: &dyn workload::Workload) -> String {
    match try_run(machine, workload, &SCHEDULER, &[], None) {
        Err(Error::Task { message, .. }) => message,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing went wrong"),
    }
}

#[test]
fn the_earliest_deadline_runs_first_and_before_all_priorities() {
    let at_5_ms = |ms| [Op::SleepUntil { at: 5 * MS }, run_for(ms)];
    let workload = tasks(move || {
        [
            fifo("fifo", 0, at_5_ms(3)),
            deadline("late", (5_000, 50_000, 50_000), play(at_5_ms(2))),
            deadline("early", (5_000, 20_000, 50_000), play(at_5_ms(2))),
        ]
    });
    let ends = ends(&machine(1), &workload);
    let order: Vec<&str> = ends.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(order[..3], ["early", "late", "fifo"], "{ends:?}");
}

/// Beside a real-time task that never sleeps, tasks of sched_ext get nothing in Linux 6.12. In 7.3 their
/// server gives them 50 ms at the end of each second.
#[test]
fn the_server_gives_the_others_a_part_beside_a_real_time_hog() {
    let workload = tasks(|| {
        let from = |ms| Op::SleepUntil { at: ms * MS };
        let other = bound("other", 0, [from(10), run_for(90)]);
        [fifo("hog", 0, [from(5), run_for(4000)]), other]
    });
    for (kernel, expected) in [(Kernel::V6_12, 4005..4200), (Kernel::V7_3, 1900..2200)] {
        let scheduler = scheduler_in(kernel, FIFO, "FIFO_OPS").unwrap();
        let (_, recording) = record(&machine(1), &workload, &scheduler);
        let other = end_of(&recording.ends(), "other") / MS;
        assert!(expected.contains(&other), "{kernel:?}: {other} ms");
    }
}

/// Linux's fair class has a server in both kernels. If the CPU was idle for 0.8 s before the task came, the server
/// begins a new period with the task in 7.3; in 6.12 the old period goes on, so the task gets its first budget when
/// that period ends.
#[test]
fn fair_tasks_are_served_in_both_kernels() {
    for (kernel, policy, idle_ms, expected) in [
        (Kernel::V6_12, "eevdf-6.12", 10, 1900..2200),
        (Kernel::V6_12, "cfs", 10, 1900..2200),
        (Kernel::V6_12, "eevdf", 800, 2000..2100),
        (Kernel::V7_3, "eevdf", 10, 1900..2200),
        (Kernel::V7_3, "eevdf", 800, 2700..3000),
    ] {
        let workload = tasks(move || {
            let from = |ms| Op::SleepUntil { at: ms * MS };
            let other = bound("other", 0, [from(idle_ms + 5), run_for(90)]);
            [fifo("hog", 0, [from(idle_ms), run_for(4000)]), other]
        });
        let machine = machine(1);
        let policy = Policy::find(policy).unwrap();
        let globals = policy.globals(&machine);
        let scheduler = policy.object_in(kernel).unwrap();
        let (ran, recording) = try_record(&machine, &workload, scheduler, &globals);
        assert!(ran.is_ok(), "{:?}", ran.err());
        let other = end_of(&recording.ends(), "other") / MS;
        assert!(
            expected.contains(&other),
            "{kernel:?}, {}: {other} ms",
            policy.name
        );
    }
}

/// The first task that comes to a CPU starts the CPU's server, even if that task was running elsewhere until its
/// affinity changed.
#[test]
fn the_server_serves_a_task_that_has_been_moved_beside_a_real_time_hog() {
    let workload = tasks(|| {
        let moves = Op::SetAffinity(Box::new(CpuMask::one(0)));
        let other = bound("other", 1, [run_for(10), moves, run_for(90)]);
        [fifo("hog", 0, [run_for(4000)]), other]
    });
    let scheduler = scheduler_in(Kernel::V7_3, FIFO, "FIFO_OPS").unwrap();
    let (_, recording) = record(&machine(2), &workload, &scheduler);
    let other = end_of(&recording.ends(), "other") / MS;
    assert!((1900..2200).contains(&other), "{other} ms");
}

#[test]
fn an_overrun_is_throttled_to_its_bandwidth() {
    // A task has 20 ms of work and a budget of 2 ms in 10, beside a task that takes the rest.
    let workload = tasks(|| {
        [
            deadline("greedy", (2_000, 10_000, 10_000), play([run_for(20)])),
            bound("normal", 0, [run_for(60)]),
        ]
    });
    let ends = ends(&machine(1), &workload);
    let greedy = end_of(&ends, "greedy");
    // The tick of 4 ms checks budgets, so a task may overrun in one period and pay for it in the next.
    assert!((80 * MS..=105 * MS).contains(&greedy), "{ends:?}");
    assert!(end_of(&ends, "normal") <= 82 * MS, "{ends:?}");
}

#[test]
fn a_yield_gives_up_the_rest_of_the_budget() {
    let workload = tasks(|| {
        let ops = [run_for(1), Op::Yield, run_for(1), Op::Yield, run_for(1)];
        [deadline("frame", (5_000, 10_000, 10_000), play(ops))]
    });
    let end = end_of(&ends(&machine(1), &workload), "frame");
    assert!((21 * MS..22 * MS).contains(&end), "{end}");
}

#[test]
fn a_task_that_wakes_goes_to_a_cpu_without_deadlines() {
    let workload = tasks(|| {
        let ops = || play([Op::SleepUntil { at: 5 * MS }, run_for(8)]);
        let task = |name: &str| deadline(name, (9_000, 10_000, 10_000), ops());
        [task("a"), task("b")]
    });
    let ends = ends(&machine(3), &workload);
    assert!(
        end_of(&ends, "a").max(end_of(&ends, "b")) < 14 * MS,
        "{ends:?}"
    );
}

#[test]
fn a_task_that_does_not_fit_is_refused() {
    let half = || play([sleep_for(1)]);
    let workload = tasks(move || {
        [
            deadline("a", (5_000, 10_000, 10_000), half()),
            deadline("b", (5_000, 10_000, 10_000), half()),
        ]
    });
    let message = error_of(&machine(1), &workload);
    assert!(
        message.contains("EBUSY") && message.contains("95.0 %"),
        "{message}"
    );
    run(&machine(2), &workload, &SCHEDULER);

    let pinned = tasks(move || {
        [TaskSpec {
            affinity: Some(CpuMask::one(0)),
            ..deadline("a", (5_000, 10_000, 10_000), half())
        }]
    });
    let message = error_of(&machine(2), &pinned);
    assert!(message.contains("EPERM"), "{message}");

    let odd = tasks(move || [deadline("a", (5_000, 4_000, 10_000), half())]);
    assert!(error_of(&machine(1), &odd).contains("EINVAL"));
}

#[test]
fn the_bandwidth_of_a_task_that_ended_is_free_again() {
    let workload = tasks(|| {
        let half = SchedPolicy::Deadline {
            runtime_ns: 9_000_000,
            deadline_ns: 10_000_000,
            period_ns: 10_000_000,
        };
        let normal = SchedPolicy::Normal {
            nice: 0,
            slice_ns: 0,
        };
        let late = task("b", [sleep_for(30), Op::SetPolicy(half), run_for(2)]);
        let early = task(
            "a",
            [
                Op::SetPolicy(half),
                run_for(2),
                Op::SetPolicy(normal),
                run_for(50),
            ],
        );
        [early, late]
    });
    run(&machine(1), &workload, &SCHEDULER);
}

/// A program that does `jobs` jobs, one in each period. A job uses `share` per cent of the runtime. Adds the number of
/// jobs that end after their deadline to `misses`.
fn periodic(
    (runtime, relative, period): Times,
    share: u64,
    jobs: u64,
    misses: Arc<AtomicU64>,
) -> impl Program {
    let (mut job, mut release) = (0, 0);
    move |env: &mut Env| {
        if job == 0 {
            release = env.now;
        } else if job % 2 == 0 {
            if env.now > release + relative * 1000 {
                misses.fetch_add(1, Ordering::Relaxed);
            }
            release += period * 1000;
        }
        if job == 2 * jobs {
            return Op::Exit;
        }
        job += 1;
        match job % 2 {
            1 => Op::SleepUntil { at: release },
            _ => Op::Run {
                work: runtime * 10 * share,
            },
        }
    }
}

/// Task sets: runtime, deadline and period in us, and the part of the runtime that each job uses, in per cent.
fn task_sets() -> impl Strategy<Value = (usize, Vec<(Times, u64)>)> {
    let one = (1..=40u64, 1_000..20_000u64, any::<bool>(), 30..=100u64).prop_map(
        |(percent, period, constrained, share)| {
            let runtime = (period * percent / 100).max(2);
            let deadline = match constrained {
                true => runtime.max(period * 3 / 4),
                false => period,
            };
            ((runtime, deadline, period), share)
        },
    );
    (1..=4usize, prop::collection::vec(one, 1..=10))
}

/// The number of jobs of `set`, with 20 jobs for each task, that end after their deadline on
/// `machine` under the policy called `policy`, alongside a task of another class.
fn misses_under(policy: &str, machine: &Machine, set: &[(Times, u64)]) -> u64 {
    let misses = Arc::new(AtomicU64::new(0));
    let workload = Script(|| {
        let task = |&(times, share): &(Times, u64)| {
            deadline("dl", times, periodic(times, share, 20, misses.clone()))
        };
        let mut tasks: Vec<TaskSpec> = set.iter().map(task).collect();
        tasks.push(task_beside());
        Start {
            tasks,
            ..Start::default()
        }
    });
    simulate(machine, policy, &workload, 1, &mut Recording::default());
    misses.load(Ordering::Relaxed)
}

/// A policy that does not change the frequency, and policies whose frequency follows the utilization.
const POLICIES: [&str; 3] = ["cfs", "schedutil-cfs", "schedutil"];

#[test]
fn a_budget_lasts_longer_at_a_lower_frequency() {
    let hikey = Machine::find("hikey-6220").unwrap();
    for policy in POLICIES {
        for share in [50, 90, 97] {
            let misses = misses_under(policy, &hikey, &[((5_000, 20_000, 20_000), share)]);
            assert_eq!(misses, 0, "{policy}, {share} % of the budget used");
        }
    }
}

#[test]
fn a_budget_lasts_longer_on_a_smaller_cpu_and_what_is_too_much_for_one_goes_to_a_larger() {
    let odroid = Machine::find("odroid-xu3").unwrap();
    for policy in POLICIES {
        for percent in [20, 80] {
            let times = (percent * 1000, 100_000, 100_000);
            assert_eq!(
                misses_under(policy, &odroid, &[(times, 90); 4]),
                0,
                "{policy}, {percent} %"
            );
        }
    }
}

proptest! {
    #![proptest_config(config(24))]

    /// Deadline tasks with at most nine tenths of the bandwidth of one CPU, each with time to spare for a change of
    /// frequency.
    #[test]
    fn no_deadline_is_missed_where_frequencies_change(
        set in prop::collection::vec((5..=60u64, 20..100u64, 30..=90u64), 1..=5),
        policy in prop::sample::select(&POLICIES[..]),
    ) {
        let mut sum = 0;
        let set: Vec<_> = set
            .into_iter()
            .filter(|&(percent, ..)| {
                let fits = sum + percent <= 90;
                sum += if fits { percent } else { 0 };
                fits
            })
            .map(|(percent, period, share)| ((period * percent * 10, period * 1000, period * 1000), share))
            .collect();
        let hikey = Machine::find("hikey-6220").unwrap();
        prop_assert_eq!(misses_under(policy, &hikey, &set), 0);
    }
}

proptest! {
    #![proptest_config(config(64))]

    /// On m CPUs, earliest deadline first meets all deadlines as long as the densities' sum is at most m - (m - 1) *
    /// the greatest (Goossens, Funk, Baruah 2003). A larger set is reduced to that sum.
    #[test]
    fn admitted_tasks_that_keep_to_their_budget_never_miss((cpus, set) in task_sets()) {
        let density = |((runtime, deadline, _), _): &(Times, u64)| *runtime as f64 / *deadline as f64;
        let greatest = set.iter().map(density).fold(0.0, f64::max);
        // Admission leaves 5 % to other tasks.
        let bound = (cpus as f64 - (cpus as f64 - 1.0) * greatest).min(0.95 * cpus as f64);
        let mut sum = 0.0;
        let set: Vec<_> = set
            .into_iter()
            .filter(|task| {
                let fits = sum + density(task) <= bound;
                sum += if fits { density(task) } else { 0.0 };
                fits
            })
            .collect();
        let misses = Arc::new(AtomicU64::new(0));
        let counted = misses.clone();
        let workload = Script(move || {
            let task = |&(times, share): &(Times, u64)| {
                deadline("dl", times, periodic(times, share, 20, counted.clone()))
            };
            let mut tasks: Vec<TaskSpec> = set.iter().map(task).collect();
            tasks.push(task_beside());
            Start { tasks, ..Start::default() }
        });
        let ran = try_run(&machine(cpus), &workload, &SCHEDULER, &[], None);
        prop_assert!(ran.is_ok(), "{}", ran.err().unwrap());
        prop_assert_eq!(misses.load(Ordering::Relaxed), 0);
    }
}

/// A task that deadline tasks preempt.
fn task_beside() -> TaskSpec {
    task("normal", [run_for(100)])
}
