//! The noise of a real machine, for loads that have none of their own. Without noise, all runs of such a load are the
//! same sequence of events, and a confidence interval over seeds is meaningless.
//!
//! All sizes but the first are from the examples of Linux's own tracers of noise
//! (Documentation/trace/osnoise-tracer.rst and timerlat-tracer.rst):
//!
//! - The threads of a load start within a millisecond, because a shell or a library starts them one after another. This
//!   is an assumption.
//! - Timers expire up to 3 us late: the tracer's `irq timer_latency` is 0.8 to 2.8 us.
//! - Other threads of the machine interrupt a busy CPU 11 times a second, for up to 202 us. In the example, eight CPUs
//!   were observed for a second each; the rate is the mean of the last column, and the time is the largest noise. Here
//!   an interruption prolongs the computing of the thread by that time.
//!
//! Each thread has random numbers of its own, so that the noise of a thread is the same under each scheduler.

use crate::{Env, Metric, Op, Program, Rng, Start, TaskSpec, Workload};
use machine::Machine;

/// The maximum delay of a first thread's start, in ns.
const START_NS: u64 = 1_000_000;
/// The maximum delay of a timer's expiry, in ns.
const TIMER_NS: u64 = 3_000;
/// The mean time for which a thread computes between two interruptions, in ns.
const BETWEEN_NS: f64 = 1e9 / 11.0;
/// The longest interruption, in ns.
const INTERRUPTION_NS: u64 = 202_000;

/// Adds noise that depends on `seed` to `workload`.
pub fn with_noise(workload: &dyn Workload, seed: u64) -> impl Workload + '_ {
    Noisy { workload, seed }
}

struct Noisy<'a> {
    workload: &'a dyn Workload,
    seed: u64,
}

impl Workload for Noisy<'_> {
    fn name(&self) -> &str {
        self.workload.name()
    }

    fn description(&self) -> &str {
        self.workload.description()
    }

    fn metrics(&self) -> &[Metric] {
        self.workload.metrics()
    }

    fn inner(&self) -> Option<&dyn Workload> {
        Some(self.workload)
    }

    fn start(&self, machine: &Machine) -> Start {
        let mut start = self.workload.start(machine);
        let mut seeds = Rng::new(self.seed);
        let tasks = start.tasks.into_iter();
        let noisy = tasks.map(|task| noisy(task, seeds.bits(), START_NS));
        start.tasks = noisy.collect();
        start
    }
}

/// Returns `task` with noise; it begins up to `delay_ns` later.
fn noisy(mut task: TaskSpec, seed: u64, delay_ns: u64) -> TaskSpec {
    let mut rng = Rng::new(seed);
    task.program = Box::new(Thread {
        program: task.program,
        delay_ns: rng.below(delay_ns),
        until_interrupted_ns: between(&mut rng),
        rng,
    });
    task
}

/// The computing time until the next interruption, in ns: exponentially distributed.
fn between(rng: &mut Rng) -> u64 {
    (-BETWEEN_NS * (1.0 - rng.unit()).ln()) as u64
}

struct Thread {
    program: Box<dyn Program>,
    /// The delay of the task's start; 0 once the task has begun.
    delay_ns: u64,
    until_interrupted_ns: u64,
    rng: Rng,
}

impl Thread {
    /// The time to compute `work`, including interruptions, in ns.
    fn interrupted(&mut self, work: u64) -> u64 {
        let (mut all, mut left) = (work, work);
        while left >= self.until_interrupted_ns {
            left -= self.until_interrupted_ns;
            all = all.saturating_add(self.rng.below(INTERRUPTION_NS));
            self.until_interrupted_ns = between(&mut self.rng).max(1);
        }
        self.until_interrupted_ns -= left;
        all
    }
}

impl Program for Thread {
    fn next(&mut self, env: &mut Env) -> Op {
        if self.delay_ns > 0 {
            let ns = std::mem::take(&mut self.delay_ns);
            return Op::Sleep { ns };
        }
        let mut op = self.program.next(env);
        match &mut op {
            Op::Run { work } | Op::Write { work, .. } | Op::Read { work, .. } => {
                *work = self.interrupted(*work);
            }
            Op::Sleep { ns } if *ns > 0 => *ns += self.rng.below(TIMER_NS),
            Op::SleepUntil { at } if *at > env.now => *at += self.rng.below(TIMER_NS),
            Op::Fork { child, work } => {
                *work = self.interrupted(*work);
                let spec =
                    std::mem::replace(&mut **child, TaskSpec::new("", |_: &mut Env| Op::Exit));
                **child = noisy(spec, self.rng.bits(), 1);
            }
            _ => {}
        }
        op
    }

    fn end(&mut self, env: &mut Env) {
        self.program.end(env);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_come_as_often_as_on_the_observed_cpus() {
        let mut thread = Thread {
            program: Box::new(|_: &mut Env| Op::Exit),
            delay_ns: 0,
            until_interrupted_ns: 1,
            rng: Rng::new(1),
        };
        let all: u64 = (0..100_000).map(|_| thread.interrupted(1_000_000)).sum();
        let share = (all - 100_000_000_000) as f64 / 1e11;
        assert!((share - 0.001_11).abs() < 0.000_1, "{share}");
    }
}
