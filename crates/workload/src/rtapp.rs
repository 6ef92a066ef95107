//! rt-app's JSON files (release 1.0, and `fork`, `memrun`, `sem_post` and `sem_wait` of later releases) as workloads.
//!
//! The grammar is that of rt-app's `doc/tutorial.txt` with the additions of json-c and of rt-app's companion `workgen`:
//! comments, trailing commas, single quotes, a repeated event or phase, and `"suspend"` without a value. An event's key
//! may continue after the event's name (`run1`, `lock_a`). Differences from rt-app:
//!
//! - The time of `run` is in us at the machine's reference speed, whatever `global.calibration` says.
//! - A meaningless key, which rt-app skips, is an error. So is an event that could never run or never continue: a wait
//!   without a waker, a barrier that cannot be passed, an unlock without a lock. A waker without a waiter and a task
//!   that never starts get remarks.
//! - A thread that still waits when nothing can wake it is a deadlock. If the file has a duration, the run goes on until
//!   then, as in rt-app.
//! - A file without `duration` in which a task loops forever runs for 10 s; rt-app runs until it is
//!   interrupted.
//! - A barrier lets exactly one set of threads pass. In rt-app, a thread that returns quickly can
//!   slip through before the others have left.
//! - When the duration is over, everything stops; rt-app lets each thread finish its event.
//!
//! Properties of rt-app's code that may be unexpected:
//!
//! - `sync` signals and waits but does not lock the mutex; the file has to do so.
//! - Timers count from the first thread's start plus the task's `delay`, not from their first use.
//! - A timer's `absolute` mode belongs to the timer, so one mention makes all its uses absolute.
//! - `runtime` ends by the clock, not by CPU time: a preempted thread computes less. A `runtime` event reads the
//!   clock every 32 us of work.
//! - In a task without `phases`, `loop` counts its only phase. Without `loop`, both kinds of task
//!   continue forever.
//! - `suspend` waits for the name that it gives, as in release 1.0, which Debian has. Versions since June 2025 wait for
//!   the task's own name; a remark lists the tasks for which the two names differ. A `lock` of the same name is the
//!   same mutex.
//! - A fair task's `runtime` outside of phases is not a requested slice, as in release 1.0. Versions since February
//!   2025 take it as `dl-runtime`, too; a remark lists the tasks.
//! - A phase's `dl-runtime` alone changes the slice of a fair task. rt-app changes it only along with `policy` or
//!   `priority`.
//! - `memrun` is work at the reference speed: caches are not simulated, and `ref` has no effect.
//! - The timers of a forked thread also count from the first thread's start, so their first expiries are missed.
//!
//! The section `taskgroups` has the settings of control groups (`groups.rs`), which rt-app leaves
//! to the user. `"cpu_time": "more"` or `"less"` there and in tasks makes CPU time a metric
//! (`cpu_time.rs`). The section `timeline` has changes of the machine (`timeline.rs`).
//!
//! `util_min` and `util_max` clamp the frequency of the CPU, as the kernel does for any sched_ext scheduler; Linux's
//! placement of tasks by these clamps is not simulated. A note names the tasks.
//!
//! The keys `pi_enabled`, `lock_pages`, `io_device` and `nodes_membind`, which have no counterpart in the simulated
//! kernel, and the settings of logs are ignored.

use crate::cpu_time::{self, Account};
use crate::params::Param;
use crate::{Better, Goal, GroupId, Metric, MetricId, Role, Start, StreamKind, Unit, Workload};
use config::{Action, Config, Phase, Task};
use json::Source;
use machine::input::BadInput;
use machine::{CpuMask, Machine};
use std::sync::Arc;
use thread::Thread;

mod check;
mod config;
mod deadlines;
mod event;
mod field;
mod grammar;
mod groups;
mod json;
mod sched;
#[cfg(test)]
mod tests;
mod thread;
mod timeline;

/// The parameters of every rt-app file.
pub const PARAMS: &[Param] = &[Param {
    name: "duration",
    unit: Unit::S,
    default: ENDLESS_DURATION,
    min: 1_000_000,
    max: 3_600_000_000_000,
    help: "the duration; the default is the file's `duration`, else until all threads end, or 10 s \
           if some never do",
}];

/// The duration, in ns, of a file that gives none and never ends by itself.
const ENDLESS_DURATION: u64 = 10_000_000_000;

/// The largest number of threads of a task that have metrics of their own, which keeps tables readable. More threads
/// share one set of metrics, in which only the number of loops is counted for each thread.
const MAX_LOGGED_INSTANCES: u32 = 8;

/// The largest count of a semaphore (`SEM_VALUE_MAX`).
const MOST_POSTS: u64 = i32::MAX as u64;

/// The time from the first thread's start until the last thread's end, in s. The metric has no sample if the duration
/// ended the run.
const TIME: MetricId = 0;

mod word {
    /// rt-app's `t_zero`, in ns; the next word says whether this time has been set.
    pub const ZERO: usize = 0;
    pub const ZERO_SET: usize = 1;
    /// The number of threads that have not ended.
    pub const LIVE: usize = 2;
    /// The number of the machine's CPUs.
    pub const CPUS: usize = 3;
    /// The time at which the last of the initial threads came to their barrier, in ns.
    pub const BEGUN: usize = 4;
    /// The first shared timer. The words after the timers are the numbers of forks of each task.
    pub const TIMERS: usize = 5;
}

/// An rt-app file, ready to run.
pub struct RtApp {
    name: String,
    /// The file's name and text, for messages.
    file: String,
    text: String,
    description: String,
    metrics: Vec<Metric>,
    plan: Arc<Plan>,
    duration: Option<u64>,
    /// Whether the duration is only a default, because a task loops forever.
    is_endless: bool,
}

struct Plan {
    config: Config,
    /// For each task, the metrics of its threads: one entry per instance, or one for all.
    logs: Vec<Vec<Log>>,
    /// The metric of each task's CPU time, if CPU time decides; and for each control group, the metrics of the group
    /// and of the groups above it.
    cpu_times: Vec<Option<MetricId>>,
    group_cpu_times: Arc<[Vec<MetricId>]>,
    /// For each task and phase, the actions of a loop.
    actions: Vec<Vec<Arc<[Action]>>>,
    /// For each condition variable, the deadline of the woken thread, in ns.
    deadlines: Vec<Option<u64>>,
}

/// The metrics of a thread: the columns of rt-app's log, with a sample for each loop of a phase, and two metrics that
/// rt-app does not have.
#[derive(Clone, Copy)]
#[repr(C)]
struct Log {
    /// The time from the loop's beginning to its end.
    period: MetricId,
    /// The time from the beginning to the end of `run` and `runtime` events, if there are any.
    run: Option<MetricId>,
    /// The metrics of wakeups, if there are timers or waits.
    wakes: Option<Wakes>,
    /// The time left when the last timer of the loop was set (the sum over the loop's timers with `cumulative_slack`),
    /// if there are timers.
    slack: Option<MetricId>,
}

/// The metrics of threads that are woken.
#[derive(Clone, Copy)]
struct Wakes {
    /// The delay from a timer's expiry or, for a thread without timers, from the wakeup that ended a wait, until the
    /// thread ran. rt-app has this metric for timers only.
    wakeup_latency: MetricId,
    /// The time from the timer's expiry or the wakeup until the thread sets its timer or waits again. rt-app has no
    /// such metric.
    response: MetricId,
    /// For a thread with a period, its own or that of the timer at the head of its chain (`deadlines.rs`), in per cent:
    /// 100 for each response that took longer than the period, otherwise 0. rt-app has no such metric.
    missed: Option<MetricId>,
}

impl Plan {
    fn forks_word(&self, task: usize) -> usize {
        word::TIMERS + self.config.timers.len() + task
    }

    /// A task's name. If the task has more than one instance, rt-app's number of the thread follows.
    fn thread_name(&self, task: usize, instance: usize) -> String {
        let tasks = &self.config.tasks;
        match tasks[task].instances {
            0 | 1 => tasks[task].name.to_string(),
            _ => {
                let before: u32 = tasks[..task].iter().map(|task| task.instances).sum();
                format!("{}-{}", tasks[task].name, before as usize + instance)
            }
        }
    }
}

/// The description: the first sentence of the comment at the beginning of a file.
pub fn description(text: &str) -> String {
    let comment = text
        .trim_start_matches(|c: char| c.is_whitespace() || c == '{')
        .strip_prefix("/*")
        .and_then(|rest| rest.split_once("*/"))
        .map_or("", |(comment, _)| comment);
    let words: Vec<_> = comment
        .split_whitespace()
        .filter(|word| *word != "*")
        .collect();
    let sentence = words.join(" ");
    match sentence.split(". ").next().unwrap_or_default() {
        "" => "an rt-app file".to_owned(),
        first => first.trim_end_matches('.').to_owned(),
    }
}

impl RtApp {
    /// Parses `text`, the content of `file`. `duration`, in ns, overrides the duration in the file. The error is the
    /// first mistake, with its line and what was expected.
    pub fn parse(
        name: &str,
        file: &str,
        text: &str,
        duration: Option<u64>,
    ) -> Result<RtApp, Box<BadInput>> {
        let config = grammar::parse(Source { file, text })?;
        let chosen = duration.or(config.duration);
        let is_endless = chosen.is_none() && config.tasks.iter().any(|task| task.endless());
        let duration = chosen.or(is_endless.then_some(ENDLESS_DURATION));
        let actions = |phase: &Phase| phase.events.iter().map(|event| event.action).collect();
        let of_phases = |task: &Task| task.phases.iter().map(actions).collect();
        let mut plan = Plan {
            actions: config.tasks.iter().map(of_phases).collect(),
            deadlines: deadlines::deadlines(&config.tasks, config.condvars),
            config,
            logs: Vec::new(),
            cpu_times: Vec::new(),
            group_cpu_times: Arc::default(),
        };
        let mut metrics = plan.lay_out_logs();
        plan.lay_out_cpu_times(&mut metrics);
        Ok(RtApp {
            name: name.to_owned(),
            file: file.to_owned(),
            text: text.to_owned(),
            description: description(text),
            metrics,
            plan: Arc::new(plan),
            duration,
            is_endless,
        })
    }
}

impl RtApp {
    fn check_timeline(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        let mut online = machine.all_cpus();
        for (timed, at) in &self.plan.config.timeline {
            if let Err((message, expected)) = timed.change.check(machine, &mut online) {
                let (file, text) = (&self.file, &self.text);
                let error = BadInput::at(file, text, at.clone(), message, expected);
                return Err(Box::new(error));
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Decides the metrics: [`TIME`], and each thread's or task's columns.
    fn lay_out_logs(&mut self) -> Vec<Metric> {
        let mut metrics = vec![Metric::makespan("time")];
        let forked = config::forked(&self.config.tasks);
        let has_timer = |task: &Task| task.has(|action| matches!(action, Action::Timer { .. }));
        let timers = self.config.tasks.iter().any(has_timer);
        for index in 0..self.config.tasks.len() {
            let task = &self.config.tasks[index];
            let timer = has_timer(task);
            let waits = task.has(|action| action.waits_for().is_some());
            let has_deadline = |action: &Action| {
                let cond = action.waits_for();
                cond.is_some_and(|cond| self.deadlines[cond as usize].is_some())
            };
            let period = timer || task.has(has_deadline);
            let computes = task.has(|action| matches!(action, Action::Run(_) | Action::Copy(_)));
            let run = task.has(|action| matches!(action, Action::Run(_) | Action::Runtime(_)));
            // The timer, and not the scheduler, determines the number of loops, in whichever thread the timer is.
            let paced = timer || waits && timers;
            let (better, role) = match (paced, computes) {
                (true, _) => (Better::Neither, Role::Detail),
                (false, true) => (Better::Lower, Role::Decides(Goal::Throughput)),
                (false, false) => (Better::Lower, Role::Detail),
            };
            let each = task.instances <= MAX_LOGGED_INSTANCES && !forked.contains(&index);
            let names = match each {
                true => (0..task.instances as usize)
                    .map(|instance| self.thread_name(index, instance))
                    .collect(),
                false => vec![task.name.to_string()],
            };
            let pool = (names.len() > 1).then_some(&task.name);
            let sharers = match each || forked.contains(&index) {
                true => 0,
                false => task.instances,
            };
            let logs = names.iter().map(|name| {
                let mut add = |column: &str, unit, better, role| {
                    let is_counted = column == "period";
                    metrics.push(Metric {
                        name: format!("{name}/{column}").into(),
                        unit,
                        better,
                        role,
                        pool: pool.map(|task| format!("{task}/{column}").into()),
                        sharers: if is_counted { sharers } else { 0 },
                    });
                    metrics.len() - 1
                };
                Log {
                    run: run.then(|| add("run", Unit::Us, Better::Lower, Role::Detail)),
                    period: add("period", Unit::Us, better, role),
                    wakes: (timer || waits).then(|| Wakes {
                        wakeup_latency: add(
                            "wu_lat",
                            Unit::Us,
                            Better::Lower,
                            Role::Explains(Goal::Latency),
                        ),
                        response: add(
                            "response",
                            Unit::Us,
                            Better::Lower,
                            Role::Decides(Goal::Latency),
                        ),
                        missed: period.then(|| {
                            add(
                                "missed",
                                Unit::Percent,
                                Better::Lower,
                                Role::Decides(Goal::Latency),
                            )
                        }),
                    }),
                    slack: timer.then(|| add("slack", Unit::Us, Better::Higher, Role::Detail)),
                }
            });
            self.logs.push(logs.collect());
        }
        metrics
    }

    fn lay_out_cpu_times(&mut self, metrics: &mut Vec<Metric>) {
        let mut add = |whose: &str, better| {
            metrics.push(cpu_time::metric(Some(whose), better));
            metrics.len() - 1
        };
        let tasks = self.config.tasks.iter();
        self.cpu_times = tasks
            .map(|task| task.cpu_time.map(|better| add(&task.name, better)))
            .collect();
        let measured = &self.config.measured_groups;
        let added: Vec<(GroupId, MetricId)> = measured
            .iter()
            .map(|measured| (measured.group, add(&measured.path, measured.better)))
            .collect();
        if added.is_empty() {
            return;
        }
        let mut of_groups: Vec<Vec<MetricId>> = Vec::new();
        for (group, settings) in self.config.groups.iter().enumerate() {
            let above = settings
                .parent
                .map(|parent| of_groups[parent as usize].clone());
            let mut all = above.unwrap_or_default();
            let own = added.iter().filter(|(of, _)| *of as usize == group);
            all.extend(own.map(|&(_, metric)| metric));
            of_groups.push(all);
        }
        self.group_cpu_times = of_groups.into();
    }

    /// The metrics to which the CPU time of a thread of `task` counts if the thread begins in `group`.
    fn account(&self, task: usize, group: Option<GroupId>) -> Account {
        Account {
            own: self.cpu_times[task],
            groups: Arc::clone(&self.group_cpu_times),
            group,
        }
    }
}

impl Workload for RtApp {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    /// The metrics are `time`, and the columns of rt-app's log as `THREAD/run`, `period`, `slack` and `wu_lat`. Threads
    /// of a task that has more than 8 instances or is forked share `TASK/...`; without a fork, the loops of each are
    /// counted. A thread that is woken also has `THREAD/response`, the time from the wakeup until its work is done. A
    /// thread with a period, its own or its chain's, has `THREAD/missed`.
    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn limits_groups(&self) -> bool {
        self.plan
            .config
            .groups
            .iter()
            .any(|group| group.max.is_some())
    }

    fn notes(&self) -> Vec<String> {
        let clamped = &self.plan.config.clamped;
        let mut notes: Vec<String> = self
            .plan
            .config
            .notes
            .iter()
            .map(|note| format!("{}.", cage::text::plain(note)))
            .collect();
        if clamped.is_empty() {
            return notes;
        }
        let note = format!(
            "util_min and util_max (uclamp) of {} clamp the frequency that schedutil chooses; no policy here takes them \
             into account when it chooses a CPU.",
            clamped.join(", ")
        );
        notes.push(note);
        notes
    }

    fn bindings(&self) -> Vec<CpuMask> {
        let bindings = self.plan.config.bindings.iter();
        bindings.map(|(cpus, _)| *cpus).collect()
    }

    /// Checks that `cpus` are CPUs of `machine`, and that the timeline is possible there.
    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        let all = machine.all_cpus();
        let named = |cpus: &CpuMask| match cpus.count() {
            1 => format!("CPU {cpus}"),
            _ => format!("CPUs {cpus}"),
        };
        let mut bindings = self.plan.config.bindings.iter();
        match bindings.find(|(cpus, _)| !cpus.is_subset(&all)) {
            Some((cpus, at)) => Err(Box::new(BadInput::at(
                &self.file,
                &self.text,
                at.clone(),
                format!(
                    "a task is bound to {}, but machine `{}` has {}",
                    named(cpus),
                    machine.name,
                    named(&all)
                ),
                "expected CPUs that the machine has",
            ))),
            None => self.check_timeline(machine),
        }
    }

    fn start(&self, machine: &Machine) -> Start {
        let config = &self.plan.config;
        let tasks: Vec<_> = (0..config.tasks.len())
            .flat_map(|task| {
                let instances = config.tasks[task].instances as usize;
                (0..instances).map(move |instance| (task, instance))
            })
            .map(|(task, instance)| Thread::initial(&self.plan, task, instance))
            .collect();
        let mut shared = vec![0; self.plan.forks_word(config.tasks.len())];
        shared[word::LIVE] = tasks.len() as u64;
        shared[word::CPUS] = machine.cpus.len() as u64;
        let all_started = tasks.len() as u32;
        Start {
            tasks,
            mutexes: config.mutexes.len(),
            mutex_names: config.mutexes.clone(),
            condvars: config.condvars,
            streams: vec![StreamKind::Futex.holding(MOST_POSTS); config.semaphores],
            barriers: std::iter::once(all_started)
                .chain(config.barriers.iter().copied())
                .collect(),
            shared,
            groups: config.groups.clone(),
            timeline: config
                .timeline
                .iter()
                .map(|(change, _)| change.clone())
                .collect(),
            duration_ns: self.duration,
            is_endless: self.is_endless,
            ..Start::default()
        }
    }
}
