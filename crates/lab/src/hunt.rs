//! The search for the load on which a scheduler does worst compared with another, or with the physical limit. The
//! search tries random loads and mutations of the worst loads so far, and then simplifies the worst load.

mod load;
mod score;

pub use score::{Against, By, Question, STOPPED, Victim};

use crate::Failure;
use crate::limit::limit_on;
use load::{Load, Task};
use machine::{CpuMask, Machine};
use rayon::prelude::*;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use workload::{CpuBound, Rng};

/// The number of loads in a batch. The result of a batch does not depend on the number of concurrent runs.
const BATCH: usize = 32;
/// The number of the worst loads that are mutated.
const KEPT: usize = 16;
/// The number of runs of a load in the search; [`FINAL_RUNS`] is the number for the result.
const SEARCH_RUNS: u32 = 2;
const FINAL_RUNS: u32 = 10;
/// The part of the time used for the search; the rest is used for simplification.
const SEARCH: f64 = 0.7;
/// The part of the factor's logarithm that a simpler load must keep to be accepted.
const KEEP: f64 = 0.8;
/// The increase of the factor's logarithm that justifies one more thread.
const THREAD: f64 = 0.02;

/// The limit of a hunt, which Ctrl-C also ends.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The time of the hunt.
    pub time: Duration,
    /// The number of batches of the search; `None` means as many as there is time for.
    pub batches: Option<u32>,
}

/// A machine of a hunt.
#[derive(Debug)]
pub struct Ground {
    /// The machine.
    pub machine: Machine,
    /// The name or path by which [`Machine::find`] finds it.
    pub named: String,
}

/// The worst load found.
pub struct Prey<'a> {
    /// The machine.
    pub ground: &'a Ground,
    /// The factor by which the scheduler is worse, over 10 runs or, after Ctrl-C, over the fewer runs of the search.
    pub factor: f64,
    /// The factor over the fewer runs of the search, which is often larger by chance; `None` after Ctrl-C.
    pub searched: Option<f64>,
    /// The load's number of threads.
    pub threads: u32,
    /// The number of loads that were tried.
    pub tried: u64,
    load: Load,
}

impl Prey<'_> {
    /// The rt-app file, which begins with `comment`.
    pub fn rt_app(&self, comment: &str) -> String {
        self.load.rt_app(comment)
    }
}

#[derive(Clone)]
struct Candidate<'a> {
    ground: &'a Ground,
    load: Load,
    factor: f64,
}

impl Candidate<'_> {
    fn fitness(&self) -> f64 {
        self.factor.ln() - THREAD * f64::from(self.load.threads())
    }
}

/// Hunts on `grounds`, for loads drawn at random from the question's seed. `tried` is called with the number of loads
/// tried so far and the largest factor so far. `None` if no load was found on which the scheduler does worse.
pub fn hunt<'a>(
    question: &Question<'_>,
    grounds: &'a [Ground],
    budget: Budget,
    tried: &(dyn Fn(u64, f64) + Sync),
) -> Result<Option<Prey<'a>>, Box<Failure>> {
    let mut hunt = Hunt {
        question,
        end: Instant::now() + budget.time,
        tried: 0,
        tell: tried,
    };
    let search_end = Instant::now() + budget.time.mul_f64(SEARCH);
    let mut worst: Vec<Candidate<'a>> = Vec::new();
    let mut batch = 0;
    while Instant::now() < search_end
        && budget.batches.is_none_or(|batches| batch < batches)
        && !hunt.is_stopped()
    {
        let seed = question.seed.wrapping_add(u64::from(batch) << 32);
        let rng = &mut Rng::new(seed ^ 0x6875_6e74);
        let loads = (0..BATCH).map(|_| next(rng, question, grounds, &worst));
        let found = hunt.try_all(loads.collect(), SEARCH_RUNS)?;
        worst.extend(found);
        worst.sort_by(|a, b| b.fitness().total_cmp(&a.fitness()));
        worst.dedup_by(|a, b| a.load == b.load);
        worst.truncate(KEPT);
        hunt.tell(worst.first().map_or(1.0, |first| first.factor));
        batch += 1;
    }
    for one in worst {
        let simple = hunt.simplify(one)?;
        let measured = hunt.factor(&simple, FINAL_RUNS)?;
        let factor = measured.unwrap_or(simple.factor);
        // A load may have been worse by chance in the few runs of the search.
        if factor > 1.0 {
            return Ok(Some(Prey {
                ground: simple.ground,
                factor,
                searched: measured.map(|_| simple.factor),
                threads: simple.load.threads(),
                tried: hunt.tried,
                load: simple.load,
            }));
        }
    }
    Ok(None)
}

/// The next load to try, which is random, or a mutation of one of the worst loads.
fn next<'a>(
    rng: &mut Rng,
    question: &Question<'_>,
    grounds: &'a [Ground],
    worst: &[Candidate<'a>],
) -> Candidate<'a> {
    // The worst loads are chosen more often.
    let mut chosen = || {
        let nr = rng
            .below(worst.len() as u64)
            .min(rng.below(worst.len() as u64));
        worst[nr as usize].clone()
    };
    let parents = (worst.len() > 1).then(|| (chosen(), chosen()));
    match parents.filter(|_| rng.below(4) > 0) {
        Some((mut one, other)) => {
            if rng.below(8) == 0 {
                one.ground = &grounds[rng.below(grounds.len() as u64) as usize];
            }
            one.load = one.load.mutated(rng, cpus(one.ground), &other.load);
            one
        }
        None => {
            let ground = &grounds[rng.below(grounds.len() as u64) as usize];
            let endless = matches!(question.by, By::Share | By::Wait);
            Candidate {
                ground,
                load: Load::random(rng, cpus(ground), endless, question.realtime),
                factor: 1.0,
            }
        }
    }
}

fn cpus(ground: &Ground) -> usize {
    ground.machine.cpus.len()
}

struct Hunt<'a> {
    question: &'a Question<'a>,
    end: Instant,
    tried: u64,
    tell: &'a (dyn Fn(u64, f64) + Sync),
}

impl Hunt<'_> {
    fn is_stopped(&self) -> bool {
        self.question.stop.load(Ordering::Relaxed)
    }

    fn tell(&mut self, factor: f64) {
        (self.tell)(self.tried, factor);
    }

    fn factor(&self, candidate: &Candidate<'_>, runs: u32) -> Result<Option<f64>, Box<Failure>> {
        let limit = shortest_s(&candidate.ground.machine, &candidate.load);
        let text = candidate.load.rt_app("");
        self.question
            .factor(candidate.ground, &text, runs, Some(limit))
    }

    /// The `candidates` on which the scheduler does worse.
    fn try_all<'b>(
        &mut self,
        candidates: Vec<Candidate<'b>>,
        runs: u32,
    ) -> Result<Vec<Candidate<'b>>, Box<Failure>> {
        self.tried += candidates.len() as u64;
        let this = &*self;
        let factors: Vec<Option<f64>> = candidates
            .par_iter()
            .map(|candidate| this.factor(candidate, runs))
            .collect::<Result<_, _>>()?;
        let found = candidates.into_iter().zip(factors);
        Ok(found
            .filter_map(|(candidate, factor)| {
                let factor = factor.filter(|factor| *factor > 1.0)?;
                Some(Candidate {
                    factor,
                    ..candidate
                })
            })
            .collect())
    }

    /// Simplifies `worst` step by step while it stays nearly as bad.
    fn simplify<'b>(&mut self, worst: Candidate<'b>) -> Result<Candidate<'b>, Box<Failure>> {
        let least = KEEP * worst.factor.ln();
        let mut simple = worst;
        while Instant::now() < self.end && !self.is_stopped() {
            let simpler = simple.load.simpler().into_iter().map(|load| Candidate {
                load,
                ..simple.clone()
            });
            let found = self.try_all(simpler.collect(), 2 * SEARCH_RUNS)?;
            self.tell(simple.factor);
            match found.into_iter().find(|found| found.factor.ln() >= least) {
                Some(found) => simple = found,
                None => break,
            }
        }
        Ok(simple)
    }
}

/// The shortest possible time of `load` on `machine`, in s: the time of its longest thread on the fastest CPU that the
/// thread may use or, if this is longer, the longest time that the CPUs of some task need for all threads that may use
/// only these CPUs.
fn shortest_s(machine: &Machine, load: &Load) -> f64 {
    let all = machine.all_cpus();
    let cpus_of = |task: &Task| match &task.cpus[..] {
        [] => all,
        cpus => cpus.iter().copied().collect(),
    };
    let on = |cpus: &CpuMask| {
        let bound = load
            .tasks
            .iter()
            .filter(|task| cpus_of(task).is_subset(cpus));
        let work_us: u64 = bound.clone().map(Task::work_us).sum();
        let work = CpuBound {
            work: work_us * 1000,
            serial: 0,
            parallelism: bound.map(|task| task.instances as usize).sum(),
            metric: 0,
        };
        limit_on(&work, machine, cpus)
    };
    let longest_s = |task: &Task| {
        let speeds = cpus_of(task);
        let speeds = speeds.iter().map(|cpu| machine.thread_speed(cpu, 1));
        let speed = f64::from(speeds.max().unwrap_or(1)) / f64::from(1 << 20);
        task.time_us(speed) / 1e6
    };
    let times = load
        .tasks
        .iter()
        .map(|task| on(&cpus_of(task)).max(longest_s(task)));
    times.fold(on(&all), f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scheduler, Start};
    use load::{Class, Event, Phase};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// On smt-4 the two threads of a core together do 1.25 times the work of a single thread.
    #[test]
    fn a_second_hardware_thread_adds_only_its_share_to_the_shortest_time() {
        let machine = Machine::find("smt-4").unwrap();
        let load = |instances| Load {
            tasks: vec![Task {
                instances,
                class: Class::Other { nice: 0 },
                cpus: Vec::new(),
                delay_us: 0,
                phases: vec![Phase {
                    loops: 1,
                    events: vec![Event::Run(1_000_000)],
                }],
            }],
            endless: false,
            realtime: false,
        };
        assert_eq!(shortest_s(&machine, &load(4)), 1.0);
        assert!((shortest_s(&machine, &load(8)) - 8.0 / 5.0).abs() < 1e-4);
    }

    /// Two threads that may use one slow CPU of tc2 have no use for the other CPUs.
    #[test]
    fn the_shortest_time_is_on_the_cpus_that_threads_may_use() {
        let machine = Machine::find("tc2").unwrap();
        let task = |cpus: Vec<usize>, events: Vec<Event>| Task {
            instances: 2,
            class: Class::Other { nice: 0 },
            cpus,
            delay_us: 0,
            phases: vec![Phase { loops: 1, events }],
        };
        let load = |tasks| Load {
            tasks,
            endless: false,
            realtime: false,
        };
        let slow = 33.5 / 16.47;
        let (run, sleep) = (Event::Run(1_000_000), Event::Sleep(1_000_000));
        let near = |tasks, expected: f64| {
            let found = shortest_s(&machine, &load(tasks));
            assert!((found - expected).abs() < 1e-3, "{found} {expected}");
        };
        near(vec![task(vec![4], vec![run])], 2.0 * slow);
        near(vec![task(vec![3, 4], vec![run, sleep])], slow + 1.0);
        near(
            vec![task(vec![3, 4], vec![run]), task(vec![], vec![run])],
            slow,
        );
    }

    #[test]
    fn a_load_without_a_judged_thread_has_no_factor_by_share() {
        let ground = Ground {
            machine: Machine::find("smp-2").unwrap(),
            named: "smp-2".to_owned(),
        };
        let policy = |name| Scheduler::policy(name).unwrap();
        let (stop, start): (_, Start) = (AtomicBool::new(false), Arc::new(|| unreachable!()));
        let question = Question {
            scheduler: &policy("cfs"),
            against: &Against::Scheduler(Box::new(policy("eevdf"))),
            by: By::Share,
            realtime: true,
            seed: 1,
            noise: false,
            start: &start,
            stop: &stop,
        };
        let factor = |class: &str| {
            let text = format!(
                r#"{{ "tasks": {{ "a": {{ {class} "loop": -1, "run": 1000, "sleep": 1000 }} }},
                    "global": {{ "duration": 1 }} }}"#
            );
            question.factor(&ground, &text, 1, None).unwrap()
        };
        assert_eq!(factor(r#""policy": "SCHED_FIFO", "priority": 10,"#), None);
        assert!(factor("").is_some_and(|factor| factor > 0.9));
    }
}
