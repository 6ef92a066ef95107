//! Per-entity load tracking, as in Linux's kernel/sched/pelt.c: averages over the present and the
//! past, in which a period of 1024 us counts half as much 32 periods later.

use trace::Averages;

/// The length of a period in us of the clock, where a us has 1024 ns.
const PERIOD: u64 = 1024;
/// The number of periods after which half of a contribution is left.
const HALF_LIFE: f64 = 32.0;

/// The part of a contribution that is left after `periods`.
fn decay(periods: u64) -> f64 {
    (-(periods as f64) / HALF_LIFE).exp2()
}

/// The limit of the sum for a level of 1 (`LOAD_AVG_MAX`, without the kernel's rounding).
fn max() -> f64 {
    PERIOD as f64 / (1.0 - decay(1))
}

/// `struct sched_avg`: three averages with one clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    /// `last_update_time` in ns.
    pub updated: u64,
    /// The elapsed part of the current period, in us (`period_contrib`).
    begun: u64,
    sums: Levels,
}

/// The levels of load and utilization, or their averages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Levels {
    /// The weighted load: 1024 for each runnable task of nice 0.
    pub load: f64,
    /// The runnable level: 1024 for each runnable task.
    pub runnable: f64,
    /// The utilization, which approaches 1024 while a task runs.
    pub util: f64,
}

impl Levels {
    fn map(self, with: Levels, f: impl Fn(f64, f64) -> f64) -> Levels {
        Levels {
            load: f(self.load, with.load),
            runnable: f(self.runnable, with.runnable),
            util: f(self.util, with.util),
        }
    }
}

impl Average {
    /// Updates the averages to `clock` (in ns), given the `levels` since the last update.
    pub fn update(&mut self, clock: u64, levels: Levels) {
        let delta = clock.saturating_sub(self.updated) >> 10;
        if delta == 0 {
            return;
        }
        self.updated += delta << 10;
        let total = self.begun + delta;
        let (periods, rest) = (total / PERIOD, total % PERIOD);
        let (left, time) = match periods {
            0 => (1.0, delta as f64),
            _ => {
                let first = (PERIOD - self.begun) as f64 * decay(periods);
                // The contribution of the full periods between the first and the current one.
                let full = max() * (1.0 - decay(periods)) - PERIOD as f64;
                (decay(periods), first + full + rest as f64)
            }
        };
        self.begun = rest;
        self.sums = self
            .sums
            .map(levels, |sum, level| sum * left + level * time);
    }

    fn divider(&self) -> f64 {
        max() - (PERIOD - self.begun) as f64
    }

    /// The averages at the last update.
    pub fn levels(&self) -> Levels {
        let divider = self.divider();
        self.sums.map(self.sums, |sum, _| sum / divider)
    }

    /// The averages at the last update, as a trace has them.
    pub fn averages(&self) -> Averages {
        let Levels {
            load,
            runnable,
            util,
        } = self.levels();
        Averages {
            load,
            runnable,
            util,
            updated: self.updated,
        }
    }

    /// The averages of a task that joins a runqueue with `levels`. The averages decay at the same times as the
    /// runqueue's average `to`.
    pub fn attach(to: &Average, levels: Levels) -> Average {
        let mut average = Average {
            sums: Levels::default(),
            ..*to
        };
        average.add(levels);
        average
    }

    /// Adds the averages `levels` of a task that joins the runqueue.
    pub fn add(&mut self, levels: Levels) {
        let divider = self.divider();
        self.sums = self.sums.map(levels, |sum, level| sum + level * divider);
    }

    /// Subtracts the averages `levels` of a task that leaves the runqueue.
    pub fn remove(&mut self, levels: Levels) {
        let divider = self.divider();
        self.sums = self
            .sums
            .map(levels, |sum, level| (sum - level * divider).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn util(util: f64) -> Levels {
        Levels {
            util,
            ..Levels::default()
        }
    }

    #[test]
    fn half_of_it_is_left_after_32_periods() {
        let mut average = Average::attach(&Average::default(), util(1024.0));
        average.update(32 << 20, util(0.0));
        assert!((average.levels().util - 512.0).abs() < 0.01);
        average.update(64 << 20, util(1024.0));
        assert!((average.levels().util - 768.0).abs() < 0.01);
    }

    #[test]
    fn an_always_running_task_stays_at_1024_and_never_exceeds_it() {
        let mut average = Average::default();
        for clock in (0..2000).map(|step| step * MS / 3) {
            average.update(clock, util(1024.0));
            assert!(average.levels().util < 1024.001);
        }
        assert!(average.levels().util > 1023.9);
    }

    #[test]
    fn it_does_not_matter_how_often_one_looks() {
        let (mut often, mut once) = (Average::default(), Average::default());
        for clock in 1..=50 {
            often.update(clock * 100 * 1024, util(1024.0));
        }
        once.update(50 * 100 * 1024, util(1024.0));
        assert!((often.levels().util - once.levels().util).abs() < 1e-9);
    }

    #[test]
    fn a_task_that_comes_and_goes_leaves_no_remainder() {
        let mut average = Average::attach(&Average::default(), util(300.0));
        average.update(5 * MS, util(1024.0));
        let before = average.levels();
        average.add(util(200.0));
        assert!((average.levels().util - before.util - 200.0).abs() < 1e-9);
        average.remove(util(200.0));
        assert!((average.levels().util - before.util).abs() < 1e-9);
    }
}
