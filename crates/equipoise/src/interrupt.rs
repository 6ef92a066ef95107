//! Ctrl-C: the command shows the results of complete runs and drops the others. A second Ctrl-C
//! ends the command at once.

use crate::error::Error;
use crate::say;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the command has been asked to stop.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// The status that a shell reports for a command that SIGINT ended.
pub const STATUS: u8 = 128 + 2;

static HALF_WRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Makes SIGINT, SIGTERM and SIGHUP ask the command to stop from now on.
pub fn listen() {
    // This fails only if there already is a handler, which then does the work.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            for file in HALF_WRITTEN.lock().iter().flat_map(|files| files.iter()) {
                // The file may have been renamed to its final name meanwhile.
                let _ = std::fs::remove_file(file);
            }
            process::exit(STATUS.into());
        }
        say!("stopping; the complete results follow (interrupt again to end at once)");
    });
}

/// Listens as [`listen`] does, but for a command that a signal usually ends: writing its results
/// takes a moment, and no temporary file may remain.
pub fn listen_to_end() {
    let _ = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
}

/// Removes `file` if the command has to end at once, from now on.
pub fn half_written(file: &Path) {
    if let Ok(mut files) = HALF_WRITTEN.lock() {
        files.push(file.to_owned());
    }
}

pub fn check() -> Result<(), Error> {
    match STOP.load(Ordering::Relaxed) {
        true => Err(Error::Stopped),
        false => Ok(()),
    }
}
