//! `equipoise top`: shows the activity of this computer's CPUs and scheduler.

mod page;
mod sample;
mod screen;

use crate::cli::{Output, Top};
use crate::error::Error;
use crate::output;
use machine::input::BadInput;
use sample::{Computer, Interval, Moment};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::thread;

/// Shows one interval after the other until the user ends it, or one interval alone.
pub fn run(args: Top, output: &Output) -> Result<(), Error> {
    let computer = Computer::at(args.root.as_deref().unwrap_or(Path::new("/")))?;
    let mut before = Moment::now(&computer)?;
    if args.once {
        thread::sleep(args.interval);
        let interval = Interval::between(&before, &Moment::now(&computer)?);
        return output::show(output, "top", page::page(&computer, &interval));
    }
    if !io::stdout().is_terminal() {
        let bad = BadInput::whole(
            "standard output is not a terminal",
            "expected a terminal, or --once",
        );
        return Err(Box::new(bad).into());
    }
    let watched = screen::watch(args.interval, || {
        let now = Moment::now(&computer)?;
        let interval = Interval::between(&before, &now);
        before = now;
        Ok(page::page(&computer, &interval))
    });
    match watched {
        Ok(last) => last,
        Err(error) => Err(Error::Write(format!("the terminal: {error}"))),
    }
}
