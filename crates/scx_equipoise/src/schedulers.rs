//! The schedulers that can be loaded, by name.

use crate::cli::Opts;
use crate::control::Control;
use anyhow::Result;
use libbpf_rs::OpenObject;
use machine::{CpuMask, Machine};
use policy::Policy;
use std::mem::MaybeUninit;

// Each scheduler has a module with its skeleton and its own copy of scheduler.rs. SCHEDULERS is the table of these
// modules.
include!(concat!(env!("OUT_DIR"), "/schedulers.rs"));

/// The next step after a scheduler has been unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The scheduler was asked to exit, or the kernel removed it.
    Stop,
    /// The CPUs or the policy have changed.
    Restart,
}

/// A function that loads a scheduler for the policy on the machine, whose online CPUs are given, and keeps the
/// scheduler loaded until it exits or must exit. Returns an error if the scheduler failed.
pub type Run =
    fn(&Opts, &Policy, &Machine, CpuMask, &mut MaybeUninit<OpenObject>, &Control) -> Result<Next>;

pub fn run(policy: &Policy) -> Run {
    let found = SCHEDULERS
        .iter()
        .find(|(name, _)| *name == policy.scheduler);
    found.expect("a policy is for a scheduler that there is").1
}
