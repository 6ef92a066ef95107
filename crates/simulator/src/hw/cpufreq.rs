//! cpufreq: which frequency the CPUs of each policy run at, and what it takes to change it.
//!
//! The mechanics are those of Linux 6.12's schedutil under a sched_ext scheduler
//! (`kernel/sched/cpufreq_schedutil.c`, `sugov_update_shared()`): the most that any CPU of the policy
//! asks for decides; of the OPPs that give as much the slowest is taken; after a change nothing is
//! decided for the rate limit; a thread makes the change, which takes the driver's transition latency,
//! and a decision made meanwhile is carried out after it. What is asked for is the scheduler's alone:
//! schedutil itself adds what real-time, deadline and interrupt time use and a margin to it.

use crate::Event;
use crate::abi::layout as abi;
use crate::events::What;
use crate::kernel::Kernel;
use machine::{Machine, time_for};

/// What a ratio of 1 is, to the full speed.
pub const FULL: u32 = 1 << 20;

/// A cpufreq policy: CPUs that run at one frequency.
pub struct Policy {
    cpus: Vec<usize>,
    /// Of its OPPs, from the slowest.
    khz: Vec<u32>,
    /// The OPP that it runs at, the one that the hardware is going to, and the one decided on.
    current: usize,
    target: usize,
    next: usize,
    /// When `next` last changed, ns.
    updated_at: u64,
    changing: bool,
}

impl Policy {
    /// The policies of `machine`, each at its highest frequency; none if it never changes any.
    pub fn all(machine: &Machine) -> Vec<Policy> {
        let Some(cpufreq) = &machine.cpufreq else {
            return Vec::new();
        };
        let policy = |span: &machine::CpuMask| {
            let cpus: Vec<usize> = span.iter().collect();
            let core = &machine.core_types[machine.cpus[cpus[0]].core_type];
            let highest = core.nr_opps() - 1;
            Policy {
                cpus,
                khz: core.opps.iter().map(|opp| opp.khz).collect(),
                current: highest,
                target: highest,
                next: highest,
                updated_at: 0,
                changing: false,
            }
        };
        cpufreq.policies.iter().map(policy).collect()
    }

    /// The slowest OPP that gives `perf` of `capacity` (`CPUFREQ_RELATION_L`).
    fn resolve(&self, perf: u32, capacity: u32) -> usize {
        let highest = self.khz.last().copied().unwrap_or(0);
        let perf = u64::from(perf.min(capacity));
        let khz = u64::from(highest) * perf / u64::from(capacity);
        self.khz.partition_point(|&opp| u64::from(opp) < khz)
    }
}

impl Kernel<'_> {
    /// `scx_bpf_cpuperf_cap()`: the CPU's capacity, of [`abi::CPUPERF_ONE`] for the largest.
    pub fn cpuperf_cap(&self, cpu: usize) -> u32 {
        let cpus = &self.machine.cpus;
        let most = cpus.iter().map(|cpu| cpu.capacity).max().unwrap_or(1);
        let capacity = u64::from(cpus[cpu].capacity) * u64::from(abi::CPUPERF_ONE);
        (capacity / u64::from(most)).max(1) as u32
    }

    /// `scx_bpf_cpuperf_cur()`: the CPU's frequency, of [`abi::CPUPERF_ONE`] for its highest.
    pub fn cpuperf_cur(&self, cpu: usize) -> u32 {
        let ratio = u64::from(self.cpus[cpu].frequency);
        ((ratio * u64::from(abi::CPUPERF_ONE)) >> 20) as u32
    }

    /// `scx_bpf_cpuperf_set()`, and the governor's answer to it.
    pub fn set_cpuperf(&mut self, cpu: usize, perf: u32) {
        self.cpus[cpu].cpuperf_target = perf;
        let Some(cpufreq) = &self.machine.cpufreq else {
            return;
        };
        let now = self.now();
        let index = self.cpus[cpu].policy;
        let policy = &self.hw.policies[index];
        if policy.khz.is_empty() || now - policy.updated_at < cpufreq.rate_limit_ns {
            return;
        }
        let targets = policy.cpus.iter().map(|&cpu| self.cpus[cpu].cpuperf_target);
        let next = policy.resolve(targets.max().unwrap_or(0), self.cpuperf_cap(cpu));
        let policy = &mut self.hw.policies[index];
        if policy.next == next {
            return;
        }
        policy.next = next;
        policy.updated_at = now;
        self.start_transition(index);
    }

    fn start_transition(&mut self, index: usize) {
        let latency = self
            .machine
            .cpufreq
            .as_ref()
            .map_or(0, |cpufreq| cpufreq.transition_latency_ns);
        let now = self.now();
        let policy = &mut self.hw.policies[index];
        if policy.changing || policy.next == policy.current {
            return;
        }
        policy.changing = true;
        policy.target = policy.next;
        let what = What::Frequency {
            policy: index as u32,
        };
        self.events.push(now + latency, what);
    }

    /// The hardware runs at the frequency that it was told to.
    pub fn frequency_changed(&mut self, index: usize) {
        let policy = &mut self.hw.policies[index];
        policy.changing = false;
        policy.current = policy.target;
        let (opp, khz) = (policy.current, policy.khz[policy.current]);
        self.counters.frequency_transitions += 1;
        for position in 0..self.hw.policies[index].cpus.len() {
            let cpu = self.hw.policies[index].cpus[position];
            self.cpus[cpu].opp = opp;
            self.run_at_opp(cpu);
            self.traced(cpu, Event::CpuFrequency { khz });
        }
        self.start_transition(index);
    }

    /// How long kernel code takes on `cpu` that takes `ns` at its highest frequency.
    #[inline]
    pub fn kernel_time(&self, cpu: usize, ns: u64) -> u64 {
        match self.cpus[cpu].frequency {
            FULL => ns,
            frequency => time_for(ns, frequency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_opp_that_is_enough() {
        let hikey = Machine::find("hikey-6220").unwrap();
        let policies = Policy::all(&hikey);
        assert_eq!(policies.len(), 1);
        let opp = |perf, capacity| policies[0].resolve(perf, capacity);
        // 208, 432, 729, 960 and 1200 MHz.
        let perfs = [0, 177, 178, 368, 369, 622, 623, 819, 820, 1024];
        let opps = perfs.map(|perf| opp(perf, 1024));
        assert_eq!(opps, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        // schedutil takes what is asked for as capacity, of which a CPU has no more than its own.
        assert_eq!([opp(256, 512), opp(512, 512), opp(1024, 512)], [2, 4, 4]);
    }

    #[test]
    fn a_machine_without_frequencies_has_no_policy() {
        assert!(Policy::all(&Machine::find("tc2").unwrap()).is_empty());
    }
}
