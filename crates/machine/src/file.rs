//! The machine file: its TOML shape. `docs/machine-format.md` has every key with its unit, and examples.

mod callbacks;
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
use crate::{Driver, IdleGovernor, Machine, Spinlock};
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
    description: Option<Spanned<String>>,
    /// The default is [`DEFAULT_HZ`].
    hz: Option<Spanned<u32>>,
    #[serde(default)]
    idle_governor: IdleGovernor,
    irq_time_accounting: Option<bool>,
    /// The number of the host's CPUs. By default, the machine is not virtual.
    host_cpus: Option<Spanned<u32>>,
    /// CPUs that have a number but do not exist or are off.
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
    #[serde(default)]
    callbacks: BTreeMap<String, CallbacksFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [callbacks.NAME]")]
struct CallbacksFile {
    #[serde(rename = "source")]
    _source: String,
    select_cpu: Option<Spanned<u64>>,
    enqueue: Option<Spanned<u64>>,
    dequeue: Option<Spanned<u64>>,
    dispatch: Option<Spanned<u64>>,
    tick: Option<Spanned<u64>>,
    runnable: Option<Spanned<u64>>,
    running: Option<Spanned<u64>>,
    stopping: Option<Spanned<u64>>,
    quiescent: Option<Spanned<u64>>,
    r#yield: Option<Spanned<u64>>,
    update_idle: Option<Spanned<u64>>,
    set_weight: Option<Spanned<u64>>,
    init_task: Option<Spanned<u64>>,
    exit_task: Option<Spanned<u64>>,
    enable: Option<Spanned<u64>>,
    disable: Option<Spanned<u64>>,
    sched_switch: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the table [memory]")]
struct MemoryFile {
    #[serde(rename = "source")]
    _source: String,
    cached_ns: Spanned<u64>,
    line_ns: Spanned<Vec<Spanned<u64>>>,
    lock_ns: Spanned<u64>,
    #[serde(default)]
    spinlock: Spinlock,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [core.NAME]")]
struct CoreFile {
    /// By default, the capacity is proportional to the speed, where the fastest core type has 1024.
    capacity: Option<Spanned<u32>>,
    /// By default, speeds are proportional to the capacities.
    speed: Option<Spanned<SpeedFile>>,
    /// The throughput of all hardware threads of a core together, relative to one thread alone. The default is 1.
    smt_throughput: Option<Spanned<f64>>,
    costs: Option<CostsFile>,
    #[serde(default)]
    idle: Vec<IdleFile>,
    #[serde(default)]
    opp: Vec<OppFile>,
    power: Option<CorePowerFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with khz")]
struct OppFile {
    khz: Spanned<u32>,
    microvolt: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the table [cpufreq]")]
struct CpufreqFile {
    #[serde(rename = "source")]
    _source: String,
    shared_by: Spanned<SharedBy>,
    transition_latency_us: Spanned<u64>,
    /// schedutil's tunable of this name. The default is that of Linux 6.12; see `Cpufreq::default_rate_limit_ns`.
    rate_limit_us: Option<Spanned<u64>>,
    governor: Option<Spanned<GovernorFile>>,
    energy_performance_preference: Option<Spanned<String>>,
    ramp_up_us: Option<Spanned<u64>>,
    ramp_down_us: Option<Spanned<u64>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GovernorFile {
    Schedutil,
    Performance,
    Hwp,
    AmdPstate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the table [network]")]
struct NetworkFile {
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

/// The CPUs that form one cpufreq policy and run at one frequency: the CPUs of a unit, or lists.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected `core`, `cluster`, `package`, or the lists of CPUs that share a clock"
)]
enum SharedBy {
    Unit(Unit),
    Lists(Vec<String>),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Core,
    Cluster,
    Package,
}

/// The speed of a core type: the time for a fixed piece of work, or a rate of work. The unit is arbitrary but equal for
/// all core types of the file, because the machine's fastest core type is the reference.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { rate = 2048, of = \"the measured program\" }"
)]
struct SpeedFile {
    time: Option<Spanned<f64>>,
    rate: Option<Spanned<f64>>,
    /// The measured or calculated quantity, and its unit.
    #[serde(rename = "of")]
    _of: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of costs in ns")]
struct CostsFile {
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
    /// The default is 0.
    fair_class_ns: Option<Spanned<u64>>,
    /// The default is 0.
    ext_class_ns: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table with name, min_residency_us and exit_latency_us"
)]
struct IdleFile {
    name: String,
    min_residency_us: Spanned<u64>,
    exit_latency_us: Spanned<u64>,
    /// A core's power in this state, which is required if the machine has power data.
    power_mw: Option<Spanned<u32>>,
    /// The energy for entering and leaving this state.
    entry_uj: Option<Spanned<u32>>,
}

/// The power of a core; see [`crate::CorePower`].
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table with dynamic_mw and static_mw"
)]
struct CorePowerFile {
    #[serde(rename = "source")]
    _source: String,
    dynamic_mw: Spanned<u32>,
    smt_dynamic: Option<Spanned<f64>>,
    static_mw: Spanned<u32>,
}

/// The power of everything but the cores; see [`crate::Power`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the table [power]")]
struct PowerFile {
    #[serde(rename = "source")]
    _source: String,
    rest_mw: Spanned<u32>,
    package: Option<PartPowerFile>,
    cluster: Option<PartPowerFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with active_mw")]
struct PartPowerFile {
    active_mw: Spanned<u32>,
    #[serde(default)]
    idle: Vec<PartIdleFile>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table with residency_us and power_mw"
)]
struct PartIdleFile {
    residency_us: Spanned<u64>,
    power_mw: Spanned<u32>,
    entry_uj: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the table [turbo]")]
struct TurboFile {
    #[serde(rename = "source")]
    _source: String,
    khz: Spanned<TurboKhz>,
    interval_us: Spanned<u64>,
    limit_mw: Option<Spanned<u32>>,
    /// The window, which is required if `limit_mw` is given.
    window_ms: Option<Spanned<u64>>,
}

/// The highest frequencies with one active core, with two active cores, and so on.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a list of frequencies, or a table of such lists by core type"
)]
enum TurboKhz {
    /// One limit for all cores of the package, of any type.
    All(Vec<u32>),
    /// A limit for each core type, by the number of active cores of that type.
    ByCore(BTreeMap<String, Vec<u32>>),
}

/// The firmware's ranking of CPUs; see [`Machine::priorities`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "the table [preferred]")]
struct PreferredFile {
    #[serde(rename = "source")]
    _source: String,
    priority: Spanned<BTreeMap<Spanned<String>, Spanned<u32>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[package]]")]
struct PackageFile {
    cluster: Vec<ClusterFile>,
    #[serde(default)]
    cache: Vec<CacheFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with level and cpus")]
struct CacheFile {
    level: Spanned<u32>,
    cpus: Spanned<Vec<Spanned<String>>>,
    size_kib: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with core and cpus")]
struct ClusterFile {
    core: Spanned<String>,
    cpus: Spanned<String>,
    /// The number of hardware threads per core. If it is 2, the first half of `cpus` are the cores' first threads, and
    /// the second half, in the same order, are their second threads, as Linux numbers them on most machines.
    threads: Option<Spanned<usize>>,
    /// The hardware threads of each core, if Linux numbers them differently. Each CPU that is not listed is a core with
    /// one thread.
    siblings: Option<Spanned<Vec<Spanned<String>>>>,
}

impl Machine {
    /// Parses `text`, the content of `file`.
    pub fn parse(file: &str, text: &str) -> Result<Machine, Box<BadInput>> {
        Reader::new(file, text).machine(input::from_toml(file, text)?)
    }
}
