//! The kernel's core, above the classes: its state; waking tasks and switching between them; system calls, interrupts
//! and softirqs. Models, such as the modules of `hw` and `program`, do not use the kernel as a whole.

pub mod cpu;
pub mod entry;
pub mod hotplug;
pub mod interrupts;
pub mod locks;
pub mod softirq;
pub mod switch;
pub mod syscalls;
pub mod task;
pub mod tasks;
pub mod uclamp;
pub mod wake;
pub mod wakeups;

use crate::abi::Bpf;
use crate::abi::layout::Rq;
use crate::check::Checker;
use crate::class::{dl::Dl, rt::Rt};
use crate::events::Events;
use crate::host::calls::CallRecord;
use crate::hw::Hardware;
use crate::per_cpu::PerCpu;
use crate::program::Programs;
use crate::scx::restart::Loader;
use crate::scx::{Scx, callbacks};
use crate::waste::Waste;
use crate::{Counters, Deadlock, Error, Event, Trace};
use cpu::Cpu;
use hotplug::Hotplug;
use machine::Machine;
use softirq::Softirqs;
use std::ffi::c_void;
use std::fmt::Display;
use std::sync::Arc;
use task::{FIRST_PID, TaskPtr, Tasks};
use uclamp::Uclamp;
use workload::Rng;

/// A simulated kernel that runs one workload under one scheduler.
pub struct Kernel<'a> {
    /// The machine, with the CPUs that are online at boot.
    pub machine: &'a Machine,
    /// The CPUs that are online now.
    pub hotplug: Hotplug<'a>,
    pub loader: Loader<'a>,
    pub cpus: PerCpu<Cpu>,
    pub tasks: Tasks,
    /// The number of tasks that have not exited.
    pub alive: usize,
    /// The number of tasks that never exit: kernel threads.
    pub daemons: usize,
    /// Does the workload have a duration that is not only a default? The run then goes on even if all tasks wait for
    /// each other.
    pub has_end: bool,
    /// The first time at which all tasks waited for each other.
    pub deadlock: Option<Deadlock>,
    /// Does any control group have a limit of its CPU time?
    pub groups_have_limits: bool,
    /// The number of tasks that are runnable or running, and of sleeps that will end. If both are 0, only the hardware
    /// can wake a task.
    pub runnable: usize,
    pub sleeping: usize,
    pub events: Events,

    pub dl: Dl,
    pub rt: Rt,
    pub uclamp: Uclamp,
    pub scx: Scx,
    /// The costs of the scheduler's callbacks, if they take time.
    pub callbacks: Option<Box<callbacks::Costs>>,
    pub hw: Hardware,
    pub softirqs: Softirqs,
    pub programs: Programs,

    pub tick_ns: u64,
    /// The phase of the tick, modulo its period, in ns.
    pub tick_phase: u64,
    pub rng: Rng,

    pub waste: Waste,
    pub counters: Counters,
    pub trace: Option<&'a mut dyn Trace>,
    /// The reason for which the run ends; set at most once.
    pub failure: Option<Error>,
    /// The error for an operation that Linux's verifier would have refused; it is reported even if the operation comes
    /// after the run's end.
    pub refused: Option<Error>,
    /// The calls into the scheduler, for outside observers.
    pub calls: Arc<CallRecord>,
    /// The checker of the run's invariants, if the caller asks for checks.
    pub check: Option<Box<Checker>>,

    /// The other fields hold addresses in this one, so it comes last, which drops it last.
    pub bpf: Bpf,
}

impl<'a> Kernel<'a> {
    /// The time, in ns.
    #[inline]
    pub fn now(&self) -> u64 {
        self.bpf.table().now
    }

    #[inline]
    pub fn set_now(&mut self, now: u64) {
        debug_assert!(now >= self.now(), "time goes forward");
        if self.waste.nr_idle > 0 && self.runnable > self.waste.nr_loaded {
            self.waste_until(now);
        }
        if self.check.is_some() {
            self.recount_waste(now);
        }
        self.bpf.table_mut().now = now;
    }

    /// The CPU whose code is running.
    #[inline]
    pub fn this_cpu(&self) -> usize {
        self.bpf.table().cpu as usize
    }

    /// Makes `cpu` the CPU whose code is running.
    #[inline]
    pub fn set_cpu(&mut self, cpu: usize) {
        self.bpf.set_cpu(cpu);
    }

    /// C's view of `cpu`'s runqueue.
    #[inline]
    pub fn rq(&mut self, cpu: usize) -> &mut Rq {
        self.bpf.rq(cpu)
    }

    /// Lends this kernel to C for one call into the scheduler.
    #[inline]
    pub fn lend(&mut self) {
        // The kfuncs that the scheduler calls use this pointer, while the caller does not use its own reference.
        let kernel: *mut Kernel<'a> = self;
        self.bpf.lend(kernel.cast::<c_void>());
    }

    /// The task `pid`, unless it has exited.
    pub fn task(&self, pid: i32) -> Option<TaskPtr> {
        let index = usize::try_from(pid.checked_sub(FIRST_PID)?).ok()?;
        self.tasks
            .get(index)
            .copied()
            .filter(|task| !task.exited.get())
    }

    #[inline]
    pub fn traced(&mut self, cpu: usize, event: Event<'_>) {
        let now = self.now();
        if let Some(trace) = &mut self.trace {
            trace.event(now, cpu, event);
        }
    }

    /// Ends the run, because the workload did something after which it cannot continue.
    #[cold]
    #[inline(never)]
    pub fn task_error(&mut self, task: TaskPtr, message: impl Display) {
        self.fail(Error::Task {
            task: task.label(),
            at_ns: self.now(),
            message: message.to_string(),
        });
    }

    /// Ends the run because of `error`, unless it already ends because of another.
    #[cold]
    pub fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }
}
