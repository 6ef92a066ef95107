//! The events of a wait, in order, and the CPUs that idled during it.

mod observed;

use super::beside::Beside;
use super::tasks::{Group, Priority};
use super::wait::Wait;
use machine::CpuMask;
pub use observed::Chains;
use policy::{Decision, Number};
use std::collections::BTreeMap;

/// A wait, with reasons.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The wait.
    pub wait: Wait,
    /// The events, in order.
    pub steps: Vec<Step>,
    /// The number of omitted lines that the scheduler printed about the thread by `bpf_printk()`.
    pub unsaid: usize,
    /// The CPUs that idled during the wait, the longest idle first.
    pub idled: Vec<Idled>,
    /// The other threads' activity during the wait.
    pub beside: Beside,
    /// The CPUs that the thread may use; `None` means all.
    pub allowed: Option<CpuMask>,
    /// The CPUs that were offline for all of the wait.
    pub offline: CpuMask,
    /// The time in the wait for which no scheduler was loaded, in ns.
    pub unloaded_ns: u64,
    /// The thread's priority.
    pub priority: Priority,
    /// The priorities of the threads in `beside`, by pid.
    pub priorities: BTreeMap<i32, Priority>,
    /// The control groups, by pid, of the threads in `beside` and of the waiting thread. Threads in the root group are
    /// left out.
    pub groups: BTreeMap<i32, Group>,
    /// For each CPU, the time in ns and the decision of its latest frequency request before the wait began, or
    /// otherwise of its first request after that.
    pub requests: BTreeMap<usize, (u64, Made)>,
}

/// An event of a wait.
#[derive(Clone, Debug)]
pub struct Step {
    /// The time of the event in ns.
    pub at: u64,
    /// The CPU of the event.
    pub cpu: usize,
    /// The kind of the event.
    pub what: What,
}

/// An event of a wait.
#[derive(Clone, Debug)]
pub enum What {
    /// The thread wakes up.
    Woken {
        /// The reason for the thread's sleep, such as `a timer`, if known.
        waited_for: Option<&'static str>,
        /// The waker, or the parent of a new thread; `None` if an interrupt woke the thread up.
        by: Option<String>,
    },
    /// The scheduler makes a decision.
    Decided(Made),
    /// The thread is moved to another CPU's runqueue.
    Moved {
        /// The CPU that the thread leaves.
        from: usize,
        /// The CPU to which the thread moves.
        to: usize,
    },
    /// Another thread, or none, has the CPU for which the thread waits.
    Other {
        /// The thread that has the CPU; `None` if the CPU has no thread.
        task: Option<String>,
        /// The time for which it has the CPU, from `Step::at` on, in ns.
        ns: u64,
    },
    /// A message of the scheduler about the thread, by `bpf_printk()`.
    Said(String),
    /// The thread runs.
    Runs,
}

/// A decision, in words.
#[derive(Clone, Debug)]
pub struct Made {
    /// The row of the decision.
    pub decision: &'static Decision,
    /// The CPU that the decision is about.
    pub cpu: Option<usize>,
    /// The decision, such as `ui-0 goes to CPU 3`.
    pub what: String,
    /// The reason for the decision.
    pub why: String,
    /// The numbers on which the decision is based.
    pub numbers: Vec<(&'static str, Number, i64)>,
}

/// The reason why an idle CPU that made no decision took nothing.
pub const SLEPT: &str = "it slept, and nothing made it search for work";

/// A CPU without work.
#[derive(Clone, Debug)]
pub struct Idled {
    /// The number of the CPU.
    pub cpu: usize,
    /// The time for which the CPU idled, in ns.
    pub ns: u64,
    /// Was the CPU idle when the wait began?
    pub at_start: bool,
    /// The reasons why the CPU found no work, each with the last such decision and the number of such decisions. If the
    /// CPU made no decision in the wait, these are its reasons from the time between going idle and the wait.
    pub decisions: Vec<(Made, u64)>,
    /// Was the CPU idle when the wait began, and has it made no decision since it went idle, although the scheduler
    /// reports such decisions?
    pub slept: bool,
}

/// The number of equal decisions about a thread.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The thread, without an instance's number.
    pub thread: String,
    /// The first of these decisions.
    pub made: Made,
    /// The number of such decisions.
    pub times: u64,
}

#[cfg(test)]
mod tests;
