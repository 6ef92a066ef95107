//! Measures how much worse a scheduler does on a load than another scheduler, or than the physical limit.

use super::Ground;
use crate::elsewhere::{Described, Recipe, Start};
use crate::stats::mean;
use crate::{Case, Failure, Runs, STALL_NS, Scheduler, Watch, measure_part, trace_run};
use machine::Machine;
use simulator::{Event, Trace};
use std::sync::atomic::{AtomicBool, Ordering};
use workload::Workload;

/// The measure by which a scheduler is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The progress of a thread that gets less than it is entitled to.
    Share,
    /// The longest time for which a thread that is not real-time waits for a CPU.
    Wait,
    /// The time until all threads have ended.
    Time,
    /// The energy until all threads have ended.
    Energy,
}

impl By {
    /// Every measure, in the order in which help lists them.
    pub const ALL: [By; 4] = [By::Share, By::Wait, By::Time, By::Energy];

    /// Does the measure judge real-time threads, which no sched_ext scheduler places?
    pub fn judges_realtime(self) -> bool {
        matches!(self, By::Time | By::Energy)
    }

    /// The measure's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            By::Share => "share",
            By::Wait => "wait",
            By::Time => "time",
            By::Energy => "energy",
        }
    }
}

/// The other side of a comparison.
#[derive(Clone)]
pub enum Against {
    /// Another scheduler.
    Scheduler(Box<Scheduler>),
    /// The shortest possible time.
    Limit,
}

/// The parts of a hunt that do not change.
pub struct Question<'a> {
    /// The scheduler for which a bad load is searched.
    pub scheduler: &'a Scheduler,
    /// The other side of the comparison.
    pub against: &'a Against,
    /// The measure.
    pub by: By,
    /// May loads have real-time threads?
    pub realtime: bool,
    /// The seed from which the seeds of loads and runs derive.
    pub seed: u64,
    /// Do threads have noise? See [`Runs::noise`].
    pub noise: bool,
    /// The function that starts the processes of schedulers in C.
    pub start: &'a Start,
    /// When this becomes true, the search is abandoned.
    pub stop: &'a AtomicBool,
}

/// Shorter waits count as this one, in ns, because the difference between two short waits does not matter.
const SHORT_WAIT_NS: f64 = 1e6;
/// The smallest progress of a thread that matters, as a share of a CPU.
const LEAST_SHARE: f64 = 0.01;
/// Lower progress counts as this share of a CPU, so that the factor is finite.
const NO_SHARE: f64 = 0.001;
/// The factor of a scheduler that was stopped, as by the watchdog.
pub const STOPPED: f64 = 1000.0;

/// The thread that a scheduler treats worst.
#[derive(Clone, Debug, PartialEq)]
pub struct Victim {
    /// The thread's name.
    pub thread: String,
    /// The time when the thread's longest wait began, in ns.
    pub since_ns: u64,
    /// The length of this wait in ns.
    pub wait_ns: u64,
    /// Did the thread never run again?
    pub stalls: bool,
}

impl Question<'_> {
    /// The factor by which the scheduler does worse on `text` than its opponent, over `runs` runs; `None` if the
    /// machine cannot run the load, the measure does not apply, the opponent is stopped, or the hunt is over.
    /// [`STOPPED`] if the scheduler is stopped and its opponent is not. `limit_s` is the shortest possible time.
    pub fn factor(
        &self,
        ground: &Ground,
        text: &str,
        runs: u32,
        limit_s: Option<f64>,
    ) -> Result<Option<f64>, Box<Failure>> {
        let machine = &ground.machine;
        let Ok(workload) = workload::parse("load", "load.json", text, None) else {
            return Ok(None);
        };
        if workload.check(machine).is_err() {
            return Ok(None);
        }
        let measure = |scheduler: &Scheduler| {
            let scheduler = self.elsewhere(ground, text, scheduler);
            self.measure(machine, &*workload, &scheduler, runs)
        };
        let other = match self.against {
            Against::Limit => None,
            Against::Scheduler(other) => match measure(other) {
                Ok(Some(found)) => Some(found),
                Ok(None) => return Ok(None),
                Err(failure) if is_stopped(&failure) => return Ok(None),
                Err(failure) => return Err(failure),
            },
        };
        let own = match measure(self.scheduler) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(failure) if is_stopped(&failure) => return Ok(Some(STOPPED)),
            Err(failure) => return Err(failure),
        };
        Ok(match (own, other) {
            (Found::Value(own), Some(Found::Value(other))) => Some(own / other),
            (Found::Value(own), None) => limit_s.map(|limit| own / limit),
            (Found::Threads(own), Some(Found::Threads(other))) => {
                worst_share(machine, &own, &other).map(|(factor, _)| factor)
            }
            _ => None,
        }
        .filter(|factor| factor.is_finite()))
    }

    /// The thread with the longest wait in the first run of `text` or, by share, the thread that loses the most. `None`
    /// if that thread never waits for a CPU.
    pub fn victim(&self, ground: &Ground, text: &str) -> Result<Option<Victim>, Box<Failure>> {
        let machine = &ground.machine;
        let Ok(workload) = workload::parse("load", "load.json", text, None) else {
            return Ok(None);
        };
        let observe = |scheduler: &Scheduler| {
            let scheduler = self.elsewhere(ground, text, scheduler);
            let case = Case {
                machine,
                workload: &*workload,
                scheduler: &scheduler,
            };
            let mut observer = Observer::new(machine);
            match trace_run(&case, &self.runs(1), 0, &mut observer, self.stop) {
                Err(failure) if !is_stopped(&failure) => return Err(failure),
                _ => observer.end(workload.start(machine).duration_ns),
            }
            Ok(observer)
        };
        let own = observe(self.scheduler)?;
        let by_share = match (self.by, self.against) {
            (By::Share, Against::Scheduler(other)) => {
                let other = observe(other)?;
                let progress = |observer: &Observer| {
                    let mut threads = Vec::new();
                    observer.add_to(&mut threads, 1);
                    threads
                };
                worst_share(machine, &progress(&own), &progress(&other)).map(|(_, index)| index)
            }
            _ => None,
        };
        Ok(own.victim(by_share))
    }

    /// `scheduler`, which runs `text` in another process if it has to.
    fn elsewhere(&self, ground: &Ground, text: &str, scheduler: &Scheduler) -> Scheduler {
        let mut scheduler = scheduler.clone();
        let of_text = |name: &str, text: String| Described::Text {
            name: name.to_owned(),
            file: name.to_owned(),
            text,
            params: None,
        };
        scheduler.run_elsewhere(
            &Recipe {
                machine: Described::Named(ground.named.clone()),
                workload: of_text("load", text.to_owned()),
                nodes: None,
            },
            self.start,
        );
        scheduler
    }

    fn runs(&self, count: u32) -> Runs {
        Runs {
            count,
            seed: self.seed,
            jobs: 1,
            noise: self.noise,
        }
    }

    fn measure(
        &self,
        machine: &Machine,
        workload: &dyn Workload,
        scheduler: &Scheduler,
        count: u32,
    ) -> Result<Option<Found>, Box<Failure>> {
        let case = Case {
            machine,
            workload,
            scheduler,
        };
        let runs = self.runs(count);
        if matches!(self.by, By::Time | By::Energy) {
            let watch = Watch {
                done: &|| (),
                stop: self.stop,
            };
            let measured = measure_part(&case, &runs, 0..count, watch)?;
            let value = measured.and_then(|measured| {
                // An rt-app file's first metric is its time, which a run lacks if threads have not ended.
                let times = measured.means(0)?;
                match self.by {
                    By::Energy => measured.mean_energy_j(|_| true),
                    _ => mean(&times),
                }
            });
            return Ok(value.map(Found::Value));
        }
        let mut threads = Vec::new();
        let mut longest = 0.0;
        for run in 0..count {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let mut observer = Observer::new(machine);
            trace_run(&case, &runs, run, &mut observer, self.stop)?;
            observer.end(workload.start(machine).duration_ns);
            longest += observer.longest_wait() / f64::from(count);
            observer.add_to(&mut threads, count);
        }
        Ok(Some(match self.by {
            By::Wait => Found::Value(f64::max(longest, SHORT_WAIT_NS)),
            _ => Found::Threads(threads),
        }))
    }
}

/// The result of the runs of a scheduler, on average.
enum Found {
    Value(f64),
    Threads(Vec<Progress>),
}

/// The CPU time of a thread, and its claim to CPU time.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// The thread's time on CPUs, in seconds of the fastest CPU per second.
    share: f64,
    /// The fraction of the time for which the thread was runnable.
    runnable: f64,
    /// The weight; 0 for a real-time thread.
    weight: f64,
}

fn is_stopped(failure: &Failure) -> bool {
    matches!(failure.error, simulator::Error::SchedulerExit { .. })
}

/// The largest factor by which a thread made less progress than under the other scheduler, counting
/// only progress to which the thread is entitled and for which it asked. A thread that never waits
/// loses nothing, although its work may take longer at a lower clock frequency. Real-time threads
/// do not count, because these schedulers do not choose among them.
///
/// Returns the factor, and the index of the thread that lost the most; `None` if no thread counts.
fn worst_share(machine: &Machine, own: &[Progress], other: &[Progress]) -> Option<(f64, usize)> {
    let entitled = entitled(machine, other);
    let threads = own.iter().zip(other).zip(entitled);
    let factor = |((own, other), entitled): ((&Progress, &Progress), f64)| {
        let due = other.share.min(entitled).min(own.runnable);
        let is_judged = other.weight > 0.0 && due >= LEAST_SHARE;
        is_judged.then(|| due / own.share.max(NO_SHARE))
    };
    let factors = threads.map(factor).enumerate();
    let factors = factors.filter_map(|(index, factor)| Some((factor?, index)));
    factors.reduce(|worst, one| if one.0 > worst.0 { one } else { worst })
}

/// The time to which each thread is entitled. A real-time thread is entitled to the time that it gets. The other
/// threads are entitled to CPU time in proportion to their weights, but to at most one CPU each. The unused part of a
/// thread's time is not redistributed, so a fair scheduler would give at least this time.
fn entitled(machine: &Machine, threads: &[Progress]) -> Vec<f64> {
    let cpus = machine.all_cpus();
    let busy = |cpu: usize| machine.siblings(cpu).count();
    let speed = |cpu: usize| f64::from(machine.thread_speed(cpu, busy(cpu)));
    let all: f64 = cpus.iter().map(speed).sum::<f64>() / f64::from(1 << 20);
    let urgent = threads.iter().filter(|thread| thread.weight == 0.0);
    let mut left = (all - urgent.map(|thread| thread.share).sum::<f64>()).max(0.0);
    let mut shares: Vec<f64> = threads.iter().map(|thread| thread.share).collect();
    let mut open: Vec<usize> = (0..threads.len())
        .filter(|&nr| threads[nr].weight > 0.0)
        .collect();
    // A thread whose part would exceed one CPU gets one CPU, and the others share the rest.
    loop {
        let weights: f64 = open.iter().map(|&nr| threads[nr].weight).sum();
        let part = |nr: usize| left * threads[nr].weight / weights;
        let (full, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&nr| part(nr) > 1.0);
        if full.is_empty() {
            for nr in rest {
                shares[nr] = part(nr);
            }
            return shares;
        }
        left = (left - full.len() as f64).max(0.0);
        for nr in full {
            shares[nr] = 1.0;
        }
        open = rest;
    }
}

/// Follows each thread of a run.
struct Observer {
    /// For each CPU, its speed relative to the fastest CPU, the running thread, and the start of its turn.
    speeds: Vec<f64>,
    running: Vec<Option<(usize, u64)>>,
    threads: Vec<Thread>,
    now: u64,
}

#[derive(Clone, Default)]
struct Thread {
    /// Does the thread belong to the load?
    counts: bool,
    name: String,
    work: f64,
    runnable: u64,
    prio: i32,
    waits_since: Option<u64>,
    /// The longest wait; `longest_from` is the time when it began.
    longest_wait: u64,
    longest_from: u64,
    /// Did the thread's last wait not end?
    stalls: bool,
}

/// The priority of nice -20 (`MAX_RT_PRIO`); the priorities of real-time and deadline threads are lower numbers.
const FIRST_NORMAL_PRIO: i32 = 100;
/// The pid of the first task, the shell that starts the load.
const SHELL: i32 = 1000;

impl Observer {
    fn new(machine: &Machine) -> Observer {
        let cpus = 0..machine.cpus.len();
        let speed = |cpu: usize| f64::from(machine.thread_speed(cpu, 1)) / f64::from(1 << 20);
        Observer {
            speeds: cpus.clone().map(speed).collect(),
            running: cpus.map(|_| None).collect(),
            threads: Vec::new(),
            now: 0,
        }
    }

    /// The index of the thread `pid`; `None` for the idle task.
    fn thread(&mut self, (name, pid): (&str, i32), prio: i32) -> Option<usize> {
        let index = usize::try_from(pid - SHELL).ok()?;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, Thread::default());
        }
        let thread = &mut self.threads[index];
        thread.counts = index > 0 && !name.starts_with("ksoftirqd");
        if thread.name != name {
            name.clone_into(&mut thread.name);
        }
        thread.prio = prio;
        Some(index)
    }

    fn end_wait(&mut self, index: usize) {
        let now = self.now;
        let thread = &mut self.threads[index];
        if let Some(since) = thread.waits_since.take() {
            if now - since > thread.longest_wait {
                (thread.longest_wait, thread.longest_from) = (now - since, since);
            }
            thread.runnable += now - since;
        }
    }

    fn end_running(&mut self, cpu: usize) {
        if let Some((index, since)) = self.running[cpu].take() {
            let thread = &mut self.threads[index];
            thread.work += (self.now - since) as f64 * self.speeds[cpu];
            thread.runnable += self.now - since;
        }
    }

    /// Ends the run, at its `duration_ns` if it has one, because the last event may be long past.
    fn end(&mut self, duration_ns: Option<u64>) {
        self.now = duration_ns.map_or(self.now, |end| end.max(self.now));
        for cpu in 0..self.running.len() {
            self.end_running(cpu);
        }
        for index in 0..self.threads.len() {
            let open = self.threads[index].waits_since;
            self.end_wait(index);
            let thread = &mut self.threads[index];
            let is_longest = open == Some(thread.longest_from) && thread.longest_wait > 0;
            thread.stalls = is_longest && thread.longest_wait >= STALL_NS;
        }
    }

    /// The thread with the given `index` among the threads that count, or otherwise the thread that stalled or waited
    /// longest.
    fn victim(&self, index: Option<usize>) -> Option<Victim> {
        let threads = self.threads.iter().filter(|thread| thread.counts);
        let threads: Vec<&Thread> = threads.collect();
        let fair = |thread: &&&Thread| thread.prio >= FIRST_NORMAL_PRIO;
        let longest = threads
            .iter()
            .filter(fair)
            .max_by_key(|thread| (thread.stalls, thread.longest_wait));
        let chosen = index.and_then(|index| threads.get(index)).or(longest)?;
        (chosen.longest_wait > 0).then(|| Victim {
            thread: chosen.name.clone(),
            since_ns: chosen.longest_from,
            wait_ns: chosen.longest_wait,
            stalls: chosen.stalls,
        })
    }

    fn longest_wait(&self) -> f64 {
        let judged = |thread: &&Thread| thread.counts && thread.prio >= FIRST_NORMAL_PRIO;
        let threads = self.threads.iter().filter(judged);
        threads.map(|thread| thread.longest_wait).max().unwrap_or(0) as f64
    }

    /// Adds the progress of each thread in one of `runs` runs to the mean.
    fn add_to(&self, mean: &mut Vec<Progress>, runs: u32) {
        let threads: Vec<&Thread> = self.threads.iter().filter(|thread| thread.counts).collect();
        mean.resize(mean.len().max(threads.len()), Progress::default());
        for (mean, thread) in mean.iter_mut().zip(threads) {
            let part = |time: f64| time / self.now.max(1) as f64 / f64::from(runs);
            mean.share += part(thread.work);
            mean.runnable += part(thread.runnable as f64);
            mean.weight = match thread.prio {
                ..FIRST_NORMAL_PRIO => 0.0,
                prio => simulator::weight_of(prio).into(),
            };
        }
    }
}

impl Trace for Observer {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.now = now;
        match event {
            Event::Wakeup { task, prio, .. } => {
                if let Some(index) = self.thread(task, prio) {
                    self.threads[index].waits_since.get_or_insert(now);
                }
            }
            // A thread may change its nice value while it has a CPU for itself.
            Event::Weight { task, prio, .. } => {
                self.thread(task, prio);
            }
            Event::Switch {
                prev,
                prev_prio,
                prev_runnable,
                next,
                next_prio,
            } => {
                self.end_running(cpu);
                let prev = self.thread(prev, prev_prio).filter(|_| prev_runnable);
                if let Some(index) = prev {
                    self.threads[index].waits_since = Some(now);
                }
                if let Some(index) = self.thread(next, next_prio) {
                    self.end_wait(index);
                    self.running[cpu] = Some((index, now));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entitlements_are_weighted_and_end_at_one_cpu() {
        let machine = Machine::find("smp-2").unwrap();
        let thread = |weight| Progress {
            share: 0.3,
            runnable: 1.0,
            weight,
        };
        let of = |weights: &[f64]| {
            let threads: Vec<Progress> = weights.iter().map(|&weight| thread(weight)).collect();
            entitled(&machine, &threads)
        };
        assert_eq!(of(&[1024.0; 4]), [0.5; 4]);
        assert_eq!(of(&[1024.0]), [1.0]);
        assert_eq!(of(&[3072.0, 512.0, 512.0]), [1.0, 0.5, 0.5]);
        // The real-time thread keeps its CPU time.
        assert_eq!(of(&[0.0, 1024.0, 1024.0]), [0.3, 0.85, 0.85]);
    }

    #[test]
    fn a_thread_that_runs_alone_has_its_cpu_until_the_end() {
        let machine = Machine::find("smp-2").unwrap();
        let mut observer = Observer::new(&machine);
        let idle = ("swapper/0", 0);
        observer.event(
            100,
            0,
            Event::Switch {
                prev: idle,
                prev_prio: 120,
                prev_runnable: true,
                next: ("loop", SHELL + 1),
                next_prio: 120,
            },
        );
        observer.end(Some(1000));
        let mut threads = Vec::new();
        observer.add_to(&mut threads, 1);
        assert_eq!(threads.len(), 1);
        assert!((threads[0].share - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_thread_loses_what_it_was_entitled_to_only() {
        let machine = Machine::find("smp-2").unwrap();
        let shares = |shares: [f64; 4]| {
            shares.map(|share| Progress {
                share,
                runnable: 1.0,
                weight: 1024.0,
            })
        };
        let fair = shares([0.5; 4]);
        let unfair = shares([0.75, 0.75, 0.25, 0.25]);
        let worst_share = |machine: &Machine, own: &[Progress], other: &[Progress]| {
            super::worst_share(machine, own, other).unwrap().0
        };
        assert_eq!(super::worst_share(&machine, &unfair, &fair), Some((2.0, 2)));
        assert_eq!(worst_share(&machine, &fair, &unfair), 1.0);
        let mut content = unfair;
        content[2].runnable = 0.25;
        content[3].runnable = 0.25;
        assert!(worst_share(&machine, &content, &fair) <= 1.0);
        // A thread of nice 10 has a CPU for itself.
        let (mut light, mut alone) = (fair, shares([0.9, 0.5, 0.5, 0.1]));
        (light[0].share, light[0].weight) = (0.1, 110.0);
        alone[0].weight = 110.0;
        assert!(worst_share(&machine, &light, &alone) < 1.1);
        // The trace shows the nice value even if the thread does not lose its CPU.
        let mut observer = Observer::new(&machine);
        let weight = Event::Weight {
            task: ("light", SHELL + 1),
            prio: 130,
            idle: false,
            group: "/",
            group_weight: 100,
            product: 1 << 20,
        };
        observer.event(0, 0, weight);
        let mut known = Vec::new();
        observer.add_to(&mut known, 1);
        assert_eq!(known[0].weight, 110.0);
        let mut urgent = fair;
        urgent[2].weight = 0.0;
        let mut starved = urgent;
        starved[2].share = 0.0;
        assert_eq!(worst_share(&machine, &starved, &urgent), 1.0);
    }
}
