//! Changes of the machine at given times while a workload runs.

use machine::{CpuMask, Machine};

/// A change, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The time in ns since the run began.
    pub at_ns: u64,
    /// The change.
    pub change: Change,
}

/// A change of the machine, as user space makes it in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes 1 (true) or 0 to `/sys/devices/system/cpu/cpuN/online` of these CPUs, in order of
    /// their numbers. A CPU that is already in that state stays in it.
    Online(CpuMask, bool),
    /// Writes to `scaling_max_freq` of the cpufreq policies of these CPUs. Linux's thermal cooling
    /// sets the same limit.
    MaxFreq(CpuMask, Limit),
}

/// An upper limit on a frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The limit in kHz.
    Khz(u32),
    /// The limit in percent of the highest frequency, 1 to 100.
    Percent(u32),
}

impl Limit {
    /// The limit in kHz of a CPU whose highest frequency is `highest`.
    pub fn khz(self, highest: u32) -> u32 {
        match self {
            Limit::Khz(khz) => khz,
            Limit::Percent(percent) => (u64::from(highest) * u64::from(percent) / 100) as u32,
        }
    }
}

impl Change {
    /// Applies the change to `online`, the CPUs of `machine` that are online before the change. If it is impossible,
    /// the error says why and what was expected.
    pub fn check(
        &self,
        machine: &Machine,
        online: &mut CpuMask,
    ) -> Result<(), (String, &'static str)> {
        let (Change::Online(cpus, _) | Change::MaxFreq(cpus, _)) = self;
        let all = machine.all_cpus();
        if !cpus.is_subset(&all) {
            let message = format!("CPUs {cpus}: machine `{}` has CPUs {all}", machine.name);
            return Err((message, "expected CPUs that the machine has"));
        }
        match self {
            Change::Online(_, true) => *online = online.or(cpus),
            Change::Online(_, false) => {
                *online = online.without(cpus);
                if online.is_empty() {
                    let message = "no CPU is online after this change".to_owned();
                    return Err((message, "expected at least one CPU that stays online"));
                }
                let interrupts = |network: &&machine::Network| cpus.contains(network.irq_cpu);
                if let Some(network) = machine.network.as_ref().filter(interrupts) {
                    let cpu = network.irq_cpu;
                    let message = format!("CPU {cpu} handles the network adapter's interrupts");
                    return Err((message, "expected this CPU to stay online"));
                }
            }
            Change::MaxFreq(..) => {
                let has_one_speed =
                    |&cpu: &usize| machine.core_types[machine.cpus[cpu].core_type].nr_opps() == 1;
                let cpu = cpus.iter().find(has_one_speed);
                let cpu = cpu.or(cpus.first().filter(|_| machine.cpufreq.is_none()));
                if let Some(cpu) = cpu {
                    let message = format!(
                        "CPU {cpu} of machine `{}` has only one frequency",
                        machine.name
                    );
                    return Err((
                        message,
                        "expected CPUs whose core type has at least two OPPs",
                    ));
                }
            }
        }
        Ok(())
    }
}
