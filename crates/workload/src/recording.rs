//! A recorded load: each thread's computing, sleeps and wakers. In a replay, a recorded gap is a
//! sleep, and a recorded wakeup is a dependency.
//!
//! The file is JSON, as defined by [`Recording`]; `equipoise workload import` writes it.

mod job;

use crate::{
    Better, Env, Goal, Metric, MetricId, Op, Program, Role, SchedPolicy, Start, StreamId,
    StreamKind, TaskSpec, Workload,
};
use job::Job;
use machine::input::BadInput;
use machine::{CpuMask, Machine};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// The version of the file's format.
pub const VERSION: u32 = 4;
/// The first version; it had no streams, the second no mutexes, and the third no periods.
const FIRST_VERSION: u32 = 1;
/// The maximum number of thread names with metrics of their own. Beyond it, only names of periodic
/// threads have them.
const MAX_NAMES: usize = 16;

const MAKESPAN: MetricId = 0;
const LATENCY: MetricId = 1;
/// The first of the latencies by name.
const BY_NAME: MetricId = 2;

/// Shared word: the number of threads that have not ended.
const LIVE: usize = 0;

/// A recording.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// [`VERSION`], or an older one.
    pub recording: u32,
    /// A description of one line.
    #[serde(default)]
    pub description: String,
    /// Pipes, and directions of sockets: the capacity of each. Steps refer to them by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<u64>,
    /// The number of mutexes, to which steps refer by number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mutexes: u32,
    /// The threads; they refer to each other by index.
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// `comm`.
    pub name: String,
    /// Nice value, -20 to 19.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nice: i8,
    /// Priority of `SCHED_FIFO`, 1 to 99; otherwise it is a normal thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fifo: Option<u8>,
    /// Its period, from which its deadlines follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Its activity.
    pub steps: Vec<Step>,
}

/// The period of a thread. Each [`Step::Release`] begins one, and the thread has to be done with its
/// work before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// Its length, ns.
    pub ns: u64,
    /// The percentage of wakeups that came a period after the previous one, less the percentage that
    /// chance would give; `None` if the user has set the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<u8>,
    /// The periodic thread that wakes it once in each of its periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<usize>,
}

fn is_default<T: Default + PartialEq>(it: &T) -> bool {
    *it == T::default()
}

/// A step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Computes: ns at the speed of the recording machine's fastest core.
    Run(u64),
    /// Sleeps, ns.
    Sleep(u64),
    /// Sleeps until this time after the beginning, ns, like a thread with a periodic timer; does
    /// not sleep if the time has passed.
    Until(u64),
    /// Waits until other threads have woken it more often than it has waited.
    Wait,
    /// Wakes up this thread.
    Wake(usize),
    /// Takes this number of bytes out of the stream; waits until they have arrived.
    Read(u32, u64),
    /// Puts this number of bytes into the stream; waits until there is room.
    Write(u32, u64),
    /// Locks this mutex; waits until it is free.
    Lock(u32),
    /// Unlocks it.
    Unlock(u32),
    /// May run on these CPUs from now on, a bit for each of the first 64; `None` is all CPUs.
    /// Threads that it starts inherit this.
    Cpus(#[serde(deserialize_with = "cpus")] Option<u64>),
    /// The sleep or wait before it was the end of a period, and another one begins.
    Release,
    /// Starts this thread. A thread that no step starts exists from the beginning.
    Fork(usize),
}

/// A mask or `None`; older versions wrote all bits for `None`.
fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let mask = Option::deserialize(from)?;
    Ok(mask.filter(|&mask| mask != u64::MAX))
}

impl Recording {
    /// Parses `text`, the content of `file`.
    pub fn parse(file: &str, text: &str) -> Result<Recording, Box<BadInput>> {
        let mut recording: Recording = serde_json::from_str(text).map_err(|error| {
            let lines = text
                .split_inclusive('\n')
                .take(error.line().saturating_sub(1));
            let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
            let expected = "expected a recording, as `equipoise workload import` writes it";
            Box::new(BadInput::at(
                file,
                text,
                at..at + 1,
                error.to_string(),
                expected,
            ))
        })?;
        for thread in &mut recording.threads {
            if !cage::text::is_plain(&thread.name) {
                thread.name = cage::text::plain(&thread.name).into_owned();
            }
        }
        recording.check().map_err(|message| {
            Box::new(BadInput::whole(
                format!("{file}: {message}"),
                "expected a recording, as `equipoise workload import` writes it",
            ))
        })?;
        Ok(recording)
    }

    /// Checks consistency. The error says what is wrong with the recording.
    pub fn check(&self) -> Result<(), String> {
        if !(FIRST_VERSION..=VERSION).contains(&self.recording) {
            return Err(format!(
                "version {} is not supported; this program reads {FIRST_VERSION} to {VERSION}",
                self.recording
            ));
        }
        if self.threads.is_empty() {
            return Err("no thread".to_owned());
        }
        let mut started = vec![false; self.threads.len()];
        for (index, thread) in self.threads.iter().enumerate() {
            if !(-20..=19).contains(&thread.nice)
                || thread.fifo.is_some_and(|it| !(1..=99).contains(&it))
            {
                return Err(format!("thread {index} has an invalid priority"));
            }
            let names_waker =
                |period: &Period| period.woken_by.is_none_or(|it| it < self.threads.len());
            if thread
                .period
                .is_some_and(|it| it.ns == 0 || !names_waker(&it))
            {
                return Err(format!("thread {index} has an impossible period"));
            }
            self.check_mutexes(index)?;
            for step in &thread.steps {
                if let Step::Read(stream, bytes) | Step::Write(stream, bytes) = *step {
                    let Some(&capacity) = self.streams.get(stream as usize) else {
                        return Err(format!(
                            "thread {index} names stream {stream}, which does not exist"
                        ));
                    };
                    if bytes > capacity {
                        return Err(format!(
                            "thread {index} moves {bytes} bytes of stream {stream}, which holds \
                             {capacity}"
                        ));
                    }
                }
                let (Step::Wake(other) | Step::Fork(other)) = *step else {
                    continue;
                };
                if other >= self.threads.len() {
                    return Err(format!(
                        "thread {index} names thread {other}, which does not exist"
                    ));
                }
                if matches!(step, Step::Fork(_)) && std::mem::replace(&mut started[other], true) {
                    return Err(format!("thread {other} is started twice"));
                }
            }
        }
        if started.iter().all(|&started| started) {
            return Err("no thread exists at the start".to_owned());
        }
        Ok(())
    }

    /// Checks that thread `index` uses existing mutexes, and releases all that it has taken.
    fn check_mutexes(&self, index: usize) -> Result<(), String> {
        let mut has = Vec::new();
        for step in &self.threads[index].steps {
            let (mutex, takes) = match *step {
                Step::Lock(mutex) => (mutex, true),
                Step::Unlock(mutex) => (mutex, false),
                _ => continue,
            };
            let wrong = match has.iter().position(|&it| it == mutex) {
                _ if mutex >= self.mutexes => format!("names mutex {mutex}, which does not exist"),
                Some(_) if takes => format!("takes mutex {mutex}, which it already holds"),
                None if !takes => format!("releases mutex {mutex}, which it does not hold"),
                Some(place) => {
                    has.swap_remove(place);
                    continue;
                }
                None => {
                    has.push(mutex);
                    continue;
                }
            };
            return Err(format!("thread {index} {wrong}"));
        }
        match has.is_empty() {
            true => Ok(()),
            false => Err(format!("thread {index} never releases a mutex")),
        }
    }
}

/// Is `text` a recording, and not an rt-app file?
pub(crate) fn is_recording(text: &str) -> bool {
    let inner = text.trim_start().strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_start().starts_with("\"recording\""))
}

/// A recording as a workload.
pub struct Replay {
    name: String,
    plan: Arc<Plan>,
    metrics: Vec<Metric>,
}

struct Plan {
    recording: Recording,
    /// By thread: the metric of its latencies, besides the one for all.
    by_name: Vec<Option<MetricId>>,
    /// By thread: the metrics of its periods, if it has one.
    periodic: Vec<Option<Periodic>>,
    /// By thread: whether another thread starts it.
    forked: Vec<bool>,
    /// By thread: the number of its wakeups.
    wakes: Vec<u64>,
}

/// The metrics of a periodic thread.
#[derive(Clone, Copy)]
struct Periodic {
    period_ns: u64,
    response: MetricId,
    missed: MetricId,
}

impl Replay {
    /// `recording`, under the name `name`.
    pub fn new(name: &str, recording: Recording) -> Replay {
        let count = recording.threads.len();
        let mut names: Vec<&str> = recording
            .threads
            .iter()
            .map(|thread| &*thread.name)
            .collect();
        names.sort_unstable();
        names.dedup();
        let periodic = recording.threads.iter().filter(|it| it.period.is_some());
        let periodic: HashSet<&str> = periodic.map(|it| &*it.name).collect();
        let is_periodic = |name: &str| periodic.contains(name);
        if names.len() > MAX_NAMES {
            names.retain(|name| is_periodic(name));
            names.truncate(MAX_NAMES);
        }
        let mut metrics = vec![
            Metric::makespan("makespan"),
            Metric::new("latency", "us", Better::Lower, Role::Decides(Goal::Latency)),
        ];
        let of_name = |name: &str, column: &str, unit, role| Metric {
            name: Cow::Owned(format!("{name}/{column}")),
            unit,
            better: Better::Lower,
            role,
            pool: None,
            sharers: 0,
        };
        for name in &names {
            metrics.push(of_name(
                name,
                "latency",
                "us",
                Role::Explains(Goal::Latency),
            ));
        }
        let first_periodic = metrics.len();
        let with_period: Vec<&str> = names.iter().copied().filter(|it| is_periodic(it)).collect();
        for name in &with_period {
            let decides = Role::Decides(Goal::Latency);
            metrics.push(of_name(name, "response", "us", decides));
            metrics.push(of_name(name, "missed", "%", decides));
        }
        let periodic = |thread: &Thread| {
            let index = with_period.iter().position(|name| *name == thread.name)?;
            Some(Periodic {
                period_ns: thread.period?.ns,
                response: first_periodic + 2 * index,
                missed: first_periodic + 2 * index + 1,
            })
        };
        let periodic = recording.threads.iter().map(periodic).collect();
        let of_thread = |thread: &Thread| names.iter().position(|name| *name == thread.name);
        let by_name = recording
            .threads
            .iter()
            .map(|thread| of_thread(thread).map(|name| BY_NAME + name))
            .collect();
        let (mut forked, mut wakes) = (vec![false; count], vec![0; count]);
        for step in recording.threads.iter().flat_map(|thread| &thread.steps) {
            match *step {
                Step::Fork(child) => forked[child] = true,
                Step::Wake(thread) => wakes[thread] += 1,
                _ => {}
            }
        }
        Replay {
            name: name.to_owned(),
            plan: Arc::new(Plan {
                recording,
                by_name,
                periodic,
                forked,
                wakes,
            }),
            metrics,
        }
    }
}

impl Workload for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.plan.recording.description
    }

    /// `makespan`, the time until the last thread ended; and the time from a wakeup until the
    /// thread ran, for all threads and for the threads of each name. A name with periods also has
    /// `NAME/response`, the time from a release until the work is done, and `NAME/missed`.
    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn recording(&self) -> Option<&Recording> {
        Some(&self.plan.recording)
    }

    fn start(&self, machine: &Machine) -> Start {
        let threads = 0..self.plan.recording.threads.len();
        let first = threads.clone().filter(|&thread| !self.plan.forked[thread]);
        // Wakeups of sockets have the same flags as wakeups of pipes.
        let streams = self.plan.recording.streams.iter();
        let streams = streams.map(|&capacity| StreamKind::Pipe.holding(capacity));
        Start {
            tasks: first
                .map(|thread| Running::spec(&self.plan, thread, machine.cpus.len()))
                .collect(),
            mutexes: self.plan.recording.mutexes as usize,
            // The streams of each thread's wakeups, which no step reads; then the streams of the
            // recording.
            streams: self
                .plan
                .wakes
                .iter()
                .map(|wakes| StreamKind::Recorded.holding(wakes + 1))
                .chain(streams)
                .collect(),
            shared: vec![threads.len() as u64],
            ..Start::default()
        }
    }
}

/// A replayed thread.
struct Running {
    plan: Arc<Plan>,
    thread: usize,
    next: usize,
    /// The thread's current step, and the time at which that started, ns.
    doing: Option<Step>,
    since: u64,
    /// The thread's work in the current period.
    job: Option<Job>,
    /// The number of CPUs.
    cpus: usize,
}

impl Running {
    fn spec(plan: &Arc<Plan>, thread: usize, cpus: usize) -> TaskSpec {
        let of = &plan.recording.threads[thread];
        let policy = match of.fifo {
            Some(priority) => SchedPolicy::Fifo { priority },
            None => SchedPolicy::Normal {
                nice: of.nice,
                slice_ns: 0,
            },
        };
        let program = Running {
            plan: Arc::clone(plan),
            thread,
            next: 0,
            doing: None,
            since: 0,
            job: None,
            cpus,
        };
        TaskSpec {
            policy,
            // A recorded gap already includes the timer slack.
            timer_slack_ns: Some(0),
            ..TaskSpec::new(of.name.as_str(), program)
        }
    }

    /// The thread runs after a wakeup.
    fn record_latency(&self, env: &mut Env) {
        let since = match self.doing {
            Some(Step::Sleep(_) | Step::Until(_)) => env.due,
            // This holds only if the thread slept.
            Some(Step::Wait | Step::Read(..) | Step::Write(..) | Step::Lock(_))
                if env.woken_at > self.since =>
            {
                env.woken_at
            }
            _ => return,
        };
        let us = env.now.saturating_sub(since) as f64 / 1e3;
        env.recorder.record(LATENCY, us);
        if let Some(metric) = self.plan.by_name[self.thread] {
            env.recorder.record(metric, us);
        }
    }
}

impl Running {
    /// The next step.
    fn step(&mut self) -> Option<Step> {
        let step = self.plan.recording.threads[self.thread]
            .steps
            .get(self.next);
        self.next += 1;
        step.copied()
    }

    /// The sleep that was its last step ended a period.
    fn release(&mut self, env: &mut Env) {
        let Some(periodic) = self.plan.periodic[self.thread] else {
            return;
        };
        let release = match self.doing {
            Some(Step::Until(at)) => at,
            Some(Step::Sleep(ns)) => self.since + ns,
            _ if env.woken_at > self.since => env.woken_at,
            // The thread was woken before it waited.
            _ => match self.job {
                Some(job) => self.since.min(job.release + periodic.period_ns),
                None => self.since,
            },
        };
        self.respond(env, self.since, Some(release));
        self.job = Some(Job {
            release,
            by_timer: matches!(self.doing, Some(Step::Until(_) | Step::Sleep(_))),
        });
    }

    /// The thread's work of the current period ended at `end`, and the next period began at `next`.
    fn respond(&mut self, env: &mut Env, end: u64, next: Option<u64>) {
        if let (Some(periodic), Some(job)) = (self.plan.periodic[self.thread], self.job.take()) {
            let outcome = job.outcome(periodic.period_ns, end, next);
            let us = outcome.response_ns as f64 / 1e3;
            env.recorder.record(periodic.response, us);
            for period in 0..outcome.periods {
                let share = if period < outcome.missed { 100.0 } else { 0.0 };
                env.recorder.record(periodic.missed, share);
                let released = job.release + period * periodic.period_ns;
                env.judge(|| crate::Period {
                    released,
                    due: released + periodic.period_ns,
                    done: end,
                    missed: period < outcome.missed,
                });
            }
        }
    }
}

impl Program for Running {
    fn next(&mut self, env: &mut Env) -> Op {
        self.record_latency(env);
        let mut step = self.step();
        while let Some(Step::Release) = step {
            self.release(env);
            step = self.step();
        }
        if step.is_none() {
            // The last sleep has no release; the work is done at that time.
            let end = match self.doing {
                Some(Step::Run(_)) => env.now,
                _ => self.since,
            };
            self.respond(env, end, None);
        }
        self.doing = step;
        let plan = &self.plan;
        self.since = env.now;
        let stream = |thread: usize| thread as StreamId;
        let recorded = |stream: u32| plan.recording.threads.len() as StreamId + stream;
        match self.doing {
            Some(Step::Run(work)) => Op::Run { work },
            Some(Step::Sleep(ns)) => Op::Sleep { ns },
            Some(Step::Until(at)) => Op::SleepUntil { at },
            Some(Step::Wait) => Op::Read {
                stream: stream(self.thread),
                bytes: 1,
                work: 0,
            },
            Some(Step::Wake(thread)) => Op::Write {
                stream: stream(thread),
                bytes: 1,
                work: 0,
            },
            Some(Step::Read(stream, bytes)) => Op::Read {
                stream: recorded(stream),
                bytes,
                work: 0,
            },
            Some(Step::Write(stream, bytes)) => Op::Write {
                stream: recorded(stream),
                bytes,
                work: 0,
            },
            Some(Step::Lock(mutex)) => Op::Lock(mutex),
            Some(Step::Unlock(mutex)) => Op::Unlock(mutex),
            Some(Step::Cpus(mask)) => {
                let all = CpuMask::first_n(self.cpus);
                let some = mask.map(|mask| {
                    let cpus = (0..self.cpus.min(64)).filter(|cpu| mask & 1 << cpu != 0);
                    cpus.collect::<CpuMask>()
                });
                // Another machine may have none of these CPUs.
                let some = some.filter(|some| !some.is_empty());
                Op::SetAffinity(Box::new(some.unwrap_or(all)))
            }
            Some(Step::Fork(child)) => Op::Fork {
                child: Box::new(Running::spec(plan, child, self.cpus)),
                work: 0,
            },
            Some(Step::Release) => unreachable!("each release is a part of the step before it"),
            None => {
                env.shared[LIVE] -= 1;
                if env.shared[LIVE] == 0 {
                    env.recorder.record(MAKESPAN, env.now as f64 / 1e9);
                }
                Op::Exit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Kernel;

    const MS: u64 = 1_000_000;

    fn thread(name: &str, steps: &[Step]) -> Thread {
        Thread {
            name: name.to_owned(),
            nice: 0,
            fifo: None,
            period: None,
            steps: steps.to_vec(),
        }
    }

    fn recording() -> Recording {
        use Step::{Fork, Run, Sleep, Wait, Wake};
        Recording {
            recording: VERSION,
            description: "a test".to_owned(),
            streams: vec![],
            mutexes: 0,
            threads: vec![
                thread(
                    "main",
                    &[Run(MS), Fork(1), Sleep(5 * MS), Wake(2), Wake(2), Run(MS)],
                ),
                thread("child", &[Run(3 * MS), Wake(2)]),
                thread("waiter", &[Wait, Run(MS), Wait, Wait, Run(MS)]),
            ],
        }
    }

    #[test]
    fn threads_wait_for_each_other_as_they_did() {
        let workload = Replay::new("r", recording());
        let kernel = Kernel::run(&workload, 4);
        assert!(kernel.left().is_empty(), "{:?}", kernel.left());
        // 1 + 5 ms, and then one ms of each of the two remaining ones, in parallel.
        let makespan = kernel.recorder.samples(MAKESPAN);
        assert!((makespan[0] - 0.007).abs() < 1e-4, "{makespan:?}");
        let names: Vec<&str> = workload
            .metrics()
            .iter()
            .map(|metric| &*metric.name)
            .collect();
        assert_eq!(
            names,
            [
                "makespan",
                "latency",
                "child/latency",
                "main/latency",
                "waiter/latency"
            ]
        );
        assert_eq!(kernel.recorder.samples(BY_NAME + 1).len(), 1);
    }

    #[test]
    fn a_file_is_what_was_written() {
        let text = serde_json::to_string(&recording()).unwrap();
        assert!(is_recording(&text));
        let read = Recording::parse("r.json", &text).unwrap();
        assert_eq!(read.threads[2].steps, recording().threads[2].steps);
    }

    /// Version 2 originally wrote all bits for "all CPUs".
    #[test]
    fn all_cpus_are_no_mask() {
        let step = |text: &str| serde_json::from_str::<Step>(text).unwrap();
        let anywhere = Step::Cpus(None);
        assert_eq!(
            serde_json::to_string(&anywhere).unwrap(),
            r#"{"cpus":null}"#
        );
        assert_eq!(step(r#"{"cpus": null}"#), anywhere);
        assert_eq!(step(r#"{"cpus": 18446744073709551615}"#), anywhere);
        assert_eq!(step(r#"{"cpus": 2}"#), Step::Cpus(Some(2)));
    }

    /// A job of 2 ms is released every 5 ms, and a sleep within it does not begin another. One job
    /// takes 7 ms, so the next period is missed or late.
    #[test]
    fn a_period_has_misses() {
        use Step::{Release, Run, Sleep, Until};
        let mut steps = vec![];
        for period in 1..=10 {
            if period == 5 {
                continue;
            }
            let long = if period == 4 { 5 * MS } else { 0 };
            steps.extend([
                Until(period * 5 * MS),
                Release,
                Run(MS),
                Sleep(MS / 2),
                Run(MS + long),
            ]);
        }
        let mut recording = recording();
        recording.threads = vec![thread("frame", &steps)];
        let names = |recording: &Recording| {
            let metrics = Replay::new("r", recording.clone()).metrics;
            metrics
                .into_iter()
                .map(|it| it.name.into_owned())
                .collect::<Vec<_>>()
        };
        // Without a period, the marks mean nothing.
        assert!(!names(&recording).contains(&"frame/missed".to_owned()));
        recording.threads[0].period = Some(Period {
            ns: 5 * MS,
            confidence: Some(100),
            woken_by: None,
        });
        assert_eq!(recording.check(), Ok(()));
        let place = |name: &str| names(&recording).iter().position(|it| it == name).unwrap();
        let (response, missed) = (place("frame/response"), place("frame/missed"));
        let kernel = Kernel::run(&Replay::new("r", recording.clone()), 1);
        let responses = kernel.recorder.samples(response);
        assert_eq!(responses.len(), 9);
        assert!((responses[0] - 2500.0).abs() < 200.0, "{responses:?}");
        assert!((responses[3] - 7500.0).abs() < 200.0, "{responses:?}");
        let mut shares = vec![0.0; 10];
        shares[3] = 100.0;
        assert_eq!(kernel.recorder.samples(missed), shares);
        recording.threads[0].period = Some(Period {
            ns: 0,
            confidence: Some(100),
            woken_by: None,
        });
        assert!(recording.check().unwrap_err().contains("period"));
    }

    /// The second thread waits until the first has released it.
    #[test]
    fn a_mutex_is_had_by_one() {
        use Step::{Lock, Run, Sleep, Unlock};
        let mut recording = recording();
        recording.mutexes = 1;
        let steps = [Lock(0), Run(2 * MS), Unlock(0)];
        recording.threads = vec![
            thread("a", &steps),
            thread("b", &[&[Sleep(MS)], &steps[..]].concat()),
        ];
        assert_eq!(recording.check(), Ok(()));
        let kernel = Kernel::run(&Replay::new("r", recording.clone()), 4);
        let makespan = kernel.recorder.samples(MAKESPAN);
        assert!((makespan[0] - 0.004).abs() < 1e-4, "{makespan:?}");

        for (wrong, says) in [
            (&[Lock(1), Unlock(1)][..], "mutex 1, which does not exist"),
            (&[Lock(0), Lock(0)], "takes mutex 0, which it already holds"),
            (&[Unlock(0)], "releases mutex 0, which it does not hold"),
            (&[Lock(0)], "never releases a mutex"),
        ] {
            recording.threads[0].steps = wrong.to_vec();
            let error = recording.check().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn errors_are_reported() {
        let good = serde_json::to_string_pretty(&recording()).unwrap();
        for (from, to, says) in [
            ("\"recording\": 4", "\"recording\": 5", "r.json: version 5"),
            ("\"fork\": 1", "\"fork\": 7", "names thread 7"),
            ("\"fork\": 1", "\"spoon\": 1", "r.json:12: "),
            (
                "\"name\": \"child\"",
                "\"name\": \"child\", \"nice\": 20",
                "thread 1 has an invalid priority",
            ),
        ] {
            assert_eq!(good.matches(from).count(), 1, "{from}");
            let error = Recording::parse("r.json", &good.replace(from, to)).unwrap_err();
            assert!(error.message().contains(says), "{}", error.message());
        }
        assert!(
            Recording::parse("r.json", &good[..good.len() / 2])
                .unwrap_err()
                .message()
                .starts_with("r.json:")
        );
        assert!(!is_recording("{ \"tasks\" : {} }"));
    }
}
