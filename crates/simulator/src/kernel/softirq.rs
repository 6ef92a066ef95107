//! Softirqs: what interrupts leave to be done after them, and the daemon that does it when it is too much.
//!
//! `kernel/softirq.c` of Linux 4.17. An interrupt's end handles what is pending, and what comes in the
//! meantime, until 2 ms are over by the tick's clock, or ten rounds, or somebody is to run on the CPU: then
//! `ksoftirqd` of the CPU is woken, a normal task, and as long as that is runnable interrupts leave it to it, tasklets
//! too: these are handled at once since 4.18-rc6 ("Mark HI and TASKLET softirq synchronous", 2018-07-17). In an
//! interrupt the time is the interrupt's and nothing else runs but further ones; in the daemon it is the daemon's,
//! which gives the CPU away between two rounds.

use crate::abi::layout as abi;
use crate::events::What;
use crate::hw::usb::Tasklets;
use crate::kernel::Kernel;
use crate::kernel::syscalls::Step;
use crate::kernel::task::{Continuation, TaskPtr};
use machine::{CpuMask, work_in};
use workload::{Op, TaskSpec};

/// How long softirqs are handled in one go, ns (`MAX_SOFTIRQ_TIME`), and in how many rounds
/// (`MAX_SOFTIRQ_RESTART`).
const MAX_TIME_NS: u64 = 2_000_000;
const MAX_RESTART: u32 = 10;

/// The softirqs of one CPU.
#[derive(Default)]
pub struct Softirqs {
    /// `ksoftirqd`, on a CPU that has softirqs.
    daemon: Option<TaskPtr>,
    /// They are being handled.
    round: Option<Round>,
    /// How long interrupts have held up what is being handled in one, ns.
    held_up: u64,
}

/// Softirqs that are raised.
#[derive(Clone, Copy)]
struct Pending {
    net_rx: bool,
    tasklets: Tasklets,
}

impl Pending {
    fn any(self) -> bool {
        self.net_rx || self.tasklets.any()
    }
}

#[derive(Clone, Copy)]
struct Round {
    by_daemon: bool,
    /// What it still is to handle.
    todo: Pending,
    /// When it is enough, jiffies.
    end: u64,
    /// How many more there may be.
    restarts: u32,
}

impl Softirqs {
    /// An interrupt is handling them: it is not preempted.
    pub fn in_interrupt(&self) -> bool {
        self.round.is_some_and(|round| !round.by_daemon)
    }

    /// An interrupt takes `ns`.
    #[inline]
    pub fn hold_up(&mut self, ns: u64) {
        if self.in_interrupt() {
            self.held_up += ns;
        }
    }
}

impl Kernel<'_> {
    /// Starts `ksoftirqd` of `cpu`, which sleeps.
    pub fn start_ksoftirqd(&mut self, cpu: usize) {
        let spec = TaskSpec {
            affinity: Some(CpuMask::one(cpu)),
            ..TaskSpec::new(format!("ksoftirqd/{cpu}"), |_: &mut workload::Env<'_>| {
                Op::Exit
            })
        };
        self.set_cpu(cpu);
        let daemon = self.new_task(spec, None, cpu, false);
        daemon.abi.flags.update(|flags| flags | abi::PF_KTHREAD);
        daemon.abi.state.set(abi::TASK_INTERRUPTIBLE);
        daemon.continuation.replace(Continuation::Softirqs);
        daemon.waits_for.set("softirqs");
        self.daemons += 1;
        self.cpus[cpu].softirqs.daemon = Some(daemon);
    }

    /// The time in ticks.
    pub fn jiffies(&self) -> u64 {
        (self.now() + self.tick_ns - self.tick_phase) / self.tick_ns
    }

    /// Ticks in which `ns` are over (`usecs_to_jiffies()`).
    pub fn to_jiffies(&self, ns: u64) -> u64 {
        ns.div_ceil(self.tick_ns)
    }

    /// An interrupt of `cpu` that raised softirqs ends (`irq_exit()`).
    pub fn irq_exit(&mut self, cpu: usize) {
        let softirqs = &self.cpus[cpu].softirqs;
        let left_to_daemon = softirqs.daemon.is_some_and(|daemon| daemon.on_rq.get());
        // One that came into softirqs leaves what it raised to these.
        if softirqs.round.is_none() && !left_to_daemon {
            self.softirq(cpu);
        }
    }

    /// An interrupt of `cpu` is done with what it was at of the softirqs, unless it was held up.
    pub fn softirq_part_done(&mut self, cpu: usize) {
        match std::mem::take(&mut self.cpus[cpu].softirqs.held_up) {
            0 => self.softirq(cpu),
            ns => self.softirq_until(cpu, self.now() + ns),
        }
    }

    fn softirq(&mut self, cpu: usize) {
        self.enter(cpu);
        match self.handle_softirqs(cpu, false) {
            Some(ns) => {
                let ns = self.charge_softirq(cpu, ns);
                self.softirq_until(cpu, self.now() + ns);
            }
            None => self.wake_ksoftirqd(cpu),
        }
        self.leave(cpu);
    }

    fn softirq_until(&mut self, cpu: usize, at: u64) {
        self.events.push(at, What::Softirq { cpu: cpu as u32 });
        if self.cpus[cpu].curr.is_none() {
            self.cpus[cpu].idle_since = at;
        }
    }

    /// For what was not handled.
    fn wake_ksoftirqd(&mut self, cpu: usize) {
        let daemon = self.cpus[cpu].softirqs.daemon;
        if let Some(daemon) = daemon.filter(|_| self.softirqs_pending(cpu).any()) {
            self.wake(daemon, 0);
        }
    }

    /// `ksoftirqd`, each time that it has the CPU and is done with what it was at.
    pub fn run_ksoftirqd(&mut self, cpu: usize, task: TaskPtr) -> Step {
        task.continuation.replace(Continuation::Softirqs);
        loop {
            task.in_kernel.set(false);
            if self.cpus[cpu].softirqs.round.is_none() && !self.softirqs_pending(cpu).any() {
                return self.sleep(cpu, task, "softirqs");
            }
            if let Some(ns) = self.handle_softirqs(cpu, true) {
                task.in_kernel.set(true);
                let rate = self.machine.core_types[self.machine.cpus[cpu].core_type].speed;
                return self.compute(
                    task,
                    work_in(ns, rate).max(1),
                    false,
                    Continuation::Softirqs,
                );
            }
            if self.cpus[cpu].need_resched {
                return Step::Go;
            }
        }
    }

    /// `local_softirq_pending()`.
    fn softirqs_pending(&self, cpu: usize) -> Pending {
        Pending {
            net_rx: self.net_rx_pending(cpu),
            tasklets: self.cpus[cpu].usb.scheduled(),
        }
    }

    /// `__do_softirq()`: begins, or goes on after a part that is done. Returns what the next part takes, ns at the
    /// highest frequency; or `None` when that was all, or enough.
    fn handle_softirqs(&mut self, cpu: usize, by_daemon: bool) -> Option<u64> {
        let mut round = match self.cpus[cpu].softirqs.round.take() {
            Some(round) => round,
            None => {
                self.begin_net_rx(cpu);
                Round {
                    by_daemon,
                    todo: self.softirqs_pending(cpu),
                    end: self.jiffies() + self.to_jiffies(MAX_TIME_NS),
                    restarts: MAX_RESTART,
                }
            }
        };
        loop {
            let part = self.softirq_part(cpu, &mut round.todo);
            if part.is_some() {
                self.cpus[cpu].softirqs.round = Some(round);
                return part;
            }
            round.todo = self.softirqs_pending(cpu);
            round.restarts -= 1;
            let enough = self.jiffies() >= round.end || round.restarts == 0;
            if !round.todo.any() || enough || self.cpus[cpu].need_resched {
                return None;
            }
            self.begin_net_rx(cpu);
        }
    }

    /// The next part of what is `todo`, in the order of the softirqs.
    fn softirq_part(&mut self, cpu: usize, todo: &mut Pending) -> Option<u64> {
        if todo.net_rx {
            let part = self.net_rx(cpu);
            todo.net_rx = part.is_some();
            if part.is_some() {
                return part;
            }
        }
        self.tasklet(cpu, &mut todo.tasklets)
    }
}
