//! The frequencies of CPUs, and the CPUs that share a frequency.

use crate::{CoreType, CpuMask, Machine};

/// The changes of frequencies on a machine: its cpufreq policies, and the costs of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpufreq {
    /// The CPUs of each policy, which run at one frequency and have the same OPPs. Each online CPU is in exactly one
    /// policy. The policies are sorted by first CPU, as in `/sys/devices/system/cpu/cpufreq/policy*`.
    pub policies: Vec<CpuMask>,
    /// The time from a request for another frequency until the hardware runs at that frequency
    /// (`cpuinfo_transition_latency`), in ns.
    pub transition_latency_ns: u64,
    /// schedutil's minimum interval between changes (`rate_limit_us`), in ns.
    pub rate_limit_ns: u64,
    /// The governor of the frequencies.
    pub governor: Governor,
    /// The ramp with which a processor that sets the frequencies changes them; `None` if frequencies change at once.
    pub ramp: Option<Ramp>,
}

/// The ramp of a core's frequency, which rises linearly from the lowest to the highest while one of the core's CPUs is
/// busy, and falls back while they idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// The time from the lowest frequency to the highest, in ns.
    pub up_ns: u64,
    /// The time from the highest frequency to the lowest, in ns.
    pub down_ns: u64,
}

/// A machine's governor of frequencies. Only schedutil follows a scheduler's requests (`scx_bpf_cpuperf_set()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Governor {
    /// Linux sets the frequency, by the utilization that the scheduler reports.
    #[default]
    Schedutil,
    /// No governor changes the frequency, which is always the highest.
    Performance,
    /// The processor sets the frequency, by Intel's hardware-managed P-states (intel_pstate's active mode).
    Hwp(Preference),
    /// The processor sets the frequency, by AMD's CPPC (amd-pstate's active mode).
    AmdPstate(Preference),
}

/// `energy_performance_preference`: the goal set in the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Preference {
    Performance,
    BalancePerformance,
    BalancePower,
    Power,
}

impl Preference {
    /// All preferences, with the kernel's words.
    pub const ALL: [(&str, Preference); 4] = [
        ("performance", Preference::Performance),
        ("balance_performance", Preference::BalancePerformance),
        ("balance_power", Preference::BalancePower),
        ("power", Preference::Power),
    ];

    /// The kernel's word.
    pub fn name(self) -> &'static str {
        let found = Preference::ALL.iter().find(|(_, one)| *one == self);
        found.expect("all are there").0
    }
}

impl Governor {
    /// The machine file's word.
    pub fn kind(self) -> &'static str {
        match self {
            Governor::Schedutil => "schedutil",
            Governor::Performance => "performance",
            Governor::Hwp(_) => "hwp",
            Governor::AmdPstate(_) => "amd-pstate",
        }
    }

    /// The preference of a processor that sets the frequency; `None` for another governor.
    pub fn preference(self) -> Option<Preference> {
        match self {
            Governor::Schedutil | Governor::Performance => None,
            Governor::Hwp(preference) | Governor::AmdPstate(preference) => Some(preference),
        }
    }
}

/// Writes the governor and, if there is one, the preference: `hwp, balance_performance`.
impl std::fmt::Display for Governor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind())?;
        match self.preference() {
            Some(preference) => write!(f, ", {}", preference.name()),
            None => Ok(()),
        }
    }
}

impl Cpufreq {
    /// Linux 6.12's default of schedutil's `rate_limit_us`, in ns, if the driver has none
    /// (`cpufreq_policy_transition_delay_us()` in drivers/cpufreq/cpufreq.c): 1.5 times the transition latency, or 1 ms
    /// if the latency is less than 1 us.
    pub fn default_rate_limit_ns(transition_latency_ns: u64) -> u64 {
        match transition_latency_ns / 1000 {
            0 => 1_000_000,
            us => (us + us / 2) * 1000,
        }
    }
}

/// An operating performance point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opp {
    /// The frequency, in kHz.
    pub khz: u32,
    /// The supply voltage, in uV; `None` if unknown.
    pub microvolt: Option<u32>,
}

impl CoreType {
    /// The number of the core type's speeds: the number of its OPPs, or one if it has none.
    pub fn nr_opps(&self) -> usize {
        self.opps.len().max(1)
    }

    /// The speed or capacity at OPP `opp`, where `full` is the value at the highest frequency. Both are assumed to be
    /// proportional to the frequency.
    pub fn at_opp(&self, full: u32, opp: usize) -> u32 {
        match (self.opps.get(opp), self.opps.last()) {
            (Some(opp), Some(highest)) => {
                (u64::from(full) * u64::from(opp.khz) / u64::from(highest.khz)) as u32
            }
            _ => full,
        }
    }
}

impl Machine {
    /// Do frequencies follow the scheduler's requests?
    pub fn follows_requests(&self) -> bool {
        let governor = self.cpufreq.as_ref().map(|cpufreq| cpufreq.governor);
        governor == Some(Governor::Schedutil)
    }

    /// The cpufreq policies: the CPUs that share a frequency. Each online CPU is in exactly one policy; if frequencies
    /// never change, each CPU has a policy of its own.
    pub fn policies(&self) -> Vec<CpuMask> {
        match &self.cpufreq {
            Some(cpufreq) => cpufreq.policies.clone(),
            None => (0..self.cpus.len()).map(CpuMask::one).collect(),
        }
    }
}
