//! The frequencies that CPUs can run at, and which CPUs share one.

use crate::{CoreType, CpuMask, Machine};

/// How the machine changes frequencies: its cpufreq policies and what a change takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpufreq {
    /// The CPUs of each policy, which run at one frequency; disjoint, together all CPUs, and of one
    /// core type each. By their first CPU, as in `/sys/devices/system/cpu/cpufreq/policy*`.
    pub policies: Vec<CpuMask>,
    /// From asking the hardware for another frequency until it runs at it
    /// (`cpuinfo_transition_latency`), ns.
    pub transition_latency_ns: u64,
    /// schedutil leaves a new frequency alone for this long (`rate_limit_us`), ns.
    pub rate_limit_ns: u64,
    /// What decides on frequencies.
    pub governor: Governor,
}

/// What decides on the frequencies of a machine as it ships. Only schedutil looks at what a scheduler asks for
/// (`scx_bpf_cpuperf_set()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Governor {
    /// Linux: utilization as the scheduler tells it.
    #[default]
    Schedutil,
    /// Nothing: the highest frequency, always.
    Performance,
    /// The processor, by Intel's hardware-managed P-states (intel_pstate's active mode).
    Hwp(Preference),
    /// The processor, by AMD's CPPC (amd-pstate's active mode).
    AmdPstate(Preference),
}

/// `energy_performance_preference`: what the processor is told to aim at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Preference {
    Performance,
    BalancePerformance,
    BalancePower,
    Power,
}

impl Preference {
    /// All of them, by the kernel's words.
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

    /// What a processor that decides by itself aims at.
    pub fn preference(self) -> Option<Preference> {
        match self {
            Governor::Schedutil | Governor::Performance => None,
            Governor::Hwp(preference) | Governor::AmdPstate(preference) => Some(preference),
        }
    }
}

/// `hwp, balance_performance`
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
    /// What Linux 6.12 sets schedutil's `rate_limit_us` to where the driver does not say
    /// (`cpufreq_policy_transition_delay_us()` in drivers/cpufreq/cpufreq.c): one and a half times the
    /// transition latency, or 1 ms if that is less than 1 us; ns.
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
    /// Frequency, kHz.
    pub khz: u32,
    /// Supply voltage, uV; `None` where it is not known.
    pub microvolt: Option<u32>,
}

impl CoreType {
    /// How many speeds it has: its OPPs, or the only one.
    pub fn nr_opps(&self) -> usize {
        self.opps.len().max(1)
    }

    /// `full`, something in proportion to the frequency (speed, capacity), at OPP `opp`. Work is taken
    /// to be done in proportion to the frequency.
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
    /// Does a frequency follow what a scheduler asks for?
    pub fn follows_requests(&self) -> bool {
        let governor = self.cpufreq.as_ref().map(|cpufreq| cpufreq.governor);
        governor == Some(Governor::Schedutil)
    }

    /// The cpufreq policies: the CPUs that share a frequency. Each CPU is in one; where frequencies
    /// never change it is in one of its own.
    pub fn policies(&self) -> Vec<CpuMask> {
        match &self.cpufreq {
            Some(cpufreq) => cpufreq.policies.clone(),
            None => (0..self.cpus.len()).map(CpuMask::one).collect(),
        }
    }
}
