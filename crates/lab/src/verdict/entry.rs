//! One measure under one scheduler: whether the measure is better than under another scheduler, and by how much.

use super::{SHORTEST_LATENCY_NS, WORTH_LOG, WORTH_MISSED, WORTH_SPREAD, change};
use crate::stats::{mean, paired_difference};
use crate::{Change, Entry, Finding};
use workload::{Better, Goal, Unit};

/// The verdict on one measure under one scheduler against another scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The verdict: `better`, `worse` or `same`.
    pub verdict: &'static str,
    /// The amount by which the scheduler is worse: in points for a share, otherwise in per cent.
    pub worse: f64,
    /// The distance from `worse` to the end of the 95 % confidence interval that is closer to 0.
    pub margin: Option<f64>,
}

impl Finding<'_> {
    /// Whether a scheduler is best, significantly and by enough to matter; and the difference between the best and the
    /// worst, as a multiple of the smallest difference that matters.
    pub fn apart(&self) -> (bool, f64) {
        let means = self.entries.iter().filter_map(|it| mean(&it.costs()?));
        let (least, most) = means.fold((f64::MAX, f64::MIN), |(least, most), it| {
            (least.min(it), most.max(it))
        });
        let differ = self.entries.iter().any(|entry| entry.is_best);
        let worth = self.entries.first().map_or(1.0, Entry::worth);
        (differ, (most - least) / worth)
    }
}

/// Is `one` less than `other`, significantly and by at least `worth`?
pub(super) fn is_less(one: &[f64], other: &[f64], worth: f64) -> bool {
    let Some((difference, Some(margin))) = paired_difference(one, other) else {
        return false;
    };
    difference >= worth && difference > margin
}

/// The `entries` of one measure that no other entry beats and that beat another entry.
pub(crate) fn best_of(entries: &[Entry<'_>]) -> Vec<usize> {
    let any = |test: &dyn Fn(&Entry<'_>) -> bool| entries.iter().any(test);
    let is_best = |&index: &usize| {
        let own = &entries[index];
        !any(&|other| other.is_better(own)) && any(&|other| own.is_better(other))
    };
    (0..entries.len()).filter(is_best).collect()
}

impl Entry<'_> {
    /// Is this entry better than `other`, an entry of the same measure, significantly and by enough to matter?
    pub fn is_better(&self, other: &Entry<'_>) -> bool {
        self.measure.metric.better != Better::Neither
            && self
                .costs()
                .zip(other.costs())
                .is_some_and(|(own, others)| is_less(&own, &others, self.worth()))
    }

    /// The value of each run that [`Entry::is_better`] compares, where less is better.
    pub(super) fn costs(&self) -> Option<Vec<f64>> {
        match is_share(self) {
            true => self.judged(),
            false => mean_by_run(&[self], cost),
        }
    }

    pub(super) fn worth(&self) -> f64 {
        match (is_share(self), self.measure.metric.role.goal()) {
            (false, _) => WORTH_LOG,
            (true, Some(Goal::Latency)) => WORTH_MISSED,
            (true, _) => WORTH_SPREAD,
        }
    }

    /// The difference of this entry from `other`, as [`Entry::is_better`] judges it: in points for a share, otherwise
    /// in per cent.
    pub fn difference(&self, other: &Entry<'_>) -> Option<Change> {
        if self.absent() + other.absent() > 0 {
            return None;
        }
        let (mean, margin) = paired_difference(&other.costs()?, &self.costs()?)?;
        Some(match is_share(self) {
            true => Change {
                mean_pct: mean,
                margin_pct: margin,
            },
            false => change(mean, margin, self.measure.metric.better == Better::Higher),
        })
    }

    /// The verdict on this entry against `other`, an entry of the same measure. `None` if a run of one of the two
    /// entries has no value.
    pub fn against(&self, other: &Entry<'_>) -> Option<Judgement> {
        let verdict = match (self.is_better(other), other.is_better(self)) {
            (true, _) => "better",
            (_, true) => "worse",
            (false, false) => "same",
        };
        let change = self.difference(other)?;
        let sign = match self.measure.metric.better {
            Better::Higher => -1.0,
            Better::Lower | Better::Neither => 1.0,
        };
        Some(Judgement {
            verdict,
            worse: sign * change.mean_pct,
            margin: change.margin_pct,
        })
    }

    /// Does run number `run` lack the measure? It does without a sample, and if the value is 0 although only ratios of
    /// the measure are compared: a counter that did not advance, or a thread that never ran, has no ratio to others.
    pub(super) fn lacks(&self, run: usize) -> bool {
        let value = |pooled: &crate::Pooled| self.measure.judged.value(pooled);
        let is_ratio = !is_share(self) && least(self).is_none();
        let value = self.runs[run].as_ref().map(value);
        value.is_none_or(|value| value == 0.0 && is_ratio)
    }

    /// The number of runs that lack the measure.
    pub(super) fn absent(&self) -> usize {
        (0..self.runs.len()).filter(|&run| self.lacks(run)).count()
    }

    /// Is the difference of this entry in points?
    pub fn is_share(&self) -> bool {
        is_share(self)
    }

    /// The number of completed units of work of a run, on average.
    pub fn completed(&self) -> Option<f64> {
        let n = |run: &Option<crate::Pooled>| run.as_ref().map_or(0.0, |run| run.n as f64);
        mean(&self.runs.iter().map(n).collect::<Vec<f64>>())
    }

    /// The logarithm of the work completed in each run.
    pub(super) fn work(&self) -> Option<Vec<f64>> {
        match self.measure.metric.better {
            Better::Higher if self.absent() > 0 => None,
            Better::Higher => self
                .costs()
                .map(|costs| costs.iter().map(|cost| -cost).collect()),
            _ => {
                let n = |run: &Option<crate::Pooled>| Some((run.as_ref()?.n as f64).ln());
                self.runs.iter().map(n).collect()
            }
        }
    }
}

pub(super) fn is_share(entry: &Entry<'_>) -> bool {
    entry.measure.metric.unit == Unit::Percent && entry.measure.metric.better == Better::Lower
}

/// For each run, the mean over `entries` of the result of `of` for the judged value; `None` if a run has no value or
/// there are no entries.
pub(super) fn mean_by_run(
    entries: &[&Entry<'_>],
    of: impl Fn(&Entry<'_>, f64) -> f64,
) -> Option<Vec<f64>> {
    let values = |entry: &&Entry<'_>| -> Option<Vec<f64>> {
        let judged = entry.judged()?;
        Some(judged.iter().map(|&value| of(entry, value)).collect())
    };
    let all: Vec<Vec<f64>> = entries.iter().map(values).collect::<Option<_>>()?;
    let runs = all.first()?.len();
    let of_run = |run: usize| all.iter().map(|values| values[run]).collect::<Vec<f64>>();
    (0..runs).map(|run| mean(&of_run(run))).collect()
}

/// The logarithm of `value`, signed so that less is better.
pub(super) fn cost(entry: &Entry<'_>, value: f64) -> f64 {
    let log = value.max(least(entry).unwrap_or(f64::MIN_POSITIVE)).ln();
    match entry.measure.metric.better {
        Better::Higher => -log,
        Better::Lower | Better::Neither => log,
    }
}

/// The value as which smaller values count; `None` if the measure has no such value.
fn least(entry: &Entry<'_>) -> Option<f64> {
    let metric = &entry.measure.metric;
    let ns = metric
        .unit
        .ns()
        .filter(|_| metric.better == Better::Lower)?;
    Some(match metric.role.goal() {
        Some(Goal::Latency) => SHORTEST_LATENCY_NS / ns,
        _ => 1.0 / ns,
    })
}
