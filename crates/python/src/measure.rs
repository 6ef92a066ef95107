//! `equipoise.simulate()`, `compare()`, and the part of a case that a sweep's task runs.

use crate::error::{bad, bad_input, failed, stopped};
use crate::machine::Machine;
use crate::policy::Policy;
use crate::running::{Stop, run, start_worker};
use crate::table::{Columns, Table};
use crate::workload::Workload;
use ::workload::Workload as _;
use lab::{
    Case, Comparison, Entry, Findings, Measure, Measured, Pooled, Recipe, Run, Runs, Scheduler,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use report::json::{better_name, goal_name};
use std::ops::Range;

/// A machine, a workload and a policy that fit together.
pub struct Combined {
    machine: std::sync::Arc<::machine::Machine>,
    workload: crate::workload::Shared,
    scheduler: Scheduler,
}

impl Combined {
    /// Checks that the workload can run on the machine, and combines them. A scheduler in C gets processes of its own.
    pub fn new(
        py: Python<'_>,
        machine: &Machine,
        workload: &Workload,
        policy: &Policy,
    ) -> PyResult<Combined> {
        workload.load.check(&machine.machine).map_err(bad_input)?;
        let mut scheduler = policy.scheduler.clone();
        if scheduler.is_foreign() {
            let (workload, nodes) = workload.described();
            let recipe = Recipe {
                machine: machine.described(),
                workload,
                nodes,
            };
            scheduler.run_elsewhere(&recipe, &start_worker(py)?);
        }
        Ok(Combined {
            machine: machine.machine.clone(),
            workload: workload.load.clone(),
            scheduler,
        })
    }

    pub fn case(&self) -> Case<'_> {
        Case {
            machine: &self.machine,
            workload: &self.workload,
            scheduler: &self.scheduler,
        }
    }
}

struct Part<'a> {
    case: Case<'a>,
    runs: Runs,
    which: Range<u32>,
    measured: &'a Measured,
}

/// A table with a row for each run and measure of all `parts`.
fn runs_table(parts: &[Part<'_>]) -> Table {
    struct Row<'a> {
        part: &'a Part<'a>,
        run: u32,
        measure: &'a Measure,
        pooled: Option<Pooled>,
    }
    let measures = |part: &Part<'_>| lab::measures(part.case.workload, part.case.machine);
    let measures: Vec<Vec<Measure>> = parts.iter().map(measures).collect();
    let mut rows = Vec::new();
    for (part, measures) in parts.iter().zip(&measures) {
        for (run, kept) in part.which.clone().zip(&part.measured.runs) {
            rows.extend(measures.iter().map(|measure| Row {
                part,
                run,
                measure,
                pooled: measure.of_run(kept),
            }));
        }
    }
    let goal = |row: &Row<'_>| row.measure.metric.role.goal().map(goal_name);
    let decides = |row: &Row<'_>| {
        matches!(row.measure.metric.role, ::workload::Role::Decides(_)) && !row.measure.is_part
    };
    let rows = &rows;
    let better = |row: &Row<'_>| better_name(row.measure.metric.better);
    let names: Vec<[&str; 3]> = rows
        .iter()
        .map(|row| {
            let case = &row.part.case;
            [
                case.machine.name.as_str(),
                case.workload.name(),
                case.scheduler.name(),
            ]
        })
        .collect();
    let columns = Columns::default()
        .text("machine", names.iter().map(|names| names[0]))
        .text("workload", names.iter().map(|names| names[1]))
        .text("policy", names.iter().map(|names| names[2]))
        .numbers::<u32>("run", rows.iter().map(|row| row.run))
        .numbers::<u64>(
            "seed",
            rows.iter().map(|row| row.part.runs.seed_of(row.run)),
        )
        .text("metric", rows.iter().map(|row| &*row.measure.metric.name))
        .text(
            "unit",
            rows.iter().map(|row| row.measure.metric.unit.name()),
        )
        .text("better", rows.iter().map(better))
        .text("goal", rows.iter().map(goal))
        .text("judged", rows.iter().map(|row| row.measure.judged.name()))
        .truths("decides", rows.iter().map(decides))
        .truths("part", rows.iter().map(|row| row.measure.is_part));
    pooled(columns, rows.iter().map(|row| row.pooled.as_ref())).table()
}

/// Adds the number of samples and the statistics of the samples, which are missing if there are no samples.
fn pooled<'a>(columns: Columns, rows: impl Iterator<Item = Option<&'a Pooled>> + Clone) -> Columns {
    let of = |value: fn(&Pooled) -> f64| rows.clone().map(move |pooled| pooled.map(value));
    let count = rows.clone().map(|pooled| pooled.map_or(0, |it| it.n));
    columns
        .numbers::<u64>("n", count)
        .optional::<f64>("mean", of(|pooled| pooled.mean))
        .optional::<f64>("min", of(|pooled| pooled.min))
        .optional::<f64>("max", of(|pooled| pooled.max))
        .optional::<f64>("p50", of(|pooled| pooled.p50))
        .optional::<f64>("p95", of(|pooled| pooled.p95))
        .optional::<f64>("p99", of(|pooled| pooled.p99))
        .optional::<f64>("p999", of(|pooled| pooled.p999))
}

/// A table of the counters, with a row for each run of all `parts`.
fn counters_table(parts: &[Part<'_>]) -> Table {
    type Count = fn(&simulator::Counters) -> u64;
    const KERNEL: [(&str, Count); 9] = [
        ("context_switches", |counters| counters.context_switches),
        ("migrations", |counters| counters.migrations),
        ("wakeups", |counters| counters.wakeups),
        ("ticks", |counters| counters.ticks),
        ("forks", |counters| counters.forks),
        ("frequency_transitions", |counters| {
            counters.frequency_transitions
        }),
        ("busy_ns", |counters| counters.busy_ns.iter().sum()),
        ("overhead_ns", |counters| counters.overhead_ns.iter().sum()),
        ("irq_ns", |counters| counters.irq_ns.iter().sum()),
    ];
    let mut rows: Vec<(&Case<'_>, u32, &Run)> = Vec::new();
    for part in parts {
        let runs = part.which.clone().zip(&part.measured.runs);
        rows.extend(runs.map(|(run, kept)| (&part.case, run, kept)));
    }
    let energy = |run: &Run| run.energy.as_ref().map(simulator::Energy::total_j);
    let runs = || rows.iter().map(|&(_, _, run)| run);
    let mut columns = Columns::default()
        .text(
            "machine",
            rows.iter().map(|(case, ..)| case.machine.name.as_str()),
        )
        .text(
            "workload",
            rows.iter().map(|(case, ..)| case.workload.name()),
        )
        .text(
            "policy",
            rows.iter().map(|(case, ..)| case.scheduler.name()),
        )
        .numbers::<u32>("run", rows.iter().map(|&(_, run, _)| run))
        .numbers::<f64>(
            "simulated_s",
            runs().map(|run| run.simulated_ns as f64 / 1e9),
        )
        .optional::<f64>("energy_j", runs().map(energy));
    for (name, of) in KERNEL {
        columns = columns.numbers::<u64>(name, runs().map(|run| of(&run.counters)));
    }
    for counter in policy::Counters::ALL {
        let of = |run: &Run| run.balancing.as_ref().map(counter.of);
        let name = format!("scheduler_{}", counter.name);
        columns = columns.optional::<u64>(&name, runs().map(of));
    }
    columns.table()
}

/// Half the width of the 95 % confidence interval of the mean of `values`, as in verdicts; infinite for a single value.
#[pyfunction]
pub fn margin(values: Vec<f64>) -> f64 {
    let interval = lab::mean_interval(&values);
    interval
        .and_then(|(_, margin)| margin)
        .unwrap_or(f64::INFINITY)
}

/// Runs the case, and returns the tables `runs` and `counters`.
#[pyfunction]
#[pyo3(signature = (machine, workload, policy, runs, seed, exact, jobs, stop=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
pub fn simulate(
    py: Python<'_>,
    machine: &Machine,
    workload: &Workload,
    policy: &Policy,
    runs: u32,
    seed: u64,
    exact: bool,
    jobs: usize,
    stop: Option<&Stop>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Table, Table)> {
    let combined = Combined::new(py, machine, workload, policy)?;
    let runs = Runs {
        count: runs,
        seed,
        jobs,
        noise: !exact,
    };
    let case = combined.case();
    let measured = run(py, stop, progress, |watch| {
        lab::measure(&[case], &runs, watch)
    })?;
    let measured = measured.map_err(failed)?;
    let measured = measured.first().ok_or_else(stopped)?;
    if measured.runs.len() < runs.count as usize {
        return Err(stopped());
    }
    let which = 0..runs.count;
    let part = Part {
        case,
        runs,
        which,
        measured,
    };
    let parts = [part];
    Ok((runs_table(&parts), counters_table(&parts)))
}

/// Executes the runs from `first` to before `end`, out of `runs` runs, on one thread, and returns the tables `runs` and
/// `counters`.
#[pyfunction]
#[pyo3(signature = (machine, workload, policy, runs, seed, exact, first, end, stop=None))]
#[expect(clippy::too_many_arguments, reason = "called by the sweep alone")]
pub fn measure_part(
    py: Python<'_>,
    machine: &Machine,
    workload: &Workload,
    policy: &Policy,
    runs: u32,
    seed: u64,
    exact: bool,
    first: u32,
    end: u32,
    stop: Option<&Stop>,
) -> PyResult<(Table, Table)> {
    let combined = Combined::new(py, machine, workload, policy)?;
    let runs = Runs {
        count: runs,
        seed,
        jobs: 1,
        noise: !exact,
    };
    let (case, which) = (combined.case(), first..end);
    let measured = run(py, stop, None, |watch| {
        lab::measure_part(&case, &runs, which.clone(), watch)
    })?;
    let measured = measured.map_err(failed)?.ok_or_else(stopped)?;
    let part = Part {
        case,
        runs,
        which,
        measured: &measured,
    };
    let parts = [part];
    Ok((runs_table(&parts), counters_table(&parts)))
}

/// Compares policies, and returns the tables `runs`, `results`, `verdict` and `counters`, and the texts `text`, `json`
/// and `html` of the command.
#[pyfunction]
#[pyo3(signature = (machine, workload, policies, runs, seed, exact, jobs, stop=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
pub fn compare<'py>(
    py: Python<'py>,
    machine: &Machine,
    workload: &Workload,
    policies: Vec<PyRef<'py, Policy>>,
    runs: u32,
    seed: u64,
    exact: bool,
    jobs: usize,
    stop: Option<&Stop>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    if policies.is_empty() {
        return Err(bad("no policy", "expected one or more policies to compare"));
    }
    let mut schedulers: Vec<Scheduler> = Vec::new();
    for policy in &policies {
        schedulers.push(Combined::new(py, machine, workload, policy)?.scheduler);
    }
    let machine = machine.machine.as_ref().clone();
    let workload = Box::new(workload.load.clone());
    let runs = Runs {
        count: runs,
        seed,
        jobs,
        noise: !exact,
    };
    let comparison = run(py, stop, progress, |watch| {
        Comparison::run(machine, workload, schedulers, runs, watch)
    })?;
    let comparison = comparison.map_err(failed)?;
    if comparison.runs.count < runs.count {
        return Err(stopped());
    }
    let cases = comparison.cases();
    let parts = cases.iter().zip(&comparison.measured);
    let part = |(&case, measured)| Part {
        case,
        runs,
        which: 0..runs.count,
        measured,
    };
    let parts: Vec<Part<'_>> = parts.map(part).collect();
    let findings = comparison.findings();
    let page = report::comparison(&findings, report::Shown::default());
    let all = PyDict::new(py);
    all.set_item("runs", runs_table(&parts))?;
    all.set_item("counters", counters_table(&parts))?;
    all.set_item("results", results(&findings))?;
    all.set_item("verdict", verdict(&findings))?;
    all.set_item("text", report::terminal(&page, report::Style::default()))?;
    all.set_item(
        "html",
        report::html(&page.title, std::slice::from_ref(&page)),
    )?;
    all.set_item("json", report::json::comparison(&findings))?;
    all.set_item("fragment", report::fragment(&page))?;
    Ok(all)
}

fn results(findings: &Findings<'_>) -> Table {
    let entries: Vec<&Entry<'_>> = findings.entries().map(|(_, entry)| entry).collect();
    let metric = |entry: &Entry<'_>| entry.measure.metric.clone();
    let names: Vec<String> = entries
        .iter()
        .map(|entry| metric(entry).name.into_owned())
        .collect();
    let columns = Columns::default()
        .text("policy", entries.iter().map(|entry| entry.scheduler))
        .text("metric", names.iter().map(String::as_str))
        .text(
            "unit",
            entries.iter().map(|entry| metric(entry).unit.name()),
        )
        .text(
            "better",
            entries
                .iter()
                .map(|entry| better_name(metric(entry).better)),
        )
        .text(
            "goal",
            entries
                .iter()
                .map(|entry| metric(entry).role.goal().map(goal_name)),
        )
        .text(
            "judged",
            entries.iter().map(|entry| entry.measure.judged.name()),
        )
        .truths(
            "decides",
            entries
                .iter()
                .map(|entry| entry.measure.decides().is_some()),
        )
        .truths("part", entries.iter().map(|entry| entry.measure.is_part))
        .truths("best", entries.iter().map(|entry| entry.is_best));
    pooled(columns, entries.iter().map(|entry| entry.pooled.as_ref()))
        .optional::<f64>(
            "change_pct",
            entries.iter().map(|entry| Some(entry.change?.mean_pct)),
        )
        .optional::<f64>(
            "change_margin_pct",
            entries.iter().map(|entry| entry.change?.margin_pct),
        )
        .optional::<f64>("limit", findings.entries().map(|(row, _)| row.limit))
        .table()
}

fn verdict(findings: &Findings<'_>) -> Table {
    let schedulers = &findings.comparison.schedulers;
    let goals = &findings.verdict.goals;
    let all = goals
        .iter()
        .flat_map(|goal| (0..goal.standings.len()).map(move |place| (goal, place)));
    let all: Vec<_> = all.collect();
    let change =
        |goal: &lab::GoalVerdict, place: usize| goal.change(0, place).filter(|_| place > 0);
    Columns::default()
        .text("goal", all.iter().map(|(goal, _)| goal_name(goal.goal)))
        .text(
            "policy",
            all.iter().map(|&(_, place)| schedulers[place].name()),
        )
        .truths(
            "best",
            all.iter().map(|(goal, place)| goal.best.contains(place)),
        )
        .truths(
            "worst",
            all.iter()
                .map(|&(goal, place)| goal.worst.first() == Some(&place)),
        )
        .optional::<f64>(
            "change_pct",
            all.iter()
                .map(|&(goal, place)| Some(change(goal, place)?.mean_pct)),
        )
        .optional::<f64>(
            "change_margin_pct",
            all.iter()
                .map(|&(goal, place)| change(goal, place)?.margin_pct),
        )
        .optional::<f64>(
            "share_pct",
            all.iter()
                .map(|&(goal, place)| goal.standings[place].share_pct),
        )
        .text(
            "lacks",
            all.iter()
                .map(|&(goal, place)| goal.standings[place].lacks.as_deref()),
        )
        .table()
}
