//! The JSON output: a contract for other programs. Fields keep their names and meanings as long as `schema` is 2;
//! fields may be added. The same command gives the same bytes. (Schema 1 had `wall_s` and the changes of means alone,
//! and no values of single runs.)
//!
//! `reproduce`:
//! - `experiments[]`: `name`; `source` (author, date, list and title in one string; null if the
//!   table was not published); `runs`; `asked_runs`, the number of requested runs, which is larger
//!   than `runs` if the command was stopped; `seed`.
//! - `cells[]`: `block`, `row` and `column`, named as in the table; the simulated `machine`, `workload` and `policy`;
//!   `stat` (`avg`, `min`, `max`, `p95`, `p99.9`, or `change`, the change of the mean against another policy in %);
//!   `unit`; `better` (`lower`, `higher` or `neither`) of the row's metric; `published`, null if the table has no
//!   number for the cell; `fitted`: whether a parameter was fitted to the cell; `simulated`, null if nothing was
//!   measured; `error_pct`, the error in % of `published`; `runs`; `limit`, the best possible value of CPU-bound work
//!   on the machine, else null; `margin`, the largest distance of the number from `published` if only such a bound was
//!   published, else 0; `error_points`, the error of a change beyond the margin.
//! - `remarks[]`: `block`, and the `remark` on its results in the experiment's file.
//! - `left_out[]`: for each column whose scheduler cannot be run on this computer, a sentence with the reason.
//! - `summary`: `mean_abs_error_pct` (without fitted cells), `mean_abs_error_pct_of_all`, `sign_agreement_pct`,
//!   `mean_abs_error_points`, `max_abs_error_points` as in [`lab::Summary`].
//!
//! `compare`:
//! - `machine`, `workload`, `runs`, `asked_runs` as above, `seed`; `seeds[]`, the seed of each run (64 bits, in
//!   hexadecimal).
//! - `exact` says whether the runs had no noise. `at_full_speed`, null unless a difference in energy was tested with
//!   the highest frequencies: the `policy` that differs from the first one; the name of the `changed` policy;
//!   `change_pct` with its `change_margin_pct` at these frequencies; and `explains`, whether frequencies explain most
//!   of the difference.
//! - `stalled[]`: the threads that were runnable and did not run from some time until the end: `policy`, `thread`, the
//!   number of `runs` in which this happened, and `since_s`, the time in the first of these runs.
//! - `deadlocks[]`: the policies under which all threads waited for each other until the duration ended the run:
//!   `policy`, the number of `runs` in which this happened, and of the first of these runs `since_s` and `waiting`, what
//!   each thread waited for.
//! - `verdict[]`: one for each measured goal: `goal` (`latency`, `throughput`, `energy` or `fairness`); `best[]`, the
//!   policies that no other beats, best first, and `worst` (empty and null if no difference is significant and at least
//!   1 %); `measures[]` that decide; `standings[]`, one for each `policy`: `change_pct` with `change_margin_pct`, the
//!   change against the first policy of the geometric mean of the deciding measures except percentages (times, joules
//!   or work; of energy, for the same work); `work_pct`, the change of the work done (for latency, of the number of
//!   responses; null if work is not judged); `share_pct`, the mean of the percentages (missed periods; uneven progress
//!   of equal threads); and `lacks`, a measure of which some run has no samples, else null.
//! - `results[]`: one for each measure and policy: `policy`, `metric`, `unit`, `better` (`lower`, `higher` or
//!   `neither`), `n` samples over all runs, their `mean`, `min`, `max`, `p50`, `p95`, `p99`, `p999` (null without
//!   samples), `change_pct` of the `judged` value (`mean` or `p99`) against the first policy and `change_margin_pct`,
//!   half its 95 % confidence interval (both null for the first policy), `limit` as above. `goal` or null; `decides`:
//!   whether the measure decides its goal; `part`: whether the measure is that of one of several equal threads, which
//!   another entry pools; `open`: the number of loops or responses that were not complete at the end (a latency counts
//!   their age, and the mean time of a loop includes their time); `against_first` (null for the first policy):
//!   `verdict` (`better`, `worse` or `same`) and `worse`, the amount by which the policy is worse, with its `margin`,
//!   in the `unit` `%` or `points`; `best`: whether no policy is better in this measure and at least one is worse;
//!   `runs[]`: `n`, `open`, `mean`, `min`, `max`, `p50`, `p95`, `p99`, `p999` of each run, or null; `fewest[]`: for
//!   each run, the smallest number of samples of one of the measure's threads, null if there is one thread or threads
//!   are not counted.
//! - `threads[]`: for each `policy` and name of a `thread`, `cpu_s` of a run on average, and `longest_wait_ms`, the
//!   longest time of any run for which it was runnable and did not run.
//! - `counters[]`: one for each policy, means over the runs: `context_switches`, `migrations`, `wakeups`,
//!   `balance_calls` (null for a scheduler that does not count them), `energy_j` (null on a machine without power
//!   data), `energy_by_part_j` (the energy by part of the machine: `cpu-0` and so on for the energy of the CPU's tasks;
//!   `core-0`, `cluster-0`, `package-0`, without the parts within; `rest`), `simulated_s`; `balancing`: the counts of
//!   Equipoise's own scheduler, named as in `scheduler/counters.def`, and `newidle_time_pct`, the part of all CPUs'
//!   time that new-idle balancing took (null for other schedulers).
//!
//! `list`, `show` and `check`: `title`; `notes[]`; `tables[]` with `title`, `header[]` and `rows[]` of the texts that
//! the table format shows.

use crate::Page;
use lab::{Comparison, Entry, Finding, Findings, Measured, Pooled, Reproduction};
use serde::Serialize;
use serde_json::{Value, json};
use simulator::Part;
use std::collections::BTreeMap;
use workload::{Better, Goal};

const SCHEMA: u32 = 2;

#[derive(Serialize)]
pub(crate) struct Cell<'a> {
    block: &'a str,
    row: &'a str,
    column: &'a str,
    stat: &'static str,
    unit: &'static str,
    better: &'static str,
    published: Option<f64>,
    fitted: bool,
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

/// The JSON of a page that has no format of its own.
pub fn page(page: &Page) -> String {
    let tables = page.tables.iter().map(|table| {
        let rows = table.rows.iter();
        let rows = rows.map(|row| row.iter().map(|cell| cell.text.as_str()).collect::<Value>());
        json!({
            "title": table.title,
            "header": table.header,
            "rows": rows.collect::<Value>(),
        })
    });
    text(&json!({
        "schema": SCHEMA,
        "title": page.title,
        "notes": page.notes,
        "tables": tables.collect::<Value>(),
    }))
}

/// The JSON of `equipoise reproduce`.
pub fn reproductions(reproductions: &[Reproduction]) -> String {
    text(&json!({
        "schema": SCHEMA,
        "experiments": reproductions.iter().map(experiment).collect::<Value>(),
    }))
}

/// The JSON of `equipoise compare`.
pub fn comparison(findings: &Findings<'_>) -> String {
    let comparison = findings.comparison;
    let runs = &comparison.runs;
    let seeds = (0..runs.count).map(|run| seed_name(runs.seed_of(run)));
    let at_full_speed = comparison.at_full_speed.as_ref().map(|test| {
        json!({
            "policy": comparison.schedulers[test.other].name(),
            "changed": test.changed,
            "change_pct": test.change.mean_pct,
            "change_margin_pct": test.change.margin_pct,
            "explains": test.explains,
        })
    });
    let measured = comparison.schedulers.iter().zip(&comparison.measured);
    let counters = measured.map(|(scheduler, measured)| counters(scheduler.name(), measured));
    text(&json!({
        "schema": SCHEMA,
        "machine": comparison.machine.name,
        "workload": comparison.workload.name(),
        "runs": runs.count,
        "asked_runs": comparison.asked,
        "seed": runs.seed,
        "seeds": seeds.collect::<Value>(),
        "exact": !runs.noise,
        "at_full_speed": at_full_speed,
        "stalled": stalled(comparison),
        "deadlocks": deadlocks(comparison),
        "verdict": verdict(findings),
        "results": findings.entries().map(entered).collect::<Value>(),
        "threads": threads(comparison),
        "counters": counters.collect::<Value>(),
    }))
}

fn stalled(comparison: &Comparison) -> Value {
    let measured = comparison.schedulers.iter().zip(&comparison.measured);
    measured
        .flat_map(|(scheduler, measured)| {
            let stalled = measured.stalled().into_iter();
            stalled.map(|(thread, runs, since_ns)| {
                json!({
                    "policy": scheduler.name(),
                    "thread": thread,
                    "runs": runs,
                    "since_s": since_ns as f64 / 1e9,
                })
            })
        })
        .collect()
}

fn deadlocks(comparison: &Comparison) -> Value {
    let measured = comparison.schedulers.iter().zip(&comparison.measured);
    measured
        .filter_map(|(scheduler, measured)| {
            let (deadlock, runs) = measured.deadlock()?;
            Some(json!({
                "policy": scheduler.name(),
                "runs": runs,
                "since_s": deadlock.at_ns as f64 / 1e9,
                "waiting": deadlock.waiting,
            }))
        })
        .collect()
}

fn threads(comparison: &Comparison) -> Value {
    let measured = comparison.schedulers.iter().zip(&comparison.measured);
    measured
        .flat_map(|(scheduler, measured)| {
            let threads = measured.threads().into_iter();
            threads.map(|threads| {
                json!({
                    "policy": scheduler.name(),
                    "thread": threads.name,
                    "cpu_s": threads.cpu_ns as f64 / 1e9,
                    "longest_wait_ms": threads.longest_wait_ns as f64 / 1e6,
                })
            })
        })
        .collect()
}

/// `value` as a document that ends in a line feed and has no characters that act on a terminal.
pub fn text(value: &Value) -> String {
    let mut text = format!("{value:#}");
    text.push('\n');
    cage::text::json(text)
}

fn experiment(reproduction: &Reproduction) -> Value {
    let (experiment, runs) = (&reproduction.experiment, &reproduction.runs);
    let summary = reproduction.summary();
    let source = experiment.source.as_ref().map(|source| {
        format!(
            "{}, {}, {}: {}",
            source.author, source.date, source.list, source.title
        )
    });
    let remark = |block: &lab::Block| Some(json!({ "block": block.name, "remark": block.note()? }));
    let cells = reproduction.cells();
    json!({
        "name": experiment.name,
        "source": source,
        "runs": runs.count,
        "asked_runs": reproduction.asked,
        "seed": runs.seed,
        "cells": cells.iter().map(|shown| cell(shown, runs.count)).collect::<Vec<_>>(),
        "remarks": experiment.blocks.iter().filter_map(remark).collect::<Value>(),
        "left_out": experiment.left_out,
        "summary": {
            "mean_abs_error_pct": summary.mean_abs_error_pct,
            "mean_abs_error_pct_of_all": summary.mean_abs_error_pct_of_all,
            "sign_agreement_pct": summary.sign_agreement_pct,
            "mean_abs_error_points": summary.mean_abs_error_points,
            "max_abs_error_points": summary.max_abs_error_points,
        },
    })
}

/// The name of a cell's experiment, because the cells of all experiments are in one list.
#[derive(Serialize)]
pub(crate) struct Of<'a> {
    experiment: &'a str,
}

/// The cells of all experiments.
pub(crate) fn cells(reproductions: &[Reproduction]) -> Vec<(Of<'_>, Cell<'_>)> {
    let of = |reproduction| {
        let Reproduction {
            experiment, runs, ..
        }: &Reproduction = reproduction;
        let cells = reproduction.cells();
        let line = |shown| {
            (
                Of {
                    experiment: &experiment.name,
                },
                cell(shown, runs.count),
            )
        };
        cells.iter().map(line).collect::<Vec<_>>()
    };
    reproductions.iter().flat_map(of).collect()
}

fn cell<'a>(cell: &lab::Cell<'a>, runs: u32) -> Cell<'a> {
    Cell {
        block: cell.block,
        row: cell.row,
        column: cell.column,
        stat: cell.stat.name(),
        unit: cell.unit,
        better: better_name(cell.better),
        published: cell.published,
        fitted: cell.fitted,
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

fn entered<'a>((row, entry): (&Finding<'a>, &'a Entry<'a>)) -> Value {
    let pooled = entry.pooled.as_ref();
    let of = |value: fn(&Pooled) -> f64| pooled.map(value);
    let metric = &entry.measure.metric;
    json!({
        "policy": entry.scheduler,
        "metric": metric.name,
        "unit": metric.unit.name(),
        "better": better_name(metric.better),
        "n": pooled.map_or(0, |pooled| pooled.n),
        "mean": of(|pooled| pooled.mean),
        "min": of(|pooled| pooled.min),
        "max": of(|pooled| pooled.max),
        "p50": of(|pooled| pooled.p50),
        "p95": of(|pooled| pooled.p95),
        "p99": of(|pooled| pooled.p99),
        "p999": of(|pooled| pooled.p999),
        "change_pct": entry.change.map(|change| change.mean_pct),
        "change_margin_pct": entry.change.and_then(|change| change.margin_pct),
        "limit": row.limit,
        "goal": metric.role.goal().map(goal_name),
        "decides": entry.measure.decides().is_some(),
        "part": entry.measure.is_part,
        "judged": entry.measure.judged.name(),
        "best": entry.is_best,
        "open": pooled.map_or(0, |pooled| pooled.open),
        "against_first": against_first(row, entry),
        "runs": entry.runs.iter().map(|run| run.as_ref().map(of_run)).collect::<Vec<_>>(),
        "fewest": entry.fewest,
    })
}

/// The difference of an entry from that of the first scheduler; `None` for the first scheduler.
fn against_first(row: &Finding<'_>, entry: &Entry<'_>) -> Option<Value> {
    let first = row
        .entries
        .first()
        .filter(|first| !std::ptr::eq(*first, entry))?;
    let judgement = entry.against(first)?;
    Some(json!({
        "verdict": judgement.verdict,
        "worse": judgement.worse,
        "margin": judgement.margin,
        "unit": if entry.is_share() { "points" } else { "%" },
    }))
}

fn of_run(pooled: &Pooled) -> Value {
    json!({
        "n": pooled.n,
        "open": pooled.open,
        "mean": pooled.mean,
        "min": pooled.min,
        "max": pooled.max,
        "p50": pooled.p50,
        "p95": pooled.p95,
        "p99": pooled.p99,
        "p999": pooled.p999,
    })
}

fn verdict(findings: &Findings<'_>) -> Value {
    let comparison = findings.comparison;
    let name = |index: usize| comparison.schedulers[index].name();
    let of = |verdict: &lab::GoalVerdict| {
        let standing = |(index, standing): (usize, &lab::Standing)| {
            let change = verdict.change(0, index).filter(|_| index > 0);
            json!({
                "policy": name(index),
                "change_pct": change.map(|change| change.mean_pct),
                "change_margin_pct": change.and_then(|change| change.margin_pct),
                "share_pct": standing.share_pct,
                "lacks": standing.lacks,
                "work_pct": verdict.work_pct(index, 0).filter(|_| index > 0),
            })
        };
        json!({
            "goal": goal_name(verdict.goal),
            "best": verdict.best.iter().map(|&index| name(index)).collect::<Value>(),
            "worst": verdict.worst.first().map(|&index| name(index)),
            "measures": verdict.measures,
            "standings": verdict.standings.iter().enumerate().map(standing).collect::<Value>(),
        })
    };
    findings.verdict.goals.iter().map(of).collect()
}

pub(crate) fn seed_name(seed: u64) -> String {
    format!("{seed:#018x}")
}

/// The direction's name: `lower`, `higher` or `neither`.
pub fn better_name(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "neither",
    }
}

/// The goal's name: `latency`, `throughput`, `energy` or `fairness`.
pub fn goal_name(goal: Goal) -> &'static str {
    match goal {
        Goal::Latency => "latency",
        Goal::Throughput => "throughput",
        Goal::Energy => "energy",
        Goal::Fairness => "fairness",
    }
}

fn counters(policy: &str, measured: &Measured) -> Value {
    json!({
        "policy": policy,
        "context_switches": measured.mean_of(|run| run.counters.context_switches as f64),
        "migrations": measured.mean_of(|run| run.counters.migrations as f64),
        "wakeups": measured.mean_of(|run| run.counters.wakeups as f64),
        "balance_calls": measured.mean_of_balancing(|counters| counters.balance_calls),
        "energy_j": measured.mean_energy_j(|_| true),
        "energy_by_part_j": energy_by_part(measured),
        "simulated_s": measured.mean_of(|run| run.simulated_ns as f64 / 1e9),
        "balancing": balancing(measured),
    })
}

fn energy_by_part(measured: &Measured) -> Option<BTreeMap<String, f64>> {
    let parts = &measured.runs.first()?.energy.as_ref()?.parts;
    let mean = |of: Part| measured.mean_energy_j(|part| part == of);
    parts
        .iter()
        .map(|&(part, _)| Some((part.to_string(), mean(part)?)))
        .collect()
}

/// Every counter by its name, as a mean over the runs.
fn balancing(measured: &Measured) -> Option<BTreeMap<&'static str, f64>> {
    let mut all = BTreeMap::from([("newidle_time_pct", measured.newidle_time_pct()?)]);
    for counter in policy::Counters::ALL {
        all.insert(counter.name, measured.mean_of_balancing(counter.of)?);
    }
    Some(all)
}
