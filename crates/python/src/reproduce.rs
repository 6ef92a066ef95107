//! `equipoise.reproduce()`.

use crate::error::{bad, bad_input, failed, stopped};
use crate::running::{Stop, run, start_worker};
use crate::table::{Columns, Table};
use lab::{Cell, Experiment, Reproduction, Runs, Summary};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use report::json::better_name;

/// The number of runs of an experiment that does not give one.
const DEFAULT_RUNS: u32 = 20;

/// The experiments' names.
#[pyfunction]
pub fn experiments() -> Vec<&'static str> {
    Experiment::names().collect()
}

/// Runs an experiment, and returns the table `cells`, the dictionary `summary`, and the texts `text` and `json` of the
/// command.
#[pyfunction]
#[pyo3(signature = (name, runs, seed, rows, scale, jobs, stop=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
pub fn reproduce<'py>(
    py: Python<'py>,
    name: String,
    runs: Option<u32>,
    seed: u64,
    rows: Option<&str>,
    scale: Option<u32>,
    jobs: usize,
    stop: Option<&Stop>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = rows.map(glob::Pattern::new).transpose();
    let rows = rows.map_err(|error| {
        bad(
            format!("rows: {error}"),
            "expected a pattern such as `sysbench_*`",
        )
    })?;
    let mut found =
        lab::select(&[name], rows.as_ref(), scale, &start_worker(py)?).map_err(bad_input)?;
    let experiment = found.remove(0);
    let count = runs.or(experiment.runs).unwrap_or(DEFAULT_RUNS);
    let runs = Runs {
        count,
        seed,
        jobs,
        noise: false,
    };
    let done = run(py, stop, progress, |watch| {
        Reproduction::run(experiment, runs, watch)
    })?;
    let reproduction = done.map_err(failed)?;
    if reproduction.runs.count < count {
        return Err(stopped());
    }
    let page = report::reproduction(&reproduction);
    let all = PyDict::new(py);
    all.set_item("cells", cells(&reproduction.cells(), count))?;
    all.set_item("summary", summary(py, &reproduction.summary())?)?;
    all.set_item("text", report::terminal(&page, report::Style::default()))?;
    all.set_item(
        "json",
        report::json::reproductions(std::slice::from_ref(&reproduction)),
    )?;
    all.set_item("fragment", report::fragment(&page))?;
    Ok(all)
}

fn cells(cells: &[Cell<'_>], runs: u32) -> Table {
    Columns::default()
        .text("block", cells.iter().map(|cell| cell.block))
        .text("row", cells.iter().map(|cell| cell.row))
        .text("column", cells.iter().map(|cell| cell.column))
        .text("machine", cells.iter().map(|cell| cell.machine))
        .text("workload", cells.iter().map(|cell| cell.workload))
        .text("policy", cells.iter().map(|cell| cell.policy))
        .text("stat", cells.iter().map(|cell| cell.stat.name()))
        .text("unit", cells.iter().map(|cell| cell.unit))
        .text("better", cells.iter().map(|cell| better_name(cell.better)))
        .numbers::<u32>("runs", cells.iter().map(|_| runs))
        .optional::<f64>("published", cells.iter().map(|cell| cell.published))
        .numbers::<f64>("margin", cells.iter().map(|cell| cell.margin))
        .optional::<f64>("simulated", cells.iter().map(|cell| cell.simulated))
        .optional::<f64>("error_pct", cells.iter().map(Cell::error_pct))
        .optional::<f64>("error_points", cells.iter().map(Cell::error_points))
        .optional::<f64>("limit", cells.iter().map(|cell| cell.limit))
        .table()
}

fn summary<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("mean_abs_error_pct", summary.mean_abs_error_pct)?;
    all.set_item(
        "mean_abs_error_pct_of_all",
        summary.mean_abs_error_pct_of_all,
    )?;
    all.set_item("sign_agreement_pct", summary.sign_agreement_pct)?;
    all.set_item("mean_abs_error_points", summary.mean_abs_error_points)?;
    all.set_item("max_abs_error_points", summary.max_abs_error_points)?;
    Ok(all)
}
