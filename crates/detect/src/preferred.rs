//! Linux's ranking of CPUs on x86 (`sched_set_itmt_core_prio()`), from the sources of this ranking, for the section
//! `[preferred]` of a machine file.

use crate::found::Found;
use machine::CpuMask;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The value of `highest_perf` for which intel_pstate ranks CPUs by a register that user space cannot read
/// (`CPPC_MAX_PERF`).
const NOT_SAID: u32 = 255;

impl Found {
    /// The CPUs of each priority, highest last; `None` if Linux does not rank CPUs.
    fn priorities(&self) -> Option<BTreeMap<u32, CpuMask>> {
        let mut ranks: BTreeMap<u32, CpuMask> = BTreeMap::new();
        for (&number, cpu) in &self.cpus {
            let priority = cpu.priority.filter(|&priority| priority < NOT_SAID)?;
            let rank = ranks.entry(priority).or_insert(CpuMask::EMPTY);
            rank.set(number);
        }
        (ranks.len() > 1 && !self.is_told_capacities()).then_some(ranks)
    }

    /// Does Linux use capacities instead? It uses capacities for a hybrid processor without hardware threads
    /// (`hybrid_init_cpu_capacity_scaling()` of intel_pstate, Linux 6.12).
    fn is_told_capacities(&self) -> bool {
        let has = |kind: &str| {
            let mut kinds = self.cpus.values().filter_map(|cpu| cpu.kind.as_deref());
            kinds.any(|of_cpu| of_cpu == kind)
        };
        let threads = self.cpus.values().any(|cpu| cpu.siblings.count() > 1);
        has("p-core") && has("e-core") && !threads
    }

    pub(crate) fn write_preferred(&self, out: &mut String) -> std::fmt::Result {
        let Some(ranks) = self.priorities() else {
            return Ok(());
        };
        let ranks: Vec<String> = ranks
            .iter()
            .rev()
            .map(|(priority, cpus)| format!("\"{cpus}\" = {priority}"))
            .collect();
        writeln!(
            out,
            "\n# Linux gets this ranking and assumes that all CPUs have the same capacity.\n\
             [preferred]\nsource = \"{}: the cpufreq driver's ranking\"\npriority = {{ {} }}",
            self.source,
            ranks.join(", ")
        )
    }
}
