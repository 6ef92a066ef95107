//! A CPU, as the kernel keeps it.

use crate::abi::layout as abi;
use crate::hw::cpufreq;
use crate::hw::network::NetRx;
use crate::hw::usb::Usb;

use crate::kernel::softirq::Softirqs;
use crate::kernel::task::TaskPtr;
use machine::{Costs, CpuMask, IdleState, Machine};
use std::collections::VecDeque;

/// One CPU of the simulated machine.
pub struct Cpu {
    /// Work a nanosecond, in 1/2^20 of the reference; less while its core's other threads are busy.
    pub speed: u32,
    /// The OPP that its cpufreq policy is at, and the fastest that the hardware allows: it runs at the
    /// slower of the two.
    pub opp: usize,
    pub cap: usize,
    /// The frequency that it runs at, in 1/2^20 of the highest.
    pub frequency: u32,
    /// The other hardware threads of its core.
    pub siblings: Vec<usize>,
    /// Its speed while so many of them (the index) are busy.
    pub speeds: Vec<u32>,
    pub costs: Costs,
    /// From the shallowest to the deepest.
    pub idle_states: Vec<IdleState>,
    /// Index of the cluster it is in.
    pub cluster: usize,

    /// What runs; `None` is the idle task.
    pub curr: Option<TaskPtr>,
    /// Runnable RT tasks that do not run, most urgent first.
    pub rt: VecDeque<TaskPtr>,
    /// Runnable deadline tasks that have budget and do not run, earliest deadline first.
    pub dl: VecDeque<TaskPtr>,
    pub need_resched: bool,

    /// Index of its cpufreq policy, and what its scheduler asks for, of 1024.
    pub policy: usize,
    pub cpuperf_target: u32,

    /// Kernel time to be spent before the task goes on, ns.
    pub debt: u64,
    /// What interrupts still take, as of `irq_since`. It is part of `debt`, and comes first; on an idle
    /// CPU, which owes nothing, it passes all the same.
    pub irq_debt: u64,
    pub irq_since: u64,
    /// What interrupts left to be done after them, and of it the network's and a USB host controller's.
    pub softirqs: Softirqs,
    pub net_rx: NetRx,
    pub usb: Usb,
    /// When the task computes again, while `armed`.
    pub run_start: u64,
    /// It computes, or will.
    pub armed: bool,
    pub tick_queued: bool,

    /// While it looks for something to run, and after other work of an idle CPU: until when, ns.
    pub idles_at: Option<u64>,
    /// The scheduler was told that it idles, and not that it does no longer.
    pub knows_idle: bool,
    pub idle_since: u64,
    pub busy_since: u64,
}

impl Cpu {
    /// The CPUs of `machine`, idle.
    pub fn all(machine: &Machine) -> Vec<Cpu> {
        let clusters = machine.clusters();
        let policies = machine.policies();
        let policy_of = |cpu| policies.iter().position(|span| span.contains(cpu));
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
                    opp: core_type.nr_opps() - 1,
                    cap: core_type.nr_opps() - 1,
                    frequency: cpufreq::FULL,
                    speeds: (0..=siblings.len())
                        .map(|busy| machine.thread_speed(id, busy + 1))
                        .collect(),
                    siblings,
                    costs: core_type.costs,
                    idle_states: core_type.idle_states.clone(),
                    cluster: cluster_of(id),
                    curr: None,
                    rt: VecDeque::new(),
                    dl: VecDeque::new(),
                    need_resched: false,
                    policy: policy_of(id).unwrap_or(0),
                    cpuperf_target: abi::CPUPERF_ONE,
                    debt: 0,
                    irq_debt: 0,
                    irq_since: 0,
                    softirqs: Softirqs::default(),
                    net_rx: NetRx::default(),
                    usb: Usb::default(),
                    run_start: 0,
                    armed: false,
                    tick_queued: false,
                    idles_at: None,
                    knows_idle: true,
                    idle_since: 0,
                    busy_since: 0,
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
