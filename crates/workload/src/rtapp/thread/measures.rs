//! The measurements of a thread: its responses, and the periods that it misses.

use super::super::Wakes;
use super::super::config::Action;
use super::{Doing, Thread};
use crate::{Env, Period};

impl Thread {
    /// Begins a response when a wait for `cond` that began at `since` has ended.
    #[inline(never)]
    pub(super) fn woken(&mut self, env: &mut Env, cond: u32, since: u64) {
        // If the thread has not been woken since `since`, it did not sleep.
        let woken = env.woken_at.max(since);
        self.count_lost(env, woken);
        self.released = Some(woken);
        if let Some(wakes) = self.log.wakes
            && self.log.slack.is_none()
        {
            self.deadline = self.plan.deadlines[cond as usize];
            let latency = us(env.now - woken);
            env.recorder.record(wakes.wakeup_latency, latency);
        }
    }

    /// Counts the wakeups that the thread lost because it was still at work: the periods that passed between the last
    /// wakeup and the one at `woken`, but no more than its delay explains.
    fn count_lost(&self, env: &mut Env, woken: u64) {
        if let (Some(missed), Some(last)) =
            (self.log.wakes.and_then(|wakes| wakes.missed), self.released)
            && let Some(period) = self.deadline
        {
            let passed = (woken - last + period / 2) / period;
            let lost = passed.saturating_sub(1).min(self.response / period);
            for passed in 1..=lost {
                let released = last + passed * period;
                let lost = Period {
                    released,
                    due: released + period,
                    done: last + self.response,
                    missed: true,
                };
                env.judge(missed, lost);
            }
        }
    }

    /// Ends the response of the thread, which has completed the work of its release.
    pub(super) fn respond(&mut self, env: &mut Env) {
        if let (Some(wakes), Some(released)) = (self.log.wakes, self.released) {
            self.response = env.now - released;
            self.longest = self.longest.max(self.response);
            env.recorder.record(wakes.response, us(self.response));
            if let (Some(missed), Some(deadline)) = (wakes.missed, self.deadline) {
                let period = Period {
                    released,
                    due: released + deadline,
                    done: env.now,
                    missed: self.response > deadline,
                };
                env.judge(missed, period);
            }
        }
    }

    /// The release of the thread's current work, in ns, if the thread has not completed that work.
    fn open_release(&self, env: &Env) -> Option<u64> {
        let released = match self.doing {
            // A thread without a timer waits for its next release here, unless it has been woken.
            Doing::Wait { since, .. } if self.log.slack.is_none() => {
                (env.woken_at > since).then_some(env.woken_at)
            }
            _ => self.released,
        };
        released.filter(|&released| released < env.now)
    }

    /// At the end of the run, counts a response that is still open if it has already taken longer than all responses
    /// before it. The periods that have passed since the release count as missed.
    pub(super) fn end_response(&self, env: &mut Env, wakes: Wakes) {
        let Some(released) = self.open_release(env) else {
            return;
        };
        let age = env.now - released;
        if matches!(self.doing, Doing::Timer { .. } | Doing::Wait { .. }) {
            env.recorder.record_open(wakes.wakeup_latency, us(age));
        }
        if age > self.longest {
            env.recorder.record_open(wakes.response, us(age));
        }
        let own = self.actions.iter().find_map(|action| match *action {
            Action::Timer { period, .. } => Some(period),
            _ => None,
        });
        let (Some(missed), Some(period)) = (wakes.missed, own.or(self.deadline)) else {
            return;
        };
        for passed in 0..age / period.max(1) {
            let released = released + passed * period;
            let period = Period {
                released,
                due: released + period,
                done: env.now,
                missed: true,
            };
            env.judge(missed, period);
        }
    }
}

pub(super) fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
