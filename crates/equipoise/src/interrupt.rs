//! Ctrl-C: what is complete is shown, what is half done is given up. The second time the command ends at once.

use crate::error::Error;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has the command been asked to stop?
pub static STOP: AtomicBool = AtomicBool::new(false);

/// What a shell reports of a command that SIGINT ended.
pub const STATUS: u8 = 128 + 2;

/// Files that are not in their places yet.
static HALF_WRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// From here on SIGINT, SIGTERM and SIGHUP ask to stop.
pub fn listen() {
    // Fails only where something listens already. Then that does.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            for file in HALF_WRITTEN.lock().iter().flat_map(|files| files.iter()) {
                // It may have got its place meanwhile.
                let _ = std::fs::remove_file(file);
            }
            process::exit(STATUS.into());
        }
        eprintln!("stopping; what is complete follows (once more to end at once)");
    });
}

/// The same for what is ended so as a rule: what there is is written, which takes a moment, and nothing is left behind.
pub fn listen_to_end() {
    let _ = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
}

/// `file` is to be removed if the command has to end at once.
pub fn half_written(file: &Path) {
    if let Ok(mut files) = HALF_WRITTEN.lock() {
        files.push(file.to_owned());
    }
}

/// The error that it is to have been asked to stop, if so.
pub fn check() -> Result<(), Error> {
    match STOP.load(Ordering::Relaxed) {
        true => Err(Error::Stopped),
        false => Ok(()),
    }
}
