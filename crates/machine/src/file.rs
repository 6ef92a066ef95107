//! The machine file: its TOML shape, and what must hold for it to describe a machine.
//!
//! ```toml
//! name = "board"
//! description = "two fast cores"
//! hz = 250                                    # CONFIG_HZ
//! numa_distances = [[10, 20], [20, 10]]       # optional: from package to package, see Numa
//!
//! [core.cortex-a15]
//! capacity = 1024                             # cpu_capacity, 1024 = nominal
//! speed = { time = 16.47, of = "sysbench, s" } # or { rate = ..., of = ... }: see SpeedFile
//!
//! [core.cortex-a15.costs]                     # ns; see Costs
//! source = "where the numbers come from"
//! context_switch_ns = 3000
//! # ... every field of Costs
//!
//! [[core.cortex-a15.idle]]                    # from the shallowest to the deepest
//! name = "WFI"
//! min_residency_us = 1
//! exit_latency_us = 1
//!
//! [[core.cortex-a15.opp]]                     # from the slowest; without any: one speed
//! khz = 1_000_000
//! microvolt = 1_050_000                       # optional
//!
//! [cpufreq]                                   # where a core type has OPPs
//! source = "where the numbers come from"
//! shared_by = "cluster"                       # what a policy's CPUs share: core, cluster, package
//! transition_latency_us = 500
//! rate_limit_us = 10_000                      # optional, see CpufreqFile
//!
//! [network]                                   # optional: an adapter, see Network
//! source = "where the numbers come from"
//! driver = "napi"                             # or "usbnet", see Driver (default: napi)
//! link_kbit = 1_000_000
//! packet_bytes = 1448
//! irq_cpu = 0
//! irq_ns = 2_000
//! tx_packet_ns = 3_000
//! rx_packet_ns = 4_000
//!
//! [core.cortex-a15.power]                     # optional, then for all core types, with [power]
//! source = "where the numbers come from"
//! dynamic_mw = 1_200                          # and so on, see CorePower; idle states then have a
//! smt_dynamic = 1.0                           # power_mw, and perhaps an entry_uj
//! static_mw = 150
//!
//! [power]                                     # see Power
//! source = "where the numbers come from"
//! rest_mw = 2_000
//! cluster = { active_mw = 100, idle = [{ residency_us = 100, power_mw = 10, entry_uj = 5 }] }
//! package = { active_mw = 300 }
//!
//! [turbo]                                     # optional, see Turbo
//! source = "where the numbers come from"
//! khz = [1_200_000, 1_000_000]                # with one core active, with two, ...
//! interval_us = 1_000
//! limit_mw = 5_000                            # optional
//! window_ms = 1_000
//!
//! [[package]]
//! [[package.cluster]]                         # CPUs that share a last-level cache
//! core = "cortex-a15"
//! cpus = "0-1"
//! threads = 1                                 # hardware threads a core (default 1), see ClusterFile
//!
//! [memory]                                    # optional: what sharing memory costs, see Memory
//! source = "where the numbers come from"
//! cached_ns = 3
//! line_ns = [50, 200]                         # one for each distance that there is, rising
//! lock_ns = 100
//! spinlock = "queued"                         # or "ticket", as x86 had before Linux 4.2 (default: queued)
//! ```

mod cpufreq;
mod network;
mod numa;
mod power;
pub(crate) mod reader;

use crate::input::{self, BadInput};
use crate::{Driver, Machine, Spinlock};
use reader::Reader;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    name: Spanned<String>,
    description: String,
    hz: Spanned<u32>,
    core: BTreeMap<Spanned<String>, CoreFile>,
    cpufreq: Option<Spanned<CpufreqFile>>,
    network: Option<NetworkFile>,
    power: Option<Spanned<PowerFile>>,
    turbo: Option<Spanned<TurboFile>>,
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
    capacity: Spanned<u32>,
    speed: Spanned<SpeedFile>,
    /// What all hardware threads of a core do together, of what one does alone. Without it: 1.
    smt_throughput: Option<Spanned<f64>>,
    costs: CostsFile,
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
    context_switch_ns: Spanned<u64>,
    wakeup_ns: Spanned<u64>,
    ipi_near_ns: Spanned<u64>,
    ipi_far_ns: Spanned<u64>,
    tick_ns: Spanned<u64>,
    timer_irq_ns: Spanned<u64>,
    refill_near_ns: Spanned<u64>,
    refill_far_ns: Spanned<u64>,
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
    smt_dynamic: Spanned<f64>,
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
    khz: Spanned<Vec<u32>>,
    interval_us: Spanned<u64>,
    limit_mw: Option<Spanned<u32>>,
    window_ms: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageFile {
    cluster: Vec<ClusterFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    core: Spanned<String>,
    cpus: Spanned<String>,
    /// Hardware threads a core. With 2, the first half of `cpus` are the cores' first threads and the
    /// second half, in the same order, their second ones, as Linux numbers them on most machines.
    threads: Option<Spanned<usize>>,
}

impl Machine {
    /// The machine that `text`, the content of `file`, describes.
    pub fn parse(file: &str, text: &str) -> Result<Machine, Box<BadInput>> {
        Reader { file, text }.machine(input::from_toml(file, text)?)
    }
}
