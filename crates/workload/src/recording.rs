//! A recorded load: each thread's computing, sleeps and wakers. In a replay, a recorded gap is a
//! sleep, and a recorded wakeup is a dependency.
//!
//! The file is JSON, as defined by [`Recording`]; `equipoise workload import` writes it.

use crate::{
    Better, Env, Goal, Metric, MetricId, Op, Program, Role, SchedPolicy, Start, StreamId, TaskSpec,
    Workload,
};
use machine::input::BadInput;
use machine::{CpuMask, Machine};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// The version of the file's format.
pub const VERSION: u32 = 3;
/// The first version; it had no streams, and the second no mutexes.
const FIRST_VERSION: u32 = 1;
/// The maximum number of thread names with latencies of their own.
const MAX_NAMES: usize = 16;

const MAKESPAN: MetricId = 0;
const LATENCY: MetricId = 1;
/// The first of the latencies by name.
const BY_NAME: MetricId = 2;

/// Shared word: the number of threads that have not ended.
const LIVE: usize = 0;

/// A recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// [`VERSION`], or an older one.
    pub recording: u32,
    /// One line for a person.
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
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Its activity.
    pub steps: Vec<Step>,
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
    /// Sleeps until this time after the beginning, ns; not at all if that has passed. A periodic
    /// timer.
    Until(u64),
    /// Waits until other threads have woken it once more than it has waited.
    Wait,
    /// Wakes up this thread.
    Wake(usize),
    /// Takes this number of bytes out of the stream; waits until they have arrived.
    Read(u32, u64),
    /// Puts this number of bytes into the stream; waits until there is room.
    Write(u32, u64),
    /// Takes this mutex; waits until it is free.
    Lock(u32),
    /// Releases it.
    Unlock(u32),
    /// May run on these CPUs from now on, a bit for each of the first 64; `None` is all CPUs.
    /// Threads that it starts inherit this.
    Cpus(#[serde(deserialize_with = "cpus")] Option<u64>),
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
        let recording: Recording = serde_json::from_str(text).map_err(|error| {
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
        recording.check().map_err(|message| {
            Box::new(BadInput::whole(
                format!("{file}: {message}"),
                "expected a recording, as `equipoise workload import` writes it",
            ))
        })?;
        Ok(recording)
    }

    /// Checks consistency. The error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if !(FIRST_VERSION..=VERSION).contains(&self.recording) {
            return Err(format!(
                "version {}, and this reads {FIRST_VERSION} to {VERSION}",
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
                return Err(format!("thread {index} has a priority that there is not"));
            }
            self.check_mutexes(index)?;
            for step in &thread.steps {
                if let Step::Read(stream, bytes) | Step::Write(stream, bytes) = *step {
                    let Some(&capacity) = self.streams.get(stream as usize) else {
                        return Err(format!(
                            "thread {index} names stream {stream}, which is not there"
                        ));
                    };
                    if bytes > capacity {
                        return Err(format!(
                            "thread {index} moves {bytes} bytes of stream {stream}, which holds {capacity}"
                        ));
                    }
                }
                let (Step::Wake(other) | Step::Fork(other)) = *step else {
                    continue;
                };
                if other >= self.threads.len() {
                    return Err(format!(
                        "thread {index} names thread {other}, which is not there"
                    ));
                }
                if matches!(step, Step::Fork(_)) && std::mem::replace(&mut started[other], true) {
                    return Err(format!("thread {other} is started twice"));
                }
            }
        }
        if started.iter().all(|&started| started) {
            return Err("no thread is there at the beginning".to_owned());
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
                _ if mutex >= self.mutexes => format!("names mutex {mutex}, which is not there"),
                Some(_) if takes => format!("takes mutex {mutex}, which it has"),
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
    /// By thread: is it started by another?
    forked: Vec<bool>,
    /// By thread: the number of its wakeups.
    wakes: Vec<u64>,
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
        if names.len() > MAX_NAMES {
            names.clear();
        }
        let mut metrics = vec![
            Metric::makespan("makespan"),
            Metric::new("latency", "us", Better::Lower, Role::Decides(Goal::Latency)),
        ];
        metrics.extend(names.iter().map(|name| Metric {
            name: Cow::Owned(format!("{name}/latency")),
            unit: "us",
            better: Better::Lower,
            role: Role::Explains(Goal::Latency),
            pool: None,
        }));
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

    /// `makespan`, until the last thread ended; and the time from a wakeup until the thread ran,
    /// for all threads and for those of each name.
    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn start(&self, machine: &Machine) -> Start {
        let threads = 0..self.plan.recording.threads.len();
        let first = threads.clone().filter(|&thread| !self.plan.forked[thread]);
        Start {
            tasks: first
                .map(|thread| Running::spec(&self.plan, thread, machine.cpus.len()))
                .collect(),
            mutexes: self.plan.recording.mutexes as usize,
            // Each thread's wakeups, which are never read; then those of the recording.
            streams: self
                .plan
                .wakes
                .iter()
                .map(|wakes| wakes + 1)
                .chain(self.plan.recording.streams.iter().copied())
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
    /// Its current step, and since when, ns.
    doing: Option<Step>,
    since: u64,
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
            cpus,
        };
        TaskSpec {
            policy,
            // A recorded gap already includes it.
            timer_slack_ns: Some(0),
            ..TaskSpec::new(of.name.as_str(), program)
        }
    }

    /// It runs after a wakeup.
    fn record_latency(&self, env: &mut Env) {
        let since = match self.doing {
            Some(Step::Sleep(_) | Step::Until(_)) => env.due,
            // If it slept.
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

impl Program for Running {
    fn next(&mut self, env: &mut Env) -> Op {
        self.record_latency(env);
        let plan = &self.plan;
        self.doing = plan.recording.threads[self.thread]
            .steps
            .get(self.next)
            .copied();
        self.next += 1;
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
                // Another machine may have none of them.
                let some = some.filter(|some| !some.is_empty());
                Op::SetAffinity(Box::new(some.unwrap_or(all)))
            }
            Some(Step::Fork(child)) => Op::Fork {
                child: Box::new(Running::spec(plan, child, self.cpus)),
                work: 0,
            },
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

    /// All bits are what version 2 first had for it.
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
            (&[Lock(1), Unlock(1)][..], "mutex 1, which is not there"),
            (&[Lock(0), Lock(0)], "takes mutex 0, which it has"),
            (&[Unlock(0)], "releases mutex 0, which it does not hold"),
            (&[Lock(0)], "never releases a mutex"),
        ] {
            recording.threads[0].steps = wrong.to_vec();
            let error = recording.check().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = serde_json::to_string_pretty(&recording()).unwrap();
        for (from, to, says) in [
            ("\"recording\": 3", "\"recording\": 4", "r.json: version 4"),
            ("\"fork\": 1", "\"fork\": 7", "names thread 7"),
            ("\"fork\": 1", "\"spoon\": 1", "r.json:12: "),
            (
                "\"name\": \"child\"",
                "\"name\": \"child\", \"nice\": 20",
                "thread 1 has a priority",
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
