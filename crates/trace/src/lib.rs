//! Traces of scheduling events: the formats that Linux's tools write and read, and the load that a
//! trace shows.
//!
//! - A [`Tracepoint`] is an event, independent of the format. `table.rs` has its fields with the
//!   kernel's names, from which every format is read and written.
//! - [`write::Kind`] makes the writer of a format, which takes a [`Record`] for each event.
//! - [`import::import`] reads a trace of any format and makes a recording of it.
//!
//! ```
//! use trace::write::{Format, Kind};
//! use trace::{Record, State, Task, Tracepoint};
//!
//! let idle = Task { comm: "swapper/0", pid: 0, prio: 120 };
//! let ui = Task { comm: "ui", pid: 10, prio: 120 };
//! let mut text = Vec::new();
//! let mut format = Kind::Text.format(&mut text, 1, tempfile::SpooledTempFile::new(0));
//! for (now, prev, next) in [(1_000, idle, ui), (5_000, ui, idle)] {
//!     let event = Tracepoint::Switch { prev, state: State::Blocked, next };
//!     format.record(Record { now, cpu: 0, current: prev, event });
//! }
//! format.finish(5_000)?;
//! drop(format);
//! let imported = trace::import::import("t.txt", &text[..], None)?;
//! assert_eq!(imported.summary.threads[0].ran_ns, 4_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To read another format, write a file in `read/` that passes its events to a sink, and name it in
//! `read/mod.rs`.

mod event;
pub mod import;
mod protobuf;
mod read;
#[cfg(test)]
mod round_trip;
mod table;
mod values;
pub mod write;

pub use event::{
    Averages, Class, DEFAULT_PRIO, Moved, Record, Stage, State, Task, Tracepoint, Unit,
};
