//! Schedulers side by side on one machine with one workload.

use crate::runs::complete;
use crate::verdict::best_of;
use crate::{
    Case, Change, Failure, Measure, Measured, Pooled, Runs, Scheduler, Verdict, Watch, limit_s,
    measure, measures, paired_change,
};
use machine::Machine;
use workload::Workload;

/// A finished comparison.
pub struct Comparison {
    /// The machine.
    pub machine: Machine,
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// The schedulers; the first is the baseline.
    pub schedulers: Vec<Scheduler>,
    /// The number of runs, and their seeds.
    pub runs: Runs,
    /// The number of requested runs; larger than the actual number if they were stopped.
    pub asked: u32,
    /// One for each scheduler.
    pub measured: Vec<Measured>,
    /// The compared measures.
    measures: Vec<Measure>,
}

/// One measure under one scheduler.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The scheduler's name.
    pub scheduler: &'a str,
    /// The measure.
    pub measure: &'a Measure,
    /// Over all runs; `None` if no run measured anything.
    pub pooled: Option<Pooled>,
    /// Run by run.
    pub runs: Vec<Option<Pooled>>,
    /// The change of the judged value against the first scheduler; `None` for the first itself.
    pub change: Option<Change>,
    /// The best possible value, if the metric is the time of CPU-bound work.
    pub limit: Option<f64>,
    /// No other scheduler is better, and one is worse, significantly and by enough to matter.
    pub is_best: bool,
}

impl Entry<'_> {
    /// The judged values, run by run; `None` unless every run has one.
    pub fn judged(&self) -> Option<Vec<f64>> {
        let value = |run: &Option<Pooled>| Some(self.measure.judged.value(run.as_ref()?));
        self.runs.iter().map(value).collect()
    }
}

impl Comparison {
    /// Runs the comparison, or as much as is complete before it is stopped ([`Comparison::asked`]).
    pub fn run(
        machine: Machine,
        workload: Box<dyn Workload>,
        schedulers: Vec<Scheduler>,
        runs: Runs,
        watch: Watch<'_>,
    ) -> Result<Comparison, Box<Failure>> {
        let mut comparison = Comparison {
            measures: measures(workload.as_ref(), &machine),
            machine,
            workload,
            schedulers,
            runs,
            asked: runs.count,
            measured: Vec::new(),
        };
        comparison.measured = measure(&comparison.cases(), &runs, watch)?;
        comparison.runs.count = complete(&comparison.measured);
        Ok(comparison)
    }

    /// The cases to run, one for each scheduler.
    pub fn cases(&self) -> Vec<Case<'_>> {
        let case = |scheduler| Case {
            machine: &self.machine,
            workload: self.workload.as_ref(),
            scheduler,
        };
        self.schedulers.iter().map(case).collect()
    }

    /// Every measure, for each of them every scheduler.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        self.measures
            .iter()
            .flat_map(|measure| self.entries_of(measure))
            .collect()
    }

    /// The best schedulers for each goal.
    pub fn verdict(&self) -> Verdict {
        Verdict::new(&self.entries(), self.schedulers.len())
    }

    fn entries_of<'a>(&'a self, measure: &'a Measure) -> Vec<Entry<'a>> {
        let limit = self
            .workload
            .cpu_bound()
            .filter(|bound| measure.is_only(bound.metric))
            .map(|bound| limit_s(&bound, &self.machine));
        let of = |(scheduler, measured): (&'a Scheduler, &Measured)| Entry {
            scheduler: scheduler.name(),
            measure,
            pooled: measure.pooled(&measured.runs),
            runs: measured
                .runs
                .iter()
                .map(|run| measure.of_run(run))
                .collect(),
            change: None,
            limit,
            is_best: false,
        };
        let mut entries: Vec<Entry> = self.schedulers.iter().zip(&self.measured).map(of).collect();
        let baseline = entries.first().and_then(Entry::judged);
        for entry in entries.iter_mut().skip(1) {
            entry.change = baseline
                .as_ref()
                .zip(entry.judged())
                .and_then(|(baseline, own)| paired_change(baseline, &own));
        }
        for index in best_of(&entries) {
            entries[index].is_best = true;
        }
        entries
    }
}
