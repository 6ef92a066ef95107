//! NUMA: the distances of a machine's nodes, and the costs of memory shared between CPUs.

use crate::{CpuMask, Machine};
use serde::Deserialize;
use std::fmt;

/// The distance of a node to itself (ACPI's SLIT, the kernel's LOCAL_DISTANCE).
pub const LOCAL_DISTANCE: u32 = 10;
/// The distance of two nodes if firmware gives no distance (the kernel's REMOTE_DISTANCE).
pub const REMOTE_DISTANCE: u32 = 20;

/// The distances between nodes. Each package is a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numa {
    /// The distances from node to node, as `numactl --hardware` prints them; an empty list stands for
    /// [`REMOTE_DISTANCE`] between all nodes.
    pub distances: Vec<Vec<u32>>,
    /// The costs of shared memory; `None` means that shared memory is free.
    pub memory: Option<Memory>,
}

/// The costs of memory shared between CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The time to read another CPU's line that has not changed since this CPU last read it, in ns.
    pub cached_ns: u32,
    /// The time, by the two CPUs' nodes, to fetch a line that another CPU wrote, or to take it from its readers, in ns.
    pub line_ns: Vec<Vec<u32>>,
    /// The time for which one operation holds the lock of a run queue or a dispatch queue, in ns.
    pub lock_ns: u32,
    /// The type of the kernel's spinlocks.
    pub spinlock: Spinlock,
}

/// The way in which waiters of a spinlock learn that it is their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spinlock {
    /// Each waiter polls a cache line of its own (`CONFIG_QUEUED_SPINLOCKS`; on x86 since Linux
    /// 4.2).
    #[default]
    Queued,
    /// All waiters poll the lock's cache line (x86 before Linux 4.2).
    Ticket,
}

impl fmt::Display for Spinlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spinlock::Queued => "queued",
            Spinlock::Ticket => "ticket",
        })
    }
}

impl Machine {
    /// The NUMA nodes, which are the packages.
    pub fn nodes(&self) -> &[CpuMask] {
        let packages = self.levels.iter().find(|level| level.name == "PKG");
        packages.map_or(&[], |level| &level.spans)
    }

    /// The CPUs of `nodes`, a list such as `0-3`; the error says what was expected.
    pub fn cpus_of_nodes(&self, nodes: &str) -> Result<CpuMask, String> {
        let spans = self.nodes();
        let listed: CpuMask = nodes
            .parse()
            .map_err(|_| format!("expected a list of nodes such as 0-3, found `{nodes}`"))?;
        if let Some(node) = listed.iter().find(|&node| node >= spans.len()) {
            let last = spans.len() - 1;
            return Err(format!("expected nodes from 0 to {last}, found {node}"));
        }
        let spans = listed.iter().map(|node| &spans[node]);
        Ok(spans.fold(CpuMask::EMPTY, |all, span| all.or(span)))
    }

    /// The node of `cpu`.
    pub fn node_of(&self, cpu: usize) -> usize {
        let mut nodes = self.nodes().iter();
        nodes.position(|span| span.contains(cpu)).unwrap_or(0)
    }

    /// The largest distance between two nodes that have CPUs in `span`.
    pub fn distance_within(&self, span: &CpuMask) -> u32 {
        let nodes = self.nodes().iter().enumerate();
        let nodes: Vec<usize> = nodes
            .filter(|(_, node)| node.intersects(span))
            .map(|(index, _)| index)
            .collect();
        let pairs = nodes
            .iter()
            .flat_map(|&a| nodes.iter().map(move |&b| (a, b)));
        pairs
            .map(|(a, b)| self.numa.distance(a, b))
            .max()
            .unwrap_or(LOCAL_DISTANCE)
    }
}

impl Numa {
    /// The distance from node `a` to node `b`.
    pub fn distance(&self, a: usize, b: usize) -> u32 {
        let unknown = if a == b {
            LOCAL_DISTANCE
        } else {
            REMOTE_DISTANCE
        };
        self.distances
            .get(a)
            .and_then(|row| row.get(b))
            .copied()
            .unwrap_or(unknown)
    }

    /// The distances that occur between `nodes` nodes, each once, in rising order; the first is [`LOCAL_DISTANCE`].
    pub fn levels(&self, nodes: usize) -> Vec<u32> {
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let mut levels: Vec<u32> = pairs.map(|(a, b)| self.distance(a, b)).collect();
        levels.sort_unstable();
        levels.dedup();
        levels
    }

    /// Partitions the nodes into groups whose nodes are at most `distance` apart; `None` if such groups overlap.
    pub fn partition(&self, nodes: usize, distance: u32) -> Option<Vec<Vec<usize>>> {
        let near = |a: usize| -> Vec<usize> {
            (0..nodes)
                .filter(|&b| self.distance(a, b) <= distance)
                .collect()
        };
        let mut groups: Vec<Vec<usize>> = (0..nodes).map(near).collect();
        let disjoint = groups
            .iter()
            .all(|group| group.iter().all(|&node| groups[node] == *group));
        groups.dedup();
        groups.sort();
        groups.dedup();
        disjoint.then_some(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_as_numactl_takes_them() {
        let machine = Machine::find("hp-8s-80c-ht").unwrap();
        let cpus = |nodes| machine.cpus_of_nodes(nodes).map(|cpus| cpus.to_string());
        assert_eq!(cpus("0"), Ok("0-9,80-89".to_owned()));
        assert_eq!(cpus("0-7"), Ok("0-159".to_owned()));
        assert!(cpus("8").unwrap_err().contains("0 to 7"));
        assert!(cpus("first").unwrap_err().contains("such as 0-3"));
    }

    #[test]
    fn unspecified_distances_are_remote() {
        let machine = Machine::find("smp-2x8").unwrap();
        assert_eq!(machine.numa.levels(2), [LOCAL_DISTANCE, REMOTE_DISTANCE]);
        assert_eq!(
            machine.distance_within(&machine.all_cpus()),
            REMOTE_DISTANCE
        );
        assert_eq!(machine.distance_within(&CpuMask::one(9)), LOCAL_DISTANCE);
    }
}
