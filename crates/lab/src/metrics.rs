//! What a run measures: the workload's metrics, and the machine's where its power is known or its
//! frequencies change.

use machine::Machine;
use simulator::Outcome;
use workload::{Better, Metric, Workload};

/// Of the whole run: energy, average power, and how often a megajoule pays for such a run.
static POWER: [Metric; 3] = [
    Metric::new("energy", "J", Better::Lower),
    Metric::new("power", "W", Better::Lower),
    Metric::new("runs_per_energy", "1/MJ", Better::Higher),
];

/// Changes of frequency, of all cpufreq policies (`stats/total_trans`).
static FREQUENCY: Metric = Metric::new("frequency_transitions", "", Better::Lower);

/// The metrics of `workload` on `machine`, the workload's own first.
pub fn metrics<'a>(workload: &'a dyn Workload, machine: &Machine) -> Vec<&'a Metric> {
    let power: &[Metric] = if machine.power.is_some() { &POWER } else { &[] };
    let frequency = machine.cpufreq.as_ref().map(|_| &FREQUENCY);
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
