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
    /// Bytes went into a pipe or a socket, or came out of it.
    Moved(Moved),
    /// The thread that runs calls the kernel: the call's number, and the first of what it passes.
    Call {
        number: i64,
        args: [u64; 3],
    },
    /// A task may run on these of the first 64 CPUs from now on; 0 is the one that runs.
    Pinned {
        pid: i32,
        cpus: u64,
    },
    /// What somebody wrote to `trace_marker`.
    Mark(&'a str),
    /// Of another kind.
    Other,
}

/// A call that wrote to a pipe or a socket, or read from it, when it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// What the kernel calls it: a pipe has one for both ends, a socket that of the end that is read.
    pub object: u64,
    /// How many; 0 at the end of what can be read, or less for an error.
    pub bytes: i64,
    pub write: bool,
    pub socket: bool,
}

impl Moved {
    /// Which fields its event has: of the object, and of the bytes.
    pub const FIELDS: [&'static str; 2] = ["object", "bytes"];

    /// What an event of this name says, if it is one of those that `equipoise record` probes.
    pub fn of(event: &str, object: u64, bytes: i64) -> Option<Moved> {
        let (socket, write) = match event {
            "pipe_read" => (false, false),
            "pipe_write" => (false, true),
            "unix_stream_recvmsg" => (true, false),
            "unix_stream_sendmsg" => (true, true),
            _ => return None,
        };
        Some(Moved {
            object,
            bytes,
            write,
            socket,
        })
    }
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
