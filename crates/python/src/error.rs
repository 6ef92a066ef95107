//! Errors as Python's exceptions.

use ::machine::input::BadInput as Bad;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};

create_exception!(
    equipoise,
    BadInput,
    PyValueError,
    "Wrong input: a name, a value, or a file.\n\n\
     `file` and `line` (from 1) give the place, and are None for errors without a place in a file. `message` says what\n\
     is wrong, and `expected` what should be there."
);

create_exception!(
    equipoise,
    SimulationError,
    PyRuntimeError,
    "A run failed, for example because the scheduler was ejected, as by sched_ext, or no task can ever run again. The\n\
     message usually has the run, its seed and the simulated time in ns."
);

#[expect(clippy::boxed_local, reason = "as every reader returns it")]
pub fn bad_input(bad: Box<Bad>) -> PyErr {
    let error = BadInput::new_err(format!("{}\n{}", bad.message(), bad.expected()));
    let (file, line) = place(bad.message());
    Python::attach(|py| {
        let value = error.value(py);
        // An exception has a dictionary, which accepts any attribute.
        let _ = value.setattr("message", bad.message());
        let _ = value.setattr("expected", bad.expected());
        let _ = value.setattr("file", file);
        let _ = value.setattr("line", line);
    });
    error
}

/// The exception for a message of this package.
pub fn bad(message: impl Into<String>, expected: impl Into<String>) -> PyErr {
    bad_input(Box::new(Bad::whole(message, expected)))
}

/// The exception for a run that failed or was stopped.
pub fn failed(failure: Box<lab::Failure>) -> PyErr {
    match failure.error {
        simulator::Error::Stopped => stopped(),
        // The message names the scheduler, and omits the number of the run, which means nothing to the user.
        simulator::Error::Fault(message) => SimulationError::new_err(message),
        _ => SimulationError::new_err(failure.to_string()),
    }
}

pub fn stopped() -> PyErr {
    PyKeyboardInterrupt::new_err("stopped")
}

/// The file and line at the start of a message (`FILE:LINE: `).
fn place(message: &str) -> (Option<&str>, Option<usize>) {
    let found = message.match_indices(": ").find_map(|(end, _)| {
        let (file, line) = message[..end].rsplit_once(':')?;
        Some((file, line.parse().ok()?))
    });
    found.map_or((None, None), |(file, line)| (Some(file), Some(line)))
}
