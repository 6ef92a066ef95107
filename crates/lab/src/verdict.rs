//! The best schedulers for each goal.
//!
//! A goal is judged by the measures that decide it ([`Measure::decides`](crate::Measure::decides)): first by the shares among
//! them (periods missed, in points), then by the geometric mean of the others. A scheduler is
//! better than another if the 95 % confidence interval of the paired difference excludes zero and
//! the difference is large enough to matter.

use crate::stats::{mean, paired_difference};
use crate::{Change, Entry, Finding};
use workload::{Better, Goal};

/// The smallest difference that matters between two values: 1 %.
const WORTH_LOG: f64 = 0.01;
/// The smallest difference that matters between two shares of missed periods, in points.
const WORTH_MISSED: f64 = 0.1;
/// The smallest difference that matters between two spreads of equal threads, in points.
const WORTH_SPREAD: f64 = 1.0;
/// Shorter latencies count as this, us.
const SHORTEST_LATENCY_US: f64 = 1.0;

/// The result of a comparison, goal by goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The goals of the workload and the machine, in order.
    pub goals: Vec<GoalVerdict>,
}

/// The verdict for one goal. Schedulers are indices.
#[derive(Clone, Debug, PartialEq)]
pub struct GoalVerdict {
    /// The goal.
    pub goal: Goal,
    /// Is more better for all measures by which it is judged?
    pub higher_is_better: bool,
    /// One for each scheduler.
    pub standings: Vec<Standing>,
    /// The schedulers that no other beats, best first; empty if no scheduler is worse than another.
    pub best: Vec<usize>,
    /// The worst scheduler; `None` if no scheduler is worse than another.
    pub worst: Option<usize>,
    /// The names of the measures by which it is judged.
    pub measures: Vec<String>,
}

/// A scheduler's result for a goal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The mean of the shares that decide (periods missed, or the spread between equal threads), in
    /// per cent.
    pub share_pct: Option<f64>,
    /// One for each run: that mean.
    shares: Option<Vec<f64>>,
    /// One for each run: the mean of the logarithms of the other measures that decide; less is
    /// better.
    costs: Option<Vec<f64>>,
    /// A measure without a sample in some run, because a thread never got that far, although
    /// another scheduler has samples in every run.
    pub lacks: Option<String>,
}

impl Verdict {
    /// Computes the verdict from the `rows` of all measures.
    pub(crate) fn new(rows: &[Finding<'_>]) -> Verdict {
        let goals = [
            Goal::Latency,
            Goal::Throughput,
            Goal::Energy,
            Goal::Fairness,
        ];
        Verdict {
            goals: goals
                .into_iter()
                .filter_map(|goal| GoalVerdict::new(goal, rows))
                .collect(),
        }
    }

    /// The verdict for `goal`, if the workload has it.
    pub fn of(&self, goal: Goal) -> Option<&GoalVerdict> {
        self.goals.iter().find(|verdict| verdict.goal == goal)
    }
}

impl GoalVerdict {
    fn new(goal: Goal, rows: &[Finding<'_>]) -> Option<GoalVerdict> {
        let decides = |row: &&Finding<'_>| {
            row.measure.decides() == Some(goal)
                && row.entries.iter().any(|entry| entry.judged().is_some())
        };
        let rows: Vec<&Finding<'_>> = rows.iter().filter(decides).collect();
        let schedulers = rows.first()?.entries.len();
        let standings: Vec<Standing> = (0..schedulers)
            .map(|scheduler| Standing::new(&rows, scheduler))
            .collect();
        let mut verdict = GoalVerdict {
            goal,
            higher_is_better: rows
                .iter()
                .all(|row| row.measure.metric.better == Better::Higher),
            best: Vec::new(),
            worst: None,
            measures: rows
                .iter()
                .map(|row| row.measure.metric.name.to_string())
                .collect(),
            standings,
        };
        verdict.rank();
        Some(verdict)
    }

    fn rank(&mut self) {
        let mut order: Vec<usize> = (0..self.standings.len())
            .filter(|&scheduler| self.standings[scheduler].lacks.is_none())
            .collect();
        let all = self.standings.len();
        for criterion in [Criterion::Shares(self.goal), Criterion::Costs] {
            order = least(
                &order,
                |index| criterion.of(&self.standings[index]),
                |a, b| criterion.is_less(a, b),
            );
        }
        if order.len() < all {
            self.best = order;
        }
        let worse = |a: usize, b: usize| self.is_better(b, a);
        self.worst = (0..all).find(|&one| {
            (0..all).all(|other| one == other || !worse(other, one))
                && (0..all).any(|other| worse(one, other))
        });
    }

    /// Is scheduler `one` better than `other`, significantly and by enough to matter?
    pub fn is_better(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.standings[one], &self.standings[other]);
        if one.lacks.is_some() || other.lacks.is_some() {
            return one.lacks.is_none();
        }
        let by = |criterion: Criterion, a, b| match (criterion.of(a), criterion.of(b)) {
            (Some(a), Some(b)) => criterion.is_less(a, b),
            _ => false,
        };
        let shares = Criterion::Shares(self.goal);
        by(shares, one, other) || !by(shares, other, one) && by(Criterion::Costs, one, other)
    }

    /// Is any scheduler better than another?
    pub fn tells_apart(&self) -> bool {
        let all = 0..self.standings.len();
        all.clone()
            .any(|one| all.clone().any(|other| self.is_better(one, other)))
    }

    /// Those of [`GoalVerdict::best`] that are also better than the baseline `usual`, unless that
    /// is one of them: a scheduler with large variation may differ significantly from neither the
    /// best nor `usual`.
    pub fn winners(&self, usual: usize) -> Vec<usize> {
        let mut winners = self.best.clone();
        if !winners.contains(&usual) {
            winners.retain(|&one| self.is_better(one, usual));
        }
        winners
    }

    /// Does one of the two miss more periods, or have a larger spread between equal threads,
    /// significantly and by enough to matter?
    pub fn shares_differ(&self, one: usize, other: usize) -> bool {
        let criterion = Criterion::Shares(self.goal);
        let of = |index: usize| criterion.of(&self.standings[index]);
        of(one)
            .zip(of(other))
            .is_some_and(|(a, b)| criterion.is_less(a, b) || criterion.is_less(b, a))
    }

    /// The difference of `one` from `other` in the judged measures besides shares, in per cent of
    /// `other`: in time, energy or work, by [`GoalVerdict::higher_is_better`].
    pub fn change(&self, other: usize, one: usize) -> Option<Change> {
        let costs = |index: usize| self.standings[index].costs.as_ref();
        let (mean, margin) = paired_difference(costs(other)?, costs(one)?)?;
        let sign = if self.higher_is_better { -1.0 } else { 1.0 };
        let ratio = (sign * mean).exp();
        Some(Change {
            mean_pct: 100.0 * (ratio - 1.0),
            margin_pct: margin.map(|margin| 100.0 * ratio * margin.exp_m1()),
        })
    }
}

impl Standing {
    fn new(rows: &[&Finding<'_>], scheduler: usize) -> Standing {
        let entries: Vec<&Entry<'_>> = rows.iter().map(|row| &row.entries[scheduler]).collect();
        let lacks = entries.iter().find(|entry| entry.judged().is_none());
        let (shares, others): (Vec<&Entry<'_>>, Vec<&Entry<'_>>) =
            entries.iter().partition(|entry| is_share(entry));
        let shares = mean_by_run(&shares, |_, value| value);
        Standing {
            share_pct: shares.as_deref().and_then(mean),
            shares,
            costs: mean_by_run(&others, cost),
            lacks: lacks.map(|entry| entry.measure.metric.name.to_string()),
        }
    }
}

/// A criterion by which schedulers are compared.
#[derive(Clone, Copy)]
enum Criterion {
    Shares(Goal),
    Costs,
}

impl Criterion {
    fn of_entry(entry: &Entry<'_>) -> Criterion {
        match (is_share(entry), entry.measure.metric.role.goal()) {
            (true, goal) => Criterion::Shares(goal.unwrap_or(Goal::Fairness)),
            (false, _) => Criterion::Costs,
        }
    }

    fn values(self, entry: &Entry<'_>) -> Option<Vec<f64>> {
        match self {
            Criterion::Shares(_) => entry.judged(),
            Criterion::Costs => mean_by_run(&[entry], cost),
        }
    }

    fn of(self, standing: &Standing) -> Option<&[f64]> {
        match self {
            Criterion::Shares(_) => standing.shares.as_deref(),
            Criterion::Costs => standing.costs.as_deref(),
        }
    }

    fn worth(self) -> f64 {
        match self {
            Criterion::Shares(Goal::Fairness) => WORTH_SPREAD,
            Criterion::Shares(_) => WORTH_MISSED,
            Criterion::Costs => WORTH_LOG,
        }
    }

    /// Is `one` less than `other`, significantly and by enough to matter?
    fn is_less(self, one: &[f64], other: &[f64]) -> bool {
        let Some((difference, Some(margin))) = paired_difference(one, other) else {
            return false;
        };
        difference >= self.worth() && difference > margin
    }
}

/// Among `candidates`, the one with the smallest average and all that are not significantly larger;
/// smallest first. All of them, if one has no values.
fn least<'a>(
    candidates: &[usize],
    values: impl Fn(usize) -> Option<&'a [f64]>,
    is_less: impl Fn(&[f64], &[f64]) -> bool,
) -> Vec<usize> {
    let of: Option<Vec<(usize, &[f64])>> = candidates
        .iter()
        .map(|&index| Some((index, values(index)?)))
        .collect();
    let Some(mut of) = of else {
        return candidates.to_vec();
    };
    let mean = |values: &[f64]| mean(values).unwrap_or(f64::NAN);
    of.sort_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)));
    let Some(&(_, first)) = of.first() else {
        return Vec::new();
    };
    of.retain(|(_, other)| !is_less(first, other));
    of.iter().map(|&(index, _)| index).collect()
}

/// The `entries` of one measure that no other beats; none if no entry is worse than another.
pub(crate) fn best_of(entries: &[Entry<'_>]) -> Vec<usize> {
    let Some(first) = entries.first() else {
        return Vec::new();
    };
    let metric = &first.measure.metric;
    if metric.better == Better::Neither {
        return Vec::new();
    }
    let criterion = Criterion::of_entry(first);
    let values: Vec<Option<Vec<f64>>> = entries
        .iter()
        .map(|entry| criterion.values(entry))
        .collect();
    let measured: Vec<usize> = (0..entries.len())
        .filter(|&index| values[index].is_some())
        .collect();
    let best = least(
        &measured,
        |index| values[index].as_deref(),
        |a, b| criterion.is_less(a, b),
    );
    if best.len() < measured.len() {
        best
    } else {
        Vec::new()
    }
}

impl Entry<'_> {
    /// Is this entry better than `other`, an entry of the same measure, significantly and by enough
    /// to matter?
    pub fn is_better(&self, other: &Entry<'_>) -> bool {
        let criterion = Criterion::of_entry(self);
        self.measure.metric.better != Better::Neither
            && criterion
                .values(self)
                .zip(criterion.values(other))
                .is_some_and(|(own, others)| criterion.is_less(&own, &others))
    }
}

fn is_share(entry: &Entry<'_>) -> bool {
    entry.measure.metric.unit == "%" && entry.measure.metric.better == Better::Lower
}

/// The mean over `entries`, run by run, of `of` applied to the judged value; `None` if a run has no
/// value or there are no entries.
fn mean_by_run(entries: &[&Entry<'_>], of: impl Fn(&Entry<'_>, f64) -> f64) -> Option<Vec<f64>> {
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
fn cost(entry: &Entry<'_>, value: f64) -> f64 {
    let metric = &entry.measure.metric;
    let least = match (metric.role.goal(), metric.unit) {
        (Some(Goal::Latency), "us") => SHORTEST_LATENCY_US,
        (Some(Goal::Latency), "ms") => SHORTEST_LATENCY_US / 1e3,
        (Some(Goal::Latency), "s") => SHORTEST_LATENCY_US / 1e6,
        _ => f64::MIN_POSITIVE,
    };
    let log = value.max(least).ln();
    match metric.better {
        Better::Higher => -log,
        Better::Lower | Better::Neither => log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Judged, Measure, Pooled, Samples};
    use std::borrow::Cow;
    use workload::{Metric, Role};

    fn measure(name: &'static str, unit: &'static str, better: Better, role: Role) -> Measure {
        Measure::new(Metric::new(name, unit, better, role), vec![0], false)
    }

    /// The row of `measure`, with the values of each scheduler's runs.
    fn finding<'a>(measure: &'a Measure, values: &[&[f64]]) -> Finding<'a> {
        let entry = |runs: &&[f64]| Entry {
            scheduler: "s",
            measure,
            pooled: None,
            runs: runs
                .iter()
                .map(|value| {
                    let measured: Vec<f64> =
                        [*value].into_iter().filter(|v| v.is_finite()).collect();
                    Pooled::new([&Samples::new(&measured)])
                })
                .collect(),
            fewest: Vec::new(),
            change: None,
            is_best: false,
        };
        Finding {
            measure,
            limit: None,
            entries: values.iter().map(entry).collect(),
        }
    }

    fn best(measure: &Measure, values: &[&[f64]]) -> Vec<usize> {
        best_of(&finding(measure, values).entries)
    }

    const NONE: [usize; 0] = [];
    const TIME: Role = Role::Decides(Goal::Throughput);

    #[test]
    fn the_best_policy_is_significantly_and_noticeably_better() {
        let time = measure("time", "s", Better::Lower, TIME);
        assert_eq!(
            best(&time, &[&[10.0, 10.1], &[9.0, 9.1], &[12.0, 12.1]]),
            [1]
        );
        // The difference is half a per cent, which does not matter whatever the interval.
        assert_eq!(best(&time, &[&[10.0, 10.0], &[9.95, 9.95]]), NONE);
        // The difference is a tenth, but one of the two runs shows the opposite direction.
        assert_eq!(best(&time, &[&[10.0, 10.0], &[7.0, 11.0]]), NONE);
        // The first two do not differ significantly; the last is worse.
        assert_eq!(
            best(&time, &[&[10.0, 10.1], &[10.02, 10.09], &[12.0, 12.1]]),
            [0, 1]
        );
        // One run does not show the noise.
        assert_eq!(best(&time, &[&[10.0], &[1.0]]), NONE);
        let rate = measure("rate", "1/s", Better::Higher, TIME);
        assert_eq!(best(&rate, &[&[10.0, 10.1], &[9.0, 9.1]]), [0]);
        let period = measure("period", "us", Better::Neither, Role::Detail);
        assert_eq!(best(&period, &[&[10.0, 10.1], &[9.0, 9.1]]), NONE);
    }

    /// The third varies so much that it differs significantly from none.
    #[test]
    fn a_winner_is_better_than_what_one_has() {
        let time = measure("time", "s", Better::Lower, TIME);
        let runs: [&[f64]; 3] = [&[10.0, 10.1, 10.0], &[9.0, 9.1, 9.0], &[6.0, 15.0, 9.5]];
        let verdict = Verdict::new(&[finding(&time, &runs)]);
        let throughput = &verdict.goals[0];
        assert_eq!(throughput.best, [1, 2]);
        assert_eq!(throughput.winners(0), [1]);
        assert_eq!(throughput.winners(2), [1, 2]);
        assert!(throughput.tells_apart());
        let alike: [&[f64]; 2] = [&[10.0, 10.1, 10.0], &[10.1, 10.0, 10.0]];
        assert!(!Verdict::new(&[finding(&time, &alike)]).goals[0].tells_apart());
    }

    #[test]
    fn missed_periods_go_before_response_times() {
        let role = Role::Decides(Goal::Latency);
        let response = measure("a/response", "us", Better::Lower, role);
        let missed = measure("a/missed", "%", Better::Lower, role);
        assert_eq!(
            (response.judged, missed.judged),
            (Judged::P99, Judged::Mean)
        );
        let all = [
            finding(
                &response,
                &[&[900.0, 910.0], &[1000.0, 1001.0], &[1200.0, 1201.0]],
            ),
            finding(&missed, &[&[5.0, 5.1], &[0.0, 0.0], &[0.01, 0.0]]),
        ];
        let verdict = Verdict::new(&all);
        let [latency] = &verdict.goals[..] else {
            panic!("{verdict:?}");
        };
        assert_eq!(latency.best, [1]);
        assert_eq!(latency.worst, Some(0));
        assert_eq!(latency.standings[1].share_pct, Some(0.0));
        assert!(latency.is_better(2, 0) && latency.is_better(1, 2) && !latency.is_better(0, 1));
        let change = latency.change(1, 2).unwrap();
        assert!((change.mean_pct - 20.0).abs() < 0.1, "{change:?}");
        assert!(change.is_significant());
    }

    #[test]
    fn a_geometric_mean_weighs_all_alike() {
        let one = measure("a/period", "us", Better::Lower, TIME);
        let two = measure("b/period", "us", Better::Lower, TIME);
        let all = [
            finding(&one, &[&[1e6, 1e6], &[2e6, 2e6]]),
            finding(&two, &[&[8.0, 8.0], &[2.0, 2.0]]),
        ];
        let verdict = Verdict::new(&all);
        assert_eq!(verdict.goals[0].best, [1]);
        let change = verdict.goals[0].change(0, 1).unwrap();
        assert!((change.mean_pct - (-29.29)).abs() < 0.01, "{change:?}");
    }

    #[test]
    fn a_policy_that_never_finishes_is_worst() {
        let time = measure("time", "s", Better::Lower, TIME);
        let all = [finding(
            &time,
            &[&[10.0, 10.1], &[9.0, f64::NAN], &[10.0, 10.1]],
        )];
        let verdict = Verdict::new(&all);
        let throughput = &verdict.goals[0];
        assert_eq!(throughput.best, [0, 2]);
        assert_eq!(throughput.worst, Some(1));
        assert_eq!(throughput.standings[1].lacks.as_deref(), Some("time"));
    }

    #[test]
    fn parts_and_details_decide_nothing() {
        let metric = Metric {
            name: Cow::Borrowed("a-0/period"),
            ..Metric::new("", "us", Better::Lower, TIME)
        };
        let part = Measure::new(metric, vec![0], true);
        let detail = measure("a/run", "us", Better::Lower, Role::Detail);
        let all = [
            finding(&part, &[&[1.0, 1.0], &[2.0, 2.0]]),
            finding(&detail, &[&[1.0, 1.0], &[2.0, 2.0]]),
        ];
        assert!(Verdict::new(&all).goals.is_empty());
        let none = finding(&detail, &[&[], &[]]);
        assert_eq!(best_of(&none.entries), NONE);
    }
}
