//! The policies schedutil and schedutil-cfs with the frequencies of a board.

use crate::support::*;
use machine::{CpuMask, Machine};
use simulator::{Event, Trace};
use workload::{Op, SchedPolicy, TaskSpec, Workload};

/// The frequencies of CPU 0 of a HiKey, whose CPUs share one cpufreq policy: when each one starts (ns), and kHz.
#[derive(Default)]
struct Frequencies(Vec<(u64, u32)>);

impl Trace for Frequencies {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        if let (0, Event::CpuFrequency { khz }) = (cpu, event) {
            self.0.push((now, khz));
        }
    }
}

fn frequencies(policy: &str, workload: &dyn Workload) -> Vec<(u64, u32)> {
    let hikey = Machine::find("hikey-6220").unwrap();
    let mut frequencies = Frequencies::default();
    simulate(&hikey, policy, workload, 1, &mut frequencies);
    frequencies.0
}

/// The frequency in kHz at the end of the run.
fn last(policy: &str, workload: &dyn Workload) -> u32 {
    frequencies(policy, workload).last().unwrap().1
}

/// A burst of 200 ms on CPU 3.
fn burst() -> TaskSpec {
    bound("burst", 3, [run_for(200)])
}

/// `times` jobs of `work` ns each; one begins every `period` ms, from 1 ms on.
fn jobs(times: u64, work: u64, period: u64) -> impl IntoIterator<Item = Op> {
    (0..times).flat_map(move |job| {
        let at = (1 + job * period) * MS;
        [Op::SleepUntil { at }, Op::Run { work }]
    })
}

#[test]
fn the_utilization_of_a_burst_decays_where_only_a_deadline_task_runs() {
    let workload = tasks(|| {
        let policy = SchedPolicy::Deadline {
            runtime_ns: 6 * MS,
            deadline_ns: 41 * MS,
            period_ns: 41 * MS,
        };
        let program = play(jobs(50, 4 * MS, 41).into_iter().collect::<Vec<_>>());
        [
            burst(),
            TaskSpec {
                policy,
                ..TaskSpec::new("dl", program)
            },
        ]
    });
    for policy in ["schedutil-cfs", "schedutil"] {
        assert!(last(policy, &workload) < 500_000, "{policy}");
    }
}

#[test]
fn the_utilization_of_a_burst_decays_where_a_fair_task_sleeps_through_every_tick() {
    // The task does 0.1 ms of work in each tick of 4 ms.
    let workload = tasks(|| [burst(), bound("short", 0, jobs(500, MS / 10, 4))]);
    for policy in ["schedutil-cfs", "schedutil"] {
        assert!(last(policy, &workload) < 500_000, "{policy}");
    }
}

#[test]
fn the_frequency_comes_along_with_a_task() {
    let workload = tasks(|| {
        let mut ops = vec![run_for(200)];
        for cpu in [1, 2, 3, 4] {
            ops.extend([Op::SetAffinity(Box::new(CpuMask::one(cpu))), run_for(50)]);
        }
        [task("moves", ops)]
    });
    // Once the CPU is known to be busy, it has the highest frequency and keeps it.
    let all = frequencies("schedutil", &workload);
    let high = all.iter().position(|&(_, khz)| khz == 1_200_000).unwrap();
    let lower = all[high..]
        .iter()
        .find(|&&(at, khz)| khz < 1_200_000 && at < 390 * MS);
    assert_eq!(lower, None, "{all:?}");
}

#[test]
fn a_fair_task_beside_a_real_time_one_keeps_the_frequency_if_all_classes_count() {
    let workload = tasks(|| {
        let period = |job: u64| [Op::SleepUntil { at: job * 25 * MS }, run_for(9)];
        [
            bound("fair", 0, [run_for(1000)]),
            fifo("rt", 0, (1..60).flat_map(period)),
        ]
    });
    let (some, all) = (
        frequencies("schedutil-cfs", &workload),
        frequencies("schedutil", &workload),
    );
    // The first tenths of a second are over.
    let after =
        |changes: &[(u64, u32)]| changes.iter().filter(|change| change.0 > 300 * MS).count();
    assert!(after(&some) > 40, "{some:?}");
    assert_eq!(after(&all[..all.len() - 1]), 0, "{all:?}");
}
