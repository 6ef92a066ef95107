//! What a run measures: the workload's metrics and, on a machine whose power is known, the machine's.

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

/// The metrics of `workload` on `machine`, the workload's own first.
pub fn metrics<'a>(workload: &'a dyn Workload, machine: &Machine) -> Vec<&'a Metric> {
    let power: &[Metric] = if machine.power.is_some() {
        &*POWER
    } else {
        &[]
    };
    workload.metrics().iter().chain(power).collect()
}

/// The machine's samples of a run, after the workload's.
pub(crate) fn samples(outcome: &Outcome) -> Vec<[f64; 1]> {
    let Some(energy) = &outcome.energy else {
        return Vec::new();
    };
    let (joules, seconds) = (energy.total_j(), outcome.simulated_ns as f64 / 1e9);
    vec![[joules], [joules / seconds], [1e6 / joules]]
}
