//! A CPU of the simulated kernel.

use crate::class::dl_server::DlServer;
use crate::hw::cores;
use crate::kernel::task::TaskPtr;
use crate::per_cpu::PerCpu;
use machine::{Costs, Machine, time_for};
use std::collections::VecDeque;

/// The size is a power of two, so that one shift computes the address of a CPU.
#[repr(C, align(512))]
#[derive(Default)]
pub struct Cpu {
    // The fields from here to `speed` are in one cache line, because each event reads them.
    /// The running task; `None` is the idle task.
    pub curr: Option<TaskPtr>,
    /// Kernel time to be spent before the task continues, in ns.
    pub debt: u64,
    /// The remaining time of interrupts, as of `irq_since`. This time is the first part of `debt`, and also passes on
    /// an idle CPU, which has no debt.
    pub irq_debt: u64,
    pub irq_since: u64,
    /// The time at which the task computes again, while `armed`.
    pub run_start: u64,
    /// This CPU's value of the field of the same name in [`crate::Counters`].
    pub overhead_ns: u64,
    pub irq_ns: u64,
    /// Whether the CPU's task computes, or is about to.
    pub armed: bool,
    pub need_resched: bool,
    pub tick_queued: bool,
    /// Whether the scheduler was notified that the CPU is idle, and has not been notified since that it is busy.
    pub knows_idle: bool,
    /// The CPU's current speed according to the hardware ([`crate::hw::cores`]): work per nanosecond, in 1/2^20 of the
    /// reference. The next field is the current speed of kernel code, relative to that at the highest frequency, which
    /// is [`cores::FULL`].
    pub speed: u32,

    pub kernel_speed: u32,
    /// The index of the CPU's last-level cache.
    pub cache: u32,
    /// The time, in ns, at which a CPU without a task ends its search for a task and its other kernel work, and idles.
    pub idles_at: Option<u64>,
    pub idle_since: u64,
    pub busy_since: u64,
    /// This CPU's value of the field of the same name in [`crate::Counters`].
    pub busy_ns: u64,
    pub costs: Costs,
    /// Runnable RT tasks that do not run, most urgent first.
    pub rt: VecDeque<TaskPtr>,
    /// Waiting deadline tasks with budget, earliest deadline first.
    pub dl: VecDeque<TaskPtr>,
    /// The deadline server of sched_ext's tasks.
    pub server: DlServer,
}

const _: () = assert!(std::mem::offset_of!(Cpu, kernel_speed) == 64);

impl Cpu {
    /// `busy_ns` plus the time of the current task up to `now`.
    pub fn busy_until(&self, now: u64) -> u64 {
        let current = self.curr.map_or(0, |_| now - self.busy_since);
        self.busy_ns + current
    }

    /// The CPUs of `machine`, idle.
    pub fn all(machine: &Machine) -> PerCpu<Cpu> {
        let caches = machine.last_level_caches();
        PerCpu::new(machine.cpus.len(), |cpu| {
            let core_type = &machine.core_types[machine.cpus[cpu].core_type];
            let cache = caches.iter().position(|span| span.contains(cpu));
            Cpu {
                speed: core_type.speed,
                kernel_speed: cores::FULL,
                costs: core_type.costs,
                cache: cache.unwrap_or(0) as u32,
                knows_idle: true,
                ..Cpu::default()
            }
        })
    }

    /// Does the CPU run a task, or search for one to run?
    pub fn is_busy(&self) -> bool {
        self.curr.is_some() || self.idles_at.is_some()
    }

    /// Lets `task` compute on this CPU from `now` on, after the kernel's debt. Returns the time of completion, in ns.
    #[inline]
    pub fn resume(&mut self, task: TaskPtr, now: u64) -> u64 {
        let debt = std::mem::take(&mut self.debt);
        self.overhead_ns += debt;
        self.run_start = now + debt;
        self.irq_since = now;
        self.armed = true;
        let left = task.left.get();
        self.run_start
            + match task.own_time.get() {
                true => left,
                false => time_for(left, self.speed),
            }
    }

    /// Accounts to interrupts the part of their time that has passed by `now`.
    pub fn pay_irq_debt(&mut self, now: u64) {
        let passed = self.irq_debt.min(now - self.irq_since);
        self.irq_debt -= passed;
        self.irq_since += passed;
        self.irq_ns += passed;
    }

    /// Starts the time of interrupts no earlier than `now`, because the time until `now` has been accounted.
    pub fn forget_past(&mut self, now: u64) {
        if self.irq_debt == 0 {
            self.irq_since = now;
        }
    }

    /// The duration of kernel code that takes `ns` at the highest frequency.
    #[inline]
    pub fn kernel_time(&self, ns: u64) -> u64 {
        match self.kernel_speed {
            cores::FULL => ns,
            speed => time_for(ns, speed),
        }
    }
}
