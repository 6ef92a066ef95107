//! Why threads waited for a CPU, or ran slowly: the chain of the scheduler's decisions from a wakeup until the thread runs, who ran
//! meanwhile, and which CPUs idled.
//!
//! A run is simulated twice. The first time all waits are seen and some are chosen ([`Waits`]); the second time the
//! scheduler says why it decides, and what belongs to these is kept ([`Chains`]). So it takes little memory however
//! long the run is.

mod beside;
mod chain;
mod json;
mod page;
mod response;
mod said;
mod slow;
mod wait;
mod window;

pub use beside::Beside;
pub use chain::{Chain, Chains, Counted, Idled, Step, What};
pub use json::json;
pub use page::page;
pub use response::{Ran, Response, Responses};
pub use wait::{After, Asked, Latencies, Unknown, Wait, Waits};

use machine::Machine;

/// Of a run, what was asked.
pub struct Explanation<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload's name.
    pub workload: &'a str,
    /// The scheduler's.
    pub policy: &'a str,
    /// Does the scheduler say what it decides? One of somebody else's does not.
    pub decisions: bool,
    /// What chance derives from.
    pub seed: u64,
    /// When it was asked about, ns, if no thread waited then and the nearest wait is shown.
    pub missed: Option<u64>,
    /// How long the threads asked about waited, by name.
    pub latencies: Vec<Latencies>,
    /// The waits, and why.
    pub chains: Vec<Chain>,
    /// Who hardly waited, and took long as it ran slowly.
    pub slow: Vec<Response>,
    /// What was decided about these threads in all of the run.
    pub counted: Vec<Counted>,
}
