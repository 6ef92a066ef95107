//! The measurements of one scheduler's turn in a block.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The measurements of one turn. Measurements that this computer cannot make are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The time from the start of the command to its end, in ns; the length of the turn if there is no command.
    pub elapsed_ns: u64,
    /// Was a command started, whose time is a result?
    pub is_timed: bool,
    /// The CPU time of the command and all processes that it started, in ns.
    pub cpu_ns: Option<u64>,
    /// The time for which at least one thread of the command waited for a CPU (PSI's `some`), in ns.
    pub waited_ns: Option<u64>,
    /// The context switches of the command's processes that have ended (`RUSAGE_CHILDREN`).
    pub switches: Option<u64>,
    /// The energy of all packages, in uJ.
    pub energy_uj: Option<u64>,
    /// The time for which CPUs were busy, by kind of core, in ns and summed over the CPUs of a kind.
    #[serde(default)]
    pub busy_ns: BTreeMap<String, u64>,
    /// The number of CPUs that were online; 0 if it is not known.
    #[serde(default)]
    pub cpus: u32,
    /// The average frequency of the CPUs, in kHz.
    pub khz: Option<u64>,
    /// The share of the CPUs' time that other processes took, in %.
    pub others_pct: Option<f64>,
    /// The frame times in ms.
    #[serde(default)]
    pub frames_ms: Vec<f64>,
    /// The measurements from a recording of the kernel's scheduler.
    pub recorded: Option<Recorded>,
}

impl Turn {
    /// A measure of the turn's work: the command's CPU time or, if it is not known, the time of the turn.
    pub fn work_ns(&self) -> u64 {
        self.cpu_ns.unwrap_or(self.elapsed_ns)
    }
}

/// The measurements from a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The number of scheduling events.
    pub events: u64,
    /// The number of events that were lost because a buffer was full.
    pub lost: u64,
    /// The number of switches between tasks on all CPUs.
    pub switches: u64,
    /// The threads of the load, by name.
    pub threads: Vec<Thread>,
    /// The time that was recorded, in ns; 0 if the whole turn was recorded.
    #[serde(default)]
    pub window_ns: u64,
    /// The CPU time that the recorder took from the load during the turn, in ns.
    #[serde(default)]
    pub own_ns: u64,
}

impl Recorded {
    /// The factor by which sums over the recorded part are multiplied to estimate the whole `turn`.
    pub fn scale(&self, turn: &Turn) -> f64 {
        match self.window_ns {
            0 => 1.0,
            ns => turn.elapsed_ns as f64 / ns as f64,
        }
    }
}

/// The threads of one name in a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// The threads' name (`comm`).
    pub name: String,
    /// The running time of the threads, in ns.
    pub ran_ns: u64,
    /// The number of switches to these threads.
    pub turns: u64,
    /// The number of switches to these threads on a different CPU than before.
    pub migrations: u64,
    /// The times from each wakeup until the thread ran, in ns.
    pub latencies_ns: Vec<u64>,
    /// The number of periods that the threads had; 0 for threads without a period.
    pub periods: u64,
    /// The number of missed periods.
    pub missed: u64,
}
