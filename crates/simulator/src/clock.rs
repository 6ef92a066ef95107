//! The tick's clock, which limits the time of softirqs.

/// A time in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Jiffies {
    now: u64,
    tick_ns: u64,
}

impl Jiffies {
    /// Converts `now`, in ns, to ticks, which are `tick_ns` apart; the first tick is at `phase`.
    pub fn at(now: u64, tick_ns: u64, phase: u64) -> Jiffies {
        Jiffies {
            now: (now + tick_ns - phase) / tick_ns,
            tick_ns,
        }
    }

    /// The tick that comes `ns`, rounded up to whole ticks, after the last tick (`usecs_to_jiffies()`).
    pub fn after(self, ns: u64) -> u64 {
        self.now + ns.div_ceil(self.tick_ns)
    }

    pub fn reached(self, tick: u64) -> bool {
        self.now >= tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_over_at_a_tick() {
        // Ticks are at 300, 1300, 2300 ...
        let at = |now| Jiffies::at(now, 1000, 300);
        let limit = at(2299).after(2000);
        assert!(!at(3299).reached(limit) && at(3300).reached(limit));
        let limit = at(2300).after(2001);
        assert!(!at(5299).reached(limit) && at(5300).reached(limit));
    }
}
