//! Measurements that programs make of themselves.

/// Index into [`crate::Workload::metrics`].
pub type MetricId = usize;

/// Which way a metric is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Times and latencies.
    Lower,
    /// Rates.
    Higher,
}

/// Something that a run measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Such as `time` or `thread0/wu_lat`.
    pub name: String,
    /// Such as `s`, `us`, `1/s`.
    pub unit: &'static str,
    /// Which way it is good.
    pub better: Better,
}

/// Collects one run's measurements.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    samples: Vec<Vec<f64>>,
}

impl Recorder {
    /// One for so many metrics.
    pub fn new(metrics: usize) -> Recorder {
        Recorder {
            samples: vec![Vec::new(); metrics],
        }
    }

    /// Adds a sample, in the metric's unit.
    #[inline]
    pub fn record(&mut self, metric: MetricId, value: f64) {
        self.samples[metric].push(value);
    }

    /// The samples of `metric` in the order they were made.
    pub fn samples(&self, metric: MetricId) -> &[f64] {
        &self.samples[metric]
    }
}
