//! Loads whose fair shares are known, and the time that their threads get.

use crate::support::{self, MS, Script, speeds};
use machine::{CpuMask, Machine};
use simulator::{Check, Event, Trace};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use workload::{ControlGroup, Env, GroupId, Op, SchedPolicy, Start, TaskSpec};

/// The behaviour of a thread until the end. Times are in ns. Work is measured as its time on the fastest CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Does {
    Spin,
    /// The thread runs and sleeps for these times.
    Nap {
        run: u64,
        sleep: u64,
    },
    /// The thread runs for this time in each period. All threads with the same period wake up together.
    Period {
        run: u64,
        period: u64,
    },
    Sleep,
}

impl Does {
    /// The part of a CPU that the thread would use if it never waited.
    pub fn demand(self) -> f64 {
        match self {
            Does::Spin => 1.0,
            Does::Nap { run, sleep } => run as f64 / (run + sleep) as f64,
            Does::Period { run, period } => run as f64 / period as f64,
            Does::Sleep => 0.0,
        }
    }

    /// This behaviour with all times multiplied by `times`.
    pub fn slower(self, times: u64) -> Does {
        match self {
            Does::Nap { run, sleep } => Does::Nap {
                run: run * times,
                sleep: sleep * times,
            },
            Does::Period { run, period } => Does::Period {
                run: run * times,
                period: period * times,
            },
            other => other,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    pub does: Does,
    pub nice: i8,
    /// The CPUs that it may use; `None` means all.
    pub cpus: Option<CpuMask>,
    pub group: Option<GroupId>,
}

/// A thread of nice 0 that may use all CPUs.
pub fn thread(does: Does) -> Thread {
    Thread {
        does,
        nice: 0,
        cpus: None,
        group: None,
    }
}

#[derive(Clone, Debug, Default)]
pub struct Load {
    pub threads: Vec<Thread>,
    pub groups: Vec<ControlGroup>,
}

impl From<Vec<Thread>> for Load {
    fn from(threads: Vec<Thread>) -> Load {
        Load {
            threads,
            groups: Vec::new(),
        }
    }
}

/// The work that a thread has done, and its waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Got {
    /// The work per unit of time, in CPUs of the fastest kind.
    pub share: f64,
    /// The longest time for which it was runnable and did not run, in ns.
    pub longest_wait: u64,
    /// The number of periods; `missed` is the number of those at whose end the work was not done.
    pub periods: u64,
    pub missed: u64,
}

/// For each thread, the number of periods, and of missed periods.
type Periods = Arc<Vec<[AtomicU64; 2]>>;

/// The program of thread `index`, which ends after `until`, in ns.
fn program(
    thread: &Thread,
    index: usize,
    until: u64,
    periods: Periods,
) -> impl FnMut(&mut Env) -> Op + Send + use<> {
    let (does, mut group) = (thread.does, thread.group);
    let (mut ran, mut begun) = (false, 0u64);
    move |env: &mut Env| {
        if let Some(group) = group.take() {
            return Op::EnterGroup(Some(group));
        }
        if env.now >= until {
            return Op::Exit;
        }
        ran = !ran;
        match does {
            Does::Spin => Op::Run { work: MS },
            Does::Sleep => Op::SleepUntil { at: until },
            Does::Nap { run, .. } | Does::Period { run, .. } if ran => Op::Run { work: run },
            Does::Nap { sleep, .. } => Op::Sleep { ns: sleep },
            Does::Period { period, .. } => {
                periods[index][0].fetch_add(1, Relaxed);
                periods[index][1].fetch_add(u64::from(env.now > begun + period), Relaxed);
                begun = (begun + period).max(env.now / period * period);
                Op::SleepUntil { at: begun }
            }
        }
    }
}

/// The work and the waits of each thread in a window of time.
struct Watch {
    window: Range<u64>,
    speeds: Vec<f64>,
    on: HashMap<usize, (String, u64)>,
    waits_since: HashMap<String, u64>,
    got: HashMap<String, Got>,
}

impl Watch {
    fn end_wait(&mut self, now: u64, name: &str) {
        if let Some(since) = self.waits_since.remove(name) {
            let waited = now.clamp(self.window.start, self.window.end)
                - since.clamp(self.window.start, self.window.end);
            let got = self.got.entry(name.to_owned()).or_default();
            got.longest_wait = got.longest_wait.max(waited);
        }
    }
}

impl Trace for Watch {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        match event {
            Event::Wakeup { task, .. } => {
                self.waits_since.insert(task.0.to_owned(), now);
            }
            Event::Switch {
                prev,
                prev_runnable,
                next,
                ..
            } => {
                if prev_runnable {
                    self.waits_since.insert(prev.0.to_owned(), now);
                }
                self.end_wait(now, next.0);
                if let Some((name, since)) = self.on.insert(cpu, (next.0.to_owned(), now)) {
                    let Range { start, end } = self.window;
                    let ran = now.clamp(start, end) - since.clamp(start, end);
                    let got = self.got.entry(name).or_default();
                    got.share += ran as f64 * self.speeds[cpu] / (end - start) as f64;
                }
            }
            _ => {}
        }
    }
}

/// The work and waits of each thread of `load` in the `window` of time, in ns, under `policy`. The CPUs must run at
/// their highest frequencies. The simulated kernel is not checked, which would take three quarters of the time.
pub fn run(
    policy: &str,
    machine: &Machine,
    load: &Load,
    seed: u64,
    window: Range<u64>,
) -> Result<Vec<Got>, String> {
    run_checked(policy, machine, load, seed, window, None)
}

/// As [`run`], with a check of the simulated kernel.
pub fn run_checked(
    policy: &str,
    machine: &Machine,
    load: &Load,
    seed: u64,
    window: Range<u64>,
    check: Option<Check>,
) -> Result<Vec<Got>, String> {
    let until = window.end;
    let periods: Periods = Arc::new(load.threads.iter().map(|_| Default::default()).collect());
    let spec = |(index, thread): (usize, &Thread)| TaskSpec {
        policy: SchedPolicy::Normal {
            nice: thread.nice,
            slice_ns: 0,
        },
        affinity: thread.cpus,
        timer_slack_ns: Some(0),
        ..TaskSpec::new(
            format!("{index}"),
            program(thread, index, until, periods.clone()),
        )
    };
    let workload = Script(|| Start {
        tasks: load.threads.iter().enumerate().map(spec).collect(),
        groups: load.groups.clone(),
        duration_ns: Some(until + 1),
        ..Start::default()
    });
    let mut watch = Watch {
        window,
        speeds: speeds(machine),
        on: HashMap::new(),
        waits_since: HashMap::new(),
        got: HashMap::new(),
    };
    let limit = until + 60_000 * MS;
    support::run_checked(
        policy,
        machine,
        &workload,
        seed,
        limit,
        Some(&mut watch),
        check,
    )
    .map_err(|error| error.to_string())?;
    // Counts the threads that wait at the end, and the threads that run.
    let open: Vec<String> = watch.waits_since.keys().cloned().collect();
    for name in open {
        watch.end_wait(until, &name);
    }
    for cpu in 0..machine.cpus.len() {
        let (prev, next) = (("", 0), ("end", 0));
        watch.event(
            until,
            cpu,
            Event::Switch {
                prev,
                prev_prio: 0,
                prev_runnable: false,
                next,
                next_prio: 0,
            },
        );
    }
    let of = |index: usize| {
        let count = |which: usize| periods[index][which].load(Relaxed);
        let got = watch
            .got
            .get(&index.to_string())
            .copied()
            .unwrap_or_default();
        Got {
            periods: count(0),
            missed: count(1),
            ..got
        }
    };
    Ok((0..load.threads.len()).map(of).collect())
}

/// The greatest length of a turn, in ns: a slice and two ticks.
pub fn turn(machine: &Machine) -> u64 {
    3 * MS + 2_000_000_000 / u64::from(machine.hz)
}
