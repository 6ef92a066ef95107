//! Events of the scheduler, whatever the trace was written in.

/// An event of the scheduler, and where and when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The CPU that it happened on.
    pub cpu: usize,
    /// ns since some time.
    pub at: u64,
    /// The trace says in which context the CPU was (ftrace's flags), and that is an interrupt.
    pub interrupt: bool,
    pub event: Event<'a>,
}

/// A task: its name and pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    pub comm: &'a str,
    pub pid: i32,
    /// The kernel's: 120 is nice 0, below 100 is real time.
    pub prio: i32,
}

/// What a task that a CPU switches from does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Runnable,
    Blocked,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Switch {
        prev: Task<'a>,
        state: State,
        next: Task<'a>,
    },
    /// `sched_waking`: in the context of who wakes.
    Waking(Task<'a>),
    /// `sched_wakeup`: perhaps in that of an IPI.
    Wakeup(Task<'a>),
    /// `sched_wakeup_new`.
    New(Task<'a>),
    Fork {
        parent: i32,
        child: Task<'a>,
    },
    /// kHz.
    Frequency {
        cpu: usize,
        khz: u32,
    },
    /// What somebody wrote to `trace_marker`.
    Mark(&'a str),
    /// Of another kind.
    Other,
}

/// What a line or a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    Event(Line<'a>),
    /// So many events were lost here.
    Lost(u64),
    /// A comment or a heading.
    Nothing,
}

/// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ` and `TRACE_FLAG_NMI` of `common_flags`.
pub const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;

/// The prio of a task of nice 0, where a trace has none.
pub const DEFAULT_PRIO: i32 = 120;
