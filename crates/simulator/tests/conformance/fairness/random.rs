//! Random machines and loads for the properties.

use super::load::{Does, Load, Thread, thread};
use crate::support::{MS, machine, smt_machine};
use machine::{CoreType, Cpu, CpuMask, Governor, Level, Machine};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub struct Case {
    pub machine: Machine,
    pub load: Load,
    pub seed: u64,
}

/// `cpus` equal CPUs in each of `caches` clusters.
pub fn equal_cpus(cpus: usize, caches: usize, hz: u32) -> Machine {
    unlike_cpus(&vec![(cpus, 1 << 20); caches], hz)
}

/// A machine of clusters with these numbers of CPUs and these speeds; 2^20 is the fastest.
pub fn unlike_cpus(clusters: &[(usize, u32)], hz: u32) -> Machine {
    let mut made = Machine {
        hz,
        ..machine(clusters.iter().map(|cluster| cluster.0).sum())
    };
    let reference = made.core_types[0].clone();
    made.core_types.clear();
    let mut spans = Vec::new();
    let mut first = 0;
    for &(cpus, speed) in clusters {
        let known = made.core_types.iter().position(|core| core.speed == speed);
        let core_type = known.unwrap_or(made.core_types.len());
        if known.is_none() {
            let name = format!("core-{speed}");
            made.core_types.push(CoreType {
                name,
                speed,
                smt_throughput: speed,
                ..reference.clone()
            });
        }
        let capacity = ((u64::from(speed) * 1024) >> 20) as u32;
        made.cpus[first..first + cpus].fill(Cpu {
            core_type,
            capacity,
        });
        spans.push((first..first + cpus).collect::<CpuMask>());
        first += cpus;
    }
    if clusters.len() > 1 {
        made.levels.insert(0, Level { name: "MC", spans });
        made.levels[1].name = "PKG";
    }
    made
}

/// A machine with heterogeneous CPUs, at their highest frequencies.
pub fn heterogeneous(name: &str, hz: u32) -> Machine {
    let mut machine = Machine {
        hz,
        ..Machine::find(name).unwrap()
    };
    if let Some(cpufreq) = &mut machine.cpufreq {
        cpufreq.governor = Governor::Performance;
    }
    machine
}

pub fn hz() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![100, 250, 1000])
}

/// Machines of equal CPUs: of a few, or of up to 128.
pub fn alike() -> impl Strategy<Value = Machine> {
    let cpus = prop_oneof![
        4 => (1..=8usize, Just(1usize)),
        3 => (1..=6usize, 2..=3usize),
        1 => (8..=32usize, 1..=4usize),
    ];
    (cpus, hz()).prop_map(|((cpus, caches), hz)| equal_cpus(cpus, caches, hz))
}

/// Machines of two to five clusters, the first of the fastest kind and the others of random kinds, and known
/// heterogeneous machines.
pub fn unlike() -> impl Strategy<Value = Machine> {
    let kind = prop::sample::select(vec![1 << 20, 7 << 17, 5 << 17, 1 << 19, 3 << 17, 1 << 18]);
    let random = (vec((1..=6usize, kind), 2..=5), hz()).prop_map(|(mut clusters, hz)| {
        clusters[0].1 = 1 << 20;
        unlike_cpus(&clusters, hz)
    });
    let known = vec![
        "tc2",
        "odroid-xu3",
        "rk3588",
        "sm8250",
        "apple-m1",
        "lunar-lake",
    ];
    let known = (prop::sample::select(known), hz()).prop_map(|(name, hz)| heterogeneous(name, hz));
    prop_oneof![random, known]
}

/// Machines of equal cores with two threads each.
pub fn smt() -> impl Strategy<Value = Machine> {
    (1..=6usize, hz()).prop_map(|(cores, hz)| Machine {
        hz,
        ..smt_machine(cores)
    })
}

pub fn any_machine() -> impl Strategy<Value = Machine> {
    prop_oneof![3 => alike(), 3 => unlike(), 1 => smt()]
}

pub fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        4 => Just(Does::Spin),
        1 => (20_000..30 * MS, 20_000..100 * MS).prop_map(|(run, sleep)| Does::Nap { run, sleep }),
        1 => (50_000..2 * MS, 10_000..MS).prop_map(|(run, sleep)| Does::Nap { run, sleep }),
        1 => (100_000..4 * MS, 1..20u64).prop_map(|(run, part)| Does::Period { run, period: run * part + 3 * MS }),
    ]
}

/// Nice levels: 0 with a probability of one half, otherwise any of `levels`.
pub fn nice(levels: std::ops::RangeInclusive<i8>) -> impl Strategy<Value = i8> {
    prop_oneof![1 => Just(0), 1 => levels]
}

/// Threads that may use all CPUs.
pub fn free_threads(
    does: impl Strategy<Value = Does>,
    nice: impl Strategy<Value = i8>,
) -> impl Strategy<Value = Vec<Thread>> {
    vec(
        (does, nice).prop_map(|(does, nice)| Thread {
            nice,
            ..thread(does)
        }),
        2..24,
    )
}

/// `machine` with free threads.
pub fn free(
    machine: impl Strategy<Value = Machine>,
    does: impl Strategy<Value = Does>,
    nice: impl Strategy<Value = i8>,
) -> impl Strategy<Value = Case> {
    (machine, free_threads(does, nice), any::<u64>()).prop_map(|(machine, threads, seed)| Case {
        machine,
        load: threads.into(),
        seed,
    })
}

/// The CPUs among the first `cpus` whose bits in `mask`, which begins anew after 64, are set.
fn some_of(cpus: usize, mask: u64) -> CpuMask {
    (0..cpus)
        .filter(|cpu| mask.rotate_right(*cpu as u32) & 1 == 1)
        .collect()
}

/// As [`free`], but about half of the threads may use only random CPUs.
pub fn bound(
    machine: impl Strategy<Value = Machine>,
    does: impl Strategy<Value = Does>,
    nice: impl Strategy<Value = i8>,
) -> impl Strategy<Value = Case> {
    let masks = vec(prop::option::of(any::<u64>()), 24);
    (free(machine, does, nice), masks).prop_map(|(mut case, masks)| {
        let cpus = case.machine.cpus.len();
        for (thread, mask) in case.load.threads.iter_mut().zip(masks) {
            thread.cpus = mask
                .map(|mask| some_of(cpus, mask))
                .filter(|mask| !mask.is_empty());
        }
        case
    })
}

/// As [`free`], but all threads may use the same CPUs only, as in a cpuset.
pub fn cpuset(
    machine: impl Strategy<Value = Machine>,
    does: impl Strategy<Value = Does>,
    nice: impl Strategy<Value = i8>,
) -> impl Strategy<Value = Case> {
    (free(machine, does, nice), any::<u64>()).prop_map(|(mut case, mask)| {
        let set = some_of(case.machine.cpus.len(), mask);
        let set = (!set.is_empty()).then_some(set);
        for thread in &mut case.load.threads {
            thread.cpus = set;
        }
        case
    })
}
