//! Running without the interpreter's lock, until it is done or somebody presses Ctrl-C.

use crate::error::stopped;
use lab::Watch;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How often signals are looked for, and progress is reported.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Has this process given up what a scheduler in C must not have?
static CAGED: AtomicBool = AtomicBool::new(false);

/// Asks whatever was given it to stop, from another thread.
#[pyclass(frozen, module = "equipoise._native")]
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop::default()
    }

    /// Stop now.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Was it set?
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Gives up, for the rest of this process, what a simulation does not need: only then are schedulers in C run.
#[pyfunction]
pub fn cage() -> PyResult<()> {
    simulator::cage::<&str>(&[]).map_err(|error| {
        PyOSError::new_err(format!(
            "this kernel refuses the limits that a scheduler in C is run with (seccomp, Landlock): {error}"
        ))
    })?;
    simulator::report_scheduler_faults();
    CAGED.store(true, Ordering::Relaxed);
    Ok(())
}

/// May schedulers in C be run here?
pub fn is_caged() -> bool {
    CAGED.load(Ordering::Relaxed)
}

/// What `work` returns, which runs on a thread of its own while other Python threads run. `progress` is called with the
/// number of runs that are done. A signal's exception, such as `KeyboardInterrupt`, or one of `progress`, stops it.
pub fn run<T: Send>(
    py: Python<'_>,
    stop: Option<&Stop>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(Watch<'_>) -> T + Send,
) -> PyResult<T> {
    let stop = stop.cloned().unwrap_or_default();
    let done = AtomicUsize::new(0);
    let report = || match &progress {
        Some(progress) => Python::attach(|py| {
            let count = done.load(Ordering::Relaxed);
            progress.call1(py, (count,)).map(drop)
        }),
        None => Ok(()),
    };
    let result = py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let (count, asked) = (&done, &stop.0);
            scope.spawn(move || {
                let count = || {
                    count.fetch_add(1, Ordering::Relaxed);
                };
                let watch = Watch {
                    done: &count,
                    stop: asked,
                };
                // Fails only if it is stopped, and nobody wants it any more.
                let _ = sender.send(work(watch));
            });
            loop {
                match receiver.recv_timeout(LOOK_EVERY) {
                    Ok(value) => return Ok(value),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Err(stopped()),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
                let looked = Python::attach(|py| py.check_signals()).and_then(|()| report());
                if let Err(error) = looked {
                    asked.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        })
    });
    report().and(result)
}
