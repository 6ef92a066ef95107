//! Sysfs trees from a compact description.

use machine::CpuMask;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A copy of a machine's `/sys`, which is removed when this is dropped.
pub struct Tree {
    folder: TempDir,
}

#[derive(Clone, Copy, Default)]
pub struct Cpus<'a> {
    /// As a list.
    pub cpus: &'a str,
    /// The threads of each core, as lists of CPUs separated by spaces; none if each CPU is a core.
    pub cores: &'a str,
    /// The L2 caches, likewise; none means one for each core.
    pub l2: &'a str,
    /// Their size, such as `1280K`; none means that there is no L2.
    pub l2_size: &'a str,
    /// The L3 caches and their size; none means that there is no L3.
    pub l3: &'a str,
    pub l3_size: &'a str,
    pub clusters: &'a str,
    /// The cpufreq policies; none means one for each CPU.
    pub policies: &'a str,
    /// The frequencies in kHz: the lowest and the highest, or all.
    pub khz: &'a [u32],
    /// Does `scaling_available_frequencies` exist?
    pub lists_khz: bool,
    pub capacity: Option<u32>,
    pub highest_perf: Option<u32>,
    /// The cpufreq driver; none if no file names it.
    pub driver: &'a str,
    /// `scaling_governor` and `energy_performance_preference`; empty if there is no such file.
    pub governor: &'a str,
    pub preference: &'a str,
    /// `amd_pstate_prefcore_ranking`.
    pub ranking: Option<u32>,
    /// The name of each idle state, and its latency and residency in us.
    pub idle: &'a [(&'a str, u32, u32)],
    pub midr: Option<u64>,
}

fn spans(lists: &str) -> Vec<CpuMask> {
    lists
        .split_whitespace()
        .map(|list| list.parse().unwrap())
        .collect()
}

fn span_of(lists: &str, cpu: usize, otherwise: CpuMask) -> CpuMask {
    let mut lists = spans(lists).into_iter();
    lists.find(|span| span.contains(cpu)).unwrap_or(otherwise)
}

impl Tree {
    /// A machine with CPUs `0..count`, of which those of `groups` are online.
    pub fn new(count: usize, groups: &[Cpus]) -> Tree {
        let tree = Tree {
            folder: tempfile::tempdir().unwrap(),
        };
        let mut online = CpuMask::EMPTY;
        for group in groups {
            for cpu in group.cpus.parse::<CpuMask>().unwrap().iter() {
                online.set(cpu);
                tree.write_cpu(group, cpu);
            }
        }
        for cpu in 0..count {
            std::fs::create_dir_all(tree.path().join(format!("devices/system/cpu/cpu{cpu}")))
                .unwrap();
        }
        tree.write("devices/system/cpu/online", online);
        tree
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, file: impl AsRef<Path>, content: impl Display) {
        let path: PathBuf = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{content}\n")).unwrap();
    }

    /// Adds NUMA nodes: their CPUs, and their rows of distances.
    pub fn nodes(self, nodes: &[(&str, &str)]) -> Tree {
        for (number, (cpus, distances)) in nodes.iter().enumerate() {
            let node = format!("devices/system/node/node{number}");
            self.write(format!("{node}/cpulist"), cpus);
            self.write(format!("{node}/distance"), distances);
        }
        self
    }

    /// Adds a perf event source with its CPUs, as on hybrid Intel machines.
    pub fn pmu(self, name: &str, cpus: &str) -> Tree {
        self.write(format!("devices/{name}/cpus"), cpus);
        self
    }

    /// Adds a domain of the energy model: frequencies in kHz, and powers in uW.
    pub fn energy(self, name: &str, cpus: &str, states: &[(u32, u64)]) -> Tree {
        let domain = format!("kernel/debug/energy_model/{name}");
        self.write(format!("{domain}/cpus"), cpus);
        self.write(format!("{domain}/flags"), "0x1");
        for (khz, uw) in states {
            self.write(format!("{domain}/ps:{khz}/frequency"), khz);
            self.write(format!("{domain}/ps:{khz}/power"), uw);
        }
        self
    }

    fn write_cpu(&self, group: &Cpus, cpu: usize) {
        let folder = format!("devices/system/cpu/cpu{cpu}");
        let write =
            |file: &str, content: &dyn Display| self.write(format!("{folder}/{file}"), content);
        let core = span_of(group.cores, cpu, CpuMask::one(cpu));
        write("topology/core_cpus_list", &core);
        if !group.clusters.is_empty() {
            write(
                "topology/cluster_cpus_list",
                &span_of(group.clusters, cpu, core),
            );
        }
        let mut caches = vec![(1, "Data", "32K", core), (1, "Instruction", "32K", core)];
        if !group.l2_size.is_empty() {
            caches.push((2, "Unified", group.l2_size, span_of(group.l2, cpu, core)));
        }
        if !group.l3.is_empty() {
            caches.push((3, "Unified", group.l3_size, span_of(group.l3, cpu, core)));
        }
        for (index, (level, kind, size, cpus)) in caches.into_iter().enumerate() {
            write(&format!("cache/index{index}/level"), &level);
            write(&format!("cache/index{index}/type"), &kind);
            write(&format!("cache/index{index}/size"), &size);
            write(&format!("cache/index{index}/shared_cpu_list"), &cpus);
        }
        if let (Some(first), Some(last)) = (group.khz.first(), group.khz.last()) {
            write("cpufreq/cpuinfo_min_freq", first);
            write("cpufreq/cpuinfo_max_freq", last);
            let policy = span_of(group.policies, cpu, CpuMask::one(cpu));
            let policy: Vec<String> = policy.iter().map(|cpu| cpu.to_string()).collect();
            write("cpufreq/related_cpus", &policy.join(" "));
            if !group.driver.is_empty() {
                write("cpufreq/scaling_driver", &group.driver);
            }
            if !group.governor.is_empty() {
                write("cpufreq/scaling_governor", &group.governor);
            }
            if !group.preference.is_empty() {
                write("cpufreq/energy_performance_preference", &group.preference);
            }
            if let Some(ranking) = group.ranking {
                write("cpufreq/amd_pstate_prefcore_ranking", &ranking);
            }
            if group.lists_khz {
                let khz: Vec<String> = group.khz.iter().map(u32::to_string).collect();
                write("cpufreq/scaling_available_frequencies", &khz.join(" "));
            }
        }
        if let Some(capacity) = group.capacity {
            write("cpu_capacity", &capacity);
        }
        if let Some(perf) = group.highest_perf {
            write("acpi_cppc/highest_perf", &perf);
        }
        if let Some(midr) = group.midr {
            write("regs/identification/midr_el1", &format!("0x{midr:016x}"));
        }
        for (number, (name, latency, residency)) in group.idle.iter().enumerate() {
            let state = format!("cpuidle/state{number}");
            write(&format!("{state}/name"), name);
            write(&format!("{state}/latency"), latency);
            write(&format!("{state}/residency"), residency);
        }
    }
}
