//! blackscholes: data-parallel computing between reading a file and writing a file.
//!
//! The model follows PARSEC 3.0's `blackscholes.c`: the main thread reads the options, creates the threads, joins them
//! and writes the prices. Each thread prices its block of options 100 times without synchronizing.

use super::{METRICS, Main, SCALE, THREADS, bound};
use crate::benchmark::{Benchmark, Model, param};
use machine::Machine;
use workload::{Args, CpuBound, Env, Op, Param, Program, Start, TaskSpec};

const PARAMS: &[Param] = &[
    THREADS,
    param!(work: Us(1_000..=1_000_000_000_000) = 5_840_000_000,
        "the pricing work of all threads together, at the reference speed; calibrated with serial on runs with one \
         and four threads on an ODROID-XU3 (6.81 s and 2.43 s)"),
    param!(serial: Us(0..=1_000_000_000_000) = 967_000_000,
        "work of the main thread alone, half of it before (reading) and half after (writing), at the reference \
         speed; see work"),
    SCALE,
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "blackscholes",
    description: "PARSEC's blackscholes: data-parallel between serial reading and writing",
    params: PARAMS,
    metrics: METRICS,
    make: |args| Box::new(Blackscholes::new(args)),
};

/// `NUM_RUNS`.
const RUNS: u64 = 100;

struct Blackscholes {
    threads: u64,
    work: u64,
    serial: u64,
    scale: u64,
}

impl Blackscholes {
    fn new(args: &Args) -> Blackscholes {
        let scale = args.get("scale");
        Blackscholes {
            threads: args.get("threads"),
            work: args.get("work") / scale,
            serial: args.get("serial") / scale,
            scale,
        }
    }
}

impl Model for Blackscholes {
    fn cpu_bound(&self) -> Option<CpuBound> {
        Some(bound(self.work, self.serial, self.threads, self.scale))
    }

    fn start(&self, _machine: &Machine) -> Start {
        let work = self.work / self.threads / RUNS;
        let thread = move |_| TaskSpec::new("blackscholes", Thread { runs: RUNS, work });
        let half = self.serial / 2;
        let mut main = Main::new(half, half, self.threads, self.scale, thread);
        Start {
            tasks: vec![TaskSpec::new("blackscholes", move |env: &mut Env| {
                main.step(env)
            })],
            ..Start::default()
        }
    }
}

struct Thread {
    runs: u64,
    work: u64,
}

impl Program for Thread {
    fn next(&mut self, _env: &mut Env) -> Op {
        if self.runs == 0 {
            return Op::Exit;
        }
        self.runs -= 1;
        Op::Run { work: self.work }
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::run_named;
    use crate::parsec::TIME;

    #[test]
    fn takes_the_published_time_with_one_and_four_threads() {
        for (threads, published) in [(1, 6.807), (4, 2.427)] {
            let kernel = run_named(&format!("blackscholes:threads={threads}"), 4);
            let time = kernel.recorder.samples(TIME)[0];
            assert!((time / published - 1.0).abs() < 0.02, "{threads}: {time}");
        }
    }
}
