//! A throughput load after SPECjbb2005: warehouses, each a thread that executes transactions without
//! a pause. Each thread allocates memory. When the heap is full, the threads stop, and the same
//! number of collectors, all woken at once, clear the heap.
//!
//! The model has only the properties that matter to scheduling: busy threads and bursts of wakeups.

use crate::benchmark::{Benchmark, Model, params};
use machine::Machine;
use workload::{CondId, Env, Metric, MetricId, MutexId, Op, Program, Start, TaskSpec};

params! {
    struct Setup {
        warehouses: Count(1..=4096) = 16, "the number of threads that make transactions (default 16)";
        duration: S(100_000_000..=3_600_000_000_000) = 10_000_000_000,
            "the time for which the threads make transactions (default 10s)";
        transaction: Us(1_000..=1_000_000_000) = 25_000,
            "work of a transaction at the reference speed: about 40000 per second and CPU, as in results published \
             at that time (default 25 us)";
        heap: Count(1..=1_000_000_000) = 400_000,
            "the number of transactions that fill the heap: a collection every few hundred ms on such machines; an \
             assumption (default 400000)";
        collection: Us(0..=100_000_000_000) = 200_000_000,
            "work of a collection at the reference speed, over all collectors; an assumption (default 200 ms)";
    }
}

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "specjbb",
    description: "transactions by busy threads, stopped now and then for a parallel garbage collection",
    params: Setup::PARAMS,
    metrics: &[Metric::throughput("throughput", "1/s")],
    make: |args| Box::new(Setup::new(args)),
};

const THROUGHPUT: MetricId = 0;

/// The number of transactions between two checks of the heap (a thread's allocation buffer).
const BATCH: u64 = 20;

const HEAP: MutexId = 0;
const COLLECT: CondId = 0;
const RESUME: CondId = 1;

/// The shared words: the numbers of transactions since the last collection and in total; the number of threads that
/// execute transactions, and the number of these threads that have stopped; whether the heap is full; the number of
/// active collectors; and the numbers of collections begun and completed.
const ALLOCATED: usize = 0;
const DONE: usize = 1;
const RUNNING: usize = 2;
const STOPPED: usize = 3;
const FULL: usize = 4;
const COLLECTING: usize = 5;
const COLLECTIONS: usize = 6;
const COLLECTED: usize = 7;

impl Model for Setup {
    fn start(&self, _machine: &Machine) -> Start {
        let setup = *self;
        let collectors = (0..setup.warehouses).map(|_| {
            let collector = Collector {
                step: CollectorStep::Lock,
                setup,
                seen: 0,
            };
            TaskSpec::new("gc", collector)
        });
        let warehouses = (0..setup.warehouses).map(|_| {
            let warehouse = Warehouse {
                step: WarehouseStep::Work,
                setup,
                resumes_after: 0,
            };
            TaskSpec::new("warehouse", warehouse)
        });
        Start {
            tasks: collectors.chain(warehouses).collect(),
            mutexes: 1,
            condvars: 2,
            shared: vec![0, 0, setup.warehouses, 0, 0, 0, 0, 0],
            ..Start::default()
        }
    }
}

enum WarehouseStep {
    Work,
    Count,
    Stop,
    WaitToResume,
    Resumed,
    Leave,
    Left,
    Exit,
}

struct Warehouse {
    step: WarehouseStep,
    setup: Setup,
    /// The thread has stopped until this number of collections is complete.
    resumes_after: u64,
}

impl Program for Warehouse {
    fn next(&mut self, env: &mut Env) -> Op {
        loop {
            match self.step {
                WarehouseStep::Work if env.now >= self.setup.duration => {
                    self.step = WarehouseStep::Leave;
                    return Op::Lock(HEAP);
                }
                WarehouseStep::Work if env.shared[FULL] == 1 => {
                    self.step = WarehouseStep::Stop;
                    return Op::Lock(HEAP);
                }
                WarehouseStep::Work => {
                    self.step = WarehouseStep::Count;
                    return Op::Run {
                        work: BATCH * self.setup.transaction,
                    };
                }
                WarehouseStep::Count => {
                    env.shared[DONE] += BATCH;
                    env.shared[ALLOCATED] += BATCH;
                    if env.shared[ALLOCATED] >= self.setup.heap {
                        env.shared[FULL] = 1;
                    }
                    self.step = WarehouseStep::Work;
                }
                // Another thread may have cleared the heap while this one waited for the mutex.
                WarehouseStep::Stop if env.shared[FULL] == 0 => {
                    self.step = WarehouseStep::Work;
                    return Op::Unlock(HEAP);
                }
                WarehouseStep::Stop => {
                    env.shared[STOPPED] += 1;
                    self.resumes_after = env.shared[COLLECTED] + 1;
                    self.step = WarehouseStep::WaitToResume;
                    if env.shared[STOPPED] == env.shared[RUNNING] {
                        return begin_collection(env, &self.setup);
                    }
                }
                WarehouseStep::WaitToResume if env.shared[COLLECTED] < self.resumes_after => {
                    return Op::Wait {
                        cond: RESUME,
                        mutex: HEAP,
                    };
                }
                WarehouseStep::WaitToResume => self.step = WarehouseStep::Resumed,
                WarehouseStep::Resumed => {
                    self.step = WarehouseStep::Work;
                    return Op::Unlock(HEAP);
                }
                WarehouseStep::Leave => {
                    env.shared[RUNNING] -= 1;
                    self.step = WarehouseStep::Left;
                    let (running, stopped) = (env.shared[RUNNING], env.shared[STOPPED]);
                    if running == 0 {
                        let seconds = env.now as f64 / 1e9;
                        let throughput = env.shared[DONE] as f64 / seconds;
                        env.recorder.record(THROUGHPUT, throughput);
                        return Op::Broadcast(COLLECT);
                    }
                    if env.shared[FULL] == 1 && running == stopped && env.shared[COLLECTING] == 0 {
                        return begin_collection(env, &self.setup);
                    }
                }
                WarehouseStep::Left => {
                    self.step = WarehouseStep::Exit;
                    return Op::Unlock(HEAP);
                }
                WarehouseStep::Exit => return Op::Exit,
            }
        }
    }
}

/// The op that wakes the collectors for a collection. The caller, which holds the mutex, is the last thread to stop or
/// to leave.
fn begin_collection(env: &mut Env, setup: &Setup) -> Op {
    env.shared[COLLECTING] = setup.warehouses;
    env.shared[COLLECTIONS] += 1;
    Op::Broadcast(COLLECT)
}

enum CollectorStep {
    Lock,
    Wait,
    Collect,
    Finish,
    Finished,
    Resume,
    Exit,
}

struct Collector {
    step: CollectorStep,
    setup: Setup,
    /// The number of collections in which the collector took part.
    seen: u64,
}

impl Program for Collector {
    fn next(&mut self, env: &mut Env) -> Op {
        loop {
            match self.step {
                CollectorStep::Lock => {
                    self.step = CollectorStep::Wait;
                    return Op::Lock(HEAP);
                }
                CollectorStep::Wait if env.shared[COLLECTIONS] > self.seen => {
                    self.seen += 1;
                    self.step = CollectorStep::Collect;
                    return Op::Unlock(HEAP);
                }
                CollectorStep::Wait if env.shared[RUNNING] == 0 => {
                    self.step = CollectorStep::Exit;
                    return Op::Unlock(HEAP);
                }
                CollectorStep::Wait => {
                    return Op::Wait {
                        cond: COLLECT,
                        mutex: HEAP,
                    };
                }
                CollectorStep::Collect => {
                    self.step = CollectorStep::Finish;
                    return Op::Run {
                        work: self.setup.collection / self.setup.warehouses,
                    };
                }
                CollectorStep::Finish => {
                    self.step = CollectorStep::Finished;
                    return Op::Lock(HEAP);
                }
                CollectorStep::Finished => {
                    env.shared[COLLECTING] -= 1;
                    self.step = CollectorStep::Wait;
                    if env.shared[COLLECTING] == 0 {
                        self.step = CollectorStep::Resume;
                    }
                }
                CollectorStep::Resume => {
                    env.shared[ALLOCATED] = 0;
                    env.shared[STOPPED] = 0;
                    env.shared[FULL] = 0;
                    env.shared[COLLECTED] += 1;
                    self.step = CollectorStep::Wait;
                    return Op::Broadcast(RESUME);
                }
                CollectorStep::Exit => return Op::Exit,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Kernel, run_named};

    fn run(params: &str, cpus: usize) -> Kernel {
        run_named(&format!("specjbb:{params}"), cpus)
    }

    #[test]
    fn throughput_is_cpus_over_transactions_less_collections() {
        let kernel = run(
            "warehouses=4,duration=1,transaction=50,heap=40000,collection=50ms",
            2,
        );
        let throughput = kernel.recorder.samples(THROUGHPUT)[0];
        assert!((throughput / 40_000.0 - 1.0).abs() < 0.02, "{throughput}");
        let kernel = run(
            "warehouses=4,duration=1,transaction=50,heap=4000,collection=50ms",
            2,
        );
        let throughput = kernel.recorder.samples(THROUGHPUT)[0];
        assert!((throughput / 32_000.0 - 1.0).abs() < 0.03, "{throughput}");
    }

    #[test]
    fn everyone_ends_whenever_the_heap_is_full() {
        for heap in [1, 100, 500, 999, 1000, 1001] {
            let kernel = run(
                &format!("warehouses=3,duration=0.1,heap={heap},collection=1ms"),
                2,
            );
            assert_eq!(kernel.recorder.samples(THROUGHPUT).len(), 1, "{heap}");
            assert!(kernel.tasks.iter().all(|(_, exited)| *exited), "{heap}");
        }
    }
}
