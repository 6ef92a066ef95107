//! Decides whether a difference between two schedulers is significant.

use puruspe::invbetai;
use std::cell::RefCell;
use std::collections::HashMap;

/// The two-sided confidence of [`Change::margin_pct`].
const CONFIDENCE: f64 = 0.95;

/// The smallest ratio of the distance of two modes to the width of each.
const MODES_APART: f64 = 3.0;
/// The smallest number of runs of a mode.
const LEAST_OF_MODE: usize = 3;
/// The smallest ratio of the values of the larger mode to those of the smaller mode. With a smaller ratio, the
/// mean of all runs is not misleading.
const MODES_RATIO: f64 = 1.5;

/// A scheduler's change of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The change of the mean against the baseline, in per cent of the baseline.
    pub mean_pct: f64,
    /// Half the width of the change's 95 % confidence interval, in per cent of the baseline; `None`
    /// for a single run, which does not show the noise.
    pub margin_pct: Option<f64>,
}

impl Change {
    /// Does the confidence interval exclude zero?
    pub fn is_significant(&self) -> bool {
        self.margin_pct
            .is_some_and(|margin| self.mean_pct.abs() > margin)
    }
}

/// The difference between `other` and `baseline`, whose i-th entries have the same seed: the mean of the paired
/// differences and half the width of its 95 % confidence interval (Student's), which a single pair does not have.
/// `None` if there are no runs, or if the numbers of runs differ.
pub(crate) fn paired_difference(baseline: &[f64], other: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = baseline.len();
    if n != other.len() {
        return None;
    }
    let differences: Vec<f64> = baseline.iter().zip(other).map(|(a, b)| b - a).collect();
    let mean = mean(&differences)?;
    let margin = (n > 1).then(|| standard_error(&differences, mean) * t_quantile(n - 1));
    Some((mean, margin))
}

/// The mean of `runs`, and half the width of its 95 % confidence interval (Student's), which a single
/// run does not have. `None` if there are no runs.
pub fn mean_interval(runs: &[f64]) -> Option<(f64, Option<f64>)> {
    paired_difference(&vec![0.0; runs.len()], runs)
}

/// The quantile of the normal distribution for a probability of 80 %.
const POWER: f64 = 0.841_621;

/// The number of pairs with which a difference of `least` is significant with a probability of 80 %, if pairs vary as
/// much as these `differences`. `None` if there are fewer than two differences.
pub fn pairs_for(differences: &[f64], least: f64) -> Option<usize> {
    let n = differences.len();
    let mean = mean(differences).filter(|_| n > 1)?;
    let deviation = standard_error(differences, mean) * (n as f64).sqrt();
    let suffices =
        |n: &usize| (t_quantile(n - 1) + POWER) * deviation <= least.abs() * (*n as f64).sqrt();
    // The search begins below the result of the normal approximation, which is smaller than the result of Student's
    // distribution.
    let normal = ((1.96 + POWER) * deviation / least).powi(2) as usize;
    (normal.max(2)..).find(suffices)
}

/// The mean and the number of runs of each of the two modes of `runs`, if there are two, smaller mode first. All runs
/// of a mode are much closer to each other than to any run of the other mode. Each mode has at least [`LEAST_OF_MODE`]
/// runs and at least a quarter of all runs, because a few outliers are noise.
pub fn modes(runs: &[f64]) -> Option<[(f64, usize); 2]> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let gap = |at: &usize| sorted[*at] - sorted[at - 1];
    let split = (1..n).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let (low, high) = sorted.split_at(split);
    let spread = |of: &[f64]| of.last().zip(of.first()).map(|(last, first)| last - first);
    let widest = spread(low)?.max(spread(high)?);
    let few = low.len().min(high.len());
    let are_apart = gap(&split) > MODES_APART * widest && high[0] > low[0] * MODES_RATIO;
    let both = [(mean(low)?, low.len()), (mean(high)?, high.len())];
    (few >= LEAST_OF_MODE && 4 * few >= n && are_apart).then_some(both)
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The change from `baseline` to `other`, whose i-th entries are the means of runs with the same seed. The interval is
/// Student's for the mean of the paired differences. `None` if there are no runs, the baseline is 0, or the numbers of
/// runs differ.
pub fn paired_change(baseline: &[f64], other: &[f64]) -> Option<Change> {
    let (difference, margin) = paired_difference(baseline, other)?;
    let per_cent = 100.0 / mean(baseline)?.abs();
    per_cent.is_finite().then(|| Change {
        mean_pct: difference * per_cent,
        margin_pct: margin.map(|margin| margin * per_cent),
    })
}

fn standard_error(values: &[f64], mean: f64) -> f64 {
    let n = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0) / n).sqrt()
}

/// The quantile of Student's distribution; its few values are computed once, because a verdict needs them
/// for each pair of policies.
fn t_quantile(degrees_of_freedom: usize) -> f64 {
    thread_local! {
        static KNOWN: RefCell<HashMap<usize, f64>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        let computed = known.entry(degrees_of_freedom);
        *computed.or_insert_with(|| compute_t_quantile(degrees_of_freedom))
    })
}

fn compute_t_quantile(degrees_of_freedom: usize) -> f64 {
    // P(|T| > t) is the incomplete beta function I_x(n/2, 1/2) at x = n / (n + t²).
    let n = degrees_of_freedom as f64;
    let x = invbetai(1.0 - CONFIDENCE, n / 2.0, 0.5);
    (n * (1.0 - x) / x).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paired_interval_as_in_the_textbook() {
        // Differences 1, 2, 3, 4: mean 2.5, standard error 0.6455, t(3) = 3.1824.
        let change = paired_change(&[10.0; 4], &[11.0, 12.0, 13.0, 14.0]).unwrap();
        assert!((change.mean_pct - 25.0).abs() < 1e-9);
        assert!(
            (change.margin_pct.unwrap() - 20.543).abs() < 1e-2,
            "{change:?}"
        );
        assert!(change.is_significant());
    }

    #[test]
    fn the_interval_of_a_mean() {
        let (mean, margin) = mean_interval(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((mean - 2.5).abs() < 1e-9);
        assert!((margin.unwrap() - 2.0543).abs() < 1e-3, "{margin:?}");
        assert_eq!(mean_interval(&[7.0]), Some((7.0, None)));
        assert_eq!(mean_interval(&[]), None);
    }

    /// In a simulation with 80,000 trials of normal differences, 10 pairs find a difference of one standard deviation
    /// with a chance of 80.3 %, and 9 pairs with 75.1 %.
    #[test]
    fn as_many_pairs_as_find_the_difference() {
        let differences = [-1.0, 1.0].repeat(50);
        let deviation = (100.0f64 / 99.0).sqrt();
        assert_eq!(pairs_for(&differences, deviation), Some(10));
        assert_eq!(pairs_for(&differences, 100.0 * deviation), Some(2));
        assert_eq!(pairs_for(&[1.0], 1.0), None);
        assert_eq!(pairs_for(&[1.0, 1.0], 0.1), Some(2));
    }

    #[test]
    fn runs_of_two_kinds_have_two_modes() {
        let bistable = [10.0, 31.0, 10.1, 10.2, 30.0, 30.5, 10.0, 10.1];
        let modes_of = modes(&bistable).unwrap();
        assert_eq!((modes_of[0].1, modes_of[1].1), (5, 3));
        assert!((modes_of[0].0 - 10.08).abs() < 1e-9 && modes_of[1].0 == 30.5);
        let even: Vec<f64> = (10..30).map(f64::from).collect();
        assert_eq!(modes(&even), None);
        // An outlier, a small difference, or too few runs do not make two modes.
        assert_eq!(modes(&[10.0, 10.1, 10.2, 10.1, 10.0, 31.0]), None);
        assert_eq!(modes(&[10.0, 10.0, 11.0, 11.0]), None);
        assert_eq!(modes(&[10.0, 10.1, 31.0, 31.1]), None);
        assert_eq!(modes(&[]), None);
    }

    #[test]
    fn pairing_cancels_what_seeds_have_in_common() {
        let change = paired_change(&[10.0, 20.0, 30.0], &[11.0, 21.0, 31.0]).unwrap();
        assert!(change.margin_pct.unwrap() < 1e-9);
    }

    #[test]
    fn one_run_has_no_interval_and_no_baseline_no_change() {
        let change = paired_change(&[10.0], &[9.0]).unwrap();
        assert_eq!(
            change,
            Change {
                mean_pct: -10.0,
                margin_pct: None
            }
        );
        assert!(!change.is_significant());
        assert_eq!(paired_change(&[], &[]), None);
        assert_eq!(paired_change(&[0.0], &[1.0]), None);
        assert_eq!(paired_change(&[1.0], &[1.0, 2.0]), None);
    }
}
