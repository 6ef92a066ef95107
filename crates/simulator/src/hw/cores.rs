//! Hardware threads, whose speed depends on their frequency and the number of busy siblings; and virtual CPUs,
//! which take turns on the CPUs of a host.

use crate::abi::layout::CPUPERF_ONE;
use machine::{Machine, time_for};

/// The ratio 1 in fixed point.
pub const FULL: u32 = 1 << 20;

/// The hardware threads of a machine, by CPU.
pub struct Cores {
    threads: Vec<Thread>,
    /// For each core type, the frequency of each OPP from the slowest, in kHz and relative to the highest, which is
    /// [`FULL`].
    opps: Vec<Vec<(u32, u32)>>,
    /// The number of CPUs of the host, if the CPUs are virtual.
    host: Option<u32>,
    /// The share of a host CPU that each busy CPU gets; [`FULL`] is a whole CPU.
    share: u32,
}

struct Thread {
    core_type: usize,
    /// The OPP of the CPU's cpufreq policy, and the fastest OPP that the hardware allows. The CPU runs at the slowest
    /// of these two and `ramp`.
    opp: usize,
    cap: usize,
    /// The OPP that the core's frequency has reached, if frequencies rise slowly.
    ramp: usize,
    /// The other hardware threads of the CPU's core.
    siblings: Box<[usize]>,
    /// The thread's speed at the highest frequency, by the number of busy siblings.
    speeds: Box<[u32]>,
}

impl Cores {
    /// The hardware threads of `machine`, at their highest frequencies.
    pub fn new(machine: &Machine) -> Cores {
        let thread = |cpu: usize| {
            let core_type = machine.cpus[cpu].core_type;
            let highest = machine.core_types[core_type].nr_opps() - 1;
            let span = machine.siblings(cpu);
            let siblings: Box<[usize]> = span.iter().filter(|&other| other != cpu).collect();
            Thread {
                core_type,
                opp: highest,
                cap: highest,
                ramp: highest,
                speeds: (0..=siblings.len())
                    .map(|busy| machine.thread_speed(cpu, busy + 1))
                    .collect(),
                siblings,
            }
        };
        let opps = |core: &machine::CoreType| {
            let opps = core.opps.iter().enumerate();
            opps.map(|(opp, of)| (of.khz, core.at_opp(FULL, opp)))
                .collect()
        };
        Cores {
            threads: (0..machine.cpus.len()).map(thread).collect(),
            opps: machine.core_types.iter().map(opps).collect(),
            host: machine.host_cpus,
            share: FULL,
        }
    }

    #[inline]
    pub fn siblings(&self, cpu: usize) -> &[usize] {
        &self.threads[cpu].siblings
    }

    /// The OPP at which `cpu` runs.
    pub fn opp(&self, cpu: usize) -> usize {
        let thread = &self.threads[cpu];
        thread.opp.min(thread.cap).min(thread.ramp)
    }

    /// The frequency at which `cpu` runs, relative to its highest, which is [`FULL`].
    pub fn frequency(&self, cpu: usize) -> u32 {
        let opps = &self.opps[self.threads[cpu].core_type];
        opps.get(self.opp(cpu))
            .map_or(FULL, |&(_, frequency)| frequency)
    }

    /// `scx_bpf_cpuperf_cur()`: the frequency at which `cpu` runs, relative to its highest, which is [`CPUPERF_ONE`].
    pub fn cpuperf_cur(&self, cpu: usize) -> u32 {
        ((u64::from(self.frequency(cpu)) * u64::from(CPUPERF_ONE)) >> 20) as u32
    }

    /// The work per nanosecond of `cpu`, in 1/2^20 of the reference, with this number of busy siblings.
    pub fn speed(&self, cpu: usize, busy: usize) -> u32 {
        let full = u64::from(self.threads[cpu].speeds[busy]);
        ((full * u64::from(self.kernel_speed(cpu))) >> 20).max(1) as u32
    }

    /// The speed of kernel code on `cpu`, relative to that at its highest frequency, which is [`FULL`].
    pub fn kernel_speed(&self, cpu: usize) -> u32 {
        let frequency = self.frequency(cpu);
        match self.share {
            FULL => frequency,
            share => ((u64::from(frequency) * u64::from(share)) >> 20).max(1) as u32,
        }
    }

    /// Do the CPUs take turns on the CPUs of a host?
    #[inline]
    pub fn are_virtual(&self) -> bool {
        self.host.is_some()
    }

    /// Sets the number of busy CPUs. Returns whether that changes their speeds.
    pub fn set_busy(&mut self, busy: usize) -> bool {
        let (host, busy) = (self.host.unwrap_or(u32::MAX), busy as u32);
        let share = match busy > host {
            true => (u64::from(FULL) * u64::from(host) / u64::from(busy)) as u32,
            false => FULL,
        };
        share != std::mem::replace(&mut self.share, share)
    }

    /// The time, in ns, in which a busy CPU gets `ns` of a CPU of the host.
    #[inline]
    pub fn shared(&self, ns: u64) -> u64 {
        time_for(ns, self.share)
    }

    /// Sets the OPP of the cpufreq policy of `cpu`.
    pub fn set_opp(&mut self, cpu: usize, opp: usize) {
        self.threads[cpu].opp = opp;
    }

    /// The OPP that the frequency of the core of `cpu` has reached.
    pub fn ramp(&self, cpu: usize) -> usize {
        self.threads[cpu].ramp
    }

    /// Sets the OPP that the frequency of the core of `cpu` has reached.
    pub fn set_ramp(&mut self, cpu: usize, opp: usize) {
        self.threads[cpu].ramp = opp;
    }

    /// Limits `cpu` to the fastest OPP of at most `khz`, or to its slowest OPP: the hardware's limit.
    pub fn set_cap(&mut self, cpu: usize, khz: u32) {
        let thread = &mut self.threads[cpu];
        let opps = &self.opps[thread.core_type];
        thread.cap = opps.partition_point(|&(opp, _)| opp <= khz).max(1) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_what_is_asked_for_and_what_is_allowed() {
        // 208, 432, 729, 960 and 1200 MHz.
        let mut cores = Cores::new(&Machine::find("hikey-6220").unwrap());
        let full = cores.speed(0, 0);
        assert_eq!((cores.opp(0), cores.cpuperf_cur(0)), (4, 1024));
        cores.set_opp(0, 3);
        assert_eq!((cores.opp(0), cores.cpuperf_cur(0)), (3, 819));
        assert_eq!(cores.speed(0, 0), (u64::from(full) * 960 / 1200) as u32);
        cores.set_cap(0, 500_000);
        assert_eq!(cores.opp(0), 1);
        cores.set_cap(0, 100_000);
        assert_eq!(cores.opp(0), 0);
        cores.set_cap(0, 1_200_000);
        assert_eq!((cores.opp(0), cores.opp(1)), (3, 4));
    }

    #[test]
    fn virtual_cpus_take_turns() {
        let mut machine = Machine::find("smp-8").unwrap();
        let alone = Cores::new(&machine).speed(0, 0);
        machine.host_cpus = Some(2);
        let mut cores = Cores::new(&machine);
        assert!(!cores.set_busy(2));
        assert_eq!((cores.speed(0, 0), cores.shared(300)), (alone, 300));
        assert!(cores.set_busy(3) && !cores.set_busy(3));
        assert_eq!(
            cores.speed(0, 0),
            ((u64::from(alone) * u64::from(FULL * 2 / 3)) >> 20) as u32
        );
        assert_eq!(cores.shared(300), 451);
        assert!(cores.set_busy(1));
        assert_eq!(cores.speed(0, 0), alone);
    }

    #[test]
    fn busy_siblings_slow_a_thread_down() {
        let machine = Machine::find("smt-4").unwrap();
        let cores = Cores::new(&machine);
        let [sibling] = *cores.siblings(0) else {
            panic!("expected two threads a core")
        };
        assert_eq!(cores.siblings(sibling), [0]);
        assert_eq!(cores.speed(0, 0), machine.thread_speed(0, 1));
        assert_eq!(cores.speed(0, 1), machine.thread_speed(0, 2));
        assert!(cores.speed(0, 1) < cores.speed(0, 0));
    }
}
