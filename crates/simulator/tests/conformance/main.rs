//! Conformance of the simulated kernel with sched_ext of Linux 7.3 and, where that differs, of 6.12. Small schedulers
//! record the calls of their ops, and the tests compare these with the kernel's. Most runs are also checked for the
//! simulation's own invariants.

mod affinity;
mod baseline;
mod bpf;
mod callbacks;
mod case;
mod check;
mod contention;
mod cpus;
mod deadline;
mod dispatch;
mod energy;
mod errors;
mod exec;
mod fairness;
mod frequency;
mod groups;
mod hmp;
mod hotplug;
mod kernel_tree;
mod kernels;
mod network;
mod objects;
mod polling;
mod properties;
mod schedutil;
mod subjects;
mod support;
mod wakeups;
