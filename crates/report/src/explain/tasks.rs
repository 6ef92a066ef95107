//! The tasks of a run as its trace shows them: names, priorities, affinities and control groups.

use machine::CpuMask;
use simulator::Event;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The kernel's `MAX_RT_PRIO`: priorities below it are real-time.
const MAX_RT_PRIO: i32 = 100;
/// The kernel's `DEFAULT_PRIO`, which is the priority of nice 0.
const DEFAULT_PRIO: i32 = 120;

#[derive(Clone, Debug)]
struct Known {
    name: String,
    prio: i32,
    /// The CPUs that the task may use; `None` means all.
    allowed: Option<CpuMask>,
    /// Is the task's policy SCHED_IDLE?
    idle: bool,
    group: Option<Group>,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's path.
    pub path: String,
    /// The group's `cpu.weight`.
    pub weight: u32,
    /// The product of this weight and the weights of the groups above, where 2^20 stands for the default weight, 100.
    pub product: u64,
}

/// The tasks seen so far, by pid.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    known: HashMap<i32, Known>,
    /// The names that several tasks share. These names are known only at the end of the run.
    shared: HashSet<String>,
}

/// A kernel priority, in user space's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_FIFO or SCHED_RR, from 1 to 99.
    RealTime(i32),
    /// The nice value of a fair task.
    Nice(i32),
    /// SCHED_IDLE.
    Idle,
}

impl Priority {
    /// The priority in user space's terms that the kernel's `prio` stands for.
    pub fn of(prio: i32) -> Priority {
        match prio {
            ..0 => Priority::Deadline,
            0..MAX_RT_PRIO => Priority::RealTime(MAX_RT_PRIO - 1 - prio),
            _ => Priority::Nice(prio - DEFAULT_PRIO),
        }
    }

    /// Is the priority that of a class above the fair class?
    pub fn is_real_time(self) -> bool {
        matches!(self, Priority::Deadline | Priority::RealTime(_))
    }
}

impl Tasks {
    /// Learns the names, priorities, affinities and control groups of tasks from `event`.
    pub fn learn(&mut self, event: &Event<'_>) {
        match *event {
            Event::Switch {
                next, next_prio, ..
            } => self.seen(next, Some(next_prio)),
            Event::Wakeup { task, prio, .. } | Event::Migrate { task, prio, .. } => {
                self.seen(task, Some(prio));
            }
            Event::Decision { task, .. } => task.into_iter().for_each(|task| self.seen(task, None)),
            Event::Affinity { task, cpus } => {
                self.seen(task, None);
                if let Some(known) = self.known.get_mut(&task.1) {
                    known.allowed = CpuMask::from_bytes(cpus);
                }
            }
            Event::Weight {
                task,
                prio,
                idle,
                group,
                group_weight,
                product,
            } => {
                self.seen(task, Some(prio));
                if let Some(known) = self.known.get_mut(&task.1) {
                    known.idle = idle;
                    known.group = Some(Group {
                        path: group.to_owned(),
                        weight: group_weight,
                        product,
                    });
                }
            }
            _ => {}
        }
    }

    fn seen(&mut self, (name, pid): (&str, i32), prio: Option<i32>) {
        if pid == 0 {
            return;
        }
        match self.known.get_mut(&pid) {
            Some(known) => known.prio = prio.unwrap_or(known.prio),
            None => {
                let known = Known {
                    name: name.to_owned(),
                    prio: prio.unwrap_or(DEFAULT_PRIO),
                    allowed: None,
                    idle: false,
                    group: None,
                };
                self.known.insert(pid, known);
            }
        }
    }

    /// Finds the names that several tasks share. Call this when the run is over.
    pub fn finish(&mut self) {
        let mut once = HashSet::new();
        let names = self.known.values().map(|known| &known.name);
        let twice = names.filter(|name| !once.insert(*name));
        self.shared = twice.cloned().collect();
    }

    /// The name without the pid, if the task is known.
    pub fn name(&self, pid: i32) -> Option<&str> {
        self.known.get(&pid).map(|known| known.name.as_str())
    }

    /// The name of a task, with its pid if other tasks have the same name.
    pub fn label(&self, pid: i32) -> Cow<'_, str> {
        match self.name(pid) {
            Some(name) if self.shared.contains(name) => Cow::Owned(format!("{name} ({pid})")),
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("task {pid}")),
        }
    }

    /// The task's latest priority.
    pub fn priority(&self, pid: i32) -> Priority {
        match self.known.get(&pid) {
            Some(known) if known.idle => Priority::Idle,
            Some(known) => Priority::of(known.prio),
            None => Priority::of(DEFAULT_PRIO),
        }
    }

    /// The task's control group, unless it has always been in the root group.
    pub fn group(&self, pid: i32) -> Option<&Group> {
        self.known.get(&pid)?.group.as_ref()
    }

    /// The CPUs that the task may use; `None` means all.
    pub fn allowed(&self, pid: i32) -> Option<CpuMask> {
        self.known.get(&pid).and_then(|known| known.allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_in_the_terms_of_user_space() {
        for (prio, is) in [
            (-1, Priority::Deadline),
            (0, Priority::RealTime(99)),
            (98, Priority::RealTime(1)),
            (100, Priority::Nice(-20)),
            (139, Priority::Nice(19)),
        ] {
            assert_eq!(Priority::of(prio), is);
        }
    }

    #[test]
    fn the_last_affinity_counts_and_a_shared_name_has_its_pid() {
        let mut tasks = Tasks::default();
        for cpus in [[0, 1], [2, 3]] {
            let cpus: CpuMask = cpus.into_iter().collect();
            tasks.learn(&Event::Affinity {
                task: ("a", 7),
                cpus: &cpus.to_bytes(),
            });
        }
        let wakeup = |task| Event::Wakeup {
            task,
            prio: 110,
            target_cpu: 0,
            new: false,
        };
        tasks.learn(&wakeup(("a", 8)));
        tasks.learn(&wakeup(("b", 9)));
        tasks.finish();
        assert_eq!(tasks.allowed(7), Some([2, 3].into_iter().collect()));
        assert_eq!(tasks.allowed(8), None);
        assert_eq!(tasks.priority(8), Priority::Nice(-10));
        assert_eq!((&*tasks.label(7), &*tasks.label(9)), ("a (7)", "b"));
    }
}
