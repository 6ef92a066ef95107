//! The measurements of one scheduler's turn in a block.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The measurements of one turn, without those that this computer cannot make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// From the start of the command to its end, ns; the time of the turn if nothing is started.
    pub elapsed_ns: u64,
    /// Was a command started, whose time is a result?
    pub is_timed: bool,
    /// The CPU time of the command and all that it started, ns.
    pub cpu_ns: Option<u64>,
    /// The time for which at least one of its threads waited for a CPU (PSI's `some`), ns.
    pub waited_ns: Option<u64>,
    /// Its context switches: those of processes that have been waited for.
    pub switches: Option<u64>,
    /// The energy of all packages, uJ.
    pub energy_uj: Option<u64>,
    /// The time for which CPUs were busy, by kind of core, ns of all its CPUs.
    #[serde(default)]
    pub busy_ns: BTreeMap<String, u64>,
    /// The average frequency of the CPUs, kHz.
    pub khz: Option<u64>,
    /// The share of the CPUs' time that other processes took, per cent.
    pub others_pct: Option<f64>,
    /// The times of frames, ms.
    #[serde(default)]
    pub frames_ms: Vec<f64>,
    /// The measurements from a recording of the kernel's scheduler.
    pub recorded: Option<Recorded>,
}

/// The measurements from a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Scheduling events.
    pub events: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Switches between tasks on all CPUs.
    pub switches: u64,
    /// Its threads, by name.
    pub threads: Vec<Thread>,
    /// The time that was recorded, ns; 0 if all of the turn was.
    #[serde(default)]
    pub window_ns: u64,
    /// The CPU time that the recorder took from the load during the turn, ns.
    #[serde(default)]
    pub own_ns: u64,
}

impl Recorded {
    /// The factor from what was recorded to all of the `turn`.
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
    /// `comm`.
    pub name: String,
    /// Their running time, ns.
    pub ran_ns: u64,
    /// Switches to them.
    pub turns: u64,
    /// Switches to them on another CPU than before.
    pub migrations: u64,
    /// From each wakeup until the thread ran, ns.
    pub latencies_ns: Vec<u64>,
    /// The number of periods that they had, and of those that they missed; 0 for threads without one.
    pub periods: u64,
    /// See above.
    pub missed: u64,
}
