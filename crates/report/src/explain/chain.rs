//! The events of a wait, in order, and the CPUs that idled meanwhile.

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
    /// The number of lines of the scheduler's `bpf_printk()` about the thread that are left out.
    pub unsaid: usize,
    /// The CPUs that idled meanwhile, longest first.
    pub idled: Vec<Idled>,
    /// Other threads' activity meanwhile.
    pub beside: Beside,
    /// The CPUs that the thread may use; `None` means all.
    pub allowed: Option<CpuMask>,
    /// Its priority.
    pub priority: Priority,
    /// The priorities of the threads in `beside`, by pid.
    pub priorities: BTreeMap<i32, Priority>,
    /// The control groups of these threads and of the waiting thread, by pid; threads in the root group are left out.
    pub groups: BTreeMap<i32, Group>,
    /// For each CPU, its latest frequency request before the wait began, or otherwise the first one after that, with
    /// the time of the request in ns.
    pub requests: BTreeMap<usize, (u64, Made)>,
}

/// An event of a wait.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its time in ns.
    pub at: u64,
    /// Its CPU.
    pub cpu: usize,
    /// Its kind.
    pub what: What,
}

/// An event of a wait.
#[derive(Clone, Debug)]
pub enum What {
    /// The thread wakes up.
    Woken {
        /// The reason for its sleep, such as `a timer`, if known.
        waited_for: Option<&'static str>,
        /// The thread that ran where it was woken: its waker, unless a timer expired.
        by: Option<String>,
    },
    /// The scheduler makes a decision.
    Decided(Made),
    /// The thread is moved to another CPU's runqueue.
    Moved {
        /// The CPU that it leaves.
        from: usize,
        /// The CPU to which it moves.
        to: usize,
    },
    /// Another thread, or none, has the CPU for which the thread waits.
    Other {
        /// The thread.
        task: Option<String>,
        /// The duration from `Step::at` on, in ns.
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
    /// Its row.
    pub decision: &'static Decision,
    /// The CPU about which the decision is.
    pub cpu: Option<usize>,
    /// The decision, such as `ui-0 goes to CPU 3`.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The numbers.
    pub numbers: Vec<(&'static str, Number, i64)>,
}

/// The reason why an idle CPU that made no decision took nothing.
pub const SLEPT: &str = "it slept, and nothing made it search for work";

/// A CPU without work.
#[derive(Clone, Debug)]
pub struct Idled {
    /// Its number.
    pub cpu: usize,
    /// The duration in ns.
    pub ns: u64,
    /// Was it idle when the wait began?
    pub at_start: bool,
    /// The reasons why the CPU found no work, each with the number of times and the words of the
    /// last time. If the CPU made no decision in the wait, the reasons why it had found no work
    /// before, since it went idle.
    pub decisions: Vec<(Made, u64)>,
    /// The CPU was idle all the time and never made a decision since it went idle, although the
    /// scheduler reports decisions.
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
