//! The kernel's tracepoints, as a trace of Linux has them.

use super::pelt::Average;
use policy::Decided;
use simulator::Part;

/// What the names of tasks are cut to, in bytes (`TASK_COMM_LEN`, without the final NUL).
pub(super) const COMM_LEN: usize = 15;

/// The units of [`Tracepoint::Counter`].
pub(super) const MILLIWATT: &str = "mW";
pub(super) const PICOJOULE: &str = "pJ";

/// A task: its name and pid.
pub(crate) type Task<'a> = (&'a str, i32);

/// An event of a trace.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    /// When, ns.
    pub now: u64,
    /// On which CPU.
    pub cpu: usize,
    /// Who runs there; pid 0 is idle.
    pub current: Task<'a>,
    /// What.
    pub event: Tracepoint<'a>,
}

/// What happens, by the kernel's names of the tracepoint and its fields.
#[derive(Clone, Copy)]
pub(crate) enum Tracepoint<'a> {
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
    /// Of `cpu_id` the record's CPU; `None` is the end of idling.
    CpuIdle {
        state: Option<u32>,
    },
    /// Of `cpu_id` the record's CPU; kHz.
    CpuFrequency {
        state: u32,
    },
    /// Of the module `sched_tp` of LISA: the record's CPU.
    SchedCpuCapacity {
        orig: u32,
        curr: u32,
    },
    /// Of `sched_tp`: a task's averages, on the CPU that it is of.
    SchedPeltSe {
        cpu: usize,
        task: Task<'a>,
        average: Average,
    },
    /// Of `sched_tp`: those of a class on the record's CPU.
    SchedPelt {
        class: Class,
        average: Average,
    },
    /// `bpf_trace_printk` of the scheduler.
    BpfTracePrintk {
        message: &'a str,
    },
    /// No tracepoint: the scheduler says what it decides, and why.
    Decision {
        task: Option<Task<'a>>,
        decided: Decided<'a>,
        why: &'a str,
    },
    /// No tracepoint: a part of the machine draws so many `mW` from now on, or has taken so many `pJ` at once.
    Counter {
        part: Part,
        unit: &'static str,
        value: u64,
    },
}

/// `prev_state` of `sched_switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Interruptible,
    Dead,
}

impl State {
    /// As `TASK_REPORT` has it.
    pub fn bits(self) -> u64 {
        match self {
            State::Running => 0,
            State::Interruptible => 1,
            State::Dead => 0x10,
        }
    }

    pub fn letter(self) -> char {
        match self {
            State::Running => 'R',
            State::Interruptible => 'S',
            State::Dead => 'X',
        }
    }
}

/// The classes whose running time a CPU's averages tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Fair,
    Rt,
    Dl,
}

impl Class {
    /// By the kernel's priority.
    pub fn of(prio: i32) -> Class {
        match prio {
            ..0 => Class::Dl,
            0..100 => Class::Rt,
            100.. => Class::Fair,
        }
    }
}

impl Tracepoint<'_> {
    /// The tracepoint's name; `None` of what is written to trace_marker.
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

/// A task's name as the kernel keeps it.
pub(super) fn comm(name: &str) -> &str {
    let mut end = name.len().min(COMM_LEN);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// [`comm`] of a task in `sched_switch`, where each CPU's idle task is called `swapper/CPU`.
pub(super) struct SwitchComm<'a>(pub Task<'a>, pub usize);

impl std::fmt::Display for SwitchComm<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            (_, 0) => write!(f, "swapper/{}", self.1),
            (name, _) => f.write_str(comm(name)),
        }
    }
}
