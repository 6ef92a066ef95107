//! Traces of scheduling events: the formats that Linux's tools write and read, and the load that a
//! trace shows.

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
