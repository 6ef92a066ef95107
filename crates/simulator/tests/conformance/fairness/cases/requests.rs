//! The time that a task asks for, and the service that it gives up.

use super::*;
use crate::support::sleep_for;
use std::collections::HashMap;
use workload::{SchedPolicy, TaskSpec};

/// The CPU time of each thread that `tasks` makes, in ms, in 3 s on `cpus` equal CPUs.
fn cpu_ms(cpus: usize, tasks: fn() -> Vec<TaskSpec>) -> HashMap<String, u64> {
    let workload = Script(move || Start {
        tasks: tasks(),
        duration_ns: Some(3000 * MS),
        ..Start::default()
    });
    let machine = equal_cpus(cpus, 1, 250);
    let got = equipoise_cpu_time(&machine, &workload, 1, 60_000 * MS, 0..3000 * MS).unwrap();
    got.into_iter().map(|(name, ns)| (name, ns / MS)).collect()
}

fn busy(name: &str) -> TaskSpec {
    task(name, (0..3000).map(|_| run_for(1)))
}

fn with(policy: SchedPolicy, spec: TaskSpec) -> TaskSpec {
    TaskSpec { policy, ..spec }
}

/// Eight threads that need all of a CPU together run for slightly longer than a slice. Each of them went back to the
/// end of the queue, for the rest of its run: together they got 0.56 of the CPU.
#[test]
fn a_task_asks_for_the_rest_of_its_usual_run() {
    let tasks: Vec<Task> = (0..8)
        .map(|i| nap(3_010_000 + 3000 * i, 7 * 3_010_000))
        .collect();
    let got = run(&equal_cpus(1, 1, 250), &tasks, 1, UNTIL).unwrap();
    assert!(got.iter().sum::<f64>() > 0.9, "{got:?}");
}

/// Seven threads that poll and yield waste no more of a CPU than under EEVDF, however many of them there are: a loop
/// beside them got an eighth of the CPU.
#[test]
fn a_task_that_yields_gives_up_its_turn() {
    let got = cpu_ms(1, || {
        let polls = || (0..150_000).flat_map(|_| [Op::Run { work: 20_000 }, Op::Yield]);
        let pollers = (0..7).map(|i| task(&i.to_string(), polls()));
        pollers.chain([busy("loop")]).collect()
    });
    assert!(got["loop"] > 2400, "{got:?}");
}

/// A thread that is worth a CPU takes that of the loop with the most progress, and not always the CPU where it ran
/// last: of equal loops, one got a tenth less than the others.
#[test]
fn a_task_that_is_worth_a_cpu_takes_it_from_each_loop_in_turn() {
    let light = Task {
        nice: 10,
        ..spin(0)
    };
    let periodic = Task {
        does: Does::Period {
            run: MS,
            period: 10 * MS,
        },
        ..spin(0)
    };
    let mut tasks = vec![light; 8];
    tasks.push(periodic);
    let got = run(&equal_cpus(8, 1, 250), &tasks, 1, LIGHT_UNTIL).unwrap();
    let least = got[..8].iter().copied().fold(1.0, f64::min);
    let most = got[..8].iter().copied().fold(0.0, f64::max);
    assert!(most < 1.01 * least, "{got:?}");
}

/// Loops that request longer slices than others run seldom, but for as long in all: they got 0.73 of their share,
/// because the service that a task was owed was limited by the default slice.
#[test]
fn a_requested_slice_does_not_change_the_share() {
    let got = cpu_ms(2, || {
        let long = SchedPolicy::Normal {
            nice: 0,
            slice_ns: 50 * MS,
        };
        let loops = (0..4).map(|i| busy(&format!("short {i}")));
        let slow = (0..4).map(|i| with(long, busy(&format!("long {i}"))));
        loops.chain(slow).collect()
    });
    let long: u64 = (0..4).map(|i| got[&format!("long {i}")]).sum();
    assert!((2850..=3150).contains(&long), "{got:?}");
}

/// A waking thread of SCHED_BATCH waits for the end of another thread's turn, but not for one of SCHED_IDLE.
#[test]
fn a_batch_thread_preempts_an_idle_one() {
    let got = cpu_ms(1, || {
        let batch = SchedPolicy::Batch {
            nice: 0,
            slice_ns: 0,
        };
        let naps = (0..400).flat_map(|_| [Op::Run { work: MS / 2 }, sleep_for(9)]);
        let idle = (0..2).map(|i| with(SchedPolicy::Idle, busy(&i.to_string())));
        idle.chain([with(batch, task("batch", naps))]).collect()
    });
    // It runs for half a millisecond in every 9.5.
    assert!(got["batch"] >= 150, "{got:?}");
}
