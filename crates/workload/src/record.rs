//! Measurements that programs make of themselves.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Index into [`crate::Workload::metrics`].
pub type MetricId = usize;

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times and latencies.
    Lower,
    /// Rates.
    Higher,
    /// Values that do not depend on the scheduler, such as how often a timer expires.
    Neither,
}

/// A goal of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// Low latency: short responses, few missed periods.
    Latency,
    /// High throughput.
    Throughput,
    /// Low energy.
    Energy,
    /// Equal progress of equal threads.
    Fairness,
}

/// The role of a metric for a [`Goal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It decides which scheduler serves the goal best.
    Decides(Goal),
    /// It is a part of what decides, worth showing alongside it.
    Explains(Goal),
    /// Additional information.
    Detail,
}

impl Role {
    /// The goal, if there is one.
    pub fn goal(self) -> Option<Goal> {
        match self {
            Role::Decides(goal) | Role::Explains(goal) => Some(goal),
            Role::Detail => None,
        }
    }
}

/// A metric of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, such as `time` or `thread-0/wu_lat`.
    pub name: Cow<'static, str>,
    /// Its unit, such as `s`, `us`, `1/s`.
    pub unit: &'static str,
    /// Its good direction.
    pub better: Better,
    /// Its role.
    pub role: Role,
    /// The name under which it is pooled with those of threads that do the same, such as
    /// `thread/wu_lat`.
    pub pool: Option<Cow<'static, str>>,
}

impl Metric {
    /// A metric with a constant name.
    pub const fn new(name: &'static str, unit: &'static str, better: Better, role: Role) -> Metric {
        Metric {
            name: Cow::Borrowed(name),
            unit,
            better,
            role,
            pool: None,
        }
    }

    /// The time of the whole workload, s.
    pub const fn makespan(name: &'static str) -> Metric {
        Metric::new(name, "s", Better::Lower, Role::Decides(Goal::Throughput))
    }

    /// An amount of work, or a rate.
    pub const fn throughput(name: &'static str, unit: &'static str) -> Metric {
        Metric::new(name, unit, Better::Higher, Role::Decides(Goal::Throughput))
    }
}

/// The most samples that are kept of a metric, which bounds a run's memory.
pub const MAX_SAMPLES: usize = 1 << 20;

/// Collects one run's measurements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorder {
    series: Vec<Series>,
    /// The first metric of the workload that is recording, among several.
    base: MetricId,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Series {
    samples: Vec<f64>,
    /// The sampling stride; a power of two.
    stride: u64,
    recorded: u64,
}

impl Recorder {
    /// A recorder for this number of metrics.
    pub fn new(metrics: usize) -> Recorder {
        let empty = Series {
            samples: Vec::new(),
            stride: 1,
            recorded: 0,
        };
        Recorder {
            series: vec![empty; metrics],
            base: 0,
        }
    }

    /// Adds a sample, in the metric's unit.
    #[inline]
    pub fn record(&mut self, metric: MetricId, value: f64) {
        let series = &mut self.series[self.base + metric];
        if series.is_turn() && series.samples.len() == MAX_SAMPLES {
            series.halve();
        }
        if series.is_turn() {
            series.samples.push(value);
        }
        series.recorded += 1;
    }

    /// Counts metrics from `base` from here on; returns the old base.
    pub(crate) fn set_base(&mut self, base: MetricId) -> MetricId {
        std::mem::replace(&mut self.base, base)
    }

    /// Is it consistent with this number of metrics? A recorder from another process may not be.
    pub fn is_of(&self, metrics: usize) -> bool {
        let series = |series: &Series| {
            series.samples.len() <= MAX_SAMPLES && !series.samples.iter().any(|it| it.is_nan())
        };
        self.series.len() == metrics && self.series.iter().all(series)
    }

    /// The samples of `metric` in the order in which they were made. If there are more than
    /// [`MAX_SAMPLES`], every second, fourth, eighth, ... is kept.
    pub fn samples(&self, metric: MetricId) -> &[f64] {
        &self.series[metric].samples
    }
}

impl Series {
    fn is_turn(&self) -> bool {
        self.recorded & (self.stride - 1) == 0
    }

    fn halve(&mut self) {
        let mut keep = false;
        self.samples.retain(|_| {
            keep = !keep;
            keep
        });
        self.stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_all_samples_until_there_are_too_many() {
        let mut recorder = Recorder::new(2);
        (0..MAX_SAMPLES).for_each(|sample| recorder.record(1, sample as f64));
        assert_eq!(recorder.samples(1).len(), MAX_SAMPLES);
        assert!(recorder.samples(0).is_empty());
    }

    #[test]
    fn thins_out_evenly() {
        let mut recorder = Recorder::new(1);
        let count = MAX_SAMPLES * 5;
        (0..count).for_each(|sample| recorder.record(0, sample as f64));
        let samples = recorder.samples(0);
        assert_eq!(samples.len(), count / 8);
        let even = samples.windows(2).all(|pair| pair[1] - pair[0] == 8.0);
        assert!(even && samples[0] == 0.0);
    }
}
