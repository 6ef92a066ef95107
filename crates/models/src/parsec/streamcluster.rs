//! streamcluster: rounds of data-parallel work between barriers.
//!
//! The model follows PARSEC 3.0's `streamcluster.cpp`. The main thread makes the points, creates the threads and joins
//! them. Nearly all time is in `pgain()`, which asks whether a point should become a centre: each thread processes its
//! block of the points, in four steps between nine barriers, and thread 0 sums their results. One of the steps computes
//! the distances of all points; the other steps only process the centres. A further step, which makes the point a
//! centre if that is a gain, is not modelled.

use super::barrier::{self, Barrier, Wait};
use super::{METRICS, Main, SCALE, THREADS, bound};
use crate::benchmark::{Benchmark, Model, param};
use machine::Machine;
use workload::{Args, CpuBound, Env, Op, Param, Program, Start, TaskSpec};

const PARAMS: &[Param] = &[
    THREADS,
    param!(rounds: Count(1..=1_000_000) = 1800,
        "calls of pgain(); 1800 calls are 16,200 barriers for each thread, as counted for simlarge (129,600 for 8 \
         threads: Bienia et al., The PARSEC Benchmark Suite, 2008, table 2)"),
    param!(work: Us(1_000..=100_000_000_000) = 14_000_000,
        "the work of computing distances in a round, of all threads together, at the reference speed; calibrated \
         with serial on runs with one and four threads on an ODROID-XU3, under whichever scheduler was faster \
         (27.4 s and 8.3 s)"),
    param!(pass: Us(0..=100_000_000_000) = 16_000,
        "one pass over the centres, of all threads together, at the reference speed; one nanosecond for each of \
         simlarge's 16,384 points"),
    param!(serial: Us(0..=1_000_000_000_000) = 1_900_000_000,
        "work of the main thread alone before the others start, at the reference speed; see work. It includes the \
         time that threads on the board lose to each other: making the points takes a tenth of it. Memory \
         bandwidth causes little of that: four threads read 1.8 GB/s, and one core alone can read 3.4 GB/s (NEON \
         read of tinymembench, results/4pC7.txt of github.com/ThomasKaiser/sbc-bench)"),
    param!(spin: Us(1_000..=1_000_000_000) = 210_000,
        "polling in a barrier before a thread sleeps, at the reference speed: SPIN_COUNTER_MAX, 35,000 turns of a \
         loop that counts on the stack with 64 bits, 12 cycles each on a Cortex-A15 at 2 GHz and so, by the ratio \
         of speeds, 23 on a Cortex-A7 at 1.4 GHz. By the code and the pipelines of GCC (ldrd, adds, adc, strd, \
         then ldr of the flag and ldrd to compare), a turn takes at least 9 cycles on the A15 (ldrd 4, adds 1, adc \
         2, strd 2) and 12 on the A7, which executes all of them in order: each turn needs the value that the \
         previous turn stored. The wait of a load for such a store comes on top; no figure is published for it"),
    SCALE,
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "streamcluster",
    description: "PARSEC's streamcluster: data-parallel rounds between barriers that spin, then sleep",
    params: PARAMS,
    metrics: METRICS,
    make: |args| Box::new(Streamcluster::new(args)),
};

/// The work of adding a thread's result to the sum, in ns at the reference speed. The value is an assumption: the time
/// to fetch a cache line from another core.
const SUM_WORK: u64 = 100;

/// The memory that a thread uses between two switches, in bytes. The thread's block is not included, because it does
/// not stay in a cache anyway.
const FOOTPRINT: u64 = 32 << 10;

struct Streamcluster {
    threads: u64,
    rounds: u64,
    work: u64,
    pass: u64,
    serial: u64,
    spin: u64,
    scale: u64,
}

impl Streamcluster {
    fn new(args: &Args) -> Streamcluster {
        let scale = args.get("scale");
        Streamcluster {
            threads: args.get("threads"),
            rounds: args.get("rounds").div_ceil(scale),
            work: args.get("work"),
            pass: args.get("pass"),
            serial: args.get("serial") / scale,
            spin: args.get("spin"),
            scale,
        }
    }
}

impl Model for Streamcluster {
    fn cpu_bound(&self) -> Option<CpuBound> {
        let work = self.rounds * self.work;
        Some(bound(work, self.serial, self.threads, self.scale))
    }

    fn start(&self, _machine: &Machine) -> Start {
        let barrier = Barrier {
            mutex: 0,
            cond: 0,
            words: 0,
            parties: self.threads,
            spin: self.spin,
        };
        let (rounds, work, pass) = (
            self.rounds,
            self.work / self.threads,
            self.pass / self.threads,
        );
        let sum = self.threads * SUM_WORK;
        let thread = move |number| TaskSpec {
            footprint: FOOTPRINT,
            ..TaskSpec::new(
                "streamcluster",
                Thread {
                    wait: Wait::new(barrier),
                    waits: false,
                    step: 0,
                    rounds,
                    pass,
                    work,
                    sum: if number == 0 { sum } else { 0 },
                },
            )
        };
        let mut main = Main::new(self.serial, 0, self.threads, self.scale, thread);
        Start {
            tasks: vec![TaskSpec::new("streamcluster", move |env: &mut Env| {
                main.step(env)
            })],
            mutexes: 1,
            condvars: 1,
            shared: vec![0; barrier::WORDS],
            ..Start::default()
        }
    }
}

const BARRIERS: u32 = 9;

struct Thread {
    wait: Wait,
    waits: bool,
    /// The number of barriers of this round that the thread has passed.
    step: u32,
    rounds: u64,
    pass: u64,
    work: u64,
    sum: u64,
}

impl Thread {
    /// A thread's work after this number of barriers of a round, in ns at the reference speed.
    fn work_after(&self, barriers: u32) -> u64 {
        match barriers {
            2 | 4 | 6 => self.pass,
            3 | 7 => self.sum,
            5 => self.work,
            _ => 0,
        }
    }
}

impl Program for Thread {
    fn next(&mut self, env: &mut Env) -> Op {
        if self.waits {
            if let Some(op) = self.wait.next(env) {
                return op;
            }
            self.waits = false;
            self.step += 1;
            return self.wait.unlock();
        }
        if self.step == BARRIERS {
            self.step = 0;
            self.rounds -= 1;
        }
        if self.rounds == 0 {
            return Op::Exit;
        }
        self.waits = true;
        Op::Run {
            work: self.work_after(self.step),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::run_named;
    use crate::parsec::TIME;

    fn run(threads: u64, cpus: usize, more: &str) -> f64 {
        let kernel = run_named(&format!("streamcluster:threads={threads}{more}"), cpus);
        assert!(kernel.left().is_empty());
        kernel.recorder.samples(TIME)[0]
    }

    #[test]
    fn takes_the_published_time_with_one_and_four_threads() {
        for (threads, published) in [(1, 27.42), (4, 8.33)] {
            let time = run(threads, 4, "");
            assert!((time / published - 1.0).abs() < 0.02, "{threads}: {time}");
        }
    }

    #[test]
    fn more_threads_than_cpus_end_too() {
        let time = run(9, 4, ",rounds=5,serial=0");
        assert!((time - 5.0 * 0.014 / 4.0).abs() < 0.2, "{time}");
    }

    #[test]
    fn a_part_of_it_takes_a_part_of_the_time() {
        let (whole, part) = (run(3, 3, ""), run(3, 3, ",scale=20"));
        assert!((part / whole - 1.0).abs() < 0.01, "{whole} {part}");
    }
}
