//! Schedulers side by side on one machine with one workload.

use crate::{
    Case, Change, Failure, Measured, Pooled, Runs, Scheduler, limit_s, measure, metrics,
    paired_change,
};
use machine::Machine;
use workload::{Metric, Workload};

/// A finished comparison.
pub struct Comparison {
    /// The machine.
    pub machine: Machine,
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// The schedulers; the first is the baseline.
    pub schedulers: Vec<Scheduler>,
    /// How often, and with which seeds.
    pub runs: Runs,
    /// One for each scheduler.
    pub measured: Vec<Measured>,
}

/// One metric under one scheduler.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The scheduler's name.
    pub scheduler: &'a str,
    /// The metric.
    pub metric: &'a Metric,
    /// Over all runs; `None` if no run measured anything.
    pub pooled: Option<Pooled>,
    /// Against the first scheduler; `None` for itself.
    pub change: Option<Change>,
    /// The best possible value, where the metric is the time of CPU-bound work.
    pub limit: Option<f64>,
}

impl Comparison {
    /// Runs it. `done` is called after each run.
    pub fn run(
        machine: Machine,
        workload: Box<dyn Workload>,
        schedulers: Vec<Scheduler>,
        runs: Runs,
        done: &(dyn Fn() + Sync),
    ) -> Result<Comparison, Box<Failure>> {
        let mut comparison = Comparison {
            machine,
            workload,
            schedulers,
            runs,
            measured: Vec::new(),
        };
        comparison.measured = measure(&comparison.cases(), &runs, done)?;
        Ok(comparison)
    }

    /// What is run, one case for each scheduler.
    pub fn cases(&self) -> Vec<Case<'_>> {
        let case = |scheduler| Case {
            machine: &self.machine,
            workload: self.workload.as_ref(),
            scheduler,
        };
        self.schedulers.iter().map(case).collect()
    }

    /// Every metric, for each of them every scheduler.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        let mut entries = Vec::new();
        let bound = self.workload.cpu_bound();
        for (index, metric) in metrics(self.workload.as_ref(), &self.machine)
            .into_iter()
            .enumerate()
        {
            let limit = bound
                .filter(|bound| bound.metric == index)
                .map(|bound| limit_s(&bound, &self.machine));
            let baseline = self.measured.first().and_then(|first| first.means(index));
            for (nr, (scheduler, measured)) in
                self.schedulers.iter().zip(&self.measured).enumerate()
            {
                let change = || paired_change(baseline.as_ref()?, &measured.means(index)?);
                entries.push(Entry {
                    scheduler: scheduler.name(),
                    metric,
                    pooled: Pooled::new(measured.samples(index)),
                    change: (nr > 0).then(change).flatten(),
                    limit,
                });
            }
        }
        entries
    }
}
