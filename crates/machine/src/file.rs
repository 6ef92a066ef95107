//! The machine file: its TOML shape. `docs/machine-format.md` has every key with its unit, and examples.

mod core;
mod cpufreq;
#[cfg(test)]
mod documented;
mod network;
mod numa;
mod plausible;
mod power;
mod preferred;
mod reader;
pub(crate) mod topology;

use crate::input::{self, BadInput};
use crate::{Driver, Machine, Spinlock};
use reader::Reader;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// `CONFIG_HZ_250`, the kernel's default (kernel/Kconfig.hz).
const DEFAULT_HZ: u32 = 250;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    name: Spanned<String>,
    #[serde(default)]
    description: String,
    /// Without it: [`DEFAULT_HZ`].
    hz: Option<Spanned<u32>>,
    /// CPUs that have a number and are not there, or are off.
    offline: Option<Spanned<String>>,
    core: BTreeMap<Spanned<String>, CoreFile>,
    cpufreq: Option<Spanned<CpufreqFile>>,
    network: Option<NetworkFile>,
    power: Option<Spanned<PowerFile>>,
    turbo: Option<Spanned<TurboFile>>,
    preferred: Option<PreferredFile>,
    package: Spanned<Vec<PackageFile>>,
    numa_distances: Option<Spanned<Vec<Spanned<Vec<u32>>>>>,
    memory: Option<MemoryFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    cached_ns: Spanned<u64>,
    line_ns: Spanned<Vec<Spanned<u64>>>,
    lock_ns: Spanned<u64>,
    #[serde(default)]
    spinlock: Spinlock,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoreFile {
    /// Without it: the speed, of 1024 for the fastest.
    capacity: Option<Spanned<u32>>,
    /// Without it: as the capacities are to each other.
    speed: Option<Spanned<SpeedFile>>,
    /// What all hardware threads of a core do together, of what one does alone. Without it: 1.
    smt_throughput: Option<Spanned<f64>>,
    costs: Option<CostsFile>,
    #[serde(default)]
    idle: Vec<IdleFile>,
    #[serde(default)]
    opp: Vec<OppFile>,
    power: Option<CorePowerFile>,
}

/// An operating performance point. Speed and capacity are those of the core type, in the ratio of the
/// frequency to the highest one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OppFile {
    khz: Spanned<u32>,
    microvolt: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CpufreqFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    shared_by: SharedBy,
    transition_latency_us: Spanned<u64>,
    /// schedutil's tunable of this name. Without it: what Linux 6.12 sets it to, see
    /// `Cpufreq::default_rate_limit_ns`.
    rate_limit_us: Option<Spanned<u64>>,
    governor: Option<Spanned<GovernorFile>>,
    energy_performance_preference: Option<Spanned<String>>,
}

/// See `Governor`.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GovernorFile {
    Schedutil,
    Performance,
    Hwp,
    AmdPstate,
}

/// See `Network`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    #[serde(default)]
    driver: Driver,
    link_kbit: Spanned<u64>,
    packet_bytes: Spanned<u64>,
    irq_cpu: Spanned<usize>,
    irq_ns: Spanned<u64>,
    tx_packet_ns: Spanned<u64>,
    rx_packet_ns: Spanned<u64>,
}

/// The CPUs of one cpufreq policy, which run at one frequency, are those of one ...
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SharedBy {
    Core,
    Cluster,
    Package,
}

/// How fast a core type is: either the time that some fixed piece of work takes on it, or a rate of
/// doing work. The unit does not matter, only that it is the same on all core types of the file: the
/// machine's fastest core type is the reference.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpeedFile {
    time: Option<Spanned<f64>>,
    rate: Option<Spanned<f64>>,
    /// What was measured or calculated, and its unit.
    #[serde(rename = "of")]
    _of: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostsFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    context_switch_ns: Option<Spanned<u64>>,
    wakeup_ns: Option<Spanned<u64>>,
    ipi_near_ns: Option<Spanned<u64>>,
    ipi_far_ns: Option<Spanned<u64>>,
    tick_ns: Option<Spanned<u64>>,
    timer_irq_ns: Option<Spanned<u64>>,
    refill_near_ns: Option<Spanned<u64>>,
    refill_far_ns: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdleFile {
    name: String,
    min_residency_us: Spanned<u64>,
    exit_latency_us: Spanned<u64>,
    /// What a core draws in it; needed where the machine has power.
    power_mw: Option<Spanned<u32>>,
    /// What entering and leaving it takes besides.
    entry_uj: Option<Spanned<u32>>,
}

/// What a core draws; see [`crate::CorePower`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CorePowerFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    dynamic_mw: Spanned<u32>,
    smt_dynamic: Option<Spanned<f64>>,
    static_mw: Spanned<u32>,
}

/// What everything but the cores draws; see [`crate::Power`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    rest_mw: Spanned<u32>,
    package: Option<PartPowerFile>,
    cluster: Option<PartPowerFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartPowerFile {
    active_mw: Spanned<u32>,
    #[serde(default)]
    idle: Vec<PartIdleFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartIdleFile {
    residency_us: Spanned<u64>,
    power_mw: Spanned<u32>,
    entry_uj: Option<Spanned<u32>>,
}

/// See [`crate::Turbo`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurboFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    khz: Spanned<TurboKhz>,
    interval_us: Spanned<u64>,
    limit_mw: Option<Spanned<u32>>,
    /// Needed where there is a limit.
    window_ms: Option<Spanned<u64>>,
}

/// The highest frequencies with one active core, with two, ...
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a list of frequencies, or a table of such lists by core type"
)]
enum TurboKhz {
    /// Of all cores of the package, whatever their type.
    All(Vec<u32>),
    /// By core type, and by how many cores of that type are active.
    ByCore(BTreeMap<String, Vec<u32>>),
}

/// How the firmware ranks CPUs; see [`Machine::priorities`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreferredFile {
    /// Where the numbers come from.
    #[serde(rename = "source")]
    _source: String,
    /// By lists of CPUs.
    priority: Spanned<BTreeMap<Spanned<String>, Spanned<u32>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageFile {
    cluster: Vec<ClusterFile>,
    #[serde(default)]
    cache: Vec<CacheFile>,
}

/// Caches of one level and size; see [`crate::Cache`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheFile {
    level: Spanned<u32>,
    /// The CPUs of each.
    cpus: Spanned<Vec<Spanned<String>>>,
    size_kib: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    core: Spanned<String>,
    cpus: Spanned<String>,
    /// Hardware threads a core. With 2, the first half of `cpus` are the cores' first threads and the
    /// second half, in the same order, their second ones, as Linux numbers them on most machines.
    threads: Option<Spanned<usize>>,
    /// The hardware threads of each core, where Linux numbers them otherwise. CPUs that are in none are cores of
    /// one thread.
    siblings: Option<Spanned<Vec<Spanned<String>>>>,
}

impl Machine {
    /// The machine that `text`, the content of `file`, describes.
    pub fn parse(file: &str, text: &str) -> Result<Machine, Box<BadInput>> {
        Reader::new(file, text).machine(input::from_toml(file, text)?)
    }
}
