//! The times to record if recording all of a turn would cost too much.

use std::ops::Range;
use workload::Rng;

/// The length in ns above which a turn is recorded in several windows.
const LONGEST_STRETCH_NS: u64 = 2_000_000_000;

/// The windows of a turn, relative to its start, in ns. There is a window in each of the stretches into which the turn
/// is divided (stratified sampling), and each place at which the window fits into its stretch is equally likely.
/// Except near the ends of stretches, each moment is therefore equally likely to be in a window. Waits longer than a
/// window are missed.
pub struct Windows {
    stretch_ns: u64,
    window_ns: u64,
    number: u64,
    rng: Rng,
}

impl Windows {
    /// Windows with this `share` of the time, for a turn that takes about `turn_ns`.
    pub fn new(share: f64, turn_ns: u64, rng: Rng) -> Windows {
        let stretch_ns = (turn_ns / Windows::count(turn_ns)).max(1);
        Windows {
            stretch_ns,
            window_ns: ((stretch_ns as f64 * share) as u64).clamp(1, stretch_ns),
            number: 0,
            rng,
        }
    }

    /// The number of windows in a turn that takes `turn_ns`.
    pub fn count(turn_ns: u64) -> u64 {
        turn_ns.div_ceil(LONGEST_STRETCH_NS).max(1)
    }
}

impl Iterator for Windows {
    type Item = Range<u64>;

    /// There is always another window, because a turn may take longer than expected.
    fn next(&mut self) -> Option<Range<u64>> {
        let late = self.rng.below(self.stretch_ns - self.window_ns + 1);
        let from = self.number * self.stretch_ns + late;
        self.number += 1;
        Some(from..from + self.window_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Windows;
    use proptest::prelude::*;
    use std::ops::Range;
    use workload::Rng;

    proptest! {
        #[test]
        fn windows_have_their_share_and_do_not_overlap(share in 0.001..1.0_f64, ms in 1u64..100_000, seed: u64) {
            let turn = ms * 1_000_000;
            let windows = Windows::new(share, turn, Rng::new(seed));
            let all: Vec<Range<u64>> = windows.take_while(|it| it.end <= turn).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let covered: u64 = all.iter().map(|it| it.end - it.start).sum();
            prop_assert!((covered as f64 / turn as f64 - share).abs() < 1e-3, "{covered} of {turn}");
        }
    }

    #[test]
    fn each_moment_is_equally_likely() {
        let mut hits = [0; 10];
        for seed in 0..2000 {
            let window = Windows::new(0.1, 1_000_000, Rng::new(seed)).next().unwrap();
            hits[(window.start / 100_000) as usize] += 1;
        }
        // A window begins in each of the first nine tenths 222 times on average; the bounds are 5 standard deviations.
        assert!(
            hits[..9].iter().all(|it| (150..295).contains(it)),
            "{hits:?}"
        );
    }
}
