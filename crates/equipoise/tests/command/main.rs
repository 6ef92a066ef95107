//! The command, as a user calls it.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod architecture;
mod bad_input;
mod cage;
mod capacity;
mod catalog;
mod cause;
mod causes;
mod complaints;
mod eevdf;
mod equipoise;
mod explain;
mod foreign;
mod guide;
mod headline;
mod hmp;
mod hunt;
mod import;
mod interrupt;
mod machines;
mod manners;
mod misbehaving;
mod misleading;
mod newidle_history;
mod objects;
mod page;
mod peers;
mod periods;
mod printed;
mod rt_app;
mod rt_app_examples;
mod runs;
mod scenarios;
mod schedutil;
mod storm;
mod timeline;
mod top;
mod traces;
mod trial;
mod unseen_causes;
mod validate;
mod verdict;
mod walls;
mod wasted_cores;
mod width;
