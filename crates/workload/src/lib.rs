//! The activity of tasks: the interface between programs and the (simulated) kernel, and what runs
//! through it: rt-app files and recordings. The crate `models` has the models of benchmarks.
//!
//! - A [`Workload`] is a recipe. [`Workload::start`] makes one instance for one run, a [`Start`]: kernel
//!   objects and the first tasks.
//! - A task's [`Program`] is asked for its next [`Op`] each time the kernel has completed the last one,
//!   as a process makes one system call after another. A closure is a program, too.
//! - A [`Metric`] is what a run measures, and a [`Role`] what that means for a comparison.
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
    /// The metrics of a run, which are the same for every run; [`Recorder::record`] takes indices into them.
    fn metrics(&self) -> &[Metric];
    /// For CPU-bound work: its total and parallelism, so that the best possible time on a machine
    /// can be printed. `None` if other factors than CPU throughput decide the time.
    fn cpu_bound(&self) -> Option<CpuBound> {
        None
    }
    /// Can it run on `machine`? The error says what does not fit, such as a CPU that the machine
    /// lacks. [`Workload::start`] may only be called if it can.
    fn check(&self, _machine: &Machine) -> Result<(), Box<BadInput>> {
        Ok(())
    }
    /// The replacement for run `run` of `count`, counted from 0, if runs vary in something besides
    /// the seed.
    fn of_run(&self, _run: u32, _count: u32) -> Option<Box<dyn Workload>> {
        None
    }
    /// The metrics of parts without a duration that are ended by the duration of another part.
    fn cut_short(&self, _machine: &Machine) -> Vec<MetricId> {
        Vec::new()
    }
    /// Do its control groups have a `cpu.max`?
    fn limits_groups(&self) -> bool {
        false
    }
    /// Sentences about its parts that are not simulated.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// The recording to replay, if any.
    fn recording(&self) -> Option<&recording::Recording> {
        None
    }
    /// A fresh instance. `machine` is for facts that a real program asks its machine (the number of
    /// CPUs).
    fn start(&self, machine: &Machine) -> Start;
}

/// See [`Workload::cpu_bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuBound {
    /// ns at the reference speed, over all tasks.
    pub work: u64,
    /// Work of one task while no other can run, ns at the reference speed, in addition to `work`.
    pub serial: u64,
    /// The number of CPUs that can be used at once.
    pub parallelism: usize,
    /// The metric that the limit bounds from below, in seconds.
    pub metric: MetricId,
}

/// One instance of a workload: the state when the run begins.
#[derive(Default)]
pub struct Start {
    /// Created at time 0 by the shell (a task outside the workload, already running somewhere),
    /// in this order, through the fork path.
    pub tasks: Vec<TaskSpec>,
    /// The number of mutexes ([`MutexId`] indexes them).
    pub mutexes: usize,
    /// The names of the first mutexes in messages; the others are numbered.
    pub mutex_names: Vec<String>,
    /// The number of condition variables.
    pub condvars: usize,
    /// For each barrier, the number of tasks it waits for.
    pub barriers: Vec<u32>,
    /// The streams.
    pub streams: Vec<Stream>,
    /// Streams that are connections over the machine's network adapter, with their direction. Bytes
    /// that are written to a transmitting stream leave it when the adapter has sent them. A
    /// receiving stream is filled by a sender that always has more.
    pub connections: Vec<(StreamId, Direction)>,
    /// Initial values of the shared memory words ([`Env::shared`]).
    pub shared: Vec<u64>,
    /// Control groups below the root, in which all tasks begin.
    pub groups: Vec<ControlGroup>,
    /// Changes of the machine, in order of time.
    pub timeline: Vec<timeline::Timed>,
    /// The run ends here even if tasks are left, ns. Without it, it ends when all tasks exited.
    pub duration_ns: Option<u64>,
    /// Is the duration only a default, because a task loops forever? If all tasks then wait for each other, the run
    /// fails.
    pub is_endless: bool,
}

/// A pipe, or one direction of a socket pair, or an event whose bytes wake one waiter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The kind, which decides the flags of its wakeups.
    pub kind: StreamKind,
    /// The largest number of bytes in it.
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
    /// An event of a recording, which does not say what it is.
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

/// The default [`TaskSpec::footprint`], bytes: half of a typical L1 data cache (32 KiB). An
/// assumption.
pub const DEFAULT_FOOTPRINT: u64 = 16 << 10;

/// A task to create.
pub struct TaskSpec {
    /// `comm`, at most 15 bytes are kept.
    pub name: Arc<str>,
    /// Scheduling policy and its parameters.
    pub policy: SchedPolicy,
    /// Allowed CPUs; `None` is its parent's.
    pub affinity: Option<CpuMask>,
    /// `PR_SET_TIMERSLACK`, ns; applies to `SCHED_NORMAL` sleeps. `None` is the kernel's 50 us.
    pub timer_slack_ns: Option<u64>,
    /// Bytes that it uses between two switches: the data that a migration makes it fetch again.
    pub footprint: u64,
    /// The dynamic power of its computing; a busy loop has [`machine::BUSY_LOOP`].
    pub activity: u32,
    /// The thread's session (`setsid(2)`), which is a group if the kernel groups tasks by session (autogroup).
    /// `None` is its parent's; the workload's first tasks begin in the one of the shell, which counts as no
    /// session.
    pub session: Option<u32>,
    /// Its program.
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

/// `sched_prio_to_weight[]` of kernel/sched/core.c: each nice level is worth 1.25 of the next.
pub const PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The slices that a fair task may request, ns: the kernel's bounds (`__setparam_fair()`).
pub const SLICES_NS: RangeInclusive<u64> = 100_000..=100_000_000;

/// `sched_setattr(2)`'s policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedPolicy {
    /// `SCHED_OTHER`; nice -20..=19.
    Normal {
        /// Nice value.
        nice: i8,
        /// The slice that it requests (`sched_attr::sched_runtime` since Linux 6.12, which takes
        /// 0.1 to 100 ms), ns; 0: the default.
        slice_ns: u64,
    },
    /// `SCHED_BATCH`; nice -20..=19.
    Batch {
        /// Nice value.
        nice: i8,
        /// As above.
        slice_ns: u64,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`; priority 1..=99.
    Fifo {
        /// RT priority.
        priority: u8,
    },
    /// `SCHED_RR`; priority 1..=99.
    RoundRobin {
        /// RT priority.
        priority: u8,
    },
    /// `SCHED_DEADLINE`, ns.
    Deadline {
        /// Budget per period.
        runtime_ns: u64,
        /// Relative deadline.
        deadline_ns: u64,
        /// Period.
        period_ns: u64,
    },
}

/// A change of a task's utilization clamps (uclamp), of 1024 of the largest CPU at its highest
/// frequency: `None` leaves one as it is, `Some(None)` removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtilClamps {
    /// `sched_util_min`.
    pub min: Option<Option<u16>>,
    /// `sched_util_max`.
    pub max: Option<Option<u16>>,
}

/// A task's code, which returns one op after another. Calls take no simulated time.
pub trait Program: Send {
    /// The next op. Called first when the task first runs, then whenever an op is complete. After
    /// [`Op::Exit`] it is not called again.
    fn next(&mut self, env: &mut Env) -> Op;

    /// The run ends before the task exits. Records open measurements ([`Recorder::record_open`]),
    /// such as a response that is not complete.
    fn end(&mut self, _env: &mut Env) {}
}

impl<F: FnMut(&mut Env) -> Op + Send> Program for F {
    fn next(&mut self, env: &mut Env) -> Op {
        self(env)
    }
}

/// Index into the workload's mutexes.
pub type MutexId = u32;
/// Index into the workload's condition variables.
pub type CondId = u32;
/// Index into the workload's barriers.
pub type BarrierId = u32;
/// Index into the workload's streams.
pub type StreamId = u32;

/// How tasks wait for a kernel lock ([`Op::Hold`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelLock {
    /// Polls until the task has to be preempted, and only then sleeps, as if the owner were running
    /// (`CONFIG_MUTEX_SPIN_ON_OWNER`).
    Mutex,
    /// Sleeps at once, like Linux 3.10's rwsem.
    Rwsem,
    /// Polls until its turn. This is for sections of at most a few us, because events during a
    /// section are noticed at its end. On a machine without costs of shared memory, no task waits.
    Spinlock,
}

/// A system call, or computing between two. The tag is separate from the policy's tag, so that it
/// is quick to read.
#[repr(u8)]
pub enum Op {
    /// Compute: ns at the machine's reference speed (its fastest core type).
    Run {
        /// ns at the reference speed.
        work: u64,
    },
    /// Compute until this much of the task's own CPU time has passed, whatever the CPU's speed.
    RunFor {
        /// CPU time, ns.
        ns: u64,
    },
    /// `clock_nanosleep` for a while; timer slack applies to a normal task.
    Sleep {
        /// ns from now.
        ns: u64,
    },
    /// `clock_nanosleep(TIMER_ABSTIME)`; done at once if the time has passed.
    SleepUntil {
        /// ns since the run began.
        at: u64,
    },
    /// `pthread_mutex_lock`.
    Lock(MutexId),
    /// `pthread_mutex_unlock`. Unlocking a mutex that the task does not hold is an error of the
    /// run.
    Unlock(MutexId),
    /// The part of a system call that works under a kernel lock, which no other code takes. Its
    /// holder is not preempted, except at [`Op::CondResched`].
    Hold {
        /// The lock.
        mutex: MutexId,
        /// ns at the reference speed, if its CPU was the last to work under the lock.
        work: u64,
        /// Cache lines that it changes, including the lock's own: fetched from the last holder, if
        /// the machine has costs for that.
        lines: u32,
        /// Nodes that it reads of the tree under the lock, one line each. Each was last changed by
        /// another of the previous holders. A spinlock has none.
        nodes: u32,
        /// The kind of the lock, the same for all users.
        kind: KernelLock,
        /// Keeps it until [`Op::Release`], so that other locks can be taken under it. A spinlock
        /// cannot be kept.
        keeps: bool,
        /// Does nothing unless another task holds the lock or waits for it (`rwsem_is_locked()`).
        if_locked: bool,
    },
    /// Releases a kernel lock that was kept.
    Release(MutexId),
    /// A point of a system call at which the task leaves its CPU if that has to reschedule
    /// (`might_sleep()` with `CONFIG_PREEMPT_VOLUNTARY`), even if it keeps a kernel lock.
    CondResched,
    /// `pthread_cond_wait`: unlocks, sleeps, locks again.
    Wait {
        /// The condition variable.
        cond: CondId,
        /// Held by the caller.
        mutex: MutexId,
    },
    /// `pthread_cond_signal`.
    Signal(CondId),
    /// `pthread_cond_broadcast`.
    Broadcast(CondId),
    /// `pthread_cond_broadcast` of glibc before 2.25: wakes one waiter and moves the others to the
    /// queue of their mutex (`FUTEX_CMP_REQUEUE`), where each of them wakes the next.
    BroadcastRequeue(CondId),
    /// Polls a shared word in a busy loop for as long as it is `value`, until `work` is used up.
    SpinWhile {
        /// Index into [`Env::shared`].
        word: usize,
        /// The polling continues while the word has this value.
        value: u64,
        /// ns at the reference speed; above 0.
        work: u64,
    },
    /// Polls a mutex in a busy loop until it has it: `while (pthread_mutex_trylock(m) == EBUSY);`
    SpinLock(MutexId),
    /// `pthread_barrier_wait`.
    Barrier(BarrierId),
    /// `write(2)` to a stream: computes `work`, then puts `bytes` in, sleeping while it is full.
    Write {
        /// The stream.
        stream: StreamId,
        /// The number of bytes; at most the capacity.
        bytes: u64,
        /// ns at the reference speed.
        work: u64,
    },
    /// `read(2)` of exactly `bytes`: sleeps until there are as many, computes `work`.
    Read {
        /// The stream.
        stream: StreamId,
        /// The number of bytes; at most the capacity.
        bytes: u64,
        /// ns at the reference speed.
        work: u64,
    },
    /// `fork`/`pthread_create`: the child goes through the fork path; `work` is the cost for the
    /// parent, ns at the reference speed.
    Fork {
        /// The child.
        child: Box<TaskSpec>,
        /// ns at the reference speed.
        work: u64,
    },
    /// `execve(2)`: another program takes the task over.
    Exec {
        /// The work of loading it, ns at the reference speed.
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
    /// Writes its own pid to a group's `cgroup.procs`; `None` is the root.
    EnterGroup(Option<GroupId>),
    /// The task ends.
    Exit,
}
