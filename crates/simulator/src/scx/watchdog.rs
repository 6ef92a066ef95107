//! The watchdog: a task that is runnable and does not get to run for too long stops the scheduler.

use crate::abi::layout::Ops;
use crate::kernel::task::TaskPtr;

/// `SCX_WATCHDOG_MAX_TIMEOUT`, ms.
pub const MAX_TIMEOUT_MS: u32 = 30_000;

/// The watchdog of a scheduler.
pub struct Watchdog {
    /// How long a runnable task may wait, ns.
    pub timeout_ns: u64,
}

impl Watchdog {
    /// With the patience that `ops` asks for.
    pub fn new(ops: &Ops) -> Watchdog {
        let timeout_ms = match ops.timeout_ms {
            0 => MAX_TIMEOUT_MS,
            ms => ms,
        };
        Watchdog {
            timeout_ns: u64::from(timeout_ms) * 1_000_000,
        }
    }

    /// From one look to the next, ns.
    pub fn interval_ns(&self) -> u64 {
        self.timeout_ns / 2
    }

    /// `check_rq_for_timeouts()`: what there is to say at `now` (ns) of the first of `waiting`, tasks that
    /// are runnable and do not run, that has waited for too long.
    pub fn stall(&self, now: u64, waiting: impl Iterator<Item = TaskPtr>) -> Option<String> {
        let waited = |task: TaskPtr| now - task.runnable_at.get();
        let mut waiting = waiting;
        let task = waiting.find(|&task| waited(task) > self.timeout_ns)?;
        let ms = waited(task) / 1_000_000;
        Some(format!(
            "{} failed to run for {}.{:03}s",
            task.label(),
            ms / 1000,
            ms % 1000
        ))
    }
}
