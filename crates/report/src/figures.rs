//! The figures of a comparison's page: the data for the page's script, as JSON, and tables, also for screen readers.

mod energy;
mod lanes;
mod latencies;
mod misses;

use crate::explain::MissedPeriod;
use crate::first_run::{FirstRun, Thread};
use crate::number::number;
use crate::timeline::kinds;
use crate::{Cell, Table, Tone};
use cage::text::word;
use energy::energy;
use lab::{Case, Comparison, Scheduler, judged_threads};
use lanes::{busy, frequency, power, slices};
use latencies::{LatencyData, latencies, latency_table};
use machine::Machine;
use misses::{
    PERIODS_BYTES, Periodic, miss_figure, near_the_latest, opened, periodic_threads, periods, view,
};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The size limit in bytes of the slices of all runs of a page, before base64 adds a third. A page has at most 3 MB.
const SLICES_BYTES: usize = 1_400_000;
/// The largest number of CPUs that have a lane each. With more CPUs, the CPUs of a cluster share a lane.
const MOST_CPU_LANES: usize = 16;

/// A page's drawings apart from tables and bars.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The command that made the page, and its version.
    pub made_by: String,
    pub(super) machine: MachineFigure,
    pub(super) policies: Vec<PolicyFigure>,
    /// The data for the page's script.
    pub(super) data: String,
    pub(super) energy: Option<Energy>,
    pub(super) latencies: Table,
    /// The threads with a distribution.
    pub(super) latency_threads: Vec<String>,
}

/// The mean energy of a run by kind of part.
#[derive(Clone, Debug, Default)]
pub(super) struct Energy {
    pub kinds: Vec<String>,
    /// For each policy, its name and the energy of each of `kinds`, in J.
    pub policies: Vec<(String, Vec<f64>)>,
    pub table: Table,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MachineFigure {
    pub name: String,
    pub description: String,
    pub clusters: Vec<Cluster>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub core: String,
    /// A description of the CPUs, such as `capacity 606 of 1441, 208-1200 MHz`.
    pub what: String,
    /// The CPUs of each core.
    pub cores: Vec<Vec<usize>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PolicyFigure {
    /// The policy's index among the schedulers of the comparison.
    pub index: usize,
    pub name: String,
    pub description: String,
    /// A sentence about the timeline.
    pub summary: String,
    /// The running times of the threads by cluster or CPU.
    pub threads: Table,
    /// Are there lanes of load? `frequency` and `power` are the same for lanes of frequencies and of power.
    pub busy: bool,
    pub frequency: bool,
    pub power: bool,
    /// Are the policy's drawings open at first?
    pub open: bool,
    /// The missed periods that are explained.
    pub misses: Vec<MissFigure>,
}

/// A missed period and its causes.
#[derive(Clone, Debug, Default)]
pub(super) struct MissFigure {
    pub thread: String,
    /// The times, in ms, of the release, of the deadline, and of the end of the work.
    pub released: f64,
    pub due: f64,
    pub done: f64,
    /// Sentences about the miss; the first sentence has the cause.
    pub says: Vec<String>,
    /// The tables of the miss's events.
    pub chains: Vec<Table>,
}

#[derive(Serialize)]
struct Data<'a> {
    cpus: usize,
    /// The kinds of the CPUs; see [`kinds`].
    kinds: Vec<&'static str>,
    /// The names of the threads of all runs, longest running first. The first threads have colours, which are the same
    /// under every policy.
    threads: &'a [String],
    /// The names of the threads, each as a word of a shell's command line.
    words: Vec<Cow<'a, str>>,
    runs: Vec<RunData<'a>>,
    latencies: Vec<LatencyData>,
    /// The part of the run that is shown at first, in ms, if it is not the whole run.
    view: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct RunData<'a> {
    policy: &'a str,
    /// The duration of the run, in ms.
    duration: f64,
    /// The time at which the slices end, in ms.
    shown: f64,
    /// For each CPU, the number of slices, and then for each slice the time since the previous slice in us, the length
    /// in us, and the thread. The numbers are in LEB128 and base64.
    slices: String,
    /// The length of a bin, in ms.
    bin: f64,
    busy: Vec<Lane>,
    frequency: Vec<Lane>,
    power: Vec<Lane>,
    periodic: Vec<Periodic>,
    /// The command that explains a miss, without the thread and the time.
    explain: String,
}

#[derive(Serialize)]
struct Lane {
    name: String,
    /// The value at the top of the lane.
    top: f64,
    unit: &'static str,
    values: Vec<f64>,
}

/// A run's threads, where all instances of a thread are pooled, and for each thread its index among the pooled threads.
type Pooled = (Vec<Thread>, Vec<usize>);

/// A scheduler's first run, as a page shows it.
pub struct Shown {
    /// The slices, load, frequencies and periods.
    pub run: FirstRun,
    /// The missed periods that lost the most time, explained.
    pub misses: Vec<MissedPeriod>,
    /// The command that explains other missed periods, without the thread and the time.
    pub explain: String,
}

impl Figures {
    /// The figures of `comparison`, with the first run of each of its schedulers; `made_by` is the command.
    pub fn new(comparison: &Comparison, shown: &[Shown], made_by: String) -> Figures {
        let figures = Figures::of_runs(&comparison.cases(), &opened(comparison), shown, made_by);
        let names = comparison.schedulers.iter().map(Scheduler::name);
        Figures {
            energy: energy(comparison, &names.collect::<Vec<_>>()),
            ..figures
        }
    }

    /// The figures of one run of each of `cases`, which differ in their schedulers. The drawings of the cases in `open`
    /// are open at first. These figures lack energy, which is a mean over runs.
    pub fn of_runs(
        cases: &[Case<'_>],
        open: &[usize],
        shown: &[Shown],
        made_by: String,
    ) -> Figures {
        let Some(&Case {
            machine, workload, ..
        }) = cases.first()
        else {
            return Figures::default();
        };
        let names: Vec<&str> = cases.iter().map(|case| case.scheduler.name()).collect();
        let pooled: Vec<Pooled> = shown.iter().map(|one| one.run.pooled()).collect();
        let order = longest_running(&pooled);
        let periodic = periodic_threads(shown, &pooled, &order);
        let runs = names.iter().zip(shown).zip(&pooled);
        let runs: Vec<RunData<'_>> = runs
            .map(|((name, shown), pooled)| {
                run_data(
                    machine,
                    name,
                    shown,
                    (pooled, &order, &periodic),
                    names.len(),
                )
            })
            .collect();
        let threads: Vec<&[Thread]> = pooled.iter().map(|(threads, _)| &threads[..]).collect();
        let latencies = latencies(&threads, &judged_threads(workload));
        let misses: Vec<Vec<MissFigure>> = shown
            .iter()
            .map(|one| {
                one.misses
                    .iter()
                    .map(|miss| miss_figure(machine, miss))
                    .collect()
            })
            .collect();
        let view = view(open, &misses).or_else(|| near_the_latest(open, shown));
        let schedulers = cases.iter().map(|case| case.scheduler);
        let mut policies: Vec<PolicyFigure> = schedulers
            .zip(&runs)
            .zip(shown)
            .zip(&threads)
            .zip(misses)
            .map(
                |((((scheduler, data), shown), threads), misses)| PolicyFigure {
                    index: 0,
                    name: data.policy.to_owned(),
                    description: scheduler.description().to_owned(),
                    summary: summary(data, &shown.run, threads),
                    threads: running_times(machine, &shown.run, threads),
                    busy: !data.busy.is_empty(),
                    frequency: !data.frequency.is_empty(),
                    power: !data.power.is_empty(),
                    open: false,
                    misses,
                },
            )
            .collect();
        for (index, policy) in policies.iter_mut().enumerate() {
            (policy.index, policy.open) = (index, open.contains(&index));
        }
        // The two policies to compare come first, so that their drawings are adjacent.
        policies.sort_by_key(|policy| {
            let place = open.iter().position(|&index| index == policy.index);
            (place.unwrap_or(open.len()), policy.index)
        });
        let latency_table = latency_table(&names, &threads, &latencies);
        let data = Data {
            cpus: machine.cpus.len(),
            kinds: kinds(machine),
            threads: &order,
            words: order.iter().map(|name| word(name)).collect(),
            runs,
            latencies,
            view,
        };
        Figures {
            made_by,
            machine: machine_figure(machine),
            policies,
            latency_threads: data
                .latencies
                .iter()
                .map(|data| data.thread.clone())
                .collect(),
            // The types above have string keys and no fallible serializers.
            data: cage::text::json(
                serde_json::to_string(&data).expect("plain data is always valid JSON"),
            ),
            energy: None,
            latencies: latency_table,
        }
    }
}

impl Figures {
    pub(super) fn has_misses(&self) -> bool {
        self.policies.iter().any(|policy| !policy.misses.is_empty())
    }

    pub(super) fn has_latencies(&self) -> bool {
        !self.latency_threads.is_empty()
    }
}

fn machine_figure(machine: &Machine) -> MachineFigure {
    let largest = machine.cpus.iter().map(|cpu| cpu.capacity).max();
    let cluster = |cpus: &machine::CpuMask| {
        let first = cpus.first().unwrap_or(0);
        let cpu = &machine.cpus[first];
        let core = &machine.core_types[cpu.core_type];
        let mut what = format!("capacity {}", cpu.capacity);
        if let Some(largest) = largest.filter(|&largest| largest != cpu.capacity) {
            // Writing to a String cannot fail.
            let _ = write!(what, " of {largest}");
        }
        if let (Some(low), Some(high)) = (core.opps.first(), core.opps.last()) {
            let _ = write!(what, ", {} to {} MHz", low.khz / 1000, high.khz / 1000);
        }
        let mut left = *cpus;
        let mut cores = Vec::new();
        while let Some(first) = left.first() {
            let threads = machine.siblings(first);
            cores.push(threads.iter().filter(|&cpu| left.contains(cpu)).collect());
            left = left.without(&threads);
        }
        Cluster {
            core: core.name.clone(),
            what,
            cores,
        }
    };
    MachineFigure {
        name: machine.name.clone(),
        description: machine.description.clone(),
        clusters: machine.clusters().iter().map(cluster).collect(),
    }
}

fn ms(ns: u64) -> f64 {
    round(ns as f64 / 1e6, 6)
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// The names of all runs' threads, sorted by the running time in all runs together, longest first.
fn longest_running(runs: &[Pooled]) -> Vec<String> {
    let mut ran: BTreeMap<&str, u64> = BTreeMap::new();
    for thread in runs.iter().flat_map(|(threads, _)| threads) {
        *ran.entry(&thread.name).or_default() += thread.ran_ns.iter().sum::<u64>();
    }
    let mut names: Vec<(&str, u64)> = ran.into_iter().collect();
    names.sort_by_key(|&(_, ran)| std::cmp::Reverse(ran));
    names.into_iter().map(|(name, _)| name.to_owned()).collect()
}

fn run_data<'a>(
    machine: &Machine,
    policy: &'a str,
    shown: &Shown,
    ((threads, of), order, periodic): (&Pooled, &[String], &[usize]),
    runs: usize,
) -> RunData<'a> {
    let run = &shown.run;
    let place = |thread: &Thread| order.iter().position(|name| *name == thread.name);
    let rank: Vec<usize> = threads.iter().map(|it| place(it).unwrap_or(0)).collect();
    let rank_of = |thread: u32| rank[of[thread as usize]];
    let (slices, shown_ns) = slices(machine, run, rank_of, SLICES_BYTES / runs);
    RunData {
        policy,
        duration: ms(run.duration_ns),
        shown: ms(shown_ns),
        slices,
        bin: ms(run.bin_ns),
        busy: busy(machine, run),
        frequency: frequency(machine, run),
        power: power(machine, run),
        periodic: periods(run, rank_of, periodic, PERIODS_BYTES / runs),
        explain: shown.explain.clone(),
    }
}

fn summary(data: &RunData<'_>, run: &FirstRun, threads: &[Thread]) -> String {
    let cpus = run.busy_ns.len() as u64;
    let busy: u64 = run.busy_ns.iter().flatten().sum();
    let migrations: u64 = threads.iter().map(|thread| thread.migrations).sum();
    let wakeups: u64 = threads.iter().map(|thread| thread.wakeups).sum();
    let mut text = format!(
        "{} s; CPUs were busy {:.0} % of the time; {wakeups} wakeups, {migrations} migrations.",
        number(run.duration_ns as f64 / 1e9),
        100.0 * busy as f64 / (run.duration_ns * cpus).max(1) as f64
    );
    if data.shown < data.duration {
        let _ = write!(
            text,
            " The timeline shows only the first {} s, because the whole run would not fit into a page.",
            number(data.shown / 1e3)
        );
    }
    text
}

/// The table of each thread's running time, wakeups, migrations, and CPUs.
fn running_times(machine: &Machine, run: &FirstRun, threads: &[Thread]) -> Table {
    let mut places: Vec<(String, Vec<usize>)> = Vec::new();
    for cpus in machine.clusters() {
        let first = cpus.first().unwrap_or(0);
        let core = &machine.core_types[machine.cpus[first].core_type].name;
        places.push((format!("{core}\n{cpus}, %"), cpus.iter().collect()));
    }
    if places.len() == 1 && machine.cpus.len() <= MOST_CPU_LANES {
        places = (0..machine.cpus.len())
            .map(|cpu| (format!("CPU {cpu}\n%"), vec![cpu]))
            .collect();
    }
    let mut header = ["thread", "ran\n% of a CPU", "wakeups", "migrations"]
        .map(str::to_owned)
        .to_vec();
    header.extend(places.iter().map(|(name, _)| name.clone()));
    let mut shown: Vec<&Thread> = threads.iter().collect();
    shown.sort_by_key(|thread| std::cmp::Reverse(thread.ran_ns.iter().sum::<u64>()));
    let row = |thread: &&Thread| {
        let ran: u64 = thread.ran_ns.iter().sum();
        let mut row: Vec<Cell> = vec![
            thread.name.as_str().into(),
            format!("{:.1}", 100.0 * ran as f64 / run.duration_ns.max(1) as f64).into(),
            thread.wakeups.to_string().into(),
            thread.migrations.to_string().into(),
        ];
        row.extend(places.iter().map(|(_, cpus)| {
            let there: u64 = cpus.iter().map(|&cpu| thread.ran_ns[cpu]).sum();
            let tone = if there == 0 { Tone::Dim } else { Tone::Plain };
            Cell::new(
                format!("{:.0}", 100.0 * there as f64 / ran.max(1) as f64),
                tone,
            )
        }));
        row
    };
    Table {
        title: "Running times by CPU".to_owned(),
        header,
        text_columns: 1,
        rows: shown.iter().map(row).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If each run had an order of its own, a thread would have a different colour under each policy.
    #[test]
    fn the_longest_running_threads_of_all_runs_come_first() {
        let thread = |name: &str, ran_ns: u64| Thread {
            name: name.to_owned(),
            ran_ns: vec![ran_ns, 1],
            ..Thread::default()
        };
        let runs = [
            (vec![thread("ui", 5), thread("late", 9)], vec![0, 1]),
            (vec![thread("ui", 50), thread("new", 7)], vec![0, 1]),
        ];
        assert_eq!(longest_running(&runs), ["ui", "late", "new"]);
    }
}
