//! The state of threads and CPUs while a trace is read.

use workload::recording::Step;

/// The state of a thread.
pub struct Known {
    pub name: String,
    pub prio: i32,
    pub steps: Vec<Entry>,
    pub is: Is,
    /// Its parent.
    pub parent: Option<u32>,
    /// The time of its start or first event, and of its last activity, ns.
    pub from: u64,
    pub until: u64,
    /// Whether it belongs to the load according to the trace.
    pub marked: Option<Mark>,
    /// Its work since its last step, ns of the fastest core.
    pub work: u64,
    pub ran_ns: u64,
    /// The time that the kernel spent for it outside of its turns, by the machine file, ns.
    pub owed: u64,
    /// The slice that it requests, ns; 0 is the default.
    pub slice_ns: u64,
    /// The CPU on which it last ran.
    pub cpu: Option<usize>,
    /// The last wakeup, if it has not run since: the time, ns, and whether an interrupt caused it.
    pub woken: Option<(u64, bool)>,
    /// A wakeup that came before the task slept. The wakeup counts if the task runs again without
    /// another one.
    pub early: Option<Early>,
    /// Its waits for a CPU after each wakeup, ns.
    pub latencies: Vec<u64>,
    /// The number of switches to it.
    pub turns: u64,
    /// The number of switches to it on another CPU than before.
    pub migrations: u64,
}

/// A thread and its CPU; `None` for an interrupt.
pub type Waker = Option<(u32, usize)>;

/// A wakeup whose event precedes the sleep that it ends: the kernel writes `sched_waking` before it
/// takes the runqueue's lock, and the thread may be about to sleep on another CPU.
#[derive(Clone, Copy)]
pub struct Early {
    pub waker: Waker,
    /// The wakeup's reserved place in the waker's steps.
    pub entry: u32,
    /// Its time, ns.
    pub at: u64,
}

/// A recorder's mark on a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The thread and all that it starts are the recorded load.
    Load,
    /// The thread belongs to the recorder.
    Recorder,
}

/// The prefix of the texts that `equipoise record` writes to `trace_marker`; `load` or `recorder`,
/// a pid and a name follow, `cpus`, a pid and a mask, `slice`, a pid and ns, `futex` and that system call's number, or
/// `probe` and the time by which a probed call is longer, ns.
pub const MARK: &str = "equipoise record: ";

/// The text with which a window of a recording begins, if it has gaps between its windows.
pub const WINDOW: &str = "equipoise record: window";

/// The text with which it ends; events up to the next window are incomplete.
pub const GAP: &str = "equipoise record: gap";

/// A step, or a candidate for one.
#[derive(Clone, Copy)]
pub enum Entry {
    Step(Step),
    /// A timer, or another cause that is not a thread, wakes it.
    Slept(Gap),
    /// Waits to be woken by [`Known`] `by`, or sleeps.
    Woken {
        by: u32,
        gap: Gap,
    },
    /// Wakes this thread, at that index of its steps.
    Wakes {
        thread: u32,
        entry: u32,
    },
    /// A call returned after writing this number of bytes to a [`Stream`], or reading them.
    Moved {
        stream: u32,
        bytes: u32,
        write: bool,
        at: u64,
    },
    /// The start of a call that waits for this one of [`super::locks::Futexes`].
    FutexWait {
        futex: u32,
        at: u64,
    },
    /// A call that wakes the waiters of a futex.
    FutexWake {
        futex: u32,
        at: u64,
    },
    /// This entry has been merged into another step.
    Gone,
}

/// A pipe, or one direction of a socket, from its first bytes until its end was read.
#[derive(Clone, Copy)]
pub struct Stream {
    pub socket: bool,
    /// Bytes were moved by an unknown thread.
    pub foreign: bool,
}

/// The length and end of a thread's sleep, ns.
#[derive(Clone, Copy)]
pub struct Gap {
    pub ns: u64,
    pub until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Is {
    Runnable,
    /// The time from which it holds, ns.
    Blocked(u64),
    Dead,
}

#[derive(Clone, Copy, Default)]
pub struct Cpu {
    /// Its running thread, if known and not the idle one.
    pub runs: Option<u32>,
    /// A switch of the CPU has been seen.
    pub known: bool,
    /// The time up to which the work of its thread is counted, ns.
    pub since: u64,
    /// The next kernel work in its thread's time, ns, which a replay will repeat.
    pub owed: u64,
    /// The next work of its thread belongs to its waker or an interrupt, ns.
    pub waker_s: u64,
    pub khz: Option<u32>,
}
