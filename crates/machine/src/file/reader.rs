//! What must hold for a machine file to describe a machine.

use super::{ClusterFile, CoreFile, IdleFile, MachineFile, PackageFile, SpeedFile};
use crate::input::BadInput;
use crate::{
    CoreType, Costs, Cpu, CpuMask, IdleState, Level, MAX_CPUS, MAX_IDLE_STATES, Machine, Numa,
};
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// A cost or latency above this is a slip of units.
const MAX_COST_NS: u64 = 1_000_000_000;
/// The range of the kernel's CONFIG_HZ, generously.
const HZ: RangeInclusive<u32> = 10..=10_000;
const CAPACITY: RangeInclusive<u32> = 1..=65_536;
/// The most hardware threads of a core (POWER8's eight).
const MAX_THREADS: usize = 8;

pub(super) type Result<T> = std::result::Result<T, Box<BadInput>>;

/// The file being read, for what has to be said about it.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Reader<'_> {
    pub(super) fn bad<T>(
        &self,
        at: Range<usize>,
        message: String,
        expected: impl Into<String>,
    ) -> Result<T> {
        Err(Box::new(BadInput::at(
            self.file, self.text, at, message, expected,
        )))
    }

    pub(super) fn machine(&self, machine: MachineFile) -> Result<Machine> {
        self.name(&machine.name)?;
        let hz = self.within(&machine.hz, "hz", HZ)?;
        let core_types = self.core_types(&machine.core)?;
        let mut numa = self.distances(&machine)?;
        let (cpus, levels) = self.topology(&machine.core, &machine.package, &numa)?;
        let network = self.network(&machine.network, cpus.len())?;
        let cpufreq = self.cpufreq(&machine, &cpus, &core_types, &levels)?;
        if let Some(memory) = &machine.memory {
            numa.memory = Some(self.memory(memory, &numa, machine.package.get_ref().len())?);
        }
        let power = self.power(&machine)?;
        let turbo = self.turbo(&machine, &core_types)?;
        Ok(Machine {
            name: machine.name.into_inner(),
            description: machine.description,
            hz,
            cpus,
            core_types,
            levels,
            cpufreq,
            network,
            governor_adds: false,
            numa,
            power,
            turbo,
        })
    }

    fn name(&self, name: &Spanned<String>) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.get_ref().is_empty() || !name.get_ref().chars().all(plain) {
            return self.bad(
                name.span(),
                format!("`{}` cannot be a machine's name", name.get_ref()),
                "expected letters, digits, `-`, `_` and `.`",
            );
        }
        Ok(())
    }

    pub(super) fn within(
        &self,
        value: &Spanned<u32>,
        what: &str,
        range: RangeInclusive<u32>,
    ) -> Result<u32> {
        if range.contains(value.get_ref()) {
            return Ok(*value.get_ref());
        }
        self.bad(
            value.span(),
            format!("{what} is {}", value.get_ref()),
            format!("expected {} to {}", range.start(), range.end()),
        )
    }

    fn core_types(&self, cores: &BTreeMap<Spanned<String>, CoreFile>) -> Result<Vec<CoreType>> {
        let kind = |core: &CoreFile| core.speed.get_ref().time.is_some();
        let mut rates = Vec::new();
        for core in cores.values() {
            rates.push(self.rate(&core.speed)?);
            if cores.values().next().map(kind) != Some(kind(core)) {
                return self.bad(
                    core.speed.span(),
                    "speeds are given in two ways".to_owned(),
                    "expected `time` on all core types or `rate` on all",
                );
            }
        }
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        let mut core_types = Vec::new();
        for ((name, core), rate) in cores.iter().zip(rates) {
            self.within(&core.capacity, "capacity", CAPACITY)?;
            let speed = (rate / fastest * f64::from(1 << 20)).round() as u32;
            // Below 1/1024 of the fastest the fixed point would be coarser than 0.1 %.
            if speed < 1 << 10 {
                return self.bad(
                    core.speed.span(),
                    "this core type is more than 1024 times slower than the fastest".to_owned(),
                    "expected speeds in the same unit on all core types",
                );
            }
            core_types.push(CoreType {
                name: name.get_ref().clone(),
                speed,
                smt_throughput: self.smt_throughput(core)?,
                costs: self.costs(core)?,
                opps: self.opps(core)?,
                idle_states: self.idle_states(&core.idle)?,
                power: self.core_power(core)?,
            });
        }
        Ok(core_types)
    }

    fn smt_throughput(&self, core: &CoreFile) -> Result<u32> {
        let Some(throughput) = &core.smt_throughput else {
            return Ok(1 << 20);
        };
        if (1.0..=MAX_THREADS as f64).contains(throughput.get_ref()) {
            return Ok((throughput.get_ref() * f64::from(1 << 20)).round() as u32);
        }
        self.bad(
            throughput.span(),
            format!("smt_throughput is {}", throughput.get_ref()),
            format!("expected 1 (no gain) to {MAX_THREADS}"),
        )
    }

    fn rate(&self, speed: &Spanned<SpeedFile>) -> Result<f64> {
        let (value, rate) = match speed.get_ref() {
            SpeedFile {
                time: Some(time),
                rate: None,
                ..
            } => (time, 1.0 / time.get_ref()),
            SpeedFile {
                time: None,
                rate: Some(rate),
                ..
            } => (rate, *rate.get_ref()),
            _ => {
                return self.bad(
                    speed.span(),
                    "a speed is one number".to_owned(),
                    "expected either `time` or `rate`",
                );
            }
        };
        if *value.get_ref() > 0.0 && value.get_ref().is_finite() && rate.is_finite() {
            return Ok(rate);
        }
        self.bad(
            value.span(),
            format!("the speed is {}", value.get_ref()),
            "expected a number above 0",
        )
    }

    fn costs(&self, core: &CoreFile) -> Result<Costs> {
        let file = &core.costs;
        Ok(Costs {
            context_switch_ns: self.cost(&file.context_switch_ns, 1)?,
            wakeup_ns: self.cost(&file.wakeup_ns, 1)?,
            ipi_near_ns: self.cost(&file.ipi_near_ns, 1)?,
            ipi_far_ns: self.cost(&file.ipi_far_ns, 1)?,
            tick_ns: self.cost(&file.tick_ns, 1)?,
            timer_irq_ns: self.cost(&file.timer_irq_ns, 1)?,
            refill_near_ns: self.cost(&file.refill_near_ns, 1)?,
            refill_far_ns: self.cost(&file.refill_far_ns, 1)?,
        })
    }

    /// `value`, given in units of `unit_ns`, as ns.
    pub(super) fn cost(&self, value: &Spanned<u64>, unit_ns: u64) -> Result<u64> {
        match value.get_ref().checked_mul(unit_ns) {
            Some(ns) if ns <= MAX_COST_NS => Ok(ns),
            _ => self.bad(
                value.span(),
                format!("{} is longer than a second", value.get_ref()),
                format!("expected 0 to {}", MAX_COST_NS / unit_ns),
            ),
        }
    }

    fn idle_states(&self, states: &[IdleFile]) -> Result<Vec<IdleState>> {
        let mut idle_states: Vec<IdleState> = Vec::new();
        for (index, state) in states.iter().enumerate() {
            if index == MAX_IDLE_STATES {
                return self.bad(
                    state.min_residency_us.span(),
                    "too many idle states".to_owned(),
                    format!("expected at most {MAX_IDLE_STATES}, as the kernel's cpuidle"),
                );
            }
            let (power_mw, entry_pj) = self.idle_power(state)?;
            let next = IdleState {
                name: state.name.clone(),
                min_residency_ns: self.cost(&state.min_residency_us, 1000)?,
                exit_latency_ns: self.cost(&state.exit_latency_us, 1000)?,
                power_mw,
                entry_pj,
            };
            if idle_states.last().is_some_and(|shallower| {
                next.min_residency_ns < shallower.min_residency_ns
                    || next.exit_latency_ns < shallower.exit_latency_ns
            }) {
                return self.bad(
                    state.min_residency_us.span(),
                    "this idle state is not deeper than the one before it".to_owned(),
                    "expected residencies and exit latencies that rise from state to state",
                );
            }
            idle_states.push(next);
        }
        Ok(idle_states)
    }

    fn topology(
        &self,
        cores: &BTreeMap<Spanned<String>, CoreFile>,
        packages: &Spanned<Vec<PackageFile>>,
        numa: &Numa,
    ) -> Result<(Vec<Cpu>, Vec<Level>)> {
        let mut cpus: Vec<Option<Cpu>> = Vec::new();
        let (mut smt, mut mc, mut pkg) = (Vec::new(), Vec::new(), Vec::new());
        let mut used = vec![false; cores.len()];
        for package in packages.get_ref() {
            let mut package_span = CpuMask::EMPTY;
            for cluster in &package.cluster {
                let core_type = self.core_type(cores, &cluster.core)?;
                used[core_type] = true;
                let span = self.cluster_span(&cluster.cpus)?;
                for cpu in span.iter() {
                    if cpus.len() <= cpu {
                        cpus.resize_with(cpu + 1, || None);
                    }
                    let capacity = *cores[cluster.core.get_ref().as_str()].capacity.get_ref();
                    if cpus[cpu]
                        .replace(Cpu {
                            core_type,
                            capacity,
                        })
                        .is_some()
                    {
                        return self.bad(
                            cluster.cpus.span(),
                            format!("CPU {cpu} is in two clusters"),
                            "expected each CPU in one cluster",
                        );
                    }
                }
                package_span = package_span.or(&span);
                smt.extend(self.cores(cluster, &span)?);
                mc.push(span);
            }
            pkg.push(package_span);
        }
        if let Some((name, _)) = cores.keys().zip(&used).find(|(_, used)| !**used) {
            return self.bad(
                name.span(),
                format!("no cluster has `{}` cores", name.get_ref()),
                "expected every core type to be used",
            );
        }
        let last = cpus.len().saturating_sub(1);
        if let Some(missing) = cpus.iter().position(Option::is_none) {
            return self.bad(
                packages.span(),
                format!("CPU {missing} is in no cluster"),
                format!("expected every CPU from 0 to {last} in a cluster"),
            );
        }
        let cpus: Vec<Cpu> = cpus.into_iter().flatten().collect();
        if cpus.is_empty() {
            return self.bad(
                packages.span(),
                "the machine has no CPU".to_owned(),
                "expected a cluster with at least one CPU",
            );
        }
        Ok((cpus, levels(smt, mc, pkg, numa)))
    }

    fn core_type(
        &self,
        cores: &BTreeMap<Spanned<String>, CoreFile>,
        name: &Spanned<String>,
    ) -> Result<usize> {
        match cores
            .keys()
            .position(|core| core.get_ref() == name.get_ref())
        {
            Some(index) => Ok(index),
            None => self.bad(
                name.span(),
                format!("no core type is called `{}`", name.get_ref()),
                format!(
                    "expected {}",
                    cores
                        .keys()
                        .map(|core| core.get_ref().as_str())
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            ),
        }
    }

    /// The hardware threads of each core of the cluster that is `span`.
    fn cores(&self, cluster: &ClusterFile, span: &CpuMask) -> Result<Vec<CpuMask>> {
        let threads = match &cluster.threads {
            Some(threads) if !(1..=MAX_THREADS).contains(threads.get_ref()) => {
                return self.bad(
                    threads.span(),
                    format!("threads is {}", threads.get_ref()),
                    format!("expected 1 to {MAX_THREADS}"),
                );
            }
            Some(threads) => *threads.get_ref(),
            None => 1,
        };
        let cpus: Vec<usize> = span.iter().collect();
        let cores = cpus.len() / threads;
        if cores * threads != cpus.len() {
            return self.bad(
                cluster.cpus.span(),
                format!("{} CPUs are not cores of {threads} threads", cpus.len()),
                format!("expected a multiple of {threads} CPUs"),
            );
        }
        let core = |first: usize| cpus[first..].iter().step_by(cores).copied().collect();
        Ok((0..cores).map(core).collect())
    }

    fn cluster_span(&self, list: &Spanned<String>) -> Result<CpuMask> {
        list.get_ref().parse().or_else(|expected: String| {
            self.bad(
                list.span(),
                format!("`{}` is not a list of CPUs", list.get_ref()),
                format!("{expected} (at most {MAX_CPUS} CPUs)"),
            )
        })
    }
}

/// The kernel's levels: where there are hardware threads, SMT spans a core; MC spans a cluster, PKG a
/// package, which is a node, and for each distance between nodes NUMA spans those that are no further
/// apart.
pub(crate) fn levels(
    smt: Vec<CpuMask>,
    mc: Vec<CpuMask>,
    pkg: Vec<CpuMask>,
    numa: &Numa,
) -> Vec<Level> {
    let threads = smt.iter().any(|core| core.count() > 1);
    let smt = threads.then_some(Level {
        name: "SMT",
        spans: smt,
    });
    let mc = Level {
        name: "MC",
        spans: mc,
    };
    let union = |nodes: &Vec<usize>| {
        let spans = nodes.iter().map(|&node| &pkg[node]);
        spans.fold(CpuMask::EMPTY, |all, span| all.or(span))
    };
    let beyond_local = numa.levels(pkg.len()).into_iter().skip(1);
    let numa: Vec<Level> = beyond_local
        .filter_map(|distance| numa.partition(pkg.len(), distance))
        .map(|groups| Level {
            name: "NUMA",
            spans: groups.iter().map(union).collect(),
        })
        .collect();
    let pkg = Level {
        name: "PKG",
        spans: pkg,
    };
    smt.into_iter().chain([mc, pkg]).chain(numa).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spinlock;

    const GOOD: &str = r#"name = "tc2"
description = "a board"
hz = 100

[core.cortex-a15]
capacity = 1441
speed = { time = 16.47, of = "a benchmark, s" }

[core.cortex-a15.costs]
source = "a test"
context_switch_ns = 1
wakeup_ns = 20
ipi_near_ns = 3
ipi_far_ns = 4
tick_ns = 5
timer_irq_ns = 6
refill_near_ns = 7
refill_far_ns = 8

[core.cortex-a7]
capacity = 606
speed = { time = 33.5, of = "a benchmark, s" }

[core.cortex-a7.costs]
source = "a test"
context_switch_ns = 1
wakeup_ns = 2
ipi_near_ns = 3
ipi_far_ns = 4
tick_ns = 5
timer_irq_ns = 6
refill_near_ns = 7
refill_far_ns = 8

[[core.cortex-a7.idle]]
name = "WFI"
min_residency_us = 1
exit_latency_us = 1

[[core.cortex-a7.idle]]
name = "C1"
min_residency_us = 2500
exit_latency_us = 700

[[package]]

[[package.cluster]]
core = "cortex-a15"
cpus = "0-1"

[[package.cluster]]
core = "cortex-a7"
cpus = "2-4"
"#;

    /// The error that `GOOD` gives with `from` replaced by `to`: its line and whole text.
    fn error(from: &str, to: &str) -> (usize, String) {
        assert_eq!(
            GOOD.matches(from).count(),
            1,
            "`{from}` is not once in the file"
        );
        let error = Machine::parse("f.toml", &GOOD.replace(from, to)).unwrap_err();
        let place = error
            .message()
            .strip_prefix("f.toml:")
            .expect("a message that begins with the file");
        let (line, _) = place.split_once(':').unwrap();
        (
            line.parse().unwrap(),
            format!("{} {}", error.message(), error.expected()),
        )
    }

    fn line_of(part: &str) -> usize {
        GOOD.lines().position(|line| line.contains(part)).unwrap() + 1
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let a7 = "cpus = \"2-4\"";
        for (from, to, says) in [
            ("hz = 100", "hz = 0", "expected 10 to 10000"),
            ("hz = 100", "hz = \"100\"", "expected u32"),
            ("hz = 100", "ghz = 100", "ghz"),
            ("capacity = 1441", "capacity = 0", "expected 1 to 65536"),
            ("capacity = 1441", "capacity = -5", "expected u32"),
            ("time = 33.5", "time = 0.0", "expected a number above 0"),
            ("time = 33.5", "time = -1", "expected a number above 0"),
            ("time = 33.5", "time = nan", "expected a number above 0"),
            ("time = 33.5", "rate = 33.5", "`time` on all"),
            (
                "time = 33.5",
                "time = 33.5, rate = 1.0",
                "either `time` or `rate`",
            ),
            ("time = 33.5", "time = 33500", "1024 times slower"),
            (a7, "cpus = \"1-4\"", "CPU 1 is in two clusters"),
            (a7, "cpus = \"4-2\"", "rising range"),
            (a7, "cpus = \"2-1024\"", "below 1024"),
            (a7, "cpus = \"\"", "expected a CPU list"),
            (
                "core = \"cortex-a7\"",
                "core = \"cortex-a8\"",
                "cortex-a15, cortex-a7",
            ),
            (
                "min_residency_us = 2500",
                "min_residency_us = 0",
                "rise from state to state",
            ),
            (
                "exit_latency_us = 700",
                "exit_latency_us = 1000001",
                "expected 0 to 1000000",
            ),
            (
                "name = \"tc2\"",
                "name = \"t c 2\"",
                "cannot be a machine's name",
            ),
        ] {
            let (line, text) = error(from, to);
            assert!(text.contains(says), "{text}");
            assert_eq!(line, line_of(from), "{text}");
        }
    }

    #[test]
    fn a_gap_in_the_cpu_numbers_is_named() {
        let (_, text) = error("cpus = \"2-4\"", "cpus = \"3-5\"");
        assert!(text.contains("CPU 2 is in no cluster"), "{text}");
    }

    #[test]
    fn an_unused_core_type_is_an_error() {
        let (_, text) = error("core = \"cortex-a7\"", "core = \"cortex-a15\"");
        assert!(text.contains("no cluster has `cortex-a7` cores"), "{text}");
    }

    #[test]
    fn what_is_missing_is_named() {
        for (from, says) in [("hz = 100", "hz"), ("wakeup_ns = 20", "wakeup_ns")] {
            let (_, text) = error(from, "");
            assert!(text.contains(says), "{text}");
        }
        assert!(Machine::parse("f.toml", "").is_err());
        assert!(Machine::parse("f.toml", "[[[").is_err());
    }

    const TWO_NODES: &str = r#"
[[package]]

[[package.cluster]]
core = "cortex-a7"
cpus = "5-6"

[memory]
source = "a test"
cached_ns = 9
line_ns = [50, 100]
lock_ns = 70
"#;

    #[test]
    fn nodes_have_distances_and_lines_have_costs() {
        let hz = "hz = 100\n";
        let with = |distances: &str, from: &str, to: &str| {
            let text = GOOD.replace(hz, &format!("{hz}numa_distances = {distances}\n")) + TWO_NODES;
            Machine::parse("f.toml", &text.replace(from, to))
        };
        let numa = with("[[10, 14], [14, 10]]", "", "").unwrap().numa;
        assert_eq!(numa.distance(0, 1), 14);
        let memory = numa.memory.unwrap();
        assert_eq!(memory.line_ns, [[50, 100], [100, 50]]);
        assert_eq!(memory.spinlock, Spinlock::Queued);
        let ticket = with(
            "[[10, 14], [14, 10]]",
            "lock_ns = 70",
            "lock_ns = 70\nspinlock = \"ticket\"",
        );
        let memory = ticket.unwrap().numa.memory.unwrap();
        assert_eq!(memory.spinlock, Spinlock::Ticket);
        for (distances, from, to, says) in [
            ("[[10]]", "", "", "for each of 2 packages"),
            ("[[10, 14], [14]]", "", "", "for each of 2 packages"),
            ("[[10, 14], [15, 10]]", "", "", "same both ways"),
            ("[[11, 14], [14, 10]]", "", "", "expected 10"),
            ("[[10, 10], [10, 10]]", "", "", "11 to 254"),
            (
                "[[10, 14], [14, 10]]",
                "[50, 100]",
                "[50]",
                "one for each distance: 10, 14",
            ),
            (
                "[[10, 14], [14, 10]]",
                "lock_ns = 70",
                "lock_ns = 1000000001",
                "than a second",
            ),
            ("[[10, 14], [14, 10]]", "cached_ns = 9", "", "cached_ns"),
            (
                "[[10, 14], [14, 10]]",
                "lock_ns = 70",
                "lock_ns = 70\nspinlock = \"fair\"",
                "ticket",
            ),
        ] {
            let error = with(distances, from, to).unwrap_err();
            let text = format!("{} {}", error.message(), error.expected());
            assert!(text.contains(says), "{distances}: {text}");
        }
    }

    #[test]
    fn nodes_that_do_not_nest_are_refused() {
        let ring = "[[10, 20, 20, 30], [20, 10, 30, 20], [20, 30, 10, 20], [30, 20, 20, 10]]";
        let mut text = GOOD.replace(
            "hz = 100\n",
            &format!("hz = 100\nnuma_distances = {ring}\n"),
        );
        for cpu in 5..8 {
            text += &format!(
                "[[package]]\n[[package.cluster]]\ncore = \"cortex-a7\"\ncpus = \"{cpu}\"\n"
            );
        }
        let error = Machine::parse("f.toml", &text).unwrap_err();
        assert!(
            error.message().starts_with("f.toml:4:"),
            "{}",
            error.message()
        );
        assert!(error.message().contains("20"), "{}", error.message());
    }

    #[test]
    fn packages_are_nodes() {
        let machine = Machine::find("smp-2x8").unwrap();
        let names: Vec<_> = machine.levels.iter().map(|level| level.name).collect();
        assert_eq!(names, ["MC", "PKG", "NUMA"]);
        assert_eq!(machine.levels[1].spans.len(), 2);
        assert_eq!(machine.levels[2].spans, [CpuMask::first_n(16)]);
    }
}
