//! `cyclictest -a -n`: threads, each pinned to a CPU, sleep until times at a fixed interval and
//! measure how late they wake.
//!
//! The model follows rt-tests' `cyclictest.c`. Thread i is pinned to CPU i modulo the number of CPUs; its interval is
//! the base interval plus i times the distance. Without a priority the threads are `SCHED_OTHER`, so timer slack is
//! part of the latency. The first thread that finds the duration over ends the run. The main thread prints the
//! statistics every 10 ms, as without `-q`. Latencies have fractions of a microsecond; cyclictest rounds them down.

use crate::benchmark::{Benchmark, CREATE_WORK, Model, params};
use machine::{CpuMask, Machine};
use workload::{
    Better, Env, Goal, Metric, MetricId, Op, Program, Role, SchedPolicy, Start, TaskSpec, Unit,
};

params! {
    struct Cyclictest {
        threads: Count(1..=1024) = 2, "cyclictest's -t NUM (default 2; cyclictest without -t starts 1)";
        interval: Us(1_000..=1_000_000_000_000) = 1_000_000,
            "the first thread's interval; cyclictest's -i (default 1000us)";
        distance: Us(0..=1_000_000_000_000) = 500_000,
            "the increase of the interval from thread to thread; cyclictest's -d (default 500us)";
        priority: Count(0..=99) = 0,
            "SCHED_FIFO priority of the threads, cyclictest's -p; 0 is SCHED_OTHER (default)";
        duration: S(1_000_000..=3_600_000_000_000) = 10_000_000_000,
            "cyclictest's -D (default 10 s; cyclictest without -D never ends)";
    }
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "cyclictest",
    description: "cyclictest -a -n: wakeup latency of pinned periodic threads",
    params: Cyclictest::PARAMS,
    metrics: &[
        Metric::new(
            "latency",
            Unit::Us,
            Better::Lower,
            Role::Decides(Goal::Latency),
        ),
        Metric::detail("min", Unit::Us),
        Metric::detail("avg", Unit::Us),
        Metric::new(
            "max",
            Unit::Us,
            Better::Lower,
            Role::Explains(Goal::Latency),
        ),
    ],
    make: |args| Box::new(Cyclictest::new(args)),
};

/// The main thread's interval between outputs, in ns (`usleep(10000)` in cyclictest.c).
const REFRESH: u64 = 10_000_000;
/// The work of printing a thread's line, in ns at the reference speed. The value is an assumption for a `write(2)` to a
/// terminal.
const PRINT_WORK: u64 = 20_000;

/// `latency` has a sample for every wakeup; the other metrics have one per run, over all threads.
const LATENCY: MetricId = 0;
const MIN: MetricId = 1;
const AVG: MetricId = 2;
const MAX: MetricId = 3;

/// The shared word that says whether a thread has found the duration over.
const SHUTDOWN: usize = 0;
/// The number of all latencies, their sum, their minimum and their maximum, in ns.
const CYCLES: usize = 1;
const SUM: usize = 2;
const LEAST: usize = 3;
const GREATEST: usize = 4;

impl Model for Cyclictest {
    fn start(&self, machine: &Machine) -> Start {
        let online: Vec<usize> = machine.all_cpus().iter().collect();
        let threads = (0..self.threads)
            .map(|index| Thread {
                step: Step::Pin,
                cpu: online[index as usize % online.len()],
                priority: self.priority as u8,
                interval: self.interval + index * self.distance,
                duration: self.duration,
                stop: 0,
                next: 0,
            })
            .rev()
            .collect();
        let main = Main {
            to_create: threads,
            printers: self.threads,
            step: MainStep::Create,
        };
        let mut shared = vec![0; 5];
        shared[LEAST] = u64::MAX;
        Start {
            tasks: vec![TaskSpec::new("cyclictest", main)],
            shared,
            ..Start::default()
        }
    }
}

enum MainStep {
    Create,
    Print,
    Rest,
    Report,
}

struct Main {
    /// The threads to create, of which the last one comes first.
    to_create: Vec<Thread>,
    printers: u64,
    step: MainStep,
}

impl Program for Main {
    fn next(&mut self, env: &mut Env) -> Op {
        if let MainStep::Create = self.step {
            if let Some(thread) = self.to_create.pop() {
                return Op::Fork {
                    child: Box::new(TaskSpec::new("cyclictest", thread)),
                    work: CREATE_WORK,
                };
            }
            self.step = MainStep::Print;
        }
        match self.step {
            MainStep::Create | MainStep::Print if env.shared[SHUTDOWN] == 0 => {
                self.step = MainStep::Rest;
                Op::Run {
                    work: PRINT_WORK * self.printers,
                }
            }
            MainStep::Create | MainStep::Print => {
                self.step = MainStep::Report;
                Op::Join
            }
            MainStep::Rest => {
                self.step = MainStep::Print;
                Op::Sleep { ns: REFRESH }
            }
            MainStep::Report => {
                let shared = &env.shared;
                let us = |ns: u64| ns as f64 / 1e3;
                env.recorder.record(MIN, us(shared[LEAST]));
                env.recorder
                    .record(AVG, us(shared[SUM]) / shared[CYCLES] as f64);
                env.recorder.record(MAX, us(shared[GREATEST]));
                Op::Exit
            }
        }
    }
}

enum Step {
    Pin,
    SetPolicy,
    First,
    Wake,
}

struct Thread {
    step: Step,
    cpu: usize,
    priority: u8,
    interval: u64,
    duration: u64,
    stop: u64,
    next: u64,
}

impl Program for Thread {
    fn next(&mut self, env: &mut Env) -> Op {
        match self.step {
            Step::Pin => {
                self.step = Step::SetPolicy;
                return Op::SetAffinity(Box::new(CpuMask::one(self.cpu)));
            }
            Step::SetPolicy => {
                self.step = Step::First;
                return Op::SetPolicy(match self.priority {
                    0 => SchedPolicy::Normal {
                        nice: 0,
                        slice_ns: 0,
                    },
                    priority => SchedPolicy::Fifo { priority },
                });
            }
            Step::First => {
                self.step = Step::Wake;
                self.next = env.now;
                self.stop = env.now + self.duration;
            }
            Step::Wake => {
                let latency = env.now - self.next;
                env.recorder.record(LATENCY, latency as f64 / 1e3);
                env.shared[CYCLES] += 1;
                env.shared[SUM] += latency;
                env.shared[LEAST] = env.shared[LEAST].min(latency);
                env.shared[GREATEST] = env.shared[GREATEST].max(latency);
                if env.now >= self.stop {
                    env.shared[SHUTDOWN] = 1;
                }
                if env.shared[SHUTDOWN] != 0 {
                    return Op::Exit;
                }
            }
        }
        self.next += self.interval;
        Op::SleepUntil { at: self.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Kernel, run_named};

    fn run(params: &str) -> Kernel {
        run_named(&format!("cyclictest:{params}"), 2)
    }

    #[test]
    fn each_thread_wakes_at_its_interval() {
        let kernel = run("duration=300ms");
        let cycles = kernel.recorder.samples(LATENCY).len();
        assert!((498..=501).contains(&cycles), "{cycles}");
        for metric in [MIN, AVG, MAX] {
            assert_eq!(kernel.recorder.samples(metric).len(), 1);
        }
    }

    #[test]
    fn normal_threads_see_timer_slack_and_realtime_ones_do_not() {
        let avg = |kernel: &Kernel| kernel.recorder.samples(AVG)[0];
        assert!(avg(&run("duration=100ms")) >= 50.0);
        assert!(avg(&run("duration=100ms,priority=80")) < 50.0);
    }

    #[test]
    fn a_late_thread_skips_no_interval() {
        let kernel = run("duration=20ms,interval=10us,distance=0,threads=2");
        let cycles = kernel.recorder.samples(LATENCY).len();
        assert!((3980..=4010).contains(&cycles), "{cycles}");
    }
}
