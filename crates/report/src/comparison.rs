//! Schedulers side by side.

use crate::number::{number, percent};
use crate::{Bar, Cell, Chart, Page, Table, Tone};
use lab::{Change, Comparison, Entry, Measured};
use workload::{Better, Metric};

/// The page of `comparison`.
pub fn comparison(comparison: &Comparison) -> Page {
    let entries = comparison.entries();
    // What no run measured is of no interest to a person.
    let groups: Vec<&[Entry<'_>]> = entries
        .chunks(comparison.schedulers.len().max(1))
        .filter(|group| group.iter().any(|entry| entry.pooled.is_some()))
        .collect();
    let runs = &comparison.runs;
    Page {
        title: format!(
            "{} on {}",
            comparison.workload.name(),
            comparison.machine.name
        ),
        notes: vec![format!("{} runs, seed {}", runs.count, runs.seed)],
        tables: vec![metrics(&groups), counters(comparison)],
        remarks: remarks(comparison),
        charts: groups.iter().map(|group| chart(group)).collect(),
        ..Page::default()
    }
}

fn metrics(groups: &[&[Entry<'_>]]) -> Table {
    let has_limit = groups.iter().any(|group| group[0].limit.is_some());
    let mut header = [
        "metric", "unit", "policy", "mean", "min", "p50", "p95", "p99", "max", "change",
    ]
    .map(str::to_owned)
    .to_vec();
    if has_limit {
        header.push("limit".to_owned());
    }
    let mut rows = Vec::new();
    for group in groups {
        let best = best(group);
        for (index, entry) in group.iter().enumerate() {
            let first = |text: &str| {
                if index == 0 {
                    text.to_owned()
                } else {
                    String::new()
                }
            };
            let mut row: Vec<Cell> = vec![
                first(&entry.metric.name).into(),
                first(entry.metric.unit).into(),
                entry.scheduler.into(),
            ];
            row.extend(distribution(entry, best == Some(index)));
            row.push(change(entry.change, entry.metric));
            if has_limit {
                row.push(limit(entry));
            }
            rows.push(row);
        }
    }
    Table {
        title: String::new(),
        header,
        text_columns: 3,
        rows,
    }
}

/// Mean, minimum, percentiles and maximum.
fn distribution(entry: &Entry<'_>, is_best: bool) -> Vec<Cell> {
    let Some(pooled) = &entry.pooled else {
        return vec![Cell::new("-", Tone::Dim); 6];
    };
    let tone = if is_best { Tone::Best } else { Tone::Plain };
    let mut cells = vec![Cell::new(number(pooled.mean), tone)];
    let rest = [pooled.min, pooled.p50, pooled.p95, pooled.p99, pooled.max];
    cells.extend(rest.map(|value| Cell::from(number(value))));
    cells
}

/// The index of the best mean; `None` if it is shared, or has no other to be better than.
fn best(group: &[Entry<'_>]) -> Option<usize> {
    let better = group.first()?.metric.better;
    let cost = |entry: &Entry<'_>| {
        entry.pooled.as_ref().map(|pooled| match better {
            Better::Lower => pooled.mean,
            Better::Higher => -pooled.mean,
        })
    };
    let costs: Vec<(usize, f64)> = group
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, cost(entry)?)))
        .collect();
    let (index, least) = costs.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let shared = costs
        .iter()
        .any(|&(other, cost)| other != index && cost == least);
    (!shared && costs.len() > 1).then_some(index)
}

fn change(change: Option<Change>, metric: &Metric) -> Cell {
    let Some(change) = change else {
        return Cell::default();
    };
    let margin = change
        .margin_pct
        .map_or(String::new(), |margin| format!(" ± {margin:.1}"));
    let is_better = (change.mean_pct < 0.0) == (metric.better == Better::Lower);
    let tone = match (change.is_significant(), is_better) {
        (false, _) => Tone::Dim,
        (true, true) => Tone::Better,
        (true, false) => Tone::Worse,
    };
    Cell::new(
        percent(change.mean_pct).replace(" %", &format!("{margin} %")),
        tone,
    )
}

fn limit(entry: &Entry<'_>) -> Cell {
    match (entry.limit, &entry.pooled) {
        (Some(limit), Some(pooled)) => Cell::new(
            format!("{} ({:.3} x)", number(limit), pooled.mean / limit),
            Tone::Dim,
        ),
        _ => Cell::default(),
    }
}

/// What a run did, on average.
fn counters(comparison: &Comparison) -> Table {
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
        "simulated s",
        "wall s",
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
            number(measured.mean_of(|run| run.wall.as_secs_f64())).into(),
        ]
    };
    let measured = comparison.schedulers.iter().zip(&comparison.measured);
    Table {
        title: "A run, on average".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        text_columns: 1,
        rows: measured
            .map(|(scheduler, measured)| row(scheduler.name(), measured))
            .collect(),
    }
}

fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    if let [first, _, ..] = comparison.schedulers.as_slice() {
        remarks.push(format!(
            "change: of the mean against {}, with the 95 % confidence interval over runs paired by \
             seed.",
            first.name()
        ));
    }
    if comparison.workload.cpu_bound().is_some() {
        remarks.push(
            "limit: the best time that the machine's CPUs allow under any scheduler, and the mean as \
             a multiple of it."
                .to_owned(),
        );
    }
    remarks
}

fn chart(group: &[Entry<'_>]) -> Chart {
    let metric = group[0].metric;
    let bar = |entry: &Entry<'_>| {
        entry.pooled.as_ref().map(|pooled| Bar {
            label: entry.scheduler.to_owned(),
            value: pooled.mean,
            range: Some((pooled.min, pooled.max)),
            muted: false,
        })
    };
    Chart {
        title: format!(
            "{}, {}: mean, and from minimum to maximum",
            metric.name, metric.unit
        ),
        bars: group.iter().filter_map(bar).collect(),
    }
}
