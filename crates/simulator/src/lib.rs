//! The simulated kernel: runs a workload on a machine under a sched_ext scheduler, deterministically.
//!
//! - A [`Config`] says what is run: a machine, a workload, a scheduler's object with its globals, a seed.
//! - [`run`] runs this configuration to its end; the [`Outcome`] has the workload's measurements and the kernel's
//!   counters.
//! - A [`Trace`] receives every scheduling [`Event`] of the run.
//!
//! ```no_run
//! use simulator::{Config, run};
//!
//! let policy = policy::Policy::find("equipoise")?;
//! let machine = machine::Machine::find("smp-8")?;
//! let workload = models::load("hackbench:groups=1")?;
//! let globals = policy.globals(&machine);
//! let outcome = run(Config {
//!     seed: 7,
//!     ..Config::new(&machine, &*workload, policy.object()?, &globals)
//! })?;
//! println!("{} ns", outcome.simulated_ns);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/design/simulator.md` describes the kernel, and `docs/design/sched-ext.md` its sched_ext.

mod abi;
mod boot;
mod check;
mod class;
mod clock;
mod events;
mod host;
mod hw;
mod kernel;
mod per_cpu;
mod program;
mod run;
mod scx;
mod waste;

pub use abi::cgroup::Throttled;
pub use check::Check;
pub use host::fault::{STATUS as FAULT_STATUS, report_scheduler_faults};
pub use hw::energy::{Energy, Part};
pub use kernel::task::weight_of;
pub use kernel::wakeups::{Row as WakeupRow, WAKEUPS, Wakeup};

use check::Checker;
use machine::{Callbacks, Machine};
use native::{Global, Object};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use workload::{Recorder, Workload};

/// The configuration of a run. Two runs of equal configurations give equal outcomes, byte for byte.
pub struct Config<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload.
    pub workload: &'a dyn Workload,
    /// The scheduler.
    pub scheduler: &'a Object,
    /// The values of the scheduler's globals, set before it is loaded. A global `nr_cpu_ids` that is not set here is
    /// set to the number of the machine's CPUs, as loaders of such schedulers do.
    pub globals: &'a [Global],
    /// Computes the scheduler's globals for a machine with some CPUs offline, so that the loader can restart a
    /// scheduler that exits because a CPU goes offline or comes online. With `None`, such an exit ends the run.
    pub restart: Option<Globals<'a>>,
    /// Globals of the scheduler to read at the end of the run ([`Outcome::read`]). A restart resets them.
    pub read: &'a [&'a str],
    /// The costs of the scheduler's callbacks; with `None`, they take no time.
    pub callbacks: Option<&'a Callbacks>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The simulated time, in ns, at which the run stops with an error.
    pub time_limit_ns: u64,
    /// The consumer of scheduling events, if any.
    pub trace: Option<&'a mut dyn Trace>,
}

impl<'a> Config<'a> {
    /// A run with seed 1, and without a time limit, restarts, costs of callbacks or a trace.
    pub fn new(
        machine: &'a Machine,
        workload: &'a dyn Workload,
        scheduler: &'a Object,
        globals: &'a [Global],
    ) -> Config<'a> {
        Config {
            machine,
            workload,
            scheduler,
            globals,
            restart: None,
            read: &[],
            callbacks: None,
            seed: 1,
            time_limit_ns: u64::MAX,
            trace: None,
        }
    }
}

/// The globals of a scheduler for a machine.
pub type Globals<'a> = &'a dyn Fn(&Machine) -> Vec<Global>;

/// A request of the workload's control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupRequest {
    /// Control groups as such: a scheduler without support for them treats all tasks as members of one group.
    Groups,
    /// `cpu.weight`.
    Weight,
    /// `cpu.max`.
    Max,
    /// `cpu.idle`.
    Idle,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The simulated time, in ns.
    pub simulated_ns: u64,
    /// The workload's measurements.
    pub recorder: Recorder,
    /// The kernel's counters.
    pub counters: Counters,
    /// Whether the workload has control groups.
    pub has_groups: bool,
    /// The requests of the workload's control groups that the scheduler cannot satisfy, because the scheduler has no
    /// callback for them or the kernel does not call it.
    pub ignored: Vec<GroupRequest>,
    /// The deadlock in which the workload's tasks were until its duration ended the run, if any.
    pub deadlock: Option<Deadlock>,
    /// The workload's tasks, in the order of their creation.
    pub tasks: Vec<TaskTotals>,
    /// The bytes of the globals in [`Config::read`], in that order; empty for a global that the
    /// scheduler does not have.
    pub read: Vec<Vec<u8>>,
    /// The energy of the run; `None` on a machine whose power is unknown.
    pub energy: Option<Energy>,
}

/// A state in which no task can ever run again, although some have not exited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlock {
    /// The time, in ns.
    pub at_ns: u64,
    /// The waiting tasks, and the reasons.
    pub waiting: String,
}

/// The totals of a task over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTotals {
    /// The task's name.
    pub name: String,
    /// CPU time, in ns.
    pub cpu_ns: u64,
    /// The longest wait for a CPU that is over, in ns; 0 for a deadline task, which may be throttled.
    pub longest_wait_ns: u64,
    /// The time, in ns, since which the task has been runnable without running, if it waits at the end of the run.
    pub waits_since_ns: Option<u64>,
}

/// Declares [`Counters`]: the totals, and other fields.
macro_rules! counters {
    ({ $($(#[$doc:meta])* $total:ident,)* } $($other:tt)*) => {
        /// The kernel's counters over a run.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counters {
            $($(#[$doc])* pub $total: u64,)*
            $($other)*
        }

        impl Counters {
            /// All counters: numbers of events, and times of all CPUs in ns. Each event takes a nanosecond or more, so
            /// no counter exceeds the time of all CPUs.
            pub fn totals(&self) -> impl Iterator<Item = u64> {
                [$(self.$total),*].into_iter()
            }
        }
    };
}

counters! {
    {
        /// Switches between tasks, and from and to idle.
        context_switches,
        /// The number of times that a task moved to another CPU.
        migrations,
        /// Wakeups of sleeping tasks.
        wakeups,
        /// Timer ticks taken.
        ticks,
        /// Tasks created.
        forks,
        /// Changes of a cpufreq policy's frequency (the sum of `stats/total_trans`).
        frequency_transitions,
        /// The number of times that a deadline task used up its budget.
        dl_throttled,
        /// The time of all CPUs spent on shared memory, in ns, including waits for locks, if the machine describes such
        /// costs.
        memory_ns,
        /// The time of all CPUs spent in the scheduler's callbacks, in ns ([`Config::callbacks`]).
        callbacks_ns,
        /// The time of all CPUs without a task while tasks that they may run waited on other CPUs, in ns.
        wasted_ns,
        /// Wakeups after which the task was on a CPU although a faster CPU that it may use was idle.
        slow_wakeups,
    }
    /// For each CPU, the time spent in interrupts, in ns; `overhead_ns` includes the interrupts of a busy CPU.
    pub irq_ns: Vec<u64>,
    /// For each CPU, the time spent running tasks, in ns, including the kernel's overhead for them.
    pub busy_ns: Vec<u64>,
    /// For each CPU, the part of `busy_ns` spent on kernel work, such as switches, wakeups, interrupts and ticks.
    pub overhead_ns: Vec<u64>,
    /// The longest time for which a CPU had no task while tasks that it may run waited on other CPUs, in ns.
    pub longest_waste_ns: u64,
    /// The periods of control groups with a `cpu.max`.
    pub throttled: Throttled,
}

/// Receives scheduling events, in time order.
pub trait Trace {
    /// Receives one event, at the time `now` (in ns) on `cpu`.
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>);
}

/// The number of values that explain a decision.
pub const EXPLAINED_NUMBERS: usize = 4;

/// Scheduling events. Events that are tracepoints of the kernel have the tracepoint's fields.
///
/// These events can be sent to another process, except for decisions, which only this project's schedulers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event<'a> {
    /// `sched_switch`; pid 0 is idle (`swapper`).
    Switch {
        /// `prev_comm`, `prev_pid`.
        #[serde(borrow)]
        prev: (&'a str, i32),
        /// `prev_prio`.
        prev_prio: i32,
        /// `prev_state`: whether the task is still runnable.
        prev_runnable: bool,
        /// `next_comm`, `next_pid`.
        #[serde(borrow)]
        next: (&'a str, i32),
        /// `next_prio`.
        next_prio: i32,
    },
    /// `sched_wakeup` / `sched_wakeup_new`.
    Wakeup {
        /// `comm`, `pid`.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// `prio`.
        prio: i32,
        /// `target_cpu`.
        target_cpu: usize,
        /// Whether this is the first wakeup after a fork.
        new: bool,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// `comm`, `pid`.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// `prio`.
        prio: i32,
        /// `orig_cpu`.
        from: usize,
        /// `dest_cpu`.
        to: usize,
    },
    /// `sched_process_fork`.
    Fork {
        /// `comm`, `pid` of the parent.
        #[serde(borrow)]
        parent: (&'a str, i32),
        /// `child_comm`, `child_pid`.
        #[serde(borrow)]
        child: (&'a str, i32),
    },
    /// `sched_process_exit`.
    Exit {
        /// `comm`, `pid`.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// `prio`.
        prio: i32,
    },
    /// The power of a part of the machine changes; each part's power starts at 0. Not a tracepoint of the kernel.
    Power {
        /// The part.
        part: Part,
        /// The part's power from now on, in mW.
        mw: u32,
        /// Energy of the change itself, in pJ.
        pj: u64,
    },
    /// `cpu_frequency`, whose `cpu_id` is the CPU of the event.
    CpuFrequency {
        /// `state`, in kHz.
        khz: u32,
    },
    /// The hardware limits the event's CPU to `khz` from now on, whatever cpufreq requests. Not a
    /// tracepoint of the kernel.
    Turbo {
        /// The limit in kHz.
        khz: u32,
    },
    /// `scaling_max_freq` limits the event's CPU to `khz` from now on (`max` of the kernel's `cpu_frequency_limits`).
    FrequencyLimit {
        /// The limit in kHz, which is the frequency of an OPP.
        khz: u32,
    },
    /// The event's CPU comes online or goes offline. Not a tracepoint of the kernel.
    Online(bool),
    /// The scheduler is loaded again after hotplug, or has exited because of it. Until it is loaded, tasks run in turn
    /// from one queue. Not a tracepoint of the kernel.
    Loaded(bool),
    /// The task that is about to wake up another task. This event precedes the `Wakeup` of the other task. Not a
    /// tracepoint of the kernel.
    Waker {
        /// `comm`, `pid` of the task that wakes up.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// `comm`, `pid` of its waker; `None` if an interrupt woke it.
        #[serde(borrow)]
        by: Option<(&'a str, i32)>,
    },
    /// The CPUs that a task may use from now on: sent at the task's creation, if it may not use all CPUs, and when they
    /// change. Not a tracepoint of the kernel.
    Affinity {
        /// `comm`, `pid`.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// A [`machine::CpuMask`] in bytes.
        cpus: &'a [u8],
    },
    /// The properties that decide a task's share of the CPUs from now on: sent when the task is created, if it is in a
    /// control group or has the policy SCHED_IDLE, and when its control group, policy or nice value changes. Not a
    /// tracepoint of the kernel.
    Weight {
        /// `comm`, `pid`.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// `prio`.
        prio: i32,
        /// Whether the task's policy is SCHED_IDLE.
        idle: bool,
        /// The path of the task's control group.
        #[serde(borrow)]
        group: &'a str,
        /// The group's `cpu.weight`.
        group_weight: u32,
        /// The product of `group_weight` and the weights of the groups above. 2^20 stands for the default weight, 100.
        product: u64,
    },
    /// The task that loses its CPU has been polling for a word, a mutex or a kernel lock. This event precedes the
    /// task's `Switch`. Not a tracepoint of the kernel.
    Polls {
        /// `comm`, `pid`.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// The time since which the task has polled, in ns.
        since: u64,
    },
    /// A period of a task is over, and its program has compared the time when its work was done with the deadline. Not
    /// a tracepoint of the kernel.
    Period {
        /// `comm`, `pid`.
        #[serde(borrow)]
        task: (&'a str, i32),
        /// The time at which the work was released, in ns.
        released: u64,
        /// The deadline, in ns.
        due: u64,
        /// The time at which the work was done, in ns.
        done: u64,
        /// Whether the period counts as missed.
        missed: bool,
    },
    /// `bpf_trace_printk`.
    Printk(&'a str),
    /// A decision of the scheduler, if the scheduler was compiled to report decisions ([`Object::explaining_in`]). Not
    /// a tracepoint of the kernel.
    #[serde(skip)]
    Decision {
        /// The number of the decision; the scheduler knows its meaning.
        decision: u32,
        /// The task that the decision is about (`comm` and `pid`), if any.
        task: Option<(&'a str, i32)>,
        /// The reason for which that task sleeps, or last slept, such as `a timer`.
        #[serde(skip)]
        waited_for: &'static str,
        /// The CPU that the decision is about, if any.
        cpu: Option<usize>,
        /// The numbers on which the decision is based.
        numbers: &'a [i64; EXPLAINED_NUMBERS],
    },
}

impl Event<'_> {
    /// Returns the pid of a task and its period, if the event is the end of a period.
    pub fn period(&self) -> Option<(i32, workload::Period)> {
        match *self {
            Event::Period {
                task,
                released,
                due,
                done,
                missed,
            } => Some((
                task.1,
                workload::Period {
                    released,
                    due,
                    done,
                    missed,
                },
            )),
            _ => None,
        }
    }
}

/// The reason why a run ended early.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Error {
    /// The scheduler was stopped, as by sched_ext, with the message of `scx_exit_info`.
    #[error("the scheduler was stopped at {at_ns} ns: {reason}: {message}")]
    SchedulerExit {
        /// The time, in ns.
        at_ns: u64,
        /// `scx_exit_info::reason`, such as `runnable task stall`.
        reason: String,
        /// `scx_exit_info::msg`.
        message: String,
    },
    /// No task can ever run again, but some have not exited.
    #[error("deadlock at {} ns: {}", .0.at_ns, .0.waiting)]
    Deadlock(Deadlock),
    /// The workload did something that a kernel would refuse, or one of its tasks executes ops without end while no
    /// time passes.
    #[error("task {task} at {at_ns} ns: {message}")]
    Task {
        /// The task's name and pid.
        task: String,
        /// The time, in ns.
        at_ns: u64,
        /// The invalid action.
        message: String,
    },
    /// The kernel refused to take a CPU offline.
    #[error("CPU {cpu} could not go offline at {at_ns} ns: {message}")]
    Hotplug {
        /// The CPU.
        cpu: usize,
        /// The time, in ns.
        at_ns: u64,
        /// The reason.
        message: String,
    },
    /// Simulated time ran past [`Config::time_limit_ns`].
    #[error("not finished after {limit_ns} ns of simulated time")]
    TimeLimit {
        /// The limit, in ns.
        limit_ns: u64,
    },
    /// The simulator has an error: an invariant does not hold ([`run_checked`]).
    #[error("broken invariant at {at_ns} ns: {message}")]
    Invariant {
        /// The time, in ns.
        at_ns: u64,
        /// The violated invariant.
        message: String,
    },
    /// The run was asked to stop ([`run_until`]).
    #[error("stopped on request")]
    Stopped,
    /// The process of the run ended early. The message is complete.
    #[error("{0}")]
    Fault(String),
    /// The scheduler's object cannot be loaded, or does not fit the configuration.
    #[error(transparent)]
    Object(#[from] native::Error),
}

/// The scheduler's own name (`ops.name`). The error says why Linux would refuse the name: `bpf_obj_name_cpy()` accepts
/// only letters, digits, `_` and `.`, and a limited number of them.
pub fn scheduler_name(scheduler: &Object) -> Result<String, String> {
    let name = scheduler
        .ops_text(std::mem::offset_of!(abi::layout::Ops, name))
        .unwrap_or_default();
    let room = abi::layout::NAME_LEN;
    let odd = |c: char| !c.is_ascii_alphanumeric() && !"_.".contains(c);
    match name.chars().find(|&c| odd(c)) {
        _ if name.is_empty() => Err("ops.name is empty".to_owned()),
        Some(c) => Err(format!(
            "ops.name `{}` has `{}`; Linux takes letters, digits, `_` and `.`",
            name.escape_debug(),
            c.escape_debug()
        )),
        None if name.len() >= room => Err(format!(
            "ops.name has {room} characters; Linux takes at most {}",
            room - 1
        )),
        None => Ok(name),
    }
}

/// Runs `config` to its end.
pub fn run(config: Config<'_>) -> Result<Outcome, Error> {
    run_kernel(config, None, None)
}

/// Runs `config` to its end, or until `stop` becomes true: soon afterwards the run ends with [`Error::Stopped`].
pub fn run_until(config: Config<'_>, stop: &AtomicBool) -> Result<Outcome, Error> {
    run_kernel(config, None, Some(stop))
}

/// Runs `config` to its end and checks the simulation itself along the way, which takes longer. A
/// violation is [`Error::Invariant`].
pub fn run_checked(config: Config<'_>, check: Check) -> Result<Outcome, Error> {
    run_kernel(config, Some(check), None)
}

fn run_kernel(
    config: Config<'_>,
    check: Option<Check>,
    stop: Option<&AtomicBool>,
) -> Result<Outcome, Error> {
    let (scheduler, read, limit) = (config.scheduler, config.read, config.time_limit_ns);
    let nr_cpus = config.machine.cpus.len();
    let checker = check.map(|check| Box::new(Checker::new(check, nr_cpus)));
    let mut kernel = boot::boot(config, checker)?;
    match run::run(&mut kernel, limit, stop) {
        Ok(()) => run::outcome(kernel, scheduler, read),
        Err(error) => {
            kernel.disable_scheduler();
            Err(error)
        }
    }
}
