//! The relative speeds of CPUs, by the available measures.

use crate::found::{Found, Measure};
use machine::limits::CAPACITY_TO_SPEED;
use std::collections::BTreeMap;

/// The difference in % between the performance numbers of CPUs with the same maximum frequency
/// above which the numbers are a ranking and not a measure, as for AMD's preferred cores.
const RANKED_PCT: u64 = 3;
/// The difference in % from which two measures contradict each other about two CPUs, if each measure rates a different
/// CPU as faster.
const CONTRADICTS_PCT: u64 = 5;
/// The largest plausible value of a measure. The largest values are those of work per MHz times kHz.
const HIGHEST: u64 = 1 << 40;
/// The fastest CPU's capacity, as in today's kernels.
const FULL: u64 = 1024;

/// The capacity of each CPU, and its measure.
pub(crate) struct Capacities {
    pub of: BTreeMap<usize, u32>,
    pub by: Option<Measure>,
    /// The speed of each CPU, if it does not follow from the capacities.
    pub speeds: Option<(Measure, BTreeMap<usize, u64>)>,
}

impl Found {
    /// The capacity of each CPU by the most informative measure, where the fastest CPU has 1024.
    pub fn capacities(&self) -> BTreeMap<usize, u32> {
        capacities(&mut self.clone()).of
    }
}

/// Chooses the measure for the CPUs of `found`, and adds a warning with the reason for each rejected measure.
pub(crate) fn capacities(found: &mut Found) -> Capacities {
    let mut measures: Vec<(Measure, BTreeMap<usize, u64>)> = Vec::new();
    for measure in [
        Measure::CpuCapacity,
        Measure::HighestPerf,
        Measure::DmipsMhz,
        Measure::Dmips,
        Measure::LinuxCapacity,
        Measure::MaxFrequency,
    ] {
        let of_cpu = found.cpus.iter();
        let known: BTreeMap<usize, u64> = of_cpu
            .filter_map(|(&cpu, it)| it.measures.get(&measure).map(|&value| (cpu, value)))
            .filter(|(_, value)| (1..=HIGHEST).contains(value))
            .collect();
        if known.len() == found.cpus.len() {
            measures.push((measure, known));
        } else if !known.is_empty() {
            found.warnings.push(format!(
                "{measure} is known for only {} of {} CPUs, so it is not used",
                known.len(),
                found.cpus.len()
            ));
        }
    }
    if is_ranking(&measures) {
        measures.retain(|(measure, _)| *measure != Measure::HighestPerf);
        found.warnings.push(format!(
            "{} is only a ranking of CPUs with the same highest frequency, so it is not used",
            Measure::HighestPerf
        ));
    }
    let flat = |values: &BTreeMap<usize, u64>| values.values().min() == values.values().max();
    if found.equal_capacities {
        let speeds = measures
            .into_iter()
            .find(|(measure, values)| *measure == Measure::MaxFrequency && !flat(values));
        let fit = |(_, values): &(Measure, BTreeMap<usize, u64>)| fit_equal_capacities(values);
        if !speeds.iter().all(fit) {
            found.lose(format!(
                "the highest frequencies, which are a factor of {CAPACITY_TO_SPEED} or more apart, although capacities are equal"
            ));
        }
        return equal(found, speeds.filter(fit));
    }
    let chosen = measures.iter().find(|(_, values)| !flat(values));
    let Some((measure, values)) = chosen.or(measures.first()) else {
        if found.cpus.values().any(|cpu| cpu.kind.is_some()) {
            found
                .warnings
                .push("no data on the CPUs' speeds, so all CPUs count as equal".to_owned());
        }
        return equal(found, None);
    };
    // Work per MHz times the highest frequency includes that frequency, so these measures are not independent.
    let others = measures
        .iter()
        .filter(|(other, _)| (*measure, *other) != (Measure::DmipsMhz, Measure::MaxFrequency));
    for (other, others) in others {
        if flat(others) && !flat(values) {
            found.warnings.push(format!(
                "{other} is the same for all CPUs and {measure} is not, so {measure} is used"
            ));
        } else if let Some((a, b)) = contradiction(values, others) {
            found.warnings.push(format!(
                "CPU {a} is faster than CPU {b} by {measure} and slower by {other}, so {measure} is used"
            ));
        }
    }
    if *measure == Measure::MaxFrequency && !flat(values) {
        found.warnings.push(
            "capacities are derived only from the highest frequency, although cores may differ in work per cycle"
                .to_owned(),
        );
    }
    Capacities {
        of: scaled(values),
        by: Some(*measure),
        speeds: None,
    }
}

fn equal(found: &Found, speeds: Option<(Measure, BTreeMap<usize, u64>)>) -> Capacities {
    Capacities {
        of: found.cpus.keys().map(|&cpu| (cpu, FULL as u32)).collect(),
        by: None,
        speeds,
    }
}

/// May CPUs with these speeds have the same capacity in a machine file?
fn fit_equal_capacities(speeds: &BTreeMap<usize, u64>) -> bool {
    let (slowest, fastest) = (speeds.values().min(), speeds.values().max());
    slowest
        .zip(fastest)
        .is_some_and(|(&slowest, &fastest)| (fastest as f64) < slowest as f64 * CAPACITY_TO_SPEED)
}

/// `values` scaled so that the largest is 1024, rounded down as in Linux (`topology_normalize_cpu_scale()`).
fn scaled(values: &BTreeMap<usize, u64>) -> BTreeMap<usize, u32> {
    let most = values.values().copied().max().unwrap_or(1);
    let scaled = |value: u64| ((value * FULL / most) as u32).max(1);
    values
        .iter()
        .map(|(&cpu, &value)| (cpu, scaled(value)))
        .collect()
}

/// Does `highest_perf` distinguish CPUs with the same highest frequency?
fn is_ranking(measures: &[(Measure, BTreeMap<usize, u64>)]) -> bool {
    let find = |wanted| measures.iter().find(|(measure, _)| *measure == wanted);
    let (Some((_, perf)), Some((_, khz))) =
        (find(Measure::HighestPerf), find(Measure::MaxFrequency))
    else {
        return false;
    };
    let mut range: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (cpu, &perf) in perf {
        let (least, most) = range.entry(khz[cpu]).or_insert((perf, perf));
        (*least, *most) = ((*least).min(perf), (*most).max(perf));
    }
    range
        .values()
        .any(|(least, most)| most * 100 > least * (100 + RANKED_PCT))
}

/// Two CPUs, the first of which is faster according to `a`, and the second according to `b`.
fn contradiction(a: &BTreeMap<usize, u64>, b: &BTreeMap<usize, u64>) -> Option<(usize, usize)> {
    let faster = |values: &BTreeMap<usize, u64>, one: usize, other: usize| {
        values[&one] * 100 > values[&other] * (100 + CONTRADICTS_PCT)
    };
    let mut unlike: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for (&cpu, &value) in a {
        unlike.entry((value, b[&cpu])).or_insert(cpu);
    }
    let unlike: Vec<usize> = unlike.into_values().collect();
    let pairs = unlike
        .iter()
        .flat_map(|&one| unlike.iter().map(move |&other| (one, other)));
    pairs
        .into_iter()
        .find(|&(one, other)| faster(a, one, other) && faster(b, other, one))
}
