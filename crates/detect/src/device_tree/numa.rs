//! NUMA nodes of a device tree, as drivers/of/of_numa.c reads them.

use super::Listed;
use super::fdt::Node;
use crate::found::Found;
use machine::{CpuMask, LOCAL_DISTANCE};
use std::collections::{BTreeMap, BTreeSet};

/// The distance between nodes for which the tree has none (`REMOTE_DISTANCE`).
const REMOTE_DISTANCE: u32 = 20;

/// Adds the nodes and their distances to `found`.
pub(super) fn add(found: &mut Found, root: &Node, listed: &[Listed]) {
    // A CPU has the NUMA node of its own device node or of the nearest node above that has one (`of_node_to_nid()`).
    let cpus = root.child("cpus");
    let above = cpus.and_then(|cpus| cpus.cell("numa-node-id"));
    let above = above.or_else(|| root.cell("numa-node-id")).unwrap_or(0);
    let mut nodes: BTreeMap<u32, CpuMask> = BTreeMap::new();
    for cpu in listed.iter().filter(|cpu| cpu.online) {
        let node = cpu.node.cell("numa-node-id").unwrap_or(above);
        nodes.entry(node).or_default().set(cpu.number);
    }
    let memory = root
        .all()
        .into_iter()
        .filter(|node| node.text("device_type") == Some("memory"));
    let memory: BTreeSet<u32> = memory
        .filter_map(|node| node.cell("numa-node-id"))
        .collect();
    let without = memory.iter().filter(|node| !nodes.contains_key(node));
    found.lose_memory(without, "CPUs");
    let distances = match distances(root) {
        Ok(distances) => distances,
        Err(wrong) => {
            found.warnings.push(format!(
                "{wrong}; Linux then treats all CPUs as one node, and so does this file"
            ));
            found.nodes = vec![found.online()];
            return;
        }
    };
    if let Some(distances) = distances.filter(|_| nodes.len() > 1) {
        let between = |a: u32, b: u32| match distances.get(&(a, b)) {
            Some(&distance) => distance,
            None if a == b => LOCAL_DISTANCE,
            None => REMOTE_DISTANCE,
        };
        let row = |&a: &u32| nodes.keys().map(|&b| between(a, b)).collect();
        found.distances = nodes.keys().map(row).collect();
    }
    found.nodes = nodes.into_values().collect();
}

type Distances = BTreeMap<(u32, u32), u32>;

/// The map of distances (`of_numa_parse_distance_map_v1()`); `None` without a map.
fn distances(root: &Node) -> Result<Option<Distances>, String> {
    let all = root.all();
    let Some(map) = all.iter().find(|node| node.is("numa-distance-map-v1")) else {
        return Ok(None);
    };
    let mut distances = BTreeMap::new();
    for entry in map.cells("distance-matrix").chunks_exact(3) {
        let (a, b, distance) = (entry[0], entry[1], entry[2]);
        if (a == b) != (distance == LOCAL_DISTANCE) || distance < LOCAL_DISTANCE {
            return Err(format!(
                "the distance from node {a} to node {b} is {distance}"
            ));
        }
        distances.insert((a, b), distance);
        // The opposite direction has the same distance, unless a later entry says otherwise.
        if b > a {
            distances.insert((b, a), distance);
        }
    }
    match distances.is_empty() {
        true => Err("the map of distances has no distance-matrix".to_owned()),
        false => Ok(Some(distances)),
    }
}
