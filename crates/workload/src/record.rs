//! Measurements that programs make of themselves.

use crate::{Period, Unit};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// An index into [`crate::Workload::metrics`].
pub type MetricId = usize;

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Lower is better, as for times and latencies.
    Lower,
    /// Higher is better, as for rates.
    Higher,
    /// Neither is better: the value does not depend on the scheduler, such as the number of a timer's expiries.
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
    /// The metric decides which scheduler serves the goal best.
    Decides(Goal),
    /// The metric explains a part of a metric that decides, and is shown beside it.
    Explains(Goal),
    /// The metric is additional information.
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
    /// The metric's name, such as `time` or `thread-0/wu_lat`.
    pub name: Cow<'static, str>,
    /// The metric's unit.
    pub unit: Unit,
    /// The direction in which the metric improves.
    pub better: Better,
    /// The metric's role.
    pub role: Role,
    /// The name under which the metrics of threads that do the same are pooled, such as `thread/wu_lat`.
    pub pool: Option<Cow<'static, str>>,
    /// The number of equal threads that share the metric, if the samples of each thread are counted, otherwise 0.
    pub sharers: u32,
}

impl Metric {
    /// A metric with a constant name.
    pub const fn new(name: &'static str, unit: Unit, better: Better, role: Role) -> Metric {
        Metric {
            name: Cow::Borrowed(name),
            unit,
            better,
            role,
            pool: None,
            sharers: 0,
        }
    }

    /// A metric that is additional information, where lower is better.
    pub const fn detail(name: &'static str, unit: Unit) -> Metric {
        Metric::new(name, unit, Better::Lower, Role::Detail)
    }

    /// A metric for the time of the whole workload, in s.
    pub const fn makespan(name: &'static str) -> Metric {
        let role = Role::Decides(Goal::Throughput);
        Metric::new(name, Unit::S, Better::Lower, role)
    }

    /// A metric for an amount of work, or for a rate.
    pub const fn throughput(name: &'static str, unit: &'static str) -> Metric {
        let role = Role::Decides(Goal::Throughput);
        Metric::new(name, Unit::Other(unit), Better::Higher, role)
    }
}

/// The maximum number of samples that are kept of a metric, which limits a run's memory.
pub const MAX_SAMPLES: usize = 1 << 20;

/// Collects one run's measurements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorder {
    series: Vec<Series>,
    /// The first metric of the workload that is recording, if there are several workloads.
    base: MetricId,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Series {
    samples: Vec<f64>,
    /// A power of two.
    stride: u64,
    recorded: u64,
    /// For each thread that shares the metric ([`Metric::sharers`]), the number of its samples.
    by_thread: Box<[u64]>,
    /// The age of each sample that was still open at the end of the run.
    open: Vec<f64>,
    /// The time before the first loop of each thread, in the metric's unit.
    waited: f64,
    /// The latest release, in ns, of a period that was missed.
    last_missed_ns: Option<u64>,
}

impl Recorder {
    /// A recorder for `metrics`.
    pub fn new(metrics: &[Metric]) -> Recorder {
        let empty = |metric: &Metric| Series {
            samples: Vec::new(),
            stride: 1,
            recorded: 0,
            by_thread: vec![0; metric.sharers as usize].into(),
            open: Vec::new(),
            waited: 0.0,
            last_missed_ns: None,
        };
        Recorder {
            series: metrics.iter().map(empty).collect(),
            base: 0,
        }
    }

    /// Adds a sample, in the metric's unit.
    #[inline]
    pub fn record(&mut self, metric: MetricId, value: f64) {
        let series = &mut self.series[self.base + metric];
        if series.is_turn() {
            // The number of samples so far is a multiple of the new stride, so this sample is also kept.
            if series.samples.len() == MAX_SAMPLES {
                series.halve();
            }
            series.samples.push(value);
        }
        series.recorded += 1;
    }

    /// Adds a sample of the thread with this number among the threads that share `metric`.
    #[inline]
    pub fn record_of(&mut self, metric: MetricId, thread: usize, value: f64) {
        if let Some(count) = self.series[self.base + metric].by_thread.get_mut(thread) {
            *count += 1;
        }
        self.record(metric, value);
    }

    /// Adds a sample that says whether `period` was missed: 100 % or 0 %.
    pub(crate) fn record_period(&mut self, metric: MetricId, period: &Period) {
        let share = if period.missed { 100.0 } else { 0.0 };
        self.record(metric, share);
        let last = &mut self.series[self.base + metric].last_missed_ns;
        *last = (*last).max(period.missed.then_some(period.released));
    }

    /// Adds the time for which a thread waited before its first loop, whose times are samples of `metric`.
    pub(crate) fn record_wait(&mut self, metric: MetricId, time: f64) {
        self.series[self.base + metric].waited += time;
    }

    /// Adds `value` to the only sample of `metric`, which is a sum.
    pub(crate) fn add(&mut self, metric: MetricId, value: f64) {
        match self.series[self.base + metric].samples.first_mut() {
            Some(sum) => *sum += value,
            None => self.record(metric, value),
        }
    }

    /// At the end of the run, adds the age of a sample that is still open. The age is a lower bound of the sample.
    pub fn record_open(&mut self, metric: MetricId, age: f64) {
        let open = &mut self.series[self.base + metric].open;
        if open.len() < MAX_SAMPLES {
            open.push(age);
        }
    }

    /// Indexes metrics from `base` from now on; returns the old base.
    pub(crate) fn set_base(&mut self, base: MetricId) -> MetricId {
        std::mem::replace(&mut self.base, base)
    }

    /// Is the recorder consistent with `metrics`? A recorder from another process may not be.
    pub fn is_of(&self, metrics: &[Metric]) -> bool {
        let is_of = |(series, metric): (&Series, &Metric)| {
            let counted: u128 = series
                .by_thread
                .iter()
                .map(|&count| u128::from(count))
                .sum();
            let is_known = |values: &[f64]| {
                values.len() <= MAX_SAMPLES && !values.iter().any(|it| it.is_nan())
            };
            is_known(&series.samples)
                && is_known(&series.open)
                && !series.waited.is_nan()
                && series.recorded >= series.samples.len() as u64
                && series.by_thread.len() == metric.sharers as usize
                && counted <= u128::from(series.recorded)
        };
        self.series.len() == metrics.len() && self.series.iter().zip(metrics).all(is_of)
    }

    /// The samples of `metric` in the order in which they were made. If there are more than [`MAX_SAMPLES`] samples,
    /// only every second, fourth, eighth, ... sample is kept.
    pub fn samples(&self, metric: MetricId) -> &[f64] {
        &self.series[metric].samples
    }

    /// The number of samples of `metric` that were made, including those that are not kept.
    pub fn recorded(&self, metric: MetricId) -> u64 {
        self.series[metric].recorded
    }

    /// The ages of the samples of `metric` that were open at the end of the run.
    pub fn open(&self, metric: MetricId) -> &[f64] {
        &self.series[metric].open
    }

    /// The time for which threads waited before their first loops, whose times are samples of `metric`.
    pub fn waited(&self, metric: MetricId) -> f64 {
        self.series[metric].waited
    }

    /// The latest release, in ns, of a missed period among the samples of `metric`.
    pub fn last_missed_ns(&self, metric: MetricId) -> Option<u64> {
        self.series[metric].last_missed_ns
    }

    /// The number of samples of each thread that shares `metric`; empty if these are not counted.
    pub fn by_thread(&self, metric: MetricId) -> &[u64] {
        &self.series[metric].by_thread
    }
}

impl Series {
    fn is_turn(&self) -> bool {
        self.recorded & (self.stride - 1) == 0
    }

    #[cold]
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

    const METRIC: Metric = Metric::makespan("time");

    #[test]
    fn counts_the_samples_of_each_thread() {
        let sharers = 3;
        let mut recorder = Recorder::new(&[Metric { sharers, ..METRIC }, METRIC]);
        for thread in [0, 2, 2] {
            recorder.record_of(0, thread, 1.0);
            recorder.record_of(1, thread, 1.0);
        }
        assert_eq!(recorder.by_thread(0), [1, 0, 2]);
        assert_eq!(
            (recorder.samples(0).len(), recorder.samples(1).len()),
            (3, 3)
        );
        assert!(recorder.by_thread(1).is_empty());
        assert!(recorder.is_of(&[Metric { sharers, ..METRIC }, METRIC]));
        assert!(!recorder.is_of(&[METRIC, METRIC]));
    }

    #[test]
    fn keeps_all_samples_until_there_are_too_many() {
        let mut recorder = Recorder::new(&[METRIC, METRIC]);
        (0..MAX_SAMPLES).for_each(|sample| recorder.record(1, sample as f64));
        assert_eq!(recorder.samples(1).len(), MAX_SAMPLES);
        assert!(recorder.samples(0).is_empty());
    }

    #[test]
    fn thins_out_evenly() {
        let mut recorder = Recorder::new(&[METRIC]);
        let count = MAX_SAMPLES * 5;
        (0..count).for_each(|sample| recorder.record(0, sample as f64));
        let samples = recorder.samples(0);
        assert_eq!(samples.len(), count / 8);
        let even = samples.windows(2).all(|pair| pair[1] - pair[0] == 8.0);
        assert!(even && samples[0] == 0.0);
    }
}
