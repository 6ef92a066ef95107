//! A machine as described by the kernel below `/sys`, or by a copy of it.

mod frequencies;

use crate::archive;
use crate::cpuinfo::CpuInfo;
use crate::folder::{Folder, read, trim};
use crate::found::Measure;
use crate::found::{Cpu, Found};
use crate::governor::Decider;
use crate::kind::kind;
use crate::limits::contradictions;
use machine::{Cache, CpuMask, IdleState, input};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// `EM_PERF_DOMAIN_MICROWATTS` of the energy model's flags (include/linux/energy_model.h).
const MICROWATTS: u64 = 1;

/// The online CPUs according to the sysfs at `root`. The error says what was expected.
pub fn online(root: &Path) -> Result<CpuMask, String> {
    listed(root, "online")
}

/// The CPUs for which the running kernel has prepared, according to the sysfs at `root`, whether or not the machine has
/// them. The error says what was expected.
pub fn possible(root: &Path) -> Result<CpuMask, String> {
    listed(root, "possible")
}

fn listed(root: &Path, name: &str) -> Result<CpuMask, String> {
    let file = root.join("devices/system/cpu").join(name);
    let list = read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    trim(&list)
        .parse()
        .map_err(|expected: String| format!("{}: {expected}", file.display()))
}

/// The machine of the sysfs at `root`: `/sys`, a copy of it, a folder with a copy in `sys`, an archive of such a
/// folder, or the text of a `/proc/cpuinfo`. The error says what was expected. Missing facts are omitted.
pub fn sysfs(root: &Path) -> Result<Found, String> {
    let is_stdin = root == Path::new(input::STDIN);
    if root.is_dir() || !(root.exists() || is_stdin) {
        return of_folder(root);
    }
    let folder = cage::Folder::new().map_err(|error| format!("no temporary folder: {error}"))?;
    // A pipe can be read once, and tar reads the file, too.
    let copy = folder.path().join("input");
    let root = match root.is_file() && !is_stdin {
        true => root,
        false => {
            let bytes = input::read_bytes(root, "file");
            let bytes = bytes.map_err(|error| error.message().to_owned())?;
            std::fs::write(&copy, bytes).map_err(|error| format!("no temporary file: {error}"))?;
            &copy
        }
    };
    let info = read(root)
        .map(|text| CpuInfo::read(&text))
        .unwrap_or_default();
    if !info.online().is_empty() {
        return Ok(info.machine());
    }
    archive::unpack(root, folder.path())?;
    match archive::root(folder.path()) {
        Ok(root) => of_folder(&root),
        Err(message) => Err(format!("{}: {message}", root.display())),
    }
}

fn of_folder(root: &Path) -> Result<Found, String> {
    let root = match root.join("sys/devices/system/cpu").is_dir() {
        true => root.join("sys"),
        false => root.to_owned(),
    };
    let sys = Folder(root.clone());
    let all = sys.at("devices/system/cpu");
    let present = all.numbered("cpu");
    if present.is_empty() {
        return Err(format!(
            "{}: no CPUs found; expected the folders cpu0, cpu1, ... of sysfs",
            all.0.display()
        ));
    }
    if let Some(beyond) = present.iter().find(|&&cpu| cpu >= machine::MAX_CPUS) {
        return Err(format!(
            "CPU {beyond}: expected CPUs below {}",
            machine::MAX_CPUS
        ));
    }
    // Some copies have only the CPUs' own files `online`, and the boot CPU has no such file.
    let is_online = |&cpu: &usize| {
        let file = all.at(format!("cpu{cpu}")).text("online");
        file.as_deref() != Some("0")
    };
    let online = match all.text("online") {
        Some(_) => online(&root)?,
        None => present.iter().copied().filter(is_online).collect(),
    };
    let mut found = Found {
        description: description(&sys),
        source: "sysfs".to_owned(),
        ..Found::default()
    };
    let highest = present
        .iter()
        .copied()
        .chain(online.iter())
        .max()
        .unwrap_or(0);
    found.offline = CpuMask::first_n(highest + 1).without(&online);
    cpus(&sys, &online, &mut found);
    nodes(&sys, &mut found, &online);
    let has_topology = online
        .iter()
        .any(|cpu| all.0.join(format!("cpu{cpu}/topology")).is_dir());
    let info = cpuinfo(&root);
    match has_topology {
        true => packages(&all, &mut found, &online),
        false => info.add_topology(&mut found),
    }
    info.add_kinds(&mut found);
    found.tidy();
    // Linux has an energy model if CPUs differ in their capacity.
    let capacity = |cpu: &Cpu| cpu.measures.get(&Measure::CpuCapacity).copied();
    let has_power = |cpu: &Cpu| cpu.opps.iter().any(|opp| opp.power_uw.is_some());
    let mut capacities = found.cpus.values().filter_map(capacity);
    if capacities.any(|it| it < 1024) && !found.cpus.values().any(has_power) {
        found.lose("power, which is in kernel/debug/energy_model, readable by root");
    }
    Ok(found)
}

fn cpus(sys: &Folder, online: &CpuMask, found: &mut Found) {
    let all = sys.at("devices/system/cpu");
    let energy = energy_model(sys);
    let threads = spans(&all, online, ["core_cpus", "thread_siblings"], found);
    let clusters = spans(&all, online, ["cluster_cpus"; 2], found);
    let policies = frequencies::folders(&all, online);
    let (mut lost, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let (mut all_caches, mut unreadable) = (Vec::new(), CpuMask::EMPTY);
    for number in online.iter() {
        let cpu = all.at(format!("cpu{number}"));
        let own = || cpu.at("cpufreq");
        let cpufreq = policies.get(&number).cloned().unwrap_or_else(own);
        if let Some(limit) = frequencies::limit(&cpufreq) {
            let cpus: &mut CpuMask = limits.entry(limit).or_default();
            cpus.set(number);
        }
        let read = Cpu {
            siblings: *threads.get(&number).unwrap_or(&CpuMask::one(number)),
            cluster: clusters.get(&number).copied(),
            idle_states: idle_states(&cpu.at("cpuidle"), &mut lost),
            ..read_cpu(sys, &cpu, &cpufreq, number, online, &energy)
        };
        let (caches, all_readable) = caches(&cpu, read.siblings);
        all_caches.extend(caches.into_iter().map(|cache| (number, cache)));
        if !all_readable {
            unreadable.set(number);
        }
        found.cpus.insert(number, read);
    }
    for (why, names) in lost {
        found.lose_idle_states(names, why);
    }
    lose_settings(&all, limits, found);
    if !unreadable.is_empty() {
        found.lose(format!(
            "caches of CPUs {unreadable}, whose shared_cpu_list is not a list of CPUs"
        ));
    }
    let mut levels: BTreeMap<u32, BTreeMap<usize, CpuMask>> = BTreeMap::new();
    for (cpu, cache) in &all_caches {
        let level = levels.entry(cache.level).or_default();
        level.insert(*cpu, cache.cpus.and(online));
    }
    for (level, spans) in levels {
        let wrong = contradictions(&spans);
        if !wrong.is_empty() {
            all_caches.retain(|(cpu, cache)| cache.level != level || !wrong.contains(*cpu));
            found.lose(format!(
                "the L{level} of CPUs {wrong}, whose shared_cpu_list contradicts those of other CPUs"
            ));
        }
    }
    found
        .caches
        .extend(all_caches.into_iter().map(|(_, cache)| cache));
}

fn cpuinfo(sys: &Path) -> CpuInfo {
    let file = sys.parent().map(|root| root.join("proc/cpuinfo"));
    let text = file.and_then(|file| read(&file).ok());
    CpuInfo::read(&text.unwrap_or_default())
}

/// The machine's name according to DMI or else the device tree, or a fixed description if neither has a name.
fn description(sys: &Folder) -> String {
    let dmi = sys.at("class/dmi/id");
    let vendor = dmi.text("sys_vendor");
    let named: Vec<String> = vendor.into_iter().chain(dmi.text("product_name")).collect();
    match named.is_empty() {
        false => named.join(" "),
        true => sys
            .text("firmware/devicetree/base/model")
            .unwrap_or_else(|| "a machine described by sysfs".to_owned()),
    }
}

/// Reads a CPU, except the sets of CPUs of its core and its cluster.
fn read_cpu(
    sys: &Folder,
    folder: &Folder,
    cpufreq: &Folder,
    number: usize,
    online: &CpuMask,
    energy: &BTreeMap<usize, BTreeMap<u32, u64>>,
) -> Cpu {
    let all = sys.at("devices/system/cpu");
    let mut measures = BTreeMap::new();
    for (measure, value) in [
        (Measure::CpuCapacity, folder.number("cpu_capacity")),
        (
            Measure::HighestPerf,
            folder.number("acpi_cppc/highest_perf"),
        ),
        (Measure::MaxFrequency, cpufreq.number("cpuinfo_max_freq")),
    ] {
        measures.extend(value.map(|value| (measure, value)));
    }
    let (mut opps, assumed_opps) = frequencies::opps(cpufreq, &all);
    if let Some(powers) = energy.get(&number) {
        for opp in &mut opps {
            opp.power_uw = powers.get(&opp.khz).copied();
        }
    }
    Cpu {
        policy: frequencies::related(cpufreq).map(|policy| policy.and(online)),
        kind: kind(sys, folder, number),
        measures,
        priority: frequencies::priority(&all, folder, cpufreq),
        opps,
        assumed_opps,
        decider: Decider::read(cpufreq),
        transition_latency_ns: cpufreq.number("cpuinfo_transition_latency"),
        ..Cpu::default()
    }
}

/// The set of CPUs of each CPU, from the file in its `topology` that has the first of `names` or, in older kernels, the
/// second. All CPUs of a set must have the same set. Other sets are left out with a warning, and so are unreadable
/// files.
fn spans(
    all: &Folder,
    online: &CpuMask,
    names: [&str; 2],
    found: &mut Found,
) -> BTreeMap<usize, CpuMask> {
    let files = names.map(|map| (format!("{map}_list"), map));
    let mut spans = BTreeMap::new();
    let (mut unreadable, mut file) = (CpuMask::EMPTY, "");
    for cpu in online.iter() {
        let topology = all.at(format!("cpu{cpu}/topology"));
        let exists = |name: &str| topology.text(name).is_some();
        let Some((list, _)) = files.iter().find(|(list, map)| exists(list) || exists(map)) else {
            continue;
        };
        file = list;
        match files
            .iter()
            .find_map(|(list, map)| topology.cpus(list, map))
        {
            None => unreadable.set(cpu),
            Some(span) if span.is_empty() => {}
            Some(span) => {
                spans.insert(cpu, span.and(online));
            }
        }
    }
    let wrong = contradictions(&spans);
    for (cpus, what) in [
        (unreadable, "is not a list of CPUs"),
        (wrong, "contradicts those of other CPUs"),
    ] {
        if !cpus.is_empty() {
            found.lose(format!("{file} of CPUs {cpus}, which {what}"));
        }
    }
    spans.retain(|&cpu, _| !wrong.contains(cpu));
    // A CPU without a set is in the set of the CPUs that name it.
    for span in spans.clone().values() {
        for cpu in span.iter() {
            spans.entry(cpu).or_insert(*span);
        }
    }
    spans
}

/// Reads sets of CPUs above the last-level cache. On s390, Linux has a scheduling domain for each set. If a machine
/// shows no caches, a CPU without a cluster gets its package as its cluster.
fn packages(all: &Folder, found: &mut Found, online: &CpuMask) {
    let packages = spans(all, online, ["package_cpus", "core_siblings"], found);
    if found.caches.is_empty() {
        for (number, cpu) in &mut found.cpus {
            cpu.cluster = cpu.cluster.or(packages.get(number).copied());
        }
    }
    let mut of = |names| spans(all, online, names, found);
    let others = [
        ("dies", of(["die_cpus"; 2])),
        ("books", of(["book_cpus", "book_siblings"])),
        ("drawers", of(["drawer_cpus", "drawer_siblings"])),
    ];
    for (what, spans) in [("packages", packages)].into_iter().chain(others) {
        let mut spans: Vec<CpuMask> = spans.into_values().collect();
        spans.sort_by_key(CpuMask::first);
        spans.dedup();
        found.lose_spans(what, &spans);
    }
}

/// The enabled idle states except polling. Adds the names of the other states to `lost`, by the reason.
fn idle_states(cpuidle: &Folder, lost: &mut BTreeMap<&str, BTreeSet<String>>) -> Vec<IdleState> {
    let mut states = Vec::new();
    for number in cpuidle.numbered("state") {
        let state = cpuidle.at(format!("state{number}"));
        let Some(name) = state.text("name").filter(|name| name != "POLL") else {
            continue;
        };
        let us = |file| state.number::<u64>(file).map(|us| us.saturating_mul(1000));
        // cpuidle does not enter disabled states. Old kernels have no residency.
        let is_disabled = us("disable").is_some_and(|it| it != 0);
        match us("residency").zip(us("latency")).filter(|_| !is_disabled) {
            Some((min_residency_ns, exit_latency_ns)) => states.push(IdleState {
                name,
                min_residency_ns,
                exit_latency_ns,
                ..IdleState::default()
            }),
            None => {
                let why = match is_disabled {
                    true => "which are disabled",
                    false => "whose residency or latency sysfs lacks",
                };
                lost.entry(why).or_default().insert(name);
            }
        }
    }
    states
}

/// Reports settings of the running kernel that a machine file cannot express.
fn lose_settings(all: &Folder, limits: BTreeMap<(u32, u32), CpuMask>, found: &mut Found) {
    for (file, what) in [
        ("isolated", "are isolated: Linux balances no load there"),
        ("nohz_full", "have no tick while they run one task"),
    ] {
        if let Some(cpus) = all.text(file).and_then(|list| list.parse::<CpuMask>().ok()) {
            found.lose(format!("CPUs {cpus} {what}"));
        }
    }
    for ((limit, most), cpus) in limits {
        found.lose(format!(
            "the limit of CPUs {cpus} to {limit} kHz (scaling_max_freq), below {most} kHz (cpuinfo_max_freq)"
        ));
    }
}

/// The caches of this CPU, without instruction caches and the first level, and whether the sets of CPUs of all these
/// caches are readable.
fn caches(cpu: &Folder, core: CpuMask) -> (Vec<Cache>, bool) {
    let cache = cpu.at("cache");
    let mut all_readable = true;
    let read = |number: usize| {
        let index = cache.at(format!("index{number}"));
        let level: u32 = index.number("level")?;
        if level < 2 || index.text("type")? == "Instruction" {
            return None;
        }
        // Linux on ia64 leaves the mask of a cache that is not shared empty.
        let shared = index.cpus("shared_cpu_list", "shared_cpu_map");
        all_readable &= shared.is_some() || index.text("shared_cpu_list").is_none();
        let shared = shared?;
        Some(Cache {
            level,
            cpus: if shared.is_empty() { core } else { shared },
            size_kib: index.text("size").and_then(|size| kib(&size)),
        })
    };
    let caches: Vec<Cache> = cache
        .numbered("index")
        .into_iter()
        .filter_map(read)
        .collect();
    // On sparc64, a CPU's folder has the size of its second-level cache instead (arch/sparc/kernel/sysfs.c).
    let bytes = cpu
        .number::<u64>("l2_cache_size")
        .filter(|_| caches.is_empty());
    let own = bytes.map(|bytes| Cache {
        level: 2,
        cpus: core,
        size_kib: u32::try_from(bytes >> 10).ok(),
    });
    let caches = caches.into_iter().chain(own).collect();
    (caches, all_readable)
}

/// For a size such as `1280K` or `32M`.
fn kib(size: &str) -> Option<u32> {
    match size.strip_suffix('M') {
        Some(mib) => mib.parse::<u32>().ok()?.checked_mul(1024),
        None => size.trim_end_matches('K').parse().ok(),
    }
}

fn nodes(sys: &Folder, found: &mut Found, online: &CpuMask) {
    let folder = sys.at("devices/system/node");
    let numbers = folder.numbered("node");
    let (mut with_cpus, mut without) = (Vec::new(), Vec::new());
    for (index, number) in numbers.iter().enumerate() {
        let node = folder.at(format!("node{number}"));
        let Some(cpus) = node
            .cpus("cpulist", "cpumap")
            .map(|cpus| cpus.and(online))
            .filter(|cpus| !cpus.is_empty())
        else {
            without.push(number.to_string());
            continue;
        };
        with_cpus.push(index);
        found.nodes.push(cpus);
        let distance = node.text("distance").unwrap_or_default();
        let row = distance.split_whitespace().filter_map(|it| it.parse().ok());
        found.distances.push(row.collect());
    }
    if !without.is_empty() {
        found.lose(format!(
            "nodes {} have memory and no CPUs that are online",
            without.join(", ")
        ));
    }
    // A row has an entry for each node, including those without CPUs.
    let complete = found.distances.iter().all(|row| row.len() == numbers.len());
    match complete && found.distances.len() > 1 {
        true => {
            for row in &mut found.distances {
                *row = with_cpus.iter().map(|&index| row[index]).collect();
            }
        }
        false => found.distances.clear(),
    }
    let in_nodes = found
        .nodes
        .iter()
        .fold(CpuMask::EMPTY, |all, node| all.or(node));
    if !found.nodes.is_empty() && in_nodes != *online {
        found.warnings.push(format!(
            "CPUs {} are in no NUMA node, so one node is used for all CPUs",
            online.without(&in_nodes)
        ));
        found.nodes.clear();
        found.distances.clear();
    }
}

/// The power in uW of each CPU at each frequency in kHz, from `energy_model` in debugfs, which only root may read.
fn energy_model(sys: &Folder) -> BTreeMap<usize, BTreeMap<u32, u64>> {
    let folder = sys.at("kernel/debug/energy_model");
    let mut of_cpus = BTreeMap::new();
    for domain in folder.names() {
        let domain = folder.at(domain);
        let Some(cpus) = domain
            .text("cpus")
            .and_then(|cpus| cpus.parse::<CpuMask>().ok())
        else {
            continue;
        };
        let flags = domain.text("flags").unwrap_or_default();
        let flags = u64::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(MICROWATTS);
        let unit_uw = if flags & MICROWATTS != 0 { 1 } else { 1000 };
        let state = |name: &String| {
            let state = domain.at(name);
            Some((
                state.number::<u32>("frequency")?,
                state.number::<u64>("power")?.saturating_mul(unit_uw),
            ))
        };
        let states = domain.names();
        let states = states.iter().filter(|name| name.starts_with("ps:"));
        let powers: BTreeMap<u32, u64> = states.filter_map(state).collect();
        for cpu in cpus.iter() {
            of_cpus.insert(cpu, powers.clone());
        }
    }
    of_cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_kernels() {
        assert_eq!(
            [kib("1280K"), kib("32M"), kib("x")],
            [Some(1280), Some(32768), None]
        );
    }
}
