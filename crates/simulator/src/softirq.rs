//! Softirqs: what interrupts leave to be done after them, and the daemon that does it when it is too much.
//!
//! `kernel/softirq.c` of Linux 4.17. An interrupt's end handles what is pending, and what comes in the
//! meantime, until 2 ms are over by the tick's clock, or ten rounds, or somebody is to run on the CPU: then
//! `ksoftirqd` of the CPU is woken, a normal task, and as long as that is runnable interrupts leave it to it. In an
//! interrupt the time is the interrupt's and nothing else runs; in the daemon it is the daemon's, which
//! gives the CPU away between two rounds.

use crate::abi;
use crate::events::What;
use crate::kernel::Kernel;
use crate::program::Step;
use crate::task::{Doing, TaskPtr};
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
}

#[derive(Clone, Copy)]
struct Round {
    by_daemon: bool,
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
        let mut daemon = self.new_task(spec, None, cpu, false);
        daemon.abi.flags |= abi::PF_KTHREAD;
        daemon.abi.state = abi::TASK_INTERRUPTIBLE;
        daemon.op = Doing::Softirqs;
        daemon.waits_for = "softirqs";
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

    /// An interrupt of `cpu` that raised softirqs ends (`irq_exit()`), or is done with what it was at of them.
    pub fn softirq(&mut self, cpu: usize) {
        self.enter(cpu);
        let softirqs = &self.cpus[cpu].softirqs;
        let left_to_daemon = softirqs.daemon.is_some_and(|daemon| daemon.on_rq);
        if softirqs.round.is_some() || !left_to_daemon {
            match self.handle_softirqs(cpu, false) {
                Some(ns) => {
                    let at = self.now() + self.kernel_time(cpu, ns);
                    self.events.push(at, What::Softirq { cpu: cpu as u32 });
                    self.charge_irq(cpu, ns);
                    if self.cpus[cpu].curr.is_none() {
                        self.cpus[cpu].idle_since = at;
                    }
                }
                None => self.wake_ksoftirqd(cpu),
            }
        }
        self.leave(cpu);
    }

    /// For what was not handled.
    fn wake_ksoftirqd(&mut self, cpu: usize) {
        let daemon = self.cpus[cpu].softirqs.daemon;
        if let Some(daemon) = daemon.filter(|_| self.net_rx_pending(cpu)) {
            self.wake(daemon, 0);
        }
    }

    /// `ksoftirqd`, each time that it has the CPU and is done with what it was at.
    pub fn run_ksoftirqd(&mut self, cpu: usize, mut task: TaskPtr) -> Step {
        task.op = Doing::Softirqs;
        loop {
            task.in_kernel = false;
            if self.cpus[cpu].softirqs.round.is_none() && !self.net_rx_pending(cpu) {
                return self.sleep(cpu, task, "softirqs");
            }
            if let Some(ns) = self.handle_softirqs(cpu, true) {
                task.in_kernel = true;
                let rate = self.machine.core_types[self.machine.cpus[cpu].core_type].speed;
                return self.compute(task, work_in(ns, rate).max(1), false, Doing::Softirqs);
            }
            if self.cpus[cpu].need_resched {
                return Step::Go;
            }
        }
    }

    /// `__do_softirq()`: begins, or goes on after a part that is done. Returns what the next part takes, ns at the
    /// highest frequency; or `None` when that was all, or enough.
    fn handle_softirqs(&mut self, cpu: usize, by_daemon: bool) -> Option<u64> {
        let mut round = match self.cpus[cpu].softirqs.round {
            Some(round) => round,
            None => {
                self.begin_net_rx(cpu);
                Round {
                    by_daemon,
                    end: self.jiffies() + self.to_jiffies(MAX_TIME_NS),
                    restarts: MAX_RESTART,
                }
            }
        };
        loop {
            let part = self.net_rx(cpu);
            self.cpus[cpu].softirqs.round = part.map(|_| round);
            if part.is_some() || !self.net_rx_pending(cpu) {
                return part;
            }
            round.restarts -= 1;
            if self.jiffies() >= round.end || self.cpus[cpu].need_resched || round.restarts == 0 {
                return None;
            }
            self.begin_net_rx(cpu);
        }
    }
}
