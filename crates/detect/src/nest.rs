//! Changes the facts of a source so that a machine file can express them.

use crate::capacity::Capacities;
use crate::found::Found;
use machine::limits::MAX_LEVELS;
use machine::{Cache, CpuMask, Numa};
use std::collections::BTreeSet;

/// The largest number of nodes whose distances fit in a warning.
const FEW_NODES: usize = 8;

impl Found {
    /// Removes facts that the format cannot express, with a warning.
    pub(crate) fn nest(&mut self) {
        let node_of =
            |nodes: &[CpuMask], cpu: usize| nodes.iter().position(|node| node.contains(cpu));
        // A cache or core may span nodes, because some firmware splits a cache or core.
        let nodes = std::mem::take(&mut self.nodes);
        let across = |span: &CpuMask| nodes.iter().filter(|node| node.intersects(span)).count() > 1;
        let one = |cpu: &usize| across(&CpuMask::one(*cpu));
        let shared: CpuMask = self.cpus.keys().copied().filter(one).collect();
        let wrong = match shared.is_empty() {
            false => Some(format!("CPUs {shared} are in several NUMA nodes")),
            true if self.cpus.values().any(|cpu| across(&cpu.siblings)) => {
                Some("hardware threads of a core are in several nodes".to_owned())
            }
            true => None,
        };
        if let Some(wrong) = wrong {
            self.warnings
                .push(format!("{wrong}, so one node is used for all CPUs"));
            self.nodes = vec![self.online()];
            self.distances.clear();
        } else {
            let split: Vec<Cache> = self
                .caches
                .iter()
                .filter(|cache| across(&cache.cpus))
                .cloned()
                .collect();
            for cache in &split {
                self.warnings.push(format!(
                    "the L{} of CPUs {} spans several nodes; it is split into one per node, as the kernel does",
                    cache.level, cache.cpus
                ));
                let parts = nodes
                    .iter()
                    .map(|node| node.and(&cache.cpus))
                    .filter(|part| !part.is_empty());
                self.caches.extend(parts.map(|cpus| Cache {
                    cpus,
                    ..cache.clone()
                }));
            }
            self.caches.retain(|cache| !split.contains(cache));
            self.caches
                .sort_by_key(|cache| (cache.level, cache.cpus.first()));
            self.nodes = nodes;
        }
        for (number, cpu) in &mut self.cpus {
            let node =
                node_of(&self.nodes, *number).map_or(CpuMask::EMPTY, |node| self.nodes[node]);
            cpu.cluster = cpu.cluster.map(|cluster| cluster.and(&node));
        }
        self.even_distances();
        self.even_clocks();
    }

    /// Removes shared clocks of CPUs with different frequencies. CPUs that share a clock must have the same
    /// frequencies, because a policy of Linux has one table.
    fn even_clocks(&mut self) {
        let mut split = CpuMask::EMPTY;
        let before = self.cpus.clone();
        for cpu in self.cpus.values_mut() {
            let khz = cpu.khz();
            let same = |other: &usize| before.get(other).is_some_and(|it| it.khz() == khz);
            if let Some(policy) = cpu.policy {
                let alike: CpuMask = policy.iter().filter(same).collect();
                split = if alike == policy {
                    split
                } else {
                    split.or(&policy)
                };
                cpu.policy = Some(alike);
            }
        }
        if !split.is_empty() {
            self.warnings.push(format!(
                "CPUs {split} share a clock but have different frequencies, so CPUs with equal frequencies get a clock of their own"
            ));
        }
    }

    /// Splits each core whose threads differ in kind or speed, because a core has one core type.
    pub(crate) fn split_cores(&mut self, capacities: &Capacities) {
        let cpus = self.cpus.clone();
        let mut split = Vec::new();
        for (number, cpu) in &mut self.cpus {
            let alike = |other: &usize| {
                cpus.get(other).is_some_and(|it| {
                    (capacities.of[other], &it.kind, &it.opps)
                        == (capacities.of[number], &cpu.kind, &cpu.opps)
                })
            };
            let threads: CpuMask = cpu.siblings.iter().filter(alike).collect();
            if threads != cpu.siblings && !split.contains(&cpu.siblings) {
                split.push(cpu.siblings);
            }
            cpu.siblings = threads;
        }
        if !split.is_empty() {
            let cores: Vec<String> = split.iter().map(CpuMask::to_string).collect();
            self.lose(format!(
                "the cores {}, whose threads differ in kind or speed",
                cores.join(" ")
            ));
        }
    }

    /// Makes distances symmetric, and makes them form nested groups.
    fn even_distances(&mut self) {
        let count = self.nodes.len();
        if self.distances.is_empty() {
            return;
        }
        let given = self.distances.clone();
        for (a, row) in self.distances.iter_mut().enumerate() {
            for (b, distance) in row.iter_mut().enumerate() {
                *distance = match a == b {
                    true => machine::LOCAL_DISTANCE,
                    false => given[a][b]
                        .max(given[b][a])
                        .clamp(machine::LOCAL_DISTANCE + 1, 254),
                };
            }
        }
        if self.distances != given {
            self.warnings.push(
                "distances differ by direction or are implausible; the larger of both directions is used, \
                 limited to 11 to 254 (10 within a node)"
                    .to_owned(),
            );
        }
        let nests = |distances: &[Vec<u32>]| {
            let numa = Numa {
                distances: distances.to_vec(),
                memory: None,
            };
            let mut levels = numa.levels(count).into_iter();
            levels.all(|level| numa.partition(count, level).is_some())
        };
        if !nests(&self.distances) {
            let rows: Vec<String> = self
                .distances
                .iter()
                .map(|row| format!("{row:?}"))
                .collect();
            let rows = match rows.len() <= FEW_NODES {
                true => format!(" ({})", rows.join(", ")),
                false => String::new(),
            };
            let nested = nested(&self.distances);
            let pairs = (0..count).flat_map(|a| (0..a).map(move |b| (a, b)));
            let both = pairs.map(|(a, b)| (self.distances[a][b], nested[a][b]));
            let nearer: Vec<_> = both.filter(|(given, nested)| nested < given).collect();
            let farthest = nearer.iter().max_by_key(|(given, nested)| given - nested);
            let (given, written) = farthest.copied().unwrap_or_default();
            let (changed, all) = (nearer.len(), count * (count - 1) / 2);
            self.distances = nested;
            self.lose(format!(
                "the nodes' distances{rows}, which form no nested groups; the largest nested distances that do \
                 not exceed them are written: {changed} of {all} pairs of nodes are nearer, such as {written} \
                 instead of {given}"
            ));
        }
        self.merge_distances();
    }

    /// Merges the most similar distances until the levels of CPUs are few enough for a machine file.
    fn merge_distances(&mut self) {
        let threads = self.cpus.values().any(|cpu| cpu.siblings.count() > 1);
        let shared = |cache: &Cache| cache.level == 2 && cache.cpus.count() > 1;
        let second_level = self.caches.iter().any(shared);
        // Last-level caches and packages are two levels more.
        let within = 2 + usize::from(threads) + usize::from(second_level);
        let all = self.distances.iter().flatten().copied();
        let mut levels: Vec<u32> = BTreeSet::from_iter(all).into_iter().skip(1).collect();
        let mut merged = Vec::new();
        while within + levels.len() > MAX_LEVELS {
            let ratio = |at: usize| f64::from(levels[at + 1]) / f64::from(levels[at]);
            let closest = (1..levels.len()).min_by(|&a, &b| ratio(a - 1).total_cmp(&ratio(b - 1)));
            let Some(at) = closest else { break };
            let (nearer, farther) = (levels[at - 1], levels.remove(at));
            let distances = self.distances.iter_mut().flatten();
            distances
                .filter(|it| **it == farther)
                .for_each(|it| *it = nearer);
            merged.push(format!("{nearer} instead of {farther}"));
        }
        if !merged.is_empty() {
            self.lose(format!(
                "some distances of nodes, because they make more than {MAX_LEVELS} levels of CPUs; the file has {}",
                merged.join(", ")
            ));
        }
    }
}

/// The largest distances that form nested groups and do not exceed `distances` (the subdominant ultrametric). The
/// nested distance between two nodes is the longest step of the path between them whose longest step is shortest.
fn nested(distances: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut nested = distances.to_vec();
    for by in 0..nested.len() {
        for a in 0..nested.len() {
            for b in 0..nested.len() {
                nested[a][b] = nested[a][b].min(nested[a][by].max(nested[by][b]));
            }
        }
    }
    nested
}
