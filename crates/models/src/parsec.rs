//! Models of the pthreads versions of three programs of PARSEC 3.0 with the input `simlarge`, after their public
//! sources: the computations of each thread, and their dependencies. The durations of the computations are calibrated;
//! see each program's parameters.

mod barrier;
pub(crate) mod blackscholes;
pub(crate) mod bodytrack;
pub(crate) mod streamcluster;

use crate::benchmark::{CREATE_WORK, param};
use workload::{CpuBound, Env, Metric, MetricId, Op, Param, TaskSpec};

const TIME: MetricId = 0;

const THREADS: Param = param!(threads: Count(1..=1024) = 4,
    "the number of threads that compute; PARSEC's -n (default 4)");

const SCALE: Param = param!(scale: Count(1..=100) = 1,
    "divide all repeated work by this, and multiply the reported time by it (default 1)");

const METRICS: &[Metric] = &[Metric::makespan("time")];

/// The limit of a program's time: `work` is shared by `threads`, and `serial` is not; both are in units of `scale` ns
/// at the reference speed.
fn bound(work: u64, serial: u64, threads: u64, scale: u64) -> CpuBound {
    CpuBound {
        work: work * scale,
        serial: serial * scale,
        parallelism: threads as usize,
        metric: TIME,
    }
}

/// The main thread of a program, which computes, runs threads, and computes again.
struct Main {
    step: Step,
    before: u64,
    after: u64,
    thread: Box<dyn Fn(u64) -> TaskSpec + Send>,
    threads: u64,
    created: u64,
    scale: u64,
    started: u64,
}

enum Step {
    Before,
    Create,
    After,
    Report,
}

impl Main {
    /// A main thread that computes `before` (in ns at the reference speed), runs `threads` threads, and then computes
    /// `after`.
    fn new(
        before: u64,
        after: u64,
        threads: u64,
        scale: u64,
        thread: impl Fn(u64) -> TaskSpec + Send + 'static,
    ) -> Main {
        Main {
            step: Step::Before,
            before,
            after,
            thread: Box::new(thread),
            threads,
            created: 0,
            scale,
            started: 0,
        }
    }

    fn step(&mut self, env: &mut Env) -> Op {
        match self.step {
            Step::Before => {
                self.started = env.now;
                self.step = Step::Create;
                Op::Run { work: self.before }
            }
            Step::Create if self.created < self.threads => {
                let child = Box::new((self.thread)(self.created));
                self.created += 1;
                Op::Fork {
                    child,
                    work: CREATE_WORK,
                }
            }
            Step::Create => {
                self.step = Step::After;
                Op::Join
            }
            Step::After => {
                self.step = Step::Report;
                Op::Run { work: self.after }
            }
            Step::Report => {
                let time = (env.now - self.started) * self.scale;
                env.recorder.record(TIME, time as f64 / 1e9);
                Op::Exit
            }
        }
    }
}
