//! Repeated runs over seeds, in parallel.

use crate::elsewhere::wire::{Request, TIME_LIMIT_NS};
use crate::stats::mean;
use crate::{Samples, Scheduler, metrics};
use machine::Machine;
use native::{Global, Object};
use simulator::{Config, Deadlock, GroupRequest, Outcome, Trace};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use workload::Workload;

/// The length in ns from which a wait that is still open at the end is a stall. Users notice a tenth of a second, which
/// is longer than the slices of all schedulers here.
pub const STALL_NS: u64 = 100_000_000;
/// The factor by which a stall is also longer than the thread's longest wait before it, because
/// threads of little weight or with a small quota have long waits, too.
const STALL_WAITS: u64 = 4;

/// A workload on a machine under a scheduler.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload.
    pub workload: &'a dyn Workload,
    /// The scheduler.
    pub scheduler: &'a Scheduler,
}

/// The number of runs of a case, and their seeds.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// The number of runs.
    pub count: u32,
    /// The base of the runs' seeds.
    pub seed: u64,
    /// The number of concurrent runs; 0 is the number of this computer's CPUs. It does not affect results.
    pub jobs: usize,
    /// Do threads have the noise of a real machine ([`workload::with_noise`])? Experiments are exact, so that their
    /// figures follow only from their models.
    pub noise: bool,
}

impl Runs {
    fn request(&self, run: u32, traced: bool) -> Request {
        Request {
            run,
            count: self.count,
            seed: self.seed_of(run),
            traced,
            noise: self.noise,
        }
    }

    /// The seed of run `run`, counted from 0. The seed depends only on [`Runs::seed`] and the number. Every case thus
    /// has the same seeds, so that schedulers are compared in pairs of equal runs.
    pub fn seed_of(&self, run: u32) -> u64 {
        // splitmix64 (Steele, Lea, Flood 2014): the run-th output of the generator.
        let mut z = self
            .seed
            .wrapping_add((u64::from(run) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The kept results of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The samples of each metric ([`metrics`](crate::metrics())), and then the samples of new-idle balancing.
    pub samples: Vec<Samples>,
    /// The energy of the run, by part of the machine; `None` if power is not known.
    pub energy: Option<simulator::Energy>,
    /// The kernel's counters.
    pub counters: simulator::Counters,
    /// The scheduler's counters, if it is one of Equipoise's own.
    pub balancing: Option<policy::Counters>,
    /// Simulated time in ns.
    pub simulated_ns: u64,
    /// The requests of the workload's control groups that the scheduler cannot keep.
    pub ignored: Vec<GroupRequest>,
    /// The run's threads, by name.
    pub threads: Vec<Threads>,
    /// The threads that were runnable but had stopped running long before the end.
    pub stalled: Vec<Stalled>,
    /// The deadlock that lasted until the end, unless it was shorter than a stall.
    pub deadlock: Option<Deadlock>,
}

impl Run {
    /// Was the run the same as `other`, in everything that is measured?
    pub fn is_same(&self, other: &Run) -> bool {
        (&self.samples, &self.counters, self.simulated_ns)
            == (&other.samples, &other.counters, other.simulated_ns)
    }
}

/// The threads of a run that have the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Threads {
    /// The name.
    pub name: String,
    /// The CPU time of the threads, in ns.
    pub cpu_ns: u64,
    /// The longest time for which one of the threads was runnable and did not run, in ns.
    pub longest_wait_ns: u64,
}

/// A thread that was runnable and did not run from some time until the end of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stalled {
    /// The thread's name.
    pub thread: String,
    /// The time since which it did not run, in ns.
    pub since_ns: u64,
}

/// The observer of runs.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// The function that is called after each run.
    pub done: &'a (dyn Fn() + Sync),
    /// When this becomes true, current runs are abandoned.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    /// A watch without an observer.
    pub fn none() -> Watch<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Watch {
            done: &|| (),
            stop: &NEVER,
        }
    }
}

/// The runs of a case, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The results of each run.
    pub runs: Vec<Run>,
}

impl Measured {
    /// The samples of `metric` in each run.
    pub fn samples(&self, metric: usize) -> impl Iterator<Item = &Samples> {
        self.runs.iter().map(move |run| &run.samples[metric])
    }

    /// The mean of `metric` in each run; `None` unless every run has one.
    pub fn means(&self, metric: usize) -> Option<Vec<f64>> {
        self.samples(metric).map(Samples::mean).collect()
    }

    /// Were all runs the same as those of `other`?
    pub fn is_same(&self, other: &Measured) -> bool {
        let mut pairs = self.runs.iter().zip(&other.runs);
        self.runs.len() == other.runs.len() && pairs.all(|(one, other)| one.is_same(other))
    }

    /// The threads of all runs, by name, in the order in which the runs have them, with their average CPU time and their
    /// longest wait in any run.
    pub fn threads(&self) -> Vec<Threads> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut threads: Vec<Threads> = Vec::new();
        for own in self.runs.iter().flat_map(|run| &run.threads) {
            let place = *places.entry(&own.name).or_insert(threads.len());
            if let Some(all) = threads.get_mut(place) {
                all.cpu_ns += own.cpu_ns;
                all.longest_wait_ns = all.longest_wait_ns.max(own.longest_wait_ns);
            } else {
                threads.push(own.clone());
            }
        }
        for thread in &mut threads {
            thread.cpu_ns /= self.runs.len() as u64;
        }
        threads
    }

    /// The names of the threads that stalled, in order. Each has the number of runs in which a thread of this name
    /// stalled, and the time since which the earliest such thread of the first of these runs stalled, in ns.
    pub fn stalled(&self) -> Vec<(String, usize, u64)> {
        let mut found: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for run in &self.runs {
            let mut own: BTreeMap<&str, u64> = BTreeMap::new();
            for stalled in &run.stalled {
                let since = own.entry(&stalled.thread).or_insert(stalled.since_ns);
                *since = stalled.since_ns.min(*since);
            }
            for (thread, since) in own {
                found.entry(thread).or_insert((0, since)).0 += 1;
            }
        }
        let found = found.into_iter();
        found
            .map(|(thread, (runs, since))| (thread.to_owned(), runs, since))
            .collect()
    }

    /// The deadlock of the first run that had one, and the number of such runs.
    pub fn deadlock(&self) -> Option<(&Deadlock, usize)> {
        let mut found = self.runs.iter().filter_map(|run| run.deadlock.as_ref());
        Some((found.next()?, 1 + found.count()))
    }

    /// The mean over the runs of `count`; NaN without a run.
    pub fn mean_of(&self, count: impl Fn(&Run) -> f64) -> f64 {
        let counts: Vec<f64> = self.runs.iter().map(count).collect();
        mean(&counts).unwrap_or(f64::NAN)
    }

    /// The mean energy of a run in the parts for which `which` is true, in J; `None` if power is not known.
    pub fn mean_energy_j(&self, which: impl Fn(simulator::Part) -> bool) -> Option<f64> {
        let of = |run: &Run| run.energy.as_ref().map(|energy| energy.sum_j(&which));
        let joules: Option<Vec<f64>> = self.runs.iter().map(of).collect();
        mean(&joules?)
    }

    /// The part of all CPUs' time spent in newidle balancing, in per cent, averaged over the runs;
    /// `None` for a scheduler that does not count it.
    pub fn newidle_time_pct(&self) -> Option<f64> {
        let share = |run: &Run| {
            let time = run.simulated_ns as f64 * run.counters.busy_ns.len() as f64;
            let newidle = run.balancing.as_ref()?.newidle_ns as f64;
            (time > 0.0).then(|| 100.0 * newidle / time)
        };
        let shares: Option<Vec<f64>> = self.runs.iter().map(share).collect();
        mean(&shares?)
    }

    /// The mean over the runs of `count` of the scheduler's counters; `None` if the scheduler has none.
    pub fn mean_of_balancing(&self, count: impl Fn(&policy::Counters) -> u64) -> Option<f64> {
        let counts: Option<Vec<f64>> = self
            .runs
            .iter()
            .map(|run| {
                run.balancing
                    .as_ref()
                    .map(|counters| count(counters) as f64)
            })
            .collect();
        mean(&counts?)
    }
}

/// A failed run, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{scheduler} on {machine} with {workload}, run {run} (seed {seed:#x}): {error}")]
pub struct Failure {
    /// The scheduler's name.
    pub scheduler: String,
    /// The machine's name.
    pub machine: String,
    /// The workload's name.
    pub workload: String,
    /// The number of the run, from 0.
    pub run: u32,
    /// The seed of the run.
    pub seed: u64,
    /// The error.
    pub error: simulator::Error,
    /// Is the scheduler foreign?
    pub foreign: bool,
}

/// Runs every case `runs.count` times; the result is in the order of `cases`, and does not depend on `runs.jobs`. Cases
/// are run seed by seed, so that every case has the same number of complete runs if the measurement is stopped. If
/// several runs fail, the first failure in the order of runs and cases is returned.
pub fn measure(
    cases: &[Case<'_>],
    runs: &Runs,
    watch: Watch<'_>,
) -> Result<Vec<Measured>, Box<Failure>> {
    let globals: Vec<Vec<Global>> = cases
        .iter()
        .map(|case| case.scheduler.globals(case.machine))
        .collect();
    let count = runs.count as usize;
    let results = in_order(cases.len() * count, runs.jobs, |index| {
        let (run, nr) = ((index / cases.len()) as u32, index % cases.len());
        measure_one(&cases[nr], &globals[nr], runs, run, watch)
    })?;
    let mut measured: Vec<Measured> = cases
        .iter()
        .map(|_| Measured { runs: Vec::new() })
        .collect();
    let complete = results.len() / cases.len().max(1) * cases.len();
    for (index, run) in results.into_iter().take(complete).enumerate() {
        measured[index % cases.len()].runs.push(run);
    }
    Ok(measured)
}

/// Runs `case` as [`measure`] does, but only the runs `which`, one after another. `None` if these runs were stopped.
pub fn measure_part(
    case: &Case<'_>,
    runs: &Runs,
    which: Range<u32>,
    watch: Watch<'_>,
) -> Result<Option<Measured>, Box<Failure>> {
    let globals = case.scheduler.globals(case.machine);
    let measured: Option<Vec<Run>> = which
        .map(|run| measure_one(case, &globals, runs, run, watch).transpose())
        .collect::<Option<Result<_, _>>>()
        .transpose()?;
    Ok(measured.map(|runs| Measured { runs }))
}

/// The result of run `run` of `case`; `None` if the run was stopped.
fn measure_one(
    case: &Case<'_>,
    globals: &[Global],
    runs: &Runs,
    run: u32,
    watch: Watch<'_>,
) -> Result<Option<Run>, Box<Failure>> {
    if watch.stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let object = case.scheduler.object();
    let request = runs.request(run, false);
    let result = match simulate(case, object, globals, &request, None, watch.stop) {
        Err(simulator::Error::Stopped) => return Ok(None),
        Err(error) => Err(failure(case, run, request.seed, error)),
        Ok(outcome) => Ok(Some(keep(case, outcome))),
    };
    (watch.done)();
    result
}

/// The number of complete runs of each case.
pub(crate) fn complete(measured: &[Measured]) -> u32 {
    measured.first().map_or(0, |case| case.runs.len() as u32)
}

/// The result of a traced run: its deadlock, as [`Run`] has it.
pub type Traced = Result<Option<Deadlock>, Box<Failure>>;

/// Repeats run 0 of `case`, up to its end or until `stop` is true, and sends its scheduling events to `trace`. The
/// error of a run that was stopped is [`simulator::Error::Stopped`].
pub fn trace_until(
    case: &Case<'_>,
    runs: &Runs,
    trace: &mut dyn Trace,
    stop: &AtomicBool,
) -> Traced {
    trace_run(case, runs, 0, trace, stop)
}

/// Traces as [`trace_until`] does, but traces run `run`.
pub fn trace_run(
    case: &Case<'_>,
    runs: &Runs,
    run: u32,
    trace: &mut dyn Trace,
    stop: &AtomicBool,
) -> Traced {
    trace_object(case, case.scheduler.object(), runs, run, trace, stop)
}

/// Traces as [`trace_until`] does, and adds a [`simulator::Event::Decision`] for each decision of Equipoise's own
/// scheduler.
pub fn explain_until(
    case: &Case<'_>,
    runs: &Runs,
    trace: &mut dyn Trace,
    stop: &AtomicBool,
) -> Traced {
    let object = case.scheduler.explaining_object().map_err(|error| {
        let seed = runs.request(0, true).seed;
        failure(case, 0, seed, simulator::Error::Fault(error.to_string()))
    })?;
    trace_object(case, object, runs, 0, trace, stop)
}

fn trace_object(
    case: &Case<'_>,
    object: &Object,
    runs: &Runs,
    run: u32,
    trace: &mut dyn Trace,
    stop: &AtomicBool,
) -> Traced {
    let globals = case.scheduler.globals(case.machine);
    let request = runs.request(run, true);
    simulate(case, object, &globals, &request, Some(trace), stop)
        .map(|outcome| deadlock(&outcome))
        .map_err(|error| failure(case, run, request.seed, error))
}

/// Runs the case, in another process if the scheduler requires that.
fn simulate(
    case: &Case<'_>,
    object: &Object,
    globals: &[Global],
    request: &Request,
    trace: Option<&mut dyn Trace>,
    stop: &AtomicBool,
) -> Result<Outcome, simulator::Error> {
    match case.scheduler.workers() {
        Some(workers) => workers.run(case.machine, case.workload, *request, trace, stop),
        None => simulate_object(case, object, globals, request, trace, stop),
    }
}

/// Runs the case in this process, to its end.
pub(crate) fn simulate_here(
    case: &Case<'_>,
    globals: &[Global],
    request: &Request,
    trace: Option<&mut dyn Trace>,
) -> Result<Outcome, simulator::Error> {
    let object = case.scheduler.object();
    let stop = Watch::none().stop;
    simulate_object(case, object, globals, request, trace, stop)
}

fn simulate_object(
    case: &Case<'_>,
    object: &Object,
    globals: &[Global],
    request: &Request,
    trace: Option<&mut dyn Trace>,
    stop: &AtomicBool,
) -> Result<Outcome, simulator::Error> {
    let of_run = case.workload.of_run(request.run, request.count);
    let workload = of_run.as_deref().unwrap_or(case.workload);
    let noisy = workload::with_noise(workload, request.seed);
    let restart: simulator::Globals<'_> = &|machine| case.scheduler.globals(machine);
    let config = Config {
        machine: case.machine,
        workload: if request.noise { &noisy } else { workload },
        scheduler: object,
        globals,
        // A scheduler in C runs without its loader.
        restart: (!case.scheduler.is_foreign()).then_some(restart),
        read: case.scheduler.counters_symbol(),
        callbacks: case.machine.callbacks.get(case.scheduler.name()),
        seed: request.seed,
        time_limit_ns: TIME_LIMIT_NS,
        trace: match trace {
            Some(trace) => Some(&mut *trace),
            None => None,
        },
    };
    simulator::run_until(config, stop)
}

fn keep(case: &Case<'_>, outcome: Outcome) -> Run {
    let own = 0..case.workload.metrics().len();
    let (threads, stalled, deadlock) = (threads(&outcome), stalled(&outcome), deadlock(&outcome));
    let machines = metrics::samples(case.workload, case.machine, &outcome, &threads);
    let balancing = case.scheduler.counters(&outcome.read);
    let newidle = metrics::newidle_samples(&outcome, balancing.as_ref());
    Run {
        samples: own
            .map(|metric| Samples::recorded(&outcome.recorder, metric))
            .chain(machines.iter().map(|sample| Samples::new(sample)))
            .chain(newidle.iter().map(|samples| Samples::new(samples)))
            .collect(),
        energy: outcome.energy,
        balancing,
        counters: outcome.counters,
        simulated_ns: outcome.simulated_ns,
        ignored: match outcome.has_groups && case.scheduler.lacks_groups() {
            true => vec![GroupRequest::Groups],
            false => outcome.ignored,
        },
        threads,
        stalled,
        deadlock,
    }
}

/// The threads of a run by name, in the order of their creation.
fn threads(outcome: &Outcome) -> Vec<Threads> {
    let mut found: Vec<Threads> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for task in &outcome.tasks {
        let index = *known.entry(&task.name).or_insert_with(|| {
            found.push(Threads {
                name: task.name.clone(),
                cpu_ns: 0,
                longest_wait_ns: 0,
            });
            found.len() - 1
        });
        let threads = &mut found[index];
        threads.cpu_ns += task.cpu_ns;
        let wait = task.longest_wait_ns.max(open_wait(task, outcome));
        threads.longest_wait_ns = threads.longest_wait_ns.max(wait);
    }
    found
}

/// The threads that had stopped running: the last wait of each thread is not over, and is much longer than its waits
/// before.
fn stalled(outcome: &Outcome) -> Vec<Stalled> {
    let stalled = |task: &&simulator::TaskTotals| {
        let usual = STALL_WAITS * task.longest_wait_ns;
        open_wait(task, outcome) >= STALL_NS.max(usual)
    };
    let tasks = outcome.tasks.iter().filter(stalled);
    tasks
        .filter_map(|task| {
            Some(Stalled {
                thread: task.name.clone(),
                since_ns: task.waits_since_ns?,
            })
        })
        .collect()
}

fn deadlock(outcome: &Outcome) -> Option<Deadlock> {
    let is_stall = |it: &Deadlock| outcome.simulated_ns.saturating_sub(it.at_ns) >= STALL_NS;
    outcome.deadlock.clone().filter(is_stall)
}

fn open_wait(task: &simulator::TaskTotals, outcome: &Outcome) -> u64 {
    let since = task.waits_since_ns.unwrap_or(outcome.simulated_ns);
    outcome.simulated_ns.saturating_sub(since)
}

fn failure(case: &Case<'_>, run: u32, seed: u64, error: simulator::Error) -> Box<Failure> {
    Box::new(Failure {
        scheduler: case.scheduler.name().to_owned(),
        machine: case.machine.name.clone(),
        workload: case.workload.name().to_owned(),
        run,
        seed,
        error,
        foreign: case.scheduler.is_foreign(),
    })
}

/// Calls `work(0)`, `work(1)`, ... on `jobs` threads, starting the calls in this order; 0 jobs means the number of this
/// computer's CPUs. Returns all results in order up to the first abandoned one (`None`) or, if there are errors, the
/// error with the lowest index. After an abandoned result or an error, no further calls are started.
fn in_order<T: Send, E: Send>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> Result<Option<T>, E> + Sync,
) -> Result<Vec<T>, E> {
    let (next, end) = (AtomicUsize::new(0), AtomicUsize::new(count));
    let results = Mutex::new(Vec::new());
    results
        .lock()
        .expect("no other thread has it yet")
        .resize_with(count, || Ok(None));
    let some = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= end.load(Ordering::Relaxed) {
                return;
            }
            let result = work(index);
            if !matches!(result, Ok(Some(_))) {
                end.fetch_min(index, Ordering::Relaxed);
            }
            results.lock().expect("no other panics with it")[index] = result;
        }
    };
    let jobs = match jobs {
        0 => thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(count) {
            // If no thread can be started, the current thread does all the work.
            let _ = thread::Builder::new().spawn_scoped(scope, some);
        }
        some();
    });
    let results = results.into_inner().expect("no thread is left");
    // An error takes precedence over abandoned work.
    let mut complete = Vec::new();
    let mut whole = true;
    for result in results {
        match result? {
            Some(value) if whole => complete.push(value),
            _ => whole = false,
        }
    }
    Ok(complete)
}

#[cfg(test)]
mod tests;
