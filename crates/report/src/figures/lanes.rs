//! The lanes over time: the slices of threads on each CPU, busy time, frequencies, power.

use super::{Lane, MOST_CPU_LANES, round};
use crate::first_run::FirstRun;
use crate::number::number;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use machine::Machine;
use simulator::Part;

/// The unit of times of periods, in ns.
pub(super) const UNIT_NS: u64 = 2_000;

/// The lanes of power, one for each kind of part.
pub(super) fn power(machine: &Machine, run: &FirstRun) -> Vec<Lane> {
    if machine.power.is_none() {
        return Vec::new();
    }
    let mut kinds: Vec<(String, Vec<u64>)> = Vec::new();
    for (&part, pj) in &run.pj {
        let kind = kind_of(machine, part);
        match kinds.iter_mut().find(|(name, _)| *name == kind) {
            Some((_, sums)) => sums.iter_mut().zip(pj).for_each(|(sum, pj)| *sum += pj),
            None => kinds.push((kind, pj.clone())),
        }
    }
    let watts = |pj: &Vec<u64>| -> Vec<f64> {
        let bins = pj.iter().zip(bin_lengths(run));
        bins.map(|(&pj, length)| round(pj as f64 / length as f64 / 1e3, 3))
            .collect()
    };
    let lanes = kinds.into_iter().map(|(name, pj)| {
        let values = watts(&pj);
        Lane {
            name: format!("{name}: {} J", number(pj.iter().sum::<u64>() as f64 / 1e12)),
            top: values.iter().copied().fold(0.001, f64::max),
            unit: "W",
            values,
        }
    });
    lanes.collect()
}

/// The kind of a part of the machine that draws power.
pub(super) fn kind_of(machine: &Machine, part: Part) -> String {
    let core = |cpu: usize| &machine.core_types[machine.cpus[cpu].core_type].name;
    match part {
        Part::Cpu(cpu) => format!("tasks on {}", core(cpu)),
        Part::Core(cpu) => format!("cores, {}", core(cpu)),
        Part::Cluster(_) => "clusters".to_owned(),
        Part::Package(_) => "packages".to_owned(),
        Part::Rest => "the rest".to_owned(),
    }
}

/// Encodes the slices in at most `budget` bytes. Returns the code, and the time at which the encoded slices end, in ns.
pub(super) fn slices(
    machine: &Machine,
    run: &FirstRun,
    thread: impl Fn(u32) -> usize,
    budget: usize,
) -> (String, u64) {
    let (mut shown, mut left) = (run.shown_ns, budget);
    let cpus = machine.cpus.len();
    let mut bytes = vec![Vec::new(); cpus];
    let (mut counts, mut ends) = (vec![0u64; cpus], vec![0u64; cpus]);
    for slice in &run.slices {
        if slice.from >= shown {
            continue;
        }
        let cpu = usize::from(slice.cpu);
        let (from, to) = (slice.from / 1000, slice.to / 1000);
        let out: &mut Vec<u8> = &mut bytes[cpu];
        let before = out.len();
        leb128(out, from - ends[cpu]);
        leb128(out, to - from);
        leb128(out, thread(slice.thread) as u64);
        let took = out.len() - before;
        if took > left {
            out.truncate(before);
            shown = shown.min(slice.from);
            break;
        }
        left -= took;
        (counts[cpu], ends[cpu]) = (counts[cpu] + 1, to);
    }
    let mut all = Vec::new();
    for (count, bytes) in counts.iter().zip(&bytes) {
        leb128(&mut all, *count);
        all.extend_from_slice(bytes);
    }
    (BASE64_STANDARD.encode(all), shown)
}

/// Appends `value` in LEB128: seven bits per byte, the low ones first.
pub(super) fn leb128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The length of each bin, in ns; the last bin may be shorter.
fn bin_lengths(run: &FirstRun) -> impl Iterator<Item = u64> {
    let (bin, duration) = (run.bin_ns, run.duration_ns);
    (0..duration.div_ceil(bin)).map(move |index| bin.min(duration - index * bin))
}

/// The lanes of load, one for each CPU or cluster.
pub(super) fn busy(machine: &Machine, run: &FirstRun) -> Vec<Lane> {
    let lane = |name: String, cpus: &[usize]| Lane {
        name,
        top: 100.0,
        unit: "%",
        values: bin_lengths(run)
            .enumerate()
            .map(|(bin, length)| {
                let busy: u64 = cpus.iter().map(|&cpu| run.busy_ns[cpu][bin]).sum();
                round(100.0 * busy as f64 / (length * cpus.len() as u64) as f64, 1)
            })
            .collect(),
    };
    if machine.cpus.len() <= MOST_CPU_LANES {
        let cpus = 0..machine.cpus.len();
        return cpus.map(|cpu| lane(format!("CPU {cpu}"), &[cpu])).collect();
    }
    let clusters = machine.clusters().iter();
    clusters
        .map(|cpus| lane(format!("CPUs {cpus}"), &cpus.iter().collect::<Vec<_>>()))
        .collect()
}

/// The lanes of frequency, one for each cpufreq policy. Without cpufreq, or with many policies, each cluster has a lane
/// with its mean frequency. Where no frequency is known there is no lane.
pub(super) fn frequency(machine: &Machine, run: &FirstRun) -> Vec<Lane> {
    let domains = match &machine.cpufreq {
        Some(cpufreq) if cpufreq.policies.len() <= MOST_CPU_LANES => &cpufreq.policies[..],
        _ => machine.clusters(),
    };
    let lane = |cpus: &machine::CpuMask| {
        let first = cpus.first()?;
        let of_cpus = cpus.iter().filter_map(|cpu| run.khz_ns[cpu].as_ref());
        let of_cpus: Vec<&Vec<u128>> = of_cpus.collect();
        let highest = machine.core_types[machine.cpus[first].core_type]
            .opps
            .last()?;
        let mean = |(bin, length): (usize, u64)| {
            let sum: u128 = of_cpus.iter().map(|khz| khz[bin]).sum();
            (sum as f64 / (length * of_cpus.len() as u64) as f64 / 1e3).round()
        };
        (!of_cpus.is_empty()).then(|| Lane {
            name: format!("CPUs {cpus}"),
            top: f64::from(highest.khz) / 1e3,
            unit: "MHz",
            values: bin_lengths(run).enumerate().map(mean).collect(),
        })
    };
    domains.iter().filter_map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_bits_a_byte() {
        let mut bytes = Vec::new();
        for value in [0, 127, 128, 300] {
            leb128(&mut bytes, value);
        }
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
    }
}
