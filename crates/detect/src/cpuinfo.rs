//! `/proc/cpuinfo`, for what sysfs lacks. On x86, LoongArch and MIPS it has the package and the core of each CPU, and on
//! Arm the kind of core, which sysfs has only on arm64 since Linux 4.7.

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
                "physical id" | "package" => entry.package = value.parse().ok(),
                "core id" | "core" => entry.core = value.parse().ok(),
                "CPU implementer" => entry.implementer = Some(value.to_owned()),
                "CPU part" => entry.part = Some(value.to_owned()),
                "model name" | "Model Name" => entry.model = Some(value.to_owned()),
                _ => {}
            }
        }
        // Before Linux 3.8 (arm) and 3.19 (arm64), the file has the kind of core once, after the last CPU.
        let kinds = cpus.values().filter(|it| it.part.is_some()).count();
        let last = cpus.values().next_back().filter(|_| kinds == 1);
        if let Some((implementer, part)) = last.map(|it| (it.implementer.clone(), it.part.clone()))
            && part.is_some()
        {
            for entry in cpus.values_mut() {
                (entry.implementer, entry.part) = (implementer.clone(), part.clone());
            }
        }
        CpuInfo(cpus)
    }

    /// Sets the kinds of cores that `found` lacks.
    pub fn add_kinds(&self, found: &mut Found) {
        for (number, cpu) in &mut found.cpus {
            let own = self.0.get(number);
            let name = || arm_name_of(own?.implementer.as_ref()?, own?.part.as_ref()?);
            cpu.kind = cpu.kind.take().or_else(name);
        }
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
        for &number in self.0.keys() {
            let cpu = Cpu {
                siblings: CpuMask::one(number),
                ..Cpu::default()
            };
            found.cpus.insert(number, cpu);
        }
        self.add_kinds(&mut found);
        let says = |entry: &Entry| entry.core.is_some() || entry.part.is_some();
        if !self.0.values().any(says) {
            let message =
                "cpuinfo has neither cores nor kinds of cores, so each CPU counts as a core";
            found.warnings.push(message.to_owned());
        }
        let highest = self.online().iter().max().unwrap_or(0);
        found.offline = CpuMask::first_n(highest + 1).without(&self.online());
        self.add_topology(&mut found);
        found.tidy();
        found
    }
}
