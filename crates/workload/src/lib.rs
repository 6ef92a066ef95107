//! The activity of tasks: the interface between programs and the (simulated) kernel, and two kinds of load that use
//! this interface, rt-app files and recordings. The crate `models` has the models of benchmarks.
//!
//! - A [`Workload`] is a recipe. [`Workload::start`] makes one instance for one run, a [`Start`]: kernel
//!   objects and the first tasks.
//! - A task's [`Program`] is asked for its next [`Op`] each time the kernel has completed the last one,
//!   as a process makes one system call after another. A closure is a program, too.
//! - A [`Metric`] is a quantity that a run measures, and a [`Role`] its meaning for a comparison.
//!
//! ```
//! let json = r#"{ "tasks": { "ui": { "instance": 2, "run": 2000, "timer":
//!     { "ref": "tick", "period": 16667 }, "loop": 60 } } }"#;
//! let workload = workload::parse("ui", "ui.json", json, None)?;
//! let machine = machine::Machine::find("smp-2")?;
//! assert_eq!(workload.start(&machine).tasks.len(), 2);
//! assert!(workload.metrics().iter().any(|metric| metric.name == "ui-0/missed"));
//! # Ok::<(), Box<machine::input::BadInput>>(())
//! ```

use machine::input::BadInput;
use machine::{BUSY_LOOP, CpuMask, Machine};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use bound::bind;
pub use env::{Env, Period, Shared};
pub use file::parse;
pub use group::{Bandwidth, ControlGroup, GroupId};
pub use noise::with_noise;
pub use params::{Args, Param, nanoseconds};
pub use placed::Placement;
pub use record::{Better, Goal, MAX_SAMPLES, Metric, MetricId, Recorder, Role};
pub use rng::Rng;
pub use together::together;
pub use unit::Unit;

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
mod bound;
mod cpu_time;
mod env;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod file;
mod group;
mod noise;
mod params;
mod placed;
mod record;
pub mod recording;
mod rng;
pub mod rtapp;
pub mod timeline;
mod together;
mod unit;

/// A workload: an rt-app file, a recording or a benchmark.
pub trait Workload: Send + Sync {
    /// The name that `--workload` takes, or the file's stem.
    fn name(&self) -> &str;
    /// A description of one line.
    fn description(&self) -> &str;
    /// The metrics of a run, which are the same for every run; [`Recorder::record`] takes indices into this list.
    fn metrics(&self) -> &[Metric];
    /// The workload that this one changes, if it is such a wrapper. The methods below, except
    /// [`Workload::of_run`] and [`Workload::start`], ask that workload by default.
    fn inner(&self) -> Option<&dyn Workload> {
        None
    }
    /// The total and the parallelism of CPU-bound work, from which the best possible time on a machine follows. `None`
    /// if factors other than CPU throughput decide the time.
    fn cpu_bound(&self) -> Option<CpuBound> {
        self.inner()?.cpu_bound()
    }
    /// Can the workload run on `machine`? The error says why it cannot, such as a CPU that the machine lacks.
    /// [`Workload::start`] may be called only if it can run.
    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        self.inner().map_or(Ok(()), |inner| inner.check(machine))
    }
    /// The workload that replaces this workload in run `run` (from 0) of `count`, if runs differ in more than the seed.
    fn of_run(&self, _run: u32, _count: u32) -> Option<Box<dyn Workload>> {
        None
    }
    /// The metrics of parts without a duration that are ended by the duration of another part.
    fn cut_short(&self, machine: &Machine) -> Vec<MetricId> {
        self.inner()
            .map_or_else(Vec::new, |inner| inner.cut_short(machine))
    }
    /// Does any of the workload's control groups have a `cpu.max`?
    fn limits_groups(&self) -> bool {
        self.inner().is_some_and(|inner| inner.limits_groups())
    }
    /// Sentences about the workload's parts that are not simulated.
    fn notes(&self) -> Vec<String> {
        self.inner().map_or_else(Vec::new, |inner| inner.notes())
    }
    /// The sets of CPUs to which the workload binds threads.
    fn bindings(&self) -> Vec<CpuMask> {
        self.inner().map_or_else(Vec::new, |inner| inner.bindings())
    }
    /// Sentences about bindings of threads to CPUs that do not hold on `machine`.
    fn notes_on(&self, machine: &Machine) -> Vec<String> {
        self.inner()
            .map_or_else(Vec::new, |inner| inner.notes_on(machine))
    }
    /// The recording to replay, if any.
    fn recording(&self) -> Option<&recording::Recording> {
        self.inner()?.recording()
    }
    /// Makes a fresh instance of the workload. `machine` provides facts that a real program queries, such as the number
    /// of CPUs.
    fn start(&self, machine: &Machine) -> Start;
}

/// See [`Workload::cpu_bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuBound {
    /// The work of all tasks, in ns at the reference speed.
    pub work: u64,
    /// The work, in addition to `work`, that one task does while no other can run, in ns at the reference speed.
    pub serial: u64,
    /// The number of CPUs that can be used at once.
    pub parallelism: usize,
    /// The metric that the limit bounds from below, in seconds.
    pub metric: MetricId,
}

/// One instance of a workload: the state when the run begins.
#[derive(Default)]
pub struct Start {
    /// The first tasks, which the shell (a task outside the workload that already runs) forks at time 0 in this order.
    pub tasks: Vec<TaskSpec>,
    /// The number of mutexes (which [`MutexId`] indexes).
    pub mutexes: usize,
    /// The names of the first mutexes in messages; the others are numbered.
    pub mutex_names: Vec<String>,
    /// The number of condition variables.
    pub condvars: usize,
    /// For each barrier, the number of tasks for which it waits.
    pub barriers: Vec<u32>,
    /// The streams.
    pub streams: Vec<Stream>,
    /// Streams that are connections over the machine's network adapter, with their direction. Bytes that are written to
    /// a transmitting stream leave the stream when the adapter has sent them. A sender that always has more data fills
    /// a receiving stream.
    pub connections: Vec<(StreamId, Direction)>,
    /// Initial values of the shared memory words ([`Env::shared`]).
    pub shared: Vec<u64>,
    /// Control groups below the root. The first tasks begin in the root.
    pub groups: Vec<ControlGroup>,
    /// Changes of the machine, in order of time.
    pub timeline: Vec<timeline::Timed>,
    /// The time, in ns, at which the run ends even if tasks are left. If it is `None`, the run ends when all tasks have
    /// exited.
    pub duration_ns: Option<u64>,
    /// Whether the duration is only a default, because a task loops forever. The run then fails if all tasks wait for
    /// each other.
    pub is_endless: bool,
}

/// A pipe, one direction of a socket pair, or an event, each of whose bytes wakes one waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The kind, on which the flags of the stream's wakeups depend.
    pub kind: StreamKind,
    /// The largest number of bytes in the stream.
    pub capacity: u64,
}

/// The object of Linux that a stream represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A pipe.
    Pipe,
    /// A Unix socket.
    UnixSocket,
    /// A TCP socket.
    TcpSocket,
    /// A wait queue of the kernel.
    WaitQueue,
    /// A word in shared memory, with `FUTEX_WAIT` and `FUTEX_WAKE`.
    Futex,
    /// A signal, for which tasks wait with `pause(2)`.
    Signal,
    /// An event of a recording, whose kind is not recorded.
    Recorded,
}

impl StreamKind {
    /// A stream of this kind that holds `capacity` bytes.
    pub const fn holding(self, capacity: u64) -> Stream {
        Stream {
            kind: self,
            capacity,
        }
    }
}

/// The direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Data leaves this machine.
    Transmit,
    /// Data arrives at this machine.
    Receive,
}

/// The default [`TaskSpec::footprint`], in bytes: half of a typical L1 data cache (32 KiB), which is an assumption.
pub const DEFAULT_FOOTPRINT: u64 = 16 << 10;

/// A task to create.
pub struct TaskSpec {
    /// `comm`, of which at most 15 bytes are kept.
    pub name: Arc<str>,
    /// The scheduling policy and its parameters.
    pub policy: SchedPolicy,
    /// The allowed CPUs; `None` for those of the parent.
    pub affinity: Option<CpuMask>,
    /// `PR_SET_TIMERSLACK` in ns, which applies to sleeps of fair tasks. `None` stands for the kernel's default of 50
    /// us.
    pub timer_slack_ns: Option<u64>,
    /// The number of bytes that the task uses between two switches, and has to fetch again after a migration.
    pub footprint: u64,
    /// The dynamic power of the task's computing; a busy loop has [`machine::BUSY_LOOP`].
    pub activity: u32,
    /// The thread's session (`setsid(2)`), which is a group if the kernel groups tasks by session (autogroup). `None`
    /// stands for the session of the parent. The workload's first tasks begin in the session of the shell, which counts
    /// as no session.
    pub session: Option<u32>,
    /// The task's program.
    pub program: Box<dyn Program>,
}

impl TaskSpec {
    /// A `SCHED_NORMAL` task of nice 0 that may run anywhere.
    pub fn new(name: impl Into<Arc<str>>, program: impl Program + 'static) -> TaskSpec {
        TaskSpec {
            name: name.into(),
            policy: SchedPolicy::Normal {
                nice: 0,
                slice_ns: 0,
            },
            affinity: None,
            timer_slack_ns: None,
            footprint: DEFAULT_FOOTPRINT,
            activity: BUSY_LOOP,
            session: None,
            program: Box::new(program),
        }
    }
}

/// `sched_prio_to_weight[]` of kernel/sched/core.c: a nice level has about 1.25 times the weight of the next level.
pub const PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The slices that a fair task may request, in ns, by the kernel's bounds (`__setparam_fair()`).
pub const SLICES_NS: RangeInclusive<u64> = 100_000..=100_000_000;

/// `sched_setattr(2)`'s policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedPolicy {
    /// `SCHED_OTHER`; nice -20..=19.
    Normal {
        /// The nice value.
        nice: i8,
        /// The slice in ns that the task requests, 0.1 to 100 ms (`sched_attr::sched_runtime` since Linux 6.12); 0 for
        /// the default.
        slice_ns: u64,
    },
    /// `SCHED_BATCH`; nice -20..=19.
    Batch {
        /// The nice value.
        nice: i8,
        /// The slice in ns that the task requests, as for `Normal`.
        slice_ns: u64,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`; priority 1..=99.
    Fifo {
        /// The real-time priority.
        priority: u8,
    },
    /// `SCHED_RR`; priority 1..=99.
    RoundRobin {
        /// The real-time priority.
        priority: u8,
    },
    /// `SCHED_DEADLINE`, with times in ns.
    Deadline {
        /// The budget per period.
        runtime_ns: u64,
        /// The relative deadline.
        deadline_ns: u64,
        /// The period.
        period_ns: u64,
    },
}

/// A change of a task's utilization clamps (uclamp), where 1024 is the largest CPU at its highest frequency. `None`
/// leaves a clamp as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtilClamps {
    /// `sched_util_min`.
    pub min: Option<u16>,
    /// `sched_util_max`.
    pub max: Option<u16>,
}

/// A task's code, which returns one op after another. Calls take no simulated time.
pub trait Program: Send {
    /// Returns the next op. The kernel calls this when the task first runs, and then whenever an op is complete, but
    /// not after [`Op::Exit`].
    fn next(&mut self, env: &mut Env) -> Op;

    /// Records open measurements ([`Recorder::record_open`]), such as a response that is not complete. The kernel calls
    /// this when the run ends before the task exits.
    fn end(&mut self, _env: &mut Env) {}
}

impl<F: FnMut(&mut Env) -> Op + Send> Program for F {
    fn next(&mut self, env: &mut Env) -> Op {
        self(env)
    }
}

/// An index into the workload's mutexes.
pub type MutexId = u32;
/// An index into the workload's condition variables.
pub type CondId = u32;
/// An index into the workload's barriers.
pub type BarrierId = u32;
/// An index into the workload's streams.
pub type StreamId = u32;

/// The way in which tasks wait for a kernel lock ([`Op::Hold`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelLock {
    /// The task polls until it has to be preempted or the owner no longer runs, and only then sleeps
    /// (`CONFIG_MUTEX_SPIN_ON_OWNER`).
    Mutex,
    /// The task sleeps at once, as for an rwsem of Linux 3.10.
    Rwsem,
    /// The task polls until its turn. This kind is for sections of at most a few us, because events during a section
    /// are noticed only at its end. On a machine without costs of shared memory, no task waits.
    Spinlock,
}

/// A system call, or computing between two calls. The tag is not merged with a policy's tag, so that it is quick to
/// read.
#[repr(u8)]
pub enum Op {
    /// Computes. The reference speed is that of the machine's fastest core type.
    Run {
        /// The work, in ns at the reference speed.
        work: u64,
    },
    /// Computes until the task has had this CPU time, whatever the CPU's speed.
    RunFor {
        /// The CPU time, in ns.
        ns: u64,
    },
    /// `clock_nanosleep` for a time; timer slack applies to a fair task.
    Sleep {
        /// The time from now, in ns.
        ns: u64,
    },
    /// `clock_nanosleep(TIMER_ABSTIME)`, which is complete at once if the time has passed.
    SleepUntil {
        /// The time since the run began, in ns.
        at: u64,
    },
    /// `pthread_mutex_lock`.
    Lock(MutexId),
    /// `pthread_mutex_unlock`. Unlocking a mutex that the task does not hold is an error of the
    /// run.
    Unlock(MutexId),
    /// The part of a system call that works under a kernel lock, which no other code takes. The lock's holder is not
    /// preempted, except at [`Op::CondResched`].
    Hold {
        /// The lock.
        mutex: MutexId,
        /// The work, in ns at the reference speed, on a CPU that was also the last to work under the lock, so that it
        /// has all lines in its cache.
        work: u64,
        /// The number of cache lines that the task changes, including the lock's own. These lines are fetched from the
        /// last holder, if the machine has costs for that.
        lines: u32,
        /// The number of nodes, of one line each, that the task reads of the tree under the lock. A different previous
        /// holder was the last to change each node. A spinlock has no tree.
        nodes: u32,
        /// The kind of the lock, which is the same for all users.
        kind: KernelLock,
        /// Keeps the lock until [`Op::Release`], so that the task can take other locks under it. A spinlock cannot be
        /// kept.
        keeps: bool,
        /// Does nothing unless another task holds the lock or waits for it (`rwsem_is_locked()`).
        if_locked: bool,
    },
    /// Releases a kernel lock that was kept.
    Release(MutexId),
    /// A point of a system call at which the task leaves its CPU if the CPU has to reschedule (`might_sleep()` with
    /// `CONFIG_PREEMPT_VOLUNTARY`), even if it keeps a kernel lock.
    CondResched,
    /// `pthread_cond_wait`: unlocks the mutex, sleeps, and locks it again.
    Wait {
        /// The condition variable.
        cond: CondId,
        /// The mutex, which the caller holds.
        mutex: MutexId,
    },
    /// `pthread_cond_signal`.
    Signal(CondId),
    /// `pthread_cond_broadcast`.
    Broadcast(CondId),
    /// `pthread_cond_broadcast` of glibc before 2.25: wakes one waiter and moves the others to the
    /// queue of their mutex (`FUTEX_CMP_REQUEUE`), where each of them wakes the next.
    BroadcastRequeue(CondId),
    /// Polls a shared word in a busy loop for as long as it is `value`, but no longer than `work`.
    SpinWhile {
        /// The index of the word in [`Env::shared`].
        word: usize,
        /// The polling continues while the word has this value.
        value: u64,
        /// The largest work of the polling, in ns at the reference speed; above 0.
        work: u64,
    },
    /// Polls a mutex in a busy loop until the task has it: `while (pthread_mutex_trylock(m) == EBUSY);`
    SpinLock(MutexId),
    /// `pthread_barrier_wait`.
    Barrier(BarrierId),
    /// `write(2)` to a stream: computes `work`, then puts `bytes` into the stream, and sleeps while the stream has no
    /// room for them.
    Write {
        /// The stream.
        stream: StreamId,
        /// The number of bytes, which is at most the stream's capacity.
        bytes: u64,
        /// The work, in ns at the reference speed.
        work: u64,
    },
    /// `read(2)` of exactly `bytes`: sleeps until the stream has that many, then computes `work`.
    Read {
        /// The stream.
        stream: StreamId,
        /// The number of bytes, which is at most the stream's capacity.
        bytes: u64,
        /// The work, in ns at the reference speed.
        work: u64,
    },
    /// `fork`/`pthread_create`: the child goes through the fork path; `work` is the cost for the parent.
    Fork {
        /// The child.
        child: Box<TaskSpec>,
        /// The cost, in ns at the reference speed.
        work: u64,
    },
    /// `execve(2)`: another program takes the task over.
    Exec {
        /// The work of loading the program, in ns at the reference speed.
        work: u64,
    },
    /// `pthread_join` for all threads that the task has created.
    Join,
    /// `wait(2)` until no child is left. Each exit of a child wakes the task.
    WaitChildren,
    /// `sched_yield`.
    Yield,
    /// `sched_setaffinity`.
    SetAffinity(Box<CpuMask>),
    /// `sched_setattr`.
    SetPolicy(SchedPolicy),
    /// `sched_setattr` with `SCHED_FLAG_UTIL_CLAMP`.
    SetUtilClamps(UtilClamps),
    /// Writes the task's own pid to a group's `cgroup.procs`; `None` stands for the root.
    EnterGroup(Option<GroupId>),
    /// The task ends.
    Exit,
}
