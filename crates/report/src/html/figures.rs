//! The figures of a comparison's page: the data for the page's script, as JSON, and tables, also
//! for screen readers.

use super::first_run::{FirstRun, Thread, base};
use crate::explain::MissedPeriod;
use crate::number::number;
use crate::{Cell, Table, Tone};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lab::{Case, Comparison, Scheduler, judged_threads};
use machine::Machine;
use serde::Serialize;
use simulator::Part;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The limits for the slices and for the periods of all runs of a page, bytes, before base64 adds a
/// third. A page has at most 3 MB.
const SLICES_BYTES: usize = 1_400_000;
const PERIODS_BYTES: usize = 150_000;
/// The number of threads whose periods have a lane: those with most misses, then those that ran longest.
const MOST_PERIODIC: usize = 8;
/// With more CPUs than this, the CPUs of a cluster share a lane.
const MOST_CPU_LANES: usize = 16;
/// The number of threads with a distribution of latencies: those that decide the verdict, then
/// those that woke up most often.
const MOST_LATENCIES: usize = 12;
/// Points of a distribution.
const CDF_POINTS: usize = 160;

/// A page's drawings besides tables and bars.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The command that made the page, and its version.
    pub made_by: String,
    pub(super) machine: MachineFigure,
    pub(super) policies: Vec<PolicyFigure>,
    /// For the script.
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
    /// For each policy, its name and the energy of each of `kinds`, J.
    pub policies: Vec<(String, Vec<f64>)>,
    pub table: Table,
}

/// The machine's clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct MachineFigure {
    pub name: String,
    pub description: String,
    pub clusters: Vec<Cluster>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub core: String,
    /// A description, such as `capacity 606 of 1441, 208-1200 MHz`.
    pub what: String,
    /// The first CPU of each core, and the number of its CPUs.
    pub cores: Vec<Vec<usize>>,
}

/// A policy, and its first run.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyFigure {
    /// Among the schedulers of the comparison.
    pub index: usize,
    pub name: String,
    pub description: String,
    /// A sentence about the timeline.
    pub summary: String,
    /// The running times of the threads by cluster or CPU.
    pub threads: Table,
    /// There are lanes of load, of frequency, and of power.
    pub busy: bool,
    pub frequency: bool,
    pub power: bool,
    /// It is open at first.
    pub open: bool,
    /// The missed periods that are explained.
    pub misses: Vec<MissFigure>,
}

/// A missed period, and why.
#[derive(Clone, Debug, Default)]
pub(super) struct MissFigure {
    pub thread: String,
    /// ms
    pub released: f64,
    pub due: f64,
    pub done: f64,
    /// Sentences, the first of which has the cause.
    pub says: Vec<String>,
    /// The events.
    pub chains: Vec<Table>,
}

#[derive(Serialize)]
struct Data<'a> {
    cpus: usize,
    /// See [`kinds`].
    kinds: Vec<&'static str>,
    /// The names of the threads of all runs, those that ran longest first: they get the colours, the
    /// same ones under every policy.
    threads: &'a [String],
    runs: Vec<RunData<'a>>,
    latencies: Vec<LatencyData>,
    /// The part of the run that is shown at first, ms, if not all of it.
    view: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct RunData<'a> {
    policy: &'a str,
    /// ms
    duration: f64,
    /// The end of the slices, ms.
    shown: f64,
    /// For each CPU: the number of slices, then for each slice its time since the previous one, its
    /// length, us, and its thread; as LEB128, in base64.
    slices: String,
    /// ms
    bin: f64,
    busy: Vec<Lane>,
    frequency: Vec<Lane>,
    power: Vec<Lane>,
    /// The threads with periods.
    periodic: Vec<Periodic>,
    /// The command that explains a miss, without its thread and time.
    explain: String,
}

/// The periods of a thread in one run.
#[derive(Serialize)]
struct Periodic {
    thread: usize,
    missed: usize,
    judged: usize,
    /// For each period its release since the previous one's, the time until its deadline, and until
    /// its work was done, in units of 2 us, the last one plus 1 if it was missed; as LEB128, in
    /// base64.
    periods: String,
}

#[derive(Serialize)]
struct Lane {
    name: String,
    /// The value at the top of the lane.
    top: f64,
    unit: &'static str,
    values: Vec<f64>,
}

#[derive(Serialize)]
struct LatencyData {
    thread: String,
    /// Latencies in us, from the shortest to the longest over all policies.
    us: Vec<f64>,
    /// By policy: the percentage of wakeups that waited no longer. Empty if there was none.
    percent: Vec<Vec<f64>>,
}

/// A run's threads, all instances of one pooled, and for each thread its index among them.
type Pooled = (Vec<Thread>, Vec<usize>);

/// A scheduler's first run, as a page shows it.
pub struct Shown {
    /// The slices, load, frequencies and periods.
    pub run: FirstRun,
    /// Its missed periods, explained.
    pub misses: Vec<MissedPeriod>,
    /// The command that explains others, up to the thread and the time.
    pub explain: String,
}

impl Figures {
    /// The figures of `comparison`, with the first run of each of its schedulers; `made_by` is the
    /// command.
    pub fn new(comparison: &Comparison, shown: &[Shown], made_by: String) -> Figures {
        let figures = Figures::of_runs(&comparison.cases(), &opened(comparison), shown, made_by);
        let names = comparison.schedulers.iter().map(Scheduler::name);
        Figures {
            energy: energy(comparison, &names.collect::<Vec<_>>()),
            ..figures
        }
    }

    /// The figures of one run of each of `cases`, which differ in their schedulers; those in `open` are open
    /// at first. Without energy, which is a mean over runs.
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
        // The two to compare come first, one below the other.
        policies.sort_by_key(|policy| {
            let place = open.iter().position(|&index| index == policy.index);
            (place.unwrap_or(open.len()), policy.index)
        });
        let latency_table = latency_table(&names, &threads, &latencies);
        let data = Data {
            cpus: machine.cpus.len(),
            kinds: kinds(machine),
            threads: &order,
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

/// For each CPU `fast`, `slow` or, of three kinds or more, `middle`, by its speed; empty if all are alike.
pub(crate) fn kinds(machine: &Machine) -> Vec<&'static str> {
    let speed = |cpu: usize| machine.core_types[machine.cpus[cpu].core_type].speed;
    let speeds: BTreeSet<u32> = (0..machine.cpus.len()).map(speed).collect();
    let (slowest, fastest) = (speeds.first(), speeds.last());
    if speeds.len() < 2 {
        return Vec::new();
    }
    let kind = |cpu: usize| match Some(&speed(cpu)) {
        speed if speed == fastest => "fast",
        speed if speed == slowest => "slow",
        _ => "middle",
    };
    (0..machine.cpus.len()).map(kind).collect()
}

/// The two schedulers that are open at first: the best and the worst for the first goal for which one
/// is worse than another, or else the first two.
fn opened(comparison: &Comparison) -> Vec<usize> {
    let findings = comparison.findings();
    let mut goals = findings.verdict.goals.iter();
    let pair = goals.find_map(|goal| Some((*goal.best.first()?, *goal.worst.first()?)));
    match pair.filter(|(best, worst)| best != worst) {
        Some((best, worst)) => vec![best, worst],
        None => (0..comparison.schedulers.len().min(2)).collect(),
    }
}

/// Around the miss of these schedulers that lost most time, ms; `None` if there is none.
fn view(open: &[usize], misses: &[Vec<MissFigure>]) -> Option<[f64; 2]> {
    let last = open.iter().rev();
    let miss = last.filter_map(|&index| misses[index].first()).next()?;
    let length = miss.done.max(miss.due) - miss.released;
    let from = (miss.released - 2.0 * length).max(0.0);
    Some([
        round(from, 3),
        round(miss.done.max(miss.due) + 2.0 * length, 3),
    ])
}

/// The number of periods on each side of one that is shown.
const PERIODS_BESIDE: f64 = 4.0;

/// Around the period of these schedulers that came closest to its deadline, ms; `None` without periods.
fn near_the_latest(open: &[usize], shown: &[Shown]) -> Option<[f64; 2]> {
    let periods = open.iter().flat_map(|&index| &shown[index].run.periods);
    let used = |period: &workload::Period| {
        let length = period.due.saturating_sub(period.released).max(1);
        period.done.saturating_sub(period.released) as f64 / length as f64
    };
    let by_use = |a: &&workload::Period, b: &&workload::Period| used(a).total_cmp(&used(b));
    let latest = periods.map(|(_, period)| period).max_by(by_use)?;
    let [from, due] = [latest.released, latest.due].map(|ns| ns as f64 / 1e6);
    let beside = PERIODS_BESIDE * (due - from);
    Some([round((from - beside).max(0.0), 3), round(due + beside, 3)])
}

fn miss_figure(machine: &Machine, miss: &MissedPeriod) -> MissFigure {
    let cause = miss.cause(machine);
    let period = &miss.missed.period;
    MissFigure {
        thread: base(&miss.missed.response.name).to_owned(),
        released: ms(period.released),
        due: ms(period.due),
        done: ms(period.done),
        says: [cause.sentence].into_iter().chain(cause.details).collect(),
        chains: miss.tables(machine),
    }
}

/// The places in `order` of the threads with periods, those with most misses first.
fn periodic_threads(shown: &[Shown], pooled: &[Pooled], order: &[String]) -> Vec<usize> {
    let mut missed: BTreeMap<usize, u64> = BTreeMap::new();
    for (shown, (threads, of)) in shown.iter().zip(pooled) {
        for (thread, period) in &shown.run.periods {
            let name = &threads[of[*thread as usize]].name;
            if let Some(place) = order.iter().position(|it| it == name) {
                *missed.entry(place).or_default() += u64::from(period.missed);
            }
        }
    }
    let mut places: Vec<(u64, usize)> = missed
        .into_iter()
        .map(|(place, missed)| (u64::MAX - missed, place))
        .collect();
    places.sort_unstable();
    places.truncate(MOST_PERIODIC);
    places.into_iter().map(|(_, place)| place).collect()
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

/// The names of all runs' threads, those that ran longest in all runs together first.
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

/// The periods of the threads of these ranks.
fn periods(
    run: &FirstRun,
    rank_of: impl Fn(u32) -> usize,
    ranks: &[usize],
    budget: usize,
) -> Vec<Periodic> {
    let budget = budget / ranks.len().max(1);
    let of_rank = |&rank: &usize| {
        let of_it = run.periods.iter();
        let of_it = of_it.filter(|(thread, _)| rank_of(*thread) == rank);
        let mut all: Vec<&workload::Period> = of_it.map(|(_, period)| period).collect();
        all.sort_by_key(|period| period.released);
        let (mut bytes, mut last) = (Vec::new(), 0);
        for period in &all {
            let before = bytes.len();
            let released = period.released / UNIT_NS;
            let since = |at: u64| (at / UNIT_NS).saturating_sub(released);
            leb128(&mut bytes, released - last);
            leb128(&mut bytes, since(period.due));
            leb128(
                &mut bytes,
                since(period.done) << 1 | u64::from(period.missed),
            );
            if bytes.len() > budget {
                bytes.truncate(before);
                break;
            }
            last = released;
        }
        Periodic {
            thread: rank,
            missed: all.iter().filter(|period| period.missed).count(),
            judged: all.len(),
            periods: BASE64_STANDARD.encode(bytes),
        }
    };
    let lanes = ranks.iter().map(of_rank);
    lanes.filter(|lane| lane.judged > 0).collect()
}

/// The unit of times of periods, ns.
const UNIT_NS: u64 = 2_000;

/// A lane for each kind of part: its power.
fn power(machine: &Machine, run: &FirstRun) -> Vec<Lane> {
    if machine.power.is_none() {
        return Vec::new();
    }
    let mut kinds: Vec<(String, Vec<u64>)> = Vec::new();
    for (&part, pj) in &run.pj {
        let kind = kind_of(machine, part);
        match kinds.iter_mut().find(|(name, _)| *name == kind) {
            Some((_, sums)) => sums.iter_mut().zip(pj).for_each(|(sum, pj)| *sum += pj),
            None => kinds.push((kind, pj.clone())),
        }
    }
    let watts = |pj: &Vec<u64>| -> Vec<f64> {
        let bins = pj.iter().zip(bin_lengths(run));
        bins.map(|(&pj, length)| round(pj as f64 / length as f64 / 1e3, 3))
            .collect()
    };
    let lanes = kinds.into_iter().map(|(name, pj)| {
        let values = watts(&pj);
        Lane {
            name: format!("{name}: {} J", number(pj.iter().sum::<u64>() as f64 / 1e12)),
            top: values.iter().copied().fold(0.001, f64::max),
            unit: "W",
            values,
        }
    });
    lanes.collect()
}

/// The kind of a part of the machine that draws power.
fn kind_of(machine: &Machine, part: Part) -> String {
    let core = |cpu: usize| &machine.core_types[machine.cpus[cpu].core_type].name;
    match part {
        Part::Cpu(cpu) => format!("tasks on {}", core(cpu)),
        Part::Core(cpu) => format!("cores, {}", core(cpu)),
        Part::Cluster(_) => "clusters".to_owned(),
        Part::Package(_) => "packages".to_owned(),
        Part::Rest => "the rest".to_owned(),
    }
}

/// The slices, encoded in at most `budget` bytes, and the end of their time, ns.
fn slices(
    machine: &Machine,
    run: &FirstRun,
    thread: impl Fn(u32) -> usize,
    budget: usize,
) -> (String, u64) {
    let (mut shown, mut left) = (run.shown_ns, budget);
    let cpus = machine.cpus.len();
    let mut bytes = vec![Vec::new(); cpus];
    let (mut counts, mut ends) = (vec![0u64; cpus], vec![0u64; cpus]);
    for slice in &run.slices {
        if slice.from >= shown {
            continue;
        }
        let cpu = usize::from(slice.cpu);
        let (from, to) = (slice.from / 1000, slice.to / 1000);
        let out: &mut Vec<u8> = &mut bytes[cpu];
        let before = out.len();
        leb128(out, from - ends[cpu]);
        leb128(out, to - from);
        leb128(out, thread(slice.thread) as u64);
        let took = out.len() - before;
        if took > left {
            out.truncate(before);
            shown = shown.min(slice.from);
            break;
        }
        left -= took;
        (counts[cpu], ends[cpu]) = (counts[cpu] + 1, to);
    }
    let mut all = Vec::new();
    for (count, bytes) in counts.iter().zip(&bytes) {
        leb128(&mut all, *count);
        all.extend_from_slice(bytes);
    }
    (BASE64_STANDARD.encode(all), shown)
}

/// Seven bits per byte, the low ones first.
fn leb128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The length of each bin, ns; the last is shorter.
fn bin_lengths(run: &FirstRun) -> impl Iterator<Item = u64> {
    let (bin, duration) = (run.bin_ns, run.duration_ns);
    (0..duration.div_ceil(bin)).map(move |index| bin.min(duration - index * bin))
}

/// A lane for each CPU, or cluster.
fn busy(machine: &Machine, run: &FirstRun) -> Vec<Lane> {
    let lane = |name: String, cpus: &[usize]| Lane {
        name,
        top: 100.0,
        unit: "%",
        values: bin_lengths(run)
            .enumerate()
            .map(|(bin, length)| {
                let busy: u64 = cpus.iter().map(|&cpu| run.busy_ns[cpu][bin]).sum();
                round(100.0 * busy as f64 / (length * cpus.len() as u64) as f64, 1)
            })
            .collect(),
    };
    if machine.cpus.len() <= MOST_CPU_LANES {
        let cpus = 0..machine.cpus.len();
        return cpus.map(|cpu| lane(format!("CPU {cpu}"), &[cpu])).collect();
    }
    let clusters = machine.clusters().iter();
    clusters
        .map(|cpus| lane(format!("CPUs {cpus}"), &cpus.iter().collect::<Vec<_>>()))
        .collect()
}

/// A lane for each cpufreq policy; without cpufreq, or with many policies, the mean of each cluster.
fn frequency(machine: &Machine, run: &FirstRun) -> Vec<Lane> {
    let domains = match &machine.cpufreq {
        Some(cpufreq) if cpufreq.policies.len() <= MOST_CPU_LANES => &cpufreq.policies[..],
        _ => machine.clusters(),
    };
    let lane = |cpus: &machine::CpuMask| {
        let first = cpus.first()?;
        let of_cpus = cpus.iter().filter_map(|cpu| run.khz_ns[cpu].as_ref());
        let of_cpus: Vec<&Vec<u128>> = of_cpus.collect();
        let highest = machine.core_types[machine.cpus[first].core_type]
            .opps
            .last()?;
        let mean = |(bin, length): (usize, u64)| {
            let sum: u128 = of_cpus.iter().map(|khz| khz[bin]).sum();
            (sum as f64 / (length * of_cpus.len() as u64) as f64 / 1e3).round()
        };
        (!of_cpus.is_empty()).then(|| Lane {
            name: format!("CPUs {cpus}"),
            top: f64::from(highest.khz) / 1e3,
            unit: "MHz",
            values: bin_lengths(run).enumerate().map(mean).collect(),
        })
    };
    domains.iter().filter_map(lane).collect()
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

/// Run time, wakeups, migrations, and where each thread ran.
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

/// For the threads that are `judged`, then for those that woke up most often under any policy.
fn latencies(runs: &[&[Thread]], judged: &[String]) -> Vec<LatencyData> {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for thread in runs.iter().flat_map(|threads| threads.iter()) {
        let count = thread.latencies.len();
        match names.iter_mut().find(|(name, _)| *name == thread.name) {
            Some((_, most)) => *most = count.max(*most),
            None => names.push((&thread.name, count)),
        }
    }
    names.sort_by_key(|&(name, count)| (!judged.iter().any(|it| it == name), Reverse(count)));
    names
        .iter()
        .filter(|(_, count)| *count > 1)
        .take(MOST_LATENCIES)
        .map(|(name, _)| {
            let all: Vec<&[u64]> = runs.iter().map(|threads| of(threads, name)).collect();
            let (least, most) = all.iter().fold((u64::MAX, 0), |(least, most), sorted| {
                let first = sorted.first().map_or(least, |&ns| least.min(ns));
                (first, sorted.last().map_or(most, |&ns| most.max(ns)))
            });
            // A logarithmic scale has no zero, so nothing is shorter than 100 ns.
            let (low, high) = (least.max(100) as f64, most.max(200) as f64);
            let ratio = (high / low).powf(1.0 / (CDF_POINTS - 1) as f64);
            let points: Vec<f64> = (0..CDF_POINTS)
                .map(|point| low * ratio.powi(point as i32))
                .collect();
            let percent = |sorted: &&[u64]| -> Vec<f64> {
                if sorted.is_empty() {
                    return Vec::new();
                }
                let last = points.len() - 1;
                let share = |(index, &ns): (usize, &f64)| {
                    let below = match index == last {
                        true => sorted.len(),
                        false => sorted.partition_point(|&sample| sample as f64 <= ns),
                    };
                    round(100.0 * below as f64 / sorted.len() as f64, 3)
                };
                points.iter().enumerate().map(share).collect()
            };
            LatencyData {
                thread: (*name).to_owned(),
                percent: all.iter().map(percent).collect(),
                us: points.iter().map(|ns| round(ns / 1e3, 3)).collect(),
            }
        })
        .collect()
}

/// The latencies of thread `name`.
fn of<'a>(threads: &'a [Thread], name: &str) -> &'a [u64] {
    let thread = threads.iter().find(|thread| thread.name == name);
    thread.map_or(&[], |thread| &thread.latencies)
}

fn latency_table(names: &[&str], runs: &[&[Thread]], shown: &[LatencyData]) -> Table {
    let us = |sorted: &[u64], share: f64| -> Cell {
        let index = (sorted.len() as f64 * share).ceil() as usize;
        match sorted.get(index.max(1) - 1) {
            Some(&ns) => number(ns as f64 / 1e3).into(),
            None => Cell::new("-", Tone::Dim),
        }
    };
    let mut rows = Vec::new();
    for data in shown {
        for (policy, (name, threads)) in names.iter().zip(runs).enumerate() {
            let sorted = of(threads, &data.thread);
            let mut row: Vec<Cell> = vec![
                match policy {
                    0 => data.thread.as_str().into(),
                    _ => "".into(),
                },
                (*name).into(),
                sorted.len().to_string().into(),
            ];
            row.extend([0.5, 0.95, 0.99, 1.0].map(|share| us(sorted, share)));
            rows.push(row);
        }
    }
    Table {
        title: "Wakeup latencies of the first run, us".to_owned(),
        header: ["thread", "policy", "wakeups", "p50", "p95", "p99", "max"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 2,
        rows,
        ..Table::default()
    }
}

/// `None` where power is not known.
fn energy(comparison: &Comparison, names: &[&str]) -> Option<Energy> {
    let machine = &comparison.machine;
    let kind = |part: Part| kind_of(machine, part);
    let parts = &comparison
        .measured
        .first()?
        .runs
        .first()?
        .energy
        .as_ref()?
        .parts;
    let mut kinds: Vec<String> = Vec::new();
    for &(part, _) in parts {
        let kind = kind(part);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let measured = names.iter().zip(&comparison.measured);
    let policies: Vec<(String, Vec<f64>)> = measured
        .map(|(name, measured)| {
            let of = |wanted: &String| measured.mean_energy_j(|part| kind(part) == *wanted);
            let joules = kinds.iter().map(|kind| of(kind).unwrap_or(0.0));
            ((*name).to_owned(), joules.collect())
        })
        .collect();
    let row = |name: &str, joules: &dyn Fn(&[f64]) -> f64| -> Vec<Cell> {
        let cells = policies.iter().map(|(_, all)| number(joules(all)).into());
        std::iter::once(name.into()).chain(cells).collect()
    };
    let mut rows: Vec<Vec<Cell>> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| row(kind, &|joules| joules[index]))
        .collect();
    rows.push(row("all", &|joules| joules.iter().sum()));
    let mut header = vec!["part".to_owned()];
    header.extend(names.iter().map(|name| (*name).to_owned()));
    let table = Table {
        title: "Energy by part, J, mean of the runs".to_owned(),
        header,
        text_columns: 1,
        rows,
        ..Table::default()
    };
    Some(Energy {
        kinds,
        policies,
        table,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_bits_a_byte() {
        let mut bytes = Vec::new();
        for value in [0, 127, 128, 300] {
            leb128(&mut bytes, value);
        }
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
    }

    /// If each run had an order of its own, a thread would have a different colour under each
    /// policy.
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

    #[test]
    fn a_distribution_ends_at_all() {
        let thread = |latencies: Vec<u64>| Thread {
            name: "ui".to_owned(),
            latencies,
            ..Thread::default()
        };
        let (one, other) = (
            [thread(vec![1_000, 1_000, 50_000, 900_000])],
            [thread(vec![])],
        );
        let found = latencies(&[&one, &other], &[]);
        assert_eq!(found.len(), 1);
        let percent = &found[0].percent[0];
        assert_eq!((percent[0], percent[CDF_POINTS - 1]), (50.0, 100.0));
        assert!(percent.is_sorted());
        assert!(found[0].percent[1].is_empty());
        assert_eq!((found[0].us[0], *found[0].us.last().unwrap()), (1.0, 900.0));
    }

    #[test]
    fn the_distribution_that_opens_is_of_a_thread_that_decides() {
        let thread = |name: &str, wakeups: usize| Thread {
            name: name.to_owned(),
            latencies: vec![1_000; wakeups],
            ..Thread::default()
        };
        let run = [thread("timer", 90), thread("ui", 5), thread("batch", 40)];
        let found = latencies(&[&run], &["ui".to_owned()]);
        let names: Vec<&str> = found.iter().map(|data| data.thread.as_str()).collect();
        assert_eq!(names, ["ui", "timer", "batch"]);
    }
}
