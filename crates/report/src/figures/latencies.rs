//! The distributions of threads' wakeup latencies.

use super::round;
use crate::first_run::Thread;
use crate::number::number;
use crate::{Cell, Table, Tone};
use serde::Serialize;
use std::cmp::Reverse;

#[derive(Serialize)]
pub(super) struct LatencyData {
    pub(super) thread: String,
    /// Latencies in us, from the shortest to the longest over all policies.
    us: Vec<f64>,
    /// For each policy, the percentage of wakeups that waited at most as long as each of `us`;
    /// empty if the thread never woke up.
    percent: Vec<Vec<f64>>,
}

/// The largest number of threads with a distribution of latencies.
const MOST_LATENCIES: usize = 12;

/// The number of points of a distribution.
const CDF_POINTS: usize = 160;

/// The distributions of threads that woke up more than once: first those that are `judged`, then those that woke up
/// most often under any policy.
pub(super) fn latencies(runs: &[&[Thread]], judged: &[String]) -> Vec<LatencyData> {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for thread in runs.iter().flat_map(|threads| threads.iter()) {
        let count = thread.latencies.len();
        match names.iter_mut().find(|(name, _)| *name == thread.name) {
            Some((_, most)) => *most = count.max(*most),
            None => names.push((&thread.name, count)),
        }
    }
    names.sort_by_key(|&(name, count)| (!judged.iter().any(|it| it == name), Reverse(count)));
    names
        .iter()
        .filter(|(_, count)| *count > 1)
        .take(MOST_LATENCIES)
        .map(|(name, _)| {
            let all: Vec<&[u64]> = runs.iter().map(|threads| of(threads, name)).collect();
            let (least, most) = all.iter().fold((u64::MAX, 0), |(least, most), sorted| {
                let first = sorted.first().map_or(least, |&ns| least.min(ns));
                (first, sorted.last().map_or(most, |&ns| most.max(ns)))
            });
            // A logarithmic scale has no zero, so latencies below 100 ns count as 100 ns.
            let (low, high) = (least.max(100) as f64, most.max(200) as f64);
            let ratio = (high / low).powf(1.0 / (CDF_POINTS - 1) as f64);
            let points: Vec<f64> = (0..CDF_POINTS)
                .map(|point| low * ratio.powi(point as i32))
                .collect();
            let percent = |sorted: &&[u64]| -> Vec<f64> {
                if sorted.is_empty() {
                    return Vec::new();
                }
                let last = points.len() - 1;
                let share = |(index, &ns): (usize, &f64)| {
                    let below = match index == last {
                        true => sorted.len(),
                        false => sorted.partition_point(|&sample| sample as f64 <= ns),
                    };
                    round(100.0 * below as f64 / sorted.len() as f64, 3)
                };
                points.iter().enumerate().map(share).collect()
            };
            LatencyData {
                thread: (*name).to_owned(),
                percent: all.iter().map(percent).collect(),
                us: points.iter().map(|ns| round(ns / 1e3, 3)).collect(),
            }
        })
        .collect()
}

pub(super) fn of<'a>(threads: &'a [Thread], name: &str) -> &'a [u64] {
    let thread = threads.iter().find(|thread| thread.name == name);
    thread.map_or(&[], |thread| &thread.latencies)
}

pub(super) fn latency_table(names: &[&str], runs: &[&[Thread]], shown: &[LatencyData]) -> Table {
    let us = |sorted: &[u64], share: f64| -> Cell {
        let index = (sorted.len() as f64 * share).ceil() as usize;
        match sorted.get(index.max(1) - 1) {
            Some(&ns) => number(ns as f64 / 1e3).into(),
            None => Cell::new("-", Tone::Dim),
        }
    };
    let mut rows = Vec::new();
    for data in shown {
        for (policy, (name, threads)) in names.iter().zip(runs).enumerate() {
            let sorted = of(threads, &data.thread);
            let mut row: Vec<Cell> = vec![
                match policy {
                    0 => data.thread.as_str().into(),
                    _ => "".into(),
                },
                (*name).into(),
                sorted.len().to_string().into(),
            ];
            row.extend([0.5, 0.95, 0.99, 1.0].map(|share| us(sorted, share)));
            rows.push(row);
        }
    }
    Table {
        title: "Wakeup latencies of the first run, us".to_owned(),
        header: ["thread", "policy", "wakeups", "p50", "p95", "p99", "max"]
            .map(str::to_owned)
            .to_vec(),
        text_columns: 2,
        rows,
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_all() {
        let thread = |latencies: Vec<u64>| Thread {
            name: "ui".to_owned(),
            latencies,
            ..Thread::default()
        };
        let (one, other) = (
            [thread(vec![1_000, 1_000, 50_000, 900_000])],
            [thread(vec![])],
        );
        let found = latencies(&[&one, &other], &[]);
        assert_eq!(found.len(), 1);
        let percent = &found[0].percent[0];
        assert_eq!((percent[0], percent[CDF_POINTS - 1]), (50.0, 100.0));
        assert!(percent.is_sorted());
        assert!(found[0].percent[1].is_empty());
        assert_eq!((found[0].us[0], *found[0].us.last().unwrap()), (1.0, 900.0));
    }

    #[test]
    fn the_distribution_that_opens_is_of_a_thread_that_decides() {
        let thread = |name: &str, wakeups: usize| Thread {
            name: name.to_owned(),
            latencies: vec![1_000; wakeups],
            ..Thread::default()
        };
        let run = [thread("timer", 90), thread("ui", 5), thread("batch", 40)];
        let found = latencies(&[&run], &["ui".to_owned()]);
        let names: Vec<&str> = found.iter().map(|data| data.thread.as_str()).collect();
        assert_eq!(names, ["ui", "timer", "batch"]);
    }
}
