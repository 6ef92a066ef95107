//! sysbench's cpu test: threads take requests from one shared counter until none are left; a request
//! computes primes.
//!
//! The model follows sysbench 0.4.12 (`sb_cpu.c` and `sysbench.c`). The main thread creates the threads while it holds
//! a mutex that each of them takes first; then it starts the clock, releases the mutex, and joins them. A thread checks
//! for remaining requests without the counter's mutex and then takes the mutex to count its request, so up to threads -
//! 1 additional requests may be done.

use crate::benchmark::{Benchmark, CREATE_WORK, Model, param};
use machine::input::BadInput;
use machine::{CpuMask, Machine};
use workload::{
    Args, Better, CpuBound, Env, Metric, MetricId, MutexId, Op, Param, Program, Role, Start,
    TaskSpec, Unit,
};

const PARAMS: &[Param] = &[
    param!(threads: Count(1..=4096) = 1, "sysbench's --num-threads (default 1)"),
    param!(requests: Count(1..=1_000_000) = 1000,
        "requests per thread; sysbench's --max-requests is this number times the number of threads, because \
         published times of `--max-requests=1000` grow with the number of threads as if each thread made 1000"),
    param!(request: Us(1_000..=1_000_000_000) = 16_470_000,
        "work of one request at the reference speed; the default is --cpu-max-prime=10000 on a Cortex-A15 of ARM's \
         TC2, calibrated on 1000 requests in 16.47 s by one thread"),
    param!(time: S(0..=3_600_000_000_000) = 0,
        "sysbench's --max-time: no request begins later than this after the start (default 0: any time)"),
    param!(cpu: Count(0..=machine::MAX_CPUS as u64 - 1) = 0,
        "the only CPU that the threads may use, as with `taskset -c` (default: all)"),
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "sysbench-cpu",
    description: "sysbench --test=cpu: threads share a fixed number of CPU-bound requests",
    params: PARAMS,
    metrics: &[
        Metric::makespan("time"),
        Metric::detail("request_latency", Unit::Ms),
        Metric::new("events", Unit::Count, Better::Higher, Role::Detail),
    ],
    make: |args| Box::new(Sysbench::new(args)),
};

/// The metrics if the time is given: here `events` decides, not `time`.
const TIMED_METRICS: &[Metric] = &[
    Metric::detail("time", Unit::S),
    Metric::detail("request_latency", Unit::Ms),
    Metric::throughput("events", ""),
];

/// The work of reading options and preparing the test, in ns at the reference speed. The value is an assumption. The
/// main thread does this work before the clock starts, so it affects only how long that thread has run when it forks.
const START_UP_WORK: u64 = 2_000_000;

const TIME: MetricId = 0;
const LATENCY: MetricId = 1;
const EVENTS: MetricId = 2;

/// The mutex that the main thread holds until all threads exist.
const START_MUTEX: MutexId = 0;
/// The mutex that guards the counter.
const REQUEST_MUTEX: MutexId = 1;
const PERFORMED: usize = 0;
/// The shared word with the end of the time, in ns.
const STOP_AT: usize = 1;

struct Sysbench {
    threads: u64,
    requests: u64,
    request_work: u64,
    max_time: u64,
    cpu: Option<usize>,
}

impl Sysbench {
    fn new(args: &Args) -> Sysbench {
        Sysbench {
            threads: args.get("threads"),
            requests: args.get("threads") * args.get("requests"),
            request_work: args.get("request"),
            max_time: match args.get("time") {
                0 => u64::MAX,
                time => time,
            },
            cpu: args.given("cpu").map(|cpu| cpu as usize),
        }
    }
}

impl Model for Sysbench {
    fn metrics(&self) -> Option<&'static [Metric]> {
        (self.max_time != u64::MAX).then_some(TIMED_METRICS)
    }

    fn cpu_bound(&self) -> Option<CpuBound> {
        (self.max_time == u64::MAX).then(|| CpuBound {
            work: self.requests * self.request_work,
            serial: 0,
            parallelism: match self.cpu {
                Some(_) => 1,
                None => self.threads as usize,
            },
            metric: TIME,
        })
    }

    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        match self.cpu {
            Some(cpu) if !machine.all_cpus().contains(cpu) => Err(Box::new(BadInput::whole(
                format!(
                    "workload `{}`: {} has no CPU {cpu}",
                    BENCHMARK.name, machine.name
                ),
                format!("expected one of {}", machine.all_cpus()),
            ))),
            _ => Ok(()),
        }
    }

    fn start(&self, _machine: &Machine) -> Start {
        let main = Main {
            step: Step::StartUp,
            to_create: self.threads,
            requests: self.requests,
            request_work: self.request_work,
            max_time: self.max_time,
            started: 0,
        };
        let mut main = TaskSpec::new("sysbench", main);
        main.affinity = self.cpu.map(CpuMask::one);
        Start {
            tasks: vec![main],
            mutexes: 2,
            shared: vec![0, u64::MAX],
            ..Start::default()
        }
    }
}

enum Step {
    StartUp,
    Hold,
    Create,
    Join,
    Report,
}

struct Main {
    step: Step,
    to_create: u64,
    requests: u64,
    request_work: u64,
    max_time: u64,
    started: u64,
}

impl Program for Main {
    fn next(&mut self, env: &mut Env) -> Op {
        match self.step {
            Step::StartUp => {
                self.step = Step::Hold;
                Op::Run {
                    work: START_UP_WORK,
                }
            }
            Step::Hold => {
                self.step = Step::Create;
                Op::Lock(START_MUTEX)
            }
            Step::Create if self.to_create > 0 => {
                self.to_create -= 1;
                let thread = Thread {
                    next: Next::TakeStart,
                    requests: self.requests,
                    request_work: self.request_work,
                    began: 0,
                };
                Op::Fork {
                    child: Box::new(TaskSpec::new("sysbench", thread)),
                    work: CREATE_WORK,
                }
            }
            Step::Create => {
                self.step = Step::Join;
                self.started = env.now;
                env.shared[STOP_AT] = env.now.saturating_add(self.max_time);
                Op::Unlock(START_MUTEX)
            }
            Step::Join => {
                self.step = Step::Report;
                Op::Join
            }
            Step::Report => {
                let seconds = (env.now - self.started) as f64 / 1e9;
                env.recorder.record(TIME, seconds);
                env.recorder.record(EVENTS, env.shared[PERFORMED] as f64);
                Op::Exit
            }
        }
    }
}

enum Next {
    TakeStart,
    LeaveStart,
    GetRequest,
    CountRequest,
    Execute,
    Done,
}

struct Thread {
    next: Next,
    requests: u64,
    request_work: u64,
    began: u64,
}

impl Program for Thread {
    fn next(&mut self, env: &mut Env) -> Op {
        if matches!(self.next, Next::Done) {
            let milliseconds = (env.now - self.began) as f64 / 1e6;
            env.recorder.record(LATENCY, milliseconds);
            self.next = Next::GetRequest;
        }
        match self.next {
            Next::TakeStart => {
                self.next = Next::LeaveStart;
                Op::Lock(START_MUTEX)
            }
            Next::LeaveStart => {
                self.next = Next::GetRequest;
                Op::Unlock(START_MUTEX)
            }
            Next::GetRequest
                if env.shared[PERFORMED] >= self.requests || env.now >= env.shared[STOP_AT] =>
            {
                Op::Exit
            }
            Next::GetRequest => {
                self.next = Next::CountRequest;
                Op::Lock(REQUEST_MUTEX)
            }
            Next::CountRequest => {
                env.shared[PERFORMED] += 1;
                self.next = Next::Execute;
                Op::Unlock(REQUEST_MUTEX)
            }
            Next::Execute | Next::Done => {
                self.began = env.now;
                self.next = Next::Done;
                Op::Run {
                    work: self.request_work,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Kernel, run_named};

    fn run(threads: u64, cpus: usize) -> Kernel {
        run_named(&format!("sysbench-cpu:threads={threads}"), cpus)
    }

    /// The published times on two Cortex-A15 are 16.47 s for one thread, and at best 16.47 s for two.
    #[test]
    fn threads_share_the_requests() {
        for threads in [1, 2] {
            let kernel = run(threads, 2);
            let time = kernel.recorder.samples(TIME)[0];
            assert!((time - 16.47).abs() < 0.01, "{time}");
            let latencies = kernel.recorder.samples(LATENCY);
            assert_eq!(latencies.len() as u64, threads * 1000);
            assert!(latencies.iter().all(|&ms| (ms - 16.47).abs() < 1e-6));
        }
    }

    #[test]
    fn the_bound_is_met_when_every_thread_has_a_cpu() {
        let workload = crate::load("sysbench-cpu:threads=3,requests=100").unwrap();
        let bound = workload.cpu_bound().unwrap();
        let best = bound.work as f64 / bound.parallelism as f64 / 1e9;
        let time = Kernel::run(&*workload, 3).recorder.samples(bound.metric)[0];
        assert!(time >= best && time < best * 1.02, "{time} {best}");
    }
}
