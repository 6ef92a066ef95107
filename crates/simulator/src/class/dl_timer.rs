//! Timers of deadline tasks' servers, as events.

use crate::kernel::task::TaskPtr;

/// A timer of a task's server. The timer is void once the server's generation has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timer {
    pub task: TaskPtr,
    pub generation: u32,
    pub what: TimerKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimerKind {
    /// The task is throttled until its next period: the timer interrupt comes.
    Expiry,
    /// The timer's handler replenishes the budget (`dl_task_timer()`).
    Replenish,
    /// The 0-lag time of a sleeping task (`inactive_task_timer()`).
    Inactive,
}
