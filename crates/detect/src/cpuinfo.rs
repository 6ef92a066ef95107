//! `/proc/cpuinfo`, for copies of a machine's files that have no topology in sysfs. On x86 it has the package and
//! the core of each CPU, and on Arm the kind of core.

use crate::found::{Cpu, Found};
use crate::kind::arm_name_of;
use machine::CpuMask;
use std::collections::BTreeMap;

#[derive(Default)]
struct Entry {
    package: Option<u32>,
    core: Option<u32>,
    model: Option<String>,
    /// Arm's implementer and part number.
    implementer: Option<String>,
    part: Option<String>,
}

/// The CPUs of the content of a `/proc/cpuinfo`, which are the online CPUs.
#[derive(Default)]
pub(crate) struct CpuInfo(BTreeMap<usize, Entry>);

impl CpuInfo {
    /// Reads `text`; the result is empty if `text` has another format.
    pub fn read(text: &str) -> CpuInfo {
        let mut cpus = BTreeMap::new();
        let mut current = None;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "processor" {
                current = value
                    .parse()
                    .ok()
                    .filter(|&cpu: &usize| cpu < machine::MAX_CPUS);
                current.map(|cpu| cpus.entry(cpu).or_default());
            }
            let Some(entry) = current.and_then(|cpu| cpus.get_mut(&cpu)) else {
                continue;
            };
            let entry: &mut Entry = entry;
            match key {
                "physical id" => entry.package = value.parse().ok(),
                "core id" => entry.core = value.parse().ok(),
                "CPU implementer" => entry.implementer = Some(value.to_owned()),
                "CPU part" => entry.part = Some(value.to_owned()),
                "model name" => entry.model = Some(value.to_owned()),
                _ => {}
            }
        }
        CpuInfo(cpus)
    }

    pub fn online(&self) -> CpuMask {
        self.0.keys().copied().collect()
    }

    /// The CPUs for which `key` returns the same value as for `cpu`, if it returns a value.
    fn like<K: PartialEq>(&self, cpu: usize, key: impl Fn(&Entry) -> Option<K>) -> Option<CpuMask> {
        let own = key(self.0.get(&cpu)?)?;
        let same = self
            .0
            .iter()
            .filter(|(_, entry)| key(entry).as_ref() == Some(&own));
        Some(same.map(|(&cpu, _)| cpu).collect())
    }

    /// Sets the threads of cores and the CPUs of packages in `found`.
    pub fn add_topology(&self, found: &mut Found) {
        let online = found.online();
        let mut packages: Vec<CpuMask> = Vec::new();
        for (&number, cpu) in &mut found.cpus {
            let core = self.like(number, |entry| Some((entry.package?, entry.core?)));
            if let Some(core) = core {
                cpu.siblings = core.and(&online);
            }
            let package = self.like(number, |entry| entry.package);
            let package = package.map(|package| package.and(&online));
            packages.extend(package.filter(|package| !packages.contains(package)));
            // Treat packages as sysfs treats packages without caches.
            cpu.cluster = cpu.cluster.or(package);
        }
        found.lose_spans("packages", &packages);
    }

    pub fn machine(&self) -> Found {
        let model = self.0.values().find_map(|entry| entry.model.clone());
        let mut found = Found {
            description: model.unwrap_or_else(|| "a machine described by its cpuinfo".to_owned()),
            source: "/proc/cpuinfo".to_owned(),
            ..Found::default()
        };
        for (&number, entry) in &self.0 {
            let siblings = CpuMask::one(number);
            let numbers = entry.implementer.as_ref().zip(entry.part.as_ref());
            found.cpus.insert(
                number,
                Cpu {
                    siblings,
                    kind: numbers.and_then(|(implementer, part)| arm_name_of(implementer, part)),
                    ..Cpu::default()
                },
            );
        }
        let highest = self.online().iter().max().unwrap_or(0);
        found.offline = CpuMask::first_n(highest + 1).without(&self.online());
        self.add_topology(&mut found);
        found.tidy();
        found
    }
}
