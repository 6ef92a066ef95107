//! A sequential test, which may be evaluated after every block, and says when a trial is decided.
//!
//! A fixed-size test that is evaluated again and again finds a difference sooner or later, even if there is none. This
//! test bets instead. If a scheduler equals the baseline, the random order of a block makes a difference `d` between
//! the two as likely as `-d`. A bet that knows `|d|` and multiplies its stake by `1 + tanh(l d)` then keeps it on
//! average, whatever `l` is chosen beforehand, so the chance that the stake ever reaches 1/alpha is at most alpha
//! (Ville's inequality). The product is the test martingale for symmetric differences of de la Peña (A General Class of
//! Exponential Inequalities for Martingales and Ratios, Annals of Probability 27, 1999), with a bounded bet; Ramdas,
//! Grünwald, Vovk and Shafer (Game-Theoretic Statistics and Safe Anytime-Valid Inference, Statistical Science 38, 2023)
//! give the theory. The stake is spread over both directions and over [`BETS`].
//!
//! The interval consists of the differences that the bets do not refute, and holds at every look.

use crate::measures::{Figure, figures};
use crate::{Outcome, Turn};

/// The chance of any false statement in a trial.
const ALPHA: f64 = 0.05;
/// The sizes of bets, relative to the standard scale of the differences, from cautious to bold.
const BETS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// The difference below which differences do not matter: 1 %, as in [`lab::Verdict`].
const WORTH: f64 = 0.01;

/// The state of the test after some blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The figure that decides, which is the first of [`figures`] that is above 0 in every turn.
    pub figure: &'static str,
    /// The state of the test for each scheduler except for the baseline.
    pub decisions: Vec<Decision>,
}

/// The state of the test for one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The scheduler's position in [`Outcome::schedulers`].
    pub scheduler: usize,
    /// The interval of the scheduler's change against the baseline, in %; not finite while the interval is unbounded.
    pub interval_pct: (f64, f64),
    /// Is the scheduler's verdict decided?
    pub is_decided: bool,
}

impl Sequence {
    /// The test on the blocks so far; `None` if no turn has a figure, or there is nothing to compare.
    pub fn of(outcome: &Outcome) -> Option<Sequence> {
        let blocks: Vec<&[Turn]> = outcome.blocks.iter().map(Vec::as_slice).collect();
        let figure: &Figure = figures().iter().find(|it| {
            let mut turns = blocks.iter().flat_map(|block| block.iter());
            !blocks.is_empty() && turns.all(|turn| (it.of)(turn).is_some_and(|it| it > 0.0))
        })?;
        let others = outcome
            .schedulers
            .len()
            .checked_sub(1)
            .filter(|&it| it > 0)?;
        let log = |turn: &Turn| (figure.of)(turn).unwrap_or(f64::NAN).ln();
        let decision = |scheduler: usize| {
            let differences = blocks
                .iter()
                .map(|block| log(&block[scheduler]) - log(&block[0]));
            let differences: Vec<f64> = differences.collect();
            let interval = interval(&differences, others as f64 / ALPHA);
            let pct = |log: f64| 100.0 * log.exp_m1();
            Decision {
                scheduler,
                interval_pct: (pct(interval.0), pct(interval.1)),
                is_decided: is_decided(interval),
            }
        };
        Some(Sequence {
            figure: figure.name,
            decisions: (1..=others).map(decision).collect(),
        })
    }

    /// Is the verdict on every scheduler decided?
    pub fn is_over(&self) -> bool {
        self.decisions.iter().all(|it| it.is_decided)
    }
}

/// Does the interval exclude a difference of 0, or have only differences that do not matter?
fn is_decided((low, high): (f64, f64)) -> bool {
    low > 0.0 || high < 0.0 || (low > -WORTH && high < WORTH)
}

/// The stake, which is 1 at first, after bets against a shift of the `differences`.
fn stake(differences: &[f64], shift: f64) -> f64 {
    let mut squares = 0.0;
    // For each bet, the stakes on a positive and on a negative difference.
    let mut stakes = [[1.0f64; 2]; BETS.len()];
    for (index, difference) in differences.iter().enumerate() {
        let d = difference - shift;
        squares += d * d;
        let scale = (squares / (index + 1) as f64).sqrt();
        if scale == 0.0 {
            continue;
        }
        for (bet, [up, down]) in BETS.iter().zip(&mut stakes) {
            let part = (bet * d / scale).tanh();
            *up *= 1.0 + part;
            *down *= 1.0 - part;
        }
    }
    stakes.iter().flatten().sum::<f64>() / (2 * BETS.len()) as f64
}

/// The shifts that are not refuted at a stake of `refuted`, from the lowest to the highest.
fn interval(differences: &[f64], refuted: f64) -> (f64, f64) {
    let n = differences.len().max(1) as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|it| (it - mean).powi(2)).sum();
    let scale = (squares / n).sqrt().max(f64::EPSILON);
    let bound = |sign: f64| {
        let at = |distance: f64| mean + sign * distance;
        let is_refuted = |distance: f64| stake(differences, at(distance)) >= refuted;
        // Search from far away towards the mean, in steps of a tenth.
        let mut far = 1000.0 * scale;
        if !is_refuted(far) {
            return sign * f64::INFINITY;
        }
        let mut near = far / 1.1;
        while is_refuted(near) && near > scale / 1000.0 {
            (far, near) = (near, near / 1.1);
        }
        for _ in 0..20 {
            let middle = (near + far) / 2.0;
            match is_refuted(middle) {
                true => far = middle,
                false => near = middle,
            }
        }
        at(far)
    };
    (bound(-1.0), bound(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Rng;

    const TRIALS: u64 = 2000;
    const BLOCKS: usize = 60;

    /// Noise that is symmetric and heavy-tailed: one value in ten is ten times as large.
    fn noise(rng: &mut Rng) -> f64 {
        let wide = if rng.below(10) == 0 { 10.0 } else { 1.0 };
        let sum: f64 = (0..4).map(|_| rng.unit() - 0.5).sum();
        wide * sum * 0.02
    }

    /// The block at which the difference of 0 is refuted first.
    fn refuted(differences: &[f64]) -> Option<usize> {
        (1..=differences.len()).find(|&n| stake(&differences[..n], 0.0) >= 1.0 / ALPHA)
    }

    /// Of 2000 trials of equal schedulers, evaluated after each block, at most 5 % may end with a difference. This is
    /// 100 trials, and at most 139 with a chance of 0.9999.
    #[test]
    fn equal_schedulers_are_seldom_told_apart() {
        let mut rng = Rng::new(7);
        let mut alarms = 0;
        for _ in 0..TRIALS {
            let differences: Vec<f64> = (0..BLOCKS).map(|_| noise(&mut rng)).collect();
            alarms += u64::from(refuted(&differences).is_some());
        }
        assert!(alarms <= 139, "{alarms}");
        // The test also uses its margin: it raises some false alarms.
        assert!(alarms >= 10, "{alarms}");
    }

    /// A fixed-size interval that is evaluated as often finds differences that do not exist, which is the reason for
    /// the sequential test.
    #[test]
    fn repeated_looks_at_students_interval_find_what_is_not_there() {
        let mut rng = Rng::new(7);
        let mut alarms = 0;
        for _ in 0..TRIALS / 4 {
            let differences: Vec<f64> = (0..BLOCKS).map(|_| noise(&mut rng)).collect();
            let is_alarm = |n: usize| {
                let interval = lab::mean_interval(&differences[..n]);
                interval.is_some_and(|(mean, margin)| margin.is_some_and(|it| mean.abs() > it))
            };
            alarms += u64::from((5..=BLOCKS).any(is_alarm));
        }
        assert!(alarms > TRIALS / 4 / 10, "{alarms}");
    }

    #[test]
    fn a_large_difference_is_found_soon() {
        let mut rng = Rng::new(7);
        let mut found = Vec::new();
        for _ in 0..200 {
            let noisy = |_| 0.1 + 0.03 * (rng.unit() - 0.5);
            let differences: Vec<f64> = (0..BLOCKS).map(noisy).collect();
            found.push(refuted(&differences).unwrap_or(BLOCKS));
        }
        found.sort_unstable();
        // If all differences are equal, the stake is 16 after 6 blocks and 31 after 7, and must reach 20.
        assert!(found[0] >= 7 && found[190] <= 10, "{found:?}");
    }

    #[test]
    fn the_interval_has_the_mean_and_excludes_what_is_refuted() {
        let differences: Vec<f64> = (0..30).map(|it| 0.05 + 0.001 * f64::from(it % 5)).collect();
        let (low, high) = interval(&differences, 1.0 / ALPHA);
        assert!(
            low > 0.04 && low < 0.052 && high > 0.052 && high < 0.064,
            "{low} {high}"
        );
        assert!(is_decided((low, high)));
        let few = interval(&differences[..3], 1.0 / ALPHA);
        assert_eq!(few, (f64::NEG_INFINITY, f64::INFINITY));
        let equal: Vec<f64> = (0..30).map(|it| 0.001 * f64::from(it % 5 - 2)).collect();
        let interval = interval(&equal, 1.0 / ALPHA);
        assert!(
            interval.0 < 0.0 && interval.1 > 0.0 && is_decided(interval),
            "{interval:?}"
        );
    }
}
