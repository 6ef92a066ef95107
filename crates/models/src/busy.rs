//! Threads that only compute for some time, which shows throughput and fairness.

use crate::benchmark::{Benchmark, Model, params};
use machine::Machine;
use workload::{Better, Env, Goal, Metric, MetricId, Op, Program, Role, Start, TaskSpec, Unit};

params! {
    struct Busy {
        threads: Count(1..=4096) = 4, "the number of threads that compute (default 4)";
        duration: S(1_000_000..=3_600_000_000_000) = 1_000_000_000,
            "the time for which the threads compute (default 1s)";
    }
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "busy",
    description: "busy loops for a fixed time: work done, and each thread's share",
    params: Busy::PARAMS,
    metrics: &[
        Metric::throughput("work", "s"),
        Metric::new("thread_work", Unit::S, Better::Higher, Role::Detail),
        Metric::new(
            "spread",
            Unit::Percent,
            Better::Lower,
            Role::Decides(Goal::Fairness),
        ),
    ],
    make: |args| Box::new(Busy::new(args)),
};

/// The work between two reads of the clock, in ns at the reference speed.
const CHUNK: u64 = 100_000;

/// The work in seconds of a CPU at the reference speed: the total (one sample per run), and the work of each thread.
/// The third metric is the difference between the largest and the smallest work of a thread, relative to the mean.
const WORK: MetricId = 0;
const THREAD_WORK: MetricId = 1;
const SPREAD: MetricId = 2;

/// The shared words: the number of threads that still compute; and the sum, maximum and minimum of the chunks of the
/// threads that have ended.
const LEFT: usize = 0;
const CHUNKS: usize = 1;
const MOST: usize = 2;
const FEWEST: usize = 3;

impl Model for Busy {
    fn start(&self, _machine: &Machine) -> Start {
        let tasks = (0..self.threads)
            .map(|index| {
                let thread = Thread {
                    threads: self.threads,
                    until: self.duration,
                    chunks: 0,
                };
                TaskSpec::new(format!("busy-{index}"), thread)
            })
            .collect();
        Start {
            tasks,
            shared: vec![self.threads, 0, 0, u64::MAX],
            ..Start::default()
        }
    }
}

struct Thread {
    threads: u64,
    until: u64,
    chunks: u64,
}

impl Program for Thread {
    fn next(&mut self, env: &mut Env) -> Op {
        if env.now < self.until {
            self.chunks += 1;
            return Op::Run { work: CHUNK };
        }
        let seconds = |chunks: u64| (chunks * CHUNK) as f64 / 1e9;
        env.recorder.record(THREAD_WORK, seconds(self.chunks));
        env.shared[LEFT] -= 1;
        env.shared[CHUNKS] += self.chunks;
        env.shared[MOST] = env.shared[MOST].max(self.chunks);
        env.shared[FEWEST] = env.shared[FEWEST].min(self.chunks);
        if env.shared[LEFT] == 0 {
            env.recorder.record(WORK, seconds(env.shared[CHUNKS]));
            if env.shared[CHUNKS] > 0 {
                let mean = env.shared[CHUNKS] as f64 / self.threads as f64;
                let spread = (env.shared[MOST] - env.shared[FEWEST]) as f64 / mean * 100.0;
                env.recorder.record(SPREAD, spread);
            }
        }
        Op::Exit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::run_named;

    #[test]
    fn work_is_cpus_times_duration() {
        let kernel = run_named("busy:threads=3,duration=0.1", 2);
        let work = kernel.recorder.samples(WORK);
        assert_eq!(work.len(), 1);
        assert!((work[0] - 0.2).abs() < 0.001, "{work:?}");
        let shares = kernel.recorder.samples(THREAD_WORK);
        assert_eq!(shares.len(), 3);
        assert!((shares.iter().sum::<f64>() - work[0]).abs() < 1e-9);
        let (most, least) = (
            shares.iter().copied().fold(0.0, f64::max),
            shares.iter().copied().fold(1.0, f64::min),
        );
        let spread = kernel.recorder.samples(SPREAD)[0];
        assert!(
            (spread - (most - least) / (work[0] / 3.0) * 100.0).abs() < 1e-6,
            "{spread} {shares:?}"
        );
    }
}
