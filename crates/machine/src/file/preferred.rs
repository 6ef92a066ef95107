//! Preferred CPUs: the firmware's ranking.

use super::PreferredFile;
use super::reader::{Reader, Result};
use super::topology::Topology;
use std::ops::RangeInclusive;

/// The range of priorities: Linux on x86 uses eight bits of ACPI's `highest_perf` (`CPPC_MAX_PERF` of its cpufreq
/// drivers).
const PRIORITY: RangeInclusive<u32> = 0..=255;

impl Reader<'_> {
    /// The priorities by CPU; 0 for offline CPUs.
    pub(super) fn priorities(
        &self,
        preferred: &Option<PreferredFile>,
        topology: &Topology,
    ) -> Result<Vec<u32>> {
        let Some(file) = preferred else {
            return Ok(Vec::new());
        };
        let mut priorities: Vec<Option<u32>> = vec![None; topology.cpus.len()];
        for (list, priority) in file.priority.get_ref() {
            let value = self.within(priority, "priority", PRIORITY);
            for cpu in self.cpus(list)?.iter() {
                let Some(place) = priorities.get_mut(cpu) else {
                    return self.bad(
                        list.span(),
                        format!("there is no CPU {cpu}"),
                        format!("expected CPUs below {}", topology.cpus.len()),
                    );
                };
                if place.replace(value).is_some() {
                    return self.bad(
                        list.span(),
                        format!("CPU {cpu} has two priorities"),
                        "expected one priority for each CPU",
                    );
                }
            }
        }
        let missing = |&cpu: &usize| priorities[cpu].is_none() && !topology.offline.contains(cpu);
        if let Some(cpu) = (0..priorities.len()).find(missing) {
            return self.bad(
                file.priority.span(),
                format!("CPU {cpu} has no priority"),
                "expected one priority for each CPU that is online",
            );
        }
        Ok(priorities
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    fn with(priority: &str) -> Result<Machine, String> {
        let text = format!(
            "name = \"four\"\noffline = \"3\"\n[core.any]\n[preferred]\nsource = \"a test\"\npriority = {{ {priority} }}\n\
             [[package]]\n[[package.cluster]]\ncore = \"any\"\ncpus = \"0-3\"\n"
        );
        Machine::parse("f.toml", &text)
            .map_err(|error| format!("{} {}", error.message(), error.expected()))
    }

    #[test]
    fn each_cpu_has_its_priority() {
        let machine = with("\"0,2\" = 7, \"1\" = 200").unwrap();
        assert_eq!(machine.priorities, [7, 200, 7, 0]);
        assert!(Machine::find("tc2").unwrap().priorities.is_empty());
    }

    /// Linux uses either capacities or priorities for heterogeneous CPUs.
    #[test]
    fn ranked_cpus_have_one_capacity() {
        let alder_lake = Machine::find("alder-lake").unwrap();
        assert_eq!(
            [0, 23].map(|cpu| alder_lake.linux_capacity(cpu)),
            [1024, 1024]
        );
        let tc2 = Machine::find("tc2").unwrap();
        assert_eq!([0, 4].map(|cpu| tc2.linux_capacity(cpu)), [1024, 430]);
    }

    #[test]
    fn errors_name_their_line() {
        for (priority, says) in [
            ("\"0-1\" = 7", "CPU 2 has no priority"),
            ("\"0-2\" = 7, \"1\" = 8", "CPU 1 has two priorities"),
            ("\"0-4\" = 7", "there is no CPU 4"),
            ("\"0-2\" = 256", "expected 0 to 255"),
            ("\"0-2\" = -1", "expected a whole number"),
            ("\"first\" = 1", "expected a CPU list"),
        ] {
            let said = with(priority).unwrap_err();
            assert!(said.contains(says), "{priority}: {said}");
            assert!(said.starts_with("f.toml:6:"), "{priority}: {said}");
        }
    }
}
