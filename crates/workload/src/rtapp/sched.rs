//! Scheduling settings of a task or a phase: `policy`, `priority`, `dl-*`.

use super::field::{Field, INT};
use crate::SchedPolicy;
use machine::input::BadInput;
use std::ops::RangeInclusive;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Other,
    Batch,
    Idle,
    Fifo,
    RoundRobin,
    Deadline,
}

const CLASSES: [(&str, Class); 6] = [
    ("SCHED_OTHER", Class::Other),
    ("SCHED_BATCH", Class::Batch),
    ("SCHED_IDLE", Class::Idle),
    ("SCHED_FIFO", Class::Fifo),
    ("SCHED_RR", Class::RoundRobin),
    ("SCHED_DEADLINE", Class::Deadline),
];

const NICE: RangeInclusive<i64> = -20..=19;
const RT_PRIORITY: RangeInclusive<i64> = 1..=99;
/// rt-app's priority of a real-time task that gives none.
const DEFAULT_RT_PRIORITY: i64 = 10;
/// The shortest budget that the kernel accepts, in ns (`1 << DL_SCALE`).
const DL_MIN_RUNTIME: u64 = 1024;

impl Class {
    pub fn read(field: Field<'_>) -> Result<Class, Box<BadInput>> {
        field.choice("a scheduling policy", &CLASSES)
    }

    pub fn name(self) -> &'static str {
        let mut named = CLASSES.iter().filter(|&&(_, class)| class == self);
        named.next().expect("each class has a name").0
    }

    pub fn is_fair(self) -> bool {
        matches!(self, Class::Other | Class::Batch | Class::Idle)
    }

    pub fn of(policy: SchedPolicy) -> Class {
        match policy {
            SchedPolicy::Normal { .. } => Class::Other,
            SchedPolicy::Batch { .. } => Class::Batch,
            SchedPolicy::Idle => Class::Idle,
            SchedPolicy::Fifo { .. } => Class::Fifo,
            SchedPolicy::RoundRobin { .. } => Class::RoundRobin,
            SchedPolicy::Deadline { .. } => Class::Deadline,
        }
    }
}

/// The settings of one object, as written in the file.
#[derive(Clone, Copy, Default)]
pub struct Settings<'a> {
    policy: Option<(Class, Field<'a>)>,
    priority: Option<Field<'a>>,
    runtime: Option<Field<'a>>,
    /// `dl-runtime`, which for a fair task is the slice that it requests.
    slice: Option<Field<'a>>,
    deadline: Option<Field<'a>>,
    period: Option<Field<'a>>,
}

impl<'a> Settings<'a> {
    /// Takes `field` if it is a setting. If `legacy`, names without `dl-` are settings, too; rt-app still reads these
    /// at task level.
    pub fn take(&mut self, field: Field<'a>, legacy: bool) -> Result<bool, Box<BadInput>> {
        match field.key() {
            "policy" => self.policy = Some((Class::read(field)?, field)),
            "priority" => self.priority = Some(field),
            "dl-runtime" => (self.runtime, self.slice) = (Some(field), Some(field)),
            "dl-deadline" => self.deadline = Some(field),
            "dl-period" => self.period = Some(field),
            "runtime" if legacy => self.runtime = self.runtime.or(Some(field)),
            "deadline" if legacy => self.deadline = self.deadline.or(Some(field)),
            "period" if legacy => self.period = self.period.or(Some(field)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The policy of a task, in a file with this default.
    pub fn of_task(&self, default: Class, task: Field<'_>) -> Result<SchedPolicy, Box<BadInput>> {
        let class = self.policy.map_or(default, |(class, _)| class);
        self.resolve(class, self.policy.map_or(task, |(_, field)| field))
    }

    /// The policy that a phase sets while `current` is in force; `None` if the phase changes nothing. As in rt-app's
    /// `set_thread_param()`, a phase without `policy` sets the parameters of the current policy, and parameters that
    /// have no effect there change nothing. SCHED_DEADLINE keeps none of its parameters.
    pub fn of_phase(&self, current: SchedPolicy) -> Result<Option<SchedPolicy>, Box<BadInput>> {
        if let Some((class, field)) = self.policy {
            return self.resolve(class, field).map(Some);
        }
        let any = match current {
            SchedPolicy::Deadline { .. } => {
                let times = self.runtime.or(self.deadline).or(self.period);
                times.or(self.priority)
            }
            SchedPolicy::Normal { .. } | SchedPolicy::Batch { .. } => self.priority.or(self.slice),
            _ => self.priority,
        };
        let Some(field) = any else {
            return Ok(None);
        };
        Ok(Some(match current {
            SchedPolicy::Normal { nice, slice_ns } => SchedPolicy::Normal {
                nice: self.nice(nice)?,
                slice_ns: self.slice_ns(slice_ns)?,
            },
            SchedPolicy::Batch { nice, slice_ns } => SchedPolicy::Batch {
                nice: self.nice(nice)?,
                slice_ns: self.slice_ns(slice_ns)?,
            },
            _ => self.resolve(Class::of(current), field)?,
        }))
    }

    /// The `runtime` in ns, which versions of rt-app since February 2025 also take as the slice of a fair task without
    /// `dl-runtime`. It is not a slice here, as in release 1.0.
    pub fn legacy_slice(&self, policy: SchedPolicy) -> Result<Option<u64>, Box<BadInput>> {
        match policy {
            SchedPolicy::Normal { .. } | SchedPolicy::Batch { .. } if self.slice.is_none() => {
                let runtime = self.runtime;
                runtime
                    .map(|field| field.microseconds("a time to run"))
                    .transpose()
            }
            _ => Ok(None),
        }
    }

    fn nice(&self, default: i8) -> Result<i8, Box<BadInput>> {
        let what = "the nice value of a SCHED_OTHER or SCHED_BATCH task";
        let nice = |field: Field<'_>| field.integer(NICE, what).map(|nice| nice as i8);
        self.priority.map_or(Ok(default), nice)
    }

    /// The requested slice in ns, as in rt-app since 2025 for Linux 6.12; 0 stands for the default slice.
    fn slice_ns(&self, default: u64) -> Result<u64, Box<BadInput>> {
        let what = "the slice that a SCHED_OTHER or SCHED_BATCH task requests";
        self.slice
            .map_or(Ok(default), |field| field.microseconds(what))
    }

    fn resolve(&self, class: Class, place: Field<'_>) -> Result<SchedPolicy, Box<BadInput>> {
        let priority = |range: RangeInclusive<i64>, default, what| match self.priority {
            Some(field) => field.integer(range, what),
            None => Ok(default),
        };
        let rt = || {
            let what = "the priority of a SCHED_FIFO or SCHED_RR task";
            priority(RT_PRIORITY, DEFAULT_RT_PRIORITY, what)
        };
        Ok(match class {
            Class::Other => SchedPolicy::Normal {
                nice: self.nice(0)?,
                slice_ns: self.slice_ns(0)?,
            },
            Class::Batch => SchedPolicy::Batch {
                nice: self.nice(0)?,
                slice_ns: self.slice_ns(0)?,
            },
            Class::Fifo => SchedPolicy::Fifo {
                priority: rt()? as u8,
            },
            Class::RoundRobin => SchedPolicy::RoundRobin {
                priority: rt()? as u8,
            },
            Class::Idle => {
                priority(INT, 0, "a priority")?;
                SchedPolicy::Idle
            }
            Class::Deadline => self.deadline(place)?,
        })
    }

    fn deadline(&self, place: Field<'_>) -> Result<SchedPolicy, Box<BadInput>> {
        let time = |field: Option<Field<'_>>, default, what| match field {
            Some(field) => field.microseconds(what),
            None => Ok(default),
        };
        let runtime_ns = time(self.runtime, 0, "the budget of a SCHED_DEADLINE task")?;
        let period_ns = time(self.period, runtime_ns, "the period")?;
        let deadline_ns = time(self.deadline, period_ns, "the deadline")?;
        if !(DL_MIN_RUNTIME <= runtime_ns && runtime_ns <= deadline_ns && deadline_ns <= period_ns)
        {
            return Err(place.bad_key(
                format!(
                    "SCHED_DEADLINE with a runtime of {}, deadline of {} and period of {} us",
                    runtime_ns / 1000,
                    deadline_ns / 1000,
                    period_ns / 1000
                ),
                "expected 2 us <= dl-runtime <= dl-deadline <= dl-period",
            ));
        }
        Ok(SchedPolicy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        })
    }
}
