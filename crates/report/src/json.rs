//! The JSON output: a contract for other programs. What is here keeps its name and meaning as long as
//! `schema` is 1; fields may be added.
//!
//! `reproduce`:
//! - `experiments[]`: `name`; `source` (author, date, list and title in one string); `runs`; `seed`.
//! - `cells[]`: `block`, `row`, `column` as the table calls them; `machine`, `workload`, `policy` that
//!   were run; `stat` (`avg`, `min`, `max`, `p95`, or `change`, of the mean against another policy in %);
//!   `unit`; `better` (`lower` or `higher`) of the row's metric; `published`, null where the table has none;
//!   `simulated`, null if nothing was measured; `error_pct` of the published number; `runs`; `limit`,
//!   the best possible value of CPU-bound work on the machine, else null.
//!   `margin`: not 0 where no more was published than that the number is within it of `published`;
//!   `error_points`, of a change, beyond the margin.
//! - `remarks[]`: `block` and what its file says of the results (`remark`).
//! - `summary`: `mean_abs_error_pct`, `sign_agreement_pct`, `mean_abs_error_points`,
//!   `max_abs_error_points` as in [`lab::Summary`].
//!
//! `compare`:
//! - `machine`, `workload`, `runs`, `seed`.
//! - `results[]`: one for each metric and policy: `policy`, `metric`, `unit`, `better` (`lower` or
//!   `higher`), `n` samples over all runs, `mean`, `min`, `max`, `p50`, `p95`, `p99` of them (null if
//!   there are none), `change_pct` of the mean against the first policy and `change_margin_pct`, half
//!   its 95 % confidence interval (both null for the first policy), `limit` as above.
//! - `counters[]`: one for each policy, means over the runs: `context_switches`, `migrations`,
//!   `wakeups`, `balance_calls` (null for a scheduler that does not count them), `energy_j` (null on a
//!   machine without power data), `energy_by_part_j` (the same by part of the machine: `cpu-0` and so on,
//!   what its tasks cost; `core-0`, `cluster-0`, `package-0`, without the parts within; `rest`), `simulated_s`, `wall_s`; `balancing`: what Equipoise's own
//!   scheduler counts, named as in `scheduler/counters.def`, and `newidle_time_pct`, the part of all CPUs'
//!   time that was spent in new-idle balancing (null for other schedulers).
//!
//! `list`, `show` and `check`: `title`; `notes[]`; `tables[]` with `title`, `header[]` and `rows[]` of
//! the texts that a person sees.

use crate::Page;
use lab::{Comparison, Entry, Measured, Pooled, Reproduction};
use serde::Serialize;
use simulator::Part;
use std::collections::BTreeMap;
use workload::Better;

const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Reproductions<'a> {
    schema: u32,
    experiments: Vec<Experiment<'a>>,
}

#[derive(Serialize)]
struct Experiment<'a> {
    name: &'a str,
    source: String,
    runs: u32,
    seed: u64,
    cells: Vec<Cell<'a>>,
    remarks: Vec<Remark<'a>>,
    summary: Summary,
}

#[derive(Serialize)]
struct Remark<'a> {
    block: &'a str,
    remark: &'a str,
}

#[derive(Serialize)]
struct Cell<'a> {
    block: &'a str,
    row: &'a str,
    column: &'a str,
    stat: &'static str,
    unit: &'static str,
    better: &'static str,
    published: Option<f64>,
    simulated: Option<f64>,
    runs: u32,
    error_pct: Option<f64>,
    margin: f64,
    error_points: Option<f64>,
    limit: Option<f64>,
    machine: &'a str,
    workload: &'a str,
    policy: &'a str,
}

#[derive(Serialize)]
struct Summary {
    mean_abs_error_pct: Option<f64>,
    sign_agreement_pct: Option<f64>,
    mean_abs_error_points: Option<f64>,
    max_abs_error_points: Option<f64>,
}

#[derive(Serialize)]
struct Compared<'a> {
    schema: u32,
    machine: &'a str,
    workload: &'a str,
    runs: u32,
    seed: u64,
    results: Vec<Entered<'a>>,
    counters: Vec<Counters<'a>>,
}

#[derive(Serialize)]
struct Entered<'a> {
    policy: &'a str,
    metric: &'a str,
    unit: &'static str,
    better: &'static str,
    n: u64,
    mean: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    change_pct: Option<f64>,
    change_margin_pct: Option<f64>,
    limit: Option<f64>,
}

#[derive(Serialize)]
struct Counters<'a> {
    policy: &'a str,
    context_switches: f64,
    migrations: f64,
    wakeups: f64,
    balance_calls: Option<f64>,
    energy_j: Option<f64>,
    energy_by_part_j: Option<BTreeMap<String, f64>>,
    simulated_s: f64,
    wall_s: f64,
    balancing: Option<BTreeMap<&'static str, f64>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    schema: u32,
    title: &'a str,
    notes: &'a [String],
    tables: Vec<ShownTable<'a>>,
}

#[derive(Serialize)]
struct ShownTable<'a> {
    title: &'a str,
    header: &'a [String],
    rows: Vec<Vec<&'a str>>,
}

/// Of what has no JSON of its own.
pub fn page(page: &Page) -> String {
    text(&Shown {
        schema: SCHEMA,
        title: &page.title,
        notes: &page.notes,
        tables: page
            .tables
            .iter()
            .map(|table| ShownTable {
                title: &table.title,
                header: &table.header,
                rows: table
                    .rows
                    .iter()
                    .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
                    .collect(),
            })
            .collect(),
    })
}

/// Of `equipoise reproduce`.
pub fn reproductions(reproductions: &[Reproduction]) -> String {
    text(&Reproductions {
        schema: SCHEMA,
        experiments: reproductions.iter().map(experiment).collect(),
    })
}

/// Of `equipoise compare`.
pub fn comparison(comparison: &Comparison) -> String {
    let measured = comparison.schedulers.iter().zip(&comparison.measured);
    text(&Compared {
        schema: SCHEMA,
        machine: &comparison.machine.name,
        workload: comparison.workload.name(),
        runs: comparison.runs.count,
        seed: comparison.runs.seed,
        results: comparison.entries().iter().map(entered).collect(),
        counters: measured
            .map(|(scheduler, measured)| counters(scheduler.name(), measured))
            .collect(),
    })
}

fn text(value: &impl Serialize) -> String {
    // The types above have string keys and no fallible serializers.
    let mut text = serde_json::to_string_pretty(value).expect("plain data is always valid JSON");
    text.push('\n');
    text
}

fn experiment(reproduction: &Reproduction) -> Experiment<'_> {
    let (experiment, runs) = (&reproduction.experiment, &reproduction.runs);
    let source = &experiment.source;
    let summary = reproduction.summary();
    Experiment {
        name: &experiment.name,
        source: format!(
            "{}, {}, {}: {}",
            source.author, source.date, source.list, source.title
        ),
        runs: runs.count,
        seed: runs.seed,
        cells: reproduction
            .cells()
            .iter()
            .map(|shown| cell(shown, runs.count))
            .collect(),
        remarks: experiment
            .blocks
            .iter()
            .filter_map(|block| {
                Some(Remark {
                    block: &block.name,
                    remark: block.remark.as_deref()?,
                })
            })
            .collect(),
        summary: Summary {
            mean_abs_error_pct: summary.mean_abs_error_pct,
            sign_agreement_pct: summary.sign_agreement_pct,
            mean_abs_error_points: summary.mean_abs_error_points,
            max_abs_error_points: summary.max_abs_error_points,
        },
    }
}

fn cell<'a>(cell: &lab::Cell<'a>, runs: u32) -> Cell<'a> {
    Cell {
        block: cell.block,
        row: cell.row,
        column: cell.column,
        stat: cell.stat.name(),
        unit: cell.unit,
        better: better(cell.better),
        published: cell.published,
        simulated: cell.simulated,
        runs,
        error_pct: cell.error_pct(),
        margin: cell.margin,
        error_points: cell.error_points(),
        limit: cell.limit,
        machine: cell.machine,
        workload: cell.workload,
        policy: cell.policy,
    }
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    }
}

fn entered<'a>(entry: &Entry<'a>) -> Entered<'a> {
    let of = |value: fn(&Pooled) -> f64| entry.pooled.as_ref().map(value);
    Entered {
        policy: entry.scheduler,
        metric: &entry.metric.name,
        unit: entry.metric.unit,
        better: better(entry.metric.better),
        n: entry.pooled.as_ref().map_or(0, |pooled| pooled.n),
        mean: of(|pooled| pooled.mean),
        min: of(|pooled| pooled.min),
        max: of(|pooled| pooled.max),
        p50: of(|pooled| pooled.p50),
        p95: of(|pooled| pooled.p95),
        p99: of(|pooled| pooled.p99),
        change_pct: entry.change.map(|change| change.mean_pct),
        change_margin_pct: entry.change.and_then(|change| change.margin_pct),
        limit: entry.limit,
    }
}

fn counters<'a>(policy: &'a str, measured: &Measured) -> Counters<'a> {
    Counters {
        policy,
        context_switches: measured.mean_of(|run| run.counters.context_switches as f64),
        migrations: measured.mean_of(|run| run.counters.migrations as f64),
        wakeups: measured.mean_of(|run| run.counters.wakeups as f64),
        balance_calls: measured.mean_of_balancing(|counters| counters.balance_calls),
        energy_j: measured.mean_energy_j(|_| true),
        energy_by_part_j: energy_by_part(measured),
        simulated_s: measured.mean_of(|run| run.simulated_ns as f64 / 1e9),
        wall_s: measured.mean_of(|run| run.wall.as_secs_f64()),
        balancing: balancing(measured),
    }
}

fn energy_by_part(measured: &Measured) -> Option<BTreeMap<String, f64>> {
    let parts = &measured.runs.first()?.energy.as_ref()?.parts;
    let mean = |of: Part| measured.mean_energy_j(|part| part == of);
    parts
        .iter()
        .map(|&(part, _)| Some((part.to_string(), mean(part)?)))
        .collect()
}

/// Every counter by its name.
fn balancing(measured: &Measured) -> Option<BTreeMap<&'static str, f64>> {
    let mut all = BTreeMap::from([("newidle_time_pct", measured.newidle_time_pct()?)]);
    for counter in policy::Counters::ALL {
        all.insert(counter.name, measured.mean_of_balancing(counter.of)?);
    }
    Some(all)
}
