//! Repeated runs over seeds, in parallel.

use crate::{Samples, Scheduler, metrics};
use machine::Machine;
use native::Global;
use rayon::prelude::*;
use simulator::{Config, Outcome, Trace};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use workload::Workload;

/// A run that simulates a whole day has lost its way.
const TIME_LIMIT_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A workload on a machine under a scheduler.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload.
    pub workload: &'a dyn Workload,
    /// The scheduler.
    pub scheduler: &'a Scheduler,
}

/// How often to run a case, and with which seeds.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// How often.
    pub count: u32,
    /// What the seeds of the runs derive from.
    pub seed: u64,
    /// How many runs at a time; 0 is as many as this computer has CPUs. Has no influence on results.
    pub jobs: usize,
}

impl Runs {
    /// The seed of run `run`, counted from 0. It depends on nothing but [`Runs::seed`] and the
    /// number: the same for every case, so that schedulers are compared in pairs of like runs.
    pub fn seed_of(&self, run: u32) -> u64 {
        // splitmix64 (Steele, Lea, Flood 2014): the run-th output of the generator.
        let mut z = self
            .seed
            .wrapping_add((u64::from(run) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What is kept of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// For each of its metrics ([`metrics`](crate::metrics())).
    pub samples: Vec<Samples>,
    /// What it took, by part of the machine; `None` where power is not known.
    pub energy: Option<simulator::Energy>,
    /// What the kernel counted.
    pub counters: simulator::Counters,
    /// What the scheduler counted, where it is Equipoise's own.
    pub balancing: Option<policy::Counters>,
    /// Simulated time, ns.
    pub simulated_ns: u64,
    /// How long the simulation took.
    pub wall: Duration,
}

/// The runs of a case, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Measured {
    /// One for each run.
    pub runs: Vec<Run>,
}

impl Measured {
    /// The samples of `metric`, run by run.
    pub fn samples(&self, metric: usize) -> impl Iterator<Item = &Samples> {
        self.runs.iter().map(move |run| &run.samples[metric])
    }

    /// The mean of `metric` in each run; `None` unless every run has one.
    pub fn means(&self, metric: usize) -> Option<Vec<f64>> {
        self.samples(metric).map(Samples::mean).collect()
    }

    /// The mean over the runs of what `count` takes from each; NaN without a run.
    pub fn mean_of(&self, count: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(count).sum::<f64>() / self.runs.len() as f64
    }

    /// The mean energy of a run in the parts for which `which` is true, J; `None` where power is not
    /// known.
    pub fn mean_energy_j(&self, which: impl Fn(simulator::Part) -> bool) -> Option<f64> {
        let of = |run: &Run| run.energy.as_ref().map(|energy| energy.sum_j(&which));
        let joules: Option<Vec<f64>> = self.runs.iter().map(of).collect();
        let joules = joules.filter(|joules| !joules.is_empty())?;
        Some(joules.iter().sum::<f64>() / joules.len() as f64)
    }

    /// The part of all CPUs' time that was spent in new-idle balancing, in per cent, averaged over the
    /// runs; `None` for a scheduler that does not count it.
    pub fn newidle_time_pct(&self) -> Option<f64> {
        let share = |run: &Run| {
            let time = run.simulated_ns as f64 * run.counters.busy_ns.len() as f64;
            let newidle = run.balancing.as_ref()?.newidle_ns as f64;
            (time > 0.0).then(|| 100.0 * newidle / time)
        };
        let shares: Option<Vec<f64>> = self.runs.iter().map(share).collect();
        shares
            .filter(|shares| !shares.is_empty())
            .map(|shares| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// As [`Measured::mean_of`], of what the scheduler counted; `None` if it did not.
    pub fn mean_of_balancing(&self, count: impl Fn(&policy::Counters) -> u64) -> Option<f64> {
        let counts: Option<Vec<f64>> = self
            .runs
            .iter()
            .map(|run| {
                run.balancing
                    .as_ref()
                    .map(|counters| count(counters) as f64)
            })
            .collect();
        counts.map(|counts| counts.iter().sum::<f64>() / counts.len() as f64)
    }
}

/// A run that failed: which one, and why.
#[derive(Debug, thiserror::Error)]
#[error("{scheduler} on {machine} with {workload}, run {run} (seed {seed:#x}): {error}")]
pub struct Failure {
    /// The scheduler's name.
    pub scheduler: String,
    /// The machine's name.
    pub machine: String,
    /// The workload's name.
    pub workload: String,
    /// The number of the run, from 0.
    pub run: u32,
    /// Its seed.
    pub seed: u64,
    /// What happened.
    pub error: simulator::Error,
}

/// Runs every case `runs.count` times; the answer is in the order of `cases`, and does not depend on
/// `runs.jobs`. `done` is called after each run. Of several failures the first in the order of cases
/// and runs is returned.
pub fn measure(
    cases: &[Case<'_>],
    runs: &Runs,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Measured>, Box<Failure>> {
    let globals: Vec<Vec<Global>> = cases
        .iter()
        .map(|case| case.scheduler.globals(case.machine))
        .collect();
    let count = runs.count as usize;
    let results = in_order(cases.len() * count, runs.jobs, |index| {
        let (case, run) = (&cases[index / count], (index % count) as u32);
        let seed = runs.seed_of(run);
        let began = Instant::now();
        let of_run = case.workload.of_run(run, runs.count);
        let case = Case {
            workload: of_run.as_deref().unwrap_or(case.workload),
            ..*case
        };
        let result = simulate(&case, &globals[index / count], seed, None)
            .map(|outcome| keep(&case, outcome, began.elapsed()))
            .map_err(|error| failure(&case, run, seed, error));
        done();
        result
    })?;
    let mut results = results.into_iter();
    Ok(cases
        .iter()
        .map(|_| Measured {
            runs: results.by_ref().take(count).collect(),
        })
        .collect())
}

/// Repeats run 0 of `case` with its scheduling events going to `trace`.
pub fn trace(case: &Case<'_>, runs: &Runs, trace: &mut dyn Trace) -> Result<(), Box<Failure>> {
    let (run, seed) = (0, runs.seed_of(0));
    let globals = case.scheduler.globals(case.machine);
    let of_run = case.workload.of_run(run, runs.count);
    let case = Case {
        workload: of_run.as_deref().unwrap_or(case.workload),
        ..*case
    };
    simulate(&case, &globals, seed, Some(trace))
        .map(drop)
        .map_err(|error| failure(&case, run, seed, error))
}

fn simulate<'a>(
    case: &Case<'a>,
    globals: &'a [Global],
    seed: u64,
    trace: Option<&'a mut dyn Trace>,
) -> Result<Outcome, simulator::Error> {
    simulator::run(Config {
        machine: case.machine,
        workload: case.workload,
        scheduler: case.scheduler.object(),
        globals,
        read: case.scheduler.counters_symbol(),
        seed,
        time_limit_ns: TIME_LIMIT_NS,
        trace,
    })
}

fn keep(case: &Case<'_>, outcome: Outcome, wall: Duration) -> Run {
    let own = 0..case.workload.metrics().len();
    let machines = metrics::samples(case.machine, &outcome);
    Run {
        samples: own
            .map(|metric| Samples::new(outcome.recorder.samples(metric)))
            .chain(machines.iter().map(|sample| Samples::new(sample)))
            .collect(),
        energy: outcome.energy,
        balancing: case.scheduler.counters(&outcome.read),
        counters: outcome.counters,
        simulated_ns: outcome.simulated_ns,
        wall,
    }
}

fn failure(case: &Case<'_>, run: u32, seed: u64, error: simulator::Error) -> Box<Failure> {
    Box::new(Failure {
        scheduler: case.scheduler.name().to_owned(),
        machine: case.machine.name.clone(),
        workload: case.workload.name().to_owned(),
        run,
        seed,
        error,
    })
}

/// `work(0)`, `work(1)`, ... on `jobs` threads, in order; else the error of the lowest index that has
/// one. After an error only what could fail before it is still done.
fn in_order<T: Send, E: Send>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(jobs).build() else {
        // No threads to be had: this one does it all.
        return (0..count).map(work).collect();
    };
    let first_error = AtomicUsize::new(usize::MAX);
    let results: Vec<Option<Result<T, E>>> = pool.install(|| {
        (0..count)
            .into_par_iter()
            .with_max_len(1)
            .map(|index| {
                if index > first_error.load(Ordering::Relaxed) {
                    return None;
                }
                let result = work(index);
                if result.is_err() {
                    first_error.fetch_min(index, Ordering::Relaxed);
                }
                Some(result)
            })
            .collect()
    });
    // What was left out comes after an error, where this stops.
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_error_do_not_depend_on_the_jobs() {
        let slow =
            |index: usize| std::thread::sleep(Duration::from_micros(997 * index as u64 % 1000));
        for jobs in [1, 2, 7] {
            let squares = in_order(100, jobs, |index| {
                slow(index);
                Ok::<_, usize>(index * index)
            });
            assert_eq!(squares, Ok((0..100).map(|index| index * index).collect()));
            let error = in_order(100, jobs, |index| {
                slow(index);
                if index % 30 == 29 { Err(index) } else { Ok(()) }
            });
            assert_eq!(error, Err(29));
        }
    }

    #[test]
    fn seeds_are_a_fixed_sequence_without_repetition() {
        let runs = Runs {
            count: 1000,
            seed: 1234567,
            jobs: 0,
        };
        // Reference outputs of splitmix64 for this seed.
        assert_eq!(runs.seed_of(0), 6457827717110365317);
        assert_eq!(runs.seed_of(1), 3203168211198807973);
        let mut seeds: Vec<u64> = (0..1000).map(|run| runs.seed_of(run)).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 1000);
    }
}
