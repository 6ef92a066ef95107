//! The kept samples of a run, and the statistics of several runs' samples.

use workload::{MetricId, Recorder};

/// The largest number of order statistics that are kept of a metric in a run.
const MAX_POINTS: usize = 1024;

/// The way in which the measures of a metric count loops and responses that were open at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Open loops and responses do not count, and neither do waits before a thread's first loop.
    Ignored,
    /// The time of an open loop, and that before a thread's first loop, is added to that of the completed loops, so that
    /// the mean is the time per completed loop.
    Time,
    /// The age of an open response is a sample.
    Sample,
}

/// One metric's samples in one run, in bounded memory. The count is exact. Mean, minimum and maximum are exact up to
/// `workload::MAX_SAMPLES` samples. The distribution is complete up to 1024 samples. With more samples, it has 1024
/// evenly spaced order statistics, so that a percentile is off by at most 0.05 % of the ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    n: u64,
    mean: f64,
    min: f64,
    max: f64,
    /// Sorted points, each of which stands for `n / points.len()` samples.
    points: Vec<f64>,
    /// The number of samples of each thread that shares the metric.
    by_thread: Box<[u64]>,
    /// The ages of the loops and responses that were open at the end of the run.
    open: Box<[f64]>,
    /// The time for which threads waited before their first loops.
    waited: f64,
    /// The latest release, in ns, of a period that was missed.
    pub(crate) last_missed_ns: Option<u64>,
}

impl Samples {
    /// Summarizes these samples, none of which may be NaN.
    pub fn new(samples: &[f64]) -> Samples {
        if samples.is_empty() {
            return Samples::default();
        }
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let (min, max) = (sorted[0], sorted[n - 1]);
        let mean = (sorted.iter().sum::<f64>() / n as f64).clamp(min, max);
        let points = if n <= MAX_POINTS {
            sorted
        } else {
            // Take the middle of each of the equal slices.
            (0..MAX_POINTS)
                .map(|slice| sorted[(2 * slice + 1) * n / (2 * MAX_POINTS)])
                .collect()
        };
        Samples {
            n: n as u64,
            mean,
            min,
            max,
            points,
            ..Samples::default()
        }
    }

    /// The samples of `metric` in a run.
    pub fn recorded(recorder: &Recorder, metric: MetricId) -> Samples {
        Samples {
            n: recorder.recorded(metric),
            by_thread: recorder.by_thread(metric).into(),
            open: recorder.open(metric).into(),
            waited: recorder.waited(metric),
            last_missed_ns: recorder.last_missed_ns(metric),
            ..Samples::new(recorder.samples(metric))
        }
    }

    /// The number of samples of each thread that shares the metric; empty if the metric is of one
    /// thread, or if the samples of threads are not counted.
    pub fn by_thread(&self) -> &[u64] {
        &self.by_thread
    }

    /// The number of samples.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The mean of the samples; `None` without a sample.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then_some(self.mean)
    }
}

/// The samples of one metric over all runs, every sample of equal weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Pooled {
    /// The number of samples, one for each completed loop or response.
    pub n: u64,
    /// The number of open loops or responses that count ([`Open`]).
    pub open: u64,
    /// The mean of the samples; under [`Open::Time`], the time per completed loop.
    pub mean: f64,
    /// The smallest sample of any run.
    pub min: f64,
    /// The largest sample of any run.
    pub max: f64,
    /// The median (by nearest rank, like the other percentiles).
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
}

impl Pooled {
    /// The statistics of the completed samples; `None` if no run has a sample.
    pub fn new<'a>(runs: impl IntoIterator<Item = &'a Samples>) -> Option<Pooled> {
        Pooled::counting(Open::Ignored, runs)
    }

    /// The statistics that include open loops and responses. `None` if no run has a sample, because work that was never
    /// completed has no number.
    pub fn counting<'a>(open: Open, runs: impl IntoIterator<Item = &'a Samples>) -> Option<Pooled> {
        let mut runs: Vec<&Samples> = runs.into_iter().collect();
        let ages: Vec<f64> = match open {
            Open::Ignored => Vec::new(),
            Open::Time | Open::Sample => runs
                .iter()
                .flat_map(|run| run.open.iter().copied())
                .collect(),
        };
        let waited: f64 = match open {
            Open::Time => runs.iter().map(|run| run.waited).sum(),
            Open::Ignored | Open::Sample => 0.0,
        };
        runs.retain(|run| run.n > 0);
        let n: u64 = runs.iter().map(|run| run.n).sum();
        if n == 0 {
            return None;
        }
        let completed: f64 = runs.iter().map(|run| run.mean * run.n as f64).sum();
        let sum = completed + ages.iter().sum::<f64>() + waited;
        let min = runs.iter().map(|run| run.min).fold(f64::INFINITY, f64::min);
        let max = runs
            .iter()
            .map(|run| run.max)
            .fold(f64::NEG_INFINITY, f64::max);
        let mut points: Vec<(f64, f64)> = runs
            .iter()
            .flat_map(|run| {
                let weight = run.n as f64 / run.points.len() as f64;
                run.points.iter().map(move |&point| (point, weight))
            })
            .collect();
        let (mut all, mut max) = (n, max);
        if open == Open::Sample {
            points.extend(ages.iter().map(|&age| (age, 1.0)));
            all += ages.len() as u64;
            max = ages.iter().copied().fold(max, f64::max);
        }
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let min = points.first().map_or(min, |&(first, _)| first.min(min));
        let mean = sum / all as f64;
        Some(Pooled {
            n,
            open: ages.len() as u64,
            // Rounding does not move the mean beyond the samples.
            mean: match open {
                Open::Time => mean,
                Open::Ignored | Open::Sample => mean.clamp(min, max),
            },
            min,
            max,
            p50: percentile(&points, all, 50.0),
            p95: percentile(&points, all, 95.0),
            p99: percentile(&points, all, 99.0),
            p999: percentile(&points, all, 99.9),
        })
    }
}

/// The percentile of `values` by nearest rank, as in [`Pooled`]; sorts `values`. `None` without a value.
pub fn nearest_rank(values: &mut [f64], percent: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let points: Vec<(f64, f64)> = values.iter().map(|&value| (value, 1.0)).collect();
    (!points.is_empty()).then(|| percentile(&points, values.len() as u64, percent))
}

/// The smallest point at which `percent` of the total weight `n` is reached.
fn percentile(points: &[(f64, f64)], n: u64, percent: f64) -> f64 {
    // Weights are quotients, so a sum that should reach the rank may be slightly below it. Subtract some slack.
    let rank = n as f64 * (percent / 100.0) * (1.0 - 1e-9);
    let mut reached = 0.0;
    for &(point, weight) in points {
        reached += weight;
        if reached >= rank {
            return point;
        }
    }
    points.last().map_or(f64::NAN, |&(point, _)| point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        let pooled = Pooled::new([&Samples::new(&hundred)]).unwrap();
        assert_eq!((pooled.p50, pooled.p95, pooled.p99), (50.0, 95.0, 99.0));
        let tenths: Vec<f64> = (1..=10_000).map(|tenth| f64::from(tenth) / 10.0).collect();
        let runs: Vec<Samples> = tenths.chunks(1000).map(Samples::new).collect();
        assert_eq!(Pooled::new(&runs).unwrap().p999, 999.0);
        assert_eq!(
            (pooled.n, pooled.mean, pooled.min, pooled.max),
            (100, 50.5, 1.0, 100.0)
        );
    }

    #[test]
    fn a_percentile_of_few_values_is_one_of_them() {
        let mut hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(nearest_rank(&mut hundred, 99.0), Some(99.0));
        assert_eq!(nearest_rank(&mut hundred, 99.9), Some(100.0));
        assert_eq!(nearest_rank(&mut [], 50.0), None);
        assert_eq!(nearest_rank(&mut [3.0], 50.0), Some(3.0));
    }

    #[test]
    fn open_ones_count_with_their_age() {
        let run = Samples {
            open: [60.0, 1000.0].into(),
            waited: 10.0,
            ..Samples::new(&[10.0, 20.0])
        };
        let of = |open| Pooled::counting(open, [&run]).unwrap();
        let numbers = |it: &Pooled| (it.n, it.open, it.mean, it.max);
        assert_eq!(numbers(&of(Open::Ignored)), (2, 0, 15.0, 20.0));
        assert_eq!(numbers(&of(Open::Time)), (2, 2, 550.0, 20.0));
        let sample = of(Open::Sample);
        assert_eq!(numbers(&sample), (2, 2, 272.5, 1000.0));
        assert_eq!((sample.p50, sample.p99), (20.0, 1000.0));
        let never = Samples {
            open: [60.0].into(),
            ..Samples::default()
        };
        assert_eq!(Pooled::counting(Open::Sample, [&never]), None);
    }

    #[test]
    fn no_samples_is_no_result() {
        assert_eq!(Pooled::new([&Samples::new(&[]), &Samples::default()]), None);
        assert_eq!(Pooled::new([]), None);
        let one = Samples::new(&[3.0]);
        let pooled = Pooled::new([&Samples::default(), &one]).unwrap();
        assert_eq!((pooled.n, pooled.p99), (1, 3.0));
    }

    proptest! {
        #[test]
        fn thinning_moves_a_percentile_by_few_ranks(
            runs in prop::collection::vec(prop::collection::vec(0.0..1e6f64, 1..5000), 1..4)
        ) {
            let kept: Vec<Samples> = runs.iter().map(|run| Samples::new(run)).collect();
            let pooled = Pooled::new(&kept).unwrap();
            let mut all = runs.concat();
            all.sort_unstable_by(f64::total_cmp);
            let n = all.len();
            prop_assert_eq!(pooled.n as usize, n);
            prop_assert_eq!((pooled.min, pooled.max), (all[0], all[n - 1]));
            for (percent, found) in [(50, pooled.p50), (95, pooled.p95), (99, pooled.p99)] {
                let rank = (n * percent).div_ceil(100);
                let found = all.partition_point(|&sample| sample < found) + 1;
                prop_assert!(found.abs_diff(rank) <= 1 + n / 512, "{found} for {rank} of {n}");
            }
        }
    }
}
