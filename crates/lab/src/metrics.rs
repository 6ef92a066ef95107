//! The metrics of a run. They are the workload's, and the machine's (`OWN`), some of which exist only for some machines
//! and workloads.

use crate::Threads;
use machine::Machine;
use simulator::{Counters, Energy, Outcome};
use workload::{Better, Goal, Metric, Role, Unit, Workload};

/// A metric of the machine, the condition under which it exists, and its value for a run.
type Own = (
    Metric,
    fn(&dyn Workload, &Machine) -> bool,
    fn(&Facts<'_>) -> f64,
);

struct Facts<'a> {
    outcome: &'a Outcome,
    counters: &'a Counters,
    threads: &'a [Threads],
}

impl Facts<'_> {
    /// Energy of the whole run in J.
    fn joules(&self) -> f64 {
        self.outcome.energy.as_ref().map_or(0.0, Energy::total_j)
    }

    /// `ns` of all CPUs' busy time, in %.
    fn of_busy(&self, ns: u64) -> f64 {
        let busy: u64 = self.counters.busy_ns.iter().sum();
        100.0 * ns as f64 / busy as f64
    }
}

/// The names of the metrics of wasted time.
pub const WASTE: [&str; 3] = ["wasted", "longest_waste", "slow_wakeups"];

/// The metrics of the machine, in the order of their columns.
static OWN: [Own; 12] = [
    // Wasted time: the CPU time for which CPUs had no task while tasks that they may run waited on other CPUs, and the
    // longest such time of a CPU.
    (Metric::detail("wasted", Unit::Ms), always, |run| {
        ms(run.counters.wasted_ns)
    }),
    (Metric::detail("longest_waste", Unit::Ms), always, |run| {
        ms(run.counters.longest_waste_ns)
    }),
    // The longest time for which a thread was runnable and did not run, even if it never ran again.
    (Metric::detail("longest_wait", Unit::Ms), always, |run| {
        let waits = run.threads.iter().map(|threads| threads.longest_wait_ns);
        ms(waits.max().unwrap_or(0))
    }),
    // The share of periods in which a control group with a `cpu.max` used up its time, and the average time for which
    // it had no time left in such a period.
    (
        Metric::detail("throttled_periods", Unit::Percent),
        |workload, _| workload.limits_groups(),
        |run| {
            share(
                run.counters.throttled.throttled,
                run.counters.throttled.periods,
            )
        },
    ),
    (
        Metric::detail("throttled_time", Unit::Ms),
        |workload, _| workload.limits_groups(),
        |run| {
            let throttled = run.counters.throttled;
            ms(throttled.ns / throttled.throttled.max(1))
        },
    ),
    // The share of wakeups after which the task was on a CPU while a faster CPU that the task may use idled.
    (
        Metric::detail("slow_wakeups", Unit::Percent),
        |_, machine| has_slow_cpus(machine),
        |run| share(run.counters.slow_wakeups, run.counters.wakeups),
    ),
    // The energy and the average power of the whole run, and the number of such runs per megajoule.
    (
        Metric::new(
            "energy",
            Unit::Other("J"),
            Better::Lower,
            Role::Decides(Goal::Energy),
        ),
        has_power,
        |run| run.joules(),
    ),
    (
        Metric::new(
            "power",
            Unit::Other("W"),
            Better::Lower,
            Role::Explains(Goal::Energy),
        ),
        has_power,
        |run| run.joules() / (run.outcome.simulated_ns as f64 / 1e9),
    ),
    (
        Metric::new(
            "runs_per_energy",
            Unit::Other("1/MJ"),
            Better::Higher,
            Role::Detail,
        ),
        has_power,
        |run| 1e6 / run.joules(),
    ),
    // The number of changes of frequency, over all cpufreq policies (`stats/total_trans`).
    (
        Metric::detail("frequency_transitions", Unit::Count),
        |_, machine| machine.cpufreq.is_some(),
        |run| run.counters.frequency_transitions as f64,
    ),
    // The time that CPUs spend on fetching each other's cache lines and on waiting for locks, relative to their busy
    // time.
    (
        Metric::detail("memory_time", Unit::Percent),
        |_, machine| machine.numa.memory.is_some(),
        |run| run.of_busy(run.counters.memory_ns),
    ),
    // The time in the scheduler's callbacks, relative to all CPUs' busy time.
    (
        Metric::detail("callback_time", Unit::Percent),
        |_, machine| !machine.callbacks.is_empty(),
        |run| run.of_busy(run.counters.callbacks_ns),
    ),
];

fn always(_: &dyn Workload, _: &Machine) -> bool {
    true
}

fn has_power(_: &dyn Workload, machine: &Machine) -> bool {
    machine.power.is_some()
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn share(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

fn applicable(workload: &dyn Workload, machine: &Machine) -> impl Iterator<Item = &'static Own> {
    OWN.iter()
        .filter(|(_, applies, _)| applies(workload, machine))
}

/// New-idle balancing: the number of times that a CPU that ran out of work searched for more, and the share of all
/// CPUs' time that these searches took. Only Equipoise's own schedulers count these. A comparison, which may include
/// any scheduler, shows them as counters instead of metrics.
static NEWIDLE: [Metric; 2] = [
    Metric::detail("newidle_attempts", Unit::Other("1/s/CPU")),
    Metric::detail("newidle_time", Unit::Percent),
];

/// The metrics of `workload` on `machine`, the workload's own first.
pub fn metrics<'a>(workload: &'a dyn Workload, machine: &Machine) -> Vec<&'a Metric> {
    let own = applicable(workload, machine).map(|(metric, ..)| metric);
    workload.metrics().iter().chain(own).collect()
}

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

/// The samples of [`NEWIDLE`] from the counters `counted` of a run; no samples if the scheduler does not count these
/// searches.
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
    let run = Facts {
        outcome,
        counters: &outcome.counters,
        threads,
    };
    let values = applicable(workload, machine).map(|(.., value)| [value(&run)]);
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Runs, Scheduler, Watch, measure};
    use std::path::Path;

    fn run(workload: &dyn Workload, machine: &Machine, scheduler: &Scheduler) -> crate::Measured {
        let case = Case {
            machine,
            workload,
            scheduler,
        };
        let runs = Runs {
            count: 1,
            seed: 1,
            jobs: 1,
            noise: false,
        };
        measure(&[case], &runs, Watch::none()).unwrap().remove(0)
    }

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
            let measured = run(workload.as_ref(), &machine, scheduler);
            let first = metrics(workload.as_ref(), &machine).len();
            let attempts = measured.means(first);
            assert_eq!(attempts.is_some(), *counts);
            assert!(attempts.is_none_or(|attempts| attempts[0] > 0.0));
            let time = measured.means(first + 1);
            assert!(time.is_none_or(|time| time[0] > 0.0 && time[0] < 100.0));
        }
    }

    #[test]
    fn throttled_periods_are_those_in_which_a_group_has_no_time_left() {
        let machine = Machine::find("smp-8").unwrap();
        // Four loops use up 100 ms of CPU time in 25 ms; one loop never uses it up.
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
                let measured = run(workload.as_ref(), &machine, &scheduler);
                let mean = |metric| measured.means(metric).unwrap()[0];
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
        let scheduler = Scheduler::policy("eevdf").unwrap();
        let measured = run(workload.as_ref(), &machine, &scheduler);
        let found = metrics(workload.as_ref(), &machine);
        let of = |part: &str| {
            let is_it =
                |metric: &&Metric| metric.name.ends_with("cpu_time") && metric.name.contains(part);
            let index = found.iter().position(is_it).unwrap();
            assert_eq!(found[index].role, Role::Decides(Goal::Throughput));
            measured.means(index).unwrap()[0]
        };
        let (a, b) = (of("group=/a"), of("group=/b"));
        assert!(
            (a - 1.5).abs() < 0.05 && (b - 0.5).abs() < 0.05,
            "{a} and {b} s"
        );
    }

    /// A thread that runs at the end of the run has had CPU time since the last tick, too.
    #[test]
    fn cpu_time_counts_to_the_end() {
        let json = r#"{ "global": { "duration": 1 },
            "tasks": { "a": { "loop": -1, "run": 100000, "cpu_time": "more" } } }"#;
        let workload = workload::parse("a", "a.json", json, None).unwrap();
        let machine = Machine {
            hz: 10,
            ..Machine::find("smp-2").unwrap()
        };
        let scheduler = Scheduler::policy("eevdf").unwrap();
        let measured = run(workload.as_ref(), &machine, &scheduler);
        let found = metrics(workload.as_ref(), &machine);
        let metric = found.iter().position(|it| it.name == "a/cpu_time");
        let seconds = measured.means(metric.unwrap()).unwrap()[0];
        let of_thread = measured.threads()[0].cpu_ns as f64 / 1e9;
        assert!(
            (seconds - of_thread).abs() < 1e-6,
            "{seconds} and {of_thread} s"
        );
    }

    /// A thread that waits for its first loop is at work.
    #[test]
    fn the_wait_before_the_first_loop_is_time_at_work() {
        let json = r#"{ "global": { "duration": 1 }, "tasks": {
            "first": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "loop": 1, "run": 600000 },
            "pin": { "cpus": [0], "loop": -1, "run": 1000 } } }"#;
        let workload = workload::parse("a", "a.json", json, None).unwrap();
        let machine = Machine::find("smp-2").unwrap();
        let measured = run(&*workload, &machine, &Scheduler::policy("eevdf").unwrap());
        let measures = crate::measures(&*workload, &machine);
        let of = measures.iter().find(|it| it.metric.name == "pin/period");
        let pooled = of.unwrap().pooled(&measured.runs).unwrap();
        let at_work = pooled.mean * pooled.n as f64 / 1e6;
        assert!((0.98..1.01).contains(&at_work), "{at_work} s");
        assert!((300..500).contains(&pooled.n), "{} loops", pooled.n);
    }

    #[test]
    fn memory_takes_time_only_where_a_machine_describes_it() {
        let workload = models::load("hackbench:groups=1,loops=10").unwrap();
        let scheduler = Scheduler::policy("powersaving").unwrap();
        for (name, shares) in [("snb-ep-2s", true), ("snb-laptop", false)] {
            let machine = Machine::find(name).unwrap();
            let found = metrics(workload.as_ref(), &machine);
            let metric = found.iter().position(|metric| metric.name == "memory_time");
            assert_eq!(metric.is_some(), shares);
            let measured = run(workload.as_ref(), &machine, &scheduler);
            let countable = countable(workload.as_ref(), &machine);
            assert_eq!(measured.runs[0].samples.len(), countable.len());
            if let Some(metric) = metric {
                let share = measured.means(metric).unwrap()[0];
                assert!(share > 0.1 && share < 100.0, "{share}");
            }
        }
    }
}
