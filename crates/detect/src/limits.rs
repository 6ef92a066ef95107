//! Removes facts that a machine file cannot have, such as a frequency of 0 or overlapping cores. They come from faulty
//! firmware, and from files that were written or cut by hand.

use crate::found::{Cpu, Found};
use machine::CpuMask;
use machine::limits::{CACHE_LEVEL, COST_NS, KHZ, MW, SIZE_KIB, SLOWEST_KHZ, THREADS};
use std::collections::{BTreeMap, BTreeSet};

impl Found {
    /// Removes values outside of the ranges of machine files, and sets of CPUs that contradict each other.
    pub(crate) fn limit(&mut self) {
        self.limit_frequencies();
        self.limit_powers();
        self.limit_idle_states();
        for cpu in self.cpus.values_mut() {
            // Drivers report an unknown latency as a very long one (CPUFREQ_ETERNAL).
            cpu.transition_latency_ns = cpu.transition_latency_ns.filter(|ns| COST_NS.contains(ns));
        }
        for cache in &mut self.caches {
            cache.size_kib = cache.size_kib.filter(|kib| SIZE_KIB.contains(kib));
        }
        // A first-level cache belongs to a single core.
        let shared = CACHE_LEVEL.start() + 1..=*CACHE_LEVEL.end();
        self.caches.retain(|cache| shared.contains(&cache.level));
        self.limit_cores();
        self.limit_groups();
    }

    fn limit_frequencies(&mut self) {
        let (mut removed, mut cpus) = (BTreeSet::new(), CpuMask::EMPTY);
        for (&number, cpu) in &mut self.cpus {
            let mut known = cpu.khz();
            if cpu.assumed_opps {
                known = known
                    .first()
                    .into_iter()
                    .chain(known.last())
                    .copied()
                    .collect();
            }
            let mut kept: Vec<u32> = known
                .iter()
                .copied()
                .filter(|khz| KHZ.contains(khz))
                .collect();
            if kept.last().is_some_and(|&khz| khz < SLOWEST_KHZ) {
                kept.clear();
            }
            if kept.len() == known.len() {
                continue;
            }
            // Without one of the two known OPPs, nothing is known about the OPPs between them.
            cpu.assumed_opps = false;
            cpu.opps.retain(|opp| kept.contains(&opp.khz));
            removed.extend(known.into_iter().filter(|khz| !kept.contains(khz)));
            cpus.set(number);
        }
        if !removed.is_empty() {
            let removed: Vec<String> = removed.iter().map(u32::to_string).collect();
            self.lose(format!(
                "the frequencies {} kHz of CPUs {cpus}, which no CPU has",
                removed.join(", ")
            ));
        }
    }

    fn limit_powers(&mut self) {
        let most_uw = u64::from(*MW.end()) * 1000;
        let mut cpus = CpuMask::EMPTY;
        for (&number, cpu) in &mut self.cpus {
            if cpu.opps.iter().any(|opp| opp.power_uw > Some(most_uw)) {
                cpu.opps.iter_mut().for_each(|opp| opp.power_uw = None);
                cpus.set(number);
            }
        }
        if !cpus.is_empty() {
            self.lose(format!(
                "the powers of CPUs {cpus}, which exceed {} W",
                MW.end() / 1000
            ));
        }
    }

    fn limit_idle_states(&mut self) {
        let mut removed = BTreeSet::new();
        for cpu in self.cpus.values_mut() {
            cpu.idle_states.retain(|state| {
                let times = [state.min_residency_ns, state.exit_latency_ns];
                let fits = times.iter().all(|ns| COST_NS.contains(ns));
                if !fits {
                    removed.insert(state.name.clone());
                }
                fits
            });
        }
        self.lose_idle_states(removed, "whose times exceed a second");
    }

    fn limit_cores(&mut self) {
        let overlapping = contradictions(&self.sets(|cpu| Some(cpu.siblings)));
        let large = |cpu: &&usize| !THREADS.contains(&self.cpus[*cpu].siblings.count());
        let large: CpuMask = self.cpus.keys().filter(large).copied().collect();
        for cpu in overlapping.or(&large).iter() {
            self.cpus
                .entry(cpu)
                .and_modify(|it| it.siblings = CpuMask::one(cpu));
        }
        if !overlapping.is_empty() {
            self.lose(format!(
                "the cores of CPUs {overlapping}, which overlap others"
            ));
        }
        let large = large.without(&overlapping);
        if !large.is_empty() {
            let most = THREADS.end();
            self.lose(format!(
                "the cores of CPUs {large}, which have more than {most} hardware threads"
            ));
        }
    }

    fn limit_groups(&mut self) {
        let clusters = contradictions(&self.sets(|cpu| cpu.cluster));
        let clocks = contradictions(&self.sets(|cpu| cpu.policy));
        for (&number, cpu) in &mut self.cpus {
            cpu.cluster = cpu.cluster.filter(|_| !clusters.contains(number));
            cpu.policy = cpu.policy.filter(|_| !clocks.contains(number));
        }
        for (cpus, what) in [(clusters, "clusters"), (clocks, "shared clocks")] {
            if !cpus.is_empty() {
                self.lose(format!("the {what} of CPUs {cpus}, which overlap others"));
            }
        }
    }

    fn sets(&self, of: impl Fn(&Cpu) -> Option<CpuMask>) -> BTreeMap<usize, CpuMask> {
        let sets = self
            .cpus
            .iter()
            .map(|(&number, cpu)| Some((number, of(cpu)?)));
        sets.flatten().collect()
    }
}

/// The CPUs whose sets do not contain them, or contain CPUs with other sets.
pub(crate) fn contradictions(sets: &BTreeMap<usize, CpuMask>) -> CpuMask {
    let agrees = |cpu: usize, set: &CpuMask| {
        let same = |other| sets.get(&other).is_none_or(|its| its == set);
        set.contains(cpu) && set.iter().all(same)
    };
    let wrong = sets.iter().filter(|&(&cpu, set)| !agrees(cpu, set));
    wrong.map(|(&cpu, _)| cpu).collect()
}
