//! Several workloads at once: `sysbench-cpu:time=15+rt-pinned`.
//!
//! Each workload has its own mutexes, streams and so on, which are numbered one after another. A program sees only the
//! objects of its own workload. A metric is prefixed with the workload's name if two workloads have metrics of the same
//! name. The run ends when all tasks have exited, or when the shortest duration of a workload is over.

use crate::{ControlGroup, Env, GroupId, Metric, MetricId, Op, Program, Start, TaskSpec, Workload};
use machine::input::BadInput;
use machine::{CpuMask, Machine};
use std::sync::Arc;

struct Together {
    name: String,
    description: String,
    parts: Vec<Arc<dyn Workload>>,
    metrics: Vec<Metric>,
}

/// The workload `name`, which runs all `parts` at once; their tasks start in this order.
pub fn together(name: &str, parts: Vec<Box<dyn Workload>>) -> Box<dyn Workload> {
    let named = |name: &str| {
        let metrics = parts.iter().flat_map(|part| part.metrics());
        metrics.filter(|metric| metric.name == name).count()
    };
    let mut metrics = Vec::new();
    for part in &parts {
        for metric in part.metrics() {
            let mut metric = metric.clone();
            if named(&metric.name) > 1 {
                let full = |name: &str| format!("{}/{name}", part.name()).into();
                metric.pool = metric.pool.as_deref().map(full);
                metric.name = full(&metric.name);
            }
            metrics.push(metric);
        }
    }
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    Box::new(Together {
        name: name.to_owned(),
        description: format!("{} at once", names.join(" and ")),
        parts: parts.into_iter().map(Arc::from).collect(),
        metrics,
    })
}

impl Workload for Together {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        self.parts.iter().try_for_each(|part| part.check(machine))
    }

    fn of_run(&self, run: u32, count: u32) -> Option<Box<dyn Workload>> {
        let of_run: Vec<_> = self
            .parts
            .iter()
            .map(|part| part.of_run(run, count))
            .collect();
        of_run.iter().any(Option::is_some).then(|| {
            let parts = of_run.into_iter().zip(&self.parts);
            let changed =
                parts.map(|(changed, part)| changed.map_or_else(|| part.clone(), Arc::from));
            Box::new(Together {
                name: self.name.clone(),
                description: self.description.clone(),
                parts: changed.collect(),
                metrics: self.metrics.clone(),
            }) as Box<dyn Workload>
        })
    }

    fn limits_groups(&self) -> bool {
        self.parts.iter().any(|part| part.limits_groups())
    }

    fn notes(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.notes()).collect()
    }

    fn bindings(&self) -> Vec<CpuMask> {
        self.parts.iter().flat_map(|part| part.bindings()).collect()
    }

    fn notes_on(&self, machine: &Machine) -> Vec<String> {
        let parts = self.parts.iter();
        parts.flat_map(|part| part.notes_on(machine)).collect()
    }

    fn cut_short(&self, machine: &Machine) -> Vec<MetricId> {
        let has_duration = |part: &dyn Workload| part.start(machine).duration_ns.is_some();
        let durations: Vec<bool> = self
            .parts
            .iter()
            .map(|part| has_duration(&**part))
            .collect();
        if !durations.contains(&true) {
            return Vec::new();
        }
        let parts = self.parts.iter().zip(durations);
        let of_metrics = parts.flat_map(|(part, has)| vec![!has; part.metrics().len()]);
        let cut = of_metrics.enumerate().filter(|&(_, cut)| cut);
        cut.map(|(metric, _)| metric).collect()
    }

    fn start(&self, machine: &Machine) -> Start {
        let mut all = Start::default();
        let mut groups = Groups::default();
        let mut metrics = 0;
        for part in &self.parts {
            let start = part.start(machine);
            let place = Place {
                metrics,
                mutexes: all.mutexes as u32,
                condvars: all.condvars as u32,
                barriers: all.barriers.len() as u32,
                streams: all.streams.len() as u32,
                first_word: all.shared.len(),
                groups: groups.join(start.groups).into(),
            };
            metrics += part.metrics().len();
            all.tasks
                .extend(start.tasks.into_iter().map(|task| place.task(task)));
            if !start.mutex_names.is_empty() {
                let numbered = all.mutex_names.len()..all.mutexes;
                all.mutex_names
                    .extend(numbered.map(|mutex| mutex.to_string()));
                all.mutex_names.extend(start.mutex_names);
            }
            all.mutexes += start.mutexes;
            all.condvars += start.condvars;
            all.barriers.extend(start.barriers);
            all.streams.extend(start.streams);
            let connections = start.connections.into_iter();
            all.connections
                .extend(connections.map(|(stream, way)| (stream + place.streams, way)));
            all.shared.extend(start.shared);
            all.timeline.extend(start.timeline);
            all.timeline.sort_by_key(|change| change.at_ns);
            all.duration_ns = match (all.duration_ns, start.duration_ns) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            all.is_endless |= start.is_endless;
        }
        all.groups = groups.all;
        all
    }
}

/// The control groups of all parts. Groups with the same path are one group.
#[derive(Default)]
struct Groups {
    all: Vec<ControlGroup>,
}

impl Groups {
    /// Adds the groups of a part, and returns the id of each. If several parts have a group, each of its settings is
    /// that of the first part in which it is not the default.
    fn join(&mut self, part: Vec<ControlGroup>) -> Vec<GroupId> {
        let mut ids: Vec<GroupId> = Vec::new();
        for group in part {
            let parent = group.parent.map(|parent| ids[parent as usize]);
            let is_it = |known: &ControlGroup| (&known.name, known.parent) == (&group.name, parent);
            let known = self.all.iter().position(is_it);
            let id = known.unwrap_or_else(|| {
                self.all.push(ControlGroup::new(group.name.clone(), parent));
                self.all.len() - 1
            });
            let joined = &mut self.all[id];
            if joined.weight == ControlGroup::WEIGHT {
                joined.weight = group.weight;
            }
            joined.max = joined.max.or(group.max);
            joined.idle |= group.idle;
            ids.push(id as GroupId);
        }
        ids
    }
}

/// The offsets of a part's objects among all objects.
#[derive(Clone)]
struct Place {
    metrics: usize,
    mutexes: u32,
    condvars: u32,
    barriers: u32,
    streams: u32,
    first_word: usize,
    /// The ids of the part's groups among all groups.
    groups: Arc<[GroupId]>,
}

impl Place {
    fn task(&self, mut task: TaskSpec) -> TaskSpec {
        task.program = Box::new(Part {
            program: task.program,
            place: self.clone(),
        });
        task
    }

    fn op(&self, op: Op) -> Op {
        let mut op = match op {
            Op::Fork { child, work } => {
                let child = Box::new(self.task(*child));
                return Op::Fork { child, work };
            }
            op => op,
        };
        match &mut op {
            Op::Lock(mutex)
            | Op::Unlock(mutex)
            | Op::Hold { mutex, .. }
            | Op::Release(mutex)
            | Op::SpinLock(mutex) => *mutex += self.mutexes,
            Op::Wait { cond, mutex } => {
                *cond += self.condvars;
                *mutex += self.mutexes;
            }
            Op::Signal(cond) | Op::Broadcast(cond) | Op::BroadcastRequeue(cond) => {
                *cond += self.condvars;
            }
            Op::SpinWhile { word, .. } => *word += self.first_word,
            Op::Barrier(barrier) => *barrier += self.barriers,
            Op::Write { stream, .. } | Op::Read { stream, .. } => *stream += self.streams,
            Op::EnterGroup(Some(group)) => *group = self.groups[*group as usize],
            Op::EnterGroup(None)
            | Op::Fork { .. }
            | Op::Run { .. }
            | Op::RunFor { .. }
            | Op::Exec { .. }
            | Op::Sleep { .. }
            | Op::SleepUntil { .. }
            | Op::Join
            | Op::WaitChildren
            | Op::CondResched
            | Op::Yield
            | Op::SetAffinity(_)
            | Op::SetPolicy(_)
            | Op::SetUtilClamps(_)
            | Op::Exit => {}
        }
        op
    }
}

struct Part {
    program: Box<dyn Program>,
    place: Place,
}

impl Program for Part {
    fn next(&mut self, env: &mut Env) -> Op {
        let Place {
            first_word,
            metrics,
            ..
        } = self.place;
        let op = env.based(first_word, metrics, |env| self.program.next(env));
        self.place.op(op)
    }

    fn end(&mut self, env: &mut Env) {
        let (word, metric) = (self.place.first_word, self.place.metrics);
        env.based(word, metric, |env| self.program.end(env));
    }
}
