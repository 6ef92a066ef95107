//! Tasks that change places between CPUs of different kinds, or of different clusters.

use super::*;
use crate::fairness::load::run_checked;
use simulator::Check;

/// On two clusters of one CPU, one task kept one CPU forever while the other tasks shared the other CPU.
#[test]
fn tasks_of_unlike_weights_change_places_between_clusters_of_one_cpu() {
    let machine = equal_cpus(1, 2, 100);
    let three = [spin(10), spin(0), spin(5)];
    let period = Task {
        does: Does::Period {
            run: 1582809,
            period: 7748427,
        },
        nice: 0,
        cpus: ALL,
    };
    let six = [
        spin(0),
        spin(-5),
        period,
        spin(0),
        nap(966368, 192020),
        spin(19),
    ];
    assert_eq!(starved(&machine, &three, 8709668682944039396), Ok(()));
    assert_eq!(starved(&machine, &six, 457293753307950187), Ok(()));
}

/// A loop of nice 5 kept a fast CPU beside one of nice 0 on a slow CPU, because no task was waiting.
#[test]
fn a_light_task_gives_a_fast_cpu_to_a_heavier_one_on_a_slow_cpu() {
    let tasks = [spin(-10), spin(5), spin(0)];
    assert_eq!(starved(&heterogeneous("tc2", 1000), &tasks, 0), Ok(()));
}

/// A thread that naps is seldom running when others compare themselves with it: while loops of nice 0 had the fast
/// CPUs, the thread woke up on an idle slow CPU each time, and got 0.43 of a CPU where it was due 0.8.
#[test]
fn a_heavy_task_that_naps_gets_a_fast_cpu_from_a_lighter_loop() {
    let nap = Task {
        nice: -6,
        ..nap(1_893_835, 390_918)
    };
    let tasks = [spin(0), spin(0), spin(0), spin(0), nap];
    let machine = unlike_cpus(&[(3, 1 << 20), (4, 3 << 17)], 100);
    let got = run(&machine, &tasks, 1, UNTIL).unwrap();
    assert!(got[4] > 0.75, "{got:?}");
}

/// A task has no claim to make up for time that it slept. It has a claim to the work that it could not do for want of a
/// fast CPU, also after a sleep: a thread that napped got 0.36 of a CPU where it was due 0.57, while a loop of the same
/// weight got 0.88.
#[test]
fn a_task_that_naps_has_its_share_of_the_fast_cpus() {
    let nices = [-9, -16, -2, 0, 3, 19];
    let mut tasks = nices.map(spin).to_vec();
    tasks.push(nap(1_717_961, 394_164));
    for hz in [100, 250, 1000] {
        let got = run(&heterogeneous("rk3588", hz), &tasks, 1, UNTIL).unwrap();
        assert!(got[6] > 0.8 * 0.5743, "{hz} Hz: {got:?}");
    }
}

/// A cpuset with big and little CPUs, as games and containers have, is a machine of its own for its tasks: neither the
/// idle CPUs beside it nor equal numbers of tasks on its fast and slow CPUs count. The periodic thread did 0.24 of a
/// CPU's work instead of 0.3, and loops on the slow CPU 0.07 instead of 0.125.
#[test]
fn a_cpuset_of_big_and_little_cpus_is_shared_like_a_machine() {
    let within = |task: Task, cpus: u64| Task { cpus, ..task };
    let periodic = Task {
        does: Does::Period {
            run: 3 * MS,
            period: 10 * MS,
        },
        ..spin(0)
    };
    for name in ["rk3588", "sm8250"] {
        let mut tasks = vec![within(periodic, 0b1101_0111)];
        tasks.extend([within(spin(0), 0b1101_0111); 6]);
        let got = run(&heterogeneous(name, 250), &tasks, 1, UNTIL).unwrap();
        assert!(got[0] > 0.285, "{name}: {got:?}");
    }
    let mut tasks = vec![within(spin(-19), 0b101_0001)];
    tasks.extend([within(spin(0), 0b101_0001); 8]);
    let got = run(&heterogeneous("sm8250", 250), &tasks, 1, UNTIL).unwrap();
    assert!(got[1..].iter().all(|share| *share > 0.115), "{got:?}");
}

/// Loops of nice 19 are little load for the slow CPUs, but one task cannot use more than one of these CPUs.
#[test]
fn little_load_on_slow_cpus_is_no_gain() {
    let nices = [0, 0, 0, 19, 19, 19, 19];
    let mut tasks = nices.map(spin).to_vec();
    tasks.push(nap(2 * MS, MS));
    let machine = unlike_cpus(&[(2, 1 << 20), (4, 1 << 18)], 250);
    let got = run(&machine, &tasks, 1, UNTIL).unwrap();
    assert!(got[7] > 0.4, "{got:?}");
}

/// With ticks of 10 ms, the heavy loop once got 0.39 of a CPU, as much as the others.
#[test]
fn a_heavy_loop_keeps_the_fastest_cpu() {
    let mut all = vec![spin(0); 12];
    all[1] = spin(-10);
    for seed in [12154843320755575222, 2, 3] {
        let got = run(&heterogeneous("sm8250", 100), &all, seed, UNTIL).unwrap();
        assert!(got[1] > 0.9, "seed {seed}: {:.2} of a CPU", got[1]);
    }
}

/// While two CPUs changed places, the slow CPU had no task for a moment and took a loop of nice 18. That loop then kept
/// the CPU while four loops of nice 0 shared three CPUs; it got 0.45 of a CPU where it was due 0.02.
#[test]
fn a_cpu_that_changes_places_takes_no_other_task() {
    let nices = [4, 0, 0, -17, 18, -13, 0, -17, 0];
    let tasks = nices.map(spin);
    let got = run(
        &heterogeneous("apple-m1", 100),
        &tasks,
        8654051236322993180,
        UNTIL,
    )
    .unwrap();
    assert!(got[4] < 0.1, "{got:?}");
    for i in [1, 2, 6, 8] {
        assert!(got[i] > 0.95 * 0.5869, "{got:?}");
    }
}

/// Four loops may use two CPUs, and a periodic thread only one of them. The loops changed CPUs at each turn and took
/// their debts along, so that the clock of the thread's CPU stood still: after 67 ms the thread never ran again.
#[test]
fn loops_of_two_cpus_do_not_stop_the_clock_of_one() {
    let of = |does, cpus| Task {
        does,
        nice: 0,
        cpus,
    };
    let period = Does::Period {
        run: 10 * MS,
        period: 33 * MS,
    };
    let mut tasks = vec![of(period, 0b100)];
    tasks.extend([of(Does::Spin, 0b101); 4]);
    for seed in 1..=3 {
        let got = run(&equal_cpus(8, 1, 250), &tasks, seed, UNTIL).unwrap();
        assert!(got[0] > 0.29, "{got:?}");
    }
}

/// Three threads of nice 0 for two CPUs, and a light loop, beside which each of the three was worth a CPU at times. A
/// thread of short runs preempted one of the others, which kept its CPU all the same, until the end of its turn.
#[test]
fn a_task_that_is_worth_a_cpu_does_not_keep_it_from_another_one() {
    let period = |run, period| Does::Period { run, period };
    let mut threads = vec![
        thread(period(8_333_000, 16_667_000)),
        thread(period(500_000, 5 * MS)),
        thread(Does::Spin),
        thread(Does::Spin),
    ];
    threads[3].nice = 10;
    let got = run_load(
        "equipoise",
        &equal_cpus(2, 1, 250),
        &threads.into(),
        1,
        FROM..UNTIL,
    );
    let audio = got.unwrap()[1];
    assert!(audio.missed * 100 <= audio.periods, "{audio:?}");
}

/// Four loops are bound to one CPU, and six others may also use a CPU of another cluster. One of the six kept the other
/// CPU, because its cluster, all of whose other CPUs idled, had as much load as the first one.
#[test]
fn loops_of_two_clusters_take_turns_on_the_cpu_that_others_may_not_use() {
    let of = |nice, cpus| Task {
        does: Does::Spin,
        nice,
        cpus,
    };
    let mut tasks = vec![of(-2, 1 << 7); 4];
    tasks.extend([of(0, 1 << 7 | 1 << 15); 6]);
    let got = run(&equal_cpus(8, 2, 250), &tasks, 1, UNTIL).unwrap();
    for loops in &got[4..] {
        assert!((loops - 1.0 / 6.0).abs() < 0.02, "{got:?}");
    }
}

/// A thread of short runs preempts a light loop on a CPU of its affinity, and gets that CPU at once. The thread once
/// waited for another CPU, while the CPU that had stopped for it found no task.
#[test]
fn a_bound_task_goes_to_the_cpu_that_stops_for_it() {
    let five = [2, 3, 4, 6, 7];
    let of = |does, nice| Thread {
        nice,
        cpus: Some(five.into_iter().collect()),
        ..thread(does)
    };
    let period = Does::Period {
        run: 200_000,
        period: 2 * MS,
    };
    let mut threads = vec![of(period, 0), of(Does::Spin, 0), of(Does::Spin, 0)];
    threads.extend(vec![of(Does::Spin, 19); 3]);
    let got = run_load(
        "equipoise",
        &equal_cpus(8, 1, 250),
        &threads.into(),
        1,
        FROM..UNTIL,
    );
    let thread = got.unwrap()[0];
    assert!(thread.missed * 25 <= thread.periods, "{thread:?}");
}

/// A preempted thread looks for an idle CPU in other clusters, too: a tick of the CPU for which it waited looked only at
/// the first idle CPU of each cluster, which the thread could not use.
#[test]
fn a_bound_thread_that_is_preempted_finds_an_idle_cpu_in_another_cluster() {
    let on = |cpus: u64, task: Task| Task { cpus, ..task };
    let periodic = |run: u64, period: u64| Task {
        does: Does::Period {
            run: run * MS,
            period: period * MS,
        },
        ..spin(0)
    };
    let light = Task {
        nice: 9,
        ..nap(1_400_000, 700_000)
    };
    // CPU 0 idles, and CPU 1 does most of the time.
    let tasks = [
        on(0b0110, light),
        on(0b0010, periodic(5, 50)),
        on(0b0100, periodic(8, 70)),
        on(0b1000, spin(0)),
    ];
    let machine = equal_cpus(2, 2, 1000);
    let check = Check::work_conserving(2 * MS);
    let ran = run_checked(
        "equipoise",
        &machine,
        &load(&tasks),
        1,
        FROM..UNTIL,
        Some(check),
    );
    assert!(ran.is_ok(), "{ran:?}");
}
