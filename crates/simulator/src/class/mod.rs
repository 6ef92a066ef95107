//! The scheduling classes, highest first: deadline, real time, sched_ext.

pub mod dl;
pub mod dl_server;
pub mod dl_timer;
pub mod ext;
pub mod rt;
pub mod server;
