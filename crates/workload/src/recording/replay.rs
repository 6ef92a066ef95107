//! A recording as a workload: in a replay, a recorded gap is a sleep, and a recorded wakeup is a dependency.

use super::job::Job;
use super::{Recording, Step, Thread};
use crate::{
    Better, Env, Goal, Metric, MetricId, Op, Program, Role, SchedPolicy, Start, StreamId,
    StreamKind, TaskSpec, Unit, Workload,
};
use machine::{CpuMask, Machine};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// The maximum number of thread names with metrics of their own. If there are more names, only those of periodic
/// threads have metrics of their own.
const MAX_NAMES: usize = 16;

pub(super) const MAKESPAN: MetricId = 0;

const LATENCY: MetricId = 1;

/// The index of the first metric of latencies by name.
pub(super) const BY_NAME: MetricId = 2;

/// The shared word with the number of threads that have not ended.
const LIVE: usize = 0;

/// A recording as a workload.
pub struct Replay {
    name: String,
    plan: Arc<Plan>,
    metrics: Vec<Metric>,
}

struct Plan {
    recording: Recording,
    /// For each thread, the metric of its latencies, in addition to the metric for all threads.
    by_name: Vec<Option<MetricId>>,
    /// For each thread with a period, the metrics of its periods.
    periodic: Vec<Option<Periodic>>,
    /// For each thread, whether another thread starts it.
    forked: Vec<bool>,
    /// For each thread, the number of its wakeups.
    wakes: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Periodic {
    period_ns: u64,
    response: MetricId,
    missed: MetricId,
}

impl Replay {
    /// The workload `name` that replays `recording`.
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
            Metric::new(
                "latency",
                Unit::Us,
                Better::Lower,
                Role::Decides(Goal::Latency),
            ),
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
                Unit::Us,
                Role::Explains(Goal::Latency),
            ));
        }
        let first_periodic = metrics.len();
        let with_period: Vec<&str> = names.iter().copied().filter(|it| is_periodic(it)).collect();
        for name in &with_period {
            let decides = Role::Decides(Goal::Latency);
            metrics.push(of_name(name, "response", Unit::Us, decides));
            metrics.push(of_name(name, "missed", Unit::Percent, decides));
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

    /// The metrics are `makespan`, the time until the last thread ended, and the time from a wakeup until the thread
    /// ran, for all threads and for the threads of each name. A name with periods also has `NAME/response`, the time
    /// from a release until the work is done, and `NAME/missed`.
    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn recording(&self) -> Option<&Recording> {
        Some(&self.plan.recording)
    }

    fn bindings(&self) -> Vec<CpuMask> {
        let threads = self.plan.recording.threads.iter();
        let steps = threads.flat_map(|thread| &thread.steps);
        let sets = steps.filter_map(|step| match *step {
            Step::Cpus(Some(mask)) => Some(cpus_of(mask)),
            _ => None,
        });
        sets.collect()
    }

    fn notes_on(&self, machine: &Machine) -> Vec<String> {
        let all = machine.all_cpus();
        let sets = self.bindings().into_iter();
        let lost = sets.filter(|cpus| !cpus.intersects(&all));
        let lost = lost.reduce(|lost, cpus| lost.or(&cpus));
        lost.map(|lost| {
            let cpus = match lost.is_empty() {
                true => "CPUs beyond the first 64".to_owned(),
                false => format!("CPUs {lost}, none of which {} has online", machine.name),
            };
            format!(
                "In `{}`, threads were bound to {cpus}. Here they may use all CPUs.",
                self.name
            )
        })
        .into_iter()
        .collect()
    }

    fn start(&self, machine: &Machine) -> Start {
        let threads = 0..self.plan.recording.threads.len();
        let first = threads.clone().filter(|&thread| !self.plan.forked[thread]);
        // The wakeups of a socket have the same flags as those of a pipe.
        let streams = self.plan.recording.streams.iter();
        let streams = streams.map(|&capacity| StreamKind::Pipe.holding(capacity));
        Start {
            tasks: first
                .map(|thread| Running::spec(&self.plan, thread, machine.all_cpus()))
                .collect(),
            mutexes: self.plan.recording.mutexes as usize,
            // The streams for the wakeups of each thread come first, then the streams of the recording.
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

impl Plan {
    /// The policy of `thread` while it requests this slice.
    fn policy(&self, thread: usize, slice_ns: u64) -> SchedPolicy {
        let of = &self.recording.threads[thread];
        match of.fifo {
            Some(priority) => SchedPolicy::Fifo { priority },
            None => SchedPolicy::Normal {
                nice: of.nice,
                slice_ns,
            },
        }
    }
}

struct Running {
    plan: Arc<Plan>,
    thread: usize,
    next: usize,
    /// The current step, and the time at which it began, in ns.
    doing: Option<Step>,
    since: u64,
    /// The thread's work of the current period.
    job: Option<Job>,
    /// The machine's online CPUs.
    all: CpuMask,
}

/// The CPUs of a mask of the first 64.
fn cpus_of(mask: u64) -> CpuMask {
    (0..64).filter(|cpu| mask & 1 << cpu != 0).collect()
}

impl Running {
    fn spec(plan: &Arc<Plan>, thread: usize, all: CpuMask) -> TaskSpec {
        let of = &plan.recording.threads[thread];
        let program = Running {
            plan: Arc::clone(plan),
            thread,
            next: 0,
            doing: None,
            since: 0,
            job: None,
            all,
        };
        TaskSpec {
            policy: plan.policy(thread, 0),
            // A recorded gap already includes timer slack.
            timer_slack_ns: Some(0),
            ..TaskSpec::new(of.name.as_str(), program)
        }
    }

    /// Records the latency of a thread that runs after a wakeup.
    fn record_latency(&self, env: &mut Env) {
        let since = match self.doing {
            Some(Step::Sleep(_) | Step::Until(_)) => env.due,
            // The thread slept only if the wakeup came after the step began.
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
    fn step(&mut self) -> Option<Step> {
        let step = self.plan.recording.threads[self.thread]
            .steps
            .get(self.next);
        self.next += 1;
        step.copied()
    }

    /// Begins a period, because the sleep that was the thread's last step ended the previous one.
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

    /// Records the response of the thread, whose work of the current period ended at `end`. The next period began at
    /// `next`.
    fn respond(&mut self, env: &mut Env, end: u64, next: Option<u64>) {
        if let (Some(periodic), Some(job)) = (self.plan.periodic[self.thread], self.job.take()) {
            let outcome = job.outcome(periodic.period_ns, end, next);
            let us = outcome.response_ns as f64 / 1e3;
            env.recorder.record(periodic.response, us);
            for period in 0..outcome.periods {
                let released = job.release + period * periodic.period_ns;
                let period = crate::Period {
                    released,
                    due: released + periodic.period_ns,
                    done: end,
                    missed: period < outcome.missed,
                };
                env.judge(periodic.missed, period);
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
                let some = mask.map(|mask| cpus_of(mask).and(&self.all));
                // Another machine may have none of these CPUs, as `notes_on()` says.
                let some = some.filter(|some| !some.is_empty());
                Op::SetAffinity(Box::new(some.unwrap_or(self.all)))
            }
            Some(Step::Slice(ns)) => Op::SetPolicy(plan.policy(self.thread, ns)),
            Some(Step::Fork(child)) => Op::Fork {
                child: Box::new(Running::spec(plan, child, self.all)),
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
