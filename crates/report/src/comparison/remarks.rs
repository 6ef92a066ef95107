//! The remarks below a comparison's tables, which say what the figures show and do not show.

use super::energy::frequencies;
use super::goal::distinct;
use crate::Chart;
use crate::number::{LEAST_MARGIN_PCT, number};
use crate::verdict::at_full_speed;
use lab::{Comparison, Entry, Finding, Findings, Measured, Results, Runs};
use machine::counted;
use simulator::GroupRequest;
use workload::{Better, Unit};

/// The largest number of unjudged threads that a remark names.
const MOST_UNMEASURED: usize = 8;

/// Is any bar longer than 0? A measure that is 0 under every scheduler is only in the table.
pub(super) fn says_something(chart: &Chart) -> bool {
    chart.bars.iter().any(|bar| bar.value != 0.0)
}

pub(crate) fn number_of_runs(runs: &Runs, asked: u32) -> String {
    match runs.count == asked {
        true => format!("{}, seed {}", counted(asked, "run", "runs"), runs.seed),
        false => format!(
            "stopped after {} of {asked} runs, seed {}",
            runs.count, runs.seed
        ),
    }
}

/// Returns a note if the runs hardly differ, so that intervals over seeds show no noise. Exact runs hardly differ if
/// every margin is too small to be printed. Runs with noise, or without margins, hardly differ if all runs of each
/// scheduler are the same.
pub(super) fn same_runs(findings: &Findings<'_>) -> Option<String> {
    let comparison = findings.comparison;
    let mut runs = comparison.measured.iter().map(|one| &one.runs);
    let goals = findings.verdict.goals.iter();
    let changes = goals.flat_map(|goal| {
        (1..comparison.schedulers.len()).filter_map(|index| goal.change(0, index)?.margin_pct)
    });
    let margins: Vec<f64> = changes.collect();
    let are_same = match margins.is_empty() || comparison.runs.noise {
        true => runs.all(|runs| runs.iter().all(|run| run.is_same(&runs[0]))),
        false => margins.iter().all(|&margin| margin < LEAST_MARGIN_PCT),
    };
    (comparison.runs.count > 1 && are_same).then(|| {
        "Hardly anything in this load depends on the seed, so all runs have one sequence of events. Under a little noise, \
         results may change by more than the policies differ"
            .to_owned()
    })
}

/// Remarks about the schedulers under which every run was the same as under an earlier scheduler.
pub(super) fn folded(findings: &Results<'_>) -> Vec<String> {
    let schedulers = &findings.schedulers;
    let same_as = findings.same_as().into_iter().enumerate();
    same_as
        .filter_map(|(index, first)| {
            let [own, first] = [index, first?].map(|index| schedulers[index]);
            Some(format!("{own} has the same runs as {first}"))
        })
        .collect()
}

/// Remarks about the requests of the workload's control groups that schedulers ignore. Each remark is about one
/// request, and names these schedulers.
pub(super) fn ignored_groups(findings: &Results<'_>) -> Vec<String> {
    let requests = [
        (
            GroupRequest::Groups,
            "Control groups are ignored under",
            ", where all threads count as members of one group",
        ),
        (GroupRequest::Weight, "cpu.weight is ignored under", ""),
        (
            GroupRequest::Max,
            "cpu.max is ignored under",
            ", where no quota is enforced",
        ),
        (GroupRequest::Idle, "cpu.idle is ignored under", ""),
    ];
    let names = |request| {
        let ignores = |it: &Measured| it.runs.iter().any(|run| run.ignored.contains(&request));
        let schedulers = findings.schedulers.iter().zip(findings.measured);
        let ignoring = schedulers.filter(|(_, measured)| ignores(measured));
        ignoring.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let all = requests
        .into_iter()
        .map(|(request, what, effect)| (names(request), what, effect));
    all.filter(|(names, ..)| !names.is_empty())
        .map(|(names, what, effect)| format!("{what} {}{effect}", names.join(", ")))
        .collect()
}

/// Remarks about the measures of `rows` that have two modes under a scheduler.
pub(super) fn two_modes<'a>(
    findings: &Results<'_>,
    rows: impl Iterator<Item = &'a Finding<'a>>,
) -> Vec<String> {
    let shown: Vec<usize> = distinct(findings).collect();
    rows.flat_map(|row| shown.iter().map(|&index| &row.entries[index]))
        .filter_map(|entry| {
            // The share of missed periods has few possible values if a run has few periods, and these are not modes.
            let judged = entry.judged().filter(|_| !entry.is_share())?;
            let [(low, few), (high, many)] = lab::modes(&judged)?;
            let metric = &entry.measure.metric;
            Some(format!(
                "{} under {} has two modes, and its mean is neither: {} {} in {few} runs, {} in {many}",
                metric.name,
                entry.scheduler,
                number(low),
                metric.unit.name(),
                number(high)
            ))
        })
        .collect()
}

/// Remarks about loads that would end by themselves but have no completion time in some runs, which the duration of
/// another load ended first.
pub(super) fn cut_short(findings: &Findings<'_>) -> Vec<String> {
    let comparison = findings.comparison;
    let Some(duration_ns) = comparison.workload.start(&comparison.machine).duration_ns else {
        return Vec::new();
    };
    let metrics = comparison.workload.metrics();
    let cut = comparison.workload.cut_short(&comparison.machine);
    let has_end = |row: &&Finding<'_>| {
        let metric = &row.measure.metric;
        let has_time = metric.unit == Unit::S && metric.better == Better::Lower;
        has_time && cut.iter().any(|&it| metrics[it].name == metric.name)
    };
    let rows = findings.rows.iter().filter(has_end);
    rows.filter(|row| !row.measure.is_part)
        .filter_map(|row| {
            let missing = |entry: &Entry<'_>| entry.runs.iter().filter(|run| run.is_none()).count();
            let left: usize = row.entries.iter().map(missing).sum();
            let all: usize = row.entries.iter().map(|entry| entry.runs.len()).sum();
            (left > 0).then(|| {
                format!(
                    "{}: missing in {left} of {all} runs, which the duration of {} s cut short; \
                     give the other load a longer duration=, or this one less work",
                    row.measure.metric.name,
                    number(duration_ns as f64 / 1e9)
                )
            })
        })
        .collect()
}

/// A remark about the threads of which nothing is judged, because they completed no loop and no response in any run.
/// [`cut_short`] is about whole loads.
pub(super) fn unmeasured(findings: &Results<'_>) -> Option<String> {
    let deciding = findings.rows.iter().filter_map(|row| {
        let metric = &row.measure.metric;
        row.measure.decides().filter(|_| metric.unit != Unit::S)?;
        Some((metric.name.rsplit_once('/')?.0, row))
    });
    let (seen, unseen): (Vec<_>, Vec<_>) = deciding.partition(|(_, row)| row.has_samples());
    let is_seen = |thread: &str| seen.iter().any(|(other, _)| *other == thread);
    let mut threads: Vec<&str> = unseen.into_iter().map(|(thread, _)| thread).collect();
    threads.retain(|thread| !is_seen(thread));
    threads.dedup();
    let more = threads.len().saturating_sub(MOST_UNMEASURED);
    let named = threads.iter().take(MOST_UNMEASURED).copied();
    let more = (more > 0).then(|| format!("{more} more"));
    let named: Vec<String> = named.map(str::to_owned).chain(more).collect();
    (!named.is_empty()).then(|| {
        format!(
            "Not judged, because no loop and no response was completed in any run: {}",
            named.join(", ")
        )
    })
}

pub(super) fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.push(
        "`wasted` is the CPU time for which CPUs idled while tasks that they may run waited on other CPUs."
            .to_owned(),
    );
    if comparison.workload.cpu_bound().is_some() {
        remarks.push(
            "The column `limit` has the shortest time that the machine's CPUs allow under any scheduler, and in \
             parentheses the mean as a multiple of this time."
                .to_owned(),
        );
    }
    remarks.extend(frequencies(comparison));
    remarks.extend(at_full_speed(comparison));
    remarks.extend(callbacks(comparison));
    let gaps = comparison.machine.power_gaps();
    if !gaps.is_empty() {
        remarks.push(format!("energy: {}.", gaps.join("; ")));
    }
    remarks
}

/// Says which schedulers' callbacks take time and which take none, on a machine with costs of callbacks.
pub(super) fn callbacks(comparison: &Comparison) -> Option<String> {
    let costs = &comparison.machine.callbacks;
    if costs.is_empty() {
        return None;
    }
    let names = comparison.schedulers.iter().map(lab::Scheduler::name);
    let (paid, free): (Vec<&str>, Vec<&str>) = names.partition(|name| costs.contains_key(*name));
    if paid.is_empty() {
        let said = "The machine file has no costs for the callbacks of these schedulers.";
        return Some(said.to_owned());
    }
    let none = match free.is_empty() {
        true => String::new(),
        false => format!(", and those of {} take no time", free.join(", ")),
    };
    let paid = paid.join(", ");
    Some(format!(
        "The callbacks of {paid} take the time that the machine file gives{none}."
    ))
}
