//! Kernel entry and exit, and the time that passes on a CPU for its task in between.
//!
//! A running task computes from `run_start` on. Any work of the kernel on the CPU (a switch, a
//! wakeup, an interrupt) is a debt of time that is paid before the task continues: the CPU is
//! paused, the debt noted, and the task resumed that much later.

use crate::abi::Bpf;
use crate::check::check_state;
use crate::hw::lock::Turn;
use crate::hw::memory::{Code, Memory};
use crate::kernel::Kernel;
use crate::kernel::task::{Section, TaskPtr};
use crate::run::MAX_INSTANT_EVENTS;
use machine::{time_for, work_in};

impl Kernel<'_> {
    /// Begins kernel code on `cpu`, in an interrupt or a system call of its task: pauses the task's computing.
    #[inline]
    pub fn enter(&mut self, cpu: usize) {
        self.set_cpu(cpu);
        self.pause(cpu);
        self.update_rq_clock(cpu);
    }

    /// Sets the clocks of the CPU's runqueue to the current time: `update_rq_clock()`. Returns `clock_task`, which
    /// differs from `clock` by the time of interrupts if the kernel accounts it.
    #[inline]
    pub fn update_rq_clock(&mut self, id: usize) -> u64 {
        let now = self.now();
        let in_tasks = self.machine.irq_time_in_tasks;
        let cpu = &mut self.cpus[id];
        if cpu.irq_debt > 0 {
            cpu.pay_irq_debt(now);
        }
        let clock_task = match in_tasks {
            true => now,
            false => now - cpu.irq_ns,
        };
        let rq = self.rq(id);
        rq.clock = now;
        rq.clock_task = clock_task;
        clock_task
    }

    /// Ends kernel code on `cpu`: sends the kicks, reschedules if necessary, and resumes the task. As long as no other
    /// event comes before the task completes its computing, this function carries on with that completion at once.
    pub fn leave(&mut self, cpu: usize) {
        self.proceed(cpu, false);
    }

    /// Completes the computing of the task on `cpu`, and continues the task.
    #[inline(always)]
    pub fn done(&mut self, cpu: usize) {
        self.set_cpu(cpu);
        self.proceed(cpu, true);
    }

    /// [`Kernel::leave`], after the task has completed its computing if `done`.
    #[inline(always)]
    fn proceed(&mut self, cpu: usize, mut done: bool) {
        let mut reschedules = 0;
        loop {
            if let Some(task) = self.cpus[cpu].curr.filter(|_| done) {
                self.computed(cpu, task);
            }
            if self.failure.is_some() {
                return;
            }
            if !self.scx.reenqueues.is_empty() {
                self.run_reenqueues();
            }
            self.send_kicks(cpu);
            if self.cpus[cpu].need_resched && self.may_schedule(cpu) {
                self.reschedule(cpu);
                done = false;
                reschedules += 1;
                if reschedules > MAX_INSTANT_EVENTS {
                    self.time_stands_still(&format!(
                        "CPU {cpu} calls ops.dispatch() again and again; expected that this finds a task to run, and does \
                         not kick its own CPU"
                    ));
                }
                continue;
            }
            if self.cpus[cpu].need_resched {
                self.stop_polling(cpu);
            }
            if self.spent() > 0 {
                let spent = self.take_spent();
                self.charge(cpu, spent);
            }
            let now = self.now();
            let state = &mut self.cpus[cpu];
            let Some(task) = state.curr else {
                state.debt = 0;
                return self.events.clear_done(cpu);
            };
            let at = state.resume(task, now);
            if !self.events.set_done_next(cpu, at) {
                return;
            }
            self.set_now(at);
            reschedules = 0;
            done = true;
        }
    }

    /// Ends the run: more events happened at one time than any workload causes. `why` has the events and what was
    /// expected.
    #[cold]
    pub fn time_stands_still(&mut self, why: &str) {
        self.scheduler_error(format_args!(
            "{MAX_INSTANT_EVENTS} events without time passing: {why}"
        ));
    }

    #[inline(never)]
    fn reschedule(&mut self, cpu: usize) {
        self.schedule(cpu);
        if self.check.is_some() {
            check_state(self);
        }
    }

    /// May `cpu` reschedule at this point?
    pub fn may_schedule(&self, cpu: usize) -> bool {
        let searches = self.cpus[cpu].idles_at.is_some();
        let in_interrupt = self.softirqs.in_interrupt(cpu);
        let in_kernel = self.cpus[cpu].curr.is_some_and(|curr| curr.in_kernel.get());
        !searches && !in_interrupt && !in_kernel
    }

    #[inline]
    fn computed(&mut self, cpu: usize, task: TaskPtr) {
        let clock_task = self.update_rq_clock(cpu);
        self.cpus[cpu].armed = false;
        task.left.set(0);
        if self.check.is_some() {
            self.check_computed(cpu, task);
        }
        self.advance(cpu, task, clock_task);
    }

    #[cold]
    fn check_computed(&mut self, cpu: usize, task: TaskPtr) {
        let (now, state) = (self.now(), &self.cpus[cpu]);
        if let Some(check) = &mut self.check {
            check.computed(task, cpu, now - state.run_start, state.speed);
            check.ends(task, state.speed);
        }
    }

    /// Adds kernel time on `cpu`, in ns at its highest frequency. The CPU's task, or the task to which the CPU is about
    /// to switch, continues later.
    #[inline]
    pub fn charge(&mut self, cpu: usize, ns: u64) {
        let cpu = &mut self.cpus[cpu];
        cpu.debt += cpu.kernel_time(ns);
    }

    /// Adds the time of a hard interrupt as [`Kernel::charge`] does, but with `CONFIG_IRQ_TIME_ACCOUNTING` the task is
    /// not charged for it. The interrupt delays softirqs that it interrupts.
    #[inline]
    pub fn charge_irq(&mut self, cpu: usize, ns: u64) {
        let ns = self.charge_softirq(cpu, ns);
        self.softirqs.hold_up(cpu, ns);
    }

    /// Adds the time of softirqs in an interrupt as [`Kernel::charge`] does. Returns their duration at the CPU's
    /// current speed, in ns.
    #[inline]
    pub fn charge_softirq(&mut self, cpu: usize, ns: u64) -> u64 {
        let now = self.now();
        let cpu = &mut self.cpus[cpu];
        let ns = cpu.kernel_time(ns);
        cpu.debt += ns;
        cpu.irq_debt += ns;
        if cpu.curr.is_none() {
            cpu.irq_since = now;
        }
        ns
    }

    /// The time, in ns, until CPU `to` has a cache line that CPU `from` has written.
    #[inline]
    pub fn refill_ns(&self, from: usize, to: usize) -> u64 {
        let costs = &self.cpus[to].costs;
        match self.cpus[to].cache == self.cpus[from].cache {
            true => costs.refill_near_ns,
            false => costs.refill_far_ns,
        }
    }

    /// Limits the remaining time of interrupts when a task arrives on an idle CPU. The task waits for the interrupt
    /// that woke it, but not for an earlier interrupt that is still being handled.
    pub fn end_idle_irq(&mut self, cpu: usize) {
        let cpu = &mut self.cpus[cpu];
        cpu.irq_debt = cpu.irq_debt.min(cpu.debt);
    }

    /// Stops the computing on `cpu` now, and records the remaining work. The completion time is set again when the task
    /// continues, or cleared by [`Kernel::leave`].
    #[inline]
    pub fn pause(&mut self, id: usize) {
        let now = self.now();
        let cpu = &mut self.cpus[id];
        if !cpu.armed {
            return;
        }
        cpu.armed = false;
        if now < cpu.run_start {
            cpu.debt += cpu.run_start - now;
            cpu.overhead_ns -= cpu.run_start - now;
            return;
        }
        let Some(task) = cpu.curr else { return };
        let ran = now - cpu.run_start;
        if let Some(check) = &mut self.check {
            check.computed(task, id, ran, cpu.speed);
        }
        let done = if task.own_time.get() {
            ran
        } else {
            work_in(ran, cpu.speed)
        };
        task.left.set(task.left.get().saturating_sub(done));
    }

    /// Resumes the computing of `task` on `cpu`, which was stopped for an action of another CPU.
    pub fn resume(&mut self, cpu: usize, task: TaskPtr) {
        let now = self.now();
        let done = self.cpus[cpu].resume(task, now);
        self.events.set_done(cpu, done);
    }

    /// Updates the speeds that depend on `cpu`, which has become busy or idle: those of its core's hardware threads,
    /// and those of virtual CPUs.
    #[inline]
    pub fn share_core(&mut self, cpu: usize) {
        if !self.hw.cores.siblings(cpu).is_empty() {
            self.update_speeds(cpu);
        }
        if self.hw.cores.are_virtual() {
            self.share_host();
        }
    }

    #[cold]
    fn share_host(&mut self) {
        let busy = self.cpus.iter().filter(|cpu| cpu.is_busy()).count();
        if self.hw.cores.set_busy(busy) {
            for cpu in 0..self.cpus.len() {
                self.update_speed(cpu);
            }
        }
    }

    fn update_speeds(&mut self, cpu: usize) {
        for index in 0..self.hw.cores.siblings(cpu).len() {
            self.update_speed(self.hw.cores.siblings(cpu)[index]);
        }
        self.update_speed(cpu);
    }

    /// Computes the speeds of `cpu` from its frequency, the number of busy threads of its core, and, if it is virtual,
    /// its part of a host's CPU.
    fn update_speed(&mut self, id: usize) {
        let siblings = self.hw.cores.siblings(id).iter();
        let busy = siblings.filter(|&&other| self.cpus[other].is_busy());
        let speed = self.hw.cores.speed(id, busy.count());
        let kernel_speed = self.hw.cores.kernel_speed(id);
        if (self.cpus[id].speed, self.cpus[id].kernel_speed) == (speed, kernel_speed) {
            return;
        }
        let computes = self.cpus[id].curr.filter(|_| self.cpus[id].armed);
        self.pause(id);
        let cpu = &mut self.cpus[id];
        cpu.speed = speed;
        let before = std::mem::replace(&mut cpu.kernel_speed, kernel_speed);
        if self.hw.cores.are_virtual() {
            let scaled = |ns: u64| ns * u64::from(before) / u64::from(kernel_speed);
            cpu.debt = scaled(cpu.debt);
            cpu.irq_debt = scaled(cpu.irq_debt);
        }
        if let Some(task) = computes {
            self.resume(id, task);
        }
    }

    /// The OPP of `cpu` may have changed: applies the new speed if so.
    pub fn opp_changed(&mut self, cpu: usize) {
        self.update_speed(cpu);
        let now = self.now();
        if let Some(meters) = &mut self.hw.meters {
            meters.set_opp(cpu, self.hw.cores.opp(cpu), now);
            self.trace_power(cpu);
        }
    }

    /// The time that the running code has spent on shared memory and in the scheduler's callbacks, in ns.
    #[inline]
    pub fn spent(&self) -> u64 {
        self.bpf.table().spent
    }

    /// Returns [`Kernel::spent`] and resets it to 0.
    #[inline]
    pub fn take_spent(&mut self) -> u64 {
        let ns = std::mem::take(&mut self.bpf.table_mut().spent);
        let callbacks = match &mut self.callbacks {
            Some(costs) => std::mem::take(&mut costs.spent),
            None => 0,
        };
        self.counters.memory_ns += ns.saturating_sub(callbacks);
        ns
    }

    /// Charges the running code for taking the lock of the runqueue of `rq` and changing the runqueue.
    #[inline]
    pub fn change_rq(&mut self, rq: usize) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            memory.change_rq(rq, code)
        });
    }

    /// Charges the running code for taking the locks of two runqueues, and keeps the locks.
    pub fn lock_rqs(&mut self, rqs: [usize; 2]) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            memory.lock_rqs(rqs, code)
        });
    }

    /// Releases the runqueues that the running code locked.
    pub fn unlock_rqs(&mut self) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            memory.unlock_rqs(code);
            0
        });
    }

    /// Charges the running task for taking a spinlock and doing the work of `section` under it.
    pub fn take_spinlock(&mut self, section: Section) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            let work = time_for(section.work, self.cpus[code.cpu].speed);
            let lock = self.programs.mutexes.spinlock(section.mutex);
            // One of the lines is the lock's.
            let lines = section.lines.saturating_sub(1);
            memory.take(lock, code, lines.into(), work)
        });
    }

    /// Charges the running code for taking the `wait_lock` of a kernel lock for a few instructions, and for changing a
    /// neighbour's entry in the list of waiters, a line on that neighbour's stack.
    pub fn take_wait_lock(&mut self, mutex: u32, neighbour: Option<TaskPtr>) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            let line = neighbour.map_or(0, |task| memory.fetch_ns(task.cpu(), code.cpu));
            memory.lock_for(self.programs.mutexes.spinlock(mutex), code, line)
        });
    }

    /// Charges the running code for taking the `wait_lock`, and keeps the lock. Pass the returned turn to
    /// [`Kernel::end_wait_lock`].
    pub fn begin_wait_lock(&mut self, mutex: u32) -> Option<Turn> {
        let mut begun = None;
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            let (turn, ns) = memory.begin(self.programs.mutexes.spinlock(mutex), code);
            begun = Some(turn);
            ns
        });
        begun
    }

    /// Releases the `wait_lock` that the running code kept, after another `ns`.
    pub fn end_wait_lock(&mut self, mutex: u32, turn: Turn, ns: u64) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            memory.end(self.programs.mutexes.spinlock(mutex), &turn, code, ns);
            0
        });
    }

    /// Charges the running code, which wakes `waiter`, for changing three lines of that task, one after another: the
    /// entry on the task's stack in the list of waiters, its state, and its `pi_lock`. The last two are changed even if
    /// the waiter is awake already (`try_to_wake_up()`).
    pub fn fetch_waiter(&mut self, waiter: TaskPtr) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            3 * memory.fetch_ns(waiter.cpu(), code.cpu)
        });
    }

    /// Charges the running code for reading nodes of the tree that a kernel lock protects.
    pub fn fetch_nodes(&mut self, mutex: u32, nodes: u32) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            let before = self.programs.mutexes.holders(mutex, nodes);
            before.map(|cpu| memory.fetch_ns(cpu, code.cpu)).sum()
        });
    }

    /// Charges the running code for reading `task`, which last ran, or was queued, on its CPU.
    #[inline]
    pub fn read_task(&mut self, task: TaskPtr) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            memory.fetch_task_ns(task.cpu(), code.cpu)
        });
    }

    /// Charges the running code for changing `lines` cache lines that CPU `last` changed last.
    #[inline]
    pub fn fetch_lines(&mut self, last: usize, lines: u32) {
        spend(&mut self.bpf, &mut self.hw.memory, |memory, code| {
            u64::from(lines) * memory.fetch_ns(last, code.cpu)
        });
    }

    /// The time until CPU `to` sees what CPU `from` wrote, in ns.
    pub fn transfer_ns(&self, from: usize, to: usize) -> u64 {
        match &self.hw.memory {
            Some(memory) => memory.transfer_ns(from, to),
            None => self.refill_ns(from, to),
        }
    }
}

/// Adds the cost of shared memory, in ns, to the running code's time, on a machine that describes such costs.
#[inline]
pub fn spend(
    bpf: &mut Bpf,
    memory: &mut Option<Memory>,
    cost: impl FnOnce(&mut Memory, Code) -> u64,
) {
    if let Some(memory) = memory {
        let table = bpf.table_mut();
        let code = Code {
            cpu: table.cpu as usize,
            now: table.now,
            spent: table.spent,
        };
        table.spent += cost(memory, code);
    }
}
