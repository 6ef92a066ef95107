//! The schedulers that can be loaded, by name.

use crate::cli::Opts;
use crate::control::Control;
use anyhow::Result;
use libbpf_rs::OpenObject;
use machine::{CpuMask, Machine};
use policy::Policy;
use std::mem::MaybeUninit;

// For each a module with its skeleton and its own copy of scheduler.rs; and SCHEDULERS, the table of them.
include!(concat!(env!("OUT_DIR"), "/schedulers.rs"));

/// What to do when a scheduler has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It was told to, or taken out by the kernel.
    Stop,
    /// The CPUs have changed, or what is wanted of it.
    Restart,
}

/// Loads a scheduler for the policy on the machine, of which these CPUs are online, and keeps it there until it
/// leaves or is told to. An error if it failed.
pub type Run =
    fn(&Opts, &Policy, &Machine, CpuMask, &mut MaybeUninit<OpenObject>, &Control) -> Result<Next>;

/// How the scheduler of `policy` is run.
pub fn run(policy: &Policy) -> Run {
    let found = SCHEDULERS
        .iter()
        .find(|(name, _)| *name == policy.scheduler);
    found.expect("a policy is for a scheduler that there is").1
}
