//! `equipoise.trial()`.

use crate::error::bad_input;
use crate::table::{Columns, Table};
use ::trial::Measured;
use ::trial::bundle::Bundle;
use pyo3::prelude::*;
use report::json::{better_name, goal_name};
use std::path::PathBuf;
use std::sync::Arc;

/// Reads the samples of a bundle of `equipoise trial`: a row for each block, policy and metric.
#[pyfunction]
pub fn trial(file: PathBuf) -> PyResult<Table> {
    let bundle = Bundle::read(&file).map_err(bad_input)?;
    let measured = Measured::new(&bundle.outcome);
    let name = |at: usize| &*bundle.plan.schedulers[bundle.outcome.schedulers[at]].name;
    let mut rows = Vec::new();
    for (at, runs) in measured.runs.iter().enumerate() {
        for (block, run) in runs.runs.iter().enumerate() {
            for measure in &measured.measures {
                rows.push((block, name(at), measure, measure.of_run(run)));
            }
        }
    }
    let names: Vec<Arc<str>> = rows
        .iter()
        .map(|row| row.2.metric.name.as_ref().into())
        .collect();
    Ok(Columns::default()
        .numbers::<i64>("block", rows.iter().map(|row| row.0 as i64))
        .text("policy", rows.iter().map(|row| row.1))
        .text("metric", names.iter().map(|name| &**name))
        .text("unit", rows.iter().map(|row| row.2.metric.unit.name()))
        .text(
            "better",
            rows.iter().map(|row| better_name(row.2.metric.better)),
        )
        .text(
            "goal",
            rows.iter()
                .map(|row| row.2.metric.role.goal().map(goal_name)),
        )
        .truths("decides", rows.iter().map(|row| row.2.decides().is_some()))
        .optional::<f64>("value", rows.iter().map(|row| Some(row.3.as_ref()?.mean)))
        .table())
}
