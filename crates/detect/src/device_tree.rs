//! A machine as described by its device tree, a blob such as `/sys/firmware/fdt` or a kernel's `.dtb`.

use crate::capacity::Measure;
use crate::found::{Cpu, Found, OppFound};
use dtoolkit::Property as _;
use dtoolkit::fdt::Fdt;
use machine::input::BadInput;
use machine::{Cache, CpuMask, IdleState};
use std::collections::BTreeMap;

/// The limit on the depth of nodes, which no real tree reaches.
const DEEPEST: usize = 64;

/// A node with its properties and children.
struct Node {
    name: String,
    properties: BTreeMap<String, Vec<u8>>,
    children: Vec<Node>,
}

impl Node {
    /// Big-endian words of 32 bits.
    fn cells(&self, name: &str) -> Vec<u32> {
        let words = self.properties.get(name).map(|value| value.chunks_exact(4));
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |word, &byte| word << 8 | u32::from(byte))
        };
        words.into_iter().flatten().map(word).collect()
    }

    fn cell(&self, name: &str) -> Option<u32> {
        self.cells(name).first().copied()
    }

    /// The first string of a list.
    fn text(&self, name: &str) -> Option<&str> {
        let value = self.properties.get(name)?;
        std::str::from_utf8(value.split(|&byte| byte == 0).next()?).ok()
    }

    fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|child| child.name == name)
    }

    fn phandle(&self) -> Option<u32> {
        self.cell("phandle").or_else(|| self.cell("linux,phandle"))
    }
}

/// The machine of `blob`, the content of `file`.
pub fn device_tree(file: &str, blob: &[u8]) -> Result<Found, Box<BadInput>> {
    let bad = |message: String, expected: &str| {
        Box::new(BadInput::whole(format!("{file}: {message}"), expected))
    };
    let fdt = Fdt::new(blob)
        .map_err(|error| bad(error.to_string(), "expected a device tree blob (.dtb)"))?;
    let root = read(&fdt.root(), 0);
    let mut by_handle = BTreeMap::new();
    index(&root, &mut by_handle);
    let cpus = root.child("cpus");
    let is_cpu =
        |node: &&Node| node.text("device_type") == Some("cpu") || node.name.starts_with("cpu@");
    let cpus: Vec<&Node> = cpus
        .into_iter()
        .flat_map(|cpus| cpus.children.iter().filter(is_cpu))
        .collect();
    if cpus.is_empty() {
        return Err(bad("no CPU".to_owned(), "expected nodes /cpus/cpu@..."));
    }
    if cpus.len() > machine::MAX_CPUS {
        return Err(bad(format!("{} CPUs", cpus.len()), "expected at most 1024"));
    }
    let mut found = Found {
        description: root
            .text("model")
            .unwrap_or("a machine described by its device tree")
            .to_owned(),
        source: "a device tree".to_owned(),
        ..Found::default()
    };
    let places = places(&root, &cpus);
    let mut tables: BTreeMap<u32, CpuMask> = BTreeMap::new();
    for (number, node) in cpus.iter().enumerate() {
        if node
            .text("status")
            .is_some_and(|status| status.starts_with("disabled") || status.starts_with("fail"))
        {
            found.offline.set(number);
            continue;
        }
        if let Some(table) = node.cell("operating-points-v2") {
            tables.entry(table).or_default().set(number);
        }
        let (siblings, cluster) = places
            .get(&number)
            .copied()
            .unwrap_or((CpuMask::one(number), None));
        found
            .cpus
            .insert(number, cpu(node, siblings, cluster, &by_handle));
    }
    // CPUs with a shared table share a clock; other tables say nothing about clocks.
    for (handle, cpus) in &tables {
        if by_handle
            .get(handle)
            .is_some_and(|table| table.properties.contains_key("opp-shared"))
        {
            for number in cpus.iter() {
                if let Some(cpu) = found.cpus.get_mut(&number) {
                    // One table may belong to several clusters of the same kind.
                    let within = cpu.cluster.unwrap_or(*cpus);
                    cpu.policy = Some(cpus.and(&within));
                }
            }
        }
    }
    found.caches = caches(&cpus, &found, &by_handle);
    let mut nodes: BTreeMap<u32, CpuMask> = BTreeMap::new();
    for &number in found.cpus.keys() {
        nodes
            .entry(cpus[number].cell("numa-node-id").unwrap_or(0))
            .or_default()
            .set(number);
    }
    if found.cpus.is_empty() {
        return Err(bad(
            "no CPU is enabled".to_owned(),
            "expected nodes /cpus/cpu@... that are",
        ));
    }
    found.nodes = nodes.into_values().collect();
    found.tidy();
    Ok(found)
}

fn read(node: &impl dtoolkit::Node, depth: usize) -> Node {
    let properties = node
        .properties()
        .map(|property| (property.name().to_owned(), property.value().to_vec()));
    let properties = properties.collect();
    let children = match depth < DEEPEST {
        true => node
            .children()
            .map(|child| read(&child, depth + 1))
            .collect(),
        false => Vec::new(),
    };
    Node {
        name: node.name().as_ref().to_owned(),
        properties,
        children,
    }
}

fn index<'a>(node: &'a Node, by_handle: &mut BTreeMap<u32, &'a Node>) {
    by_handle.extend(node.phandle().map(|handle| (handle, node)));
    node.children
        .iter()
        .for_each(|child| index(child, by_handle));
}

/// By CPU: the threads of its core and its cluster, from `/cpus/cpu-map`.
fn places(root: &Node, cpus: &[&Node]) -> BTreeMap<usize, (CpuMask, Option<CpuMask>)> {
    let map = root.child("cpus").and_then(|cpus| cpus.child("cpu-map"));
    let mut cores: Vec<(CpuMask, Option<CpuMask>)> = Vec::new();
    for map in map.into_iter() {
        collect_cores(map, cpus, &mut cores);
    }
    let of_core = |&(core, cluster): &(CpuMask, Option<CpuMask>)| {
        let members: Vec<usize> = core.iter().collect();
        members.into_iter().map(move |cpu| (cpu, (core, cluster)))
    };
    cores.iter().flat_map(of_core).collect()
}

/// The cores below `node`, a socket or cluster, each with its innermost cluster.
fn collect_cores(node: &Node, cpus: &[&Node], cores: &mut Vec<(CpuMask, Option<CpuMask>)>) {
    let number = |node: &Node| {
        let handle = node.cell("cpu")?;
        cpus.iter().position(|cpu| cpu.phandle() == Some(handle))
    };
    let mut here: Vec<CpuMask> = Vec::new();
    for child in &node.children {
        if child.name.starts_with("core") {
            let threads = child
                .children
                .iter()
                .filter(|it| it.name.starts_with("thread"));
            let core: CpuMask = threads.filter_map(number).chain(number(child)).collect();
            here.extend((!core.is_empty()).then_some(core));
        } else {
            collect_cores(child, cpus, cores);
        }
    }
    let cluster = here.iter().fold(CpuMask::EMPTY, |all, core| all.or(core));
    cores.extend(here.into_iter().map(|core| (core, Some(cluster))));
}

fn cpu(
    node: &Node,
    siblings: CpuMask,
    cluster: Option<CpuMask>,
    by_handle: &BTreeMap<u32, &Node>,
) -> Cpu {
    let table = node
        .cell("operating-points-v2")
        .and_then(|handle| by_handle.get(&handle));
    let opps = table.map_or(Vec::new(), |table| opps(table));
    let latency = |opp: &Node| opp.cell("clock-latency-ns").map(u64::from);
    let latencies = table
        .into_iter()
        .flat_map(|table| table.children.iter().filter_map(latency));
    let mut measures = BTreeMap::new();
    let mhz = opps.last().map(|opp: &OppFound| opp.khz / 1000);
    if let Some(dmips) = node.cell("capacity-dmips-mhz") {
        // CPUs without frequencies are assumed to be equal, as in the kernel.
        let capacity = dmips.checked_mul(mhz.unwrap_or(1));
        measures.extend(capacity.map(|capacity| (Measure::DmipsMhz, capacity)));
    }
    measures.extend(opps.last().map(|opp| (Measure::MaxFrequency, opp.khz)));
    let states = node.cells("cpu-idle-states");
    let mut idle_states: Vec<IdleState> = states
        .iter()
        .filter_map(|handle| by_handle.get(handle).map(|state| idle_state(state)))
        .collect();
    if !idle_states.is_empty() {
        // The kernel adds it to every list (drivers/cpuidle/dt_idle_states.c, cpuidle-psci.c).
        let wfi = IdleState {
            name: "WFI".to_owned(),
            min_residency_ns: 1_000,
            exit_latency_ns: 1_000,
            ..IdleState::default()
        };
        idle_states.insert(0, wfi);
    }
    let compatible = node.text("compatible");
    Cpu {
        siblings,
        cluster,
        policy: None,
        kind: compatible.map(|name| name.rsplit(',').next().unwrap_or(name).to_owned()),
        measures,
        priority: None,
        opps,
        assumed_opps: false,
        decider: None,
        transition_latency_ns: latencies.max(),
        idle_states,
        costs: None,
    }
}

/// The OPPs of an `operating-points-v2` table, rising.
fn opps(table: &Node) -> Vec<OppFound> {
    let opp = |node: &Node| {
        let [high, low] = node.cells("opp-hz")[..] else {
            return None;
        };
        let khz = ((u64::from(high) << 32 | u64::from(low)) / 1000) as u32;
        Some(OppFound {
            khz,
            microvolt: node
                .cell("opp-microvolt")
                .filter(|&microvolt| microvolt > 0),
            power_uw: None,
        })
    };
    let mut opps: Vec<OppFound> = table.children.iter().filter_map(opp).collect();
    opps.sort_by_key(|opp| opp.khz);
    opps.dedup_by_key(|opp| opp.khz);
    opps
}

fn idle_state(node: &Node) -> IdleState {
    let ns = |name: &str| node.cell(name).map(|us| u64::from(us) * 1000);
    // The kernel takes the wakeup latency, otherwise entry plus exit (dt_idle_states.c).
    let both = || ns("entry-latency-us").unwrap_or(0) + ns("exit-latency-us").unwrap_or(0);
    IdleState {
        name: node
            .text("idle-state-name")
            .unwrap_or(&node.name)
            .to_owned(),
        min_residency_ns: ns("min-residency-us").unwrap_or(0),
        exit_latency_ns: ns("wakeup-latency-us").unwrap_or_else(both),
        ..IdleState::default()
    }
}

/// The caches to which CPUs refer by `next-level-cache`.
fn caches(cpus: &[&Node], found: &Found, by_handle: &BTreeMap<u32, &Node>) -> Vec<Cache> {
    let mut caches: BTreeMap<u32, Cache> = BTreeMap::new();
    for &number in found.cpus.keys() {
        let mut next = cpus[number].cell("next-level-cache");
        // Starts from the first level, which has no node, and continues to the fourth.
        for level in 2..=4 {
            let Some((handle, node)) =
                next.and_then(|handle| Some((handle, by_handle.get(&handle)?)))
            else {
                break;
            };
            let cache = caches.entry(handle).or_insert_with(|| Cache {
                level: node.cell("cache-level").unwrap_or(level),
                cpus: CpuMask::EMPTY,
                size_kib: node
                    .cell("cache-size")
                    .map(|bytes| bytes >> 10)
                    .filter(|&kib| kib > 0),
            });
            cache.cpus.set(number);
            next = node.cell("next-level-cache");
        }
    }
    let known = |cache: &Cache| (2..=4).contains(&cache.level);
    caches.into_values().filter(known).collect()
}
