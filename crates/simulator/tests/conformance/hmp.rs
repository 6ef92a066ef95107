//! What the policy hperf promises of every moment: no fast CPU sleeps while a slow one has a task. And how many of
//! them get one at once.

use crate::support::{MS, Script, bound, play, run_for, simulate, sleep_for, task};
use machine::Machine;
use simulator::{Event, Trace};
use workload::{Op, Start, TaskSpec};

/// On an ODROID-XU3: CPUs 0-3 are slow, 4-7 fast.
const SLOW: std::ops::Range<usize> = 0..4;
const FAST: std::ops::Range<usize> = 4..8;

/// The longest time in which a fast CPU was idle and each moment some slow one had a task.
#[derive(Default)]
struct Sleepers {
    busy: [bool; 8],
    /// Of each CPU: since when both hold, ns.
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

/// `steady` tasks that compute all the time, and `waves` that compute and sleep.
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

/// When tasks went to fast CPUs, ns.
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

#[test]
fn of_fast_cpus_that_run_out_of_work_together_one_gets_a_task() {
    // Too short for a tick to come between.
    let workload = Script(|| Start {
        tasks: FAST
            .map(|cpu| bound("fast", cpu, [run_for(2)]))
            .chain(SLOW.map(|_| task("slow", [run_for(2)])))
            .collect(),
        ..Start::default()
    });
    let mut ups = Ups::default();
    let odroid = Machine::find("odroid-xu3").unwrap();
    simulate(&odroid, "hperf", &workload, 1, &mut ups);
    // The first of them is done 2 us before the others, and has got its task by then.
    let Ups(ups) = ups;
    assert!(ups.len() == 4 && ups[2] - ups[1] > MS, "{ups:?}");
}
