//! The topology: clusters, cores, caches, packages, and the kernel's levels.

use super::reader::{Reader, Result};
use super::{CacheFile, ClusterFile, CoreFile, MachineFile, PackageFile};
use crate::input;
use crate::limits::{CACHE_LEVEL, MAX_LEVELS, SIZE_KIB, THREADS};
use crate::{Cache, Cpu, CpuMask, Level, Numa};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

pub(super) struct Topology {
    pub cpus: Vec<Cpu>,
    pub offline: CpuMask,
    pub levels: Vec<Level>,
    pub clusters: Vec<CpuMask>,
    pub caches: Vec<Cache>,
}

/// The sets of CPUs that share a core, a cache or a package, without offline CPUs.
#[derive(Default)]
pub(crate) struct Spans {
    /// The hardware threads of each core.
    pub smt: Vec<CpuMask>,
    /// The second-level caches that several cores share; empty if there are none.
    pub cls: Vec<CpuMask>,
    /// The last-level caches.
    pub mc: Vec<CpuMask>,
    pub pkg: Vec<CpuMask>,
}

impl Reader<'_> {
    pub(super) fn topology(
        &self,
        machine: &MachineFile,
        capacities: &[u32],
        numa: &Numa,
    ) -> Result<Topology> {
        let (cores, packages) = (&machine.core, &machine.package);
        let offline = match &machine.offline {
            Some(list) => self.cpus(list)?,
            None => CpuMask::EMPTY,
        };
        let mut cpus: Vec<Option<Cpu>> = Vec::new();
        let mut spans = Spans::default();
        let (mut clusters, mut caches) = (Vec::new(), Vec::new());
        let mut used = vec![false; cores.len()];
        for package in packages.get_ref() {
            let mut members = Vec::new();
            let mut package_span = CpuMask::EMPTY;
            for cluster in &package.cluster {
                let core_type = self.core_type(cores, &cluster.core)?;
                used[core_type] = true;
                let span = self.cpus(&cluster.cpus)?;
                let capacity = capacities[core_type];
                for cpu in span.iter() {
                    if cpus.len() <= cpu {
                        cpus.resize_with(cpu + 1, || None);
                    }
                    let there = Cpu {
                        core_type,
                        capacity,
                    };
                    if cpus[cpu].replace(there).is_some() {
                        return self.bad(
                            cluster.cpus.span(),
                            format!("CPU {cpu} is in two clusters"),
                            "expected each CPU in one cluster",
                        );
                    }
                }
                package_span = package_span.or(&span);
                let threads = self.cores(cluster, &span)?;
                spans
                    .smt
                    .extend(threads.iter().map(|core| core.without(&offline)));
                members.push(span.without(&offline));
            }
            let of_package = self.caches(package, &package_span)?;
            let llcs = self.last_level(package, &of_package, &members, &spans.smt)?;
            for cluster in &members {
                let parts = llcs.iter().map(|llc| llc.and(cluster));
                clusters.extend(parts.filter(|part| !part.is_empty()));
            }
            spans.mc.extend(llcs);
            caches.extend(of_package);
            spans.pkg.push(package_span.without(&offline));
        }
        if let Some((name, _)) = cores.keys().zip(&used).find(|(_, used)| !**used) {
            return self.bad(
                name.span(),
                format!("no cluster has `{}` cores", name.get_ref()),
                "expected every core type to be used",
            );
        }
        let cpus = self.numbered(cpus, &offline, packages)?;
        if spans.pkg.iter().any(CpuMask::is_empty) {
            return self.bad(
                packages.span(),
                "a package has no CPU that is online".to_owned(),
                "expected at least one online CPU in each package",
            );
        }
        spans.smt.retain(|core| !core.is_empty());
        spans.cls = second_level(&caches, &spans, &offline);
        caches.sort_by_key(|cache: &Cache| (cache.level, cache.cpus.first()));
        let levels = levels(spans, numa);
        if let Some(distances) = machine
            .numa_distances
            .as_ref()
            .filter(|_| levels.len() > MAX_LEVELS)
        {
            return self.bad(
                distances.span(),
                format!("these distances make {} levels of CPUs", levels.len()),
                format!("expected at most {MAX_LEVELS}, including the levels within a node"),
            );
        }
        Ok(Topology {
            cpus,
            offline,
            levels,
            clusters,
            caches,
        })
    }

    /// Checks that only the `offline` CPUs are missing in `cpus`.
    fn numbered(
        &self,
        mut cpus: Vec<Option<Cpu>>,
        offline: &CpuMask,
        packages: &Spanned<Vec<PackageFile>>,
    ) -> Result<Vec<Cpu>> {
        let count = offline.iter().last().map_or(0, |last| last + 1);
        cpus.resize_with(cpus.len().max(count), || None);
        let last = cpus.len().saturating_sub(1);
        let missing = |&cpu: &usize| cpus[cpu].is_none() && !offline.contains(cpu);
        if let Some(missing) = (0..cpus.len()).find(missing) {
            return self.bad(
                packages.span(),
                format!("CPU {missing} is in no cluster"),
                format!("expected every CPU from 0 to {last} in a cluster, or `offline`"),
            );
        }
        if offline.count() == cpus.len() {
            return self.bad(
                packages.span(),
                "the machine has no CPU".to_owned(),
                "expected a cluster with at least one CPU",
            );
        }
        // A placeholder, which is never read, for a CPU without a cluster: a copy of the first CPU that has a cluster.
        let some = cpus.iter().flatten().next().cloned();
        let all = cpus.into_iter().map(|cpu| cpu.or(some.clone()));
        Ok(all.flatten().collect())
    }

    fn core_type(
        &self,
        cores: &BTreeMap<Spanned<String>, CoreFile>,
        name: &Spanned<String>,
    ) -> Result<usize> {
        match cores
            .keys()
            .position(|core| core.get_ref() == name.get_ref())
        {
            Some(index) => Ok(index),
            None => self.bad(
                name.span(),
                format!("no core type is called `{}`", name.get_ref()),
                match cores.is_empty() {
                    true => format!("expected a section [core.{}]", name.get_ref()),
                    false => input::one_of(
                        name.get_ref(),
                        cores.keys().map(|core| core.get_ref().as_str()),
                    ),
                },
            ),
        }
    }

    fn cores(&self, cluster: &ClusterFile, span: &CpuMask) -> Result<Vec<CpuMask>> {
        if let Some(siblings) = &cluster.siblings {
            return self.siblings(cluster, siblings, span);
        }
        let threads = match &cluster.threads {
            Some(threads) if !THREADS.contains(threads.get_ref()) => {
                return self.bad(
                    threads.span(),
                    format!("threads is {}", threads.get_ref()),
                    format!("expected {} to {}", THREADS.start(), THREADS.end()),
                );
            }
            Some(threads) => *threads.get_ref(),
            None => 1,
        };
        let cpus: Vec<usize> = span.iter().collect();
        let cores = cpus.len() / threads;
        if cores * threads != cpus.len() {
            return self.bad(
                cluster.cpus.span(),
                format!(
                    "the cluster's CPUs ({}) do not form cores of {threads} threads",
                    cpus.len()
                ),
                format!("expected a multiple of {threads} CPUs"),
            );
        }
        let core = |first: usize| cpus[first..].iter().step_by(cores).copied().collect();
        Ok((0..cores).map(core).collect())
    }

    /// The cores of `span` as listed in `siblings`. Each CPU that is not listed is a core with one thread.
    fn siblings(
        &self,
        cluster: &ClusterFile,
        siblings: &Spanned<Vec<Spanned<String>>>,
        span: &CpuMask,
    ) -> Result<Vec<CpuMask>> {
        if let Some(threads) = &cluster.threads {
            return self.bad(
                threads.span(),
                "hardware threads are given in two ways".to_owned(),
                "expected either `threads` or `siblings`",
            );
        }
        let mut left = *span;
        let mut cores = Vec::new();
        for list in siblings.get_ref() {
            let core = self.cpus(list)?;
            if !core.is_subset(&left) || !THREADS.contains(&core.count()) {
                return self.bad(
                    list.span(),
                    format!("CPUs {core} are not a core of the cluster"),
                    format!(
                        "expected a core of 1 to {} CPUs of {span}, none of which is in another core",
                        THREADS.end()
                    ),
                );
            }
            left = left.without(&core);
            cores.push(core);
        }
        cores.extend(left.iter().map(CpuMask::one));
        cores.sort_by_key(CpuMask::first);
        Ok(cores)
    }

    fn caches(&self, package: &PackageFile, span: &CpuMask) -> Result<Vec<Cache>> {
        let mut caches: Vec<Cache> = Vec::new();
        for CacheFile {
            level,
            cpus,
            size_kib,
        } in &package.cache
        {
            let level = self.within(level, "level", CACHE_LEVEL);
            let size_kib = size_kib
                .as_ref()
                .map(|size| self.within(size, "size_kib", SIZE_KIB));
            for list in cpus.get_ref() {
                let cpus = self.cpus(list)?;
                if !cpus.is_subset(span) {
                    return self.bad(
                        list.span(),
                        format!("a cache has CPUs {cpus}, some of which are not in its package"),
                        format!("expected CPUs of {span}"),
                    );
                }
                let nests = |other: &Cache| match level.cmp(&other.level) {
                    std::cmp::Ordering::Less => cpus.is_subset(&other.cpus),
                    std::cmp::Ordering::Equal => false,
                    std::cmp::Ordering::Greater => other.cpus.is_subset(&cpus),
                };
                let clash = caches
                    .iter()
                    .find(|other| other.cpus.intersects(&cpus) && !nests(other));
                if let Some(other) = clash {
                    return self.bad(
                        list.span(),
                        format!(
                            "this L{level} and the L{} of CPUs {} overlap",
                            other.level, other.cpus
                        ),
                        "expected disjoint caches, or caches within those of a higher level",
                    );
                }
                caches.push(Cache {
                    level,
                    cpus,
                    size_kib,
                });
            }
        }
        Ok(caches)
    }

    /// The sets of CPUs that share a last-level cache, for a package's `clusters`. These are the CPUs that share the
    /// largest cache or, if the file has no caches, the cluster.
    fn last_level(
        &self,
        package: &PackageFile,
        caches: &[Cache],
        clusters: &[CpuMask],
        cores: &[CpuMask],
    ) -> Result<Vec<CpuMask>> {
        let mut llcs: Vec<CpuMask> = Vec::new();
        for cluster in clusters {
            let mut left = *cluster;
            while let Some(cpu) = left.first() {
                let of_cpu = caches.iter().filter(|cache| cache.cpus.contains(cpu));
                // A first-level cache alone does not show whether cores share a larger cache.
                let largest = of_cpu
                    .filter(|cache| cache.level > 1)
                    .max_by_key(|cache| cache.level);
                let llc = largest.map_or(left, |cache| cache.cpus);
                left = left.without(&llc);
                if !llcs.contains(&llc) {
                    llcs.push(llc);
                }
            }
        }
        let online = clusters
            .iter()
            .fold(CpuMask::EMPTY, |all, span| all.or(span));
        let llcs: Vec<CpuMask> = llcs.iter().map(|llc| llc.and(&online)).collect();
        let within_one = |core: &&CpuMask| {
            !llcs
                .iter()
                .any(|llc| llc.intersects(core) && !core.is_subset(llc))
        };
        if let Some(core) = cores.iter().find(|core| !within_one(core)) {
            let at = package
                .cache
                .first()
                .map_or(0..0, |cache| cache.cpus.span());
            return self.bad(
                at,
                format!("the hardware threads {core} are in two caches"),
                "expected each core within one cache",
            );
        }
        Ok(llcs)
    }

    pub(super) fn cpus(&self, list: &Spanned<String>) -> Result<CpuMask> {
        self.list(list.get_ref(), list.span())
    }

    pub(super) fn list(&self, list: &str, at: Range<usize>) -> Result<CpuMask> {
        list.parse().or_else(|expected: String| {
            self.bad(at, format!("`{list}` is not a list of CPUs"), expected)
        })
    }
}

/// The level between cores and last-level caches: the second-level caches, if several cores share one that is not a
/// last-level cache; otherwise none.
fn second_level(caches: &[Cache], spans: &Spans, offline: &CpuMask) -> Vec<CpuMask> {
    let of_core = |core: &CpuMask| {
        let shared = caches
            .iter()
            .find(|cache| cache.level == 2 && core.is_subset(&cache.cpus));
        shared.map_or(*core, |cache| cache.cpus.without(offline))
    };
    let mut second: Vec<CpuMask> = Vec::new();
    for span in spans.smt.iter().map(of_core) {
        if !second.contains(&span) {
            second.push(span);
        }
    }
    let says_something = |span: &CpuMask| !spans.smt.contains(span) && !spans.mc.contains(span);
    match second.iter().any(says_something) {
        true => second,
        false => Vec::new(),
    }
}

/// The kernel's levels: SMT spans a core, if cores have several hardware threads; CLS spans a second-level cache of
/// several cores; MC spans a last-level cache; PKG spans a package, which is a node; and one NUMA level for each
/// distance spans the nodes that are no further apart.
pub(crate) fn levels(spans: Spans, numa: &Numa) -> Vec<Level> {
    let Spans { smt, cls, mc, pkg } = spans;
    let threads = smt.iter().any(|core| core.count() > 1);
    let level = |name, spans| Level { name, spans };
    let union = |nodes: &Vec<usize>| {
        let spans = nodes.iter().map(|&node| &pkg[node]);
        spans.fold(CpuMask::EMPTY, |all, span| all.or(span))
    };
    let beyond_local = numa.levels(pkg.len()).into_iter().skip(1);
    let numa: Vec<Level> = beyond_local
        .filter_map(|distance| numa.partition(pkg.len(), distance))
        .map(|groups| level("NUMA", groups.iter().map(union).collect()))
        .collect();
    let mut levels = Vec::new();
    levels.extend(threads.then(|| level("SMT", smt)));
    levels.extend((!cls.is_empty()).then(|| level("CLS", cls)));
    levels.extend([level("MC", mc), level("PKG", pkg)]);
    levels.extend(numa);
    levels
}

#[cfg(test)]
mod tests {
    use crate::{CpuMask, Machine};

    const HYBRID: &str = r#"name = "hybrid"

[core.p]
speed = { rate = 1.8, of = "a test" }
smt_throughput = 1.25

[core.e]
speed = { rate = 1.0, of = "a test" }

[[package]]

[[package.cluster]]
core = "p"
cpus = "0-3"
siblings = ["0-1", "2-3"]

[[package.cluster]]
core = "e"
cpus = "4-7"

[[package.cache]]
level = 2
cpus = ["0-1", "2-3", "4-5", "6-7"]

[[package.cache]]
level = 3
cpus = ["0-7"]
size_kib = 12288
"#;

    fn spans(machine: &Machine, level: &str) -> Vec<String> {
        let level = machine.levels.iter().find(|found| found.name == level);
        level.map_or(Vec::new(), |level| {
            level.spans.iter().map(CpuMask::to_string).collect()
        })
    }

    #[test]
    fn core_types_share_a_cache() {
        let machine = Machine::parse("f.toml", HYBRID).unwrap();
        assert_eq!(spans(&machine, "SMT"), ["0-1", "2-3", "4", "5", "6", "7"]);
        assert_eq!(spans(&machine, "CLS"), ["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(spans(&machine, "MC"), ["0-7"]);
        let clusters: Vec<String> = machine.clusters().iter().map(CpuMask::to_string).collect();
        assert_eq!(clusters, ["0-3", "4-7"]);
        assert_eq!(machine.siblings(3).to_string(), "2-3");
        assert_eq!(
            [machine.cpus[0].capacity, machine.cpus[4].capacity],
            [1024, 569]
        );
        assert_eq!(machine.caches.last().unwrap().size_kib, Some(12288));
    }

    #[test]
    fn a_core_outside_the_largest_cache_has_its_own_last_level_cache() {
        let machine = Machine::parse("f.toml", &HYBRID.replace("[\"0-7\"]", "[\"0-3\"]")).unwrap();
        assert_eq!(spans(&machine, "MC"), ["0-3", "4-5", "6-7"]);
        assert_eq!(spans(&machine, "CLS"), Vec::<String>::new());
        let clusters: Vec<String> = machine.clusters().iter().map(CpuMask::to_string).collect();
        assert_eq!(clusters, ["0-3", "4-5", "6-7"]);
    }

    #[test]
    fn cpus_that_are_offline_are_nowhere() {
        let offline = HYBRID.replace(
            "name = \"hybrid\"",
            "name = \"hybrid\"\noffline = \"1,5,8-9\"",
        );
        let machine = Machine::parse("f.toml", &offline).unwrap();
        assert_eq!(machine.cpus.len(), 10);
        assert_eq!(machine.all_cpus().to_string(), "0,2-4,6-7");
        assert_eq!(spans(&machine, "SMT"), ["0", "2-3", "4", "6", "7"]);
        assert_eq!(spans(&machine, "MC"), ["0,2-4,6-7"]);
        assert_eq!(spans(&machine, "CLS"), ["0", "2-3", "4", "6-7"]);
        assert_eq!(spans(&machine, "PKG"), ["0,2-4,6-7"]);
        let all = HYBRID.replace("name = \"hybrid\"", "name = \"hybrid\"\noffline = \"0-7\"");
        let error = Machine::parse("f.toml", &all).unwrap_err();
        assert!(error.message().contains("no CPU"), "{}", error.message());
    }

    #[test]
    fn inconsistent_values_are_errors_with_their_lines() {
        for (from, to, below, says) in [
            ("[\"0-7\"]", "[\"0-8\"]", 0, "not in its package"),
            ("[\"0-7\"]", "[\"0-4\", \"5-7\"]", 0, "overlap"),
            ("\"4-5\", \"6-7\"", "\"4-6\", \"6-7\"", 0, "overlap"),
            ("level = 2", "level = 5", 0, "expected 1 to 4"),
            ("size_kib = 12288", "size_kib = 0", 0, "expected 1"),
            (
                "[\"0-1\", \"2-3\"]\n",
                "[\"0-1\", \"1-3\"]\n",
                0,
                "not a core of the cluster",
            ),
            (
                "[\"0-1\", \"2-3\"]\n",
                "[\"0-1\"]\nthreads = 2\n",
                1,
                "in two ways",
            ),
        ] {
            assert!(HYBRID.contains(from), "{from}");
            let error = Machine::parse("f.toml", &HYBRID.replacen(from, to, 1)).unwrap_err();
            let line = HYBRID[..HYBRID.find(from).unwrap()].matches('\n').count() + 1 + below;
            let said = format!("{} {}", error.message(), error.expected());
            assert!(said.starts_with(&format!("f.toml:{line}: ")), "{said}");
            assert!(said.contains(says), "{said}");
        }
    }

    /// Nodes nested six levels deep make nine levels, together with those of cores, caches and packages.
    #[test]
    fn levels_have_an_end() {
        let distance = |a: usize, b: usize| match (a ^ b).checked_ilog2() {
            None => 10,
            Some(bit) => 20 + 10 * bit,
        };
        let rows: Vec<Vec<u32>> = (0..64)
            .map(|a| (0..64).map(|b| distance(a, b)).collect())
            .collect();
        let mut text = format!("name = \"deep\"\nnuma_distances = {rows:?}\n[core.a]\n");
        for node in 0..64 {
            text += &format!(
                "[[package]]\n[[package.cluster]]\ncore = \"a\"\ncpus = \"{node},{}\"\nthreads = 2\n",
                node + 64
            );
        }
        let error = Machine::parse("f.toml", &text).unwrap_err();
        assert!(
            error
                .message()
                .starts_with("f.toml:2: these distances make 9 levels"),
            "{}",
            error.message()
        );
        let flat = text.replace(" 70", " 60").replace("[70", "[60");
        assert!(Machine::parse("f.toml", &flat).is_ok());
    }

    #[test]
    fn threads_within_one_cache() {
        let split = HYBRID
            .replace("[\"0-1\", \"2-3\", \"4-5\", \"6-7\"]", "[\"4-7\"]")
            .replace("[\"0-7\"]", "[\"0\", \"1-7\"]");
        let error = Machine::parse("f.toml", &split).unwrap_err();
        assert!(
            error.message().contains("are in two caches"),
            "{}",
            error.message()
        );
    }
}
