//! The view that a program has of its run.

use crate::{Metric, MetricId, Recorder, Rng};
use std::ops::{Index, IndexMut};

/// Information and resources for a task when it is asked for its next op.
#[derive(Debug)]
pub struct Env {
    /// `CLOCK_MONOTONIC`: the time since the run began, in ns.
    pub now: u64,
    /// The CPU on which the task runs.
    pub cpu: usize,
    /// The time at which the last op was due, if that was a sleep, otherwise the time at which the last op began, in
    /// ns.
    pub due: u64,
    /// The time at which the task was last made runnable, in ns.
    pub woken_at: u64,
    /// The CPU time that the task has had, in ns.
    pub cpu_time: u64,
    /// The workload's shared memory words.
    pub shared: Shared,
    /// The run's random numbers, which depend on its seed.
    pub rng: Rng,
    /// The recorder of the run's measurements.
    pub recorder: Recorder,
    /// The periods judged since the kernel last took them; `None` if the kernel asks for none.
    pub periods: Option<Vec<Period>>,
}

/// A past period of a task, and whether the task completed its work in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The time at which the period's work was released, in ns.
    pub released: u64,
    /// The deadline, in ns.
    pub due: u64,
    /// The time at which the work was done, in ns.
    pub done: u64,
    /// Whether the period counts as missed.
    pub missed: bool,
}

impl Env {
    /// The environment of a run with these shared words of memory, this seed and these metrics.
    pub fn new(shared: Vec<u64>, seed: u64, metrics: &[Metric]) -> Env {
        Env {
            now: 0,
            cpu: 0,
            due: 0,
            woken_at: 0,
            cpu_time: 0,
            shared: Shared {
                words: shared,
                base: 0,
            },
            rng: Rng::new(seed),
            recorder: Recorder::new(metrics),
            periods: None,
        }
    }

    /// Records in `metric`, which is a share, whether `period` was missed. Reports the period to the kernel, if the
    /// kernel asks for periods.
    #[inline]
    pub fn judge(&mut self, metric: MetricId, period: Period) {
        self.recorder.record_period(metric, &period);
        if let Some(periods) = &mut self.periods {
            periods.push(period);
        }
    }

    /// Calls `what` for one workload of several, whose words and metrics begin at these indices.
    pub(crate) fn based<R>(
        &mut self,
        word: usize,
        metric: MetricId,
        what: impl FnOnce(&mut Env) -> R,
    ) -> R {
        let outer_word = std::mem::replace(&mut self.shared.base, word);
        let outer_metric = self.recorder.set_base(metric);
        let result = what(self);
        self.shared.base = outer_word;
        self.recorder.set_base(outer_metric);
        result
    }
}

/// Words of memory that the tasks of a workload share.
#[derive(Debug)]
pub struct Shared {
    words: Vec<u64>,
    /// The first word of the workload whose program is asked, if there are several workloads.
    base: usize,
}

impl Shared {
    /// The word, if it exists.
    pub fn get(&self, word: usize) -> Option<u64> {
        self.words.get(self.base + word).copied()
    }
}

impl Index<usize> for Shared {
    type Output = u64;

    #[inline]
    fn index(&self, word: usize) -> &u64 {
        &self.words[self.base + word]
    }
}

impl IndexMut<usize> for Shared {
    #[inline]
    fn index_mut(&mut self, word: usize) -> &mut u64 {
        &mut self.words[self.base + word]
    }
}
