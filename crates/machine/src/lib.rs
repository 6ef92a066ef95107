//! Machines: CPUs, their grouping and speed, and the costs of kernel operations; and bad input and counts, which all
//! crates report in the same way. Of the project's crates, `machine` depends only on `cage`.
//!
//! - A [`Machine`] is described in TOML (`machines/*.toml`, `docs/machine-format.md`); see
//!   [`Machine::find`] and [`Machine::load`].
//! - A [`CpuMask`] is a set of CPUs.
//! - [`input::BadInput`] has the file, the line, what is wrong and what was expected.
//!
//! ```
//! use machine::Machine;
//!
//! let machine = Machine::find("rk3588")?;
//! let clusters: Vec<String> = machine.clusters().iter().map(|span| span.to_string()).collect();
//! assert_eq!(clusters, ["0-3", "4-5", "6-7"]);
//! assert!(Machine::find("rk3589").unwrap_err().expected().contains("did you mean `rk3588`"));
//! # Ok::<(), Box<machine::input::BadInput>>(())
//! ```

#[cfg(feature = "arbitrary")]
pub mod arbitrary;
mod builtin;
mod callbacks;
mod cpufreq;
mod file;
mod gaps;
pub mod input;
pub mod limits;
mod mask;
mod network;
mod numa;
mod power;
mod words;

pub use callbacks::{CALLBACKS, Callbacks, LONGEST_COSTS_S};
pub use cpufreq::{Cpufreq, Governor, Opp, Preference, Ramp};
pub use mask::{CpuMask, MAX_CPUS};
pub use network::{Driver, Network};
pub use numa::{LOCAL_DISTANCE, Memory, Numa, REMOTE_DISTANCE, Spinlock};
pub use power::{BUSY_LOOP, CorePower, PartIdle, PartPower, Power, PowerLimit, Turbo, opp_ratios};
pub use words::counted;

use serde::Deserialize;
use std::collections::BTreeMap;

/// A machine, as seen by the simulated kernel and by the user space part of the scheduler.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The name that `--machine` takes.
    pub name: String,
    /// A description of one line.
    pub description: String,
    /// The number of scheduler ticks per second (the kernel's CONFIG_HZ).
    pub hz: u32,
    /// The choice of a CPU's idle state.
    pub idle_governor: IdleGovernor,
    /// Whether the time of interrupts is charged to the task that they interrupt, as in a kernel without
    /// CONFIG_IRQ_TIME_ACCOUNTING.
    pub irq_time_in_tasks: bool,
    /// The number of the host's CPUs that execute the machine's CPUs, if the machine is virtual.
    pub host_cpus: Option<u32>,
    /// The CPUs, in CPU-number order; at least one, at most [`MAX_CPUS`].
    pub cpus: Vec<Cpu>,
    /// The offline CPUs of `cpus`, which are in no level and run nothing.
    pub offline: CpuMask,
    /// Whether CPUs have gone offline or come online since boot, so that the kernel has rebuilt its
    /// sched domains.
    pub rebuilt: bool,
    /// The core types that [`Cpu::core_type`] indexes.
    pub core_types: Vec<CoreType>,
    /// The topology levels from the smallest span to the largest, as in the kernel's `sched_domain_topology`: SMT, CLS
    /// (a second-level cache of several cores), MC (last-level cache or cluster), PKG, NUMA (a level for each distance
    /// of nodes). Redundant levels are included; building the sched domains removes them.
    pub levels: Vec<Level>,
    /// The clusters: CPUs of one core type that share a cache, and may share a clock. If the list is empty, the
    /// clusters are the last-level caches.
    pub clusters: Vec<CpuMask>,
    /// The caches in the machine file, sorted by level, then by first CPU.
    pub caches: Vec<Cache>,
    /// The changes of frequencies; `None` if every CPU has one speed.
    pub cpufreq: Option<Cpufreq>,
    /// The machine's network adapter, if any.
    pub network: Option<Network>,
    /// Whether the kernel's cpufreq governor adds a margin, and the utilization by real-time tasks, deadline tasks and
    /// interrupts, to a scheduler's request, as Linux 6.12's schedutil does. The simulated kernel's governor does not.
    pub governor_adds: bool,
    /// The distances between the machine's packages, each of which is a NUMA node.
    pub numa: Numa,
    /// The power of the machine's parts; `None` if unknown.
    pub power: Option<Power>,
    /// Limits below the requested frequency; `None` if there are none.
    pub turbo: Option<Turbo>,
    /// The firmware's preference for each CPU, as Linux on x86 uses it (ITMT, AMD's preferred cores); empty if the
    /// firmware has no preference. See [`Machine::linux_capacity`].
    pub priorities: Vec<u32>,
    /// The costs of schedulers' callbacks, by the scheduler's name. The callbacks of schedulers that are not listed
    /// take no time.
    pub callbacks: BTreeMap<String, Callbacks>,
    /// Oddities of the description that are not errors: one line each, with file and line.
    pub warnings: Vec<String>,
}

/// The choice of the state that an idle CPU enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdleGovernor {
    /// The deepest state whose `min_residency_ns` the idle period reaches, as if the end of the period were known.
    #[default]
    Exact,
    /// Linux 3.10's menu, which predicts the end of the idle period (drivers/cpuidle/governors/menu.c).
    Menu,
}

/// One logical CPU.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// An index into [`Machine::core_types`].
    pub core_type: usize,
    /// The scheduler's view of the CPU's compute capacity (`cpu_power`, `cpu_capacity`) at its highest frequency, where
    /// 1024 is the nominal capacity.
    pub capacity: u32,
}

/// A cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The cache's level, such as 2 for an L2.
    pub level: u32,
    /// The CPUs that share the cache.
    pub cpus: CpuMask,
    /// The size in KiB, if known.
    pub size_kib: Option<u32>,
}

/// The common properties of cores of one type.
#[derive(Clone, Debug, Default)]
pub struct CoreType {
    /// The core type's name, such as `cortex-a15`.
    pub name: String,
    /// The work per nanosecond at the highest frequency, relative to the machine's fastest core type, in units of
    /// 1/2^20: `1 << 20` is full speed. See [`Machine::time_for`].
    pub speed: u32,
    /// The throughput of all hardware threads of a core when all are busy, relative to one thread alone, in units of
    /// 1/2^20: `1 << 20` is no gain. See [`Machine::thread_speed`].
    pub smt_throughput: u32,
    /// The costs of kernel operations on such a core, at the highest frequency.
    pub costs: Costs,
    /// The keys of `costs` that the file omits; see [`Costs::usual`].
    pub usual_costs: Vec<&'static str>,
    /// The operating performance points from the slowest to the fastest; empty if there is only one speed.
    pub opps: Vec<Opp>,
    /// The cpuidle states from the shallowest to the deepest, among which [`Machine::idle_governor`] chooses.
    pub idle_states: Vec<IdleState>,
    /// The power of a core, if the machine's power is known.
    pub power: Option<CorePower>,
}

/// Costs of kernel operations on one kind of core, in ns of that core's own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The time from the decision to switch until the next task's first instruction.
    pub context_switch_ns: u64,
    /// The waking CPU's time in `try_to_wake_up()`.
    pub wakeup_ns: u64,
    /// The time from sending a reschedule IPI until the target CPU handles it, within a last-level cache.
    pub ipi_near_ns: u64,
    /// The IPI's time across last-level caches; see `ipi_near_ns`.
    pub ipi_far_ns: u64,
    /// The time of the timer tick.
    pub tick_ns: u64,
    /// The time from a timer's expiry until its handler has woken its task (interrupt entry and
    /// handler).
    pub timer_irq_ns: u64,
    /// The cost of cold caches: fetching a line of [`CACHE_LINE`] bytes after a migration within a last-level cache. A
    /// migrated task pays this cost for each line of its footprint.
    pub refill_near_ns: u64,
    /// The cost of fetching a line after a migration across last-level caches; see `refill_near_ns`.
    pub refill_far_ns: u64,
    /// The part of the sum of `wakeup_ns` and `context_switch_ns` that Linux's fair class spends, and the time
    /// that sched_ext spends instead, without the scheduler's callbacks. These costs count only for schedulers
    /// whose callbacks take time ([`Machine::callbacks`]).
    pub fair_class_ns: u64,
    /// The time of sched_ext; see `fair_class_ns`.
    pub ext_class_ns: u64,
}

impl Costs {
    /// The costs that are used if a machine file omits them. They are round numbers in the range that perf bench sched
    /// and cyclictest show on x86 servers and desktops of the last decade. Costs of the core's own work grow with
    /// `reference`, which is 1 for a fast core at 3 GHz, and 2 for a core of half that speed.
    pub fn usual(reference: f64) -> Costs {
        let core = |ns: f64| ((ns * reference / 100.0).round() as u64).saturating_mul(100);
        Costs {
            context_switch_ns: core(1_000.0),
            wakeup_ns: core(1_000.0),
            ipi_near_ns: 500,
            ipi_far_ns: 1_000,
            tick_ns: core(2_000.0),
            timer_irq_ns: core(1_500.0),
            refill_near_ns: 10,
            refill_far_ns: 80,
            fair_class_ns: 0,
            ext_class_ns: 0,
        }
    }
}

/// The number of bytes in a cache line, which is assumed for every machine.
pub const CACHE_LINE: u64 = 64;

/// The largest number of idle states of a core type (the kernel's CPUIDLE_STATE_MAX).
pub const MAX_IDLE_STATES: usize = 10;

/// One cpuidle state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleState {
    /// The name, as in `/sys/devices/system/cpu/cpu*/cpuidle/state*/name`, such as `WFI`.
    pub name: String,
    /// The shortest idle period for which a CPU enters the state, in ns.
    pub min_residency_ns: u64,
    /// The time to leave the state, in ns.
    pub exit_latency_ns: u64,
    /// A core's power in the state, in mW; 0 if unknown.
    pub power_mw: u32,
    /// The energy for entering and leaving the state, in pJ.
    pub entry_pj: u64,
}

/// One topology level: a partition of the machine's online CPUs.
#[derive(Clone, Debug)]
pub struct Level {
    /// `SMT`, `CLS`, `MC`, `PKG` or `NUMA`, as in `/sys/kernel/debug/sched/domains`.
    pub name: &'static str,
    /// The spans at this level; each online CPU is in exactly one span.
    pub spans: Vec<CpuMask>,
}

impl Machine {
    /// Every online CPU of the machine.
    pub fn all_cpus(&self) -> CpuMask {
        CpuMask::first_n(self.cpus.len()).without(&self.offline)
    }

    /// This machine after a hotplug event in which the `offline` CPUs, too, have gone offline. A part whose CPUs are
    /// all offline keeps its index and is empty.
    pub fn without(&self, offline: &CpuMask) -> Machine {
        let mut machine = self.clone();
        machine.offline = self.offline.or(offline);
        machine.rebuilt = true;
        let spans = machine.levels.iter_mut().flat_map(|level| &mut level.spans);
        let caches = machine.caches.iter_mut().map(|cache| &mut cache.cpus);
        let policies = machine
            .cpufreq
            .iter_mut()
            .flat_map(|cpufreq| &mut cpufreq.policies);
        let clusters = machine.clusters.iter_mut();
        for cpus in spans.chain(caches).chain(policies).chain(clusters) {
            *cpus = cpus.without(offline);
        }
        machine
    }

    /// The clusters; each online CPU is in exactly one cluster.
    pub fn clusters(&self) -> &[CpuMask] {
        match self.clusters.is_empty() {
            true => self.last_level_caches(),
            false => &self.clusters,
        }
    }

    /// The CPUs of each last-level cache; each online CPU has exactly one last-level cache.
    pub fn last_level_caches(&self) -> &[CpuMask] {
        let mc = self.levels.iter().find(|level| level.name == "MC");
        mc.or(self.levels.first()).map_or(&[], |level| &level.spans)
    }

    /// The hardware threads of `cpu`'s core, including `cpu`.
    pub fn siblings(&self, cpu: usize) -> CpuMask {
        self.levels
            .iter()
            .filter(|level| level.name == "SMT")
            .flat_map(|level| level.spans.iter().copied())
            .find(|span| span.contains(cpu))
            .unwrap_or(CpuMask::one(cpu))
    }

    /// Linux 6.12's capacity of `cpu` at its highest frequency, where the fastest CPU has 1024
    /// (`arch_scale_cpu_capacity()`). CPUs that firmware ranks all have the same capacity: Linux uses either ranks or
    /// capacities for a hybrid x86 processor (`hybrid_init_cpu_capacity_scaling()` of drivers/cpufreq/intel_pstate.c).
    pub fn linux_capacity(&self, cpu: usize) -> u32 {
        const FULL: u64 = 1024;
        if !self.priorities.is_empty() {
            return FULL as u32;
        }
        let largest = self.cpus.iter().map(|cpu| cpu.capacity).max().unwrap_or(1);
        (u64::from(self.cpus[cpu].capacity) * FULL / u64::from(largest)).max(1) as u32
    }

    /// The speed of `cpu` while `busy` of its core's hardware threads are busy, including `cpu`, in 1/2^20 of the
    /// reference. The core's throughput grows in equal steps from one busy thread to all, and the busy threads share it
    /// equally.
    pub fn thread_speed(&self, cpu: usize, busy: usize) -> u32 {
        let core = &self.core_types[self.cpus[cpu].core_type];
        let threads = self.siblings(cpu).count() as u64;
        if threads == 1 || busy <= 1 {
            return core.speed;
        }
        let gain = u64::from(core.smt_throughput.saturating_sub(1 << 20));
        let throughput = (1 << 20) + gain * (busy as u64 - 1) / (threads - 1);
        ((u64::from(core.speed) * throughput / busy as u64) >> 20) as u32
    }

    /// The time that `work` takes on `cpu`, in ns. Work is counted in nanoseconds of the machine's fastest core type.
    pub fn time_for(&self, work: u64, cpu: usize) -> u64 {
        time_for(work, self.core_types[self.cpus[cpu].core_type].speed)
    }
}

/// The time that `work` takes at `speed` (1/2^20 of the reference), in ns, rounded up.
#[inline]
pub fn time_for(work: u64, speed: u32) -> u64 {
    match speed {
        0x10_0000 => work,
        _ => divided(work, speed),
    }
}

/// [`time_for`] on a CPU below full speed. The function is not inlined, to keep the fast path of CPUs at full speed
/// short.
#[inline(never)]
fn divided(work: u64, speed: u32) -> u64 {
    let speed = u64::from(speed);
    match work >> 44 {
        // The shift does not overflow.
        0 => (work << 20).div_ceil(speed),
        _ => (u128::from(work) << 20).div_ceil(speed.into()) as u64,
    }
}

/// The work done in `ns` at `speed` (1/2^20 of the reference), rounded down.
#[inline]
pub fn work_in(ns: u64, speed: u32) -> u64 {
    ((u128::from(ns) * u128::from(speed)) >> 20) as u64
}
