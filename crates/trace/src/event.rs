//! Scheduling events, independent of a trace's format.

/// A task: its name, pid and the kernel's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// The name (`comm`).
    pub comm: &'a str,
    /// The pid; 0 is the idle task.
    pub pid: i32,
    /// The priority: 120 is nice 0, 0 to 99 is a real-time task, and -1 a deadline task; [`DEFAULT_PRIO`] if the event
    /// has none.
    pub prio: i32,
}

/// The priority of nice 0, for events without priorities.
pub const DEFAULT_PRIO: i32 = 120;

/// An event of a trace that is written.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The time in ns.
    pub now: u64,
    /// The CPU.
    pub cpu: usize,
    /// The running task.
    pub current: Task<'a>,
    /// The event.
    pub event: Tracepoint<'a>,
}

/// An event of a trace that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// The CPU on which the event happened.
    pub cpu: usize,
    /// The time in ns since an arbitrary start.
    pub at: u64,
    /// Did the event happen in an interrupt, according to ftrace's flags? False if the trace has no flags.
    pub interrupt: bool,
    /// The event.
    pub event: Tracepoint<'a>,
}

/// The content of a line or a record of a trace that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Read<'a> {
    /// An event.
    Event(Line<'a>),
    /// This number of events was lost here.
    Lost(u64),
    /// The recorded machine is configured for this number of CPUs, of which some may be offline or missing.
    Cpus(usize),
    /// This number of CPUs was online.
    Online(usize),
    /// A comment, a heading, or an event of no interest.
    Nothing,
}

/// An event: one of the kernel's tracepoints, whose fields are in `table.rs`, or an event of another source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tracepoint<'a> {
    /// `sched_switch`.
    Switch {
        /// The task that ran.
        prev: Task<'a>,
        /// The state of `prev`.
        state: State,
        /// The task that runs from now on.
        next: Task<'a>,
    },
    /// `sched_waking`, `sched_wakeup` or `sched_wakeup_new`.
    Wakeup {
        /// The kind of the event.
        stage: Stage,
        /// The woken task.
        task: Task<'a>,
        /// The CPU for which the task waits, unless the trace lacks it.
        target_cpu: Option<usize>,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The task.
        task: Task<'a>,
        /// The task's CPU before.
        orig_cpu: usize,
        /// The task's CPU from now on.
        dest_cpu: usize,
    },
    /// `sched_process_fork`. The child has its parent's name until it is renamed.
    Fork {
        /// The parent.
        parent: Task<'a>,
        /// The child.
        child: Task<'a>,
    },
    /// `sched_process_exit`.
    Exit(Task<'a>),
    /// `task_rename`.
    Rename {
        /// The task's pid.
        pid: i32,
        /// The task's name before.
        oldcomm: &'a str,
        /// The task's name from now on.
        newcomm: &'a str,
    },
    /// `cpu_idle`: the CPU enters this idle state, or stops idling (`None`).
    Idle {
        /// The CPU that enters or leaves the state.
        cpu: usize,
        /// The state.
        state: Option<u32>,
    },
    /// `cpu_frequency`.
    Frequency {
        /// The CPU.
        cpu: usize,
        /// The new frequency in kHz.
        khz: u32,
    },
    /// `sched_cpu_capacity` of LISA's module `sched_tp`. 1024 is the capacity of the largest CPU.
    Capacity {
        /// The CPU.
        cpu: usize,
        /// The CPU's capacity at its highest frequency.
        orig: u32,
        /// The CPU's capacity at its current frequency.
        curr: u32,
    },
    /// `sched_pelt_se` of `sched_tp`: a task's averages.
    PeltTask {
        /// The task's CPU.
        cpu: usize,
        /// The task.
        task: Task<'a>,
        /// The task's averages.
        average: Averages,
    },
    /// `sched_pelt_cfs`, `sched_pelt_rt` or `sched_pelt_dl` of `sched_tp`: the averages of a CPU's class.
    PeltCpu {
        /// The CPU.
        cpu: usize,
        /// The class.
        class: Class,
        /// The averages of the class.
        average: Averages,
    },
    /// `bpf_trace_printk`: a text of the scheduler.
    Printk(&'a str),
    /// The return of a call that wrote to a pipe or socket, or read from it (a probe of `equipoise record`).
    Moved(Moved),
    /// `sched_setaffinity` (a probe of `equipoise record`).
    Pinned {
        /// The task's pid; 0 stands for the running task.
        pid: i32,
        /// The task's new affinity, for the first 64 CPUs.
        cpus: u64,
    },
    /// `__sched_setscheduler` (a probe of `equipoise record`).
    Scheduled {
        /// The task's pid.
        pid: i32,
        /// The task's new policy; negative if the task keeps its policy.
        policy: i32,
        /// `sched_attr::sched_runtime`, which for fair tasks is the requested slice in ns; 0 is the default.
        runtime: u64,
    },
    /// `sys_enter`: the running thread makes a system call.
    Call {
        /// The number of the system call.
        number: i64,
        /// The first arguments of the system call.
        args: [u64; 3],
    },
    /// A text written to `trace_marker`.
    Mark(&'a str),
    /// A decision of the scheduler, with its reason. A trace of Linux would have the decision as a
    /// [`Tracepoint::Mark`].
    Decision {
        /// The task that the decision is about.
        task: Option<Task<'a>>,
        /// The name of the decision.
        name: &'static str,
        /// The decision in words: `ui goes to CPU 3`.
        what: &'a str,
        /// The numbers on which the decision is based, with their names.
        numbers: &'a [(&'static str, i64)],
        /// The reason for the decision in words.
        why: &'a str,
    },
    /// The power of a part of the machine from now on, or the energy of an instantaneous event. A trace of Linux would
    /// have the number as a [`Tracepoint::Mark`].
    Counter {
        /// The part.
        part: &'a str,
        /// The unit.
        unit: Unit,
        /// The number.
        value: u64,
    },
    /// Any other event.
    Other,
}

/// The steps of a wakeup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `sched_waking`, in the waker's context.
    Waking,
    /// `sched_wakeup`, possibly in the context of an IPI.
    Woken,
    /// `sched_wakeup_new`, the first wakeup of a task.
    New,
}

/// The state of a task after a CPU switches away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The task waits for a CPU.
    Runnable,
    /// The task waits for something else.
    Blocked,
    /// The task has exited.
    Dead,
}

impl State {
    /// `prev_state` of `sched_switch`, as in `TASK_REPORT`.
    pub fn bits(self) -> i64 {
        match self {
            State::Runnable => 0,
            State::Blocked => 1,
            State::Dead => 0x10,
        }
    }

    /// The letter of the state, as `sched_switch` prints it.
    pub fn letter(self) -> char {
        match self {
            State::Runnable => 'R',
            State::Blocked => 'S',
            State::Dead => 'X',
        }
    }
}

/// The classes with separate running times in a CPU's averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Fair tasks.
    Fair,
    /// Real-time tasks.
    Rt,
    /// Deadline tasks.
    Dl,
}

impl Class {
    /// The class that priority `prio` of the kernel implies.
    pub fn of(prio: i32) -> Class {
        match prio {
            ..0 => Class::Dl,
            0..100 => Class::Rt,
            100.. => Class::Fair,
        }
    }
}

/// The averages of load tracking (PELT), as in `sched_avg`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Averages {
    /// The weighted load average: 1024 for each runnable task of nice 0.
    pub load: f64,
    /// The runnable average: 1024 for each runnable task.
    pub runnable: f64,
    /// The utilization, which approaches 1024 while a task runs.
    pub util: f64,
    /// `last_update_time` in ns.
    pub updated: u64,
}

/// The unit of a [`Tracepoint::Counter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Power from now on.
    Milliwatt,
    /// The energy of an instantaneous event.
    Picojoule,
}

impl Unit {
    /// The unit's symbol: `mW` or `pJ`.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Milliwatt => "mW",
            Unit::Picojoule => "pJ",
        }
    }
}

/// A call that wrote to a pipe or a socket, or read from it, when it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The kernel's identity of the stream. A pipe has one identity for both ends; that of a socket
    /// is the identity of the reading end.
    pub object: u64,
    /// The number of bytes; 0 at the end of the data, negative for an error.
    pub bytes: i64,
    /// Did the call write?
    pub write: bool,
    /// Is the stream a Unix socket, and not a pipe?
    pub socket: bool,
}
