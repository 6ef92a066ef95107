//! Schedulers side by side.

mod energy;
mod goal;
mod remarks;

use crate::number::number;
use crate::verdict::verdict;
use crate::{Bar, Cell, Chart, Colour, Page, Table, Tone};
pub use goal::change;
use goal::{Deciding, column, distinct, judged, limit, of_goal};
use lab::{Entry, Finding, Findings, GoalVerdict, Judged, Measured, Results, mean_interval};
use machine::counted;
pub(crate) use remarks::number_of_runs;
use remarks::{
    cut_short, folded, ignored_groups, remarks, same_runs, says_something, two_modes, unmeasured,
};
use std::collections::{HashMap, HashSet};
use workload::{Better, Goal};

/// The smallest difference of the work done that is shown, in per cent.
const LEAST_WORK_PCT: f64 = 1.0;

/// The selection of a comparison's results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Shows only this goal.
    pub goal: Option<Goal>,
    /// Shows every measure, not only the deciding measures.
    pub all: bool,
}

/// The page of a comparison.
pub fn comparison(findings: &Findings<'_>, shown: Shown) -> Page {
    let comparison = findings.comparison;
    let runs = &comparison.runs;
    let told = Told {
        pairs: "runs paired by seed",
        time: Some("simulated s"),
        remarks: remarks(comparison),
    };
    let page = results(findings, shown, told);
    let number = number_of_runs(runs, comparison.asked);
    let number = match runs.noise {
        true => number,
        false => format!("{number}, without noise"),
    };
    Page {
        title: format!(
            "{} on {}",
            comparison.workload.name(),
            comparison.machine.name
        ),
        notes: std::iter::once(number)
            .chain(comparison.workload.notes())
            .chain(comparison.workload.notes_on(&comparison.machine))
            .chain(cut_short(findings))
            .chain(unmeasured(findings))
            .chain(same_runs(findings))
            .chain(folded(findings))
            .chain(ignored_groups(findings))
            .chain(page.notes)
            .collect(),
        ..page
    }
}

/// The words of a page about its runs, apart from their results.
pub struct Told<'a> {
    /// The pairs from which an interval is computed, such as `runs paired by seed`.
    pub pairs: &'a str,
    /// The name of the column with the time of a run, such as `simulated s`, in the table of counts; `None` leaves the
    /// table out, because it has no place for a count that was not measured.
    pub time: Option<&'a str>,
    /// Remarks of the page's own.
    pub remarks: Vec<String>,
}

/// A page without a title that has the verdict, the tables and the charts of `findings`.
pub fn results(findings: &Results<'_>, shown: Shown, told: Told<'_>) -> Page {
    // Omit the measures that have no sample.
    let rows: Vec<&Finding<'_>> = findings
        .rows
        .iter()
        .filter(|row| row.entries.iter().any(|entry| entry.pooled.is_some()))
        .collect();
    let goals: Vec<&GoalVerdict> = findings
        .verdict
        .goals
        .iter()
        .filter(|verdict| shown.goal.is_none_or(|goal| verdict.goal == goal))
        .collect();
    let deciding: Vec<Deciding<'_>> = goals
        .iter()
        .map(|verdict| Deciding::new(verdict, &rows))
        .collect();
    let decide = || deciding.iter().flat_map(|of| of.rows.iter().copied());
    let mut tables: Vec<Table> = deciding.iter().map(|of| of_goal(findings, of)).collect();
    tables.extend(wasted(findings, &rows));
    if shown.all || tables.is_empty() {
        tables.push(distributions(&rows));
        tables.push(threads(findings));
        tables.extend(told.time.map(|time| counters(findings, time)));
    }
    let hidden = rows.len() - decide().count();
    let mut columns = tables.iter().flat_map(|table| &table.header);
    let has_change = columns.any(|column| column == "change");
    let against = match findings.schedulers.as_slice() {
        [first, _, ..] if has_change => Some(format!(
            "`change` is the change of the geometric mean of the goal's columns, except those in %, against \
             {first}, with the 95 % confidence interval over {}{}.",
            told.pairs,
            match deciding.iter().any(Deciding::is_far_from_means) {
                true => "; the columns have the arithmetic means of runs that differ much",
                false => "",
            }
        )),
        _ => None,
    };
    let more = (hidden > 0 && !shown.all).then(|| {
        let more = counted(hidden, "more measure", "more measures");
        format!("--all shows {more}.")
    });
    Page {
        notes: two_modes(findings, decide()),
        verdict: verdict(findings, shown.goal),
        tables,
        remarks: against
            .into_iter()
            .chain(told.remarks)
            .chain(more)
            .collect(),
        charts: (deciding.iter().flat_map(Deciding::charts))
            .filter(says_something)
            .collect(),
        ..Page::default()
    }
}

fn wasted(findings: &Results<'_>, rows: &[&Finding<'_>]) -> Option<Table> {
    let columns: Vec<&&Finding<'_>> = rows
        .iter()
        .filter(|row| lab::WASTE.contains(&&*row.measure.metric.name))
        .collect();
    let first = columns.first()?;
    let line = |index: usize| {
        let name = Cell::from(first.entries[index].scheduler);
        let cells = columns.iter().map(|row| judged(row, index));
        std::iter::once(name).chain(cells).collect()
    };
    Some(Table {
        title: "Wasted time".to_owned(),
        header: std::iter::once("policy".to_owned())
            .chain(columns.iter().map(|row| column(row.measure)))
            .collect(),
        text_columns: 1,
        rows: distinct(findings).map(line).collect(),
        ..Table::default()
    })
}

fn distributions(rows: &[&Finding<'_>]) -> Table {
    let has_limit = rows.iter().any(|row| row.limit.is_some());
    let mut header = [
        "metric", "unit", "policy", "mean", "min", "p50", "p95", "p99", "max", "change",
    ]
    .map(str::to_owned)
    .to_vec();
    if has_limit {
        header.push("limit".to_owned());
    }
    let mut lines = Vec::new();
    for row in rows {
        for (index, entry) in row.entries.iter().enumerate() {
            let first = |text: &str| {
                if index == 0 {
                    text.to_owned()
                } else {
                    String::new()
                }
            };
            let metric = &row.measure.metric;
            let mut line: Vec<Cell> = vec![
                first(&metric.name).into(),
                first(metric.unit.name()).into(),
                entry.scheduler.into(),
            ];
            line.extend(distribution(entry));
            line.push(change(
                entry.change,
                entry.is_better(&row.entries[0]),
                row.entries[0].is_better(entry),
            ));
            if has_limit {
                line.push(limit(row, index));
            }
            lines.push(line);
        }
    }
    Table {
        title: "All measures".to_owned(),
        header,
        text_columns: 3,
        rows: lines,
        ..Table::default()
    }
}

/// The cells of a distribution: mean, minimum, percentiles and maximum.
fn distribution(entry: &Entry<'_>) -> Vec<Cell> {
    let Some(pooled) = &entry.pooled else {
        return vec![Cell::new("-", Tone::Dim); 6];
    };
    let values = [
        ("mean", pooled.mean),
        ("min", pooled.min),
        ("p50", pooled.p50),
        ("p95", pooled.p95),
        ("p99", pooled.p99),
        ("max", pooled.max),
    ];
    let tone = |name| match entry.is_best && name == entry.measure.judged.name() {
        true => Tone::Best,
        false => Tone::Plain,
    };
    values
        .map(|(name, value)| Cell::new(number(value), tone(name)))
        .to_vec()
}

fn threads(findings: &Results<'_>) -> Table {
    let found: Vec<Vec<lab::Threads>> = findings.measured.iter().map(|it| it.threads()).collect();
    let by_name: Vec<HashMap<&str, &lab::Threads>> = found
        .iter()
        .map(|threads| threads.iter().map(|it| (it.name.as_str(), it)).collect())
        .collect();
    let stalled: Vec<HashMap<String, u64>> = findings
        .measured
        .iter()
        .map(|it| {
            it.stalled()
                .into_iter()
                .map(|(name, _, since)| (name, since))
                .collect()
        })
        .collect();
    let mut seen = HashSet::new();
    let names = found.iter().flatten().map(|it| it.name.as_str());
    let names = names.filter(|&name| seen.insert(name));
    let ms = |ns: u64| Cell::from(number(ns as f64 / 1e6));
    let mut rows = Vec::new();
    for name in names {
        for (index, &scheduler) in findings.schedulers.iter().enumerate() {
            let of = |value: fn(&lab::Threads) -> u64| {
                let found = by_name[index].get(name);
                found.map_or("-".into(), |found| ms(value(found)))
            };
            let stalled = stalled[index].get(name);
            rows.push(vec![
                if index == 0 { name } else { "" }.into(),
                scheduler.into(),
                of(|thread| thread.cpu_ns),
                of(|thread| thread.longest_wait_ns),
                stalled.map_or("".into(), |&since| ms(since)),
            ]);
        }
    }
    Table {
        title: "Threads".to_owned(),
        header: [
            "thread",
            "policy",
            "CPU time ms",
            "longest wait ms",
            "did not run from ms on",
        ]
        .map(str::to_owned)
        .to_vec(),
        text_columns: 2,
        rows,
        ..Table::default()
    }
}

/// The table of the kernel's and the scheduler's counters, as means of the runs.
fn counters(findings: &Results<'_>, time: &str) -> Table {
    let header = [
        "policy",
        "switches",
        "migrations",
        "wakeups",
        "balance calls",
        "pulled",
        "active",
        "new-idle",
        "skipped",
        "limited",
        "new-idle time",
        time,
    ];
    let row = |name: &str, measured: &Measured| -> Vec<Cell> {
        let whole = |value: f64| Cell::from(format!("{value:.0}"));
        let balancing = |value: Option<f64>| value.map_or("-".into(), whole);
        vec![
            name.into(),
            whole(measured.mean_of(|run| run.counters.context_switches as f64)),
            whole(measured.mean_of(|run| run.counters.migrations as f64)),
            whole(measured.mean_of(|run| run.counters.wakeups as f64)),
            balancing(measured.mean_of_balancing(|counters| counters.balance_calls)),
            balancing(measured.mean_of_balancing(|counters| counters.pulled)),
            balancing(measured.mean_of_balancing(|counters| counters.active_balances)),
            balancing(measured.mean_of_balancing(|counters| counters.newidle_calls)),
            balancing(measured.mean_of_balancing(|counters| counters.newidle_skipped)),
            balancing(measured.mean_of_balancing(|counters| counters.newidle_limited)),
            measured
                .newidle_time_pct()
                .map_or("-".into(), |share| format!("{share:.2} %").into()),
            number(measured.mean_of(|run| run.simulated_ns as f64 / 1e9)).into(),
        ]
    };
    let measured = findings.schedulers.iter().zip(findings.measured);
    Table {
        title: "A run, on average".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        text_columns: 1,
        rows: measured
            .map(|(name, measured)| row(name, measured))
            .collect(),
        ..Table::default()
    }
}

/// The chart of a measure's judged values, as means of the runs with their intervals; of energy, `for_work` has a factor
/// for each scheduler, if the work differs.
fn chart(row: &Finding<'_>, for_work: Option<&[f64]>) -> Chart {
    let measure = row.measure;
    let bar = |(index, entry): (usize, &Entry<'_>)| {
        let factor = for_work.map_or(1.0, |factors| factors[index]);
        let runs: Vec<f64> = entry.judged()?.iter().map(|run| factor * run).collect();
        let (value, margin) = mean_interval(&runs)?;
        // The interval of a quantity that cannot be negative does not extend below 0.
        let least = if runs.iter().all(|&run| run >= 0.0) {
            0.0
        } else {
            f64::MIN
        };
        Some(Bar {
            label: entry.scheduler.to_owned(),
            value,
            range: margin.map(|margin| ((value - margin).max(least), value + margin)),
            colour: Colour::Policy(index),
            best: entry.is_best,
        })
    };
    let bars: Vec<Bar> = row.entries.iter().enumerate().filter_map(bar).collect();
    let judged = match (measure.judged, for_work) {
        (_, Some(_)) => " for the same work",
        (Judged::Mean, None) => "",
        (Judged::P99, None) => ", mean of the runs' p99",
    };
    let interval = match bars.iter().any(|bar| bar.range.is_some()) {
        true => "; line: 95 % interval",
        false => "",
    };
    let best = match bars.iter().any(|bar| bar.best) {
        true => "; *: best",
        false => "",
    };
    Chart {
        title: format!(
            "{}{judged}, {}",
            measure.metric.name,
            measure.metric.unit.name()
        ),
        note: format!(
            "{} is better{interval}{best}",
            match measure.metric.better {
                Better::Lower => "less",
                Better::Higher => "more",
                Better::Neither => "neither",
            },
        ),
        bars,
    }
}
