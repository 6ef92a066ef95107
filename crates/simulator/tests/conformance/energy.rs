//! Energy: each part's energy is the integral of its power in the trace, and known loads use the right amount.

use crate::case::{Case, case, config};
use crate::support::{MS, Script, bound, run_for, sleep_for, task};
use machine::{Machine, PowerLimit};
use native::Object;
use policy::Policy;
use proptest::prelude::*;
use simulator::{Check, Config, Energy, Event, Outcome, Part, Trace};
use std::collections::BTreeMap;

/// Integrates the trace's power.
#[derive(Default)]
struct Integral {
    /// For each part, the current power (mW), the time of its last change (ns), and the energy until then (pJ).
    parts: BTreeMap<Part, (u32, u64, u128)>,
}

impl Integral {
    fn advance(&mut self, part: Part, now: u64) -> &mut (u32, u64, u128) {
        let (mw, since, pj) = self.parts.entry(part).or_default();
        *pj += u128::from(*mw) * u128::from(now - *since);
        *since = now;
        self.parts.get_mut(&part).unwrap()
    }

    fn of(mut self, energy: &Energy, end: u64) -> Vec<(Part, u128)> {
        let parts = energy.parts.iter();
        parts
            .map(|&(part, _)| (part, self.advance(part, end).2))
            .collect()
    }
}

impl Trace for Integral {
    fn event(&mut self, now: u64, _cpu: usize, event: Event<'_>) {
        if let Event::Power { part, mw, pj } = event {
            let meter = self.advance(part, now);
            meter.0 = mw;
            meter.2 += u128::from(pj);
        }
    }
}

fn run(
    machine: &Machine,
    workload: &dyn workload::Workload,
    policy: &str,
    seed: u64,
    trace: Option<&mut dyn Trace>,
) -> Outcome {
    let globals = Policy::find(policy).unwrap().globals(machine);
    let config = Config {
        seed,
        time_limit_ns: 600_000 * MS,
        trace: trace.map(|trace| -> &mut dyn Trace { trace }),
        ..Config::new(machine, workload, Object::own("cfs").unwrap(), &globals)
    };
    simulator::run_checked(config, Check::INVARIANTS).unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn energy_is_the_integral_of_the_traced_power(case in case()) {
        let Case { machine, seed, .. } = &case;
        for policy in ["cfs", "powersaving"] {
            let workload = case.workload();
            let mut integral = Integral::default();
            let traced = run(machine, &*workload, policy, *seed, Some(&mut integral));
            let energy = traced.energy.as_ref().unwrap();
            prop_assert_eq!(&integral.of(energy, traced.simulated_ns), &energy.parts);
            let untraced = run(machine, &*case.workload(), policy, *seed, None);
            prop_assert_eq!(&untraced.energy, &traced.energy);
            let parts: f64 = energy.parts.iter().map(|&(of, _)| energy.sum_j(|part| part == of)).sum();
            prop_assert!((parts / energy.total_j() - 1.0).abs() < 1e-9);
        }
    }
}

/// One busy loop on `machine` for a second.
fn busy(machine: &Machine) -> Outcome {
    let workload = Script(|| workload::Start {
        tasks: vec![task("busy", [run_for(1000)])],
        ..workload::Start::default()
    });
    run(machine, &workload, "cfs", 1, None)
}

#[test]
fn a_busy_loop_takes_its_core_its_package_and_the_rest() {
    let machine = Machine::find("snb-ep-2s").unwrap();
    let outcome = busy(&machine);
    let energy = outcome.energy.unwrap();
    let seconds = outcome.simulated_ns as f64 / 1e9;
    let watts = |which: fn(Part) -> bool| energy.sum_j(which) / seconds;
    let close = |watts: f64, expected: f64| {
        assert!((watts / expected - 1.0).abs() < 0.01, "{watts} {expected}")
    };
    let power = machine.power.as_ref().unwrap();
    let core = machine.core_types[0].power.unwrap();
    close(
        watts(|part| matches!(part, Part::Cpu(_))),
        f64::from(core.dynamic_mw) / 1e3,
    );
    // The other fifteen cores sleep.
    let sleeping = machine.core_types[0].idle_states.last().unwrap().power_mw;
    let cores = f64::from(core.static_mw + 15 * sleeping) / 1e3;
    close(watts(|part| matches!(part, Part::Core(_))), cores);
    let packages = f64::from(power.package.active_mw + power.package.idle[0].power_mw) / 1e3;
    close(watts(|part| matches!(part, Part::Package(_))), packages);
    close(
        watts(|part| part == Part::Rest),
        f64::from(power.rest_mw) / 1e3,
    );
}

#[test]
fn a_machine_without_power_has_no_energy() {
    assert_eq!(busy(&Machine::find("smp-2").unwrap()).energy, None);
}

#[test]
fn a_trace_of_sleep_that_is_never_deep_ends() {
    let mut machine = Machine::find("snb-laptop").unwrap();
    // Each nap is shorter than the residency, but the CPU sleeps again at the time when the residency would be over.
    for core in &mut machine.core_types {
        for state in &mut core.idle_states {
            state.min_residency_ns = 7 * MS;
        }
    }
    let power = machine.power.as_mut().unwrap();
    for part in [&mut power.package, &mut power.cluster] {
        for state in &mut part.idle {
            state.residency_ns = 7 * MS;
        }
    }
    let naps = || (0..20).flat_map(|_| [run_for(1), sleep_for(4)]);
    let workload = Script(move || workload::Start {
        tasks: vec![bound("naps", 0, naps())],
        ..workload::Start::default()
    });
    let mut integral = Integral::default();
    let traced = run(&machine, &workload, "cfs", 1, Some(&mut integral));
    let energy = traced.energy.unwrap();
    assert_eq!(integral.of(&energy, traced.simulated_ns), energy.parts);
}

/// The work that `loops` busy loops do in a second, in seconds of a CPU at the reference speed.
fn work_of(machine: &Machine, loops: u64) -> f64 {
    let workload = models::load(&format!("busy:threads={loops},duration=5")).unwrap();
    let outcome = run(machine, &*workload, "cfs", 1, None);
    let work = workload
        .metrics()
        .iter()
        .position(|metric| metric.name == "work")
        .unwrap();
    outcome.recorder.samples(work)[0] / 5.0
}

#[test]
fn cores_are_as_fast_as_their_number_and_the_limit_allow() {
    let mut machine = Machine::find("snb-laptop").unwrap();
    let limit = machine.turbo.as_mut().unwrap().limit.take().unwrap();
    let close = |work: f64, expected: f64| {
        assert!((work / expected - 1.0).abs() < 0.01, "{work} {expected}")
    };
    close(work_of(&machine, 1), 1.0);
    close(work_of(&machine, 2), 2.0 * 3.2 / 3.3);
    close(work_of(&machine, 4), 4.0 * 3.0 / 3.3);
    close(work_of(&machine, 8), 4.0 * 1.25 * 3.0 / 3.3);
    // A package limited to 40 W does less work.
    machine.turbo.as_mut().unwrap().limit = Some(PowerLimit {
        mw: 40_000,
        ..limit
    });
    assert!(work_of(&machine, 8) < 4.0 * 1.25 * 2.9 / 3.3);
}

#[test]
fn turbo_needs_no_power() {
    let mut machine = Machine::find("snb-laptop").unwrap();
    machine.turbo.as_mut().unwrap().limit = None;
    machine.power = None;
    let work = work_of(&machine, 4);
    assert!((work / (4.0 * 3.0 / 3.3) - 1.0).abs() < 0.01, "{work}");
    let workload = models::load("busy:threads=1,duration=1").unwrap();
    let mut integral = Integral::default();
    let outcome = run(&machine, &*workload, "cfs", 1, Some(&mut integral));
    assert!(outcome.energy.is_none());
}

/// Two fast and two slow cores, which run at 2 and 1 GHz if only one core of their kind is active. With both fast cores
/// active, these run at 1 GHz.
const HYBRID: &str = r#"name = "hybrid"
[core.e]
speed = { rate = 1.0, of = "a test" }
[[core.e.opp]]
khz = 1_000_000
[core.p]
speed = { rate = 2.0, of = "a test" }
[[core.p.opp]]
khz = 1_000_000
[[core.p.opp]]
khz = 2_000_000
[cpufreq]
source = "a test"
shared_by = "core"
transition_latency_us = 1
[turbo]
source = "a test"
khz = { p = [2_000_000, 1_000_000], e = [1_000_000] }
interval_us = 1_000
[[package]]
[[package.cluster]]
core = "p"
cpus = "0-1"
[[package.cluster]]
core = "e"
cpus = "2-3"
[[package.cache]]
level = 3
cpus = ["0-3"]
"#;

#[test]
fn each_type_of_core_has_its_turbo() {
    let machine = Machine::parse("hybrid.toml", HYBRID).unwrap();
    // The time that 100 ms of work take on CPU 0 while other tasks compute on these CPUs.
    let ms = |others: &'static [usize]| {
        let workload = Script(move || {
            let measured = bound("measured", 0, [run_for(100)]);
            let others = others
                .iter()
                .map(|&cpu| bound("other", cpu, [run_for(500)]));
            workload::Start {
                tasks: others.chain([measured]).collect(),
                ..workload::Start::default()
            }
        });
        let mut end = ExitOf::default();
        run(&machine, &workload, "cfs", 1, Some(&mut end));
        end.at.unwrap() as f64 / MS as f64
    };
    let close = |ms: f64, expected: f64| assert!((ms - expected).abs() < 5.0, "{ms} {expected}");
    close(ms(&[]), 100.0);
    close(ms(&[2, 3]), 100.0);
    close(ms(&[1]), 200.0);
    close(ms(&[1, 2]), 200.0);
}

/// The time when the task `measured` ended, in ns.
#[derive(Default)]
struct ExitOf {
    at: Option<u64>,
}

impl Trace for ExitOf {
    fn event(&mut self, now: u64, _: usize, event: Event<'_>) {
        if let Event::Exit {
            task: ("measured", _),
            ..
        } = event
        {
            self.at = Some(now);
        }
    }
}
