//! Sched domains: the levels at which each CPU balances, as `build_sched_domains()` of Linux 3.9 or 6.12 to 7.3 builds
//! them from the machine's topology, without redundant levels.

mod flags;

pub use flags::Flags;
use machine::{CpuMask, Machine};
use std::collections::BTreeSet;
use std::fmt;

/// The kernel whose rules make the domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linux {
    /// Linux 3.9.
    V3_9,
    /// Linux 6.12 to 7.3. The one flag that differs between these kernels (`asym_prefer_sibling`) has no effect under a
    /// policy that stands for 6.12.
    V6_12,
    /// No kernel's rules: Linux 6.12's levels, with the capacity of each CPU from the machine's description, whatever
    /// Linux knows.
    Described,
}

impl Linux {
    pub(crate) fn of(scheduler: &str) -> Linux {
        match scheduler {
            "eevdf" => Linux::V6_12,
            "equipoise" => Linux::Described,
            _ => Linux::V3_9,
        }
    }
}

/// One sched domain. The parameters are those of `struct sched_domain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The topology level.
    pub level: &'static str,
    /// The CPUs of the domain.
    pub span: CpuMask,
    /// The groups of CPUs among which the domain is balanced, which partition `span`, sorted by first CPU.
    pub groups: Vec<CpuMask>,
    /// The kernel's actions at this level.
    pub flags: Flags,
    /// The percentage of the local load that the busiest group or CPU must exceed.
    pub imbalance_pct: u32,
    /// The number of failed attempts to balance up to which cache-hot tasks stay.
    pub cache_nice_tries: u32,
    /// The index of the load average that a busy CPU uses when it balances.
    pub busy_idx: u32,
    /// The index of the load average that an idle CPU uses. Newly idle CPUs, forks and wakeups use the present load
    /// (index 0).
    pub idle_idx: u32,
    /// The factor by which the balance interval of a busy CPU is longer than that of an idle CPU.
    pub busy_factor: u32,
    /// The shortest balance interval, in ms.
    pub min_interval: u32,
    /// The longest balance interval, in ms.
    pub max_interval: u32,
    /// The number of tasks that may run on one of the domain's nodes before idle CPUs of the other nodes count
    /// (`imb_numa_nr`, since Linux 5.18).
    pub imb_numa_nr: u32,
}

/// The distance above which tasks stay on their node: a fork, an exec or a wakeup does not place them on a node that is
/// further away.
const RECLAIM_DISTANCE: u32 = 30;

impl Domain {
    /// A domain with Linux 3.9's parameters for this level: `SD_SIBLING_INIT`, `SD_MC_INIT`,
    /// `SD_CPU_INIT` in include/linux/topology.h and `sd_numa_init()`, for nodes that are at most
    /// `distance` apart.
    fn v3_9(level: &'static str, span: CpuMask, groups: Vec<CpuMask>, distance: u32) -> Domain {
        let weight = span.count() as u32;
        let flags = Flags::LOAD_BALANCE
            | Flags::BALANCE_NEWIDLE
            | Flags::BALANCE_EXEC
            | Flags::BALANCE_FORK
            | Flags::WAKE_AFFINE;
        let package = Domain {
            level,
            span,
            groups,
            flags: flags | Flags::PREFER_SIBLING,
            imbalance_pct: 125,
            cache_nice_tries: 1,
            busy_idx: 2,
            idle_idx: 1,
            busy_factor: 64,
            min_interval: 1,
            max_interval: 4,
            imb_numa_nr: 0,
        };
        match level {
            "SMT" => Domain {
                flags: flags | Flags::SHARE_CPUPOWER | Flags::SHARE_PKG_RESOURCES,
                imbalance_pct: 110,
                cache_nice_tries: 0,
                busy_idx: 0,
                idle_idx: 0,
                max_interval: 2,
                ..package
            },
            "MC" => Domain {
                flags: flags | Flags::SHARE_PKG_RESOURCES,
                idle_idx: 0,
                ..package
            },
            "NUMA" => Domain {
                flags: match distance > RECLAIM_DISTANCE {
                    true => Flags::LOAD_BALANCE | Flags::BALANCE_NEWIDLE,
                    false => flags,
                },
                cache_nice_tries: 2,
                busy_idx: 3,
                idle_idx: 2,
                busy_factor: 32,
                min_interval: weight,
                max_interval: 2 * weight,
                ..package
            },
            _ => package,
        }
    }

    /// A domain with Linux 6.12's parameters: `sd_init()` in kernel/sched/topology.c.
    fn v6_12(level: &'static str, span: CpuMask, groups: Vec<CpuMask>, distance: u32) -> Domain {
        let weight = span.count() as u32;
        let near = Flags::BALANCE_EXEC | Flags::BALANCE_FORK | Flags::WAKE_AFFINE;
        let balances = Flags::LOAD_BALANCE | Flags::BALANCE_NEWIDLE;
        let package = Domain {
            level,
            span,
            groups,
            flags: balances | near | Flags::PREFER_SIBLING,
            imbalance_pct: 117,
            cache_nice_tries: 1,
            busy_idx: 0,
            idle_idx: 0,
            busy_factor: 16,
            min_interval: weight,
            max_interval: 2 * weight,
            imb_numa_nr: 0,
        };
        match level {
            "SMT" => Domain {
                flags: package.flags | Flags::SHARE_CPUPOWER | Flags::SHARE_PKG_RESOURCES,
                imbalance_pct: 110,
                cache_nice_tries: 0,
                ..package
            },
            "CLS" | "MC" => Domain {
                flags: package.flags | Flags::SHARE_PKG_RESOURCES,
                ..package
            },
            "NUMA" => Domain {
                flags: match distance > RECLAIM_DISTANCE {
                    true => balances | Flags::NUMA | Flags::SERIALIZE,
                    false => balances | near | Flags::NUMA | Flags::SERIALIZE,
                },
                cache_nice_tries: 2,
                ..package
            },
            _ => package,
        }
    }

    /// `sd_degenerate()`: does the domain have no effect?
    fn is_degenerate(&self) -> bool {
        if self.span.count() == 1 {
            return true;
        }
        let balances = self.flags.has(Flags::NEED_GROUPS) && self.groups.len() > 1;
        !balances && !self.flags.has(Flags::WAKE_AFFINE)
    }

    /// `sd_parent_degenerate()`: does `self` add nothing to its child? (SD_PREFER_SIBLING is among the flags that
    /// require groups, as since Linux 3.12; before that, the flag kept a level that had one group and thus balanced
    /// nothing.)
    fn adds_nothing_to(&self, child: &Domain) -> bool {
        if self.is_degenerate() {
            return true;
        }
        let flags = match self.groups.len() {
            1 => self.flags.without(Flags::NEED_GROUPS),
            _ => self.flags,
        };
        self.span == child.span && flags.without(child.flags) == Flags(0)
    }
}

/// Writes the level, the span and the groups: `MC 0-1: 0 | 1`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(CpuMask::to_string).collect();
        write!(f, "{} {}: {}", self.level, self.span, groups.join(" | "))
    }
}

/// The sched domains of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    /// The domains by level, then by first CPU.
    pub domains: Vec<Domain>,
    /// For each CPU, its domains from the smallest span up, as indices into `domains`.
    pub cpus: Vec<Vec<usize>>,
}

impl Domains {
    /// The domains that `linux` builds for `machine`.
    pub fn new(machine: &Machine, linux: Linux) -> Domains {
        let mut domains = all_levels(machine, linux);
        if linux != Linux::V3_9 {
            match machine.priorities.is_empty() {
                true => mark_asymmetric(&mut domains, machine),
                false => mark_packing(&mut domains),
            }
        }
        let cpus: Vec<Vec<usize>> = (0..machine.cpus.len())
            .map(|cpu| attach(&mut domains, cpu))
            .collect();
        let mut kept = keep_used(domains, cpus);
        if linux != Linux::V3_9 {
            kept.allow_numa_imbalance();
        }
        kept
    }

    /// `imb_numa_nr` as in `build_sched_domains()` of Linux 6.12: the number of last-level caches in a node or, if a
    /// node has only one, an eighth of the node's CPUs. Larger domains allow more tasks.
    fn allow_numa_imbalance(&mut self) {
        for levels in &self.cpus {
            let (mut allowed, mut allowed_span) = (1, 1);
            for (level, &index) in levels.iter().enumerate() {
                let weight = self.domains[index].span.count() as u32;
                let child = level.checked_sub(1).map(|below| levels[below]);
                let shares_cache =
                    |index: usize| self.domains[index].flags.has(Flags::SHARE_PKG_RESOURCES);
                let above = |&&index: &&usize| self.domains[index].flags.has(Flags::NUMA);
                self.domains[index].imb_numa_nr = match child {
                    Some(child) if !shares_cache(index) && shares_cache(child) => {
                        let caches = weight / self.domains[child].span.count() as u32;
                        allowed = if caches == 1 { weight >> 3 } else { caches }.max(1);
                        let numa = levels[level + 1..].iter().find(above);
                        allowed_span =
                            numa.map_or(weight, |&numa| self.domains[numa].span.count() as u32);
                        allowed
                    }
                    _ => allowed * (weight / allowed_span).max(1),
                };
            }
        }
    }

    /// The domains of `cpu`, from the smallest span up.
    pub fn of(&self, cpu: usize) -> impl Iterator<Item = &Domain> {
        self.cpus[cpu].iter().map(|&index| &self.domains[index])
    }
}

impl fmt::Display for Domains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domains
            .iter()
            .try_for_each(|domain| writeln!(f, "{domain}"))
    }
}

/// `asym_cpu_capacity_classify()`: the domains with heterogeneous CPUs.
fn mark_asymmetric(domains: &mut [Domain], machine: &Machine) {
    let capacities = |span: &CpuMask| -> BTreeSet<u32> {
        span.iter().map(|cpu| machine.cpus[cpu].capacity).collect()
    };
    let all = capacities(&machine.all_cpus());
    for domain in domains.iter_mut() {
        let found = capacities(&domain.span);
        if found.len() < 2 {
            continue;
        }
        domain.flags = domain.flags | Flags::ASYM_CPUCAPACITY;
        if found == all {
            domain.flags = domain.flags | Flags::ASYM_CPUCAPACITY_FULL;
        }
    }
}

/// `x86_sched_itmt_flags()`: if CPUs are ranked, tasks are packed at all levels of a node except
/// among hardware threads.
fn mark_packing(domains: &mut [Domain]) {
    for domain in domains {
        if !["SMT", "NUMA"].contains(&domain.level) {
            domain.flags = domain.flags | Flags::ASYM_PACKING;
        }
    }
}

/// A domain for every span of every level. Its groups are the spans of the level below.
fn all_levels(machine: &Machine, linux: Linux) -> Vec<Domain> {
    let domain = match linux {
        Linux::V3_9 => Domain::v3_9,
        Linux::V6_12 | Linux::Described => Domain::v6_12,
    };
    let single: Vec<CpuMask> = (0..machine.cpus.len()).map(CpuMask::one).collect();
    let mut below = &single;
    let mut domains = Vec::new();
    // Linux 3.9 has no level between a core's cache and the last-level cache.
    let knows = |level: &&machine::Level| linux != Linux::V3_9 || level.name != "CLS";
    for level in machine.levels.iter().filter(knows) {
        let mut spans: Vec<&CpuMask> = level.spans.iter().filter(|span| !span.is_empty()).collect();
        spans.sort_by_key(|span| span.first());
        for span in spans {
            let mut groups: Vec<CpuMask> = below
                .iter()
                .filter(|group| group.intersects(span))
                .copied()
                .collect();
            groups.sort_by_key(CpuMask::first);
            let distance = machine.distance_within(span);
            domains.push(domain(level.name, *span, groups, distance));
        }
        below = &level.spans;
    }
    domains
}

/// `cpu_attach_domain()`: the effective domains of `cpu`, from the bottom up.
fn attach(domains: &mut [Domain], cpu: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for index in 0..domains.len() {
        if !domains[index].span.contains(cpu) {
            continue;
        }
        match kept.last() {
            Some(&child) if domains[index].adds_nothing_to(&domains[child]) => {
                // Move SD_PREFER_SIBLING to the domain that remains for this span.
                if domains[index].span == domains[child].span
                    && domains[index].flags.has(Flags::PREFER_SIBLING)
                {
                    domains[child].flags = domains[child].flags | Flags::PREFER_SIBLING;
                }
            }
            _ => kept.push(index),
        }
    }
    if kept
        .first()
        .is_some_and(|&first| domains[first].is_degenerate())
    {
        kept.remove(0);
    }
    kept
}

fn keep_used(domains: Vec<Domain>, cpus: Vec<Vec<usize>>) -> Domains {
    let mut used: Vec<usize> = cpus.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    let renumber = |index: &usize| used.binary_search(index).expect("it is used");
    Domains {
        cpus: cpus
            .iter()
            .map(|levels| levels.iter().map(renumber).collect())
            .collect(),
        domains: used.iter().map(|&index| domains[index].clone()).collect(),
    }
}

#[cfg(test)]
mod tests;
