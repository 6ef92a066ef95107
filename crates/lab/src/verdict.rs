//! The best schedulers for each goal. Only this module decides whether a scheduler is better than another.
//!
//! A goal is judged in this order ([`Reason`]): by threads that stalled; by deciding measures
//! ([`Measure::decides`](crate::Measure::decides)) that a scheduler lacks; by the shares among the deciding measures
//! (periods missed, in points); and by the geometric mean of the other deciding measures. A scheduler is better than
//! another if the 95 % confidence interval of the paired difference excludes zero and the difference is large enough to
//! matter. A scheduler is among the best for a goal if no other is better ([`GoalVerdict::best`]), so that no two
//! statements contradict each other.
//!
//! Times say nothing about work that was not done. Throughput is therefore judged by the time for each completed unit
//! of work, which includes the time of open units, and energy is judged for the same work: a scheduler under which some
//! run completed no unit of some work lacks the measure of energy. If a scheduler completed a tenth fewer responses,
//! its periods that never came count as missed, and latencies are compared per response.

mod entry;
mod standing;
mod work;

use crate::stats::{mean, paired_difference};
use crate::{Change, Finding, Run};
pub use entry::Judgement;
pub(crate) use entry::best_of;
use entry::is_less;
pub use standing::Standing;
use standing::{differs, in_both, missed_until, stalled, with_absent};
pub use work::counted_work;
use work::work;
use workload::{Better, Goal};

/// The smallest difference that matters between two values: 1 %.
const WORTH_LOG: f64 = 0.01;
/// The smallest difference that matters between two shares of missed periods, in points.
const WORTH_MISSED: f64 = 0.1;
/// The smallest difference that matters between two spreads of equal threads, in points.
const WORTH_SPREAD: f64 = 1.0;
/// The smallest difference between the numbers of responses that makes latencies incomparable: 10 %. Smaller
/// differences are normal, because the speed of threads depends on the scheduler.
const WORTH_WORK: f64 = 0.1;
/// The smallest difference that matters between the numbers of measures that a run lacks: one in a tenth of the runs.
const WORTH_LACKING: f64 = 0.1;
/// The smallest difference that matters between the numbers of stalled threads.
const WORTH_STALLED: f64 = 0.5;
/// Shorter latencies count as this one, in ns.
const SHORTEST_LATENCY_NS: f64 = 1_000.0;

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
    /// Is a larger value better for all measures by which the goal is judged?
    pub higher_is_better: bool,
    /// The standing of each scheduler.
    pub standings: Vec<Standing>,
    /// The schedulers that no other scheduler beats, best first; empty if no scheduler is worse than another.
    pub best: Vec<usize>,
    /// The schedulers that beat no other scheduler and that another scheduler beats, worst first; empty if `best` is.
    pub worst: Vec<usize>,
    /// The names of the measures by which the goal is judged.
    pub measures: Vec<String>,
    /// The names of the measures that count the work, if the goal is judged for the same work.
    counted: Vec<String>,
}

/// The reason why a scheduler is better than another for a goal.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Fewer threads stalled.
    Stalled,
    /// The other scheduler lacks a measure, in more runs than this one.
    Lacks {
        /// The measure.
        measure: String,
        /// Do runs of this scheduler lack measures, too?
        both: bool,
    },
    /// A smaller share of periods missed, or a smaller spread, in per cent.
    Share {
        /// The better scheduler's share.
        own: f64,
        /// The other scheduler's share.
        other: f64,
        /// Do the periods that never came under one of the two schedulers count?
        counts_absent: bool,
    },
    /// The change of the geometric mean of the measures besides shares against the other scheduler, and the change of
    /// the work, if that was judged.
    Cost {
        /// The change.
        change: Change,
        /// The change of the number of responses, or of the work done, in per cent.
        work_pct: Option<f64>,
    },
}

/// A statement about a goal, against the first scheduler, which is the baseline.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// No scheduler is better than another.
    Same,
    /// These schedulers are best, and better than the baseline. The reason is that of the first of these schedulers.
    Best(Vec<usize>, Reason),
    /// No scheduler is better than the baseline. These schedulers are worst; the baseline is better than the first of
    /// them for this reason.
    Baseline(Option<(Vec<usize>, Reason)>),
    /// This scheduler is better than the baseline for this reason, and another scheduler is better than this one.
    Better(usize, Reason),
}

impl Verdict {
    /// Computes the verdict from the `rows` of all measures and the `runs` of each scheduler.
    pub fn new(rows: &[Finding<'_>], runs: &[&[Run]]) -> Verdict {
        let goals = [
            Goal::Latency,
            Goal::Throughput,
            Goal::Energy,
            Goal::Fairness,
        ];
        Verdict {
            goals: goals
                .into_iter()
                .filter_map(|goal| GoalVerdict::new(goal, rows, runs))
                .collect(),
        }
    }

    /// The verdict for `goal`, if the workload has it.
    pub fn of(&self, goal: Goal) -> Option<&GoalVerdict> {
        self.goals.iter().find(|verdict| verdict.goal == goal)
    }

    /// The schedulers that are among the best of each goal that tells schedulers apart.
    pub fn best_for_all(&self) -> Vec<usize> {
        let goals = self.goals.iter().filter(|goal| goal.tells_apart());
        let mut called = goals.map(GoalVerdict::called_best);
        let mut all = called.next().unwrap_or_default();
        called.for_each(|called| all.retain(|it| called.contains(it)));
        all
    }

    /// The scheduler whose largest price is the least: the largest ratio of its costs to those of the best scheduler
    /// for a goal (minimax regret; L. J. Savage, "The Theory of Statistical Decision", 1951). `None` if its price is
    /// infinite, or if it is the baseline, is called best for a goal, or is not better than the baseline for any goal.
    pub fn compromise(&self) -> Option<usize> {
        let goals = || self.goals.iter().filter(|goal| goal.tells_apart());
        let price = |one: usize| goals().map(|goal| goal.price(one)).fold(0.0, f64::max);
        let all = 0..self.goals.first()?.standings.len();
        let least = all.min_by(|&a, &b| price(a).total_cmp(&price(b)))?;
        let is_better = goals().any(|goal| goal.is_better(least, 0));
        let is_best = goals().any(|goal| goal.called_best().contains(&least));
        (is_better && !is_best && price(least).is_finite()).then_some(least)
    }

    /// Do at least two goals tell schedulers apart?
    pub fn is_of_several_goals(&self) -> bool {
        self.goals.iter().filter(|it| it.tells_apart()).count() > 1
    }
}

impl GoalVerdict {
    fn new(goal: Goal, all: &[Finding<'_>], runs: &[&[Run]]) -> Option<GoalVerdict> {
        let decides = |row: &&Finding<'_>| row.measure.decides() == Some(goal) && row.has_samples();
        let rows: Vec<&Finding<'_>> = all.iter().filter(decides).collect();
        let schedulers = rows.first()?.entries.len();
        let work = match goal {
            Goal::Latency => work(&rows, &[]),
            Goal::Energy => work(&all.iter().collect::<Vec<_>>(), runs),
            Goal::Throughput | Goal::Fairness => vec![None; schedulers],
        };
        let counted = match goal {
            Goal::Energy => counted_work(all),
            Goal::Latency | Goal::Throughput | Goal::Fairness => Vec::new(),
        };
        let runs_of = |scheduler: usize| runs.get(scheduler).copied().unwrap_or_default();
        let standings: Vec<Standing> = work
            .into_iter()
            .enumerate()
            .map(|(scheduler, work)| Standing {
                stalled: stalled(runs_of(scheduler)),
                missed_until_ns: missed_until(&rows, runs_of(scheduler)),
                work,
                ..Standing::new(goal, &rows, &counted, scheduler)
            })
            .collect();
        let mut verdict = GoalVerdict {
            goal,
            higher_is_better: rows
                .iter()
                .all(|row| row.measure.metric.better == Better::Higher),
            best: Vec::new(),
            worst: Vec::new(),
            measures: rows
                .iter()
                .map(|row| row.measure.metric.name.to_string())
                .collect(),
            counted: counted
                .iter()
                .map(|row| row.measure.metric.name.to_string())
                .collect(),
            standings,
        };
        verdict.rank();
        Some(verdict)
    }

    fn rank(&mut self) {
        let all = 0..self.standings.len();
        let better = |one: usize, other: usize| self.is_better(one, other);
        if !self.tells_apart() {
            return;
        }
        let beaten = |one: usize| all.clone().any(|other| better(other, one));
        let beats = |one: usize| all.clone().any(|other| better(one, other));
        let mut best: Vec<usize> = all.clone().filter(|&one| !beaten(one)).collect();
        let mut worst: Vec<usize> = all
            .clone()
            .filter(|&one| beaten(one) && !beats(one))
            .collect();
        let order = |a: &usize, b: &usize| self.standings[*a].order(&self.standings[*b]);
        best.sort_by(order);
        worst.sort_by(|a, b| order(b, a));
        (self.best, self.worst) = (best, worst);
    }

    /// Is scheduler `one` better than `other`, significantly and by enough to matter?
    pub fn is_better(&self, one: usize, other: usize) -> bool {
        self.reason(one, other).is_some()
    }

    /// The reason why scheduler `one` is better than `other`; `None` if it is not better.
    pub fn reason(&self, one: usize, other: usize) -> Option<Reason> {
        let (own, others) = (&self.standings[one], &self.standings[other]);
        if is_less(&own.stalled, &others.stalled, WORTH_STALLED) {
            return Some(Reason::Stalled);
        }
        if is_less(&others.stalled, &own.stalled, WORTH_STALLED) {
            return None;
        }
        let (lacks, lack) = (own.lacks.is_some(), others.lacks.is_some());
        if lack && (!lacks || is_less(&own.lacking, &others.lacking, WORTH_LACKING)) {
            let mut names = self.measures.iter().chain(&self.counted);
            return Some(Reason::Lacks {
                measure: names.nth(own.lacks_less(others)?)?.clone(),
                both: lacks,
            });
        }
        if lacks && (!lack || is_less(&others.lacking, &own.lacking, WORTH_LACKING)) {
            return None;
        }
        let counts_absent = self.goal == Goal::Latency && differs(own, others);
        if let Some(shares) = in_both(&own.shares, &others.shares) {
            let (a, b) = match counts_absent {
                true => with_absent((own, others), &shares),
                false => shares,
            };
            if is_less(&a, &b, self.worth_share()) {
                return Some(Reason::Share {
                    own: mean(&a)?,
                    other: mean(&b)?,
                    counts_absent,
                });
            }
            if is_less(&b, &a, self.worth_share()) {
                return None;
            }
        }
        let (a, b) = self.costs(one, other)?;
        is_less(&a, &b, WORTH_LOG).then_some(())?;
        Some(Reason::Cost {
            change: self.change(other, one)?,
            work_pct: self
                .work_pct(one, other)
                .filter(|_| self.is_by_work(one, other)),
        })
    }

    /// The order of two schedulers by their means, the better one first.
    pub fn order(&self, one: usize, other: usize) -> std::cmp::Ordering {
        self.standings[one].order(&self.standings[other])
    }

    fn worth_share(&self) -> f64 {
        match self.goal {
            Goal::Fairness => WORTH_SPREAD,
            _ => WORTH_MISSED,
        }
    }

    /// Are the costs of `one` and `other` judged for the same work?
    fn is_by_work(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|index| &self.standings[index]);
        match self.goal {
            Goal::Energy => one.work.is_some() && other.work.is_some(),
            _ => differs(one, other),
        }
    }

    /// The costs of `one` and of `other` in each run; for the same work, if [`GoalVerdict::is_by_work`]. `None` if they
    /// have no measure in common, or if the work is unknown, because some run completed no unit of it.
    fn costs(&self, one: usize, other: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let by_work = self.is_by_work(one, other);
        let [one, other] = [one, other].map(|index| &self.standings[index]);
        if !self.counted.is_empty() && !by_work {
            return None;
        }
        let of = |costs: Vec<f64>, standing: &Standing| match &standing.work {
            Some(work) if by_work => {
                let pairs = costs.iter().zip(work);
                pairs.map(|(cost, work)| cost - work).collect()
            }
            _ => costs,
        };
        let (own, others) = in_both(&one.costs, &other.costs)?;
        Some((of(own, one), of(others, other)))
    }

    /// The excess of the work that `one` did over the work of `other`, in per cent. For latency, the work is the number
    /// of responses. `None` if work is not judged.
    pub fn work_pct(&self, one: usize, other: usize) -> Option<f64> {
        let work = |index: usize| mean(self.standings[index].work.as_ref()?);
        Some(100.0 * (work(one)? - work(other)?).exp_m1())
    }

    /// A measure that every scheduler lacks in some run, if the goal cannot be judged without it.
    pub fn unknown(&self) -> Option<&str> {
        let is_unknown = |other| self.costs(0, other).is_none();
        let others = 1..self.standings.len();
        let all_lack = self.standings.iter().all(|it| it.lacks.is_some());
        let is_unknown = all_lack && others.into_iter().all(is_unknown);
        self.standings[0].lacks.as_deref().filter(|_| is_unknown)
    }

    /// Is any scheduler better than another?
    pub fn tells_apart(&self) -> bool {
        let all = 0..self.standings.len();
        all.clone()
            .any(|one| all.clone().any(|other| self.is_better(one, other)))
    }

    /// The logarithm of the ratio of the costs of `one` to those of the best scheduler; infinite if the best scheduler
    /// is better for another reason than its costs.
    fn price(&self, one: usize) -> f64 {
        let price = |&best: &usize| match self.reason(best, one) {
            None => Some(0.0),
            Some(Reason::Cost { .. }) => {
                let (own, others) = self.costs(one, best)?;
                Some(mean(&own)? - mean(&others)?)
            }
            Some(_) => None,
        };
        self.best
            .first()
            .map_or(Some(0.0), price)
            .unwrap_or(f64::INFINITY)
    }

    /// The statement about the goal.
    pub fn statement(&self) -> Statement {
        let all = 0..self.standings.len();
        let because = |one: usize, other: usize| self.reason(one, other);
        if !self.tells_apart() {
            return Statement::Same;
        }
        if all.clone().all(|one| !self.is_better(one, 0)) {
            let mut worst = self.worst.clone();
            worst.retain(|&one| self.is_better(0, one));
            let reason = worst.first().and_then(|&first| because(0, first));
            return Statement::Baseline(reason.map(|reason| (worst, reason)));
        }
        let mut best = self.best.clone();
        best.retain(|&one| self.is_better(one, 0));
        if let Some(reason) = best.first().and_then(|&first| because(first, 0)) {
            return Statement::Best(best, reason);
        }
        // Each scheduler that beats the baseline is beaten by another one, for example one by shares and the other by
        // times.
        let mut better: Vec<usize> = all.filter(|&one| self.is_better(one, 0)).collect();
        better.sort_by(|&a, &b| self.standings[a].order(&self.standings[b]));
        let first = better[0];
        because(first, 0).map_or(Statement::Same, |reason| Statement::Better(first, reason))
    }

    /// The schedulers that the statement calls best. If the statement says that no scheduler is better than the
    /// baseline, these are the baseline, and every scheduler that beats the worst one and that no scheduler beats.
    fn called_best(&self) -> Vec<usize> {
        match self.statement() {
            Statement::Best(best, _) => best,
            Statement::Baseline(worst) => {
                let beats = |one: usize| {
                    let worst = worst.as_ref().and_then(|(worst, _)| worst.first());
                    worst.is_some_and(|&worst| self.is_better(one, worst))
                };
                let also = self.best.iter().copied().filter(|&it| it != 0 && beats(it));
                std::iter::once(0).chain(also).collect()
            }
            Statement::Same | Statement::Better(..) => Vec::new(),
        }
    }

    /// The difference of `one` from `other` in the judged measures besides shares, in per cent of `other`. The measures
    /// are of work if [`GoalVerdict::higher_is_better`], and otherwise of time or energy.
    pub fn change(&self, other: usize, one: usize) -> Option<Change> {
        let (costs, others) = self.costs(one, other)?;
        let (mean, margin) = paired_difference(&others, &costs)?;
        Some(change(mean, margin, self.higher_is_better))
    }

    /// Half the width of the 95 % confidence interval of the difference between the shares of `one` and `other`, in
    /// points.
    pub fn share_margin(&self, other: usize, one: usize) -> Option<f64> {
        let [one, other] = [one, other].map(|index| &self.standings[index]);
        let (shares, others) = in_both(&one.shares, &other.shares)?;
        paired_difference(&others, &shares)?.1
    }
}

/// A difference between logarithms as a change in per cent. The margin is the distance to that end of the
/// confidence interval which is closer to zero, so that the interval in per cent excludes zero exactly if that of the
/// logarithms does.
fn change(mean: f64, margin: Option<f64>, higher_is_better: bool) -> Change {
    let log = if higher_is_better { -mean } else { mean };
    let towards_zero = |margin: f64| log - margin.copysign(log);
    Change {
        mean_pct: 100.0 * log.exp_m1(),
        margin_pct: margin.map(|margin| 100.0 * (log.exp() - towards_zero(margin).exp()).abs()),
    }
}

#[cfg(test)]
mod tests;
