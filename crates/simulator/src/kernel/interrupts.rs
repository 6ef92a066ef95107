//! Interrupts: the reschedule IPI, the tick, timers, devices, and the softirqs after them; and
//! other scheduled changes of the hardware.

use crate::Event;
use crate::abi::layout as abi;
use crate::abi::timers;
use crate::clock::Jiffies;
use crate::events::What;
use crate::hw;
use crate::kernel::Kernel;
use crate::kernel::syscalls::Step;
use crate::kernel::task::{Class, Continuation, TaskPtr};
use crate::kernel::wakeups::Wakeup;
use crate::scx::call::{call_op, kf};
use machine::{CpuMask, work_in};
use workload::{Direction, Op, StreamId, TaskSpec};

impl Kernel<'_> {
    /// Runs `handler` in a hard interrupt ([`abi::HARDIRQ_OFFSET`]) or softirq ([`abi::SOFTIRQ_OFFSET`]) of the current
    /// CPU. The scheduler can test for this context.
    #[inline]
    fn in_interrupt<T>(&mut self, context: u32, handler: impl FnOnce(&mut Self) -> T) -> T {
        self.bpf.set_preempt_count(context);
        let result = handler(self);
        self.bpf.set_preempt_count(0);
        result
    }

    /// Handles a reschedule IPI to `cpu`.
    pub fn resched_interrupt(&mut self, cpu: usize) {
        // The CPU may have gone offline since the IPI was sent.
        if self.cpus[cpu].need_resched && self.hotplug.online.contains(cpu) {
            self.enter(cpu);
            self.leave(cpu);
        }
    }

    /// Starts the tick of `cpu`, which runs while the CPU is busy (NO_HZ_IDLE). Ticks come at the same times on all
    /// CPUs.
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
        let runnable = self.rq(cpu).nr_running;
        self.hw.idle_states.tick(cpu, runnable);
        self.charge_irq(cpu, self.cpus[cpu].costs.tick_ns);
        task.abi.utime.update(|ns| ns + self.tick_ns);
        self.in_interrupt(abi::HARDIRQ_OFFSET, |kernel| match task.class.get() {
            Class::Dl => kernel.tick_dl(cpu, task),
            Class::Rt => kernel.tick_rt(cpu, task),
            Class::Ext => kernel.tick_ext(cpu, task),
        });
        self.start_tick(cpu);
        self.leave(cpu);
    }

    /// Handles the expiry of a task's sleep timer: the interrupt comes as soon as the CPU that handles it is awake.
    pub fn sleep_expired(&mut self, task: TaskPtr) {
        let cpu = self.timers_cpu(task.cpu());
        let at = self.timer_interrupt(cpu);
        // Schedule this before the CPU's task continues, because that may let time pass.
        self.events.push(at, What::Wake { task });
        self.timer_interrupt_done(cpu);
    }

    /// Begins a timer interrupt for `cpu`. Returns the time when its handler completes, in ns.
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

    /// Ends [`Kernel::timer_interrupt`] once its consequences are scheduled: the running task, if any, continues.
    pub fn timer_interrupt_done(&mut self, cpu: usize) {
        self.enter(cpu);
        self.charge_irq(cpu, self.cpus[cpu].costs.timer_irq_ns);
        self.leave(cpu);
    }

    /// Lets the timer's handler wake its task.
    pub fn sleep_ended(&mut self, task: TaskPtr) {
        self.sleeping -= 1;
        let cpu = self.timers_cpu(task.cpu());
        self.enter(cpu);
        self.in_interrupt(abi::HARDIRQ_OFFSET, |kernel| {
            kernel.wake(task, Wakeup::Timer)
        });
        self.leave(cpu);
    }

    /// A `bpf_timer` expires: its callback runs in softirq context of the CPU that started the timer.
    pub fn bpf_timer_expired(&mut self, expiry: timers::Expiry) {
        let Some(due) = self.bpf.timers.expire(expiry) else {
            return;
        };
        let now = self.now();
        if self.bpf.timers.are_too_many(now) {
            return self.scheduler_error(
                "its timers expire more than 20000 times in 1 ms; expected timers that leave time for tasks",
            );
        }
        let (map, timer_callback) = (due.map, due.callback);
        let cpu = self.timers_cpu(due.cpu);
        let maps = &mut self.bpf.instance.maps;
        let Some((mut key, value)) = maps.entry_around(map.map(), due.address) else {
            return;
        };
        self.enter(cpu);
        self.charge_irq(cpu, self.cpus[cpu].costs.timer_irq_ns);
        self.bpf.timers.calling = Some(due.address);
        self.in_interrupt(abi::SOFTIRQ_OFFSET, |kernel| {
            call_op!(
                kernel,
                due.context & kf::BITS_7_3,
                timer_callback,
                map.0,
                key.as_mut_ptr(),
                value
            );
        });
        self.bpf.timers.calling = None;
        self.leave(cpu);
    }

    /// The exit latency of `cpu`, which is idle, in ns.
    pub fn idle_exit_ns(&self, cpu: usize) -> u64 {
        // `idle_since` may be later than now: it includes the handling of an interrupt that has woken the CPU.
        let slept = self.now().saturating_sub(self.cpus[cpu].idle_since);
        self.hw.idle_states.exit_ns(cpu, slept)
    }

    /// Carries out a scheduled change of the hardware.
    pub fn hardware_event(&mut self, event: hw::Event) {
        match event {
            hw::Event::Frequency { policy } => self.frequency_changed(policy),
            hw::Event::MaxFreq { cpu, khz } => self.limit_frequency(cpu as usize, khz),
            hw::Event::Power { cpu } => self.trace_power(cpu as usize),
            hw::Event::Turbo { package } => self.turbo_interval_over(package),
            hw::Event::Ramp { core } => {
                let now = self.now();
                let step = self.hw.ramp.as_mut().and_then(|ramp| ramp.climb(core, now));
                self.ramp_step(step);
            }
            hw::Event::Packet { connection } => self.packet_passed(connection),
            hw::Event::NetworkInterrupt { connection } => self.network_interrupt_done(connection),
        }
    }

    fn announce(&mut self, at: u64, event: hw::Event) {
        self.events.push(at, What::Hardware(event));
    }

    /// `scx_bpf_cpuperf_set()`.
    pub fn set_cpuperf(&mut self, cpu: usize, perf: u32) {
        let now = self.now();
        let bw_dl = self.rq(cpu).dl.running_bw;
        let uclamp = &self.uclamp;
        let clamped = |cpu, perf| uclamp.clamped(cpu, perf);
        let cpufreq = &mut self.hw.cpufreq;
        if let Some((policy, at)) = cpufreq.request(cpu, perf, bw_dl, now, clamped) {
            self.announce(at, hw::Event::Frequency { policy });
        }
    }

    fn frequency_changed(&mut self, policy: u32) {
        let change = self.hw.cpufreq.changed(policy, self.now());
        self.counters.frequency_transitions += 1;
        for cpu in change.cpus.iter() {
            self.frequency_changes_dl(cpu);
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
        let next = turbo.interval_over(package as usize, meters, now);
        while let Some((cpus, khz)) = self.turbo_change(package) {
            for cpu in cpus.iter() {
                self.frequency_changes_dl(cpu);
                self.hw.cores.set_cap(cpu, khz);
                self.opp_changed(cpu);
                self.traced(cpu, Event::Turbo { khz });
            }
        }
        if let Some(at) = next {
            self.announce(at, hw::Event::Turbo { package });
        }
    }

    fn turbo_change(&mut self, package: u32) -> Option<(CpuMask, u32)> {
        self.hw.turbo.as_mut()?.take_change(package as usize)
    }

    /// Applies a step of a core's frequency, and schedules the next one.
    fn ramp_step(&mut self, step: Option<hw::ramp::Step>) {
        let Some(step) = step else {
            return;
        };
        for cpu in step.cpus.iter() {
            if self.hw.cores.ramp(cpu) == step.opp {
                continue;
            }
            self.frequency_changes_dl(cpu);
            self.hw.cores.set_ramp(cpu, step.opp);
            self.opp_changed(cpu);
            self.traced(cpu, Event::Turbo { khz: step.khz });
        }
        if let Some(at) = step.next {
            self.announce(at, hw::Event::Ramp { core: step.core });
        }
    }

    /// Updates the frequency ramp and the power of `cpu`, which switches from its task to `next`, or to idle.
    #[inline]
    pub fn meter_switch(&mut self, cpu: usize, next: Option<TaskPtr>) {
        if let Some(ramp) = &mut self.hw.ramp {
            let now = self.bpf.table().now;
            let step = ramp.set_busy(cpu, next.is_some(), now);
            self.ramp_step(step);
        }
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

    /// Traces the power of each part from boot on.
    pub fn trace_power_from_boot(&mut self) {
        let known = self.hw.meters.as_ref().filter(|meters| meters.are_known());
        let Some(rest) = known.map(|meters| meters.rest()) else {
            return;
        };
        self.traced(0, rest);
        for cpu in self.machine.all_cpus().iter() {
            self.trace_power(cpu);
        }
    }

    /// Traces the changed power of `cpu`'s parts, and schedules trace events for the idle states that they will enter.
    pub fn trace_power(&mut self, cpu: usize) {
        let now = self.now();
        let (Some(meters), Some(trace)) = (&mut self.hw.meters, &mut self.trace) else {
            return;
        };
        if !meters.are_known() {
            return;
        }
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

    /// Starts the network's connections, on which the senders at the other ends already have data.
    pub fn start_connections(&mut self) {
        let Some(network) = &self.hw.network else {
            return;
        };
        let (cpu, connections) = (network.irq_cpu(), network.nr_connections());
        self.start_ksoftirqd(cpu);
        for connection in 0..connections {
            self.use_link(connection);
        }
    }

    /// Lets the network use data or room in `stream`, which a task has written or read.
    #[inline]
    pub fn stream_changed(&mut self, stream: StreamId) {
        if self.hw.network.is_some() {
            self.send_from(stream);
        }
    }

    fn send_from(&mut self, stream: StreamId) {
        let now = self.now();
        let Some(network) = &mut self.hw.network else {
            return;
        };
        let level = self.programs.streams.level(stream);
        for (connection, at) in network.send_from(stream, level, now) {
            let event = hw::Event::Packet { connection };
            self.events.push(at, What::Hardware(event));
        }
    }

    fn use_link(&mut self, connection: u32) {
        let now = self.now();
        let Some(network) = &mut self.hw.network else {
            return;
        };
        let level = self.programs.streams.level(network.stream(connection));
        if let Some(at) = network.send(connection, level, now) {
            self.announce(at, hw::Event::Packet { connection });
        }
    }

    fn packet_passed(&mut self, connection: u32) {
        let Some(network) = &mut self.hw.network else {
            return;
        };
        let interrupts = network.packet_passed(connection);
        let (cpu, irq_ns) = (network.irq_cpu(), network.irq_ns());
        self.use_link(connection);
        if !interrupts {
            return;
        }
        let mut at = self.now() + self.cpus[cpu].kernel_time(irq_ns);
        if self.cpus[cpu].curr.is_none() {
            at += self.idle_exit_ns(cpu);
            self.cpus[cpu].idle_since = self.cpus[cpu].idle_since.max(at);
        }
        self.announce(at, hw::Event::NetworkInterrupt { connection });
        self.enter(cpu);
        self.charge_irq(cpu, irq_ns);
        self.leave(cpu);
    }

    fn network_interrupt_done(&mut self, connection: u32) {
        let Some(network) = &mut self.hw.network else {
            return;
        };
        network.interrupt_done(connection);
        let cpu = network.irq_cpu();
        self.use_link(connection);
        // irq_exit()
        if self.softirqs.begin_at_irq_exit() {
            self.softirq(cpu);
        }
    }

    /// Completes the current part of the softirqs in an interrupt of `cpu`, unless other interrupts have delayed the
    /// part.
    pub fn softirq_part_done(&mut self, cpu: usize) {
        match self.softirqs.take_held_up() {
            0 => self.softirq(cpu),
            ns => self.softirq_until(cpu, self.now() + ns),
        }
    }

    fn softirq(&mut self, cpu: usize) {
        self.enter(cpu);
        self.in_interrupt(abi::SOFTIRQ_OFFSET, |kernel| {
            match kernel.handle_softirqs(cpu, Some(cpu)) {
                Some(ns) => {
                    let ns = kernel.charge_softirq(cpu, ns);
                    kernel.softirq_until(cpu, kernel.now() + ns);
                }
                None => kernel.wake_ksoftirqd(),
            }
        });
        self.leave(cpu);
    }

    fn softirq_until(&mut self, cpu: usize, at: u64) {
        self.events.push(at, What::Softirq { cpu: cpu as u32 });
        if self.cpus[cpu].curr.is_none() {
            self.cpus[cpu].idle_since = at;
        }
    }

    /// Wakes `ksoftirqd` if there are unhandled softirqs.
    fn wake_ksoftirqd(&mut self) {
        let daemon = self.softirqs.daemon.filter(|_| self.softirqs_pending());
        if let Some(daemon) = daemon {
            self.wake(daemon, Wakeup::Softirq);
        }
    }

    fn softirqs_pending(&self) -> bool {
        let network = self.hw.network.as_ref();
        network.is_some_and(|network| self.softirqs.are_pending(network))
    }

    /// [`Softirqs::handle`](crate::kernel::softirq::Softirqs::handle), and the consequences of its last part.
    fn handle_softirqs(&mut self, cpu: usize, interrupted: Option<usize>) -> Option<u64> {
        let handled = self.hw.network.as_mut()?.packets_handled();
        if let Some(handled) = handled {
            match handled.direction {
                Direction::Transmit => self.sent(handled.stream, handled.bytes),
                Direction::Receive => self.received(handled.stream, handled.bytes),
            }
            self.use_link(handled.connection);
        }
        let now = Jiffies::at(self.now(), self.tick_ns, self.tick_phase);
        let need_resched = self.cpus[cpu].need_resched;
        let network = self.hw.network.as_mut()?;
        self.softirqs
            .handle(network, interrupted, now, need_resched)
    }

    fn start_ksoftirqd(&mut self, cpu: usize) {
        let spec = TaskSpec {
            affinity: Some(CpuMask::one(cpu)),
            ..TaskSpec::new(format!("ksoftirqd/{cpu}"), |_: &mut workload::Env| Op::Exit)
        };
        self.set_cpu(cpu);
        let daemon = self.new_task(spec, None, cpu, true);
        daemon.abi.state.set(abi::TASK_INTERRUPTIBLE);
        daemon.continuation.set(Continuation::Softirqs);
        daemon.waits_for.set("softirqs");
        self.daemons += 1;
        self.softirqs.daemon = Some(daemon);
    }

    /// Runs `ksoftirqd` when it gets the CPU, and when it has completed a part of the softirqs.
    pub fn run_ksoftirqd(&mut self, cpu: usize, task: TaskPtr) -> Step {
        task.continuation.set(Continuation::Softirqs);
        loop {
            task.in_kernel.set(false);
            if !self.softirqs_pending() {
                return self.sleep(cpu, task, "softirqs");
            }
            if let Some(ns) = self.handle_softirqs(cpu, None) {
                task.in_kernel.set(true);
                let rate = self.machine.core_types[self.machine.cpus[cpu].core_type].speed;
                let work = work_in(ns, rate).max(1);
                return self.compute(task, work, false, Continuation::Softirqs);
            }
            if self.cpus[cpu].need_resched {
                return Step::Go;
            }
        }
    }
}
