//! Interrupts: the reschedule IPI, the tick, and the timers that end sleeps.

use crate::events::What;
use crate::kernel::Kernel;
use crate::task::{Class, TaskPtr};

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
        self.charge(cpu, self.cpus[cpu].costs.tick_ns);
        match task.class {
            Class::Rt => self.tick_rt(cpu, task),
            Class::Ext => self.tick_ext(cpu, task),
        }
        self.start_tick(cpu);
        self.leave(cpu);
    }

    /// A task's sleep timer has expired: the interrupt comes as soon as its CPU is awake.
    pub fn sleep_expired(&mut self, task: TaskPtr) {
        let cpu = task.cpu();
        let cost = self.cpus[cpu].costs.timer_irq_ns;
        let mut at = self.now() + cost;
        if self.cpus[cpu].curr.is_none() {
            at += self.cpus[cpu].idle_exit_ns(self.now());
            self.cpus[cpu].idle_since = at;
            return self.events.push(at, What::Wake { task });
        }
        // Before the task goes on, which may be for longer.
        self.events.push(at, What::Wake { task });
        self.enter(cpu);
        self.charge(cpu, cost);
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
