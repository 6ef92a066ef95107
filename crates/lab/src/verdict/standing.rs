//! The standing of a scheduler for a goal.

use super::WORTH_WORK;
use super::entry::{cost, is_less, is_share, mean_by_run};
use crate::stats::mean;
use crate::{Entry, Finding, Run};
use workload::Goal;

/// A scheduler's result for a goal. In all numbers but those of completed work, less is better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The number of threads that stalled.
    pub(super) stalled: Vec<f64>,
    /// The mean of the shares that decide (periods missed, or the spread between equal threads), in per cent.
    pub share_pct: Option<f64>,
    /// The latest release, in ns, of a missed period in any run, if it is in the first tenth of that run.
    pub missed_until_ns: Option<u64>,
    /// The values of each of these shares.
    pub(super) shares: Vec<Values>,
    /// The logarithms of each of the other measures that decide.
    pub(super) costs: Vec<Values>,
    /// For latency and energy, the logarithm of the work that was done.
    pub(super) work: Option<Vec<f64>>,
    /// The number of responses of a run, for latency.
    pub responses: Option<f64>,
    /// A measure without a sample in some run, because the thread completed no loop or response that it measures.
    pub lacks: Option<String>,
    /// The number of such measures in each run.
    pub(super) lacking: Vec<f64>,
    /// The number of such runs of each measure.
    pub(super) absent: Vec<usize>,
}

/// The values of a measure in each run; `None` if a run has no sample.
type Values = Option<Vec<f64>>;

impl Standing {
    /// The standing by `rows`. The `counted` rows are those by which the work is counted, if the goal is judged for the
    /// same work.
    pub(super) fn new(
        goal: Goal,
        rows: &[&Finding<'_>],
        counted: &[&Finding<'_>],
        scheduler: usize,
    ) -> Standing {
        let needed = rows.iter().chain(counted);
        let needed: Vec<&Entry<'_>> = needed.map(|row| &row.entries[scheduler]).collect();
        let entries = needed[..rows.len()].to_vec();
        let lacks = needed.iter().find(|entry| entry.absent() > 0);
        let lacking = |run: usize| {
            let without = needed.iter().filter(|entry| entry.lacks(run));
            without.count() as f64
        };
        let runs = 0..needed.first().map_or(0, |entry| entry.runs.len());
        let responses = entries.iter().filter(|entry| entry.measure.counts_work());
        let responses: f64 = responses.filter_map(|entry| entry.completed()).sum();
        let (shares, others): (Vec<&Entry<'_>>, Vec<&Entry<'_>>) =
            entries.iter().partition(|entry| is_share(entry));
        let share_pct = mean_by_run(&shares, |_, value| value);
        let costs = others.iter().map(|&entry| match entry.absent() {
            0 => mean_by_run(&[entry], cost),
            _ => None,
        });
        Standing {
            share_pct: share_pct.as_deref().and_then(mean),
            shares: shares.iter().map(|entry| entry.judged()).collect(),
            costs: costs.collect(),
            lacking: runs.map(lacking).collect(),
            absent: needed.iter().map(|entry| entry.absent()).collect(),
            lacks: lacks.map(|entry| entry.measure.metric.name.to_string()),
            responses: (goal == Goal::Latency).then_some(responses),
            ..Standing::default()
        }
    }

    /// The index of the first measure that `other` lacks in more runs than this scheduler.
    pub(super) fn lacks_less(&self, other: &Standing) -> Option<usize> {
        let pairs = self.absent.iter().zip(&other.absent);
        pairs.into_iter().position(|(own, other)| own < other)
    }

    /// The order of schedulers that are equally good, by their means.
    pub(super) fn order(&self, other: &Standing) -> std::cmp::Ordering {
        let means = |(own, other): (Vec<f64>, Vec<f64>)| mean(&own).zip(mean(&other));
        let shares = in_both(&self.shares, &other.shares).and_then(means);
        let costs = in_both(&self.costs, &other.costs).and_then(means);
        let cmp = |pair: Option<(f64, f64)>| {
            pair.map_or(std::cmp::Ordering::Equal, |(a, b)| a.total_cmp(&b))
        };
        let lacks = self.lacks.is_some().cmp(&other.lacks.is_some());
        let stalled = mean(&self.stalled).zip(mean(&other.stalled));
        cmp(stalled).then(lacks).then(cmp(shares)).then(cmp(costs))
    }
}

/// The mean in each run of the measures that have samples in every run of both schedulers; `None` without such
/// measures.
pub(super) fn in_both(one: &[Values], other: &[Values]) -> Option<(Vec<f64>, Vec<f64>)> {
    let pairs = one.iter().zip(other);
    let pairs = pairs.filter_map(|(one, other)| one.as_ref().zip(other.as_ref()));
    let (one, other): (Vec<&Vec<f64>>, Vec<&Vec<f64>>) = pairs.unzip();
    let by_run = |rows: &[&Vec<f64>]| -> Option<Vec<f64>> {
        let of_run = |run: usize| mean(&rows.iter().map(|row| row[run]).collect::<Vec<f64>>());
        (0..rows.first()?.len()).map(of_run).collect()
    };
    by_run(&one).zip(by_run(&other))
}

/// The latest release, in ns, of a missed period of `rows` in `runs`; `None` if no period was missed, or if one was missed
/// after the first tenth of its run. A thread begins with a utilization of 0, which is right only after some of its
/// periods, so a policy may miss periods in the first moments only.
pub(super) fn missed_until(rows: &[&Finding<'_>], runs: &[Run]) -> Option<u64> {
    let last = |run: &Run| {
        let shares = rows
            .iter()
            .filter_map(|row| row.measure.last_missed_ns(run));
        shares.max().map(|last| (last, run.simulated_ns / 10))
    };
    let all: Vec<(u64, u64)> = runs.iter().filter_map(last).collect();
    let is_early = all.iter().all(|(last, tenth)| last <= tenth);
    all.iter().map(|(last, _)| *last).max().filter(|_| is_early)
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

/// The `shares` of both schedulers, in which periods that came only under the other scheduler count as missed.
pub(super) fn with_absent(
    (one, other): (&Standing, &Standing),
    shares: &(Vec<f64>, Vec<f64>),
) -> (Vec<f64>, Vec<f64>) {
    let of = |shares: &[f64], own: &Standing, other: &Standing| {
        let (Some(work), Some(others)) = (&own.work, &other.work) else {
            return Vec::new();
        };
        let runs = shares.iter().zip(work.iter().zip(others));
        runs.map(|(share, (work, other))| {
            let came = (work - work.max(*other)).exp();
            100.0 - (100.0 - share) * came
        })
        .collect()
    };
    (of(&shares.0, one, other), of(&shares.1, other, one))
}
