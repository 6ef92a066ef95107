//! Control groups: `taskgroup` of a task or phase, as in rt-app, and the section `taskgroups` with their
//! settings, which rt-app skips:
//!
//! ```text
//! "taskgroups": { "/a/b": { "cpu.weight": 200, "cpu.max": "20000 100000", "cpu.max.burst": 5000, "cpu.idle": 0 } }
//! ```
//!
//! `"cpu_time": "more"` or `"less"` makes the CPU time of a group a metric.

use super::field::{Field, no_repeats};
use crate::Better;
use crate::PRIO_TO_WEIGHT;
use crate::cpu_time;
use crate::group::{Bandwidth, ControlGroup, GroupId};
use machine::input::BadInput;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

type Read<T> = Result<T, Box<BadInput>>;

/// The kernel's limits on `cpu.weight`, and on quota and period in us (kernel/sched/core.c), except for the largest
/// quota, which is larger in the kernel.
const WEIGHT: RangeInclusive<i64> = 1..=10_000;
const PERIOD: RangeInclusive<u64> = 1_000..=1_000_000;
const QUOTA: RangeInclusive<u64> = 1_000..=1_000_000_000_000;
/// The period, in us, of a `cpu.max` that gives no period.
const DEFAULT_PERIOD: u64 = 100_000;
const MAX_GROUPS: usize = 4_000;

const KEYS: [&str; 6] = [
    "cpu.weight",
    "cpu.weight.nice",
    "cpu.max",
    "cpu.max.burst",
    "cpu.idle",
    "cpu_time",
];

/// The groups of a file, each after its parent.
#[derive(Default)]
pub struct Groups {
    all: Vec<ControlGroup>,
    by_path: BTreeMap<String, GroupId>,
    measured: Vec<MeasuredGroup>,
}

/// A group whose CPU time decides a comparison.
pub struct MeasuredGroup {
    pub group: GroupId,
    pub path: String,
    /// The direction in which the group's CPU time is better.
    pub better: Better,
}

impl Groups {
    /// The group of this `taskgroup` or key, which is created, with its ancestors, if it is new. `None` stands for the
    /// root. The error says what was expected.
    fn find(&mut self, path: &str) -> Result<Option<GroupId>, String> {
        let Some(names) = path.strip_prefix('/') else {
            return Err("a cgroup's path that begins with `/`".to_owned());
        };
        let (mut group, mut so_far) = (None, String::new());
        for name in names.split('/').filter(|name| !name.is_empty()) {
            if name == "." || name == ".." {
                return Err("a cgroup's path without `.` and `..`".to_owned());
            }
            so_far = format!("{so_far}/{name}");
            group = Some(match self.by_path.get(&so_far) {
                Some(&group) => group,
                None if self.all.len() == MAX_GROUPS => {
                    return Err(format!("at most {MAX_GROUPS} control groups"));
                }
                None => {
                    self.all.push(ControlGroup::new(name, group));
                    let group = self.all.len() as GroupId - 1;
                    self.by_path.insert(so_far.clone(), group);
                    group
                }
            });
        }
        Ok(group)
    }

    /// The group of a `taskgroup`, unless its path is empty, which counts as no `taskgroup`.
    pub fn of_task(&mut self, field: Field<'_>) -> Read<Option<Option<GroupId>>> {
        match field.string("a cgroup's path")? {
            "" => Ok(None),
            path => match self.find(path) {
                Ok(group) => Ok(Some(group)),
                Err(expected) => Err(field.bad(expected)),
            },
        }
    }

    pub fn read(&mut self, section: Field<'_>) -> Read<()> {
        let groups = section.object("control groups by path")?;
        no_repeats(&groups, |_| false)?;
        let mut seen = BTreeSet::new();
        for field in groups {
            let found = self.find(field.key()).map_err(|expected| {
                let message = format!("`{}` is not the path of a cgroup", field.key());
                field.bad_key(message, format!("expected {expected}"))
            })?;
            let Some(group) = found else {
                let expected = "expected a path below `/`: the root has no settings";
                return Err(field.bad_key("`/` is the root", expected));
            };
            if !seen.insert(group) {
                let message = format!("control group `{}` already has settings above", field.key());
                return Err(field.bad_key(message, "expected the settings of a group once"));
            }
            if let Some(better) = set(&mut self.all[group as usize], field)? {
                self.measured.push(MeasuredGroup {
                    group,
                    path: cage::text::plain(field.key()).into_owned(),
                    better,
                });
            }
        }
        Ok(())
    }

    /// All groups, and the groups whose CPU time decides.
    pub fn all(self) -> (Vec<ControlGroup>, Vec<MeasuredGroup>) {
        (self.all, self.measured)
    }
}

/// The `cpu.weight` that the kernel reports for this `cpu.weight.nice` (`sched_weight_to_cgroup()`).
fn weight_of(nice: i64) -> u32 {
    (PRIO_TO_WEIGHT[(nice + 20) as usize] * 100 + 512) / 1024
}

pub fn cpu_time(field: Field<'_>) -> Read<Better> {
    let text = field.string(cpu_time::EXPECTED)?;
    cpu_time::direction(text).ok_or_else(|| field.bad(cpu_time::EXPECTED))
}

/// Reads the settings of `group`; returns the direction in which the group's CPU time is better, if CPU time decides.
fn set(group: &mut ControlGroup, section: Field<'_>) -> Read<Option<Better>> {
    let fields = section.object("the settings of a control group")?;
    no_repeats(&fields, |_| false)?;
    let (mut burst, mut better) = (None, None);
    for field in fields {
        match field.key() {
            "cpu.weight" => group.weight = field.integer(WEIGHT, "a weight")? as u32,
            "cpu.weight.nice" => {
                let nice = field.integer(-20..=19, "a nice value")?;
                group.weight = weight_of(nice);
            }
            "cpu.idle" => group.idle = field.integer(0..=1, "whether the group is idle")? == 1,
            "cpu.max" => group.max = bandwidth(field)?,
            "cpu.max.burst" => burst = Some((field, field.integer(0..=*QUOTA.end() as i64, "us")?)),
            "cpu_time" => better = Some(cpu_time(field)?),
            _ => {
                let owner = format!("control group `{}`", section.key());
                return Err(field.unknown_key(&owner, KEYS));
            }
        }
    }
    if let Some((field, us)) = burst {
        match &mut group.max {
            Some(max) if us as u64 <= max.quota_us => max.burst_us = us as u64,
            Some(max) => return Err(field.bad(format!("at most the quota, {} us", max.quota_us))),
            None => return Err(field.bad_key("a burst without a quota", "expected cpu.max")),
        }
    }
    Ok(better)
}

/// Reads `cpu.max`: a quota or `max`, and a period.
fn bandwidth(field: Field<'_>) -> Read<Option<Bandwidth>> {
    let text = field.string("a quota and a period in us")?;
    let mut words = text.split_ascii_whitespace();
    let (quota, period) = (words.next(), words.next());
    let expected = || {
        field.bad(format!(
            "\"QUOTA PERIOD\" in us, such as \"20000 100000\", with a quota from {} or `max`, and a period from {} to {}",
            QUOTA.start(),
            PERIOD.start(),
            PERIOD.end()
        ))
    };
    let number = |word: &str, range: RangeInclusive<u64>| match word.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(expected()),
    };
    let period_us = period.map_or(Ok(DEFAULT_PERIOD), |word| number(word, PERIOD))?;
    match quota {
        _ if words.next().is_some() => Err(expected()),
        None => Err(expected()),
        Some("max") => Ok(None),
        Some(word) => Ok(Some(Bandwidth {
            quota_us: number(word, QUOTA)?,
            period_us,
            burst_us: 0,
        })),
    }
}
