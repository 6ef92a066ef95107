//! Detection of real machines from their own descriptions.

mod boards;
mod copies;
mod device_tree;
mod governors;
mod hwloc;
mod limits;
mod machines;
mod odd;
mod tree;

use machine::{CpuMask, Machine};

/// The machine that its file describes, and the remarks about it.
pub fn machine(found: detect::Found) -> (Machine, Vec<String>) {
    let file = found.machine_file("detected");
    let machine = Machine::parse("detected.toml", &file.text)
        .unwrap_or_else(|error| panic!("{}: {}\n{}", error.message(), error.expected(), file.text));
    (machine, file.warnings)
}

/// The spans of a level that have more than one CPU.
pub fn level(machine: &Machine, name: &str) -> String {
    let level = machine.levels.iter().find(|level| level.name == name);
    let spans = level.into_iter().flat_map(|level| &level.spans);
    let mut spans: Vec<&CpuMask> = spans.filter(|span| span.count() > 1).collect();
    spans.sort_by_key(|span| span.first());
    let spans: Vec<String> = spans.into_iter().map(CpuMask::to_string).collect();
    spans.join(" ")
}

/// CPUs of the same core type and capacity: name, capacity, CPUs.
pub fn kinds(machine: &Machine) -> Vec<String> {
    let of_type = |kind: usize| -> CpuMask {
        let cpus = machine.all_cpus();
        let of_type = cpus
            .iter()
            .filter(|&cpu| machine.cpus[cpu].core_type == kind);
        of_type.collect()
    };
    let mut kinds: Vec<(CpuMask, String)> = (0..machine.core_types.len())
        .map(|kind| {
            let cpus = of_type(kind);
            let capacity = machine.cpus[cpus.first().unwrap()].capacity;
            (
                cpus,
                format!("{} {capacity}: {cpus}", machine.core_types[kind].name),
            )
        })
        .collect();
    kinds.sort_by_key(|(cpus, _)| cpus.first());
    kinds.into_iter().map(|(_, text)| text).collect()
}
