//! Interrupts: the reschedule IPI, the tick, and the timers that end sleeps; and what else the hardware does by
//! itself.

use crate::Event;
use crate::events::What;
use crate::hw;
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
        let cost = self.cpus[cpu].kernel_time(self.cpus[cpu].costs.timer_irq_ns);
        if self.cpus[cpu].curr.is_some() {
            return now + cost;
        }
        if let Some(idles_at) = self.cpus[cpu].idles_at {
            return idles_at.max(now + cost);
        }
        let at = now + cost + self.idle_exit_ns(cpu);
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

    /// How long `cpu`, which is idle, takes to leave its idle state, ns.
    pub fn idle_exit_ns(&self, cpu: usize) -> u64 {
        // An interrupt that is waking it is not handled yet.
        let slept = self.now().saturating_sub(self.cpus[cpu].idle_since);
        self.hw.idle_states.exit_ns(cpu, slept)
    }

    /// The hardware does something by itself.
    pub fn hardware_event(&mut self, event: hw::Event) {
        match event {
            hw::Event::Frequency { policy } => self.frequency_changed(policy),
            hw::Event::Power { cpu } => self.trace_power(cpu as usize),
            hw::Event::Turbo { package } => self.turbo_interval_over(package),
        }
    }

    fn announce(&mut self, at: u64, event: hw::Event) {
        self.events.push(at, What::Hardware(event));
    }

    /// `scx_bpf_cpuperf_set()`.
    pub fn set_cpuperf(&mut self, cpu: usize, perf: u32) {
        let now = self.now();
        if let Some((policy, at)) = self.hw.cpufreq.request(cpu, perf, now) {
            self.announce(at, hw::Event::Frequency { policy });
        }
    }

    fn frequency_changed(&mut self, policy: u32) {
        let change = self.hw.cpufreq.changed(policy, self.now());
        self.counters.frequency_transitions += 1;
        for cpu in change.cpus.iter() {
            self.hw.cores.set_opp(cpu, change.opp);
            self.opp_changed(cpu);
            self.traced(cpu, Event::CpuFrequency { khz: change.khz });
        }
        if let Some(at) = change.next {
            self.announce(at, hw::Event::Frequency { policy });
        }
    }

    fn turbo_interval_over(&mut self, package: u32) {
        let now = self.now();
        let (Some(turbo), Some(meters)) = (&mut self.hw.turbo, &mut self.hw.meters) else {
            return;
        };
        let decision = turbo.interval_over(package as usize, meters, now);
        if let Some((cpus, khz)) = decision.cap {
            for cpu in cpus.iter() {
                self.hw.cores.set_cap(cpu, khz);
                self.opp_changed(cpu);
            }
        }
        if let Some(at) = decision.next {
            self.announce(at, hw::Event::Turbo { package });
        }
    }

    /// `cpu` goes from its task to `next`, or idle: it draws something else.
    #[inline]
    pub fn meter_switch(&mut self, cpu: usize, next: Option<TaskPtr>) {
        if self.hw.meters.is_some() {
            self.meter_activity(cpu, next.map(|task| task.activity));
        }
    }

    fn meter_activity(&mut self, cpu: usize, activity: Option<u32>) {
        let now = self.now();
        let Some(meters) = &mut self.hw.meters else {
            return;
        };
        if !meters.set_activity(cpu, activity.unwrap_or(0), now) {
            return;
        }
        if let Some(turbo) = self.hw.turbo.as_mut().filter(|_| activity.is_some()) {
            let package = meters.package_of(cpu);
            if let Some(at) = turbo.wakes(package, meters, now) {
                let package = package as u32;
                self.announce(at, hw::Event::Turbo { package });
            }
        }
        self.trace_power(cpu);
    }

    /// Tells the trace what each part draws from the beginning.
    pub fn trace_power_from_boot(&mut self) {
        let Some(rest) = self.hw.meters.as_ref().map(|meters| meters.rest()) else {
            return;
        };
        self.traced(0, rest);
        for cpu in 0..self.cpus.len() {
            self.trace_power(cpu);
        }
    }

    /// Tells the trace which of `cpu`'s parts draw something else now, and sees to it that it hears of
    /// the idle states they will enter.
    pub fn trace_power(&mut self, cpu: usize) {
        let now = self.now();
        let (Some(meters), Some(trace)) = (&mut self.hw.meters, &mut self.trace) else {
            return;
        };
        let mut news = Vec::new();
        meters.news(cpu, now, &mut news);
        for event in news {
            trace.event(now, cpu, event);
        }
        for at in meters.next_idle_states(cpu) {
            let event = hw::Event::Power { cpu: cpu as u32 };
            self.events.push(at, What::Hardware(event));
        }
    }
}
