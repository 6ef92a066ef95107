//! An integer score like AnTuTu's: every core computes, in sections that end when the last thread
//! has finished.
//!
//! The benchmark is closed source. Its integer tests are known to run one after another, on as many threads as there
//! are cores, and the score is higher if the tests take less time.

use crate::benchmark::{Benchmark, CREATE_WORK, Model, params};
use machine::Machine;
use workload::{Env, Metric, MetricId, Op, Program, Start, TaskSpec};

params! {
    struct Antutu {
        sections: Count(1..=10_000) = 5, "tests, one after the other (default 5; an assumption)";
        work: Us(1_000..=1_000_000_000_000) = 2_000_000_000,
            "work of each thread in a section, at the reference speed (default 2 s; an assumption)";
        rate: Count(1..=1_000_000_000) = 7_745,
            "points for each unit of the reference core's speed; calibrated on 36860 points of an Exynos 5433 \
             under Linaro's big.LITTLE MP scheduler";
    }
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "antutu-integer",
    description: "an integer score like AnTuTu's: all cores compute, section by section",
    params: Antutu::PARAMS,
    metrics: &[Metric::throughput("score", "points")],
    make: |args| Box::new(Antutu::new(args)),
};

const SCORE: MetricId = 0;

impl Model for Antutu {
    fn start(&self, machine: &Machine) -> Start {
        let threads = machine.all_cpus().count() as u64;
        let main = Main {
            sections: self.sections,
            threads,
            to_create: threads,
            work: self.work,
            points: self.rate * self.sections * threads * self.work,
            started: None,
        };
        Start {
            tasks: vec![TaskSpec::new("antutu", main)],
            ..Start::default()
        }
    }
}

struct Main {
    sections: u64,
    threads: u64,
    to_create: u64,
    work: u64,
    points: u64,
    started: Option<u64>,
}

impl Program for Main {
    fn next(&mut self, env: &mut Env) -> Op {
        let started = *self.started.get_or_insert(env.now);
        if self.sections == 0 {
            let score = self.points as f64 / (env.now - started) as f64;
            env.recorder.record(SCORE, score);
            return Op::Exit;
        }
        if self.to_create == 0 {
            self.to_create = self.threads;
            self.sections -= 1;
            return Op::Join;
        }
        self.to_create -= 1;
        let mut work = Some(self.work);
        let thread = move |_: &mut Env| match work.take() {
            Some(work) => Op::Run { work },
            None => Op::Exit,
        };
        Op::Fork {
            child: Box::new(TaskSpec::new("antutu", thread)),
            work: CREATE_WORK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::run_named;

    #[test]
    fn the_score_is_the_rate_for_each_core_in_full_use() {
        let kernel = run_named("antutu-integer:rate=1000", 3);
        let score = kernel.recorder.samples(SCORE)[0];
        assert!((score / 3000.0 - 1.0).abs() < 0.01, "{score}");
    }
}
