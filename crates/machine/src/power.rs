//! The power of a machine's parts: of cores by their activity, of clusters and packages by whether
//! any of their CPUs is busy, and of the rest.
//!
//! Powers are whole milliwatts. A milliwatt for a nanosecond is a picojoule, so energy is a sum of
//! integers and does not depend on the order of addition.

use crate::{CoreType, CpuMask, Machine};

/// The power of a machine's parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Power {
    /// The power of everything outside packages, in mW. It is independent of the CPUs: memory, disks, fans, losses of
    /// the supply.
    pub rest_mw: u32,
    /// The power of each package, without its clusters and cores (the uncore).
    pub package: PartPower,
    /// The power of each cluster, without its cores.
    pub cluster: PartPower,
}

/// The power of a core, cluster or package apart from that of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartPower {
    /// The power while any of the part's CPUs is busy, and until the part enters an idle state, in mW.
    pub active_mw: u32,
    /// The part's idle states, from the shallowest to the deepest.
    pub idle: Vec<PartIdle>,
}

/// An idle state of a core, cluster or package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartIdle {
    /// The time for which all of the part's CPUs must have been idle before the part enters this state, in ns.
    pub residency_ns: u64,
    /// The power in this state, in mW.
    pub power_mw: u32,
    /// The energy for entering and leaving this state, in pJ.
    pub entry_pj: u64,
}

/// The power of a core of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorePower {
    /// The power while one hardware thread runs a busy loop at the highest OPP, in mW. At another OPP this power scales
    /// with frequency times voltage squared.
    pub dynamic_mw: u32,
    /// The dynamic power of all hardware threads of the core together, relative to that of one thread, in units of
    /// 1/2^20.
    pub smt_dynamic: u32,
    /// The power of a core that is not in an idle state, busy or not, at the highest OPP, in mW. At another OPP this
    /// power scales with voltage squared.
    pub static_mw: u32,
}

/// The hardware's limits of the speed of a package's cores, below the requested frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turbo {
    /// For each core type, the highest frequencies in kHz: the first value is for one active core, the second value is
    /// for two, and the last value is also for more. No value exceeds the previous one.
    pub khz: Vec<Vec<u32>>,
    /// Whether only active cores of the same type count.
    pub by_core: bool,
    /// The interval at which the package's control unit adjusts frequencies, in ns.
    pub interval_ns: u64,
    /// The limit on the package's average power; `None` if the package never reaches the limit, or if the limit is
    /// unknown.
    pub limit: Option<PowerLimit>,
}

/// The limit on a package's average power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerLimit {
    /// The limit for cores, clusters and uncore together, in mW.
    pub mw: u32,
    /// The window of the (exponential) average, in ns.
    pub window_ns: u64,
}

/// The activity of a task that draws as much power as a busy loop.
pub const BUSY_LOOP: u32 = 1024;

impl CorePower {
    /// The power in mW of one of `busy` threads that run a busy loop on a core of type `core` with `threads` threads,
    /// at OPP `opp`. The threads' power grows in equal steps from one busy thread to all, and is divided equally among
    /// them.
    pub fn thread_mw(&self, core: &CoreType, opp: usize, busy: usize, threads: usize) -> u32 {
        let (khz, voltage) = opp_ratios(core, opp);
        let mut mw = f64::from(self.dynamic_mw) * khz * voltage * voltage;
        if threads > 1 {
            let gain = f64::from(self.smt_dynamic) / f64::from(1 << 20) - 1.0;
            mw *= 1.0 + gain * (busy as f64 - 1.0) / (threads as f64 - 1.0);
        }
        (mw / busy as f64).round() as u32
    }

    /// The additional power of the core outside idle states, in mW, at OPP `opp` of `core`.
    pub fn static_mw(&self, core: &CoreType, opp: usize) -> u32 {
        let (_, voltage) = opp_ratios(core, opp);
        (f64::from(self.static_mw) * voltage * voltage).round() as u32
    }
}

/// The frequency and the voltage at OPP `opp`, relative to those at the highest OPP. Unknown voltages are assumed
/// constant.
pub fn opp_ratios(core: &CoreType, opp: usize) -> (f64, f64) {
    let (Some(opp), Some(highest)) = (core.opps.get(opp), core.opps.last()) else {
        return (1.0, 1.0);
    };
    let voltage = match (opp.microvolt, highest.microvolt) {
        (Some(microvolt), Some(highest)) => f64::from(microvolt) / f64::from(highest),
        _ => 1.0,
    };
    (f64::from(opp.khz) / f64::from(highest.khz), voltage)
}

impl Turbo {
    /// The highest frequency in kHz of a core type while this number of cores is active.
    pub fn khz_for(&self, core_type: usize, active: usize) -> u32 {
        let khz = &self.khz[core_type];
        khz[active.clamp(1, khz.len()) - 1]
    }
}

impl Machine {
    /// The packages, or sockets; each online CPU is in exactly one package.
    pub fn packages(&self) -> &[CpuMask] {
        let pkg = self.levels.iter().find(|level| level.name == "PKG");
        pkg.map_or(self.clusters(), |level| &level.spans)
    }
}
