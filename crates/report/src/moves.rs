//! Finds the task of a decision to pull. The decision does not name the task; the scheduler moves the task just before
//! the decision.

use policy::{About, Decision};

/// Remembers the last move of a task between runqueues.
#[derive(Default)]
pub(crate) struct Moves {
    latest: Option<Move>,
}

struct Move {
    at: u64,
    pid: i32,
    to: usize,
}

impl Moves {
    /// Records that the task `pid` moves to the CPU `to` at `now` (in ns).
    pub fn moved(&mut self, now: u64, pid: i32, to: usize) {
        self.latest = Some(Move { at: now, pid, to });
    }

    /// The pid of the task that was just moved, if `decision`, made at `now` about `cpu`, pulls a task to `cpu`.
    pub fn pulled(&self, now: u64, decision: &Decision, cpu: Option<usize>) -> Option<i32> {
        let latest = self.latest.as_ref()?;
        let is_it = decision.about == About::Pulled && latest.at == now && Some(latest.to) == cpu;
        is_it.then_some(latest.pid)
    }
}
