//! Scheduler events, independent of the trace's format.

/// A scheduler event, with its place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The CPU that it happened on.
    pub cpu: usize,
    /// ns since an arbitrary start.
    pub at: u64,
    /// Whether the trace has the CPU's context (ftrace's flags) and the context is an interrupt.
    pub interrupt: bool,
    pub event: Event<'a>,
}

/// A task: its name and pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    pub comm: &'a str,
    pub pid: i32,
    /// The kernel's priority: 120 is nice 0, below 100 is real time.
    pub prio: i32,
}

/// The state of a task after a CPU switches away from it.
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
    /// `sched_waking`: in the waker's context.
    Waking(Task<'a>),
    /// `sched_wakeup`: possibly in the context of an IPI.
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
    /// Bytes were written to a pipe or socket, or read from it.
    Moved(Moved),
    /// The running thread makes a system call: its number, and its first arguments.
    Call {
        number: i64,
        args: [u64; 3],
    },
    /// The new affinity of a task, for the first 64 CPUs; 0 is the running task.
    Pinned {
        pid: i32,
        cpus: u64,
    },
    /// A text written to `trace_marker`.
    Mark(&'a str),
    /// Another event.
    Other,
}

/// A call that wrote to a pipe or a socket, or read from it, when it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The kernel's identity of the stream: a pipe has one identity for both ends, and a socket's
    /// is that of the reading end.
    pub object: u64,
    /// The number of bytes; 0 at the end of the data, negative for an error.
    pub bytes: i64,
    pub write: bool,
    pub socket: bool,
}

impl Moved {
    /// The fields of its event: the object, and the bytes.
    pub const FIELDS: [&'static str; 2] = ["object", "bytes"];

    /// The event of this name, if it is one of the probes of `equipoise record`.
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

/// The content of a line or a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    Event(Line<'a>),
    /// This number of events was lost here.
    Lost(u64),
    /// The recorded machine has this number of CPUs.
    Cpus(usize),
    /// A comment or a heading.
    Nothing,
}

/// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ` and `TRACE_FLAG_NMI` of `common_flags`.
pub const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;

/// The priority of nice 0, for traces without priorities.
pub const DEFAULT_PRIO: i32 = 120;
