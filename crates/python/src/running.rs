//! Runs without the interpreter's lock, until the work is done or the user presses Ctrl-C.

use crate::error::stopped;
use lab::{Start, Watch};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// The interval of checks for signals and of progress reports.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A switch by which another thread can stop a running function.
#[pyclass(frozen, module = "equipoise._native")]
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop::default()
    }

    /// Requests the stop.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if the stop has been requested.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Works as a process that executes schedulers in C. Returns the exit status.
#[pyfunction]
pub fn work() -> u8 {
    lab::work()
}

/// Makes schedulers in C run from now on even if this kernel cannot isolate them (it lacks Landlock or seccomp).
#[pyfunction]
pub fn run_uncaged() {
    cage::run_uncaged();
}

/// The program of a worker's interpreter, which needs this module's file but none of the user's
/// packages.
const WORKER: &str = "\
import importlib.util, sys
found = importlib.util.spec_from_file_location('equipoise._native', sys.argv[1])
native = importlib.util.module_from_spec(found)
found.loader.exec_module(native)
sys.exit(native.work())";

/// The variable by which an interpreter that is not installed finds its library.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// The command that starts a process that runs schedulers in C.
pub fn start_worker(py: Python<'_>) -> PyResult<Start> {
    let interpreter: PathBuf = py.import("sys")?.getattr("executable")?.extract()?;
    let module: PathBuf = py
        .import("equipoise._native")?
        .getattr("__file__")?
        .extract()?;
    Ok(Arc::new(move || {
        let mut command = Command::new(&interpreter);
        command.args(["-I", "-S", "-c", WORKER]).arg(&module);
        command.env_clear();
        if let Some(libraries) = std::env::var_os(LIBRARIES) {
            command.env(LIBRARIES, libraries);
        }
        command
    }))
}

/// Runs `work` on a thread of its own while other Python threads run, and returns its result. `progress` is called with
/// the number of finished runs. The exception of a signal, such as `KeyboardInterrupt`, or of `progress` stops the
/// work.
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
                // Sending fails only after a stop, and then the result is not needed.
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
