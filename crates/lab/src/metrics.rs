//! The metrics of a run: the workload's; wasted time; and the machine's if its power is known, its
//! frequencies change, or shared memory or callbacks have costs.

use crate::Threads;
use machine::Machine;
use simulator::Outcome;
use workload::{Better, Goal, Metric, Role, Unit, Workload};

/// Wasted time, which every scheduler has: the CPU time for which CPUs had no task while tasks that
/// they may run waited on others, and the longest such time of a CPU.
static WASTED: [Metric; 2] = [
    Metric::detail("wasted", Unit::Ms),
    Metric::detail("longest_waste", Unit::Ms),
];

/// The share of wakeups after which the task was on a CPU while a faster one idled that it may use.
static SLOW_WAKEUPS: Metric = Metric::detail("slow_wakeups", Unit::Percent);

/// The longest time for which a thread was runnable and did not run, even if it never did again.
static LONGEST_WAIT: Metric = Metric::detail("longest_wait", Unit::Ms);

/// The periods of control groups with a `cpu.max` in which the group used up its time, and how long it had none left in
/// such a period.
static THROTTLED: [Metric; 2] = [
    Metric::detail("throttled_periods", Unit::Percent),
    Metric::detail("throttled_time", Unit::Ms),
];

/// The names of the metrics of wasted time.
pub const WASTE: [&str; 3] = ["wasted", "longest_waste", "slow_wakeups"];

/// For the whole run: energy, average power, and the number of such runs per megajoule.
static POWER: [Metric; 3] = [
    Metric::new(
        "energy",
        Unit::Other("J"),
        Better::Lower,
        Role::Decides(Goal::Energy),
    ),
    Metric::new(
        "power",
        Unit::Other("W"),
        Better::Lower,
        Role::Explains(Goal::Energy),
    ),
    Metric::new(
        "runs_per_energy",
        Unit::Other("1/MJ"),
        Better::Higher,
        Role::Detail,
    ),
];

/// Changes of frequency, over all cpufreq policies (`stats/total_trans`).
static FREQUENCY: Metric = Metric::detail("frequency_transitions", Unit::Count);

/// The time that CPUs spend on fetching each other's cache lines and on waiting for locks, relative
/// to their busy time.
static MEMORY: Metric = Metric::detail("memory_time", Unit::Percent);

/// The time in the scheduler's callbacks, relative to all CPUs' busy time.
static CALLBACKS: Metric = Metric::detail("callback_time", Unit::Percent);

/// New-idle balancing: how often a CPU that ran out of work searched for some, and the share of all CPUs'
/// time that this took. Only Equipoise's own schedulers count these. A comparison, which may include any
/// scheduler, shows them as counters.
static NEWIDLE: [Metric; 2] = [
    Metric::detail("newidle_attempts", Unit::Other("1/s/CPU")),
    Metric::detail("newidle_time", Unit::Percent),
];

/// The metrics of `workload` on `machine`, the workload's own first.
pub fn metrics<'a>(workload: &'a dyn Workload, machine: &Machine) -> Vec<&'a Metric> {
    let power: &[Metric] = if machine.power.is_some() { &POWER } else { &[] };
    let frequency = machine.cpufreq.as_ref().map(|_| &FREQUENCY);
    let memory = machine.numa.memory.as_ref().map(|_| &MEMORY);
    let throttled: &[Metric] = if workload.limits_groups() {
        &THROTTLED
    } else {
        &[]
    };
    workload
        .metrics()
        .iter()
        .chain(&WASTED)
        .chain([&LONGEST_WAIT])
        .chain(throttled)
        .chain(has_slow_cpus(machine).then_some(&SLOW_WAKEUPS))
        .chain(power)
        .chain(frequency)
        .chain(memory)
        .chain((!machine.callbacks.is_empty()).then_some(&CALLBACKS))
        .collect()
}

/// Does `machine` have CPUs of several speeds?
fn has_slow_cpus(machine: &Machine) -> bool {
    let cpus = machine.all_cpus();
    let mut speeds = cpus.iter().map(|cpu| machine.thread_speed(cpu, 1));
    let first = speeds.next();
    speeds.any(|speed| Some(speed) != first)
}

/// The metrics that a row of an experiment can show: the [`metrics`] of a run, and the counters of
/// Equipoise's schedulers.
pub(crate) fn countable<'a>(workload: &'a dyn Workload, machine: &Machine) -> Vec<&'a Metric> {
    let mut metrics = metrics(workload, machine);
    metrics.extend(&NEWIDLE);
    metrics
}

/// The samples of [`NEWIDLE`] from the counters `counted` of a run; none if the scheduler does not
/// count.
pub(crate) fn newidle_samples(
    outcome: &Outcome,
    counted: Option<&policy::Counters>,
) -> [Vec<f64>; 2] {
    let cpu_s = outcome.simulated_ns as f64 / 1e9 * outcome.counters.busy_ns.len() as f64;
    let Some(counted) = counted.filter(|_| cpu_s > 0.0) else {
        return [Vec::new(), Vec::new()];
    };
    [
        vec![counted.newidle_calls as f64 / cpu_s],
        vec![100.0 * counted.newidle_ns as f64 / 1e9 / cpu_s],
    ]
}

/// The machine's samples of a run, which follow the workload's.
pub(crate) fn samples(
    workload: &dyn Workload,
    machine: &Machine,
    outcome: &Outcome,
    threads: &[Threads],
) -> Vec<[f64; 1]> {
    let counters = &outcome.counters;
    let ms = |ns: u64| [ns as f64 / 1e6];
    let waits = threads.iter().map(|threads| threads.longest_wait_ns);
    let mut samples = vec![
        ms(counters.wasted_ns),
        ms(counters.longest_waste_ns),
        ms(waits.max().unwrap_or(0)),
    ];
    if workload.limits_groups() {
        let throttled = counters.throttled;
        let share = throttled.throttled as f64 / throttled.periods.max(1) as f64;
        let mean_ns = throttled.ns / throttled.throttled.max(1);
        samples.extend([[100.0 * share], ms(mean_ns)]);
    }
    if has_slow_cpus(machine) {
        let (slow, all) = (counters.slow_wakeups, counters.wakeups.max(1));
        samples.push([100.0 * slow as f64 / all as f64]);
    }
    if let Some(energy) = &outcome.energy {
        let (joules, seconds) = (energy.total_j(), outcome.simulated_ns as f64 / 1e9);
        samples.extend([[joules], [joules / seconds], [1e6 / joules]]);
    }
    if machine.cpufreq.is_some() {
        samples.push([outcome.counters.frequency_transitions as f64]);
    }
    let busy: u64 = counters.busy_ns.iter().sum();
    let of_busy = |ns: u64| [100.0 * ns as f64 / busy as f64];
    if machine.numa.memory.is_some() {
        samples.push(of_busy(counters.memory_ns));
    }
    if !machine.callbacks.is_empty() {
        samples.push(of_busy(counters.callbacks_ns));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Runs, Scheduler, Watch, measure};
    use std::path::Path;

    #[test]
    fn new_idle_balancing_is_measured_of_schedulers_that_count_it() {
        let workload = models::load("hackbench:groups=1,loops=10").unwrap();
        let machine = Machine::find("snb-ep-2s").unwrap();
        let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions/slices.bpf.c");
        let schedulers = [
            (Scheduler::policy("cfs").unwrap(), true),
            (Scheduler::foreign(&[&foreign], &[]).unwrap(), false),
        ];
        for (scheduler, counts) in &schedulers {
            let case = Case {
                machine: &machine,
                workload: workload.as_ref(),
                scheduler,
            };
            let runs = Runs {
                count: 1,
                seed: 1,
                jobs: 1,
                noise: false,
            };
            let measured = measure(&[case], &runs, Watch::none()).unwrap();
            let first = metrics(workload.as_ref(), &machine).len();
            let attempts = measured[0].means(first);
            assert_eq!(attempts.is_some(), *counts);
            assert!(attempts.is_none_or(|attempts| attempts[0] > 0.0));
            let time = measured[0].means(first + 1);
            assert!(time.is_none_or(|time| time[0] > 0.0 && time[0] < 100.0));
        }
    }

    #[test]
    fn throttled_periods_are_those_in_which_a_group_has_no_time_left() {
        let machine = Machine::find("smp-8").unwrap();
        // Four loops use 100 ms in 25 ms; one loop never does.
        for (threads, share, time) in [(4, 100.0, 75.0), (1, 0.0, 0.0)] {
            let load = format!("busy:threads={threads},duration=2s,group=/box,quota=1.001");
            let workload = models::load(&load).unwrap();
            let found = metrics(workload.as_ref(), &machine);
            let first = found
                .iter()
                .position(|metric| metric.name == "throttled_periods");
            let first = first.expect("the load has a quota");
            for policy in ["eevdf", "equipoise"] {
                let scheduler = Scheduler::policy(policy).unwrap();
                let case = Case {
                    machine: &machine,
                    workload: workload.as_ref(),
                    scheduler: &scheduler,
                };
                let runs = Runs {
                    count: 1,
                    seed: 1,
                    jobs: 1,
                    noise: false,
                };
                let measured = measure(&[case], &runs, Watch::none()).unwrap();
                let mean = |metric| measured[0].means(metric).unwrap()[0];
                let (periods, ms) = (mean(first), mean(first + 1));
                assert!((periods - share).abs() < 10.0, "{policy}: {periods} %");
                assert!((ms - time).abs() < 8.0, "{policy}: {ms} ms");
            }
        }
        let unlimited = models::load("busy:group=/box").unwrap();
        let found = metrics(unlimited.as_ref(), &machine);
        assert!(
            found
                .iter()
                .all(|metric| metric.name != "throttled_periods")
        );
    }

    /// Two loads share two CPUs until the run ends.
    #[test]
    fn the_cpu_time_of_a_load_is_that_of_its_threads() {
        let machine = Machine::find("smp-2").unwrap();
        let load = "busy:threads=2,group=/a,weight=300,cpu_time=more+busy:threads=2,group=/b,cpu_time=less";
        let workload = models::load(load).unwrap();
        let (scheduler, runs) = (
            Scheduler::policy("eevdf").unwrap(),
            Runs {
                count: 1,
                seed: 1,
                jobs: 1,
                noise: false,
            },
        );
        let case = Case {
            machine: &machine,
            workload: workload.as_ref(),
            scheduler: &scheduler,
        };
        let measured = measure(&[case], &runs, Watch::none()).unwrap();
        let found = metrics(workload.as_ref(), &machine);
        let of = |part: &str| {
            let is_it =
                |metric: &&Metric| metric.name.ends_with("cpu_time") && metric.name.contains(part);
            let index = found.iter().position(is_it).unwrap();
            assert_eq!(found[index].role, Role::Decides(Goal::Throughput));
            measured[0].means(index).unwrap()[0]
        };
        let (a, b) = (of("group=/a"), of("group=/b"));
        assert!(
            (a - 1.5).abs() < 0.05 && (b - 0.5).abs() < 0.05,
            "{a} and {b} s"
        );
    }

    #[test]
    fn memory_takes_time_only_where_a_machine_describes_it() {
        let workload = models::load("hackbench:groups=1,loops=10").unwrap();
        let scheduler = Scheduler::policy("powersaving").unwrap();
        let runs = Runs {
            count: 1,
            seed: 1,
            jobs: 1,
            noise: false,
        };
        for (name, shares) in [("snb-ep-2s", true), ("snb-laptop", false)] {
            let machine = Machine::find(name).unwrap();
            let found = metrics(workload.as_ref(), &machine);
            let metric = found.iter().position(|metric| metric.name == "memory_time");
            assert_eq!(metric.is_some(), shares);
            let case = Case {
                machine: &machine,
                workload: workload.as_ref(),
                scheduler: &scheduler,
            };
            let measured = measure(&[case], &runs, Watch::none()).unwrap();
            let countable = countable(workload.as_ref(), &machine);
            assert_eq!(measured[0].runs[0].samples.len(), countable.len());
            if let Some(metric) = metric {
                let share = measured[0].means(metric).unwrap()[0];
                assert!(share > 0.1 && share < 100.0, "{share}");
            }
        }
    }
}
