//! cpufreq: the frequency of each policy's CPUs, and its changes.
//!
//! The mechanics follow Linux 6.12's schedutil under a sched_ext scheduler (`kernel/sched/cpufreq_schedutil.c`,
//! `sugov_update_shared()`). The largest request of any CPU of the policy decides, and the slowest sufficient OPP is
//! chosen. After a change, no decision is made for the length of the rate limit, unless a CPU's deadline tasks need
//! more than at its last request. A thread makes the change, which takes the driver's transition latency, and a
//! decision made meanwhile is carried out after the change. Each CPU's request is the scheduler's, within the clamps of
//! its runnable tasks ([`crate::kernel::uclamp`]). Linux's schedutil also adds a margin, and the utilization by
//! real-time tasks, deadline tasks and interrupts.
//! Under any other governor requests have no effect. Under `performance`, CPUs stay at the highest frequency that turbo
//! allows. A processor that sets frequencies itself (HWP, amd-pstate's active mode) uses its preference by unpublished
//! rules; here such a processor runs a busy CPU as fast as it can, or raises its frequency gradually
//! ([`crate::hw::ramp`]).

use crate::abi::layout::CPUPERF_ONE;
use machine::{CpuMask, Machine};

/// The cpufreq policies of a machine, and the requests.
pub struct Cpufreq {
    /// Empty if frequencies never change.
    policies: Vec<Policy>,
    cpus: Vec<Cpu>,
    rate_limit_ns: u64,
    transition_latency_ns: u64,
    /// Whether the governor is schedutil.
    follows_requests: bool,
}

struct Cpu {
    policy: u32,
    /// The scheduler's request for the CPU, and the CPU's capacity, relative to the largest, which is [`CPUPERF_ONE`].
    target: u32,
    capacity: u32,
    /// The bandwidth of the CPU's deadline tasks at the last request that the rate limit did not stop, in 1/2^20 of a
    /// CPU.
    bw_dl: u64,
}

/// CPUs that run at one frequency.
struct Policy {
    cpus: CpuMask,
    /// The frequencies of the policy's OPPs, in rising order.
    khz: Vec<u32>,
    /// The current OPP, the OPP to which the hardware is changing, and the OPP that was decided on.
    current: usize,
    target: usize,
    next: usize,
    /// The time, in ns, at which a request last changed `next`.
    updated_at: u64,
    changing: bool,
    /// `scaling_max_freq`: the fastest OPP that may be chosen.
    most: usize,
    /// The OPP that was last decided on, before `most` limited it.
    wanted: usize,
}

/// A policy has changed to another frequency.
pub struct Change {
    pub cpus: CpuMask,
    pub opp: usize,
    pub khz: u32,
    /// The end of the next change, in ns, if one has begun.
    pub next: Option<u64>,
}

impl Policy {
    fn new(machine: &Machine, cpus: CpuMask) -> Policy {
        let first = cpus.first().unwrap_or(0);
        let core = &machine.core_types[machine.cpus[first].core_type];
        let highest = core.nr_opps() - 1;
        Policy {
            cpus,
            khz: core.opps.iter().map(|opp| opp.khz).collect(),
            current: highest,
            target: highest,
            next: highest,
            updated_at: 0,
            changing: false,
            most: highest,
            wanted: highest,
        }
    }

    /// The slowest OPP at which a CPU of `capacity` has at least `perf` (`CPUFREQ_RELATION_L`).
    fn resolve(&self, perf: u32, capacity: u32) -> usize {
        let highest = self.khz.last().copied().unwrap_or(0);
        let perf = u64::from(perf.min(capacity));
        let khz = u64::from(highest) * perf / u64::from(capacity);
        self.khz.partition_point(|&opp| u64::from(opp) < khz)
    }

    /// Starts the change to the decided OPP, unless the hardware has this OPP already or is changing. Returns the end
    /// of the change, in ns.
    fn start(&mut self, now: u64, latency_ns: u64) -> Option<u64> {
        if self.changing || self.next == self.current {
            return None;
        }
        self.changing = true;
        self.target = self.next;
        Some(now + latency_ns)
    }
}

impl Cpufreq {
    /// The policies of `machine`, each at its highest frequency.
    pub fn new(machine: &Machine) -> Cpufreq {
        let cpufreq = machine.cpufreq.as_ref();
        let spans = cpufreq.map_or(&[][..], |cpufreq| &cpufreq.policies);
        let cpu = |id: usize| {
            let policy = spans.iter().position(|span| span.contains(id));
            Cpu {
                policy: policy.unwrap_or(0) as u32,
                target: CPUPERF_ONE,
                capacity: machine.linux_capacity(id),
                bw_dl: 0,
            }
        };
        Cpufreq {
            policies: spans
                .iter()
                .map(|&span| Policy::new(machine, span))
                .collect(),
            cpus: (0..machine.cpus.len()).map(cpu).collect(),
            rate_limit_ns: cpufreq.map_or(0, |cpufreq| cpufreq.rate_limit_ns),
            transition_latency_ns: cpufreq.map_or(0, |cpufreq| cpufreq.transition_latency_ns),
            follows_requests: machine.follows_requests(),
        }
    }

    /// `scx_bpf_cpuperf_cap()`: the CPU's capacity, relative to the largest, which is [`CPUPERF_ONE`].
    pub fn cap(&self, cpu: usize) -> u32 {
        self.cpus[cpu].capacity
    }

    /// `scx_bpf_cpuperf_set()`, and the governor's reaction; `bw_dl` is the bandwidth of the CPU's deadline tasks, in
    /// 1/2^20 of a CPU (`ignore_dl_rate_limit()`), and `clamped` applies uclamp to a CPU's request. Returns the policy
    /// that changes its frequency, and the end of the change, in ns.
    pub fn request(
        &mut self,
        cpu: usize,
        perf: u32,
        bw_dl: u64,
        now: u64,
        clamped: impl Fn(usize, u32) -> u32,
    ) -> Option<(u32, u64)> {
        self.cpus[cpu].target = perf;
        if !self.follows_requests {
            return None;
        }
        let Cpu {
            policy: index,
            capacity,
            ..
        } = self.cpus[cpu];
        let policy = self.policies.get_mut(index as usize)?;
        let too_soon = now - policy.updated_at < self.rate_limit_ns;
        if policy.khz.is_empty() || (too_soon && bw_dl <= self.cpus[cpu].bw_dl) {
            return None;
        }
        self.cpus[cpu].bw_dl = bw_dl;
        let targets = policy
            .cpus
            .iter()
            .map(|cpu| clamped(cpu, self.cpus[cpu].target));
        policy.wanted = policy.resolve(targets.max().unwrap_or(0), capacity);
        let next = policy.wanted.min(policy.most);
        if policy.next == next {
            return None;
        }
        policy.next = next;
        policy.updated_at = now;
        let at = policy.start(now, self.transition_latency_ns)?;
        Some((index, at))
    }

    /// `scaling_max_freq` of the policy of `cpu` becomes `khz`: the limit is the fastest OPP of at most `khz`, or the
    /// slowest OPP. The governor applies it at once (`sugov_limits()`). The return value is that of
    /// [`Cpufreq::request`].
    pub fn limit(&mut self, cpu: usize, khz: u32, now: u64) -> Option<(u32, u64)> {
        let index = self.cpus[cpu].policy;
        let policy = self.policies.get_mut(index as usize)?;
        policy.most = policy.khz.partition_point(|&opp| opp <= khz).max(1) - 1;
        policy.next = policy.wanted.min(policy.most);
        let at = policy.start(now, self.transition_latency_ns)?;
        Some((index, at))
    }

    /// The highest frequency that `scaling_max_freq` allows `cpu`, in kHz; `None` if the CPU has one frequency.
    pub fn highest_khz(&self, cpu: usize) -> Option<u32> {
        let policy = self.policies.get(self.cpus[cpu].policy as usize)?;
        policy.khz.get(policy.most).copied()
    }

    /// The CPUs of the policy of `cpu`, and `cpufreq_get_pressure()` of `cpu`: the capacity that `scaling_max_freq`
    /// takes from it, relative to the largest capacity, which is 1024 (`cpufreq_update_pressure()`).
    pub fn pressure(&self, cpu: usize) -> (CpuMask, u64) {
        let Cpu {
            policy, capacity, ..
        } = self.cpus[cpu];
        let Some(policy) = self.policies.get(policy as usize) else {
            return (CpuMask::one(cpu), 0);
        };
        let highest = policy.khz.last().map_or(1, |&khz| u64::from(khz));
        let most = policy.khz.get(policy.most).map_or(1, |&khz| u64::from(khz));
        let capacity = u64::from(capacity);
        (policy.cpus, capacity - capacity * most / highest)
    }

    /// Ends the change of `policy` to the requested frequency. Returns the change.
    pub fn changed(&mut self, policy: u32, now: u64) -> Change {
        let policy = &mut self.policies[policy as usize];
        policy.changing = false;
        policy.current = policy.target;
        Change {
            cpus: policy.cpus,
            opp: policy.current,
            khz: policy.khz[policy.current],
            next: policy.start(now, self.transition_latency_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Governor, Preference};

    /// 208, 432, 729, 960 and 1200 MHz.
    fn hikey() -> Cpufreq {
        Cpufreq::new(&Machine::find("hikey-6220").unwrap())
    }

    fn request(
        cpufreq: &mut Cpufreq,
        cpu: usize,
        perf: u32,
        bw_dl: u64,
        now: u64,
    ) -> Option<(u32, u64)> {
        cpufreq.request(cpu, perf, bw_dl, now, |_, perf| perf)
    }

    #[test]
    fn the_slowest_opp_that_is_enough() {
        let policies = hikey().policies;
        assert_eq!(policies.len(), 1);
        let opp = |perf, capacity| policies[0].resolve(perf, capacity);
        let perfs = [0, 177, 178, 368, 369, 622, 623, 819, 820, 1024];
        let opps = perfs.map(|perf| opp(perf, 1024));
        assert_eq!(opps, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        // schedutil takes the request as capacity, limited to the CPU's own.
        assert_eq!([opp(256, 512), opp(512, 512), opp(1024, 512)], [2, 4, 4]);
    }

    #[test]
    fn a_change_takes_the_latency_and_a_decision_meanwhile_is_carried_out_after_it() {
        let mut cpufreq = hikey();
        (cpufreq.rate_limit_ns, cpufreq.transition_latency_ns) = (100, 300);
        // The highest request of any CPU decides.
        for cpu in 0..7 {
            assert_eq!(request(&mut cpufreq, cpu, 0, 0, 1000), None);
        }
        assert_eq!(request(&mut cpufreq, 7, 500, 0, 1000), Some((0, 1300)));
        // The governor makes no decision within the rate limit, and starts no change during another one.
        assert_eq!(request(&mut cpufreq, 7, 100, 0, 1099), None);
        assert_eq!(request(&mut cpufreq, 7, 200, 0, 1100), None);
        let Change { opp, khz, next, .. } = cpufreq.changed(0, 1300);
        assert_eq!((opp, khz, next), (2, 729_000, Some(1600)));
        let Change { opp, khz, next, .. } = cpufreq.changed(0, 1600);
        assert_eq!((opp, khz, next), (1, 432_000, None));
    }

    #[test]
    fn a_limit_changes_the_frequency_and_presses_the_capacity() {
        let mut cpufreq = hikey();
        (cpufreq.rate_limit_ns, cpufreq.transition_latency_ns) = (1000, 300);
        // The fastest OPP of at most 800 MHz is 729 MHz; the highest is 1200 MHz.
        assert_eq!(cpufreq.limit(2, 800_000, 10), Some((0, 310)));
        assert_eq!(cpufreq.changed(0, 310).khz, 729_000);
        assert_eq!(
            cpufreq.pressure(5),
            (CpuMask::first_n(8), 1024 - 1024 * 729 / 1200)
        );
        // A request beyond the limit takes effect once the limit is gone.
        assert_eq!(request(&mut cpufreq, 0, 1024, 0, 2000), None);
        assert_eq!(cpufreq.limit(2, 1_200_000, 2100), Some((0, 2400)));
        assert_eq!(cpufreq.changed(0, 2400).khz, 1_200_000);
        assert_eq!(cpufreq.pressure(5).1, 0);
    }

    #[test]
    fn a_request_is_only_schedutil_s_to_answer() {
        let preference = Preference::BalancePerformance;
        for governor in [
            Governor::Performance,
            Governor::Hwp(preference),
            Governor::AmdPstate(preference),
        ] {
            let mut machine = Machine::find("hikey-6220").unwrap();
            machine.cpufreq.as_mut().unwrap().governor = governor;
            let mut cpufreq = Cpufreq::new(&machine);
            for cpu in 0..8 {
                assert_eq!(
                    request(&mut cpufreq, cpu, 0, 0, 1 << 40),
                    None,
                    "{governor}"
                );
            }
            assert_eq!(
                cpufreq.policies[0].current,
                cpufreq.policies[0].khz.len() - 1
            );
        }
    }

    #[test]
    fn more_deadline_bandwidth_does_not_wait_for_the_rate_limit() {
        let mut cpufreq = hikey();
        (cpufreq.rate_limit_ns, cpufreq.transition_latency_ns) = (1000, 1);
        for cpu in 0..8 {
            request(&mut cpufreq, cpu, 0, 0, 10_000);
        }
        cpufreq.changed(0, 10_001);
        assert_eq!(request(&mut cpufreq, 0, 512, 0, 10_010), None);
        assert_eq!(
            request(&mut cpufreq, 0, 512, 1 << 19, 10_020),
            Some((0, 10_021))
        );
        cpufreq.changed(0, 10_021);
        // An equal or smaller bandwidth does not bypass the rate limit.
        assert_eq!(request(&mut cpufreq, 0, 1024, 1 << 19, 10_030), None);
        assert_eq!(request(&mut cpufreq, 0, 0, 0, 10_040), None);
    }

    #[test]
    fn a_machine_without_frequencies_has_no_policy() {
        let mut cpufreq = Cpufreq::new(&Machine::find("tc2").unwrap());
        assert!(cpufreq.policies.is_empty());
        assert_eq!(request(&mut cpufreq, 0, 1, 0, 1_000_000), None);
    }

    #[test]
    fn capacity_is_that_of_the_largest_cpu() {
        let machine = Machine::find("tc2").unwrap();
        let cpufreq = Cpufreq::new(&machine);
        let most = machine.cpus.iter().map(|cpu| cpu.capacity).max().unwrap();
        for (id, cpu) in machine.cpus.iter().enumerate() {
            assert_eq!(cpufreq.cap(id), cpu.capacity * 1024 / most);
        }
    }
}
