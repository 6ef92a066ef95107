//! The machine file of a detected machine.

use crate::capacity::{Capacities, capacities};
use crate::found::Measure;
use crate::found::{Cpu, Found, Measured, OppFound};
use crate::governor;
use cage::text::quoted;
use machine::{Cache, CpuMask, Governor};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The throughput of two threads of a core relative to a single thread, if it was not measured. The value is a typical
/// gain.
const SMT_THROUGHPUT: f64 = 1.25;
/// The transition latency if the driver does not report it (CPPC's and intel_pstate's do not), in us.
const TRANSITION_LATENCY_US: u64 = 10;

/// A core type: a set of equal CPUs.
struct Kind<'a> {
    name: String,
    capacity: u32,
    /// The CPUs' speed and its measure, if the speed does not follow from the capacity.
    speed: Option<(Measure, u64)>,
    like: &'a Cpu,
    cpus: CpuMask,
}

/// A machine file, and remarks for its reader.
pub struct MachineFile {
    /// TOML in the format of `docs/machine-format.md`.
    pub text: String,
    /// The remarks, one line each.
    pub warnings: Vec<String>,
}

impl Found {
    /// The machine file of a machine, under the name `name`.
    pub fn machine_file(mut self, name: &str) -> MachineFile {
        let names = self.cpus.values_mut().filter_map(|cpu| cpu.kind.as_mut());
        for text in names.chain([&mut self.description]) {
            *text = line(text);
        }
        let capacities = capacities(&mut self);
        self.nest();
        self.split_cores(&capacities);
        let deciders = self.cpus.values().filter_map(|cpu| cpu.decider.as_ref());
        let (governor, warnings) = governor::most(deciders);
        self.warnings.extend(warnings);
        let kinds = kinds(&self, &capacities);
        let mut out = String::new();
        let _ = self.write(&mut out, name, &kinds, &capacities, governor);
        MachineFile {
            text: out,
            warnings: self.warnings,
        }
    }

    fn write(
        &self,
        out: &mut String,
        name: &str,
        kinds: &[Kind],
        capacities: &Capacities,
        governor: Option<Governor>,
    ) -> std::fmt::Result {
        writeln!(
            out,
            "# Written by `equipoise machine detect` from {}.",
            self.source
        )?;
        match capacities.by {
            Some(measure) => writeln!(
                out,
                "# Capacities are from {measure}; speeds are assumed to follow the capacities."
            )?,
            None if capacities.speeds.is_some() => writeln!(
                out,
                "# Linux has no data on capacities and assumes that all are equal; speeds are from the highest frequencies."
            )?,
            None => writeln!(
                out,
                "# No data on the CPUs' relative speeds: all are assumed to be equal."
            )?,
        }
        let measured = self.cpus.values().any(|cpu| cpu.costs.is_some());
        writeln!(
            out,
            "# Costs{} are typical values: `equipoise machine show` marks them.",
            if measured {
                " that were not measured"
            } else {
                ""
            }
        )?;
        for warning in &self.warnings {
            writeln!(out, "# Note: {}", line(warning))?;
        }
        writeln!(out, "\nname = {}", quoted(name))?;
        writeln!(out, "description = {}", quoted(&self.description))?;
        match self.hz {
            Some(hz) => writeln!(out, "hz = {hz}")?,
            None => writeln!(out, "# hz is unknown: 250, the kernel's default.")?,
        }
        if let Some(cpus) = self.host_cpus {
            writeln!(out, "host_cpus = {cpus}")?;
        }
        if let Some(accounted) = self.irq_time_accounting {
            writeln!(out, "irq_time_accounting = {accounted}")?;
        }
        if !self.offline.is_empty() {
            writeln!(out, "offline = \"{}\"", self.offline)?;
        }
        if !self.distances.is_empty() {
            let row = |row: &Vec<u32>| format!("[{}]", list(row.iter()));
            let rows: Vec<String> = self.distances.iter().map(row).collect();
            writeln!(out, "numa_distances = [{}]", rows.join(", "))?;
        }
        let powers = kinds.iter().all(|kind| power_mw(kind.like).is_some());
        for kind in kinds {
            write_kind(out, kind, powers)?;
        }
        self.write_cpufreq(out, kinds, governor)?;
        self.write_preferred(out)?;
        if powers {
            writeln!(
                out,
                "\n# The energy model gives the power of cores while they compute, and nothing about the rest.\n\
                 [power]\nsource = \"not known: 0\"\nrest_mw = 0"
            )?;
        }
        for node in &self.nodes {
            writeln!(out, "\n[[package]]")?;
            for (kind, cpus) in self.clusters(node, kinds) {
                self.write_cluster(out, kind, &cpus)?;
            }
            self.write_caches(out, node)?;
        }
        Ok(())
    }

    /// The CPUs of `node` in sets of one kind that share a last-level cache and, if cores share
    /// frequencies, a frequency.
    fn clusters<'k>(&self, node: &CpuMask, kinds: &'k [Kind]) -> Vec<(&'k Kind<'k>, CpuMask)> {
        let mut clusters: BTreeMap<(usize, usize, usize), (&Kind, CpuMask)> = BTreeMap::new();
        for cpu in node.iter() {
            let Some((index, kind)) = kinds
                .iter()
                .enumerate()
                .find(|(_, kind)| kind.cpus.contains(cpu))
            else {
                continue;
            };
            let shares_clock = |policy: &CpuMask| !policy.is_subset(&self.cpus[&cpu].siblings);
            let clock = self.cpus[&cpu]
                .policy
                .filter(shares_clock)
                .and_then(|policy| policy.first());
            let key = (
                index,
                self.last_level(cpu).first().unwrap_or(0),
                clock.unwrap_or(usize::MAX),
            );
            let entry = clusters.entry(key).or_insert((kind, CpuMask::EMPTY));
            entry.1.set(cpu);
        }
        let mut clusters: Vec<_> = clusters.into_values().collect();
        clusters.sort_by_key(|(_, cpus)| cpus.first());
        clusters
    }

    fn write_cluster(&self, out: &mut String, kind: &Kind, cpus: &CpuMask) -> std::fmt::Result {
        writeln!(
            out,
            "[[package.cluster]]\ncore = {}\ncpus = \"{cpus}\"",
            quoted(&kind.name)
        )?;
        let mut cores: Vec<CpuMask> = cpus
            .iter()
            .map(|cpu| self.cpus[&cpu].siblings.and(cpus))
            .collect();
        cores.sort_by_key(CpuMask::first);
        cores.dedup();
        let threads = cores.iter().map(CpuMask::count).max().unwrap_or(1);
        if threads == 1 {
            return Ok(());
        }
        // List the first threads of all cores, and then the second threads, which is the order of `threads`.
        let all: Vec<usize> = cpus.iter().collect();
        let numbered = |index: usize| {
            all[index..]
                .iter()
                .step_by(cores.len())
                .copied()
                .collect::<CpuMask>()
        };
        let even = cores.len() * threads == all.len();
        if even && (0..cores.len()).map(numbered).eq(cores.iter().copied()) {
            return writeln!(out, "threads = {threads}");
        }
        let several = cores.iter().filter(|core| core.count() > 1);
        writeln!(
            out,
            "siblings = [{}]",
            list(several.map(|core| format!("\"{core}\"")))
        )
    }

    fn write_caches(&self, out: &mut String, node: &CpuMask) -> std::fmt::Result {
        let caches: Vec<&Cache> = self
            .caches
            .iter()
            .filter(|cache| cache.cpus.is_subset(node))
            .collect();
        for alike in caches.chunk_by(|a, b| (a.level, a.size_kib) == (b.level, b.size_kib)) {
            let spans = alike.iter().map(|cache| format!("\"{}\"", cache.cpus));
            writeln!(
                out,
                "[[package.cache]]\nlevel = {}\ncpus = [{}]",
                alike[0].level,
                list(spans)
            )?;
            if let Some(kib) = alike[0].size_kib {
                writeln!(out, "size_kib = {kib}")?;
            }
        }
        Ok(())
    }

    /// The sets of CPUs that share a clock. A CPU about which nothing is known has a clock of its own.
    fn clocks(&self) -> Vec<CpuMask> {
        let mut left = self.online();
        let mut clocks = Vec::new();
        while let Some(cpu) = left.first() {
            let policy = self.cpus[&cpu].policy.unwrap_or(CpuMask::one(cpu));
            let clock = policy.and(&left).or(&CpuMask::one(cpu));
            left = left.without(&clock);
            clocks.push(clock);
        }
        clocks
    }

    fn write_cpufreq(
        &self,
        out: &mut String,
        kinds: &[Kind],
        governor: Option<Governor>,
    ) -> std::fmt::Result {
        if kinds.iter().all(|kind| kind.like.opps.is_empty()) {
            return Ok(());
        }
        let policies: Vec<(CpuMask, CpuMask)> = self
            .cpus
            .values()
            .filter_map(|cpu| Some((cpu.policy?, cpu.siblings)))
            .collect();
        let clusters: Vec<CpuMask> = self
            .nodes
            .iter()
            .flat_map(|node| self.clusters(node, kinds))
            .map(|(_, cpus)| cpus)
            .collect();
        let units = [
            (
                "core",
                policies.iter().all(|(policy, core)| policy.is_subset(core)),
            ),
            (
                "cluster",
                policies.iter().all(|(policy, _)| clusters.contains(policy)),
            ),
            (
                "package",
                policies
                    .iter()
                    .all(|(policy, _)| self.nodes.contains(policy)),
            ),
        ];
        let unit = units.into_iter().find(|&(_, fits)| fits);
        let shared_by = match unit {
            Some((unit, _)) => format!("\"{unit}\""),
            None => {
                let clocks = self.clocks();
                format!(
                    "[{}]",
                    list(clocks.iter().map(|clock| format!("\"{clock}\"")))
                )
            }
        };
        let latency = self
            .cpus
            .values()
            .filter_map(|cpu| cpu.transition_latency_ns)
            .max();
        let latency = latency.filter(|&ns| ns > 0);
        let source = match latency {
            Some(_) => format!("{}: cpufreq", self.source),
            None => format!(
                "{}; the latency is unknown, this is a typical value",
                self.source
            ),
        };
        let us = latency.map_or(TRANSITION_LATENCY_US, |ns| ns.div_ceil(1000));
        writeln!(
            out,
            "\n[cpufreq]\nsource = {}\nshared_by = {shared_by}\ntransition_latency_us = {us}",
            quoted(&source)
        )?;
        if let Some(governor) = governor {
            writeln!(out, "governor = \"{}\"", governor.kind())?;
        }
        if let Some(preference) = governor.and_then(Governor::preference) {
            writeln!(
                out,
                "energy_performance_preference = \"{}\"",
                preference.name()
            )?;
        }
        Ok(())
    }
}

/// The power in mW of a core at its highest frequency, if the power at all frequencies is known.
fn power_mw(cpu: &Cpu) -> Option<u64> {
    let known = cpu
        .opps
        .iter()
        .all(|opp| opp.power_uw.is_some_and(|uw| uw > 0));
    cpu.opps
        .last()
        .filter(|_| known)?
        .power_uw
        .map(|uw| (uw / 1000).max(1))
}

/// The voltage that corresponds to a power, relative to the power of the highest OPP, which is assumed to have 1 V.
/// Power is proportional to frequency times voltage squared.
fn microvolt(opp: &OppFound, highest: &OppFound) -> Option<u32> {
    let ratio = opp.power_uw? as f64 / highest.power_uw? as f64;
    let frequency = f64::from(opp.khz) / f64::from(highest.khz);
    let volt = (ratio / frequency).sqrt();
    (0.1..=5.0)
        .contains(&volt)
        .then_some((volt * 1e6).round() as u32)
}

/// The core types, fastest first. The CPUs of a core type agree in all of its properties.
fn kinds<'a>(found: &'a Found, capacities: &Capacities) -> Vec<Kind<'a>> {
    let mut kinds: Vec<Kind> = Vec::new();
    let speed = |number: usize| {
        let (measure, speeds) = capacities.speeds.as_ref()?;
        Some((*measure, *speeds.get(&number)?))
    };
    for (number, cpu) in &found.cpus {
        let capacity = capacities.of[number];
        let same = |kind: &&mut Kind| {
            let like = kind.like;
            (kind.capacity, kind.speed) == (capacity, speed(*number))
                && (&like.kind, &like.opps, &like.idle_states)
                    == (&cpu.kind, &cpu.opps, &cpu.idle_states)
                && like.siblings.count() == cpu.siblings.count()
        };
        match kinds.iter_mut().find(same) {
            Some(kind) => kind.cpus.set(*number),
            None => kinds.push(Kind {
                name: String::new(),
                capacity,
                speed: speed(*number),
                like: cpu,
                cpus: CpuMask::one(*number),
            }),
        }
    }
    kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.capacity), kind.cpus.first()));
    let base = |kind: &Kind| kind.like.kind.clone().unwrap_or_else(|| "core".to_owned());
    let names: Vec<String> = kinds.iter().map(base).collect();
    for (index, kind) in kinds.iter_mut().enumerate() {
        let twice = names.iter().filter(|name| **name == names[index]).count() > 1;
        kind.name = match twice {
            true => format!("{}-{}", names[index], kind.capacity),
            false => names[index].clone(),
        };
    }
    for index in 1..kinds.len() {
        if kinds[..index]
            .iter()
            .any(|before| before.name == kinds[index].name)
        {
            kinds[index].name = format!(
                "{}-{}",
                kinds[index].name,
                kinds[index].cpus.first().unwrap_or(0)
            );
        }
    }
    kinds
}

fn write_kind(out: &mut String, kind: &Kind, powers: bool) -> std::fmt::Result {
    let name = key(&kind.name);
    writeln!(out, "\n[core.{name}]\ncapacity = {}", kind.capacity)?;
    if let Some((measure, speed)) = kind.speed {
        writeln!(out, "speed = {{ rate = {speed}, of = \"{measure}\" }}")?;
    }
    if kind.like.siblings.count() > 1 {
        writeln!(
            out,
            "# Not measured: a typical gain.\nsmt_throughput = {SMT_THROUGHPUT}"
        )?;
    }
    for state in &kind.like.idle_states {
        writeln!(
            out,
            "\n[[core.{name}.idle]]\nname = {}\nmin_residency_us = {}\nexit_latency_us = {}",
            quoted(&state.name),
            state.min_residency_ns / 1000,
            state.exit_latency_ns / 1000,
        )?;
        if powers {
            writeln!(out, "power_mw = 0")?;
        }
    }
    if kind.like.assumed_opps {
        writeln!(
            out,
            "\n# Only the lowest and the highest frequency are known; the steps in between are estimates."
        )?;
    }
    for opp in &kind.like.opps {
        writeln!(out, "\n[[core.{name}.opp]]\nkhz = {}", opp.khz)?;
        let highest = kind.like.opps.last().filter(|_| powers);
        if let Some(microvolt) = opp.microvolt.or_else(|| microvolt(opp, highest?)) {
            writeln!(out, "microvolt = {microvolt}")?;
        }
    }
    if let Some(costs) = &kind.like.costs {
        write_costs(out, &name, costs)?;
    }
    if let Some(mw) = power_mw(kind.like).filter(|_| powers) {
        let derived = match kind.like.opps.iter().any(|opp| opp.microvolt.is_some()) {
            true => "",
            false => "; voltages are derived from its powers, 1 V at most",
        };
        writeln!(
            out,
            "\n[core.{name}.power]\nsource = \"the kernel's energy model{derived}\"\ndynamic_mw = {mw}\n\
             smt_dynamic = 1.0\nstatic_mw = 0"
        )?;
    }
    Ok(())
}

fn write_costs(out: &mut String, name: &str, costs: &Measured) -> std::fmt::Result {
    writeln!(
        out,
        "\n[core.{name}.costs]\nsource = \"measured by `equipoise machine calibrate`\""
    )?;
    for (key, ns) in [
        ("context_switch_ns", Some(costs.context_switch_ns)),
        ("wakeup_ns", Some(costs.wakeup_ns)),
        ("ipi_near_ns", costs.ipi_near_ns),
        ("ipi_far_ns", costs.ipi_far_ns),
        ("tick_ns", costs.tick_ns),
        ("timer_irq_ns", Some(costs.timer_irq_ns)),
        ("refill_near_ns", costs.refill_near_ns),
        ("refill_far_ns", costs.refill_far_ns),
    ] {
        if let Some(ns) = ns {
            writeln!(out, "{key} = {ns}")?;
        }
    }
    Ok(())
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    items
        .map(|item| item.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// `text` without control characters, which comments, descriptions and names of core types cannot have. These have at
/// most 300 characters, and a name of a core type may get a suffix.
fn line(text: &str) -> String {
    let plain = cage::text::plain(&text.replace(['\n', '\t'], " ")).into_owned();
    plain.chars().take(250).collect()
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}
