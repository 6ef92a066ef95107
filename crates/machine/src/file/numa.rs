//! Checks of a machine file's distances and memory costs.

use super::reader::{Reader, Result};
use super::{MachineFile, MemoryFile};
use crate::{LOCAL_DISTANCE, Memory, Numa};
use std::ops::RangeInclusive;

/// The distances between two nodes that the SLIT can express; 255 means that a node is unreachable.
const REMOTE: RangeInclusive<u32> = LOCAL_DISTANCE + 1..=254;

impl Reader<'_> {
    /// The distances between the packages, without costs yet.
    pub(super) fn distances(&self, machine: &MachineFile) -> Result<Numa> {
        let Some(file) = &machine.numa_distances else {
            return Ok(Numa::default());
        };
        let nodes = machine.package.get_ref().len();
        if file.get_ref().len() != nodes
            || file
                .get_ref()
                .iter()
                .any(|row| row.get_ref().len() != nodes)
        {
            return self.bad(
                file.span(),
                "these distances do not fit the packages".to_owned(),
                format!("expected {nodes} rows of {nodes} distances, one row and one column for each package"),
            );
        }
        for (a, row) in file.get_ref().iter().enumerate() {
            for (b, &distance) in row.get_ref().iter().enumerate() {
                let expected = match a == b {
                    true if distance != LOCAL_DISTANCE => format!("expected {LOCAL_DISTANCE}"),
                    false if !REMOTE.contains(&distance) => {
                        format!("expected {} to {}", REMOTE.start(), REMOTE.end())
                    }
                    _ if file.get_ref()[b].get_ref()[a] != distance => {
                        "expected the same distance in both directions".to_owned()
                    }
                    _ => continue,
                };
                let message = format!("the distance from package {a} to {b} is {distance}");
                return self.bad(row.span(), message, expected);
            }
        }
        let rows = file.get_ref().iter().map(|row| row.get_ref().clone());
        let numa = Numa {
            distances: rows.collect(),
            memory: None,
        };
        let levels = numa.levels(nodes);
        if let Some(level) = levels
            .iter()
            .find(|&&level| numa.partition(nodes, level).is_none())
        {
            return self.bad(
                file.span(),
                format!("the groups of packages within a distance of {level} overlap"),
                "expected distances that form nested groups of packages",
            );
        }
        Ok(numa)
    }

    pub(super) fn memory(&self, file: &MemoryFile, numa: &Numa, nodes: usize) -> Result<Memory> {
        let levels = numa.levels(nodes);
        let given = file.line_ns.get_ref();
        if given.len() != levels.len() {
            let levels: Vec<String> = levels.iter().map(u32::to_string).collect();
            return self.bad(
                file.line_ns.span(),
                format!("the number of costs of a cache line is {}", given.len()),
                format!("expected one cost for each distance: {}", levels.join(", ")),
            );
        }
        let falls = given
            .windows(2)
            .find(|two| two[1].get_ref() < two[0].get_ref());
        if let Some(two) = falls {
            let message = "a cache line costs less from this distance than from a shorter one";
            self.warn(two[1].span(), message.to_owned());
        }
        let mut costs = Vec::new();
        for ns in given {
            costs.push(self.cost(ns, 1) as u32);
        }
        let cost = |a: usize, b: usize| {
            let level = levels
                .iter()
                .position(|&level| level == numa.distance(a, b));
            costs[level.expect("the levels are all the distances")]
        };
        Ok(Memory {
            cached_ns: self.cost(&file.cached_ns, 1) as u32,
            line_ns: (0..nodes)
                .map(|a| (0..nodes).map(|b| cost(a, b)).collect())
                .collect(),
            lock_ns: self.cost(&file.lock_ns, 1) as u32,
            spinlock: file.spinlock,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    #[test]
    fn a_line_that_is_cheaper_from_farther_away_is_a_warning() {
        let text = "name = \"m\"\n[core.any]\n\
             [memory]\nsource = \"a test\"\ncached_ns = 10\nline_ns = [100, 50]\nlock_ns = 10\n\
             [[package]]\n[[package.cluster]]\ncore = \"any\"\ncpus = \"0\"\n\
             [[package]]\n[[package.cluster]]\ncore = \"any\"\ncpus = \"1\"\n";
        assert_eq!(
            Machine::parse("f.toml", text).unwrap().warnings,
            ["f.toml:6: a cache line costs less from this distance than from a shorter one"]
        );
    }
}
