//! A deadline task's constant bandwidth server.

/// Bandwidths are in units of 1/2^20 of a CPU (`BW_SHIFT`).
pub const BW_SHIFT: u32 = 20;

/// A deadline task's server: the kernel's `struct sched_dl_entity`. In other classes all fields except `generation` are
/// zero.
#[derive(Clone, Copy, Default)]
pub struct DlEntity {
    /// The budget per period, the relative deadline, and the period, in ns.
    pub dl_runtime: u64,
    pub dl_deadline: u64,
    pub dl_period: u64,
    /// Budget left, in ns; below 0 after an overrun.
    pub runtime: i64,
    /// The current deadline, in ns since boot.
    pub deadline: u64,
    /// The entity waits for its timer, because it is out of budget or is a CPU's deferred deadline server.
    pub throttled: bool,
    /// The task has given up the rest of its budget (`sched_yield()`).
    pub yielded: bool,
    /// Whether the entity's bandwidth counts on its CPU (`running_bw`): while the task is runnable, and afterwards
    /// until the 0-lag time.
    pub active: bool,
    /// The generation of the entity's timers; timers of other generations are void.
    pub generation: u32,
}

impl DlEntity {
    /// `dl_bw`: the entity's bandwidth, in units of 1/2^20 of a CPU.
    pub fn bandwidth(&self) -> u64 {
        ratio(self.dl_period, self.dl_runtime)
    }

    /// The time at which the next period begins, in ns.
    pub fn next_period(&self) -> u64 {
        self.deadline - self.dl_deadline + self.dl_period
    }

    /// `replenish_dl_new_period()`
    pub fn new_period(&mut self, now: u64) {
        self.deadline = now + self.dl_deadline;
        self.runtime = self.dl_runtime as i64;
    }

    /// `replenish_dl_entity()`: adds budgets until the overrun is covered, and moves the deadline.
    pub fn replenish(&mut self, now: u64) {
        if self.dl_period == 0 {
            return;
        }
        if self.deadline == 0 {
            self.new_period(now);
        }
        while self.runtime <= 0 {
            self.deadline += self.dl_period;
            self.runtime += self.dl_runtime as i64;
        }
        // The deadline has long passed, so start a new period.
        if self.deadline < now {
            self.new_period(now);
        }
        self.throttled = false;
        self.yielded = false;
    }

    /// `dl_entity_overflow()`: would consuming the budget by the deadline exceed `dl_runtime / dl_deadline`?
    pub fn overflows(&self, now: u64) -> bool {
        let left = i128::from(self.dl_deadline) * i128::from(self.runtime);
        let right = i128::from(self.deadline.saturating_sub(now)) * i128::from(self.dl_runtime);
        right < left
    }

    /// `update_dl_entity()`, on a wakeup: keeps the current budget and deadline unless they overflow.
    pub fn wake(&mut self, now: u64) {
        let constrained = self.dl_deadline < self.dl_period;
        if self.deadline <= now {
            self.new_period(now);
        } else if self.overflows(now) {
            if constrained {
                self.revise(now);
            } else {
                self.new_period(now);
            }
        }
    }

    /// `update_dl_revised_wakeup()`: sets the budget to `dl_runtime * (deadline - now) / dl_deadline`.
    pub fn revise(&mut self, now: u64) {
        let laxity = u128::from(self.deadline - now);
        let density = u128::from(ratio(self.dl_deadline, self.dl_runtime));
        self.runtime = ((density * laxity) >> BW_SHIFT) as i64;
    }

    /// The 0-lag time, in ns: from then on the remaining budget, consumed at the bandwidth, lasts until the deadline.
    pub fn zero_lag(&self) -> u64 {
        let left = i128::from(self.runtime) * i128::from(self.dl_period)
            / i128::from(self.dl_runtime.max(1));
        (i128::from(self.deadline) - left).max(0) as u64
    }
}

/// `to_ratio()`
fn ratio(period: u64, runtime: u64) -> u64 {
    match period {
        0 => 0,
        _ => ((u128::from(runtime) << BW_SHIFT) / u128::from(period)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(runtime: u64, deadline: u64, period: u64) -> DlEntity {
        DlEntity {
            dl_runtime: runtime,
            dl_deadline: deadline,
            dl_period: period,
            ..DlEntity::default()
        }
    }

    #[test]
    fn an_overrun_is_paid_from_the_next_budgets() {
        let mut server = server(10, 100, 100);
        server.wake(1000);
        assert_eq!((server.runtime, server.deadline), (10, 1100));
        server.runtime = -15;
        server.replenish(1100);
        assert_eq!((server.runtime, server.deadline), (5, 1300));
    }

    #[test]
    fn a_wakeup_keeps_no_more_than_the_bandwidth() {
        let mut implicit = server(10, 100, 100);
        implicit.wake(1000);
        implicit.runtime = 5;
        // 5 of budget in the remaining 60 is less than 10 in 100.
        implicit.wake(1040);
        assert_eq!((implicit.runtime, implicit.deadline), (5, 1100));
        // 5 of budget in 40 is more than 10 in 100.
        implicit.wake(1060);
        assert_eq!((implicit.runtime, implicit.deadline), (10, 1160));

        let mut constrained = server(10, 50, 100);
        constrained.wake(1000);
        constrained.wake(1025);
        assert!(
            (4..=5).contains(&constrained.runtime),
            "half the time left is worth half"
        );
        assert_eq!(constrained.deadline, 1050);
    }
}
