//! The measures of a comparison: a run's metrics, pooled over threads that do the same work, and
//! the spread between such threads.

use crate::samples::Open;
use crate::{Pooled, Run, metrics};
use machine::Machine;
use std::borrow::Cow;
use workload::{Better, Goal, Metric, Role, Unit, Workload};

/// The statistic of a run's samples by which schedulers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The mean.
    Mean,
    /// The 99th percentile, which judges latencies, because users notice the long ones.
    P99,
}

impl Judged {
    fn of(metric: &Metric) -> Judged {
        match (metric.role.goal(), metric.unit.ns()) {
            (Some(Goal::Latency), Some(_)) => Judged::P99,
            _ => Judged::Mean,
        }
    }

    /// The statistic's name: `mean` or `p99`.
    pub fn name(self) -> &'static str {
        match self {
            Judged::Mean => "mean",
            Judged::P99 => "p99",
        }
    }

    /// The value of this statistic in `pooled`.
    pub fn value(self, pooled: &Pooled) -> f64 {
        match self {
            Judged::Mean => pooled.mean,
            Judged::P99 => pooled.p99,
        }
    }
}

/// One line of a comparison: a metric, or several metrics pooled into one.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The metric; pooled metrics have the name that they share.
    pub metric: Metric,
    /// The statistic by which schedulers are compared.
    pub judged: Judged,
    /// Is this measure a part of another one, such as the measure of one of several threads that do the same work?
    pub is_part: bool,
    /// The pooled metrics, as indices into [`metrics`](crate::metrics()).
    of: Vec<usize>,
    /// Is the measure the spread of the numbers of samples, instead of the samples?
    is_spread: bool,
}

impl Measure {
    /// The measure of the metrics `of` ([`metrics`](crate::metrics())), whose common name, unit, direction
    /// and role `metric` has.
    pub fn new(metric: Metric, of: Vec<usize>, is_part: bool) -> Measure {
        Measure {
            judged: Judged::of(&metric),
            metric,
            is_part,
            of,
            is_spread: false,
        }
    }

    /// The goal that is judged by this measure, if any. A part of another measure judges none.
    pub fn decides(&self) -> Option<Goal> {
        match self.metric.role {
            Role::Decides(goal) if !self.is_part => Some(goal),
            _ => None,
        }
    }

    /// The measure's samples in `run`; `None` without a sample.
    pub fn of_run(&self, run: &Run) -> Option<Pooled> {
        self.pooled([run])
    }

    /// The measure's samples in all of `runs`, every sample with equal weight.
    pub fn pooled<'a>(&self, runs: impl IntoIterator<Item = &'a Run>) -> Option<Pooled> {
        if self.is_spread {
            let spreads: Vec<_> = runs
                .into_iter()
                .filter_map(|run| self.spread(run))
                .collect();
            return Pooled::new([&crate::Samples::new(&spreads)]);
        }
        let samples = runs
            .into_iter()
            .flat_map(|run| self.of.iter().map(|&metric| &run.samples[metric]));
        Pooled::counting(self.open(), samples)
    }

    /// The way in which the measure counts loops and responses that were open at the end of a run:
    /// a measure of throughput where lower is better counts the time for which they were at work, a
    /// latency that is judged by its 99th percentile counts their age, and other measures ignore them.
    fn open(&self) -> Open {
        let metric = &self.metric;
        match metric.role.goal() {
            Some(Goal::Throughput) if metric.better == Better::Lower => Open::Time,
            Some(Goal::Latency) if self.judged == Judged::P99 => Open::Sample,
            _ => Open::Ignored,
        }
    }

    /// Are the measure's samples the completed units of the load's work, such as loops or responses?
    pub fn counts_work(&self) -> bool {
        self.open() != Open::Ignored
    }

    /// The difference between the largest and the smallest number of samples that a thread has, in
    /// per cent of the mean.
    fn spread(&self, run: &Run) -> Option<f64> {
        let counts = self.by_thread(run);
        let (most, fewest) = (counts.iter().max()?, counts.iter().min()?);
        let sum: u64 = counts.iter().sum();
        let mean = sum as f64 / counts.len() as f64;
        (sum > 0).then(|| 100.0 * (most - fewest) as f64 / mean)
    }

    /// The smallest number of samples that a thread has in `run`; `None` if the measure is of one
    /// thread, or the threads' samples are not counted.
    pub(crate) fn fewest(&self, run: &Run) -> Option<u64> {
        match *self.by_thread(run) {
            [] | [_] => None,
            ref counts => counts.iter().copied().min(),
        }
    }

    /// The number of samples of each thread in `run`, whether the threads share the metric or have one each.
    fn by_thread<'r>(&self, run: &'r Run) -> Cow<'r, [u64]> {
        match self.of[..] {
            [metric] => Cow::Borrowed(run.samples[metric].by_thread()),
            ref several => several.iter().map(|&it| run.samples[it].n()).collect(),
        }
    }

    /// The latest release, in ns, of a missed period of `run` that counts in this measure.
    pub(crate) fn last_missed_ns(&self, run: &Run) -> Option<u64> {
        let samples = self.of.iter().filter_map(|&it| run.samples.get(it));
        samples.filter_map(|it| it.last_missed_ns).max()
    }

    /// Does the measure consist only of the metric number `index`?
    pub(crate) fn is_only(&self, index: usize) -> bool {
        self.of == [index] && !self.is_part
    }
}

/// The measures of `workload` on `machine`: its metrics in order, where the pooled metric of several threads that do
/// the same work comes before the first of their metrics. The spread between the threads of a pooled or shared metric
/// follows it, if the scheduler can influence the spread.
pub fn measures(workload: &dyn Workload, machine: &Machine) -> Vec<Measure> {
    let metrics = metrics(workload, machine);
    let mut measures: Vec<Measure> = Vec::new();
    for (index, &metric) in metrics.iter().enumerate() {
        if let Some(pool) = &metric.pool {
            let of = || {
                let others = metrics.iter().enumerate();
                others.filter(|(_, other)| other.pool.as_ref() == Some(pool))
            };
            if of().next().is_some_and(|(first, _)| first == index) {
                measures.extend(together(
                    pool,
                    metric,
                    of().map(|(index, _)| index).collect(),
                ));
            }
        }
        measures.push(Measure::new(
            metric.clone(),
            vec![index],
            metric.pool.is_some(),
        ));
        if metric.sharers > 1 {
            measures.extend(spread(&metric.name, metric, vec![index]));
        }
    }
    measures
}

/// Pools the metrics `of`, whose threads do the same work, into one measure named `pool`; adds the
/// spread between the threads if the scheduler can influence it. `first` is one of the metrics.
fn together(pool: &str, first: &Metric, of: Vec<usize>) -> Vec<Measure> {
    let all = Metric {
        name: pool.to_owned().into(),
        pool: None,
        ..first.clone()
    };
    let spread = spread(pool, first, of.clone());
    let all = Measure::new(all, of, false);
    std::iter::once(all).chain(spread).collect()
}

/// The spread between the threads that share `metric` under the name `name`, or that have the metrics `of`; `None` if
/// the scheduler cannot influence it.
fn spread(name: &str, metric: &Metric, of: Vec<usize>) -> Option<Measure> {
    let (task, _) = name.rsplit_once('/')?;
    if metric.role != Role::Decides(Goal::Throughput) {
        return None;
    }
    let spread = Metric {
        name: format!("{task}/spread").into(),
        unit: Unit::Percent,
        better: Better::Lower,
        role: Role::Decides(Goal::Fairness),
        pool: None,
        sharers: 0,
    };
    Some(Measure {
        is_spread: true,
        ..Measure::new(spread, of, false)
    })
}

/// The threads whose latencies judge the workload.
pub fn judged_threads(workload: &dyn Workload) -> Vec<String> {
    let metrics = workload.metrics();
    let latency = metrics
        .iter()
        .filter(|metric| metric.role == Role::Decides(Goal::Latency));
    // A thread's name may have slashes, as those of the kernel's workers do.
    let named = latency.filter_map(|metric| {
        metric
            .pool
            .as_ref()
            .unwrap_or(&metric.name)
            .rsplit_once('/')
    });
    let mut names: Vec<String> = named.map(|(thread, _)| thread.to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_judged_thread_may_have_a_slash() {
        let text = r#"{ "tasks": { "kworker/0:1": { "loop": 10, "run": 1000,
            "timer": { "ref": "unique", "period": 10000 } } } }"#;
        let load = workload::parse("load", "load", text, None).unwrap();
        assert_eq!(judged_threads(&*load), ["kworker/0:1"]);
    }
}
