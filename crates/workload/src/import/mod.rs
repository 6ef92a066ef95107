//! A recorded load of a trace of scheduling events: ftrace's text, `trace-cmd report`, or `perf script` (of
//! `perf sched record`), and this project's own.
//!
//! What cannot be seen in such a trace is lost: who waits for what (a wakeup is all there is of a mutex or a pipe),
//! absolute timers that have no period (a gap is a sleep), what a task would have done besides.

mod builder;
mod line;

use crate::recording::Recording;
use builder::Builder;
use line::Read;
use machine::Machine;
use machine::input::BadInput;
use std::io::BufRead;

/// The most of a line that makes sense.
const LONGEST_LINE: usize = 1 << 16;

/// What was made of a trace.
pub struct Imported {
    /// The load.
    pub recording: Recording,
    /// What became of it.
    pub summary: Summary,
}

/// How much there was, and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines that were events of the scheduler.
    pub events: u64,
    /// Events that the trace says it lost.
    pub lost: u64,
    /// By thread of the recording: how long it ran, ns of the machine's time.
    pub ran_ns: Vec<u64>,
    /// How often a CPU went from one task to another, idle ones among them.
    pub switches: u64,
    /// From the first event to the last, ns.
    pub span_ns: u64,
    /// What else a person should know: a line each.
    pub notes: Vec<String>,
}

/// The load that `trace`, the content of `file`, shows, as it was measured on `machine`: work is scaled by what the CPU
/// did at the time. Without a machine, every CPU is taken to be the same.
pub fn import(
    file: &str,
    mut trace: impl BufRead,
    machine: Option<&Machine>,
) -> Result<Imported, Box<BadInput>> {
    let mut builder = Builder::new(machine);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let bad = |message: String, expected: &str| {
            Box::new(BadInput::whole(
                format!("{file}:{number}: {message}"),
                expected,
            ))
        };
        let mut limited = std::io::Read::take(&mut trace, LONGEST_LINE as u64);
        let read = limited.read_until(b'\n', &mut line);
        if read.map_err(|error| bad(error.to_string(), "expected a readable trace"))? == 0 {
            break;
        }
        let expected = "expected ftrace's text or perf script's";
        if line.len() == LONGEST_LINE {
            return Err(bad("a line without end".to_owned(), expected));
        }
        let text = std::str::from_utf8(&line).map_err(|_| bad("not UTF-8".to_owned(), expected))?;
        match line::read(text) {
            Ok(Read::Event(event)) => builder.event(&event).map_err(|message| {
                bad(
                    message,
                    "expected a trace of the machine that it is said to be of",
                )
            })?,
            Ok(Read::Lost(lost)) => builder.summary.lost += lost,
            Ok(Read::Nothing) => {}
            Err(expected) => {
                let shown: String = text.trim_end().chars().take(60).collect();
                return Err(bad(format!("`{shown}` is no line of a trace"), expected));
            }
        }
    }
    builder.finish().map_err(|message| {
        Box::new(BadInput::whole(
            format!("{file}: {message}"),
            "expected events sched_switch, and sched_waking or sched_wakeup",
        ))
    })
}

#[cfg(test)]
mod tests;
