//! A machine as described by its device tree, a blob such as `/sys/firmware/fdt` or a kernel's `.dtb`.

mod fdt;
mod idle;
mod numa;
mod opps;

use crate::found::Measure;
use crate::found::{Cpu, Found};
use fdt::Node;
use machine::input::BadInput;
use machine::{Cache, CpuMask};
use std::collections::BTreeMap;

struct Listed<'a> {
    /// The number that Linux gives the CPU.
    number: usize,
    node: &'a Node,
    online: bool,
}

/// The machine of `blob`, the content of `file`.
pub fn device_tree(file: &str, blob: &[u8]) -> Result<Found, Box<BadInput>> {
    let bad = |message: &str, expected: &str| {
        Box::new(BadInput::whole(format!("{file}: {message}"), expected))
    };
    if is_source(blob) {
        return Err(bad(
            "this is the source of a device tree",
            "expected a blob, which `dtc -O dtb -o FILE.dtb FILE.dts` makes (sources with #include first go \
             through the C preprocessor, as in Linux's build)",
        ));
    }
    let root =
        Node::root(blob).map_err(|message| bad(&message, "expected a device tree blob (.dtb)"))?;
    let by_handle: BTreeMap<u32, &Node> = root
        .all()
        .into_iter()
        .filter_map(|node| Some((node.phandle()?, node)))
        .collect();
    let listed = listed(&root);
    if listed.is_empty() {
        let is_overlay = root
            .children
            .iter()
            .any(|it| it.child("__overlay__").is_some());
        return Err(match is_overlay {
            true => bad(
                "this is an overlay, which changes another tree",
                "expected a complete tree, as `fdtoverlay -i BASE.dtb -o FILE.dtb OVERLAY.dtbo` writes it",
            ),
            false => bad("no CPU", "expected nodes /cpus/cpu@..."),
        });
    }
    if listed.len() > machine::MAX_CPUS {
        let message = format!("{} CPUs", listed.len());
        let expected = format!("expected at most {}", machine::MAX_CPUS);
        return Err(bad(&message, &expected));
    }
    if !listed.iter().any(|cpu| cpu.online) {
        return Err(bad(
            "no CPU is enabled",
            "expected nodes /cpus/cpu@... that are",
        ));
    }
    Ok(found(&root, &listed, &by_handle))
}

/// Is `text` the source of a device tree, perhaps before the C preprocessor?
fn is_source(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&text[..text.len().min(1 << 16)]);
    text.contains("/dts-v1/")
        || text
            .lines()
            .any(|line| line.starts_with("/ {") || line.starts_with("#include"))
}

fn found(root: &Node, listed: &[Listed], by_handle: &BTreeMap<u32, &Node>) -> Found {
    let model = root.text("model");
    let mut found = Found {
        description: model
            .unwrap_or("a machine described by its device tree")
            .to_owned(),
        source: "a device tree".to_owned(),
        ..Found::default()
    };
    let places = places(root, listed);
    for cpu in listed {
        if !cpu.online {
            found.offline.set(cpu.number);
            continue;
        }
        let of_node = listed.iter().filter(|it| std::ptr::eq(it.node, cpu.node));
        let (siblings, cluster) = match places.get(&cpu.number) {
            Some(&(core, cluster)) => (core, Some(cluster)),
            None => (of_node.map(|it| it.number).collect(), None),
        };
        let name = cpu.node.text("compatible");
        let read = Cpu {
            siblings,
            cluster,
            kind: name.map(|name| name.rsplit(',').next().unwrap_or(name).to_owned()),
            ..Cpu::default()
        };
        found.cpus.insert(cpu.number, read);
    }
    let online = found.online();
    for cpu in found.cpus.values_mut() {
        cpu.siblings = cpu.siblings.and(&online);
        cpu.cluster = cpu.cluster.map(|cluster| cluster.and(&online));
    }
    opps::add(&mut found, listed, by_handle);
    idle::add(&mut found, listed, by_handle);
    found.caches = caches(listed, by_handle);
    numa::add(&mut found, root, listed);
    found.lose_spans("sockets", &sockets(root, listed, &online));
    found.tidy();
    // This comes after `tidy()`, which removes impossible frequencies.
    measures(&mut found, listed);
    found
}

/// The CPUs in Linux's order: the boot CPU, which is assumed to be the first one, and then the others in the order of
/// their nodes.
///
/// No architecture numbers nodes whose status is `fail` (`of_get_next_cpu_node()`). riscv skips all harts that are
/// unavailable or cannot run Linux (`riscv_early_of_processor_hartid()`); elsewhere a disabled CPU has a number. On
/// PowerPC each thread of a node has a number (`smp_setup_cpu_maps()`).
///
/// A disabled CPU with an `enable-method` waits until the kernel starts it (Devicetree Specification 0.4, section
/// 3.8.1), as do all CPUs but the first on PowerPC boards with spin tables. arm64 starts every CPU that has a method.
fn listed(root: &Node) -> Vec<Listed<'_>> {
    let mut listed = Vec::new();
    let cpus = root.child("cpus").into_iter();
    for node in cpus.flat_map(|cpus| &cpus.children) {
        let is_cpu = node.base_name() == "cpu" || node.text("device_type") == Some("cpu");
        let failed = node.text("status").is_some_and(|it| it.starts_with("fail"));
        let is_hart = node.is("riscv");
        if !is_cpu || failed || (is_hart && !(node.is_available() && runs_linux(node))) {
            continue;
        }
        let waits = node.text("status") == Some("disabled") && node.text("enable-method").is_some();
        for _ in 0..threads(node) {
            listed.push(Listed {
                number: listed.len(),
                node,
                online: node.is_available() || waits,
            });
        }
    }
    listed
}

/// Does the hart have what Linux requires: a base of 32 or 64 bits with multiplication and atomics?
fn runs_linux(hart: &Node) -> bool {
    match (hart.text("riscv,isa-base"), hart.text("riscv,isa")) {
        (Some(_), _) => ["i", "m", "a"].iter().all(|wanted| {
            let mut extensions = hart.texts("riscv,isa-extensions");
            extensions.any(|extension| extension == *wanted)
        }),
        (None, Some(isa)) => {
            let isa = isa.to_ascii_lowercase();
            isa.starts_with("rv64ima") || isa.starts_with("rv32ima")
        }
        (None, None) => true,
    }
}

fn threads(node: &Node) -> usize {
    if !node.name.starts_with("PowerPC,") {
        return 1;
    }
    let servers = node.cells("ibm,ppc-interrupt-server#s").len();
    let threads = if servers > 0 {
        servers
    } else {
        node.cells("reg").len()
    };
    threads.max(1)
}

/// For each CPU, the threads of its core, and its cluster, from `/cpus/cpu-map`.
fn places(root: &Node, listed: &[Listed]) -> BTreeMap<usize, (CpuMask, CpuMask)> {
    let map = root.child("cpus").and_then(|cpus| cpus.child("cpu-map"));
    let mut cores: Vec<(CpuMask, CpuMask)> = Vec::new();
    if let Some(map) = map {
        collect_cores(map, listed, &mut cores);
    }
    let of_core = |&(core, cluster): &(CpuMask, CpuMask)| {
        let members: Vec<usize> = core.iter().collect();
        members.into_iter().map(move |cpu| (cpu, (core, cluster)))
    };
    cores.iter().flat_map(of_core).collect()
}

/// The cores below `node`, a socket or cluster, each with its innermost cluster.
fn collect_cores(node: &Node, listed: &[Listed], cores: &mut Vec<(CpuMask, CpuMask)>) {
    let number = |node: &Node| {
        let handle = node.cell("cpu")?;
        let mut cpus = listed.iter();
        Some(cpus.find(|cpu| cpu.node.phandle() == Some(handle))?.number)
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
            collect_cores(child, listed, cores);
        }
    }
    let cluster = here.iter().fold(CpuMask::EMPTY, |all, core| all.or(core));
    cores.extend(here.into_iter().map(|core| (core, cluster)));
}

fn sockets(root: &Node, listed: &[Listed], online: &CpuMask) -> Vec<CpuMask> {
    let map = root.child("cpus").and_then(|cpus| cpus.child("cpu-map"));
    let children = map.into_iter().flat_map(|map| &map.children);
    let sockets = children.filter(|child| child.name.starts_with("socket"));
    let span = |socket| {
        let mut cores = Vec::new();
        collect_cores(socket, listed, &mut cores);
        let cores = cores.iter().map(|(core, _)| core.and(online));
        cores.fold(CpuMask::EMPTY, |all, core| all.or(&core))
    };
    sockets.map(span).filter(|span| !span.is_empty()).collect()
}

/// The measures of speed. Linux multiplies `capacity-dmips-mhz` by each CPU's highest frequency or, if that is unknown,
/// takes the property alone (`topology_normalize_cpu_scale()` in drivers/base/arch_topology.c). If a CPU lacks the
/// property, all CPUs have the same capacity.
fn measures(found: &mut Found, listed: &[Listed]) {
    let nodes: BTreeMap<usize, &Node> = listed.iter().map(|cpu| (cpu.number, cpu.node)).collect();
    let timed = found.cpus.values().all(|cpu| !cpu.opps.is_empty());
    let untimed: CpuMask = found
        .cpus
        .iter()
        .filter(|(_, cpu)| cpu.opps.is_empty())
        .map(|(&number, _)| number)
        .collect();
    let mut works = Vec::new();
    for (number, cpu) in &mut found.cpus {
        let highest = cpu.opps.last().map(|opp| u64::from(opp.khz));
        let work = nodes[number].cell("capacity-dmips-mhz");
        works.extend(work);
        let measure = match timed {
            true => Measure::DmipsMhz,
            false => Measure::Dmips,
        };
        let khz = highest.filter(|_| timed).unwrap_or(1);
        let capacity = work.map(|work| (measure, u64::from(work) * khz));
        cpu.measures.extend(capacity);
        cpu.measures
            .extend(highest.map(|khz| (Measure::MaxFrequency, khz)));
    }
    found.equal_capacities = works.len() < found.cpus.len();
    if !found.equal_capacities && !timed && works.iter().min() != works.iter().max() {
        found.warnings.push(format!(
            "capacities are work per MHz, as if all CPUs had the same highest frequency; Linux multiplies by the \
             highest frequencies, which the tree lacks for CPUs {untimed}"
        ));
    }
}

/// The caches to which CPUs refer by `next-level-cache`, or by PowerPC's `l2-cache`
/// (`of_find_next_cache_node()`).
fn caches(listed: &[Listed], by_handle: &BTreeMap<u32, &Node>) -> Vec<Cache> {
    let after = |node: &Node| {
        let next = node.cell("l2-cache");
        next.or_else(|| node.cell("next-level-cache"))
    };
    let mut caches: BTreeMap<u32, Cache> = BTreeMap::new();
    for cpu in listed.iter().filter(|cpu| cpu.online) {
        let mut next = after(cpu.node);
        // Start from the first level, which has no node, and continue to the fourth.
        for level in 2..=4 {
            let Some((handle, node)) =
                next.and_then(|handle| Some((handle, by_handle.get(&handle)?)))
            else {
                break;
            };
            let cache = caches.entry(handle).or_insert_with(|| Cache {
                level,
                cpus: CpuMask::EMPTY,
                size_kib: node.cell("cache-size").map(|bytes| bytes >> 10),
            });
            // A tree may lack levels, and a CPU may lack a lower cache that other CPUs have.
            let deepest = cache.level.max(level);
            cache.level = node.cell("cache-level").unwrap_or(deepest);
            cache.cpus.set(cpu.number);
            next = after(node);
        }
    }
    caches.into_values().collect()
}
