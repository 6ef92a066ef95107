//! The kernel's tracepoints, as in a trace of Linux.

use cage::text::plain;
use std::borrow::Cow;

/// The maximum length of task names, in bytes (`TASK_COMM_LEN`, without the final NUL).
pub(super) const COMM_LEN: usize = 15;

/// The units of [`Tracepoint::Counter`].
/// Power from now on.
pub const MILLIWATT: &str = "mW";
/// Instantaneous energy.
pub const PICOJOULE: &str = "pJ";

/// A task: its name and pid.
pub type Task<'a> = (&'a str, i32);

/// An event of a trace.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The time, ns.
    pub now: u64,
    /// The CPU.
    pub cpu: usize,
    /// The running task; pid 0 is idle.
    pub current: Task<'a>,
    /// The event.
    pub event: Tracepoint<'a>,
}

/// An event, with the kernel's names of the tracepoint and its fields.
#[allow(missing_docs)]
#[derive(Clone, Copy)]
pub enum Tracepoint<'a> {
    SchedSwitch {
        prev: Task<'a>,
        prev_prio: i32,
        prev_state: State,
        next: Task<'a>,
        next_prio: i32,
    },
    /// Also `sched_wakeup_new`.
    SchedWakeup {
        task: Task<'a>,
        prio: i32,
        target_cpu: usize,
        new: bool,
    },
    SchedMigrateTask {
        task: Task<'a>,
        prio: i32,
        orig_cpu: usize,
        dest_cpu: usize,
    },
    /// The child has its parent's name until it is renamed.
    SchedProcessFork {
        parent: Task<'a>,
        child_pid: i32,
    },
    SchedProcessExit {
        task: Task<'a>,
        prio: i32,
    },
    TaskRename {
        pid: i32,
        oldcomm: &'a str,
        newcomm: &'a str,
    },
    /// `cpu_id` is the record's CPU; `None` is the end of idling.
    CpuIdle {
        state: Option<u32>,
    },
    /// `cpu_id` is the record's CPU; kHz.
    CpuFrequency {
        state: u32,
    },
    /// From LISA's module `sched_tp`: the record's CPU.
    SchedCpuCapacity {
        orig: u32,
        curr: u32,
    },
    /// From `sched_tp`: a task's averages, on its CPU.
    SchedPeltSe {
        cpu: usize,
        task: Task<'a>,
        average: Averages,
    },
    /// From `sched_tp`: the averages of a class on the record's CPU.
    SchedPelt {
        class: Class,
        average: Averages,
    },
    /// `bpf_trace_printk` of the scheduler.
    BpfTracePrintk {
        message: &'a str,
    },
    /// Not a tracepoint: a decision of the scheduler, with its reason.
    Decision {
        task: Option<Task<'a>>,
        /// The name of the decision.
        name: &'static str,
        /// The decision in words: `ui goes to CPU 3`.
        what: &'a str,
        /// Its numbers, with their names.
        numbers: &'a [(&'static str, i64)],
        why: &'a str,
    },
    /// Not a tracepoint: the power of a part of the machine in `mW` from now on, or instantaneous
    /// energy in `pJ`.
    Counter {
        part: &'a str,
        unit: &'static str,
        value: u64,
    },
}

/// The averages of load tracking (PELT), as in `sched_avg`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Averages {
    /// Weighted: 1024 for each runnable task of nice 0.
    pub load: f64,
    /// 1024 for each runnable task.
    pub runnable: f64,
    /// 1024 while a task runs.
    pub util: f64,
    /// `last_update_time`, ns.
    pub updated: u64,
}

/// `prev_state` of `sched_switch`.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Interruptible,
    Dead,
}

impl State {
    /// As in `TASK_REPORT`.
    pub fn bits(self) -> u64 {
        match self {
            State::Running => 0,
            State::Interruptible => 1,
            State::Dead => 0x10,
        }
    }

    /// As `sched_switch` prints it.
    pub fn letter(self) -> char {
        match self {
            State::Running => 'R',
            State::Interruptible => 'S',
            State::Dead => 'X',
        }
    }
}

/// The classes with separate running times in a CPU's averages.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Fair,
    Rt,
    Dl,
}

impl Class {
    /// The class that the kernel's priority implies.
    pub fn of(prio: i32) -> Class {
        match prio {
            ..0 => Class::Dl,
            0..100 => Class::Rt,
            100.. => Class::Fair,
        }
    }
}

impl Tracepoint<'_> {
    /// The tracepoint's name; `None` for texts written to trace_marker.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            Tracepoint::SchedSwitch { .. } => "sched_switch",
            Tracepoint::SchedWakeup { new: false, .. } => "sched_wakeup",
            Tracepoint::SchedWakeup { new: true, .. } => "sched_wakeup_new",
            Tracepoint::SchedMigrateTask { .. } => "sched_migrate_task",
            Tracepoint::SchedProcessFork { .. } => "sched_process_fork",
            Tracepoint::SchedProcessExit { .. } => "sched_process_exit",
            Tracepoint::TaskRename { .. } => "task_rename",
            Tracepoint::CpuIdle { .. } => "cpu_idle",
            Tracepoint::CpuFrequency { .. } => "cpu_frequency",
            Tracepoint::SchedCpuCapacity { .. } => "sched_cpu_capacity",
            Tracepoint::SchedPeltSe { .. } => "sched_pelt_se",
            Tracepoint::SchedPelt { class, .. } => match class {
                Class::Fair => "sched_pelt_cfs",
                Class::Rt => "sched_pelt_rt",
                Class::Dl => "sched_pelt_dl",
            },
            Tracepoint::BpfTracePrintk { .. } => "bpf_trace_printk",
            Tracepoint::Decision { .. } | Tracepoint::Counter { .. } => return None,
        })
    }
}

/// `cpu_idle`'s state: the end of idling is -1 as an unsigned number.
pub(super) fn idle_state(state: Option<u32>) -> u32 {
    state.unwrap_or(u32::MAX)
}

/// A task's name as the kernel stores it; no character of it can end the event or act on a reader.
pub(super) fn comm(name: &str) -> Cow<'_, str> {
    let cut = |name: &str| {
        let mut end = name.len().min(COMM_LEN);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        end
    };
    match plain(name) {
        Cow::Borrowed(name) => Cow::Borrowed(&name[..cut(name)]),
        Cow::Owned(mut name) => {
            name.truncate(cut(&name));
            Cow::Owned(name)
        }
    }
}

/// [`comm`] of a task in `sched_switch`, where each CPU's idle task is named `swapper/CPU`.
pub(super) struct SwitchComm<'a>(pub Task<'a>, pub usize);

impl std::fmt::Display for SwitchComm<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            (_, 0) => write!(f, "swapper/{}", self.1),
            (name, _) => f.write_str(&comm(name)),
        }
    }
}
