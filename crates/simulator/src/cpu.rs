//! A CPU, and how a task's time passes on it.
//!
//! A running task computes from `run_start` on. Whatever the kernel does on the CPU (a switch, a
//! wakeup, an interrupt) is a debt of time that is paid before the task goes on: the CPU is paused,
//! the debt noted, and the task resumed that much later.

use crate::abi;
use crate::dsq::Dsq;
use crate::kernel::Kernel;
use crate::task::TaskPtr;
use machine::{Costs, CpuMask, IdleState, Machine, time_for, work_in};
use std::collections::VecDeque;

/// One CPU of the simulated machine.
pub struct Cpu {
    /// Work a nanosecond, in 1/2^20 of the reference; less while its core's other threads are busy.
    pub speed: u32,
    /// The highest frequency that the hardware allows, in 1/2^20 of the highest of all.
    cap: u32,
    /// The other hardware threads of its core.
    pub siblings: Vec<usize>,
    /// Its speed while so many of them (the index) are busy.
    speeds: Vec<u32>,
    pub costs: Costs,
    /// From the shallowest to the deepest.
    pub idle_states: Vec<IdleState>,
    /// Index of the cluster it is in.
    pub cluster: usize,

    /// What runs; `None` is the idle task.
    pub curr: Option<TaskPtr>,
    /// sched_ext's local queue.
    pub local: Dsq,
    /// Runnable RT tasks that do not run, most urgent first.
    pub rt: VecDeque<TaskPtr>,
    pub need_resched: bool,

    /// `balance_one()`'s state: is it under way, and did it decide to keep the current task?
    pub in_balance: bool,
    pub keep: bool,
    /// A higher class has the CPU and the scheduler was told so.
    pub released: bool,

    /// Kernel time to be spent before the task goes on, ns.
    pub debt: u64,
    /// When the task computes again, while `armed`.
    pub run_start: u64,
    /// It computes, or will.
    pub armed: bool,
    pub tick_queued: bool,

    pub idle_since: u64,
    pub busy_since: u64,
    /// Round-robin position of `cpumask_any_and_distribute()`.
    pub distribute: usize,
}

impl Cpu {
    /// The CPUs of `machine`, idle.
    pub fn all(machine: &Machine) -> Vec<Cpu> {
        let clusters = machine.clusters();
        let cluster_of = |cpu: usize| {
            clusters
                .iter()
                .position(|span: &CpuMask| span.contains(cpu))
                .unwrap_or(0)
        };
        machine
            .cpus
            .iter()
            .enumerate()
            .map(|(id, cpu)| {
                let core_type = &machine.core_types[cpu.core_type];
                let siblings: Vec<usize> = machine
                    .siblings(id)
                    .iter()
                    .filter(|&other| other != id)
                    .collect();
                Cpu {
                    speed: core_type.speed,
                    cap: 1 << 20,
                    speeds: (0..=siblings.len())
                        .map(|busy| machine.thread_speed(id, busy + 1))
                        .collect(),
                    siblings,
                    costs: core_type.costs,
                    idle_states: core_type.idle_states.clone(),
                    cluster: cluster_of(id),
                    curr: None,
                    local: Dsq::new(abi::DSQ_LOCAL),
                    rt: VecDeque::new(),
                    need_resched: false,
                    in_balance: false,
                    keep: false,
                    released: false,
                    debt: 0,
                    run_start: 0,
                    armed: false,
                    tick_queued: false,
                    idle_since: 0,
                    busy_since: 0,
                    distribute: 0,
                }
            })
            .collect()
    }

    /// How long leaving the idle state takes that an idle period up to `now` has entered, ns.
    pub fn idle_exit_ns(&self, now: u64) -> u64 {
        // An interrupt that is waking it is not handled yet.
        let slept = now.saturating_sub(self.idle_since);
        self.idle_states
            .iter()
            .take_while(|state| state.min_residency_ns <= slept)
            .last()
            .map_or(0, |state| state.exit_latency_ns)
    }
}

impl Kernel<'_> {
    /// Kernel code starts on `cpu`: an interrupt, or a system call of its task.
    #[inline]
    pub fn enter(&mut self, cpu: usize) {
        self.set_cpu(cpu);
        self.pause(cpu);
    }

    /// Kernel code on `cpu` ends: sends the kicks, reschedules if it must, and lets the task go on.
    /// While nothing else can happen before the task is done computing, it goes on here at once.
    pub fn leave(&mut self, cpu: usize) {
        while self.failure.is_none() {
            self.send_kicks(cpu);
            if self.cpus[cpu].need_resched {
                self.schedule(cpu);
                if self.check.is_some() {
                    self.check_state();
                }
                continue;
            }
            let Some(task) = self.cpus[cpu].curr else {
                self.cpus[cpu].debt = 0;
                return;
            };
            let done = self.resume(cpu, task);
            if self.events.next_time() <= done {
                self.events.set_done(cpu, done);
                return;
            }
            self.set_now(done);
            self.computed(cpu, task);
        }
    }

    /// The task on `cpu` is done computing.
    pub fn done(&mut self, cpu: usize) {
        self.set_cpu(cpu);
        if let Some(task) = self.cpus[cpu].curr {
            self.computed(cpu, task);
        }
        self.leave(cpu);
    }

    fn computed(&mut self, cpu: usize, mut task: TaskPtr) {
        self.cpus[cpu].armed = false;
        task.left = 0;
        let now = self.now();
        if let Some(check) = &mut self.check {
            let speed = self.cpus[cpu].speed;
            check.computed(task, cpu, now - self.cpus[cpu].run_start, speed);
            check.ends(task, speed);
        }
        self.advance(cpu, task);
    }

    /// Adds kernel time on `cpu`, ns: its task, or the one it is about to switch to, goes on later.
    #[inline]
    pub fn charge(&mut self, cpu: usize, ns: u64) {
        self.cpus[cpu].debt += ns;
    }

    /// Stops the computing on `cpu` now, noting what is left of it.
    #[inline]
    pub fn pause(&mut self, id: usize) {
        let now = self.now();
        let overhead = &mut self.counters.overhead_ns[id];
        let cpu = &mut self.cpus[id];
        if !cpu.armed {
            return;
        }
        cpu.armed = false;
        self.events.clear_done(id);
        if now < cpu.run_start {
            cpu.debt += cpu.run_start - now;
            *overhead -= cpu.run_start - now;
            return;
        }
        let Some(mut task) = cpu.curr else { return };
        let ran = now - cpu.run_start;
        if let Some(check) = &mut self.check {
            check.computed(task, id, ran, cpu.speed);
        }
        let done = if task.own_time {
            ran
        } else {
            work_in(ran, cpu.speed)
        };
        task.left = task.left.saturating_sub(done);
    }

    /// `cpu` has become busy or idle: the hardware threads of its core share the core anew.
    pub fn share_core(&mut self, cpu: usize) {
        for index in 0..self.cpus[cpu].siblings.len() {
            self.set_thread_speed(self.cpus[cpu].siblings[index]);
        }
        self.set_thread_speed(cpu);
    }

    fn set_thread_speed(&mut self, id: usize) {
        let is_busy = |&&other: &&usize| self.cpus[other].curr.is_some();
        let busy = self.cpus[id].siblings.iter().filter(is_busy).count();
        let full = u64::from(self.cpus[id].speeds[busy]);
        let speed = ((full * u64::from(self.cpus[id].cap)) >> 20).max(1) as u32;
        if self.cpus[id].speed == speed {
            return;
        }
        let computes = self.cpus[id].curr.filter(|_| self.cpus[id].armed);
        self.pause(id);
        self.cpus[id].speed = speed;
        if let Some(task) = computes {
            let done = self.resume(id, task);
            self.events.set_done(id, done);
        }
    }

    /// The hardware lets `cpu` run at the fastest OPP of at most `khz`, or its slowest, from now on.
    pub fn set_cap(&mut self, cpu: usize, khz: u32) {
        let core = &self.machine.core_types[self.machine.cpus[cpu].core_type];
        let opp = core.opps.partition_point(|opp| opp.khz <= khz).max(1) - 1;
        self.cpus[cpu].cap = core.at_opp(1 << 20, opp);
        self.set_thread_speed(cpu);
        self.meter_opp(cpu, opp);
    }

    /// Lets `task` compute on `cpu`; returns when it will be done.
    #[inline]
    fn resume(&mut self, cpu: usize, task: TaskPtr) -> u64 {
        let now = self.now();
        let overhead = &mut self.counters.overhead_ns[cpu];
        let cpu = &mut self.cpus[cpu];
        *overhead += cpu.debt;
        cpu.run_start = now + cpu.debt;
        cpu.debt = 0;
        cpu.armed = true;
        cpu.run_start
            + if task.own_time {
                task.left
            } else {
                time_for(task.left, cpu.speed)
            }
    }
}
