//! What is known of threads and CPUs while a trace is read.

use crate::recording::Step;

/// A thread as far as it is known.
pub struct Known {
    pub name: String,
    pub prio: i32,
    pub steps: Vec<Entry>,
    pub is: Is,
    /// Who started it.
    pub parent: Option<u32>,
    /// When it was started, or when it was first seen, and until when it did anything, ns.
    pub from: u64,
    pub until: u64,
    /// The trace says whether it is of the load.
    pub marked: Option<Mark>,
    /// Work that it has done since its last step, ns of the fastest core.
    pub work: u64,
    pub ran_ns: u64,
    /// What the kernel took of its turns beyond their lengths, if the machine file is right, ns.
    pub owed: u64,
    /// Where it ran last.
    pub cpu: Option<usize>,
    /// Since it was last woken up it has not run: when that was, ns, and by an interrupt or by a thread.
    pub woken: Option<(u64, bool)>,
    /// It was woken up by this thread on its way to sleep, if it is seen to run again without another wakeup.
    pub early: Option<Waker>,
    /// How long it waited for a CPU after each wakeup, ns.
    pub latencies: Vec<u64>,
    /// How often a CPU went over to it.
    pub turns: u64,
}

/// A thread and its CPU; nothing if it was an interrupt.
pub type Waker = Option<(u32, usize)>;

/// What a recorder says of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It and all that it starts are what was to be recorded.
    Load,
    /// It is the recorder's.
    Recorder,
}

/// How `equipoise record` begins what it writes to `trace_marker`; `load` or `recorder`, a pid and a name follow, or `futex`
/// and that system call's number.
pub const MARK: &str = "equipoise record: ";

/// A step, or what may become one.
#[derive(Clone, Copy)]
pub enum Entry {
    Step(Step),
    /// A timer, or something else that is no thread, wakes it up.
    Slept(Gap),
    /// Waits to be woken by [`Known`] `by`, or sleeps.
    Woken {
        by: u32,
        gap: Gap,
    },
    /// Wakes up this thread, at that place of its steps.
    Wakes {
        thread: u32,
        entry: u32,
    },
    /// So many bytes went into one of [`Stream`], or came out of it, when a call returned.
    Moved {
        stream: u32,
        bytes: u32,
        write: bool,
        at: u64,
    },
    /// A call that waits for this one of [`super::locks::Futexes`], when it began.
    FutexWait {
        futex: u32,
        at: u64,
    },
    /// One that wakes up who waits for it.
    FutexWake {
        futex: u32,
        at: u64,
    },
    /// What was here is a part of another step.
    Gone,
}

/// A pipe, or a direction of a socket, from its first bytes until its end was read.
#[derive(Clone, Copy)]
pub struct Stream {
    pub socket: bool,
    /// Somebody moved bytes who is no thread that is known.
    pub foreign: bool,
}

/// How long a thread slept, and until when, ns.
#[derive(Clone, Copy)]
pub struct Gap {
    pub ns: u64,
    pub until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Is {
    Runnable,
    /// Since then, ns.
    Blocked(u64),
    Dead,
}

#[derive(Clone, Copy, Default)]
pub struct Cpu {
    /// The thread that it runs, if it is known and not the idle one.
    pub runs: Option<u32>,
    /// It has been seen to switch.
    pub known: bool,
    /// Its thread's work is counted up to here, ns.
    pub since: u64,
    /// What the kernel does next in its thread's time, and a replay will have it do again, ns.
    pub owed: u64,
    /// What its thread does next is its waker's or an interrupt's, ns.
    pub waker_s: u64,
    pub khz: Option<u32>,
}
