//! The best schedulers for each goal: the only place that decides whether one is better.
//!
//! A goal is judged by the measures that decide it ([`Measure::decides`](crate::Measure::decides)), in
//! this order ([`Reason`]): threads that stalled; measures that a scheduler lacks; the shares among
//! them (periods missed, in points); the geometric mean of the others. A scheduler is better than
//! another if the 95 % confidence interval of the paired difference excludes zero and the difference
//! is large enough to matter. A scheduler is among the best for a goal if no other is better
//! ([`GoalVerdict::best`]), so that no two statements contradict each other.
//!
//! Times say nothing about work that was not done. Throughput is judged by the time for each completed
//! unit of work, which includes the time of open units; energy is judged for the same work. If a
//! scheduler completed a tenth less, its periods that never came count as missed, and latencies are
//! compared per response.

use crate::stats::{mean, paired_difference};
use crate::{Change, Entry, Finding, Run};
use workload::{Better, Goal};

/// The smallest difference that matters between two values: 1 %.
const WORTH_LOG: f64 = 0.01;
/// The smallest difference that matters between two shares of missed periods, in points.
const WORTH_MISSED: f64 = 0.1;
/// The smallest difference that matters between two spreads of equal threads, in points.
const WORTH_SPREAD: f64 = 1.0;
/// The smallest difference between the numbers of responses that makes latencies incomparable: 10 %.
/// Below it, threads whose speed depends on the scheduler make a few more responses or a few less.
const WORTH_WORK: f64 = 0.1;
/// The smallest difference that matters between the numbers of stalled threads.
const WORTH_STALLED: f64 = 0.5;
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
    /// The schedulers that beat no other and are beaten, worst first; empty like `best`.
    pub worst: Vec<usize>,
    /// The names of the measures by which it is judged.
    pub measures: Vec<String>,
}

/// A scheduler's result for a goal. Each list has a number for each run; less is better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The number of threads that stalled.
    stalled: Vec<f64>,
    /// The mean of the shares that decide (periods missed, or the spread between equal threads), in
    /// per cent.
    pub share_pct: Option<f64>,
    /// For each run, `share_pct`.
    shares: Option<Vec<f64>>,
    /// The mean of the logarithms of the other measures that decide.
    costs: Option<Vec<f64>>,
    /// For latency and energy, the logarithm of the work that was done.
    work: Option<Vec<f64>>,
    /// The number of responses of a run, for latency.
    pub responses: Option<f64>,
    /// A measure without a sample in some run, because a thread never got that far, although
    /// another scheduler has samples in every run.
    pub lacks: Option<String>,
}

/// Why a scheduler is better than another for a goal.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Fewer threads stalled.
    Stalled,
    /// The other scheduler lacks this measure.
    Lacks(String),
    /// A smaller share of periods missed, or a smaller spread, in per cent: its own and the other's.
    Share {
        /// Its own.
        own: f64,
        /// The other's.
        other: f64,
        /// Do the periods that never came under one of the two count?
        counts_absent: bool,
    },
    /// The change of the geometric mean of the other measures against the other scheduler, and the
    /// change of the work, if that was judged.
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
    /// These are best, and better than the baseline, the first of them for this reason.
    Best(Vec<usize>, Reason),
    /// No scheduler is better than the baseline. These are worst, and worse than the baseline, which is
    /// better than the first of them for this reason.
    Baseline(Option<(Vec<usize>, Reason)>),
    /// This scheduler is better than the baseline for this reason, and another scheduler is better than
    /// this one.
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

    /// Do at least two goals tell schedulers apart?
    pub fn is_of_several_goals(&self) -> bool {
        self.goals.iter().filter(|it| it.tells_apart()).count() > 1
    }
}

impl GoalVerdict {
    fn new(goal: Goal, all: &[Finding<'_>], runs: &[&[Run]]) -> Option<GoalVerdict> {
        let decides = |row: &&Finding<'_>| {
            row.measure.decides() == Some(goal)
                && row.entries.iter().any(|entry| entry.judged().is_some())
        };
        let rows: Vec<&Finding<'_>> = all.iter().filter(decides).collect();
        let schedulers = rows.first()?.entries.len();
        let work = match goal {
            Goal::Latency => work(&rows, &[]),
            Goal::Energy => work(&all.iter().collect::<Vec<_>>(), runs),
            Goal::Throughput | Goal::Fairness => vec![None; schedulers],
        };
        let standings: Vec<Standing> = work
            .into_iter()
            .enumerate()
            .map(|(scheduler, work)| Standing {
                stalled: stalled(runs.get(scheduler).copied().unwrap_or_default()),
                work,
                ..Standing::new(goal, &rows, scheduler)
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

    /// Why scheduler `one` is better than `other`; `None` if it is not.
    pub fn reason(&self, one: usize, other: usize) -> Option<Reason> {
        let (own, others) = (&self.standings[one], &self.standings[other]);
        if is_less(&own.stalled, &others.stalled, WORTH_STALLED) {
            return Some(Reason::Stalled);
        }
        if is_less(&others.stalled, &own.stalled, WORTH_STALLED) {
            return None;
        }
        match (&own.lacks, &others.lacks) {
            (None, Some(lacks)) => return Some(Reason::Lacks(lacks.clone())),
            (Some(_), _) => return None,
            (None, None) => {}
        }
        let counts_absent = self.goal == Goal::Latency && differs(own, others);
        if let (Some(a), Some(b)) = (&own.shares, &others.shares) {
            let (a, b) = match counts_absent {
                true => with_absent(own, others),
                false => (a.clone(), b.clone()),
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

    /// Are the costs of these two judged for the same work?
    fn is_by_work(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|index| &self.standings[index]);
        match self.goal {
            Goal::Energy => one.work.is_some() && other.work.is_some(),
            _ => differs(one, other),
        }
    }

    /// The costs of both, for the same work.
    fn costs(&self, one: usize, other: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let by_work = self.is_by_work(one, other);
        let of = |index: usize| {
            let standing = &self.standings[index];
            let costs = standing.costs.clone()?;
            let work = standing.work.as_ref().filter(|_| by_work);
            Some(match work {
                Some(work) => costs
                    .iter()
                    .zip(work)
                    .map(|(cost, work)| cost - work)
                    .collect(),
                None => costs,
            })
        };
        Some((of(one)?, of(other)?))
    }

    /// How much more work `one` did than `other`, in per cent; for latency, how many more responses.
    /// `None` if that is not judged.
    pub fn work_pct(&self, one: usize, other: usize) -> Option<f64> {
        let work = |index: usize| mean(self.standings[index].work.as_ref()?);
        Some(100.0 * (work(one)? - work(other)?).exp_m1())
    }

    /// Is any scheduler better than another?
    pub fn tells_apart(&self) -> bool {
        let all = 0..self.standings.len();
        all.clone()
            .any(|one| all.clone().any(|other| self.is_better(one, other)))
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
        // Each scheduler is beaten by another: by one in its shares, by another in its times.
        let mut better: Vec<usize> = all.filter(|&one| self.is_better(one, 0)).collect();
        better.sort_by(|&a, &b| self.standings[a].order(&self.standings[b]));
        let first = better[0];
        because(first, 0).map_or(Statement::Same, |reason| Statement::Better(first, reason))
    }

    /// The schedulers that the statement calls best. If the statement says that no scheduler is better than the
    /// baseline, these are the baseline, and every scheduler that beats the worst and is beaten by none.
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

    /// The difference of `one` from `other` in the judged measures besides shares, in per cent of
    /// `other`: in time, energy or work, by [`GoalVerdict::higher_is_better`].
    pub fn change(&self, other: usize, one: usize) -> Option<Change> {
        let (costs, others) = self.costs(one, other)?;
        let (mean, margin) = paired_difference(&others, &costs)?;
        Some(change(mean, margin, self.higher_is_better))
    }
}

/// A difference between logarithms as a change in per cent. The margin is the distance to the end of the
/// confidence interval that is closer to zero, so that both exclude zero, or neither does.
fn change(mean: f64, margin: Option<f64>, higher_is_better: bool) -> Change {
    let log = if higher_is_better { -mean } else { mean };
    let towards_zero = |margin: f64| log - margin.copysign(log);
    Change {
        mean_pct: 100.0 * log.exp_m1(),
        margin_pct: margin.map(|margin| 100.0 * (log.exp() - towards_zero(margin).exp()).abs()),
    }
}

impl Standing {
    fn new(goal: Goal, rows: &[&Finding<'_>], scheduler: usize) -> Standing {
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

    /// Orders schedulers that are equally good: by their means.
    fn order(&self, other: &Standing) -> std::cmp::Ordering {
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

/// Run by run, the number of threads that stalled.
fn stalled(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.stalled.len() as f64).collect()
}

/// Did one of the two give so many fewer responses that the times are not for the same work?
fn differs(one: &Standing, other: &Standing) -> bool {
    let pair = one.work.as_ref().zip(other.work.as_ref());
    pair.is_some_and(|(one, other)| {
        is_less(one, other, WORTH_WORK) || is_less(other, one, WORTH_WORK)
    })
}

/// The shares of both schedulers, in which periods that came only under the other scheduler count
/// as missed.
fn with_absent(one: &Standing, other: &Standing) -> (Vec<f64>, Vec<f64>) {
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

/// For each scheduler, run by run, the logarithm of the work that it did: of completed loops, responses
/// and the amounts of `rows`, each weighted by the CPU time of its threads in `runs`. `None` without such
/// a measure, or if some run completed none of one.
fn work(rows: &[&Finding<'_>], runs: &[&[Run]]) -> Vec<Option<Vec<f64>>> {
    let counted = counted(rows);
    let weights = weights(&counted, runs);
    let schedulers = rows.first().map_or(0, |row| row.entries.len());
    let of = |scheduler: usize| {
        let logs: Vec<Vec<f64>> = counted
            .iter()
            .map(|row| row.entries[scheduler].work())
            .collect::<Option<_>>()?;
        let nr = logs.first()?.len();
        let sum = |run: usize| {
            weights
                .iter()
                .zip(&logs)
                .map(|(weight, log)| weight * log[run])
                .sum()
        };
        let sums: Vec<f64> = (0..nr).map(sum).collect();
        sums.iter().all(|sum| sum.is_finite()).then_some(sums)
    };
    (0..schedulers).map(of).collect()
}

/// The `rows` by which the work done is judged.
pub fn counted_work<'r, 'a>(rows: &'r [Finding<'a>]) -> Vec<&'r Finding<'a>> {
    counted(&rows.iter().collect::<Vec<_>>())
}

fn counted<'r, 'a>(rows: &[&'r Finding<'a>]) -> Vec<&'r Finding<'a>> {
    let is_work = |row: &&&Finding<'_>| {
        matches!(
            row.measure.decides(),
            Some(Goal::Throughput | Goal::Latency)
        ) && (row.measure.counts_work() || row.measure.metric.better == Better::Higher)
            && row.entries.iter().any(|entry| entry.judged().is_some())
    };
    let mut counted: Vec<&'r Finding<'a>> = Vec::new();
    for row in rows.iter().filter(is_work) {
        // The loops of a thread are its work; where they are not judged, its responses are.
        let task = |row: &Finding<'_>| task(row).map(str::to_owned);
        let known = |it: &&Finding<'_>| task(it).is_some() && task(it) == task(row);
        if !counted.iter().any(known) {
            counted.push(row);
        }
    }
    counted
}

/// The name of the task or the tasks that a measure is about.
fn task<'a>(row: &Finding<'a>) -> Option<&'a str> {
    row.measure
        .metric
        .name
        .rsplit_once('/')
        .map(|(task, _)| task)
}

/// The part of all CPU time that the threads of each row have, over all runs; without threads of these
/// names, equal parts.
fn weights(rows: &[&Finding<'_>], runs: &[&[Run]]) -> Vec<f64> {
    let is_of = |name: &str, task: &str| {
        let rest = name.strip_prefix(task);
        rest.is_some_and(|rest| {
            let number = rest.strip_prefix('-').unwrap_or(rest);
            number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let cpu_time = |row: &&Finding<'_>| -> f64 {
        let Some(task) = task(row) else { return 0.0 };
        let threads = runs
            .iter()
            .flat_map(|runs| runs.iter())
            .flat_map(|run| &run.threads);
        let own = threads.filter(|threads| is_of(&threads.name, task));
        own.map(|threads| threads.cpu_ns as f64).sum()
    };
    let times: Vec<f64> = rows.iter().map(cpu_time).collect();
    let all: f64 = times.iter().sum();
    match times.contains(&0.0) {
        true => vec![1.0 / rows.len() as f64; rows.len()],
        false => times.iter().map(|time| time / all).collect(),
    }
}

/// The verdict on one measure under one scheduler against another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// `better`, `worse` or `same`.
    pub verdict: &'static str,
    /// How much worse it is: in points for a share, else in per cent.
    pub worse: f64,
    /// The distance from there to the end of the 95 % confidence interval that is closer to 0.
    pub margin: Option<f64>,
}

/// Is `one` less than `other`, significantly and by at least `worth`?
fn is_less(one: &[f64], other: &[f64], worth: f64) -> bool {
    let Some((difference, Some(margin))) = paired_difference(one, other) else {
        return false;
    };
    difference >= worth && difference > margin
}

/// The `entries` of one measure that no other beats and that beat another.
pub(crate) fn best_of(entries: &[Entry<'_>]) -> Vec<usize> {
    let any = |test: &dyn Fn(&Entry<'_>) -> bool| entries.iter().any(test);
    let is_best = |&index: &usize| {
        let own = &entries[index];
        !any(&|other| other.is_better(own)) && any(&|other| own.is_better(other))
    };
    (0..entries.len()).filter(is_best).collect()
}

impl Entry<'_> {
    /// Is this entry better than `other`, an entry of the same measure, significantly and by enough
    /// to matter?
    pub fn is_better(&self, other: &Entry<'_>) -> bool {
        self.measure.metric.better != Better::Neither
            && self
                .costs()
                .zip(other.costs())
                .is_some_and(|(own, others)| is_less(&own, &others, self.worth()))
    }

    /// Run by run, what [`Entry::is_better`] compares: less is better.
    fn costs(&self) -> Option<Vec<f64>> {
        match is_share(self) {
            true => self.judged(),
            false => mean_by_run(&[self], cost),
        }
    }

    fn worth(&self) -> f64 {
        match (is_share(self), self.measure.metric.role.goal()) {
            (false, _) => WORTH_LOG,
            (true, Some(Goal::Latency)) => WORTH_MISSED,
            (true, _) => WORTH_SPREAD,
        }
    }

    /// Its difference from `other` as [`Entry::is_better`] judges it: in points for a share, else in per cent.
    pub fn difference(&self, other: &Entry<'_>) -> Option<Change> {
        let (mean, margin) = paired_difference(&other.costs()?, &self.costs()?)?;
        Some(match is_share(self) {
            true => Change {
                mean_pct: mean,
                margin_pct: margin,
            },
            false => change(mean, margin, self.measure.metric.better == Better::Higher),
        })
    }

    /// Its verdict against `other`, an entry of the same measure. `None` if a run of one of them has no value.
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

    /// Is its difference in points?
    pub fn is_share(&self) -> bool {
        is_share(self)
    }

    /// The number of completed units of work of a run, on average.
    pub fn completed(&self) -> Option<f64> {
        let n = |run: &Option<crate::Pooled>| run.as_ref().map_or(0.0, |run| run.n as f64);
        mean(&self.runs.iter().map(n).collect::<Vec<f64>>())
    }

    /// Run by run, the logarithm of the completed work.
    fn work(&self) -> Option<Vec<f64>> {
        match self.measure.metric.better {
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
mod tests;
