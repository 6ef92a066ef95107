//! `equipoise top`: shows the activity of this computer's CPUs, threads and scheduler.

mod draw;
mod json;
mod page;
mod sample;
mod screen;
#[cfg(test)]
mod screenshot;
mod threads;

use crate::cli::{Output, Top};
use crate::error::Error;
use crate::output::{self, Document, Staged};
use machine::input::BadInput;
use report::csv;
use sample::{Computer, Interval, Watch};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The time between two samples of the waits of threads.
const LOOK: Duration = Duration::from_millis(50);

/// The time limit for the scheduler's answer if there is no screen. The loader is a normal task: on one CPU with thirty
/// other runnable tasks, its answer may take longer than the 2 s for which a screen waits.
const ONCE_PATIENCE: Duration = Duration::from_secs(10);

/// Shows one interval after the other until the user ends the command, or only one interval.
pub fn run(args: Top, output: &Output) -> Result<(), Error> {
    let mut computer = Computer::at(args.root.as_deref().unwrap_or(Path::new("/")))?;
    if args.once {
        computer.patience = ONCE_PATIENCE;
    }
    let mut watch = Watch::begin(computer)?;
    if args.once {
        let interval = once(&mut watch, args.interval)?;
        let page = page::page(&watch.computer, &interval);
        let document = Document {
            name: "top".to_owned(),
            json: Box::new(|| json::json(&watch.computer, &interval)),
            csv: Box::new(|| csv::page(&page)),
            page: page.clone(),
        };
        return output::emit(output, &[document], None, Staged::default());
    }
    if !io::stdout().is_terminal() {
        let bad = BadInput::whole(
            "standard output is not a terminal",
            "expected a terminal, or --once",
        );
        return Err(Box::new(bad).into());
    }
    match screen::watch(&mut watch, args.interval) {
        Ok(last) => last,
        Err(error) => Err(Error::Write(format!("the terminal: {error}"))),
    }
}

/// Observes a single interval. The first tenth of the interval shows which threads run, so that
/// their waits can be sampled.
fn once(watch: &mut Watch, length: Duration) -> Result<Interval, Error> {
    let end = Instant::now() + length;
    thread::sleep(length / 10);
    watch.find_threads();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return watch.next();
        }
        thread::sleep(left.min(LOOK));
        watch.look();
    }
}
