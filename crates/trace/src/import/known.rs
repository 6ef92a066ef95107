//! The state of threads and CPUs while a trace is read.

use workload::recording::Step;

#[derive(Default)]
pub struct Known {
    pub name: String,
    /// The kernel's current priority, and the time in ns for which the thread ran with each priority.
    pub prio: i32,
    pub prios: Vec<(i32, u64)>,
    pub steps: Vec<Entry>,
    pub is: Is,
    pub parent: Option<u32>,
    /// The time of the thread's start in ns, or the beginning of the trace if the start is unknown; `until` is the time
    /// of the thread's last activity.
    pub from: u64,
    pub until: u64,
    /// The recorder's mark on the thread, if it has one.
    pub marked: Option<Mark>,
    /// The thread's work since its last step, in ns of the fastest core.
    pub work: u64,
    pub ran_ns: u64,
    /// The time in ns that the kernel spent for the thread outside of its turns, by the machine file.
    pub owed: u64,
    /// The slice that the thread requests, in ns; 0 is the default.
    pub slice_ns: u64,
    pub cpu: Option<usize>,
    /// The last wakeup, if the thread has not run since: its time in ns, and whether an interrupt caused it.
    pub woken: Option<(u64, bool)>,
    /// A wakeup that came before the thread slept. It counts if the thread runs again without another wakeup.
    pub early: Option<Early>,
    /// The thread's waits for a CPU after each wakeup, in ns.
    pub latencies: Vec<u64>,
    pub turns: u64,
    /// The number of switches to the thread on a different CPU than before.
    pub migrations: u64,
}

impl Known {
    pub fn ran(&mut self, ns: u64) {
        self.ran_ns += ns;
        match self.prios.iter_mut().find(|(prio, _)| *prio == self.prio) {
            Some((_, all)) => *all += ns,
            None => self.prios.push((self.prio, ns)),
        }
    }

    /// The priority with which the thread ran for the longest time. A thread that holds a mutex with priority
    /// inheritance, such as each lock in a PREEMPT_RT kernel, has the priority of its waiters for a while.
    pub fn usual_prio(&self) -> i32 {
        let longest = self.prios.iter().max_by_key(|&&(_, ns)| ns);
        longest.map_or(self.prio, |&(prio, _)| prio)
    }
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
    /// The wakeup's time in ns.
    pub at: u64,
}

/// A recorder's mark on a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The thread and all threads that it starts are the recorded load.
    Load,
    /// The thread belongs to the recorder.
    Recorder,
}

/// The prefix of the texts that the recorder writes to `trace_marker`. After it come `load` or `recorder`, a pid and,
/// except in a window, a name; `cpus`, a pid and a mask; `slice`, a pid and ns; `futex` and the number of that system
/// call; or `probe` and the additional time of a probed call, in ns.
pub const MARK: &str = "equipoise record: ";

/// The text with which a window of a recording begins, if it has gaps between its windows.
pub const WINDOW: &str = "equipoise record: window";

/// The text with which a window ends; events up to the next window are incomplete.
pub const GAP: &str = "equipoise record: gap";

/// A step, or a candidate for one.
#[derive(Clone, Copy)]
pub enum Entry {
    Step(Step),
    /// The thread sleeps until a timer, or another cause that is not a thread, wakes it.
    Slept(Gap),
    /// The thread sleeps until the thread `by` wakes it.
    Woken {
        by: u32,
        gap: Gap,
    },
    /// The thread wakes `thread`, which sleeps at the index `entry` of its steps.
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
    /// The start of a call that waits for a futex, an index into [`super::locks::Futexes`].
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
    /// Did an unknown thread write or read bytes?
    pub foreign: bool,
}

/// The length and end of a thread's sleep, in ns.
#[derive(Clone, Copy)]
pub struct Gap {
    pub ns: u64,
    pub until: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Is {
    #[default]
    Runnable,
    /// The thread has slept since this time, in ns.
    Blocked(u64),
    Dead,
}

#[derive(Clone, Copy, Default)]
pub struct Cpu {
    /// The CPU's running thread, if it is known and not the idle thread.
    pub runs: Option<u32>,
    /// Has a switch of the CPU been seen?
    pub known: bool,
    /// The time of the CPU's first event, in ns.
    pub first: Option<u64>,
    /// The time up to which the work of the CPU's thread is counted, in ns.
    pub since: u64,
    /// The kernel's next work in the time of the CPU's thread, in ns. A replay will repeat this work.
    pub owed: u64,
    /// The time in ns for which the next work of the CPU's thread belongs to the thread's waker or an interrupt.
    pub waker_s: u64,
    pub khz: Option<u32>,
}
