//! Does the simulated kernel behave as sched_ext of Linux 7.3 and, where that differs, of 6.12? Small schedulers note which
//! op was called, and the tests say what the kernel calls. Every run here is checked for the
//! simulation's own invariants as well.

mod bpf;
mod callbacks;
mod case;
mod check;
mod cpus;
mod deadline;
mod dispatch;
mod energy;
mod errors;
mod exec;
mod frequency;
mod groups;
mod guarantee;
mod hmp;
mod kernel_tree;
mod kernels;
mod network;
mod polling;
mod properties;
mod schedutil;
mod support;
