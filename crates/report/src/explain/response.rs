//! The activity of threads from each wakeup until they sleep: where they lost time, and whether
//! their waker was late. A thread may take long although it hardly waits, because its CPU is of a
//! slow kind, has a low frequency, or shares a busy core.

mod observed;
mod periods;
mod pick;

use super::wait::Wait;
use machine::Machine;
pub use observed::{Chosen, Responses};
pub use periods::Missed;
use std::collections::BTreeMap;

/// The fixed-point number for a speed or share of 1.
const FULL: u32 = 1 << 20;

/// A thread from its wakeup until it sleeps again, or in a part of that time.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The thread's name, such as `ui-0`.
    pub name: String,
    /// The thread's pid.
    pub pid: i32,
    /// The time when the thread woke up, in ns.
    pub from: u64,
    /// The time when the thread fell asleep, in ns.
    pub to: u64,
    /// The CPUs on which the thread ran.
    pub ran: BTreeMap<usize, Ran>,
    /// The idle time of each CPU during the response, in ns.
    pub idle_ns: Vec<u64>,
    /// The CPUs whose frequency was limited (`scaling_max_freq`), each with the latest limit in 1/2^20 of its highest
    /// frequency.
    pub limits: BTreeMap<usize, u32>,
    /// The thread's longest wait for a CPU.
    pub longest: Option<Wait>,
    /// The name of the waker; `None` if an interrupt woke the thread up, or if the thread is new.
    pub woken_by: Option<String>,
    /// The time that threads in the chain of wakeups lost before this thread woke up.
    pub late: Option<Box<Late>>,
    /// The time from the thread's wakeup to running, in ns.
    pub woken_ns: u64,
    /// Did an interrupt wake the first thread of the chain? Only then is there a time at which this
    /// thread should have woken up.
    timed: bool,
    /// The pids of the threads in the chain of wakeups, this thread last.
    path: Vec<i32>,
    /// The time that this thread had lost when it last woke up each other thread, by pid, in ns.
    told: Vec<(i32, u64)>,
    /// Does the response begin while the thread is already running, at the end of an earlier period?
    pub continues: bool,
}

/// The time lost before a wakeup.
#[derive(Clone, Debug)]
pub struct Late {
    /// The time, in ns.
    pub ns: u64,
    /// The waker that lost most of this time until it woke up the next thread.
    pub root: Response,
}

/// The longest chain of wakers that is traced back.
const LONGEST_PATH: usize = 16;

/// The time that a thread lost by running slowly, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The time lost because the thread's CPU is of a slower kind than the machine's fastest CPU.
    pub kind_ns: u64,
    /// The time lost because another thread used the same core.
    pub shared_ns: u64,
    /// The time lost because the CPU did not have its highest frequency.
    pub frequency_ns: u64,
}

impl Lost {
    fn add(&mut self, other: Lost) {
        self.kind_ns += other.kind_ns;
        self.shared_ns += other.shared_ns;
        self.frequency_ns += other.frequency_ns;
    }
}

/// The time that all instances of a thread lost in the whole run, by reason.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// The thread's name without an instance's number.
    pub name: String,
    /// The number of responses.
    pub responses: usize,
    /// The waits after wakeups in ns.
    pub woken_ns: u64,
    /// The waits after the thread lost a CPU, in ns.
    pub preempted_ns: u64,
    /// The time lost by running slowly.
    pub slow: Lost,
}

/// A thread's activity on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// The time when the thread first ran there, in ns.
    pub from: u64,
    /// The thread's running time there, in ns.
    pub ns: u64,
    /// The running time while another thread of the core was busy, in ns.
    pub shared_ns: u64,
    /// The work done, in ns at 1/2^20 of the fastest core's speed, including the kernel's work for the thread.
    work: u128,
    /// The work that would have been done at the highest frequency; `alone_work` is the work with idle siblings as
    /// well.
    full_work: u128,
    alone_work: u128,
    /// The integral of the frequency over time, in ns times 1/2^20 of the CPU's highest frequency.
    frequency: u128,
}

impl Ran {
    /// The part of this activity since the time `at`, when its state was `earlier`.
    fn since(&self, earlier: &Ran, at: u64) -> Ran {
        Ran {
            from: self.from.max(at),
            ns: self.ns - earlier.ns,
            shared_ns: self.shared_ns - earlier.shared_ns,
            work: self.work - earlier.work,
            full_work: self.full_work - earlier.full_work,
            alone_work: self.alone_work - earlier.alone_work,
            frequency: self.frequency - earlier.frequency,
        }
    }

    /// The average frequency, relative to the highest.
    pub fn frequency(&self) -> f64 {
        self.frequency as f64 / self.ns.max(1) as f64 / f64::from(FULL)
    }

    /// The time lost on this CPU, by reason.
    pub fn lost(&self) -> Lost {
        let ns = |work: u128| (work >> 20) as u64;
        let (alone, full) = (ns(self.alone_work), ns(self.full_work));
        Lost {
            kind_ns: self.ns.saturating_sub(alone),
            shared_ns: alone.saturating_sub(full),
            frequency_ns: full.saturating_sub(ns(self.work)),
        }
    }
}

impl Response {
    /// The time from the wakeup to the sleep, in ns.
    pub fn ns(&self) -> u64 {
        self.to - self.from
    }

    /// The highest frequency that `scaling_max_freq` allows `cpu`, relative to the CPU's highest; `None` without a limit.
    pub fn limit(&self, cpu: usize) -> Option<f64> {
        let limit = self.limits.get(&cpu).filter(|&&limit| limit < FULL)?;
        Some(f64::from(*limit) / f64::from(FULL))
    }

    /// The speed of `cpu` with idle siblings at the highest frequency that it may have, where 1024 is the speed of the
    /// machine's fastest CPU.
    pub fn speed(&self, machine: &Machine, cpu: usize) -> u32 {
        let speed = super::cause::speed(machine, cpu);
        let limited = |limit: f64| (f64::from(speed) * limit) as u32;
        self.limit(cpu).map_or(speed, limited)
    }

    /// The thread's running time, in ns.
    pub fn ran_ns(&self) -> u64 {
        self.ran.values().map(|ran| ran.ns).sum()
    }

    /// The time of the same work on the fastest CPU at its highest frequency, in ns.
    pub fn fastest_ns(&self) -> u64 {
        (self.ran.values().map(|ran| ran.work).sum::<u128>() >> 20) as u64
    }

    /// The excess of the running time over [`Response::fastest_ns`].
    pub fn slow_ns(&self) -> u64 {
        self.ran_ns().saturating_sub(self.fastest_ns())
    }

    /// The time for which the thread was runnable but did not run, in ns.
    pub fn waited_ns(&self) -> u64 {
        self.ns().saturating_sub(self.ran_ns())
    }

    /// The thread's own loss by waiting and by running slowly, in ns.
    pub fn lost_ns(&self) -> u64 {
        self.ns().saturating_sub(self.fastest_ns())
    }

    /// The time lost by the thread's wakers, in ns.
    pub fn late_ns(&self) -> u64 {
        self.late.as_ref().map_or(0, |late| late.ns)
    }

    /// Did the thread lose more time by running slowly than by waiting?
    pub fn is_slow(&self) -> bool {
        self.slow_ns() > self.waited_ns()
    }

    /// The part of this response after the earlier state `earlier`; `longest` is the longest wait in that part.
    pub(super) fn since(&self, earlier: &Response, longest: Option<Wait>) -> Response {
        let of_cpu = |(&cpu, ran): (&usize, &Ran)| {
            let before = earlier.ran.get(&cpu).copied().unwrap_or_default();
            (cpu, ran.since(&before, earlier.to))
        };
        Response {
            name: self.name.clone(),
            pid: self.pid,
            from: earlier.to,
            to: self.to,
            ran: self
                .ran
                .iter()
                .map(of_cpu)
                .filter(|(_, ran)| ran.ns > 0)
                .collect(),
            idle_ns: self.idle_ns.clone(),
            limits: self.limits.clone(),
            longest,
            woken_ns: self.woken_ns - earlier.woken_ns,
            continues: true,
            ..Response::default()
        }
    }

    /// Ends the response: `idle` has the idle time of each CPU since the run began, in ns. Until
    /// then, [`Response::idle_ns`] has these times at the beginning of the response.
    fn idled_until(&mut self, idle: &[u64]) {
        for (own, idle) in self.idle_ns.iter_mut().zip(idle) {
            *own = idle - *own;
        }
        let within = |ns: u64| ns <= self.ns();
        debug_assert!(self.idle_ns.iter().all(|&ns| within(ns)), "{self:?}");
        debug_assert!(within(self.ran_ns()), "{self:?}");
    }

    /// Is more of the thread's delay due to a late waker than to its own lost time?
    pub fn is_late(&self) -> bool {
        self.late_ns() > self.lost_ns()
    }

    /// The time lost by running slowly, by reason.
    pub fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        self.ran.values().for_each(|ran| lost.add(ran.lost()));
        lost
    }

    /// The name and the duration in ns of each part of the response. The durations add up to the response time.
    pub(super) fn parts(&self) -> [(&'static str, u64); 6] {
        let lost = self.lost();
        let waited = self.waited_ns();
        let slow = lost.kind_ns + lost.frequency_ns + lost.shared_ns;
        [
            ("waited to run", self.woken_ns.min(waited)),
            ("preempted", waited.saturating_sub(self.woken_ns)),
            ("slow CPU", lost.kind_ns),
            ("low frequency", lost.frequency_ns),
            ("shared core", lost.shared_ns),
            ("work", self.ran_ns().saturating_sub(slow)),
        ]
    }
}
