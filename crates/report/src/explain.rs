//! Why threads waited for a CPU: the chain of the scheduler's decisions from a wakeup until the thread runs, who ran
//! meanwhile, and which CPUs idled.
//!
//! A run is simulated twice. The first time all waits are seen and some are chosen ([`Waits`]); the second time the
//! scheduler says why it decides, and what belongs to these is kept ([`Chains`]). So it takes little memory however
//! long the run is.

mod chain;
mod json;
mod page;
mod wait;
mod window;

pub use chain::{Chain, Chains, Counted, Idled, Step, What};
pub use json::json;
pub use page::page;
pub use wait::{After, Asked, Latencies, Unknown, Wait, Waits};

/// Of a run, what was asked.
pub struct Explanation<'a> {
    /// The machine's name.
    pub machine: &'a str,
    /// The workload's name.
    pub workload: &'a str,
    /// The scheduler's.
    pub policy: &'a str,
    /// What chance derives from.
    pub seed: u64,
    /// When it was asked about, ns, if no thread waited then and the nearest wait is shown.
    pub missed: Option<u64>,
    /// How long the threads asked about waited, by name.
    pub latencies: Vec<Latencies>,
    /// The waits, and why.
    pub chains: Vec<Chain>,
    /// What was decided about these threads in all of the run.
    pub counted: Vec<Counted>,
}
