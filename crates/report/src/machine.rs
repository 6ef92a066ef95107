//! A machine as tables: its tree of packages, clusters and CPUs, the costs of its kernel's
//! operations, the power of its parts, and the kernel's sched domains.

use crate::number::number;
use crate::power;
use crate::{Cell, Page, Table, Tone};
use machine::{CoreType, CpuMask, Cpufreq, Machine, Memory, Opp, counted};

/// The page of a machine.
pub fn machine(machine: &Machine) -> Page {
    Page {
        title: format!("{}: {}", machine.name, machine.description),
        notes: notes(machine),
        tables: [topology(machine)]
            .into_iter()
            .chain(caches(machine))
            .chain([core_types(machine)])
            .chain(
                machine
                    .cpufreq
                    .as_ref()
                    .map(|cpufreq| frequencies(machine, cpufreq)),
            )
            .chain(power::tables(machine))
            .chain(nodes(machine))
            .chain([domains(machine)])
            .collect(),
        ..Page::default()
    }
}

fn notes(machine: &Machine) -> Vec<String> {
    let mut notes = vec![format!(
        "{}, HZ {}",
        counted(machine.all_cpus().count(), "CPU", "CPUs"),
        machine.hz
    )];
    if let Some(cpus) = machine.host_cpus {
        notes.push(format!(
            "virtual CPUs, which share {} of a host",
            counted(cpus, "CPU", "CPUs")
        ));
    }
    if machine.irq_time_in_tasks {
        notes.push("interrupt time is charged to the interrupted tasks".to_owned());
    }
    if !machine.offline.is_empty() {
        notes.push(format!("offline: {}", machine.offline));
    }
    if machine
        .core_types
        .iter()
        .any(|core| !core.usual_costs.is_empty())
    {
        notes.push(
            "costs with * are not in the file; they are typical values, scaled by the core's speed"
                .to_owned(),
        );
    }
    notes.extend(
        machine
            .warnings
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    notes
}

/// The caches in the machine file. Caches of the same level and size share a row.
fn caches(machine: &Machine) -> Option<Table> {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for alike in machine
        .caches
        .chunk_by(|a, b| (a.level, a.size_kib) == (b.level, b.size_kib))
    {
        let spans = alike.iter().map(|cache| cache.cpus.to_string());
        rows.push(vec![
            format!("L{}", alike[0].level).into(),
            spans.collect::<Vec<_>>().join(" | ").into(),
            alike[0]
                .size_kib
                .map_or("-".to_owned(), |kib| kib.to_string())
                .into(),
        ]);
    }
    (!rows.is_empty()).then(|| Table {
        title: "Caches".to_owned(),
        header: ["level", "CPUs of each", "KiB"].map(str::to_owned).to_vec(),
        text_columns: 2,
        rows,
        ..Table::default()
    })
}

/// A tree like that of lstopo: packages, their clusters, and the clusters' CPUs.
fn topology(machine: &Machine) -> Table {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let packages = machine.levels.iter().find(|level| level.name == "PKG");
    let whole = [machine.all_cpus()];
    let packages = packages.map_or(&whole[..], |level| &level.spans);
    for (index, package) in packages.iter().enumerate() {
        let name = format!("package {index}");
        rows.push(vec![
            name.into(),
            package.to_string().into(),
            "".into(),
            "".into(),
            "".into(),
            "".into(),
        ]);
        for (index, cluster) in machine.clusters().iter().enumerate() {
            if cluster.is_subset(package) {
                let name = format!("  cluster {index}");
                rows.extend(cluster_rows(machine, name, cluster));
            }
        }
    }
    Table {
        title: "Topology".to_owned(),
        header: ["", "CPUs", "core", "capacity", "speed", "threads a core"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 3,
        rows,
        ..Table::default()
    }
}

/// The text of a number in units of 1/2^20.
fn ratio(fixed: u32) -> String {
    format!("{:.3}", f64::from(fixed) / f64::from(1 << 20))
}

/// The number of hardware threads of `cpu`'s core, and their throughput together.
fn threads(machine: &Machine, cpu: usize) -> String {
    let core = &machine.core_types[machine.cpus[cpu].core_type];
    match machine.siblings(cpu).count() {
        1 => "1".to_owned(),
        threads => format!("{threads} ({} together)", ratio(core.smt_throughput)),
    }
}

/// The CPUs of a cluster. Equal CPUs share a row.
fn cluster_rows(machine: &Machine, name: String, cluster: &CpuMask) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let mut left = *cluster;
    while let Some(first) = left.first() {
        let like = |cpu: usize| {
            let (a, b) = (&machine.cpus[cpu], &machine.cpus[first]);
            (a.core_type, a.capacity) == (b.core_type, b.capacity)
        };
        let alike: CpuMask = left.iter().filter(|&cpu| like(cpu)).collect();
        let cpu = &machine.cpus[first];
        let core = &machine.core_types[cpu.core_type];
        rows.push(vec![
            if rows.is_empty() {
                name.clone().into()
            } else {
                Cell::default()
            },
            alike.to_string().into(),
            core.name.as_str().into(),
            cpu.capacity.to_string().into(),
            ratio(core.speed).into(),
            threads(machine, first).into(),
        ]);
        left = left.without(&alike);
    }
    rows
}

fn core_types(machine: &Machine) -> Table {
    let mut header = vec!["cost".to_owned(), "unit".to_owned()];
    header.extend(machine.core_types.iter().map(|core| core.name.clone()));
    let us = |ns: u64| number(ns as f64 / 1e3);
    let row = |name: &str, cost: &dyn Fn(&CoreType) -> String| -> Vec<Cell> {
        let mut row = vec![name.into(), Cell::new("us", Tone::Dim)];
        row.extend(machine.core_types.iter().map(|core| Cell::from(cost(core))));
        row
    };
    // A value, with a mark if it is a typical value instead of one from the file.
    let cost = |core: &CoreType, key: &str, ns: u64| {
        let mark = if core.usual_costs.contains(&key) {
            "*"
        } else {
            ""
        };
        format!("{}{mark}", us(ns))
    };
    macro_rules! costs {
        ($name:literal: $($key:ident),+) => {
            row($name, &|core| {
                [$(cost(core, stringify!($key), core.costs.$key)),+].join(", ")
            })
        };
    }
    let mut rows = vec![
        costs!("context switch": context_switch_ns),
        costs!("wakeup": wakeup_ns),
        costs!("IPI near, far": ipi_near_ns, ipi_far_ns),
        costs!("tick": tick_ns),
        costs!("timer interrupt": timer_irq_ns),
        costs!("cache line refill near, far": refill_near_ns, refill_far_ns),
    ];
    let states = machine
        .core_types
        .iter()
        .map(|core| core.idle_states.len())
        .max();
    for state in 0..states.unwrap_or(0) {
        rows.push(row(
            &format!("idle state {state}: exit, residency"),
            &|core| match core.idle_states.get(state) {
                Some(idle) => format!(
                    "{}, {}",
                    us(idle.exit_latency_ns),
                    us(idle.min_residency_ns)
                ),
                None => "-".to_owned(),
            },
        ));
    }
    Table {
        title: "Costs".to_owned(),
        header,
        text_columns: 2,
        rows,
        ..Table::default()
    }
}

/// The cpufreq policies and their OPPs.
fn frequencies(machine: &Machine, cpufreq: &Cpufreq) -> Table {
    let us = |ns: u64| Cell::from(number(ns as f64 / 1e3));
    let rows = cpufreq.policies.iter().map(|policy| {
        let opps = policy.first().map_or(&[][..], |cpu| {
            &machine.core_types[machine.cpus[cpu].core_type].opps
        });
        let mhz = |opp: &Opp| number(f64::from(opp.khz) / 1e3);
        vec![
            policy.to_string().into(),
            opps.iter().map(mhz).collect::<Vec<_>>().join(" ").into(),
            us(cpufreq.transition_latency_ns),
            us(cpufreq.rate_limit_ns),
            cpufreq.governor.to_string().into(),
        ]
    });
    Table {
        title: "Frequencies".to_owned(),
        header: [
            "policy",
            "OPPs, MHz",
            "transition, us",
            "rate limit, us",
            "governor",
        ]
        .map(str::to_owned)
        .to_vec(),
        text_columns: 2,
        rows: rows.collect(),
        ..Table::default()
    }
}

/// The distance between each two nodes, and the cost of moving a cache line between them.
fn nodes(machine: &Machine) -> Option<Table> {
    let nodes = machine.nodes().len();
    let memory = machine.numa.memory.as_ref();
    if nodes < 2 && memory.is_none() {
        return None;
    }
    let cell = |a: usize, b: usize| {
        let distance = machine.numa.distance(a, b);
        let ns = |memory: &Memory| format!(" ({} ns)", memory.line_ns[a][b]);
        Cell::from(format!("{distance}{}", memory.map(ns).unwrap_or_default()))
    };
    let row = |a: usize| -> Vec<Cell> {
        let name = Cell::from(format!("node {a}"));
        std::iter::once(name)
            .chain((0..nodes).map(|b| cell(a, b)))
            .collect()
    };
    let title = memory.map_or("Distances".to_owned(), |memory| {
        format!(
            "Distances, and the cost of a changed cache line (unchanged: {} ns; a {} lock: {} ns)",
            memory.cached_ns, memory.spinlock, memory.lock_ns
        )
    });
    let header = (0..nodes).map(|node| format!("node {node}"));
    Some(Table {
        title,
        header: std::iter::once(String::new()).chain(header).collect(),
        text_columns: 1,
        rows: (0..nodes).map(row).collect(),
        ..Table::default()
    })
}

/// The levels of sched domains. A level whose span equals that of its child is redundant, and is left out.
fn domains(machine: &Machine) -> Table {
    let mut below: Vec<CpuMask> = machine.all_cpus().iter().map(CpuMask::one).collect();
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for level in &machine.levels {
        for span in &level.spans {
            let groups: Vec<String> = below
                .iter()
                .filter(|group| group.is_subset(span))
                .map(CpuMask::to_string)
                .collect();
            if groups.len() > 1 {
                rows.push(vec![
                    level.name.into(),
                    span.to_string().into(),
                    groups.join(" | ").into(),
                ]);
            }
        }
        below.clone_from(&level.spans);
    }
    Table {
        title: "Sched domains".to_owned(),
        header: ["level", "span", "groups"].map(str::to_owned).to_vec(),
        text_columns: 3,
        rows,
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Style, terminal};

    #[test]
    fn one_package_and_two() {
        for name in ["hikey-6220", "smp-2", "smp-2x8", "smt-4", "snb-laptop"] {
            let page = machine(&Machine::find(name).unwrap());
            insta::assert_snapshot!(format!("machine-{name}"), terminal(&page, Style::default()));
        }
    }
}
