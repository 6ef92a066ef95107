//! Explains why threads waited for a CPU or ran slowly. The explanation consists of the chain of the scheduler's
//! decisions from a wakeup until the thread runs, the threads that ran meanwhile, and the CPUs that idled.
//!
//! A run is simulated twice. The first run shows all waits, of which some are chosen ([`Waits`]). In the second run the
//! scheduler records its reasons, and the reasons for the chosen waits are kept ([`Chains`]). This takes little memory,
//! even for a long run.

mod beside;
mod cause;
mod chain;
mod diff;
mod item;
mod json;
mod missed;
mod observe;
mod page;
mod period;
mod response;
mod said;
mod slow;
mod steps;
mod tasks;
mod wait;
mod window;
mod words;

#[cfg(test)]
mod tests;

pub use beside::{Beside, Share};
pub use cause::{Cause, Kind};
pub use chain::{Chain, Chains, Counted, Idled, Step, What};
pub use diff::Difference;
pub use item::windows;
pub use json::json;
pub use missed::{MissedPeriod, observed};
pub use observe::{Both, Unexplained, missed_periods, observe};
pub use page::page;
pub use period::{Period, parts};
pub use response::{Chosen, Late, Lost, Missed, Ran, Response, Responses, Total};
pub use tasks::{Group, Priority};
pub use wait::{After, Asked, Latencies, Unknown, Wait, Waits};
pub use window::Subject;

use machine::Machine;
use simulator::Deadlock;

/// The explanation of a run.
pub struct Explanation<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload's name.
    pub workload: &'a str,
    /// The scheduler's name.
    pub policy: &'a str,
    /// Does the scheduler record its decisions? A foreign scheduler does not.
    pub decisions: bool,
    /// The seed.
    pub seed: u64,
    /// The requested time in ns, if no thread waited at that time, so that the nearest wait is shown instead.
    pub missed: Option<u64>,
    /// The time in ns at which the run ended.
    pub end: u64,
    /// The deadlock that lasted until the end, if any.
    pub deadlock: Option<Deadlock>,
    /// The waits of the shown threads after their wakeups, by name.
    pub latencies: Vec<Latencies>,
    /// The missed periods that lost most time, with reasons.
    pub periods: Vec<MissedPeriod>,
    /// The waits, with reasons.
    pub waits: Vec<Chain>,
    /// Responses that lost more time by running slowly than by waiting, each with its events.
    pub slow: Vec<(Response, Chain)>,
    /// Threads that woke up late, with the chains of the wakers that lost the most time.
    pub late: Vec<(Response, Chain)>,
    /// The time that the threads lost in the whole run, by reason.
    pub totals: Vec<Total>,
    /// The number of decisions about these threads in the whole run.
    pub counted: Vec<Counted>,
}
