//! A recorded load of a trace of scheduling events: ftrace's text, `trace-cmd report`, or `perf script` (of
//! `perf sched record`), trace-cmd's `trace.dat`, Perfetto's, and this project's own.
//!
//! What cannot be seen in such a trace is lost: who waits for what (a wakeup is all there is of a mutex or a pipe, where
//! `equipoise record` was not asked for more), absolute timers that have no period (a gap is a sleep), what a task would have done besides.

mod builder;
mod dat;
mod event;
mod finish;
mod known;
mod line;
mod locks;
mod measured;
mod perfetto;
mod protobuf;
mod streams;
mod text;

use crate::recording::Recording;
pub use known::MARK;
pub use measured::Did;

use builder::Builder;
use event::Read;
use machine::Machine;
use machine::input::BadInput;
use std::io::BufRead;

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
    /// What each thread of the recording did.
    pub threads: Vec<Did>,
    /// From the load's first event to its last, ns.
    pub makespan_ns: u64,
    /// How often a CPU went from one task to another, idle ones among them.
    pub switches: u64,
    /// From the first event to the last, ns.
    pub span_ns: u64,
    /// What else a person should know: a line each.
    pub notes: Vec<String>,
}

/// What is wrong with a trace that does not fit the machine.
const ITS_MACHINE: &str = "expected a trace of the machine that it is said to be of";

/// Takes what a trace has, in the order of time; what it says is what does not fit.
type Sink<'s> = dyn FnMut(Read<'_>) -> Result<(), String> + 's;

/// The load that `trace`, the content of `file`, shows, as it was measured on `machine`: work is scaled by what the CPU
/// did at the time. Without a machine, every CPU is taken to be the same.
pub fn import(
    file: &str,
    trace: impl BufRead,
    machine: Option<&Machine>,
) -> Result<Imported, Box<BadInput>> {
    build(file, trace, Builder::new(machine))
}

/// What the threads of `trace`, which a simulation on `machine` wrote, got: there decisions take no time, and what they
/// cost comes after them. So a thread that is woken up waits for its waker's part before it is switched to.
pub fn simulated(trace: &[u8], machine: &Machine) -> Result<Summary, Box<BadInput>> {
    let mut builder = Builder::new(Some(machine));
    builder.simulated = true;
    Ok(build("the simulated trace", trace, builder)?.summary)
}

fn build(
    file: &str,
    trace: impl BufRead,
    mut builder: Builder<'_>,
) -> Result<Imported, Box<BadInput>> {
    each(file, trace, &mut |read| match read {
        Read::Event(event) => builder.event(&event),
        Read::Lost(lost) => {
            builder.summary.lost += lost;
            Ok(())
        }
        Read::Nothing => Ok(()),
    })?;
    builder.finish().map_err(|message| {
        Box::new(BadInput::whole(
            format!("{file}: {message}"),
            "expected events sched_switch, and sched_waking or sched_wakeup",
        ))
    })
}

/// Gives `sink` what is in `trace`, whose first bytes say what it is written in.
fn each(file: &str, mut trace: impl BufRead, sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
    let unreadable = |error: std::io::Error| {
        Box::new(BadInput::whole(
            format!("{file}: {error}"),
            "expected a readable trace",
        ))
    };
    let head = trace.fill_buf().map_err(unreadable)?;
    let (dat, perfetto) = (dat::is(head), perfetto::is(head));
    if !dat && !perfetto {
        return text::each(file, trace, sink);
    }
    // In neither are the CPUs' events in the order of time.
    let mut bytes = Vec::new();
    trace.read_to_end(&mut bytes).map_err(unreadable)?;
    match dat {
        true => dat::each(file, &bytes, sink),
        false => perfetto::each(file, &bytes, sink),
    }
}

#[cfg(test)]
mod tests;
