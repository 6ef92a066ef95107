//! The machine on which this program runs, from sysfs or a machine file, in the form that the
//! scheduler's user-space half uses.

use crate::error::Error;
use anyhow::Result;
use detect::{Found, tick_hz};
use machine::input::BadInput;
use machine::{CoreType, Cpu, CpuMask, Level, Machine, counted};
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The machine of this name or in this file, if it has as many CPUs as this machine.
pub fn describe(name_or_path: &str) -> Result<Machine, Error> {
    Ok(fit(Machine::find(name_or_path)?, number_of_cpus()?)?)
}

/// One more than the highest number that a CPU may have.
fn number_of_cpus() -> Result<usize> {
    let possible = detect::possible(Path::new(SYS)).map_err(anyhow::Error::msg)?;
    Ok(possible.iter().last().map_or(1, |last| last + 1))
}

/// The machine as it is now, or as `described`, and its online CPUs. No offline CPU is in any span. If CPUs go online
/// or offline while this function reads sysfs, the result is a consistent snapshot.
pub fn machine(described: Option<&Machine>) -> Result<(Machine, CpuMask)> {
    let (mut machine, online) = match described {
        Some(described) => (described.clone(), online()?),
        None => {
            let places = places()?;
            let online = places.iter().map(|place| place.cpu).collect();
            (assemble(number_of_cpus()?, &places), online)
        }
    };
    keep_online(&mut machine, &online);
    machine.hz = tick_hz();
    machine.governor_adds = governor_adds();
    Ok((machine, online))
}

/// Does schedutil govern any CPU? Other governors are assumed to use only the request.
fn governor_adds() -> bool {
    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
    let governor = |policy: std::fs::DirEntry| {
        std::fs::read_to_string(policy.path().join("scaling_governor")).unwrap_or_default()
    };
    std::fs::read_dir(POLICIES)
        .into_iter()
        .flatten()
        .flatten()
        .any(|policy| governor(policy).trim() == "schedutil")
}

/// The running kernel's release, such as `7.3.4+deb13-amd64`.
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

pub fn online() -> Result<CpuMask> {
    detect::online(Path::new(SYS)).map_err(anyhow::Error::msg)
}

const SYS: &str = "/sys";
/// The time between two readings of sysfs that have to agree.
const SETTLED: Duration = Duration::from_millis(100);

/// The place of each online CPU according to sysfs. A CPU that comes online is listed before its caches and siblings
/// are listed, and the kernel may not report when that happens, so two readings have to agree.
fn places() -> Result<Vec<Place>> {
    let mut before = read_places()?;
    loop {
        thread::sleep(SETTLED);
        let now = read_places()?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}

/// Makes one reading. If a CPU goes offline while its files are read, the files vanish, and
/// everything is read again.
fn read_places() -> Result<Vec<Place>> {
    loop {
        let found = detect::sysfs(Path::new(SYS)).map_err(anyhow::Error::msg)?;
        if found.online() == online()? {
            return Ok(Place::all(&found));
        }
    }
}

fn fit(described: Machine, cpus: usize) -> Result<Machine, Box<BadInput>> {
    if described.cpus.len() == cpus {
        return Ok(described);
    }
    Err(Box::new(BadInput::whole(
        format!(
            "machine `{}` does not fit: it has {}, but this computer has {cpus}",
            described.name,
            counted(described.cpus.len(), "CPU", "CPUs"),
        ),
        format!("expected a description of {}", counted(cpus, "CPU", "CPUs")),
    )))
}

fn keep_online(machine: &mut Machine, online: &CpuMask) {
    machine.offline = CpuMask::first_n(machine.cpus.len()).without(online);
    for level in &mut machine.levels {
        for span in &mut level.spans {
            *span = span.and(online);
        }
        level.spans.retain(|span| !span.is_empty());
    }
}

/// The place of a CPU. CPUs with equal numbers share the respective unit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    cpu: usize,
    /// The capacity in sysfs, where the machine's largest CPU has 1024.
    capacity: u32,
    core: usize,
    /// The first CPU with the same last-level cache.
    cache: usize,
    node: usize,
}

impl Place {
    fn all(found: &Found) -> Vec<Place> {
        let capacities = found.capacities();
        let place = |(&number, cpu): (&usize, &detect::Cpu)| Place {
            cpu: number,
            capacity: capacities[&number],
            core: cpu.siblings.first().unwrap_or(number),
            cache: found.last_level(number).first().unwrap_or(number),
            node: found.node(number),
        };
        found.cpus.iter().map(place).collect()
    }
}

/// The capacity in sysfs (whose largest is 1024) that counts as 1024 of the scheduler's capacity
/// (`cpu_power`). In the designs' kernels it is the mean of the machine's largest and smallest
/// capacity, but more than two thirds of the largest, so that no CPU counts as two
/// (`parse_dt_topology()` in arch/arm/kernel/topology.c of Linux 3.9).
fn middle_capacity(places: &[Place]) -> u32 {
    let capacities = || places.iter().map(|place| place.capacity);
    let most = capacities().max().unwrap_or(1);
    let least = capacities().min().unwrap_or(1);
    most.midpoint(least).max(2 * most / 3 + 1)
}

/// A machine of `cpus` CPUs, of which those in `places` are online, with the kernel's default levels
/// (`default_topology` in kernel/sched/topology.c, where PKG has the CPUs of a NUMA node).
fn assemble(cpus: usize, places: &[Place]) -> Machine {
    const NOMINAL: u32 = 1024;
    let middle = middle_capacity(places);
    let mut capacities = vec![NOMINAL; cpus];
    for place in places {
        capacities[place.cpu] = place.capacity * NOMINAL / middle;
    }
    let mut kinds = capacities.clone();
    kinds.sort_unstable_by(|a, b| b.cmp(a));
    kinds.dedup();
    Machine {
        name: "host".to_owned(),
        description: "this machine, described by sysfs".to_owned(),
        hz: tick_hz(),
        cpus: capacities
            .iter()
            .map(|&capacity| Cpu {
                core_type: kinds.iter().position(|&kind| kind == capacity).unwrap_or(0),
                capacity,
            })
            .collect(),
        core_types: kinds
            .iter()
            .map(|&capacity| CoreType {
                name: format!("capacity-{capacity}"),
                speed: ((u64::from(capacity) << 20) / u64::from(kinds[0])) as u32,
                smt_throughput: 1 << 20,
                ..CoreType::default()
            })
            .collect(),
        levels: vec![
            level("SMT", places, |place| (place.node, place.core)),
            level("MC", places, |place| (place.node, place.cache)),
            level("PKG", places, |place| place.node),
            level("NUMA", places, |_| ()),
        ],
        ..Machine::default()
    }
}

/// A level whose spans are the CPUs with the same `key`.
fn level<K: Ord>(name: &'static str, places: &[Place], key: impl Fn(&Place) -> K) -> Level {
    let mut spans: BTreeMap<K, CpuMask> = BTreeMap::new();
    for place in places {
        spans
            .entry(key(place))
            .or_insert(CpuMask::EMPTY)
            .set(place.cpu);
    }
    Level {
        name,
        spans: spans.into_values().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use detect::Measure;
    use machine::Cache;
    use policy::{Domains, Linux};

    fn place(cpu: usize, capacity: u32, core: usize, cache: usize, node: usize) -> Place {
        Place {
            cpu,
            capacity,
            core,
            cache,
            node,
        }
    }

    fn domains(machine: &Machine) -> String {
        Domains::new(machine, Linux::V3_9).to_string()
    }

    #[test]
    fn two_clusters_make_the_domains_of_tc2() {
        let board = assemble(
            5,
            &[
                place(0, 1024, 0, 0, 0),
                place(1, 1024, 1, 0, 0),
                place(2, 430, 2, 1, 0),
                place(3, 430, 3, 1, 0),
                place(4, 430, 4, 1, 0),
            ],
        );
        let tc2 = Machine::find("tc2").unwrap();
        assert_eq!(domains(&board), domains(&tc2));
        assert_eq!(board.core_types.len(), 2);
        assert_eq!(board.core_types[board.cpus[0].core_type].speed, 1 << 20);
        // The rule also gives TC2's cpu_power, 1441 and 606, within the precision of the whole numbers in sysfs.
        for (cpu, of_tc2) in board.cpus.iter().zip(&tc2.cpus) {
            assert!(cpu.capacity.abs_diff(of_tc2.capacity) <= 2, "{board:?}");
        }
    }

    #[test]
    fn the_middle_of_capacities_is_1024() {
        let capacities = |all: &[u32]| {
            let places: Vec<Place> = all
                .iter()
                .enumerate()
                .map(|(cpu, &capacity)| place(cpu, capacity, cpu, 0, 0))
                .collect();
            let cpus = assemble(all.len(), &places).cpus;
            cpus.iter().map(|cpu| cpu.capacity).collect::<Vec<u32>>()
        };
        assert_eq!(capacities(&[1024, 1024]), [1024, 1024]);
        assert_eq!(capacities(&[1024, 512]), [1365, 682]);
        assert_eq!(capacities(&[1024, 900, 512]), [1365, 1200, 682]);
        // 1536 would count as two CPUs.
        assert_eq!(capacities(&[1024, 341]), [1535, 511]);
        assert_eq!(capacities(&[1024, 100]), [1535, 149]);
        assert_eq!(capacities(&[512, 171]), [1533, 512]);
    }

    #[test]
    fn threads_caches_and_nodes_are_levels() {
        let server: Vec<Place> = (0..8)
            .map(|cpu| place(cpu, 1024, cpu % 4, (cpu % 4) / 2, (cpu % 4) / 2))
            .collect();
        assert_eq!(
            domains(&assemble(8, &server)),
            "SMT 0,4: 0 | 4\nSMT 1,5: 1 | 5\nSMT 2,6: 2 | 6\nSMT 3,7: 3 | 7\n\
             MC 0-1,4-5: 0,4 | 1,5\nMC 2-3,6-7: 2,6 | 3,7\n\
             NUMA 0-7: 0-1,4-5 | 2-3,6-7\n"
        );
    }

    /// Kernels before 6.12 report a capacity of 1024 for all CPUs of a hybrid.
    #[test]
    fn a_hybrid_is_one_even_if_the_kernel_says_that_its_cpus_are_alike() {
        let cpu = |siblings: &str, perf| detect::Cpu {
            siblings: siblings.parse().unwrap(),
            measures: [(Measure::CpuCapacity, 1024), (Measure::HighestPerf, perf)].into(),
            ..detect::Cpu::default()
        };
        let cache = |level, cpus: &str| Cache {
            level,
            cpus: cpus.parse().unwrap(),
            size_kib: None,
        };
        let found = Found {
            cpus: [cpu("0-1", 60), cpu("0-1", 60), cpu("2", 36), cpu("3", 36)]
                .into_iter()
                .enumerate()
                .collect(),
            caches: vec![cache(2, "0-1"), cache(2, "2-3"), cache(3, "0-3")],
            nodes: vec![CpuMask::first_n(4)],
            ..Found::default()
        };
        let machine = assemble(4, &Place::all(&found));
        assert_eq!(
            machine
                .cpus
                .iter()
                .map(|cpu| cpu.core_type)
                .collect::<Vec<_>>(),
            [0, 0, 1, 1]
        );
        assert_eq!(domains(&machine), "SMT 0-1: 0 | 1\nMC 0-3: 0-1 | 2 | 3\n");
    }

    #[test]
    fn a_cpu_that_is_offline_is_in_no_domain() {
        let places = [place(0, 1024, 0, 0, 0), place(2, 1024, 2, 0, 0)];
        let machine = assemble(3, &places);
        assert_eq!(machine.cpus.len(), 3);
        assert_eq!(domains(&machine), "MC 0,2: 0 | 2\n");

        let mut described = Machine::find("tc2").unwrap();
        keep_online(&mut described, &[0, 1, 3].into_iter().collect());
        let domains = Domains::new(&described, Linux::V3_9);
        assert!(domains.cpus[2].is_empty() && domains.cpus[4].is_empty());
        assert_eq!(domains.to_string(), "MC 0-1: 0 | 1\nPKG 0-1,3: 0-1 | 3\n");
    }

    #[test]
    fn a_machine_file_must_have_as_many_cpus() {
        let tc2 = Machine::find("tc2").unwrap();
        assert!(fit(tc2.clone(), 5).is_ok());
        let error = fit(tc2, 4).unwrap_err();
        assert!(
            error
                .message()
                .contains("has 5 CPUs, but this computer has 4")
        );
    }
}
