//! schbench: messengers wake workers in bursts, and the time until each worker runs is measured.
//!
//! The model follows github.com/masoncl/schbench. A worker puts itself into its messenger's list, wakes the messenger
//! and waits; the messenger takes the list and wakes every worker in it. The wakeup latency counts from the time when
//! the messenger began to wake the list, as in the program, so it grows with the place in the list. The program has had
//! two loads:
//!
//! - Since 2023 a worker then sleeps for a while, takes the lock of the CPU on which it is, by polling, and multiplies
//!   matrices under it. The time for all of this is the request latency.
//! - Before, a messenger slept before it woke its list, and a worker computed until the clock had
//!   advanced by a given time.

use crate::benchmark::{Benchmark, CREATE_WORK, Model, param};
use machine::Machine;
use std::sync::{Arc, Mutex};
use workload::{
    Better, Env, Goal, Metric, MetricId, Op, Param, Program, Role, Start, StreamId, StreamKind,
    TaskSpec, Unit,
};

const MESSENGERS: Param =
    param!(messengers: Count(1..=1000) = 1, "schbench's --message-threads (default 1)");

const WORKERS: Param = param!(workers: Count(0..=10_000) = 0,
    "workers per messenger, schbench's --threads; 0: the number of CPUs divided by the number of messengers \
     (default 0)");

const TIME: Param = param!(time: S(1_000_000..=3_600_000_000_000) = 3_000_000_000,
    "the duration (default 3 s; the program's is 30 s)");

const PARAMS: &[Param] = &[
    MESSENGERS,
    WORKERS,
    param!(sleep: Us(0..=1_000_000_000) = 100_000,
        "a worker's sleep before it computes; schbench's --sleep_usec (default 100 us)"),
    param!(work: Us(1_000..=1_000_000_000) = 2_950_000,
        "five products of two matrices of 104 x 104, the default --operations and --cache_footprint, at the \
         reference speed; calibrated on the median request of 5112 us under EEVDF on a Core i7-13700H with its \
         defaults (github.com/sched-ext/scx, issue 938)"),
    TIME,
];

const PARAMS_2016: &[Param] = &[
    MESSENGERS,
    WORKERS,
    param!(sleep: Us(0..=10_000_000_000) = 30_000_000,
        "a messenger's sleep before it wakes its workers, longer by up to a quarter at random; --sleeptime \
         (default 30 ms)"),
    param!(spin: Us(1_000..=10_000_000_000) = 30_000_000,
        "the time for which a worker computes, in wall-clock time; --cputime (default 30 ms)"),
    TIME,
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "schbench",
    description: "schbench: messengers wake workers, which sleep and compute; \
        percentiles of wakeup and request latencies",
    params: PARAMS,
    metrics: METRICS,
    make: |args| {
        Box::new(Setup {
            messengers: args.get("messengers"),
            workers: args.get("workers"),
            time: args.get("time"),
            kind: Kind::Requests {
                sleep: args.get("sleep"),
                work: args.get("work"),
            },
        })
    },
};

pub(crate) const BENCHMARK_2016: Benchmark = Benchmark {
    name: "schbench-2016",
    description: "schbench before 2023: messengers sleep, then wake workers, which spin",
    params: PARAMS_2016,
    metrics: METRICS_2016,
    make: |args| {
        Box::new(Setup {
            messengers: args.get("messengers"),
            workers: args.get("workers"),
            time: args.get("time"),
            kind: Kind::Spins {
                sleep: args.get("sleep"),
                spin: args.get("spin"),
            },
        })
    },
};

/// The percentiles that any version prints.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 100.0];

const fn latency(name: &'static str) -> Metric {
    Metric::new(name, Unit::Us, Better::Lower, Role::Explains(Goal::Latency))
}

const fn judged(name: &'static str) -> Metric {
    Metric::new(name, Unit::Us, Better::Lower, Role::Decides(Goal::Latency))
}

const METRICS: &[Metric] = &[
    latency("wakeup_p50"),
    latency("wakeup_p75"),
    latency("wakeup_p90"),
    latency("wakeup_p95"),
    judged("wakeup_p99"),
    latency("wakeup_p99.5"),
    latency("wakeup_p99.9"),
    latency("wakeup_max"),
    latency("request_p50"),
    latency("request_p75"),
    latency("request_p90"),
    latency("request_p95"),
    latency("request_p99"),
    latency("request_p99.5"),
    latency("request_p99.9"),
    latency("request_max"),
    Metric::throughput("requests", "1/s"),
];

const METRICS_2016: &[Metric] = METRICS.split_at(PERCENTILES.len()).0;

const REQUESTS: MetricId = 2 * PERCENTILES.len();

/// The work between two reads of the clock by a spinning worker, in ns at the reference speed.
const CHUNK: u64 = 10_000;

#[derive(Clone, Copy)]
enum Kind {
    Requests { sleep: u64, work: u64 },
    Spins { sleep: u64, spin: u64 },
}

#[derive(Clone, Copy)]
struct Setup {
    messengers: u64,
    workers: u64,
    time: u64,
    kind: Kind,
}

/// The latencies of all workers, in ns: first the wakeup latencies, then the request latencies.
type Latencies = Arc<Mutex<[Vec<u64>; 2]>>;

/// The shared words. The first word says whether the time is over. Each messenger has words for the first worker of its
/// list (0 stands for none; otherwise the word is the worker's number plus one), for whether the messenger has been
/// posted, for whether it sleeps until it is posted, and for the number of its workers that have not left. Each worker
/// has words for the next worker in the list, and for the time at which the messenger began to wake the list.
#[derive(Clone, Copy)]
struct Words {
    messengers: usize,
}

const OVER: usize = 0;

impl Words {
    fn list(self, messenger: usize) -> usize {
        1 + 4 * messenger
    }
    fn posted(self, messenger: usize) -> usize {
        2 + 4 * messenger
    }
    fn waits(self, messenger: usize) -> usize {
        3 + 4 * messenger
    }
    fn left(self, messenger: usize) -> usize {
        4 + 4 * messenger
    }
    fn next(self, worker: usize) -> usize {
        1 + 4 * self.messengers + 2 * worker
    }
    fn woken_at(self, worker: usize) -> usize {
        2 + 4 * self.messengers + 2 * worker
    }
}

impl Setup {
    fn workers_each(&self, machine: &Machine) -> u64 {
        let cpus = machine.all_cpus().count() as u64;
        match self.workers {
            0 => cpus.div_ceil(self.messengers),
            workers => workers,
        }
    }
}

impl Model for Setup {
    fn start(&self, machine: &Machine) -> Start {
        let (messengers, each) = (
            self.messengers as usize,
            self.workers_each(machine) as usize,
        );
        let words = Words { messengers };
        let workers = messengers * each;
        let mut shared = vec![0; words.next(workers)];
        for messenger in 0..messengers {
            shared[words.left(messenger)] = each as u64;
        }
        let latencies = Latencies::default();
        let main = Main {
            setup: *self,
            each,
            created: 0,
            ends_at: None,
            latencies,
        };
        Start {
            tasks: vec![TaskSpec::new("schbench", main)],
            streams: vec![StreamKind::Futex.holding(1); messengers + workers],
            mutexes: machine.cpus.len(),
            shared,
            ..Start::default()
        }
    }
}

struct Main {
    setup: Setup,
    each: usize,
    created: usize,
    ends_at: Option<u64>,
    latencies: Latencies,
}

impl Program for Main {
    fn next(&mut self, env: &mut Env) -> Op {
        let messengers = self.setup.messengers as usize;
        if self.created < messengers {
            let messenger = Messenger {
                setup: self.setup,
                number: self.created,
                each: self.each,
                created: 0,
                waking: 0,
                began: 0,
                at: AtMessenger::Create,
                latencies: self.latencies.clone(),
            };
            self.created += 1;
            return Op::Fork {
                child: Box::new(TaskSpec::new("message", messenger)),
                work: CREATE_WORK,
            };
        }
        let Some(_) = self.ends_at else {
            let at = env.now + self.setup.time;
            self.ends_at = Some(at);
            return Op::SleepUntil { at };
        };
        env.shared[OVER] = 1;
        let mut latencies = self.latencies.lock().expect("no program panics");
        for (kind, latencies) in latencies.iter_mut().enumerate() {
            latencies.sort_unstable();
            if latencies.is_empty() {
                continue;
            }
            for (index, percentile) in PERCENTILES.iter().enumerate() {
                let rank = (percentile / 100.0 * latencies.len() as f64).ceil() as usize;
                let us = latencies[rank.clamp(1, latencies.len()) - 1] as f64 / 1e3;
                env.recorder.record(kind * PERCENTILES.len() + index, us);
            }
        }
        if let Kind::Requests { .. } = self.setup.kind {
            let seconds = self.setup.time as f64 / 1e9;
            let requests = latencies[1].len() as f64;
            env.recorder.record(REQUESTS, requests / seconds);
        }
        Op::Exit
    }
}

#[derive(Clone, Copy)]
enum AtMessenger {
    Create,
    Take,
    Wake,
    Wait,
    Sleep,
}

struct Messenger {
    setup: Setup,
    number: usize,
    each: usize,
    created: usize,
    /// The rest of the list that the messenger is waking.
    waking: u64,
    /// The time at which the messenger began with that list.
    began: u64,
    at: AtMessenger,
    latencies: Latencies,
}

impl Program for Messenger {
    fn next(&mut self, env: &mut Env) -> Op {
        let words = Words {
            messengers: self.setup.messengers as usize,
        };
        loop {
            match self.at {
                AtMessenger::Create if self.created < self.each => {
                    let worker = Worker {
                        setup: self.setup,
                        messenger: self.number,
                        number: self.number * self.each + self.created,
                        began: 0,
                        locked: 0,
                        at: AtWorker::Ask,
                        latencies: self.latencies.clone(),
                    };
                    self.created += 1;
                    return Op::Fork {
                        child: Box::new(TaskSpec::new("worker", worker)),
                        work: CREATE_WORK,
                    };
                }
                AtMessenger::Create => self.at = AtMessenger::Take,
                AtMessenger::Take => {
                    if env.shared[words.left(self.number)] == 0 {
                        return Op::Exit;
                    }
                    env.shared[words.posted(self.number)] = 0;
                    self.waking = std::mem::take(&mut env.shared[words.list(self.number)]);
                    self.began = env.now;
                    self.at = AtMessenger::Wake;
                }
                AtMessenger::Wake if self.waking == 0 => self.at = AtMessenger::Wait,
                AtMessenger::Wake => {
                    let worker = self.waking as usize - 1;
                    self.waking = env.shared[words.next(worker)];
                    env.shared[words.woken_at(worker)] = self.began;
                    return Op::Write {
                        stream: (words.messengers + worker) as StreamId,
                        bytes: 1,
                        work: 0,
                    };
                }
                AtMessenger::Wait => {
                    self.at = AtMessenger::Sleep;
                    if env.shared[words.posted(self.number)] == 1 {
                        continue;
                    }
                    env.shared[words.waits(self.number)] = 1;
                    return Op::Read {
                        stream: self.number as StreamId,
                        bytes: 1,
                        work: 0,
                    };
                }
                AtMessenger::Sleep => {
                    self.at = AtMessenger::Take;
                    // The messenger has taken the post, so the next worker posts again.
                    env.shared[words.posted(self.number)] = 0;
                    if let Kind::Spins { sleep, .. } = self.setup.kind
                        && sleep > 0
                    {
                        let jitter = env.rng.below((sleep / 4).max(1));
                        return Op::Sleep { ns: sleep + jitter };
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum AtWorker {
    Ask,
    Wait,
    Woken,
    Slept,
    Locked,
    Worked,
    Spinning,
    Gone,
}

struct Worker {
    setup: Setup,
    messenger: usize,
    number: usize,
    /// The time at which the worker's request or spinning began, in ns.
    began: u64,
    locked: usize,
    at: AtWorker,
    latencies: Latencies,
}

impl Worker {
    fn record(&self, kind: usize, ns: u64) {
        self.latencies.lock().expect("no program panics")[kind].push(ns);
    }

    /// Posts the futex of the worker's messenger, and wakes the messenger if it waits.
    fn post(&self, words: Words, env: &mut Env) -> Option<Op> {
        let posted = &mut env.shared[words.posted(self.messenger)];
        if std::mem::replace(posted, 1) == 1 {
            return None;
        }
        let waits = &mut env.shared[words.waits(self.messenger)];
        (std::mem::take(waits) == 1).then_some(Op::Write {
            stream: self.messenger as StreamId,
            bytes: 1,
            work: 0,
        })
    }
}

impl Program for Worker {
    fn next(&mut self, env: &mut Env) -> Op {
        let words = Words {
            messengers: self.setup.messengers as usize,
        };
        loop {
            match self.at {
                AtWorker::Ask if env.shared[OVER] == 1 => {
                    env.shared[words.left(self.messenger)] -= 1;
                    self.at = AtWorker::Gone;
                    if let Some(op) = self.post(words, env) {
                        return op;
                    }
                }
                AtWorker::Gone => return Op::Exit,
                AtWorker::Ask => {
                    env.shared[words.woken_at(self.number)] = env.now;
                    let list = words.list(self.messenger);
                    env.shared[words.next(self.number)] = env.shared[list];
                    env.shared[list] = self.number as u64 + 1;
                    self.at = AtWorker::Wait;
                    if let Some(op) = self.post(words, env) {
                        return op;
                    }
                }
                AtWorker::Wait => {
                    self.at = AtWorker::Woken;
                    return Op::Read {
                        stream: (words.messengers + self.number) as StreamId,
                        bytes: 1,
                        work: 0,
                    };
                }
                AtWorker::Woken => {
                    let latency = env.now - env.shared[words.woken_at(self.number)];
                    self.record(0, latency);
                    self.began = env.now;
                    match self.setup.kind {
                        Kind::Requests { sleep, .. } => {
                            self.at = AtWorker::Slept;
                            return Op::Sleep { ns: sleep };
                        }
                        Kind::Spins { .. } => self.at = AtWorker::Spinning,
                    }
                }
                AtWorker::Slept => {
                    self.locked = env.cpu;
                    self.at = AtWorker::Locked;
                    return Op::SpinLock(self.locked as u32);
                }
                // The worker has moved to another CPU, and takes that CPU's lock.
                AtWorker::Locked if env.cpu != self.locked => {
                    self.at = AtWorker::Slept;
                    return Op::Unlock(self.locked as u32);
                }
                AtWorker::Locked => {
                    let Kind::Requests { work, .. } = self.setup.kind else {
                        unreachable!("only requests lock");
                    };
                    self.at = AtWorker::Worked;
                    return Op::Run { work };
                }
                AtWorker::Worked => {
                    self.record(1, env.now - self.began);
                    self.at = AtWorker::Ask;
                    return Op::Unlock(self.locked as u32);
                }
                AtWorker::Spinning => {
                    let Kind::Spins { spin, .. } = self.setup.kind else {
                        unreachable!("only the older load spins");
                    };
                    if env.now < self.began + spin {
                        return Op::Run { work: CHUNK };
                    }
                    self.at = AtWorker::Ask;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Kernel, run_named};

    fn samples(kernel: &Kernel, name: &str, metrics: &[Metric]) -> f64 {
        let index = metrics.iter().position(|metric| metric.name == name);
        kernel.recorder.samples(index.unwrap())[0]
    }

    #[test]
    fn idle_cpus_serve_requests_in_their_own_time() {
        let kernel = run_named("schbench:workers=3,time=1", 4);
        assert!(kernel.left().is_empty(), "{:?}", kernel.left());
        let value = |name| samples(&kernel, name, METRICS);
        assert!((3_050.0..3_110.0).contains(&value("request_p50")));
        assert!(value("wakeup_p99") < 100.0);
        let requests = value("requests");
        assert!((945.0..985.0).contains(&requests), "{requests}");
    }

    #[test]
    fn busy_cpus_delay_requests() {
        let kernel = run_named("schbench:workers=4,time=1", 1);
        assert!(kernel.left().is_empty());
        let requests = samples(&kernel, "requests", METRICS);
        assert!((325.0..340.0).contains(&requests), "{requests}");
        let median = samples(&kernel, "request_p50", METRICS);
        assert!(median > 3.0 * 2_950.0, "{median}");
    }

    #[test]
    fn the_older_load_wakes_each_messenger_s_workers_at_once() {
        let kernel = run_named("schbench-2016:messengers=2,workers=2,time=2", 6);
        assert!(kernel.left().is_empty());
        let value = |name| samples(&kernel, name, METRICS_2016);
        assert!(value("wakeup_p50") < 100.0 && value("wakeup_max") < 5_000.0);
    }
}
