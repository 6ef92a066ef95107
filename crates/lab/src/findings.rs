//! The results of a comparison: a row for each measure, with an entry for each scheduler. Tables,
//! JSON, CSV and HTML pages are views of these rows.

use crate::verdict::best_of;
use crate::{
    Change, Comparison, Measure, Measured, Pooled, Run, Scheduler, Verdict, limit_s, paired_change,
};
use std::ops::Deref;

/// The results of a comparison in the simulated kernel.
pub struct Findings<'a> {
    /// The comparison that was run.
    pub comparison: &'a Comparison,
    results: Results<'a>,
}

/// The results of schedulers side by side, in the simulated kernel or on a real machine.
pub struct Results<'a> {
    /// The schedulers' names; the first one is the baseline.
    pub schedulers: Vec<&'a str>,
    /// The runs of each scheduler. Runs of the same index are a pair.
    pub measured: &'a [Measured],
    /// A row for each measure.
    pub rows: Vec<Finding<'a>>,
    /// The verdict: the best schedulers for each goal.
    pub verdict: Verdict,
}

impl<'a> Deref for Findings<'a> {
    type Target = Results<'a>;

    fn deref(&self) -> &Results<'a> {
        &self.results
    }
}

/// One measure under every scheduler.
#[derive(Clone, Debug)]
pub struct Finding<'a> {
    /// The measure.
    pub measure: &'a Measure,
    /// The best possible value, if the metric is the time of CPU-bound work.
    pub limit: Option<f64>,
    /// An entry for each scheduler, in the order of [`Results::schedulers`].
    pub entries: Vec<Entry<'a>>,
}

/// One measure under one scheduler.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The scheduler's name.
    pub scheduler: &'a str,
    /// The measure.
    pub measure: &'a Measure,
    /// The samples of all runs; `None` if no run measured anything.
    pub pooled: Option<Pooled>,
    /// The samples of each run.
    pub runs: Vec<Option<Pooled>>,
    /// The smallest number of samples that a thread has in each run; `None` if the measure is of one thread, or if the
    /// threads' samples are not counted.
    pub fewest: Vec<Option<u64>>,
    /// The change of the judged value against the first scheduler; `None` for the first scheduler, or if some run has
    /// no value.
    pub change: Option<Change>,
    /// Whether no other scheduler is better, and at least one is worse, significantly and by enough to matter.
    pub is_best: bool,
}

impl Entry<'_> {
    /// The judged value of each run; `None` unless every run has one.
    pub fn judged(&self) -> Option<Vec<f64>> {
        let value = |run: &Option<Pooled>| Some(self.measure.judged.value(run.as_ref()?));
        self.runs.iter().map(value).collect()
    }
}

impl<'a> Findings<'a> {
    pub(crate) fn new(comparison: &'a Comparison, measures: &'a [Measure]) -> Findings<'a> {
        let names = comparison.schedulers.iter().map(Scheduler::name).collect();
        let mut results = Results::new(names, measures, &comparison.measured);
        if let Some(bound) = comparison.workload.cpu_bound() {
            let bounded = |row: &&mut Finding<'_>| row.measure.is_only(bound.metric);
            for row in results.rows.iter_mut().filter(bounded) {
                row.limit = Some(limit_s(&bound, &comparison.machine));
            }
        }
        Findings {
            comparison,
            results,
        }
    }
}

impl<'a> Results<'a> {
    /// The results of the runs `measured` of each of `schedulers`.
    pub fn new(
        schedulers: Vec<&'a str>,
        measures: &'a [Measure],
        measured: &'a [Measured],
    ) -> Results<'a> {
        let named: Vec<(&str, &Measured)> = schedulers.iter().copied().zip(measured).collect();
        let rows = measures.iter().map(|it| Finding::of_runs(it, &named));
        let rows: Vec<Finding<'a>> = rows.collect();
        let runs: Vec<&[Run]> = measured.iter().map(|it| &*it.runs).collect();
        Results {
            schedulers,
            measured,
            verdict: Verdict::new(&rows, &runs),
            rows,
        }
    }

    /// The number of runs of each scheduler.
    pub fn runs(&self) -> usize {
        self.measured.first().map_or(0, |it| it.runs.len())
    }

    /// For each scheduler, the earlier scheduler under which every run was the same, if any.
    pub fn same_as(&self) -> Vec<Option<usize>> {
        let measured = self.measured;
        let same =
            |index: usize| (0..index).find(|&first| measured[first].is_same(&measured[index]));
        (0..measured.len()).map(same).collect()
    }

    /// Every entry with its row, row by row.
    pub fn entries(&self) -> impl Iterator<Item = (&Finding<'a>, &Entry<'a>)> {
        self.rows
            .iter()
            .flat_map(|row| row.entries.iter().map(move |entry| (row, entry)))
    }
}

impl Finding<'_> {
    /// Has any run under any scheduler a sample?
    pub fn has_samples(&self) -> bool {
        let mut runs = self.entries.iter().flat_map(|entry| &entry.runs);
        runs.any(Option::is_some)
    }
}

impl<'a> Finding<'a> {
    /// The row of `measure`, with the name and the runs of each of `schedulers`.
    pub fn new(
        measure: &'a Measure,
        schedulers: impl IntoIterator<Item = (&'a str, Vec<Option<Pooled>>)>,
    ) -> Finding<'a> {
        let entry = |(scheduler, runs): (&'a str, Vec<Option<Pooled>>)| Entry {
            scheduler,
            measure,
            pooled: None,
            fewest: vec![None; runs.len()],
            runs,
            change: None,
            is_best: false,
        };
        let mut entries: Vec<Entry> = schedulers.into_iter().map(entry).collect();
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
        Finding {
            measure,
            limit: None,
            entries,
        }
    }

    /// The row of `measure` in the runs of `schedulers`, which have these names.
    pub(crate) fn of_runs(
        measure: &'a Measure,
        schedulers: &[(&'a str, &Measured)],
    ) -> Finding<'a> {
        let runs = |measured: &Measured| {
            measured
                .runs
                .iter()
                .map(|run| measure.of_run(run))
                .collect()
        };
        let named = schedulers.iter();
        let mut row = Finding::new(
            measure,
            named.map(|&(name, measured)| (name, runs(measured))),
        );
        for (entry, (_, measured)) in row.entries.iter_mut().zip(schedulers) {
            entry.pooled = measure.pooled(&measured.runs);
            entry.fewest = measured
                .runs
                .iter()
                .map(|run| measure.fewest(run))
                .collect();
        }
        row
    }
}
