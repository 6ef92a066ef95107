//! The cpuidle governor menu, as in Linux 3.10 (drivers/cpuidle/governors/menu.c): the governor predicts the time for
//! which a CPU will idle, and chooses the deepest state that pays off within that time.
//!
//! The prediction is the time until the next timer, multiplied by the average ratio so far of the idle time to the time
//! until the timer; a new idle period has a weight of an eighth in the average. The next timer of an idle CPU is far
//! away and the time until then hardly changes, so here the prediction is such an average of the idle times alone. The
//! kernel keeps a separate average for each order of magnitude of the time until the timer; here there is one average.

use machine::IdleState;

/// One CPU's governor.
#[derive(Clone, Debug)]
pub struct Menu {
    /// The average idle time, in ns.
    average_ns: u64,
    /// The last idle times, in ns, and the number of all idle periods so far.
    last: [u64; INTERVALS],
    count: usize,
    /// The exit latency of the chosen state, in ns.
    exit_ns: u64,
    /// Whether the CPU is in the chosen state.
    entered: bool,
    /// The number of runnable tasks at the last tick: `cpu_load[0]`.
    runnable: u32,
}

const INTERVALS: usize = 8;
/// The weight of a new idle time is 1 / `DECAY`.
const DECAY: u64 = 8;
/// Longer idle times count as this time, in ns (`MAX_INTERESTING`).
const MOST_NS: u64 = 50_000_000;
/// The square root of `STDDEV_THRESH`. If the standard deviation of the last idle times is lower, their mean is
/// the prediction.
const REPEATS_NS: u64 = 20_000;
/// The weight of a runnable task in the multiplier of the exit latencies: a load of 1024 is 0.5 in fixed point, which
/// `get_loadavg()` turns into 5, and the multiplier adds twice that value.
const LOAD: u64 = 10;

impl Default for Menu {
    fn default() -> Menu {
        Menu {
            average_ns: MOST_NS,
            last: [0; INTERVALS],
            count: 0,
            exit_ns: 0,
            entered: false,
            runnable: 0,
        }
    }
}

impl Menu {
    /// Chooses a state of `states` for a CPU that idles from now on.
    pub fn choose(&mut self, states: &[IdleState]) {
        let predicted = self.repeated().unwrap_or(self.average_ns);
        let multiplier = 1 + LOAD * u64::from(self.runnable);
        let pays = |state: &&IdleState| {
            state.min_residency_ns <= predicted && state.exit_latency_ns * multiplier <= predicted
        };
        // Choose at least the shallowest state, instead of polling.
        let deepest = states.iter().rfind(pays).or(states.first());
        self.exit_ns = deepest.map_or(0, |state| state.exit_latency_ns);
        self.entered = true;
    }

    /// The mean of the last idle times, if they are about the same.
    fn repeated(&self) -> Option<u64> {
        if self.count < INTERVALS {
            return None;
        }
        let count = INTERVALS as u64;
        let mean = self.last.iter().sum::<u64>() / count;
        let squares = self.last.iter().map(|ns| ns.abs_diff(mean).pow(2));
        let repeats = squares.sum::<u64>() / count < REPEATS_NS * REPEATS_NS;
        (mean > 0 && repeats).then_some(mean)
    }

    /// Records an idle time of the CPU, which gets a task: if it idled, it did so from `since` until `now`.
    pub fn idled(&mut self, since: u64, now: u64, tick_ns: u64) {
        if !std::mem::take(&mut self.entered) {
            return;
        }
        let slept = now.saturating_sub(since);
        let ns = slept.saturating_sub(self.exit_ns).min(MOST_NS);
        self.average_ns = self.average_ns - self.average_ns / DECAY + ns / DECAY;
        self.last[self.count % INTERVALS] = ns;
        self.count += 1;
        if since / tick_ns < now / tick_ns {
            self.runnable = 0;
        }
    }

    /// Records the number of runnable tasks at a tick.
    pub fn tick(&mut self, runnable: u32) {
        self.runnable = runnable;
    }

    /// The exit latency of the chosen state, in ns; `None` while the CPU is busy.
    pub fn exit_ns(&self) -> Option<u64> {
        self.entered.then_some(self.exit_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C1, C3 and C6.
    fn states() -> Vec<IdleState> {
        let state = |min_us: u64, exit_us: u64| IdleState {
            min_residency_ns: min_us * 1000,
            exit_latency_ns: exit_us * 1000,
            ..IdleState::default()
        };
        vec![state(6, 3), state(80, 20), state(800, 200)]
    }

    /// The exit latency after idle periods of these lengths, in us.
    fn after(lengths: &[u64], runnable: u32) -> u64 {
        let mut menu = Menu::default();
        for us in lengths.iter().cycle().take(lengths.len() * 40) {
            menu.choose(&states());
            menu.idled(0, us * 1000 + menu.exit_ns, 4_000_000);
        }
        menu.tick(runnable);
        menu.choose(&states());
        menu.exit_ns / 1000
    }

    #[test]
    fn a_cpu_that_idled_long_before_goes_deep() {
        assert_eq!(after(&[10], 0), 3);
        assert_eq!(after(&[100], 0), 20);
        assert_eq!(after(&[2000], 0), 200);
    }

    #[test]
    fn lengths_that_differ_are_averaged_the_last_most() {
        assert_eq!(after(&[10, 10, 10, 300], 0), 20);
        assert_eq!(after(&[300, 10, 10, 10], 0), 3);
    }

    #[test]
    fn a_loaded_cpu_needs_eleven_exit_latencies() {
        assert_eq!(after(&[210], 1), 3);
        assert_eq!(after(&[230], 1), 20);
    }
}
