//! Makes a recorded load from a trace of scheduling events.
//!
//! Such a trace does not show everything. These facts are lost: dependencies (a mutex or a pipe
//! appears only as wakeups, unless an option of `equipoise record` asks for more), absolute timers
//! without a period (a gap is a sleep), and the behaviour that a task would have under other
//! conditions.

mod builder;
mod complete;
mod finish;
mod known;
mod locks;
mod measured;
mod periods;
mod speed;
mod streams;
mod windows;

pub use known::{GAP, MARK, WINDOW};
pub use measured::{Did, Other};
pub use periods::Set;
pub use windows::windows;

use crate::event::Read;
use crate::read::each;
use builder::Builder;
use machine::Machine;
use machine::input::BadInput;
use std::io::BufRead;
use workload::recording::Recording;

/// The result of importing a trace.
pub struct Imported {
    /// The load.
    pub recording: Recording,
    /// A summary of the trace.
    pub summary: Summary,
}

/// The size of the trace, and its losses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of scheduling events, including the recorder's marks.
    pub events: u64,
    /// The number of events that were lost according to the trace.
    pub lost: u64,
    /// The activity of each thread of the recording.
    pub threads: Vec<Did>,
    /// The time from the load's first event to its last, in ns.
    pub makespan_ns: u64,
    /// The number of switches between tasks, including idle ones.
    pub switches: u64,
    /// The time from the first event to the last, in ns.
    pub span_ns: u64,
    /// The number of CPUs.
    pub cpus: usize,
    /// The threads outside the recording that ran, by name, longest running first.
    pub others: Vec<Other>,
    /// Other remarks for the user, of one line each.
    pub notes: Vec<String>,
}

impl Summary {
    /// The part of all CPUs' time that threads outside the recording took, in %.
    pub fn others_pct(&self) -> f64 {
        let ran: u64 = self.others.iter().map(|other| other.ran_ns).sum();
        let all = self.span_ns as f64 * self.cpus as f64;
        100.0 * ran as f64 / all.max(1.0)
    }
}

/// The part in % of all CPUs' time above which threads outside a recording matter. Above this limit, the load waited
/// for these threads, so the replay, which lacks them, is not the same load.
pub const MOST_OTHERS_PCT: f64 = 5.0;

/// Imports the load that `trace`, the content of `file`, shows. The trace was recorded on `machine`. Work is scaled by
/// the CPU's speed at the time. Without a machine, all CPUs are assumed to be equal.
pub fn import(
    file: &str,
    trace: impl BufRead,
    machine: Option<&Machine>,
) -> Result<Imported, Box<BadInput>> {
    import_with(file, trace, machine, &[])
}

/// Imports as [`import`] does, with periods that the user has set by the threads' names.
pub fn import_with(
    file: &str,
    trace: impl BufRead,
    machine: Option<&Machine>,
    periods: &[Set],
) -> Result<Imported, Box<BadInput>> {
    let mut builder = Builder::new(machine);
    builder.periods = periods.to_vec();
    build(file, trace, builder)
}

/// Imports as [`import`] does, but leaves out the time of the recorder's probes, so that the load is as it would be
/// without a recorder. The cost of the other events is part of the costs of `machine`.
pub fn unprobed(
    file: &str,
    trace: impl BufRead,
    machine: Option<&Machine>,
) -> Result<Imported, Box<BadInput>> {
    let mut builder = Builder::new(machine);
    builder.unprobed = true;
    build(file, trace, builder)
}

/// The measurements of the threads in `trace`, which a simulation on `machine` wrote. In a
/// simulation, decisions take no time, and their costs follow. A woken thread therefore waits for
/// its waker's part of the costs before the switch to the thread.
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
            builder.lost(lost);
            Ok(())
        }
        Read::Cpus(cpus) => builder.recorded_on(cpus, |machine| cpus >= machine.cpus.len()),
        Read::Online(cpus) => {
            builder.recorded_on(cpus, |machine| cpus == machine.all_cpus().count())
        }
        Read::Nothing => Ok(()),
    })?;
    builder.finish().map_err(|no_load| {
        let message = format!("{file}: {}", no_load.message);
        Box::new(BadInput::whole(message, no_load.expected))
    })
}

#[cfg(test)]
mod tests;
