//! What a run measures: the workload's metrics, and the machine's where its power is known or its
//! frequencies change.

use machine::Machine;
use simulator::Outcome;
use std::sync::LazyLock;
use workload::{Better, Metric, Workload};

/// Of the whole run: energy, average power, and how often a megajoule pays for such a run.
static POWER: LazyLock<[Metric; 3]> = LazyLock::new(|| {
    let metric = |name: &str, unit, better| Metric {
        name: name.to_owned(),
        unit,
        better,
    };
    [
        metric("energy", "J", Better::Lower),
        metric("power", "W", Better::Lower),
        metric("runs_per_energy", "1/MJ", Better::Higher),
    ]
});

/// Changes of frequency, of all cpufreq policies (`stats/total_trans`).
static FREQUENCY: LazyLock<Metric> = LazyLock::new(|| Metric {
    name: "frequency_transitions".to_owned(),
    unit: "",
    better: Better::Lower,
});

/// The metrics of `workload` on `machine`, the workload's own first.
pub fn metrics<'a>(workload: &'a dyn Workload, machine: &Machine) -> Vec<&'a Metric> {
    let power: &[Metric] = if machine.power.is_some() {
        &*POWER
    } else {
        &[]
    };
    let frequency = machine.cpufreq.as_ref().map(|_| &*FREQUENCY);
    workload
        .metrics()
        .iter()
        .chain(power)
        .chain(frequency)
        .collect()
}

/// The machine's samples of a run, after the workload's.
pub(crate) fn samples(machine: &Machine, outcome: &Outcome) -> Vec<[f64; 1]> {
    let mut samples = Vec::new();
    if let Some(energy) = &outcome.energy {
        let (joules, seconds) = (energy.total_j(), outcome.simulated_ns as f64 / 1e9);
        samples.extend([[joules], [joules / seconds], [1e6 / joules]]);
    }
    if machine.cpufreq.is_some() {
        samples.push([outcome.counters.frequency_transitions as f64]);
    }
    samples
}
