//! NUMA nodes of hwloc's XML, and their distances.

use super::{Reader, objects};
use crate::found::Found;
use machine::input::BadInput;
use machine::{CpuMask, LOCAL_DISTANCE};
use roxmltree::Node;
use std::collections::BTreeMap;

/// The bit of `kind` for distances that are latencies (`HWLOC_DISTANCES_KIND_MEANS_LATENCY`).
const MEANS_LATENCY: u32 = 1 << 2;

/// The numbers of the nodes, and the distances between them row by row.
type Matrix = (Vec<usize>, Vec<u32>);

impl Reader<'_> {
    /// Adds the nodes to `found`. In hwloc, a node of memory without its own CPUs, such as HBM or CXL, has the CPUs
    /// near that node. In Linux each CPU is in one node, so if nodes share CPUs, the node with the lowest number gets
    /// them.
    pub(super) fn nodes(
        &self,
        root: Node,
        found: &mut Found,
        groups: &[CpuMask],
    ) -> Result<(), Box<BadInput>> {
        let online = found.online();
        let mut all: BTreeMap<usize, CpuMask> = BTreeMap::new();
        for node in objects(root, &["NUMANode"]) {
            let cpus = match node.has_attribute("cpuset") {
                true => self.cpuset(node)?.and(&online),
                false => CpuMask::EMPTY,
            };
            all.insert(self.number(node, "os_index")?, cpus);
        }
        let mut left = online;
        let mut nodes: BTreeMap<usize, CpuMask> = BTreeMap::new();
        for (&number, cpus) in &all {
            if !cpus.is_empty() && cpus.is_subset(&left) {
                left = left.without(cpus);
                nodes.insert(number, *cpus);
            }
        }
        let without = all.keys().filter(|number| !nodes.contains_key(number));
        found.lose_memory(without, "CPUs of their own");
        let packages = self.spans(objects(root, &["Package", "Socket"]), &online)?;
        found.distances = match left.is_empty() {
            true => self.distances(root, &nodes)?,
            false => Vec::new(),
        };
        if !left.is_empty() && !all.is_empty() {
            found.warnings.push(format!(
                "the nodes of CPUs {left} are missing, so these CPUs form one node per package, and distances \
                 are not used"
            ));
        }
        found.nodes = nodes.into_values().collect();
        if !all.is_empty() {
            let parts = packages.iter().map(|package| package.and(&left));
            let parts: Vec<CpuMask> = parts.filter(|part| !part.is_empty()).collect();
            let rest = parts.iter().fold(left, |rest, part| rest.without(part));
            found.nodes.extend(parts);
            found.nodes.extend((!rest.is_empty()).then_some(rest));
        }
        found.lose_spans("packages", &packages);
        found.lose_spans("groups or dies", groups);
        Ok(())
    }

    /// The distances between `nodes`, in their order; empty if the file lacks any of them.
    fn distances(
        &self,
        root: Node,
        nodes: &BTreeMap<usize, CpuMask>,
    ) -> Result<Vec<Vec<u32>>, Box<BadInput>> {
        let matrix = match root.descendants().find(is_latency) {
            Some(latencies) => Some(self.version_2(latencies)?),
            None => self.version_1(root)?,
        };
        let Some((indexes, values)) = matrix else {
            return Ok(Vec::new());
        };
        let places: Option<Vec<usize>> = nodes
            .keys()
            .map(|node| indexes.iter().position(|index| index == node))
            .collect();
        let Some(places) = places.filter(|places| places.len() > 1) else {
            return Ok(Vec::new());
        };
        let count = indexes.len();
        let row = |&a: &usize| places.iter().map(|&b| values[a * count + b]).collect();
        Ok(places.iter().map(row).collect())
    }

    /// The nodes of a `<distances2>` and their matrix.
    fn version_2(&self, latencies: Node) -> Result<Matrix, Box<BadInput>> {
        let list = |tag: &str| -> Result<Vec<f64>, Box<BadInput>> {
            let mut all = Vec::new();
            for part in latencies.children().filter(|node| node.has_tag_name(tag)) {
                for number in part.text().unwrap_or_default().split_whitespace() {
                    let number = number.parse();
                    all.push(number.map_err(|_| {
                        self.bad(part, "not numbers", "expected a list of numbers")
                    })?);
                }
            }
            Ok(all)
        };
        let (indexes, values) = (list("indexes")?, list("u64values")?);
        let count = indexes.len();
        if values.len() != count * count {
            return Err(self.bad(
                latencies,
                format!("{} distances of {count} nodes", values.len()),
                "expected a distance for each pair of nodes",
            ));
        }
        let indexes = indexes.into_iter().map(|index| index as usize);
        Ok((indexes.collect(), relative(&values)))
    }

    fn version_1(&self, root: Node) -> Result<Option<Matrix>, Box<BadInput>> {
        for distances in root
            .descendants()
            .filter(|node| node.has_tag_name("distances"))
        {
            let depth: usize = self.number(distances, "relative_depth")?;
            let Some(above) = distances.parent() else {
                continue;
            };
            let is_above = |node: &Node| {
                let mut parents = node.ancestors().skip(1);
                parents.position(|parent| parent == above) == depth.checked_sub(1)
            };
            let mut indexes = Vec::new();
            for node in objects(above, &["NUMANode"]).filter(is_above) {
                indexes.push(self.number(node, "os_index")?);
            }
            let values: Vec<f64> = distances
                .children()
                .filter_map(|node| node.attribute("value")?.parse().ok())
                .collect();
            let count = indexes.len();
            if count > 0 && values.len() == count * count {
                return Ok(Some((indexes, relative(&values))));
            }
        }
        Ok(None)
    }
}

/// Scales distances so that the distance of a node to itself is 10, as in ACPI. The distances of version 1 are relative
/// to an arbitrary number.
fn relative(values: &[f64]) -> Vec<u32> {
    let local = values.first().filter(|&&local| local > 0.0);
    let unit = local.map_or(1.0, |local| f64::from(LOCAL_DISTANCE) / local);
    values
        .iter()
        .map(|value| (value * unit).round() as u32)
        .collect()
}

fn is_latency(node: &Node) -> bool {
    let kind = node
        .attribute("kind")
        .and_then(|kind| kind.parse::<u32>().ok());
    let named = node.attribute("name").map(|name| name == "NUMALatency");
    node.has_tag_name("distances2")
        && node.attribute("type") == Some("NUMANode")
        && named.unwrap_or(kind.is_none_or(|kind| kind & MEANS_LATENCY != 0))
}
