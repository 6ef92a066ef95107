//! The placement and the scheduling parameters of all threads of a workload: a control group, CPUs, a nice level, a
//! class, a slice and a session, as a shell or a service manager gives them to a program; and whether the threads' CPU
//! time decides a comparison. Any workload takes these parameters:
//!
//! ```text
//! kbuild:jobs=16,group=/app,weight=50,nice=5      cgexec -g cpu:/app nice -n 5 make -j 16
//! busy:threads=4,group=/app,quota=2               docker run --cpus 2
//! busy:cpus=0-3/8,class=batch,session=1           setsid chrt --batch 0 taskset -c 0-3,8
//! cyclictest:slice=100us                          chrt --other --sched-runtime 100000 0 cyclictest
//! busy:threads=2,cpu_time=more                    the more CPU time the two get, the better
//! ```

use crate::bound::wrongly_bound;
use crate::cpu_time::{self, Account};
use crate::group::{Bandwidth, ControlGroup, GroupId};
use crate::params::nanoseconds;
use crate::{Better, CpuBound, Env, Metric, Op, Program, SchedPolicy, Start, TaskSpec, Workload};
use machine::input::{self, BadInput};
use machine::{CpuMask, Machine};
use std::sync::Arc;

/// The names of these parameters.
pub(crate) const NAMES: [&str; 9] = [
    "group", "weight", "quota", "cpus", "nice", "class", "slice", "session", "cpu_time",
];

/// The period of a quota, in us, which is the default of `cpu.max`.
const PERIOD_US: u64 = 100_000;

/// A policy for fair threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FairClass {
    Other,
    Batch,
    Idle,
}

/// The placement and the scheduling parameters of the threads of a workload.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// The names of the group and of the groups above it, from the root down; empty for the root.
    group: Vec<String>,
    weight: Option<u32>,
    quota: Option<Bandwidth>,
    cpus: Option<CpuMask>,
    nice: i8,
    class: Option<FairClass>,
    slice: Option<u64>,
    session: Option<u32>,
    /// The direction in which the CPU time of the threads is better, if CPU time decides.
    cpu_time: Option<Better>,
}

/// The placement that some parameters give, if any, and the other parameters.
type Split = (Option<Placement>, Option<String>);

type Expected = String;

impl Placement {
    /// Takes the parameters of a placement out of `params`, the parameters of `workload`. Returns the placement, if
    /// there is such a parameter, and the other parameters.
    pub fn read(workload: &str, params: Option<&str>) -> Result<Split, Box<BadInput>> {
        let (mut placement, mut rest, mut seen) = (Placement::default(), Vec::new(), Vec::new());
        for item in params.into_iter().flat_map(|params| params.split(',')) {
            let known = item.split_once('=').and_then(|(name, value)| {
                Some((NAMES.iter().find(|known| **known == name)?, value))
            });
            let Some((name, value)) = known else {
                rest.push(item);
                continue;
            };
            let bad = |message: String, expected: String| {
                let message = format!("workload `{workload}`: {message}");
                Box::new(BadInput::whole(message, format!("expected {expected}")))
            };
            if seen.contains(name) {
                return Err(bad(
                    format!("parameter `{name}` is given twice"),
                    format!("`{name}` once"),
                ));
            }
            seen.push(name);
            placement.set(name, value).map_err(|expected| {
                bad(format!("`{value}` is not a value of `{name}`"), expected)
            })?;
        }
        let setting = ["weight", "quota"]
            .into_iter()
            .find(|name| seen.contains(name));
        if let Some(setting) = setting.filter(|_| placement.group.is_empty()) {
            let message =
                format!("workload `{workload}`: `{setting}` is a setting of a control group");
            let expected = "expected the group as well, such as group=/app";
            return Err(Box::new(BadInput::whole(message, expected)));
        }
        let rest = (!rest.is_empty()).then(|| rest.join(","));
        Ok(((!seen.is_empty()).then_some(placement), rest))
    }

    /// `workload` with its threads at this place, as the workload `name`.
    pub fn around(self, name: &str, workload: Box<dyn Workload>) -> Box<dyn Workload> {
        let cpu_time = self.cpu_time.map(|better| cpu_time::metric(None, better));
        Box::new(Placed {
            name: name.to_owned(),
            placement: Arc::new(self),
            metrics: workload.metrics().iter().cloned().chain(cpu_time).collect(),
            workload,
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Expected> {
        match name {
            "group" => self.group = path(value)?,
            "weight" => self.weight = Some(number(value, 1, 10_000, "a cpu.weight")? as u32),
            "quota" => self.quota = Some(quota(value)?),
            "cpus" => {
                let list = value.replace('/', ",").parse();
                self.cpus = Some(list.map_err(|_| "CPUs such as 0-3 or 0-3/8".to_owned())?);
            }
            "nice" => self.nice = number(value, -20, 19, "a nice level")? as i8,
            "class" => {
                self.class = Some(match value {
                    "other" => FairClass::Other,
                    "batch" => FairClass::Batch,
                    "idle" => FairClass::Idle,
                    _ => {
                        return Err(input::one_of(value, ["other", "batch", "idle"]).replacen(
                            "expected ",
                            "",
                            1,
                        ));
                    }
                });
            }
            "slice" => {
                let slice = nanoseconds(value, 1e3).filter(|ns| crate::SLICES_NS.contains(ns));
                self.slice = Some(slice.ok_or("a time from 100us to 100ms")?);
            }
            "cpu_time" => {
                self.cpu_time = Some(cpu_time::direction(value).ok_or(cpu_time::EXPECTED)?);
            }
            _ => {
                self.session = Some(number(value, 0, 1_000_000, "the number of a session")? as u32)
            }
        }
        Ok(())
    }

    /// The groups, from the root down, before the workload's own groups.
    fn groups(&self) -> Vec<ControlGroup> {
        let mut groups: Vec<ControlGroup> = Vec::new();
        for name in &self.group {
            let parent = groups.len().checked_sub(1).map(|parent| parent as GroupId);
            groups.push(ControlGroup::new(&**name, parent));
        }
        if let Some(own) = groups.last_mut() {
            own.weight = self.weight.unwrap_or(own.weight);
            own.max = self.quota;
        }
        groups
    }

    fn policy(&self, policy: SchedPolicy) -> SchedPolicy {
        let fair = match policy {
            SchedPolicy::Normal { nice, slice_ns } => (FairClass::Other, nice, slice_ns),
            SchedPolicy::Batch { nice, slice_ns } => (FairClass::Batch, nice, slice_ns),
            SchedPolicy::Idle => (FairClass::Idle, 0, 0),
            other => return other,
        };
        let (class, nice, own_slice) = fair;
        let slice_ns = self.slice.filter(|_| own_slice == 0).unwrap_or(own_slice);
        let nice = (nice + self.nice).clamp(-20, 19);
        match self
            .class
            .filter(|_| class == FairClass::Other)
            .unwrap_or(class)
        {
            FairClass::Other => SchedPolicy::Normal { nice, slice_ns },
            FairClass::Batch => SchedPolicy::Batch { nice, slice_ns },
            FairClass::Idle => SchedPolicy::Idle,
        }
    }

    /// The CPUs of a thread that requests `cpus`: the CPUs that are in both masks or, if there are none, the CPUs of
    /// the placement, as with cpuset.cpus.
    fn affinity(&self, cpus: CpuMask) -> CpuMask {
        match &self.cpus {
            Some(own) if own.intersects(&cpus) => own.and(&cpus),
            Some(own) => *own,
            None => cpus,
        }
    }
}

fn number(value: &str, least: i64, most: i64, what: &str) -> Result<i64, Expected> {
    let number = value
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{what} from {least} to {most}"))
}

fn path(value: &str) -> Result<Vec<String>, Expected> {
    let names: Vec<String> = value.split('/').skip(1).map(str::to_owned).collect();
    let is_name = |name: &String| !name.is_empty() && name != "." && name != "..";
    match value.starts_with('/') && names.iter().all(is_name) {
        true => Ok(names),
        false => Err("a cgroup's path such as /app or /app/worker".into()),
    }
}

/// Reads a quota: CPUs, such as 0.5 or 2, or a time per period, such as 20ms/100ms.
fn quota(value: &str) -> Result<Bandwidth, Expected> {
    let us = |text: &str| nanoseconds(text, 1e3).map(|ns| ns / 1000);
    let read = match value.split_once('/') {
        Some((quota, period)) => us(quota).zip(us(period)),
        None => {
            let cpus = value
                .parse()
                .ok()
                .filter(|cpus: &f64| cpus.is_finite() && *cpus > 0.0);
            cpus.map(|cpus| ((cpus * PERIOD_US as f64).round() as u64, PERIOD_US))
        }
    };
    read.filter(|(quota, period)| (1_000..=1_000_000_000).contains(quota) && (1_000..=1_000_000).contains(period))
        .map(|(quota_us, period_us)| Bandwidth { quota_us, period_us, burst_us: 0 })
        .ok_or_else(|| {
            "a number of CPUs such as 0.5, or QUOTA/PERIOD such as 20ms/100ms, of at least 1 ms, and a period of at most 1 s"
                .into()
        })
}

struct Placed {
    name: String,
    placement: Arc<Placement>,
    workload: Box<dyn Workload>,
    /// The workload's metrics and, if CPU time decides, the metric of the CPU time.
    metrics: Vec<Metric>,
}

impl Workload for Placed {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        self.workload.description()
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn inner(&self) -> Option<&dyn Workload> {
        Some(&*self.workload)
    }

    fn bindings(&self) -> Vec<CpuMask> {
        let inner = self.workload.bindings().into_iter();
        let bound = inner.map(|cpus| self.placement.affinity(cpus));
        bound.chain(self.placement.cpus).collect()
    }

    fn notes_on(&self, machine: &Machine) -> Vec<String> {
        let own = self.placement.cpus;
        let replaced = own
            .and_then(|cpus| wrongly_bound(&*self.workload, machine, |set| !set.intersects(&cpus)));
        let note = own.zip(replaced).map(|(cpus, replaced)| {
            format!(
                "In `{}`, threads are bound to CPUs {replaced}. `cpus` replaces these by CPUs {cpus}.",
                self.name
            )
        });
        let mut notes = self.workload.notes_on(machine);
        notes.extend(note);
        notes
    }

    fn cpu_bound(&self) -> Option<CpuBound> {
        // A quota or a restriction to some CPUs leaves less than the machine has.
        let is_whole = self.placement.cpus.is_none() && self.placement.quota.is_none();
        self.workload.cpu_bound().filter(|_| is_whole)
    }

    fn check(&self, machine: &Machine) -> Result<(), Box<BadInput>> {
        if let Some(cpus) = self
            .placement
            .cpus
            .filter(|cpus| !cpus.intersects(&machine.all_cpus()))
        {
            let message = format!(
                "workload `{}`: {} has none of the CPUs {cpus}",
                self.name, machine.name
            );
            let expected = format!("expected some of CPUs {}", machine.all_cpus());
            return Err(Box::new(BadInput::whole(message, expected)));
        }
        self.workload.check(machine)
    }

    fn of_run(&self, run: u32, count: u32) -> Option<Box<dyn Workload>> {
        Some(Box::new(Placed {
            name: self.name.clone(),
            placement: self.placement.clone(),
            workload: self.workload.of_run(run, count)?,
            metrics: self.metrics.clone(),
        }))
    }

    fn limits_groups(&self) -> bool {
        self.placement.quota.is_some() || self.workload.limits_groups()
    }

    fn start(&self, machine: &Machine) -> Start {
        let mut start = self.workload.start(machine);
        let mut groups = self.placement.groups();
        let place = Place {
            placement: self.placement.clone(),
            first: groups.len() as GroupId,
            cpu_time: Account {
                own: self
                    .placement
                    .cpu_time
                    .map(|_| self.workload.metrics().len()),
                ..Account::default()
            },
        };
        groups.extend(start.groups.into_iter().map(|group| ControlGroup {
            parent: place.group(group.parent),
            ..group
        }));
        start.groups = groups;
        start.tasks = start
            .tasks
            .into_iter()
            .map(|task| place.task(task, true))
            .collect();
        start
    }
}

/// The placement, and the number of groups before the workload's own.
#[derive(Clone)]
struct Place {
    placement: Arc<Placement>,
    first: GroupId,
    cpu_time: Account,
}

impl Place {
    /// The id of a group of the workload; the workload's root (`None`) is the placement's group.
    fn group(&self, group: Option<GroupId>) -> Option<GroupId> {
        match group {
            Some(group) => Some(self.first + group),
            None => self.first.checked_sub(1),
        }
    }

    fn task(&self, mut task: TaskSpec, first: bool) -> TaskSpec {
        task.policy = self.placement.policy(task.policy);
        task.affinity = match task.affinity {
            Some(cpus) => Some(self.placement.affinity(cpus)),
            None => self.placement.cpus.filter(|_| first),
        };
        if first {
            task.session = self.placement.session;
        }
        task.program = Box::new(InPlace {
            program: task.program,
            place: self.clone(),
            enters: first && self.first > 0,
        });
        self.cpu_time.clone().measure(task)
    }

    fn op(&self, op: Op) -> Op {
        match op {
            Op::SetPolicy(policy) => Op::SetPolicy(self.placement.policy(policy)),
            Op::SetAffinity(cpus) => Op::SetAffinity(Box::new(self.placement.affinity(*cpus))),
            Op::EnterGroup(group) => Op::EnterGroup(self.group(group)),
            Op::Fork { child, work } => Op::Fork {
                child: Box::new(self.task(*child, false)),
                work,
            },
            other => other,
        }
    }
}

struct InPlace {
    program: Box<dyn Program>,
    place: Place,
    /// Whether the thread still has to enter its group.
    enters: bool,
}

impl Program for InPlace {
    fn next(&mut self, env: &mut Env) -> Op {
        if std::mem::take(&mut self.enters) {
            return Op::EnterGroup(self.place.group(None));
        }
        self.place.op(self.program.next(env))
    }

    fn end(&mut self, env: &mut Env) {
        self.program.end(env);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: &str = r#"{ "tasks": { "busy": { "instance": 2, "run": 1, "loop": 1 } } }"#;

    fn busy(params: &str) -> Result<Box<dyn Workload>, Box<BadInput>> {
        crate::parse("busy", "busy", BUSY, Some(params))
    }

    #[test]
    fn threads_are_where_they_are_put() {
        let start = busy("group=/a/b,weight=50,quota=0.5,nice=5,slice=200,cpus=0-1/3,session=7")
            .unwrap()
            .start(&crate::fake::machine(4));
        let group = |name: &str, parent| ControlGroup::new(name, parent);
        let max = Some(Bandwidth {
            quota_us: 50_000,
            period_us: 100_000,
            burst_us: 0,
        });
        assert_eq!(
            start.groups,
            [
                group("a", None),
                ControlGroup {
                    weight: 50,
                    max,
                    ..group("b", Some(0))
                }
            ]
        );
        for mut task in start.tasks {
            assert_eq!(
                task.policy,
                SchedPolicy::Normal {
                    nice: 5,
                    slice_ns: 200_000
                }
            );
            assert_eq!(task.affinity, Some("0-1,3".parse().unwrap()));
            assert_eq!(task.session, Some(7));
            let mut env = Env::new(Vec::new(), 1, &[]);
            assert!(matches!(
                task.program.next(&mut env),
                Op::EnterGroup(Some(1))
            ));
        }
    }

    #[test]
    fn a_workload_keeps_its_own_groups_and_classes() {
        let json = r#"{ "taskgroups": { "/x": {} }, "tasks": {
            "f": { "policy": "SCHED_FIFO", "priority": 5, "run": 1, "loop": 1 },
            "n": { "priority": 18, "run": 1, "loop": 1, "taskgroup": "/x" } } }"#;
        let own = crate::parse("own", "own.json", json, None).unwrap();
        let (placement, rest) =
            Placement::read("own", Some("group=/app,nice=5,duration=2,class=batch")).unwrap();
        assert_eq!(rest.as_deref(), Some("duration=2"));
        let start = placement.unwrap().around("own", own);
        let start = start.start(&crate::fake::machine(4));
        let names: Vec<_> = start
            .groups
            .iter()
            .map(|group| (&*group.name, group.parent))
            .collect();
        assert_eq!(names, [("app", None), ("x", Some(0))]);
        let read = |params| Placement::read("own", Some(params)).unwrap().0.unwrap();
        let own = read("nice=5,class=batch");
        let fifo = SchedPolicy::Fifo { priority: 5 };
        assert_eq!(own.policy(fifo), fifo);
        let slice_ns = 200_000;
        let low = SchedPolicy::Normal { nice: 18, slice_ns };
        assert_eq!(own.policy(low), SchedPolicy::Batch { nice: 19, slice_ns });
        assert_eq!(read("slice=5ms").policy(low), low);
    }

    #[test]
    fn contradicting_bindings_are_noted() {
        let json = r#"{ "tasks": { "a": { "cpus": [2], "run": 1, "loop": 1 } } }"#;
        let machine = crate::fake::machine(4);
        let notes = |cpus: &str| {
            let load = crate::parse("pin", "pin.json", json, Some(cpus)).unwrap();
            load.notes_on(&machine)
        };
        assert_eq!(notes("cpus=1-2"), [""; 0]);
        let note =
            "In `pin:cpus=0-1`, threads are bound to CPUs 2. `cpus` replaces these by CPUs 0-1.";
        assert_eq!(notes("cpus=0-1"), [note]);
    }

    #[test]
    fn a_place_that_changes_nothing_is_a_place() {
        let load = busy("duration=2,nice=0").unwrap();
        assert_eq!(load.name(), "busy:duration=2,nice=0");
        let start = load.start(&crate::fake::machine(4));
        assert_eq!(start.duration_ns, Some(2_000_000_000));
        let (none, rest) = Placement::read("busy", Some("duration=2")).unwrap();
        assert!(none.is_none());
        assert_eq!(rest.as_deref(), Some("duration=2"));
    }

    #[test]
    fn bad_places_are_one_message() {
        for (name, message, expected) in [
            ("group=app", "`app` is not a value of `group`", "/app"),
            ("group=/a//b", "not a value of `group`", "/app"),
            ("nice=20", "not a value of `nice`", "-20 to 19"),
            ("cpus=x", "not a value of `cpus`", "0-3"),
            ("slice=50us", "not a value of `slice`", "100us to 100ms"),
            ("cpu_time=1", "not a value of `cpu_time`", "`less`"),
            ("class=rt", "not a value of `class`", "batch"),
            ("group=/a,quota=0", "not a value of `quota`", "20ms/100ms"),
            (
                "weight=50",
                "`weight` is a setting of a control group",
                "group=/app",
            ),
            ("nice=1,nice=2", "given twice", "once"),
        ] {
            let error = busy(name).err().unwrap();
            assert!(error.message().contains(message), "{error}");
            assert!(error.expected().contains(expected), "{}", error.expected());
        }
        // Offline CPUs are no CPUs that a load could use.
        let machine = Machine {
            offline: CpuMask::one(1),
            ..crate::fake::machine(4)
        };
        for cpus in [1, 9] {
            let load = busy(&format!("cpus={cpus}")).unwrap();
            let error = load.check(&machine).unwrap_err();
            let message = format!("none of the CPUs {cpus}");
            assert!(error.message().contains(&message), "{error}");
            assert_eq!(error.expected(), "expected some of CPUs 0,2-3");
        }
    }
}
