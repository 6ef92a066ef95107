//! An rt-app file, read and checked: the actions of its threads, with every name resolved.

use super::groups::MeasuredGroup;
use crate::timeline::Timed;
use crate::{Better, ControlGroup, GroupId, SchedPolicy, UtilClamps};
use machine::CpuMask;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

#[derive(Default)]
pub struct Config {
    /// `global.duration`, in ns; `None` stands for rt-app's -1, by which the run lasts until all threads have ended.
    pub duration: Option<u64>,
    /// `global.cumulative_slack`.
    pub cumulative_slack: bool,
    pub tasks: Vec<Task>,
    pub mutexes: Vec<String>,
    pub condvars: usize,
    /// For each barrier, the number of threads for which it waits.
    pub barriers: Vec<u32>,
    /// The timers that all threads share.
    pub timers: Vec<TimerMode>,
    /// All `cpus`, with their places in the text.
    pub bindings: Vec<(CpuMask, Range<usize>)>,
    pub semaphores: usize,
    /// The tasks with `util_min` or `util_max`.
    pub clamped: Vec<String>,
    /// Remarks for the user, one line each.
    pub notes: Vec<String>,
    /// The control groups whose CPU time decides a comparison.
    pub measured_groups: Vec<MeasuredGroup>,
    pub groups: Vec<ControlGroup>,
    /// Changes of the machine in order of time, with their places in the text.
    pub timeline: Vec<(Timed, Range<usize>)>,
}

/// One entry of `tasks`.
pub struct Task {
    pub name: Arc<str>,
    /// `instance`: the number of threads at the start.
    pub instances: u32,
    /// `delay`, in ns.
    pub delay: u64,
    /// `loop`; `None` stands for endless iteration.
    pub loops: Option<u32>,
    /// The policy, with its parameters, at the task's start.
    pub policy: SchedPolicy,
    /// `util_min` and `util_max`.
    pub clamps: UtilClamps,
    /// `cpus`.
    pub affinity: Option<CpuMask>,
    /// `taskgroup`, if there is one.
    pub group: Option<Option<GroupId>>,
    /// `cpu_time`: the direction in which the CPU time of the task's threads is better, if CPU time decides.
    pub cpu_time: Option<Better>,
    pub phases: Vec<Phase>,
    /// The timers that are private to each thread.
    pub timers: Vec<TimerMode>,
}

/// One entry of `phases`.
pub struct Phase {
    /// `loop`; `None` stands for endless iteration.
    pub loops: Option<u32>,
    /// `cpus`; `None` leaves the task's CPUs.
    pub affinity: Option<CpuMask>,
    /// `taskgroup`; `None` leaves the thread in its group.
    pub group: Option<Option<GroupId>>,
    /// A change of policy or priority.
    pub policy: Option<SchedPolicy>,
    /// Changes of `util_min` and `util_max`.
    pub clamps: UtilClamps,
    /// The events in order; at least one.
    pub events: Vec<Event>,
}

#[derive(Clone)]
pub struct Event {
    pub action: Action,
    /// The place of the action in the text.
    pub at: Range<usize>,
}

/// An action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `run`: computes for this time, in ns at the reference speed.
    Run(u64),
    /// `runtime`: computes until this time has passed, in ns.
    Runtime(u64),
    /// `mem`, `iorun`, `memrun`: computes this work, in ns at the reference speed, which does not count for the log's
    /// `run`.
    Copy(u64),
    /// `sleep`: sleeps for this time, in ns.
    Sleep(u64),
    /// `timer`: sleeps until the timer's next expiry.
    Timer {
        timer: Timer,
        /// The period in ns.
        period: u64,
    },
    /// `lock`.
    Lock(u32),
    /// `unlock`.
    Unlock(u32),
    /// `wait`.
    Wait {
        cond: u32,
        /// The mutex, which the thread holds.
        mutex: u32,
    },
    /// `signal`.
    Signal(u32),
    /// `broad`.
    Broadcast(u32),
    /// `sem_post`.
    Post(Semaphore),
    /// `sem_wait`.
    Take(Semaphore),
    /// `barrier`.
    Barrier(u32),
    /// `yield`.
    Yield,
    /// `fork`: creates a thread of the task with this index.
    Fork(usize),
}

/// A semaphore: a stream whose bytes are its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore {
    pub stream: u32,
    /// The semaphore's number among the condition variables, for deadlines.
    pub cond: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A timer of [`Config::timers`].
    Shared(u32),
    /// A timer of [`Task::timers`], whose `ref` begins with `unique`.
    Own(u32),
}

/// The behaviour of a timer whose time has already passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerMode {
    /// The next period counts from the current time.
    #[default]
    Relative,
    /// The next period counts from the missed time.
    Absolute,
}

/// The indices of the `tasks` that a `fork` creates.
pub fn forked(tasks: &[Task]) -> BTreeSet<usize> {
    let events = tasks.iter().flat_map(Task::events);
    events
        .filter_map(|event| match event.action {
            Action::Fork(task) => Some(task),
            _ => None,
        })
        .collect()
}

impl Action {
    /// The condition variable or semaphore for which the action waits.
    pub fn waits_for(&self) -> Option<u32> {
        match *self {
            Action::Wait { cond, .. } | Action::Take(Semaphore { cond, .. }) => Some(cond),
            _ => None,
        }
    }

    /// The condition variable or semaphore whose waiters the action wakes.
    pub fn wakes(&self) -> Option<u32> {
        match *self {
            Action::Signal(cond)
            | Action::Broadcast(cond)
            | Action::Post(Semaphore { cond, .. }) => Some(cond),
            _ => None,
        }
    }
}

impl Task {
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.phases.iter().flat_map(|phase| &phase.events)
    }

    pub fn has(&self, fits: impl Fn(&Action) -> bool) -> bool {
        self.events().any(|event| fits(&event.action))
    }

    /// Does the task continue until it is stopped?
    pub fn endless(&self) -> bool {
        self.loops.is_none() || self.phases.iter().any(|phase| phase.loops.is_none())
    }
}

impl Phase {
    pub fn has_timer(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event.action, Action::Timer { .. }))
    }
}
