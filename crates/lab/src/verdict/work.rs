//! The work that schedulers completed, and the weight of each measure.

use crate::{Finding, Run};
use workload::{Better, Goal};

/// For each scheduler, the logarithm of the work done in each run: the completed loops, responses and amounts of
/// `rows`, each weighted by the CPU time of its threads in `runs`. `None` if there is no such measure, or if some run
/// completed no unit of a measure.
pub(super) fn work(rows: &[&Finding<'_>], runs: &[&[Run]]) -> Vec<Option<Vec<f64>>> {
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
            && row.has_samples()
    };
    let mut counted: Vec<&'r Finding<'a>> = Vec::new();
    for row in rows.iter().filter(is_work) {
        // A thread's loops are its work; if they are not judged, its responses are.
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

/// The part of the CPU time of all rows' threads that the threads of each row have, over all runs; equal parts if the
/// threads of some row have none or are unknown.
pub(super) fn weights(rows: &[&Finding<'_>], runs: &[&[Run]]) -> Vec<f64> {
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
