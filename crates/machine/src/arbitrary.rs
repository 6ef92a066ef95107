//! Random machines, for property tests (`--features arbitrary`).

use crate::file::topology::{Spans, levels};
use crate::{
    CorePower, CoreType, Costs, Cpu, CpuMask, Cpufreq, IdleGovernor, IdleState, Machine, Numa, Opp,
    PartIdle, PartPower, Power, PowerLimit, Turbo,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Machines of 1 to 64 CPUs: up to four core types of random capacity and speed, CPUs numbered in any order over up to
/// eight clusters in up to four packages. Some of the machines have offline CPUs.
pub fn machine() -> impl Strategy<Value = Machine> {
    (
        vec(core_type(), 1..=4),
        vec((1..=8usize, 0..4usize, 0..4usize), 1..=8),
    )
        .prop_flat_map(|(core_types, clusters)| {
            let count = clusters.iter().map(|&(size, ..)| size).sum::<usize>();
            let numbers = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
            let hz = prop::sample::select(vec![100, 250, 300, 1000]);
            let all = Just(CpuMask::EMPTY);
            let some = vec(0..count, 0..=count / 2).prop_map(CpuMask::from_iter);
            let offline = prop_oneof![3 => all, 1 => some];
            (Just(core_types), Just(clusters), numbers, hz, offline)
        })
        .prop_map(|(core_types, clusters, numbers, hz, offline)| {
            assemble(core_types, &clusters, &numbers, hz, offline)
        })
}

/// Makes a machine of `clusters`, each given as (CPUs, core type, package). A core type is taken modulo the number of
/// core types.
fn assemble(
    core_types: Vec<(u32, CoreType)>,
    clusters: &[(usize, usize, usize)],
    numbers: &[usize],
    hz: u32,
    offline: CpuMask,
) -> Machine {
    let mut cpus = vec![
        Cpu {
            core_type: 0,
            capacity: 0
        };
        numbers.len()
    ];
    let mut numbers = numbers.iter().copied();
    let (mut smt, mut mc, mut pkg) = (Vec::new(), Vec::new(), vec![CpuMask::EMPTY; 4]);
    for &(size, core_type, package) in clusters {
        let core_type = core_type % core_types.len();
        let span: CpuMask = numbers.by_ref().take(size).collect();
        for cpu in span.iter() {
            cpus[cpu] = Cpu {
                core_type,
                capacity: core_types[core_type].0,
            };
        }
        // A core whose throughput grows with SMT is assumed to have two threads, if the CPUs of its cluster form pairs.
        let gains = core_types[core_type].1.smt_throughput > 1 << 20;
        let threads = if gains && size % 2 == 0 { 2 } else { 1 };
        let span = span.without(&offline);
        let members: Vec<usize> = span.iter().collect();
        smt.extend(
            members
                .chunks(threads)
                .map(|core| core.iter().copied().collect::<CpuMask>()),
        );
        pkg[package] = pkg[package].or(&span);
        mc.push(span);
    }
    mc.retain(|span| !span.is_empty());
    pkg.retain(|span| !span.is_empty());
    let mut core_types: Vec<_> = core_types
        .into_iter()
        .map(|(_, core_type)| core_type)
        .collect();
    core_types[0].speed = 1 << 20;
    let cpufreq = core_types
        .iter()
        .any(|core| !core.opps.is_empty())
        .then(|| Cpufreq {
            policies: mc.clone(),
            transition_latency_ns: 200_000,
            rate_limit_ns: 1_000_000,
            governor: Default::default(),
            ramp: None,
        });
    let fastest = core_types.iter().map(|core| core.opps.last());
    let turbo = fastest.collect::<Option<Vec<_>>>().map(|fastest| Turbo {
        khz: fastest.iter().map(|opp| vec![opp.khz, 1]).collect(),
        by_core: fastest.len() % 2 == 0,
        interval_ns: 500_000,
        limit: Some(PowerLimit {
            mw: 2_000,
            window_ns: 10_000_000,
        }),
    });
    Machine {
        name: "random".to_owned(),
        description: "a random machine".to_owned(),
        hz,
        idle_governor: IdleGovernor::Exact,
        cpus,
        offline,
        core_types,
        levels: levels(
            Spans {
                smt,
                mc,
                pkg,
                ..Spans::default()
            },
            &Numa::default(),
        ),
        cpufreq,
        network: None,
        governor_adds: false,
        numa: Numa::default(),
        power: Some(power()),
        turbo,
        ..Machine::default()
    }
}

fn core_type() -> impl Strategy<Value = (u32, CoreType)> {
    let smt = prop_oneof![Just(1u32 << 20), (1u32 << 20)..=2 << 20];
    (
        64..=4096u32,
        (1u32 << 16)..=1 << 20,
        smt,
        costs(),
        opps(),
        idle_states(),
    )
        .prop_map(
            |(capacity, speed, smt_throughput, costs, opps, idle_states)| {
                let core = CoreType {
                    name: format!("core-{capacity}"),
                    speed,
                    smt_throughput,
                    costs,
                    usual_costs: Vec::new(),
                    opps,
                    idle_states,
                    power: Some(CorePower {
                        dynamic_mw: capacity,
                        smt_dynamic: smt_throughput,
                        static_mw: capacity / 8,
                    }),
                };
                (capacity, core)
            },
        )
}

fn power() -> Power {
    let part = |active_mw, residency_ns| PartPower {
        active_mw,
        idle: vec![PartIdle {
            residency_ns,
            power_mw: active_mw / 10,
            entry_pj: 1000,
        }],
    };
    Power {
        rest_mw: 1000,
        package: part(500, 300_000),
        cluster: part(100, 0),
    }
}

fn opps() -> impl Strategy<Value = Vec<Opp>> {
    vec(100_000..800_000u32, 0..=5).prop_map(|steps| {
        let mut khz = 0;
        let mut faster = |step| {
            khz += step;
            Opp {
                khz,
                microvolt: None,
            }
        };
        steps.into_iter().map(&mut faster).collect()
    })
}

fn idle_states() -> impl Strategy<Value = Vec<IdleState>> {
    vec((0..2_000_000u64, 0..500_000u64), 0..=3).prop_map(|steps| {
        let mut state = IdleState::default();
        let mut deeper = |(index, (residency, latency)): (usize, (u64, u64))| {
            state.name = format!("C{index}");
            state.min_residency_ns += residency;
            state.exit_latency_ns += latency;
            state.power_mw = 100 / (index as u32 + 1);
            state.entry_pj = latency;
            state.clone()
        };
        steps.into_iter().enumerate().map(&mut deeper).collect()
    })
}

fn costs() -> impl Strategy<Value = Costs> {
    (vec(0..20_000u64, 6), (0..100u64, 0..400u64)).prop_map(|(ns, (near, far))| Costs {
        context_switch_ns: ns[0],
        wakeup_ns: ns[1],
        ipi_near_ns: ns[2],
        ipi_far_ns: ns[2] + ns[3],
        tick_ns: ns[4],
        timer_irq_ns: ns[5],
        refill_near_ns: near,
        refill_far_ns: near + far,
        fair_class_ns: 0,
        ext_class_ns: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #[test]
        fn every_level_is_a_partition_coarser_than_the_one_below(machine in machine()) {
            prop_assert!((1..=64).contains(&machine.cpus.len()));
            let all = machine.all_cpus();
            let mut below: Vec<CpuMask> = all.iter().map(CpuMask::one).collect();
            for level in &machine.levels {
                let total: usize = level.spans.iter().map(CpuMask::count).sum();
                prop_assert_eq!(total, all.count());
                for span in &below {
                    prop_assert_eq!(
                        level.spans.iter().filter(|wider| span.is_subset(wider)).count(), 1
                    );
                }
                below = level.spans.clone();
            }
            prop_assert!(machine.core_types.iter().any(|core| core.speed == 1 << 20));
        }
    }
}
