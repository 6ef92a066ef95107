//! `equipoise._native`: the native part of the Python package `equipoise`. Machines, workloads and policies are objects
//! that can be pickled. Functions that simulate let other Python threads run, and return Arrow tables.
//!
//! `machine.rs`, `workload.rs` and `policy.rs` have the objects, `measure.rs` and `reproduce.rs` have the functions
//! that run simulations, and `arrow.rs` and `table.rs` have the tables in which results are returned. Sweeps, tuning
//! and plots are in Python.
//!
//! ```text
//! >>> equipoise.compare("rk3588", "game", ["eevdf", "equipoise"], runs=5)
//! ```

mod arrow;
mod error;
mod machine;
mod measure;
mod policy;
mod reproduce;
mod running;
mod table;
mod threads;
mod trace;
mod trial;
mod workload;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

/// The simulated kernel and its input, for `equipoise/*.py`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::error::{BadInput, SimulationError};
    #[pymodule_export]
    use super::machine::Machine;
    #[pymodule_export]
    use super::measure::{compare, margin, measure_part, simulate};
    #[pymodule_export]
    use super::policy::Policy;
    #[pymodule_export]
    use super::reproduce::{experiments, reproduce};
    #[pymodule_export]
    use super::running::{Stop, run_uncaged, work};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::trace::{select_events, trace};
    #[pymodule_export]
    use super::trial::trial;
    #[pymodule_export]
    use super::workload::Workload;

    #[pymodule_export]
    const BUILD: &str = env!("EQUIPOISE_VERSION");
}

/// Converts settings to the form `name=value`, as on the command line, where `True` is `true`.
fn assignments(values: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<String>> {
    let Some(values) = values else {
        return Ok(Vec::new());
    };
    let separates = |c: char| c == ',' || c.is_control();
    let assignment = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let value = match value.cast::<PyBool>() {
            Ok(value) => value.is_true().to_string(),
            Err(_) => value.str()?.to_string(),
        };
        let name = name.str()?.to_string();
        // The settings are joined to a list, so a value must not contain the separator.
        if name.contains(separates) || name.contains('=') || value.contains(separates) {
            return Err(error::bad(
                format!("{name}={value:?}: not a single value"),
                "expected a number, a word or a boolean",
            ));
        }
        Ok(format!("{name}={value}"))
    };
    values.iter().map(assignment).collect()
}
