//! A replayed thread's job: its work of one period, which has to be done before the next period begins.

/// The job of the current period.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The time of the job's release, in ns.
    pub release: u64,
    /// Whether a timer has released the job, and not another thread.
    pub by_timer: bool,
}

/// The outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The time from the job's release until the thread slept for the next job, in ns.
    pub response_ns: u64,
    /// The number of periods for which the thread was at work, and the number of these periods that it missed.
    pub periods: u64,
    pub missed: u64,
}

impl Job {
    /// The outcome of a job of `period` that ended at `end`; the next job, if there is one, was released at `next`.
    ///
    /// A recorded thread that was late does not sleep, so the jobs of several periods appear as one. A thread with a
    /// timer continues at once, and only its last job can be in time, because the thread would have slept after an
    /// earlier job in time. A woken thread loses the wakeups during its work, and the job itself is late.
    pub fn outcome(self, period: u64, end: u64, next: Option<u64>) -> Outcome {
        let response_ns = end.saturating_sub(self.release);
        let late = response_ns.saturating_sub(1) / period;
        let until = next.unwrap_or(u64::MAX).saturating_sub(self.release);
        let passed = until.saturating_add(period / 2) / period;
        let periods = passed.clamp(1, late + 1);
        let missed = match self.by_timer {
            _ if late == 0 => 0,
            true => late.min(periods),
            false => periods,
        };
        Outcome {
            response_ns,
            periods,
            missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_job_misses_the_periods_that_it_takes() {
        let missed = |by_timer, end, next| {
            let job = Job {
                release: 100,
                by_timer,
            };
            let outcome = job.outcome(10, end, next);
            (outcome.missed, outcome.periods)
        };
        for by_timer in [true, false] {
            assert_eq!(missed(by_timer, 104, Some(110)), (0, 1));
            assert_eq!(missed(by_timer, 110, Some(110)), (0, 1));
            assert_eq!(missed(by_timer, 104, Some(200)), (0, 1));
            // A replay behind its recording: the next job already waits.
            assert_eq!(missed(by_timer, 113, Some(110)), (1, 1));
        }
        // These may be the jobs of two periods, of which the second was in time, or one late job and one lost job.
        assert_eq!(missed(true, 113, Some(120)), (1, 2));
        assert_eq!(missed(false, 113, Some(120)), (2, 2));
        assert_eq!(missed(true, 135, Some(140)), (3, 4));
        assert_eq!(missed(true, 113, None), (1, 2));
    }
}
