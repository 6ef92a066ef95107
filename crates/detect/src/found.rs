//! The description of a machine from any source.

use crate::governor::Decider;
use machine::{Cache, CpuMask, IdleState, MAX_IDLE_STATES};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A machine as a source describes it.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The machine's description in one line.
    pub description: String,
    /// The source, such as `sysfs`.
    pub source: String,
    /// `CONFIG_HZ`, if that is known.
    pub hz: Option<u32>,
    /// `CONFIG_IRQ_TIME_ACCOUNTING`, if that is known.
    pub irq_time_accounting: Option<bool>,
    /// The number of the host's CPUs that execute the CPUs of a virtual machine, if measurements show that the host has
    /// fewer.
    pub host_cpus: Option<u32>,
    /// The CPUs that are online, by number.
    pub cpus: BTreeMap<usize, Cpu>,
    /// The CPUs about which nothing but the number is known.
    pub offline: CpuMask,
    /// The data caches from the second level on.
    pub caches: Vec<Cache>,
    /// The CPUs of each NUMA node with CPUs, in the order of the nodes.
    pub nodes: Vec<CpuMask>,
    /// The distances between `nodes`, with a row for each node; empty if they are not known.
    pub distances: Vec<Vec<u32>>,
    /// Does Linux lack data on capacities, so that all capacities are 1024, whatever the speeds of the CPUs?
    pub equal_capacities: bool,
    /// Warnings about missing or implausible facts, and facts that a machine file cannot express.
    pub warnings: Vec<String>,
}

/// A CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// The hardware threads of the CPU's core, including the CPU itself.
    pub siblings: CpuMask,
    /// The CPUs of the CPU's cluster within the package, if known.
    pub cluster: Option<CpuMask>,
    /// The CPUs that share the CPU's frequency, if known.
    pub policy: Option<CpuMask>,
    /// The name of the CPU's core, such as `cortex-a55`.
    pub kind: Option<String>,
    /// Measures of the CPU's speed.
    pub measures: BTreeMap<Measure, u64>,
    /// The kernel's priority for the CPU, if any. CPUs with higher priorities are preferred.
    pub priority: Option<u32>,
    /// The CPU's OPPs, in rising order.
    pub opps: Vec<OppFound>,
    /// Are all OPPs only assumed, except for the lowest and the highest one?
    pub assumed_opps: bool,
    /// The control of the CPU's frequency, if sysfs shows it.
    pub decider: Option<Decider>,
    /// The time from a frequency request until the frequency is reached, in ns.
    pub transition_latency_ns: Option<u64>,
    /// The CPU's idle states from the shallowest to the deepest, without polling.
    pub idle_states: Vec<IdleState>,
    /// Measured costs of kernel operations.
    pub costs: Option<Measured>,
}

/// A measure of a CPU's speed. The most informative measure comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// The kernel's `cpu_capacity`, which is 1024 for the fastest CPU.
    CpuCapacity,
    /// `acpi_cppc/highest_perf`, on the platform's scale of performance.
    HighestPerf,
    /// `capacity-dmips-mhz` of the device tree, times the highest frequency in kHz.
    DmipsMhz,
    /// `capacity-dmips-mhz` of a device tree that lacks frequencies.
    Dmips,
    /// hwloc's `LinuxCapacity` of a kind of CPU.
    LinuxCapacity,
    /// `cpuinfo_max_freq` in kHz, which does not show the work per cycle.
    MaxFrequency,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::CpuCapacity => "cpu_capacity",
            Measure::HighestPerf => "acpi_cppc/highest_perf",
            Measure::DmipsMhz => "capacity-dmips-mhz times the highest frequency",
            Measure::Dmips => "capacity-dmips-mhz (work per MHz) alone",
            Measure::LinuxCapacity => "hwloc's LinuxCapacity",
            Measure::MaxFrequency => "cpufreq/cpuinfo_max_freq",
        })
    }
}

/// Measured costs of kernel operations, in ns; see [`machine::Costs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The time from the decision to switch until the next task's first instruction.
    pub context_switch_ns: u64,
    /// The time of waking a task up, on the waking CPU.
    pub wakeup_ns: u64,
    /// The time of a reschedule IPI to a CPU with the same last-level cache; `None` if there is no such CPU.
    pub ipi_near_ns: Option<u64>,
    /// The time of a reschedule IPI to a CPU with a different last-level cache; without one, `ipi_near_ns`.
    pub ipi_far_ns: Option<u64>,
    /// The time of fetching a line of memory from a CPU with the same last-level cache.
    pub refill_near_ns: Option<u64>,
    /// The time of fetching a line of memory from a CPU with a different last-level cache; without one,
    /// `refill_near_ns`.
    pub refill_far_ns: Option<u64>,
    /// The time of the timer tick, if ticks were seen.
    pub tick_ns: Option<u64>,
    /// The time from a timer's expiry until its task is woken up.
    pub timer_irq_ns: u64,
}

/// A frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OppFound {
    /// The frequency in kHz.
    pub khz: u32,
    /// The voltage in uV.
    pub microvolt: Option<u32>,
    /// The power of a core at this frequency according to the kernel's energy model, in uW.
    pub power_uw: Option<u64>,
}

impl Cpu {
    pub(crate) fn khz(&self) -> Vec<u32> {
        self.opps.iter().map(|opp| opp.khz).collect()
    }
}

impl Found {
    pub(crate) fn lose(&mut self, what: impl std::fmt::Display) {
        self.warnings.push(format!("left out: {what}"));
    }

    /// Reports NUMA nodes, by number, that have memory but lack `cpus`, which is a phrase such as `CPUs of their own`.
    pub(crate) fn lose_memory<N: ToString>(&mut self, nodes: impl Iterator<Item = N>, cpus: &str) {
        let numbers: Vec<String> = nodes.map(|node| node.to_string()).collect();
        if !numbers.is_empty() {
            self.lose(format!(
                "nodes {} have memory and no {cpus}",
                numbers.join(", ")
            ));
        }
    }

    /// Reports `spans`, which are sets of CPUs such as `packages`, unless the machine file has the same set as a node,
    /// cluster, cache or core.
    pub(crate) fn lose_spans(&mut self, what: &str, spans: &[CpuMask]) {
        let online = self.online();
        let nested = |span: &&CpuMask| {
            let mut cpus = self.cpus.values();
            **span != online
                && !self.nodes.contains(span)
                && !self
                    .caches
                    .iter()
                    .any(|cache| cache.cpus.and(&online) == **span)
                && !cpus.any(|cpu| cpu.siblings == **span || cpu.cluster == Some(**span))
        };
        let lost: Vec<String> = spans
            .iter()
            .filter(nested)
            .map(CpuMask::to_string)
            .collect();
        if !lost.is_empty() {
            self.lose(format!("the {what} {}", lost.join(" ")));
        }
    }

    /// The CPUs that are online.
    pub fn online(&self) -> CpuMask {
        self.cpus.keys().copied().collect()
    }

    /// The CPUs that share the last-level cache of `cpu`; if no cache is known, the CPUs of its cluster; if no cluster
    /// is known, the CPUs of its NUMA node.
    pub fn last_level(&self, cpu: usize) -> CpuMask {
        let of_cpu = self.caches.iter().filter(|cache| cache.cpus.contains(cpu));
        let largest = of_cpu.max_by_key(|cache| cache.level);
        largest
            .map(|cache| cache.cpus)
            .or(self.cpus.get(&cpu).and_then(|it| it.cluster))
            .unwrap_or_else(|| self.nodes[self.node(cpu)])
    }

    /// The index of the NUMA node of `cpu`.
    pub fn node(&self, cpu: usize) -> usize {
        self.nodes
            .iter()
            .position(|node| node.contains(cpu))
            .unwrap_or(0)
    }

    /// Removes facts that a machine file cannot have; caches that have no online CPU, are listed twice or overlap
    /// others; and idle states beyond [`MAX_IDLE_STATES`], or with a shorter residency or latency than the
    /// state before, because states are ordered by depth.
    pub(crate) fn tidy(&mut self) {
        self.limit();
        let online = self.online();
        for cache in &mut self.caches {
            cache.cpus = cache.cpus.and(&online);
        }
        self.caches.retain(|cache| !cache.cpus.is_empty());
        self.caches
            .sort_by_key(|cache| (cache.level, cache.cpus.first()));
        self.caches.dedup();
        self.separate_caches();
        if self.nodes.is_empty() {
            self.nodes = vec![online];
        }
        let [mut shallow, mut beyond] = [BTreeSet::new(), BTreeSet::new()];
        for cpu in self.cpus.values_mut() {
            let mut deepest = (0, 0);
            let states = std::mem::take(&mut cpu.idle_states);
            for state in states {
                let next = (state.min_residency_ns, state.exit_latency_ns);
                if next.0 < deepest.0 || next.1 < deepest.1 {
                    shallow.insert(state.name);
                } else if cpu.idle_states.len() == MAX_IDLE_STATES {
                    beyond.insert(state.name);
                } else {
                    deepest = next;
                    cpu.idle_states.push(state);
                }
            }
        }
        self.lose_idle_states(shallow, "which are not deeper than those before them");
        let why = format!("because a CPU has at most {MAX_IDLE_STATES}");
        self.lose_idle_states(beyond, &why);
    }

    /// Warns that the idle states with these names are left out, if there are any, and `why`.
    pub(crate) fn lose_idle_states(&mut self, names: BTreeSet<String>, why: &str) {
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            self.lose(format!("the idle states {}, {why}", names.join(", ")));
        }
    }

    /// Removes pairs of caches that overlap although the lower one is not within the higher one, which no hardware has.
    fn separate_caches(&mut self) {
        let overlap = |a: &Cache, b: &Cache| {
            let (low, high) = if a.level < b.level { (a, b) } else { (b, a) };
            let nests = low.level < high.level && low.cpus.is_subset(&high.cpus);
            a != b && a.cpus.intersects(&b.cpus) && !nests
        };
        let all = std::mem::take(&mut self.caches);
        let (lost, kept): (Vec<_>, Vec<_>) = all
            .iter()
            .cloned()
            .partition(|cache| all.iter().any(|other| overlap(cache, other)));
        self.caches = kept;
        let lost: Vec<String> = lost
            .iter()
            .map(|cache| format!("the L{} of CPUs {}", cache.level, cache.cpus))
            .collect();
        if !lost.is_empty() {
            self.lose(format!("{}, which overlap", lost.join(", ")));
        }
    }
}
