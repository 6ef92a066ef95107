//! Traces of scheduling events: the formats that Linux's tools write and read, and the load that a
//! trace shows.

mod event;
pub mod import;
mod read;
pub mod write;
