//! What a machine's parts draw: cores by what they do, clusters and packages by whether any of their
//! CPUs is busy, and the rest of it.
//!
//! Powers are whole milliwatts. A milliwatt for a nanosecond is a picojoule, so energy is a sum of whole
//! numbers and comes out the same in whatever order it is added.

use crate::{CoreType, CpuMask, Machine};

/// How much power a machine's parts draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Power {
    /// Everything that is no package, whatever the CPUs do: memory, disks, fans, losses of the supply;
    /// mW.
    pub rest_mw: u32,
    /// Each package, without its clusters and cores: the uncore.
    pub package: PartPower,
    /// Each cluster, without its cores.
    pub cluster: PartPower,
}

/// Of a core, cluster or package: what it draws besides what its parts do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartPower {
    /// While any of its CPUs is busy, and until it enters an idle state, mW.
    pub active_mw: u32,
    /// Its idle states, from the shallowest to the deepest.
    pub idle: Vec<PartIdle>,
}

/// An idle state of a core, cluster or package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartIdle {
    /// It is entered once all of the part's CPUs have been idle for so long, ns.
    pub residency_ns: u64,
    /// mW.
    pub power_mw: u32,
    /// What entering and leaving it takes besides, pJ.
    pub entry_pj: u64,
}

/// What a core of one type draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorePower {
    /// While one hardware thread runs a busy loop at the highest OPP, mW. At another OPP it is this by
    /// the ratio of frequency times voltage squared.
    pub dynamic_mw: u32,
    /// What all its hardware threads draw so, of what one does, in units of 1/2^20.
    pub smt_dynamic: u32,
    /// While it is not in an idle state, busy or not, at the highest OPP, mW. At another OPP it is this
    /// by the ratio of voltage squared.
    pub static_mw: u32,
}

/// How fast the hardware lets a package's cores run, below what software asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turbo {
    /// By core type: the highest frequency with so many cores active, the first number for one, the last for more,
    /// too; kHz, never rising.
    pub khz: Vec<Vec<u32>>,
    /// Only active cores of the same type count.
    pub by_core: bool,
    /// How often the package's control unit looks, ns.
    pub interval_ns: u64,
    /// What the package may draw on average; `None` if it draws less anyway, or that is not known.
    pub limit: Option<PowerLimit>,
}

/// What a package may draw on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerLimit {
    /// Cores, clusters and uncore together, mW.
    pub mw: u32,
    /// Over how long that average is (an exponential one), ns.
    pub window_ns: u64,
}

/// A task's activity that draws what a busy loop does.
pub const BUSY_LOOP: u32 = 1024;

impl CorePower {
    /// What one of `busy` busy threads of `threads` draws, mW, on a core of `core` at OPP `opp`, in a busy
    /// loop. The threads' power grows in equal steps from one to all, and counts as theirs equally.
    pub fn thread_mw(&self, core: &CoreType, opp: usize, busy: usize, threads: usize) -> u32 {
        let (khz, voltage) = opp_ratios(core, opp);
        let mut mw = f64::from(self.dynamic_mw) * khz * voltage * voltage;
        if threads > 1 {
            let gain = f64::from(self.smt_dynamic) / f64::from(1 << 20) - 1.0;
            mw *= 1.0 + gain * (busy as f64 - 1.0) / (threads as f64 - 1.0);
        }
        (mw / busy as f64).round() as u32
    }

    /// What the core draws besides while it is in no idle state, mW, at OPP `opp` of `core`.
    pub fn static_mw(&self, core: &CoreType, opp: usize) -> u32 {
        let (_, voltage) = opp_ratios(core, opp);
        (f64::from(self.static_mw) * voltage * voltage).round() as u32
    }
}

/// Frequency and voltage at OPP `opp`, of those at the highest. Where voltages are not known they do not
/// change.
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
    /// The highest frequency of a core type with so many active cores, kHz.
    pub fn khz_for(&self, core_type: usize, active: usize) -> u32 {
        let khz = &self.khz[core_type];
        khz[active.clamp(1, khz.len()) - 1]
    }
}

impl Machine {
    /// The packages, of which each CPU is in one: a socket.
    pub fn packages(&self) -> &[CpuMask] {
        let pkg = self.levels.iter().find(|level| level.name == "PKG");
        pkg.map_or(self.clusters(), |level| &level.spans)
    }
}
