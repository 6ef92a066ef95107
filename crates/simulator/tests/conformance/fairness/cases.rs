//! Loads on which a thread once got too little, most of them found by a property test.

use super::ideal::{claims, shares};
use super::load::{Does, Load, Thread, run as run_load, thread, turn};
use super::random::{equal_cpus, heterogeneous, unlike_cpus};
use crate::support::{MS, Script, equipoise_cpu_time, run_for, sleep_for, speeds, task};
use machine::Machine;
use workload::{Op, Start};

mod places;
mod requests;
mod shares;
mod spread;

/// The window in which shares are measured, in ns.
const FROM: u64 = 500 * MS;
const UNTIL: u64 = 3000 * MS;
/// The end of a longer window, for light tasks that got too little by the end of the first, in ns.
const LIGHT_UNTIL: u64 = 12_000 * MS;

#[derive(Clone, Copy, Debug)]
struct Task {
    does: Does,
    nice: i8,
    /// The CPUs that it may use, one bit for each.
    cpus: u64,
}

/// No restriction of the CPUs that a task may use.
const ALL: u64 = !0;

impl Task {
    fn thread(self) -> Thread {
        let cpus =
            (self.cpus != ALL).then(|| (0..64).filter(|cpu| self.cpus >> cpu & 1 == 1).collect());
        Thread {
            does: self.does,
            nice: self.nice,
            cpus,
            group: None,
        }
    }

    /// The least part of its due share that a task gets. A napping task waits at each wakeup, and so demands less CPU
    /// time than it would alone; a light task waits until the running task's turn is over. If some tasks are `bound`,
    /// tasks on different CPUs need not have made equal progress.
    fn least(self, bound: bool) -> f64 {
        match self.does {
            Does::Nap { .. } if self.nice <= 0 => 0.25,
            Does::Nap { .. } => 0.05,
            // A heavy task leaves the CPU to which a light task is bound only when it stops, which is rare.
            _ if bound && self.nice > 0 => 0.25,
            _ if bound => 0.45,
            _ => 0.6,
        }
    }
}

fn load(tasks: &[Task]) -> Load {
    tasks
        .iter()
        .map(|task| task.thread())
        .collect::<Vec<_>>()
        .into()
}

/// The share that each task gets until `until` under `equipoise`, in CPUs of the fastest kind.
fn run(machine: &Machine, tasks: &[Task], seed: u64, until: u64) -> Result<Vec<f64>, String> {
    let got = run_load("equipoise", machine, &load(tasks), seed, FROM..until)?;
    Ok(got.iter().map(|got| got.share).collect())
}

/// The fair share of each task, on `cpus` equal CPUs.
fn due(tasks: &[Task], cpus: usize) -> Vec<f64> {
    shares(&claims(&load(tasks)), &vec![1.0; cpus])
}

/// The fair share of each task, on CPUs of these `speeds`.
fn due_by_speed(tasks: &[Task], speeds: &[f64]) -> Vec<f64> {
    shares(&claims(&load(tasks)), speeds)
}

/// The first of `tasks` that got too little until `until`, with the share that it got and the share that it was due.
fn first_starved(
    machine: &Machine,
    tasks: &[Task],
    seed: u64,
    until: u64,
) -> Result<Option<(usize, f64, f64)>, String> {
    let got = run(machine, tasks, seed, until)?;
    let due = due_by_speed(tasks, &speeds(machine));
    let turn = turn(machine) as f64 / (until - FROM) as f64;
    let bound = tasks.iter().any(|task| task.cpus != ALL);
    let starved = |&i: &usize| got[i] + turn < tasks[i].least(bound) * due[i];
    // Light tasks are named last.
    let mut order: Vec<_> = (0..tasks.len()).collect();
    order.sort_by_key(|&i| tasks[i].nice > 0);
    Ok(order.into_iter().find(starved).map(|i| (i, got[i], due[i])))
}

/// The error describes a task of `tasks` that got too little on `machine`.
fn starved(machine: &Machine, tasks: &[Task], seed: u64) -> Result<(), String> {
    let mut starved = first_starved(machine, tasks, seed, UNTIL)?;
    if starved.is_some_and(|(i, ..)| tasks[i].nice > 0) {
        starved = first_starved(machine, tasks, seed, LIGHT_UNTIL)?;
    }
    starved.map_or(Ok(()), |(i, got, due)| {
        Err(format!(
            "task {i} got {got:.3} of a CPU, and was due {due:.3}: {:?}",
            tasks[i]
        ))
    })
}

#[test]
fn shares_of_heterogeneous_cpus_are_those_of_the_level_algorithm() {
    let close = |got: &[f64], expected: &[f64]| {
        let same = got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(same, "{got:?}, expected {expected:?}");
    };
    // One fast CPU and two of half its speed.
    let speeds = [0.5, 1.0, 0.5];
    close(&due_by_speed(&[spin(0)], &speeds), &[1.0]);
    close(&due_by_speed(&[spin(0); 2], &speeds), &[0.75; 2]);
    close(&due_by_speed(&[spin(0); 4], &speeds), &[0.5; 4]);
    // The heaviest task has the fastest CPU to itself, and the others share the slow CPUs.
    close(
        &due_by_speed(&[spin(-10), spin(0), spin(0)], &speeds),
        &[1.0, 0.5, 0.5],
    );
    // A task with a small demand leaves the rest of the time to the others.
    let quarter = nap(MS, 3 * MS);
    close(
        &due_by_speed(&[spin(0), quarter, spin(0)], &speeds),
        &[0.75, 0.25, 0.75],
    );
}

const fn spin(nice: i8) -> Task {
    let does = Does::Spin;
    Task {
        does,
        nice,
        cpus: ALL,
    }
}

const fn nap(run: u64, sleep: u64) -> Task {
    let does = Does::Nap { run, sleep };
    Task {
        does,
        nice: 0,
        cpus: ALL,
    }
}

const fn period(run: u64, period: u64) -> Task {
    let does = Does::Period { run, period };
    Task {
        does,
        nice: 0,
        cpus: ALL,
    }
}

/// While the napping tasks slept, a light task ran, and the clock followed it. Then all other tasks were at the bound
/// of their lag, where the clock cannot tell them apart.
#[test]
fn time_that_none_else_wanted_does_not_make_a_light_task_set_the_clock() {
    let tasks = [
        nap(1740457, 231947),
        spin(0),
        spin(19),
        spin(0),
        nap(695841, 231947),
        spin(0),
    ];
    assert_eq!(
        starved(&equal_cpus(4, 1, 250), &tasks, 381054361823855667),
        Ok(())
    );
}

/// Loops of nice 0, each with a CPU to itself, kept the clock back, so that the light tasks on the remaining CPU were
/// at the bound of their lead. A task of nice 19 got an eighth of its share.
#[test]
fn light_tasks_share_the_cpu_that_others_leave_by_weight() {
    let shares =
        |cpus, tasks: &[Task]| run(&equal_cpus(cpus, 1, 100), tasks, 1, LIGHT_UNTIL).unwrap();
    let three = shares(2, &[spin(0), spin(10), spin(19)]);
    assert!(
        (three[2] / (three[1] + three[2]) - 15.0 / 125.0).abs() < 0.01,
        "{three:?}"
    );
    // Shares on two clusters.
    let tasks = [spin(0), spin(5), spin(0), spin(0), spin(10)];
    assert_eq!(starved(&equal_cpus(2, 2, 250), &tasks, 0), Ok(()));
    let nap = nap(50_000, 24_768);
    let tasks = [spin(0), spin(0), nap, spin(10), spin(0), spin(19), spin(0)];
    assert_eq!(
        starved(&equal_cpus(5, 1, 100), &tasks, 3010432259152745815),
        Ok(())
    );
}

/// A light task that ran only while another one slept was set to the clock of the other CPU each time, which took away
/// what it was owed. It got a tenth of its share.
#[test]
fn a_light_task_that_runs_while_another_one_naps_keeps_what_it_is_owed() {
    let tasks = [spin(5), spin(0), nap(381_289, 10_000)];
    assert_eq!(starved(&equal_cpus(1, 2, 250), &tasks, 0), Ok(()));
}

/// The CPU's own clock followed a loop of nice 19 that ran while others napped. A periodic task that may run only there
/// waited until all others had caught up with the clock, for 3 s.
#[test]
fn a_light_task_does_not_set_the_clock_of_the_cpu_that_others_are_bound_to() {
    let tasks = [
        spin(19),
        period(2_385_595, 7_771_190),
        spin(0),
        Task {
            cpus: 2,
            ..period(1_937_172, 10_748_688)
        },
        Task {
            cpus: 3,
            ..nap(94_526, 454_313)
        },
        spin(0),
        spin(0),
        spin(0),
        Task { cpus: 1, ..spin(0) },
        Task {
            cpus: 3,
            ..period(2_704_150, 43_562_250)
        },
        spin(-10),
        nap(1_579_110, 26_695),
        spin(0),
    ];
    assert_eq!(
        starved(&equal_cpus(1, 2, 250), &tasks, 16777660902042333686),
        Ok(())
    );
}

/// A periodic task of nice 19 that ran while no task waited in its cluster moved its CPU's own clock a quarter of a
/// second ahead. Periodic tasks with affinities were placed by that clock, took the cluster's clock along, and then
/// waited for 100 ms at a time until all others had caught up.
#[test]
fn a_light_task_that_runs_alone_does_not_set_the_clock_of_the_cpu_that_others_are_bound_to() {
    let only = |cpus, task| Task { cpus, ..task };
    let nice = |nice, task| Task { nice, ..task };
    let tasks = [
        only(6, period(1_866_636, 12_333_180)),
        only(5, period(3_945_694, 18_782_776)),
        only(2, nap(691_205, 503_648)),
        spin(0),
        only(3, period(3_155_566, 12_466_698)),
        nap(749_969, 126_178),
        period(349_053, 4_396_212),
        only(4, nice(19, period(3_460_806, 13_382_418))),
        only(14, nap(544_023, 175_979)),
        nice(-5, nap(661_086, 652_463)),
        only(4, period(1_683_353, 11_416_765)),
        spin(0),
        only(2, spin(5)),
        spin(0),
        spin(0),
        nice(19, period(2_320_819, 14_604_095)),
    ];
    let got = run(&equal_cpus(2, 2, 1000), &tasks, 3275880761227951226, UNTIL).unwrap();
    for (i, due) in due(&tasks, 4).into_iter().enumerate() {
        let task = tasks[i];
        assert!(
            task.nice > 0 || got[i] > 0.8 * due,
            "{i}: {} of {due}, {task:?}",
            got[i]
        );
    }
}

/// Heavy loops that took turns on two CPUs left their debts to the cluster for others to pay, so that light loops that
/// are bound to one of the two CPUs got nothing for 2.7 s.
#[test]
fn a_heavy_task_that_changes_cpus_leaves_no_debt_to_those_that_are_bound_there() {
    let only = |cpus, nice| Task { cpus, ..spin(nice) };
    let tasks = [
        spin(11),
        only(7, 0),
        only(4, 0),
        only(5, -11),
        only(1, 0),
        spin(-5),
        spin(0),
        only(6, -2),
        spin(-7),
        spin(1),
        only(6, 0),
        spin(-5),
        spin(0),
        only(3, 5),
        only(7, -12),
        only(6, -13),
        spin(-5),
    ];
    let machine = equal_cpus(3, 1, 100);
    let got = run(&machine, &tasks, 7411530114439251968, UNTIL).unwrap();
    let turn = turn(&machine) as f64 / (UNTIL - FROM) as f64;
    for (i, due) in due(&tasks, 3).into_iter().enumerate() {
        let task = tasks[i];
        assert!(
            task.nice > 0 || got[i] + turn > 0.9 * due,
            "{i}: {} of {due}, {task:?}",
            got[i]
        );
    }
}

/// A heavy task stayed on the CPU to which a lighter one was bound, while other light tasks shared the rest. The heavy
/// task woke up on that CPU each time, was a loop that never left the CPU, or kept the CPU from a task that could have
/// preempted a light loop on a neighbouring CPU.
#[test]
fn a_heavy_task_does_not_keep_the_cpu_to_which_another_one_is_bound() {
    let only = |cpus, task| Task { cpus, ..task };
    let nice = |nice, task| Task { nice, ..task };
    let wakes_up = [
        spin(0),
        spin(5),
        only(2, spin(0)),
        nice(-10, nap(1_631_559, 474_565)),
    ];
    let loops = [
        spin(0),
        only(5, period(1_643_682, 4_643_682)),
        only(2, nap(140_507, 484_169)),
        period(2_109_828, 32_537_592),
        only(1, nap(1_947_943, 296_029)),
        only(3, spin(5)),
        only(2, nice(10, period(546_410, 3_546_410))),
        only(6, spin(-10)),
        only(3, spin(0)),
        nice(5, period(1_170_989, 25_248_791)),
        nap(1_194_897, 635_491),
        spin(0),
        nice(10, nap(1_858_835, 431_019)),
        only(4, period(3_020_089, 33_200_890)),
        period(2_165_303, 28_983_636),
    ];
    let beside = [
        period(1_256_759, 18_081_108),
        only(1, spin(0)),
        only(13, period(1_009_712, 9_058_272)),
        only(3, nap(1_868_735, 109_481)),
        only(3, spin(-10)),
        spin(0),
        only(6, spin(19)),
        nap(1_568_721, 830_352),
        nap(189_106, 756_555),
    ];
    for (cpus, caches, hz, seed, tasks, bound) in [
        (1, 2, 100, 17229243994065628852, &wakes_up[..], 2),
        (3, 1, 100, 17398477142115423229, &loops, 13),
        (2, 2, 1000, 11934001788025898169, &beside, 3),
    ] {
        let got = run(&equal_cpus(cpus, caches, hz), tasks, seed, UNTIL).unwrap();
        let due = due(tasks, cpus * caches);
        assert!(
            got[bound] > 0.5 * due[bound],
            "{bound}: {} of {}",
            got[bound],
            due[bound]
        );
    }
}

/// A loop came to the CPU at each of the naps of a task that is bound to it. The task could stop the loop once per
/// millisecond; otherwise it waited up to 10 ms for the next tick.
#[test]
fn a_task_that_naps_briefly_has_its_cpu_back_from_each_loop_that_comes() {
    let only = |cpus, task| Task { cpus, ..task };
    let tasks = [
        spin(0),
        only(1, nap(233_200, 593_241)),
        spin(0),
        only(2, nap(158_817, 208_354)),
    ];
    let got = run(&equal_cpus(3, 1, 100), &tasks, 12823406828591180069, UNTIL).unwrap();
    assert!(got[3] > 0.2, "{got:?}");
}

/// The level counted the weight of a heavy, napping task twice, so the loops of nice 0 were charged as if they were not
/// worth a CPU each. A light task that naps got 0.2 of a CPU where it was due 0.54.
#[test]
fn a_light_task_that_naps_gets_its_due_beside_a_heavy_one_that_does() {
    let nice = |nice, task| Task { nice, ..task };
    let tasks = [
        spin(0),
        nice(8, period(2_550_799, 48_914_382)),
        spin(0),
        spin(13),
        spin(12),
        spin(0),
        spin(0),
        nice(-18, nap(130_397, 225_287)),
        spin(0),
        nice(8, nap(1_476_037, 948_603)),
    ];
    let machine = equal_cpus(7, 1, 100);
    let got = run(&machine, &tasks, 10103987684308370645, UNTIL).unwrap();
    assert!(got[9] > 0.45, "{got:?}");
}

/// Light tasks on slow CPUs moved the slow cluster's clock. This cancelled the time that the other tasks there were
/// owed. A loop stayed on a slow CPU, and a loop of nice -10 got no more than loops of nice 0.
#[test]
fn light_tasks_on_slow_cpus_do_not_move_the_clock_of_others() {
    let mut heavy_nap = nap(350_375, 935_794);
    heavy_nap.nice = -5;
    let odroid = [
        spin(0),
        spin(10),
        spin(0),
        nap(656_963, 527_594),
        spin(0),
        spin(-10),
        spin(0),
        nap(387_712, 669_069),
        spin(5),
    ];
    let phone = [
        spin(0),
        spin(19),
        spin(0),
        spin(0),
        heavy_nap,
        spin(0),
        spin(0),
        spin(0),
        spin(-10),
    ];
    let starved_on =
        |name, hz, tasks: &[Task], seed| starved(&heterogeneous(name, hz), tasks, seed);
    assert_eq!(
        starved_on("odroid-xu3", 100, &odroid, 4702561834517049200),
        Ok(())
    );
    assert_eq!(starved_on("sm8250", 1000, &phone, 1266453984), Ok(()));
}

/// The clock of a phone's fastest CPU, which a loop of nice -10 keeps busy, is slow. Tasks that woke up there were not
/// charged for the time that they had got elsewhere, and got twice the time that the loops got.
#[test]
fn a_slow_clock_does_not_forgive_what_a_task_got_elsewhere() {
    let period = |run, period| Task {
        does: Does::Period { run, period },
        ..spin(0)
    };
    let tasks = [
        spin(-10),
        nap(1_358_989, 450_949),
        spin(0),
        nap(1_543_476, 392_955),
        nap(671_715, 10_000),
        nap(327_858, 10_679),
        spin(0),
        spin(0),
        period(2_763_787, 25_110_296),
        period(1_513_411, 27_214_576),
        spin(0),
        period(188_014, 4_316_098),
        spin(0),
        spin(-10),
        nap(1_255_836, 588_042),
        spin(0),
    ];
    let machine = heterogeneous("sm8250", 250);
    assert_eq!(starved(&machine, &tasks, 6753971564669806429), Ok(()));
}

/// A separate clock for light tasks that are bound to a CPU followed a task of nice 19, and moved a task of nice 5
/// along, past all heavier tasks.
#[test]
fn a_light_task_with_an_affinity_is_not_placed_by_a_lighter_one() {
    let only = |cpus, task| Task { cpus, ..task };
    let nice = |nice, task| Task { nice, ..task };
    let tasks = [
        only(0x48, nice(5, nap(73_566, 367_950))),
        only(0x13, spin(0)),
        spin(0),
        nap(1_388_217, 415_298),
        spin(0),
        spin(0),
        only(0xe8, nice(19, nap(1_753_798, 839_915))),
        only(0xe9, nap(705_309, 687_883)),
        nice(-10, period(1_802_907, 21_029_070)),
        only(0x1f, spin(0)),
        only(0x56, spin(0)),
        only(0x7d, period(959_311, 18_348_976)),
        only(0xe4, nap(1_326_776, 490_237)),
        spin(0),
        only(0x79, nap(969_236, 103_819)),
        spin(0),
    ];
    assert_eq!(
        starved(&equal_cpus(4, 2, 250), &tasks, 195818353316864592),
        Ok(())
    );
}

/// Whenever a short task stopped a loop, the clocks were kept back for 100 ms. The light tasks on the CPU that the
/// loops do not use were then at the bounds of their lead, where a task of nice 19 gets nothing.
#[test]
fn light_tasks_share_by_weight_although_short_tasks_stop_loops() {
    let nice = |nice, task| Task { nice, ..task };
    let mut unbound = vec![spin(0); 6];
    unbound.extend([
        spin(-10),
        spin(10),
        spin(10),
        spin(19),
        period(3_047_181, 60_896_439),
        period(3_566_570, 27_965_990),
    ]);
    for (cpus, caches) in [(8, 1), (4, 2)] {
        let machine = equal_cpus(cpus, caches, 1000);
        assert_eq!(starved(&machine, &unbound, 502759027463150107), Ok(()));
    }
    let few = [
        spin(0),
        spin(-5),
        spin(0),
        spin(19),
        nice(-10, period(2_359_371, 14_796_855)),
        spin(10),
        nice(-10, period(3_379_004, 16_516_016)),
    ];
    let machine = equal_cpus(4, 1, 1000);
    assert_eq!(starved(&machine, &few, 3003593870613373728), Ok(()));
    let bound = [
        Task { cpus: 5, ..spin(0) },
        spin(19),
        spin(0),
        nap(371_835, 247_531),
        Task {
            cpus: 1,
            ..nice(19, period(2_724_929, 49_323_793))
        },
    ];
    let machine = equal_cpus(3, 1, 100);
    assert_eq!(starved(&machine, &bound, 5189022825195652517), Ok(()));
}

#[test]
fn a_heavy_task_shares_its_cpus_among_those_that_are_bound_there() {
    let of = |nice, cpus| Task {
        does: Does::Spin,
        nice,
        cpus,
    };
    let tasks = [of(-1, 0b100), of(-19, 0b1100), of(0, 0b1000), of(16, 0b100)];
    for caches in [1, 2] {
        let machine = equal_cpus(4 / caches, caches, 250);
        let due = due(&tasks, 4);
        let got = run(&machine, &tasks, 1, UNTIL).unwrap();
        for light in [0, 2] {
            assert!(got[light] > 0.7 * due[light], "{got:?}, due {due:?}");
        }
    }
}

/// Two heavy loops took turns on the fast and the slow CPU. Each had run ahead of the light loops that wait for the
/// fast one, took that debt along, and lost it where it was alone.
#[test]
fn heavy_loops_that_take_turns_on_two_cpus_do_not_lose_what_they_owe() {
    let machine = unlike_cpus(&[(1, 1 << 20), (1, 3 << 17)], 1000);
    let nice = [0, 0, -19, -18, 0, 3, 4, 0, 0, 9, 0, -7, 0, 0, -5, 0, 0];
    for seed in 1..=3 {
        assert_eq!(starved(&machine, &nice.map(spin), seed), Ok(()));
    }
}
