//! The watchdog: a task that is runnable and does not get to run for too long stops the scheduler.

use crate::abi::layout::Ops;
use crate::kernel::task::TaskPtr;

/// `SCX_WATCHDOG_MAX_TIMEOUT`, ms.
pub const MAX_TIMEOUT_MS: u32 = 30_000;

/// How long a runnable task may wait while no CPU that it may run on does anything, ns. Linux gives it as long as any other;
/// here a run may be over by then, with nothing to show.
const IDLE_TIMEOUT_NS: u64 = 3_000_000_000;

/// How often it looks at least, ns.
const MOST_INTERVAL_NS: u64 = 1_000_000_000;

/// The watchdog of a scheduler.
pub struct Watchdog {
    /// How long a runnable task may wait, ns.
    pub timeout_ns: u64,
    /// When it looks for such as Linux does, ns.
    linux_at: u64,
    /// Since when each CPU has been idle, as far as it has been seen, and how long it had been busy then, ns.
    idle: Vec<(u64, u64)>,
}

impl Watchdog {
    /// With the patience that `ops` asks for.
    pub fn new(ops: &Ops) -> Watchdog {
        let timeout_ms = match ops.timeout_ms {
            0 => MAX_TIMEOUT_MS,
            ms => ms,
        };
        let timeout_ns = u64::from(timeout_ms) * 1_000_000;
        Watchdog {
            timeout_ns,
            linux_at: timeout_ns / 2,
            idle: Vec::new(),
        }
    }

    /// When it looks for the next time after `now`, ns.
    pub fn next_ns(&self, now: u64) -> u64 {
        self.linux_at.min(now + MOST_INTERVAL_NS)
    }

    /// Is it time at `now`, ns, for a look as Linux takes it?
    pub fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.linux_at;
        if due {
            self.linux_at = now + self.timeout_ns / 2;
        }
        due
    }

    /// Takes down what the CPUs do at `now`, ns: how long each has been busy so far if it is idle.
    pub fn look(&mut self, now: u64, cpus: impl Iterator<Item = Option<u64>>) {
        let before = std::mem::take(&mut self.idle);
        self.idle = cpus
            .enumerate()
            .map(|(cpu, busy)| match (before.get(cpu), busy) {
                (Some(&(since, then)), Some(busy)) if busy == then => (since, busy),
                (_, Some(busy)) => (now, busy),
                // Not a time that a CPU has been busy for.
                (_, None) => (now, u64::MAX),
            })
            .collect();
    }

    /// What there is to say at `now`, ns, of the first of `waiting` that no CPU has run for long, though those it may run on
    /// had nothing else to do.
    pub fn idle_stall(&self, now: u64, waiting: impl Iterator<Item = TaskPtr>) -> Option<String> {
        let for_long = |since: u64| now - since >= IDLE_TIMEOUT_NS;
        let mut waiting = waiting;
        let stalled = |task: &TaskPtr| {
            let mut cpus = self.idle.iter().enumerate();
            for_long(task.runnable_at.get())
                && cpus.all(|(cpu, &(since, _))| !task.abi.is_allowed(cpu) || for_long(since))
        };
        let task = waiting.find(stalled)?;
        Some(format!("{}, and its CPUs idled", failed_to_run(task, now)))
    }

    /// `check_rq_for_timeouts()`: what there is to say at `now` (ns) of the first of `waiting`, tasks that
    /// are runnable and do not run, that has waited for too long.
    pub fn stall(&self, now: u64, waiting: impl Iterator<Item = TaskPtr>) -> Option<String> {
        let waited = |task: TaskPtr| now - task.runnable_at.get();
        let mut waiting = waiting;
        let task = waiting.find(|&task| waited(task) > self.timeout_ns)?;
        Some(failed_to_run(task, now))
    }
}

/// How Linux says it of `task`, which is runnable at `now`, ns.
pub fn failed_to_run(task: TaskPtr, now: u64) -> String {
    let ms = (now - task.runnable_at.get()) / 1_000_000;
    format!(
        "{} failed to run for {}.{:03}s",
        task.label(),
        ms / 1000,
        ms % 1000
    )
}
