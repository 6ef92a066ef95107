//! Threads that share each step's work equally, and meet at barriers: inference with a language model
//! on CPUs, as llama.cpp does it.
//!
//! The model follows ggml's `ggml_barrier()`: a thread that arrives polls the number of the barrier until the last
//! thread has raised it. If the polling is limited, the thread then sleeps until it is woken, as in glibc's and
//! OpenMP's barriers. Each operation of the language model's graph ends with a barrier, and each thread gets an equal
//! part of the operation.

use crate::benchmark::{Benchmark, CREATE_WORK, Model, params};
use machine::Machine;
use workload::{Better, Env, Goal, Metric, MetricId, Op, Program, Role, Start, TaskSpec, Unit};

params! {
    struct Setup {
        threads: Count(1..=1024) = 4, "llama.cpp's --threads (default 4)";
        barriers: Count(1..=100_000) = 1000,
            "barriers per step; llama.cpp has one per operation, a thousand or more per token for a model with 32 \
             layers (default 1000, an estimate)";
        work: Us(1_000..=1_000_000_000_000) = 100_000_000,
            "the work of a step, of all threads together, at the reference speed (default 100 ms)";
        spin: Us(0..=FOREVER) = FOREVER,
            "polling in a barrier before a thread sleeps, at the reference speed; 0: none (default: it never \
             sleeps)";
        time: S(1_000_000..=3_600_000_000_000) = 5_000_000_000, "the time after which no step begins (default 5s)";
        delay: S(0..=3_600_000_000_000) = 0, "the time at which the threads are created (default 0: at once)";
        steps: Count(1..=1_000_000) = 1_000_000,
            "the maximum number of steps (default: as many as fit into the time)";
    }
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "spin-barrier",
    description: "equal shares of steps between barriers that poll, or sleep, as in llama.cpp",
    params: Setup::PARAMS,
    metrics: &[
        Metric::throughput("steps", "1/s"),
        Metric::new(
            "step",
            Unit::Ms,
            Better::Lower,
            Role::Explains(Goal::Throughput),
        ),
    ],
    make: |args| Box::new(Setup::new(args)),
};

const FOREVER: u64 = 3_600_000_000_000;

/// The number of steps per second, and the time of each step.
const STEPS: MetricId = 0;
const STEP: MetricId = 1;

/// The shared words: the numbers of barriers passed, of threads at this barrier, and of threads that sleep there;
/// whether the last step is over; the times at which the first step and this step began, in ns; and the number of steps
/// done.
const PASSED: usize = 0;
const INSIDE: usize = 1;
const SLEEPING: usize = 2;
const OVER: usize = 3;
const BEGAN: usize = 4;
const STEP_BEGAN: usize = 5;
const DONE: usize = 6;
const WORDS: usize = 7;

impl Setup {
    /// A thread that begins at `at`, and creates `others` other threads if it comes to that.
    fn thread(self, others: u64, at: At) -> TaskSpec {
        let thread = Thread {
            setup: self,
            others,
            passed: 0,
            at,
        };
        TaskSpec::new("thread", thread)
    }

    fn begin(env: &mut Env) {
        env.shared[BEGAN] = env.now;
        env.shared[STEP_BEGAN] = env.now;
    }

    /// Lets all threads pass a barrier, because the last thread has arrived.
    fn pass(&self, env: &mut Env) {
        env.shared[INSIDE] = 0;
        env.shared[PASSED] += 1;
        if !env.shared[PASSED].is_multiple_of(self.barriers) {
            return;
        }
        let (now, began) = (env.now, env.shared[BEGAN]);
        let ms = (now - env.shared[STEP_BEGAN]) as f64 / 1e6;
        env.recorder.record(STEP, ms);
        env.shared[STEP_BEGAN] = now;
        env.shared[DONE] += 1;
        if env.shared[DONE] == self.steps || now - began >= self.time {
            env.shared[OVER] = 1;
            let steps = env.shared[DONE] as f64;
            env.recorder
                .record(STEPS, steps * 1e9 / (now - began) as f64);
        }
    }
}

impl Model for Setup {
    fn start(&self, _machine: &Machine) -> Start {
        Start {
            tasks: vec![self.thread(self.threads - 1, At::Delay)],
            mutexes: 1,
            condvars: 1,
            shared: vec![0; WORDS],
            ..Start::default()
        }
    }
}

#[derive(Clone, Copy)]
enum At {
    Delay,
    Create,
    Compute,
    Arrive,
    Polled,
    /// The thread holds the mutex, to sleep until the barrier is passed.
    Sleep,
    /// The thread was the last one, and holds the mutex to wake the sleeping threads.
    Wake,
    Woke,
}

struct Thread {
    setup: Setup,
    others: u64,
    /// The number of barriers that were passed when the thread arrived.
    passed: u64,
    at: At,
}

impl Program for Thread {
    fn next(&mut self, env: &mut Env) -> Op {
        let setup = self.setup;
        loop {
            match self.at {
                At::Delay => {
                    self.at = At::Create;
                    return Op::SleepUntil { at: setup.delay };
                }
                At::Create if self.others > 0 => {
                    self.others -= 1;
                    if self.others == 0 {
                        Setup::begin(env);
                    }
                    return Op::Fork {
                        child: Box::new(setup.thread(0, At::Compute)),
                        work: CREATE_WORK,
                    };
                }
                At::Create => {
                    // With other threads, the step began before the last one was created.
                    if setup.threads == 1 {
                        Setup::begin(env);
                    }
                    self.at = At::Compute;
                }
                At::Compute if env.shared[OVER] == 1 => return Op::Exit,
                At::Compute => {
                    self.at = At::Arrive;
                    return Op::Run {
                        work: (setup.work / setup.barriers / setup.threads).max(1),
                    };
                }
                At::Arrive => {
                    self.passed = env.shared[PASSED];
                    env.shared[INSIDE] += 1;
                    if env.shared[INSIDE] < setup.threads {
                        self.at = At::Polled;
                        if setup.spin > 0 {
                            return Op::SpinWhile {
                                word: PASSED,
                                value: self.passed,
                                work: setup.spin,
                            };
                        }
                        continue;
                    }
                    setup.pass(env);
                    self.at = At::Compute;
                    if env.shared[SLEEPING] > 0 {
                        self.at = At::Wake;
                        return Op::Lock(0);
                    }
                }
                At::Polled if env.shared[PASSED] != self.passed => self.at = At::Compute,
                At::Polled => {
                    env.shared[SLEEPING] += 1;
                    self.at = At::Sleep;
                    return Op::Lock(0);
                }
                At::Sleep if env.shared[PASSED] != self.passed => {
                    env.shared[SLEEPING] -= 1;
                    self.at = At::Compute;
                    return Op::Unlock(0);
                }
                At::Sleep => return Op::Wait { cond: 0, mutex: 0 },
                At::Wake => {
                    self.at = At::Woke;
                    return Op::Broadcast(0);
                }
                At::Woke => {
                    self.at = At::Compute;
                    return Op::Unlock(0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::run_named;

    fn rate(params: &str, cpus: usize) -> f64 {
        let kernel = run_named(&format!("spin-barrier:time=1,{params}"), cpus);
        assert!(kernel.left().is_empty(), "{:?}", kernel.left());
        kernel.recorder.samples(STEPS)[0]
    }

    #[test]
    fn a_step_takes_a_thread_s_share_on_enough_cpus() {
        for spin in ["spin=0", "spin=50", "steps=20"] {
            let rate = rate(&format!("threads=4,{spin}"), 4);
            assert!((38.0..40.1).contains(&rate), "{spin}: {rate}");
        }
    }

    #[test]
    fn steps_begin_after_the_delay() {
        for threads in [1, 2] {
            let workload = format!("spin-barrier:threads={threads},time=1,delay=2");
            let kernel = run_named(&workload, 2);
            assert!(kernel.now >= 3_000_000_000, "{threads}: {}", kernel.now);
            let rate = kernel.recorder.samples(STEPS)[0];
            let expected = 10.0 * f64::from(threads);
            assert!(
                (0.95 * expected..1.01 * expected).contains(&rate),
                "{threads}: {rate}"
            );
        }
    }

    #[test]
    fn polling_threads_are_in_each_other_s_way_on_too_few_cpus() {
        let (sleeps, polls) = (rate("threads=8,spin=0", 4), rate("threads=8", 4));
        assert!((35.0..40.1).contains(&sleeps), "{sleeps}");
        assert!(polls < 0.95 * sleeps, "{polls}, {sleeps}");
    }
}
