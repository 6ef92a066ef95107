//! Interrupts: the reschedule IPI, the tick, and the timers that end sleeps.

use crate::events::What;
use crate::kernel::Kernel;
use crate::kernel::task::{Class, TaskPtr};

impl Kernel<'_> {
    /// A reschedule IPI has arrived.
    pub fn resched_interrupt(&mut self, cpu: usize) {
        if self.cpus[cpu].need_resched {
            self.enter(cpu);
            self.leave(cpu);
        }
    }

    /// Ticks go on while a CPU is busy (NO_HZ_IDLE), at the same times on all CPUs.
    pub fn start_tick(&mut self, cpu: usize) {
        if !self.cpus[cpu].tick_queued {
            self.cpus[cpu].tick_queued = true;
            let now = self.now();
            let next = now + self.tick_ns - (now + self.tick_ns - self.tick_phase) % self.tick_ns;
            self.events.push(next, What::Tick { cpu: cpu as u32 });
        }
    }

    /// The tick of `cpu`: `sched_tick()`.
    pub fn tick(&mut self, cpu: usize) {
        self.cpus[cpu].tick_queued = false;
        let Some(task) = self.cpus[cpu].curr else {
            return;
        };
        self.enter(cpu);
        self.counters.ticks += 1;
        self.charge_irq(cpu, self.cpus[cpu].costs.tick_ns);
        match task.class.get() {
            Class::Dl => self.tick_dl(cpu, task),
            Class::Rt => self.tick_rt(cpu, task),
            Class::Ext => self.tick_ext(cpu, task),
        }
        self.start_tick(cpu);
        self.leave(cpu);
    }

    /// A task's sleep timer has expired: the interrupt comes as soon as its CPU is awake.
    pub fn sleep_expired(&mut self, task: TaskPtr) {
        let cpu = task.cpu();
        let at = self.timer_interrupt(cpu);
        // Before the task goes on, which may be for longer.
        self.events.push(at, What::Wake { task });
        self.timer_interrupt_done(cpu);
    }

    /// A timer has expired for `cpu`: when its handler is done.
    pub fn timer_interrupt(&mut self, cpu: usize) -> u64 {
        let now = self.now();
        let cost = self.kernel_time(cpu, self.cpus[cpu].costs.timer_irq_ns);
        if self.cpus[cpu].curr.is_some() {
            return now + cost;
        }
        if let Some(idles_at) = self.cpus[cpu].idles_at {
            return idles_at.max(now + cost);
        }
        let at = now + cost + self.cpus[cpu].idle_exit_ns(now);
        self.cpus[cpu].idle_since = at;
        at
    }

    /// After [`Kernel::timer_interrupt`], when what it leads to is announced: a task that is running goes
    /// on.
    pub fn timer_interrupt_done(&mut self, cpu: usize) {
        self.enter(cpu);
        self.charge_irq(cpu, self.cpus[cpu].costs.timer_irq_ns);
        self.leave(cpu);
    }

    /// The timer's handler wakes its task.
    pub fn sleep_ended(&mut self, task: TaskPtr) {
        self.sleeping -= 1;
        let cpu = task.cpu();
        self.enter(cpu);
        self.wake(task, 0);
        self.leave(cpu);
    }
}
