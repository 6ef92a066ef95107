//! The watchdog: a task that is runnable and does not run for too long stops the scheduler.

use crate::abi::layout::Ops;
use crate::kernel::task::TaskPtr;

/// `SCX_WATCHDOG_MAX_TIMEOUT`, in ms.
pub const MAX_TIMEOUT_MS: u32 = 30_000;

/// The time for which a runnable task may wait while all CPUs that it may use are idle, in ns. Linux makes no such
/// distinction, but here a run could end, without a useful result, before Linux's limit is reached.
const IDLE_TIMEOUT_NS: u64 = 3_000_000_000;

/// The longest interval between two checks, in ns.
const MOST_INTERVAL_NS: u64 = 1_000_000_000;

pub struct Watchdog {
    /// The time for which a runnable task may wait, in ns.
    pub timeout_ns: u64,
    /// The time of the next check for Linux's rule, in ns.
    linux_at: u64,
    /// For each CPU, the time of the first check that found it idle, and its busy time at that check, in ns.
    idle: Vec<(u64, u64)>,
}

impl Watchdog {
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

    /// The time of the next check after `now`, in ns.
    pub fn next_ns(&self, now: u64) -> u64 {
        self.linux_at.min(now + MOST_INTERVAL_NS)
    }

    /// Is a check by Linux's rule due at `now`, in ns?
    pub fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.linux_at;
        if due {
            self.linux_at = now + self.timeout_ns / 2;
        }
        due
    }

    /// Records the state of the CPUs at `now`, in ns: for an idle CPU, its busy time so far.
    pub fn look(&mut self, now: u64, cpus: impl Iterator<Item = Option<u64>>) {
        let before = std::mem::take(&mut self.idle);
        self.idle = cpus
            .enumerate()
            .map(|(cpu, busy)| match (before.get(cpu), busy) {
                (Some(&(since, then)), Some(busy)) if busy == then => (since, busy),
                (_, Some(busy)) => (now, busy),
                // A value that is no CPU's busy time.
                (_, None) => (now, u64::MAX),
            })
            .collect();
    }

    /// The message at `now`, in ns, about the tasks of `waiting` that have not run for a long time, although their CPUs
    /// were idle.
    pub fn idle_stall(&self, now: u64, waiting: impl Iterator<Item = TaskPtr>) -> Option<String> {
        let for_long = |since: u64| now - since >= IDLE_TIMEOUT_NS;
        let stalled = |task: &TaskPtr| {
            let mut cpus = self.idle.iter().enumerate();
            for_long(task.runnable_at.get())
                && cpus.all(|(cpu, &(since, _))| !task.abi.is_allowed(cpu) || for_long(since))
        };
        not_dispatched(now, waiting.filter(stalled))
    }

    /// `check_rq_for_timeouts()`: the message at `now`, in ns, about the first task that has waited for too long.
    /// `waiting` has the runnable tasks that do not run.
    pub fn stall(&self, now: u64, waiting: impl Iterator<Item = TaskPtr>) -> Option<String> {
        let waited = |task: TaskPtr| now - task.runnable_at.get();
        let mut waiting = waiting;
        let task = waiting.find(|&task| waited(task) > self.timeout_ns)?;
        Some(failed_to_run(task, now))
    }
}

/// The number of tasks that a message names.
const MOST_NAMED: usize = 4;

/// The message about `stalled` tasks, which wait at `now`, in ns, while their CPUs idle; `None` if there are no such
/// tasks. The message has the shortest of their waits, and the names of the first [`MOST_NAMED`].
pub fn not_dispatched(now: u64, stalled: impl Iterator<Item = TaskPtr>) -> Option<String> {
    let stalled: Vec<TaskPtr> = stalled.collect();
    let shortest = stalled
        .iter()
        .map(|task| now - task.runnable_at.get())
        .min()?;
    let mut names: Vec<String> = stalled
        .iter()
        .take(MOST_NAMED)
        .map(|task| task.label())
        .collect();
    if stalled.len() > MOST_NAMED {
        names.push(format!("{} more", stalled.len() - MOST_NAMED));
    }
    let (tasks, their) = match stalled.len() {
        1 => ("1 task was".to_owned(), "its"),
        many => (format!("{many} tasks were"), "their"),
    };
    let ms = shortest / 1_000_000;
    Some(format!(
        "{tasks} runnable for {}.{:03} s and not dispatched, while {their} CPUs idled: {}",
        ms / 1000,
        ms % 1000,
        names.join(", ")
    ))
}

/// Linux's message about `task`, which is runnable at `now`, in ns.
pub fn failed_to_run(task: TaskPtr, now: u64) -> String {
    let ms = (now - task.runnable_at.get()) / 1_000_000;
    format!(
        "{} failed to run for {}.{:03}s",
        task.label(),
        ms / 1000,
        ms % 1000
    )
}
