//! The standing of a scheduler for a goal.

use super::WORTH_WORK;
use super::entry::{cost, is_less, is_share, mean_by_run};
use crate::stats::mean;
use crate::{Entry, Finding, Run};
use workload::Goal;

/// A scheduler's result for a goal. Each list has a number for each run, where less is better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The number of threads that stalled.
    pub(super) stalled: Vec<f64>,
    /// The mean of the shares that decide (periods missed, or the spread between equal threads), in
    /// per cent.
    pub share_pct: Option<f64>,
    /// The value of `share_pct` in each run.
    pub(super) shares: Option<Vec<f64>>,
    /// The mean of the logarithms of the other measures that decide.
    pub(super) costs: Option<Vec<f64>>,
    /// For latency and energy, the logarithm of the work that was done.
    pub(super) work: Option<Vec<f64>>,
    /// The number of responses of a run, for latency.
    pub responses: Option<f64>,
    /// A measure without a sample in some run, because the thread completed no loop or response that it measures,
    /// although another scheduler has samples in every run.
    pub lacks: Option<String>,
}

impl Standing {
    pub(super) fn new(goal: Goal, rows: &[&Finding<'_>], scheduler: usize) -> Standing {
        let entries: Vec<&Entry<'_>> = rows.iter().map(|row| &row.entries[scheduler]).collect();
        let lacks = entries.iter().find(|entry| entry.judged().is_none());
        let responses = entries.iter().filter(|entry| entry.measure.counts_work());
        let responses: f64 = responses.filter_map(|entry| entry.completed()).sum();
        let (shares, others): (Vec<&Entry<'_>>, Vec<&Entry<'_>>) =
            entries.iter().partition(|entry| is_share(entry));
        let shares = mean_by_run(&shares, |_, value| value);
        Standing {
            share_pct: shares.as_deref().and_then(mean),
            shares,
            costs: mean_by_run(&others, cost),
            lacks: lacks.map(|entry| entry.measure.metric.name.to_string()),
            responses: (goal == Goal::Latency).then_some(responses),
            ..Standing::default()
        }
    }

    /// The order of schedulers that are equally good, by their means.
    pub(super) fn order(&self, other: &Standing) -> std::cmp::Ordering {
        let number = |values: &Option<Vec<f64>>| values.as_deref().and_then(mean);
        let shares = number(&self.shares).zip(number(&other.shares));
        let costs = number(&self.costs).zip(number(&other.costs));
        let cmp = |pair: Option<(f64, f64)>| {
            pair.map_or(std::cmp::Ordering::Equal, |(a, b)| a.total_cmp(&b))
        };
        let lacks = self.lacks.is_some().cmp(&other.lacks.is_some());
        let stalled = mean(&self.stalled).zip(mean(&other.stalled));
        cmp(stalled).then(lacks).then(cmp(shares)).then(cmp(costs))
    }
}

/// The number of threads that stalled in each run.
pub(super) fn stalled(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.stalled.len() as f64).collect()
}

/// Did one of the two schedulers complete so many fewer responses, significantly, that the times are not those of the
/// same work?
pub(super) fn differs(one: &Standing, other: &Standing) -> bool {
    let pair = one.work.as_ref().zip(other.work.as_ref());
    pair.is_some_and(|(one, other)| {
        is_less(one, other, WORTH_WORK) || is_less(other, one, WORTH_WORK)
    })
}

/// The shares of both schedulers. Periods that came only under the other scheduler count as missed.
pub(super) fn with_absent(one: &Standing, other: &Standing) -> (Vec<f64>, Vec<f64>) {
    let of = |own: &Standing, other: &Standing| {
        let (Some(shares), Some(work), Some(others)) = (&own.shares, &own.work, &other.work) else {
            return Vec::new();
        };
        let runs = shares.iter().zip(work.iter().zip(others));
        runs.map(|(share, (work, other))| {
            let came = (work - work.max(*other)).exp();
            100.0 - (100.0 - share) * came
        })
        .collect()
    };
    (of(one, other), of(other, one))
}
