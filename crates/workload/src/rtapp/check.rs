//! Mistakes that show only when tasks are considered together: tasks or events that could never run or never continue.

use super::config::{self, Action, Event, Task};
use super::event::Names;
use super::json::Source;
use crate::SchedPolicy;
use machine::input::BadInput;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

type Check = Result<(), Box<BadInput>>;

/// Checks that no task forks while its policy is SCHED_DEADLINE: the kernel's `sched_fork()` refuses (EAGAIN), and
/// rt-app exits.
pub fn forks(source: Source<'_>, tasks: &[Task]) -> Check {
    for task in tasks {
        let mut policy = task.policy;
        // In a second iteration, a phase may have the policy of a later phase.
        let iterations = if task.loops == Some(1) { 1 } else { 2 };
        for phase in (0..iterations).flat_map(|_| &task.phases) {
            policy = phase.policy.unwrap_or(policy);
            let is_fork = |event: &&Event| matches!(event.action, Action::Fork(_));
            if let SchedPolicy::Deadline { .. } = policy
                && let Some(fork) = phase.events.iter().find(is_fork)
            {
                return Err(source.bad(
                    &fork.at,
                    format!("task `{}` forks while it is SCHED_DEADLINE", task.name),
                    "expected another policy while it forks: Linux fails with EAGAIN, and rt-app exits",
                ));
            }
        }
    }
    Ok(())
}

/// Remarks on the tasks that never run, since they start no thread and no task forks them.
pub fn never_run(tasks: &[Task]) -> Vec<String> {
    let forked = config::forked(tasks);
    let indexed = tasks.iter().enumerate();
    let never = indexed.filter(|(index, task)| task.instances == 0 && !forked.contains(index));
    never
        .map(|(_, task)| format!("task {} starts no thread, and no task forks it", task.name))
        .collect()
}

/// Checks that a thread locks only mutexes that it does not hold, unlocks and waits with only
/// mutexes that it holds, and holds none when it ends.
pub fn mutexes(source: Source<'_>, tasks: &[Task], names: &Names) -> Check {
    tasks
        .iter()
        .try_for_each(|task| Holding::default().walk_task(source, task, names))
}

#[derive(Default)]
struct Holding {
    /// The mutexes that are held, and the places in the text where they were locked.
    held: BTreeMap<u32, Range<usize>>,
}

impl Holding {
    /// Walks through two iterations, which show everything that endless iteration would show.
    fn walk_task(&mut self, source: Source<'_>, task: &Task, names: &Names) -> Check {
        let rounds = |loops: Option<u32>| loops.unwrap_or(2).min(2);
        for _ in 0..rounds(task.loops) {
            for phase in &task.phases {
                for _ in 0..rounds(phase.loops) {
                    for event in &phase.events {
                        self.walk(source, event, names)?;
                    }
                }
            }
        }
        match self.held.first_key_value() {
            Some((&mutex, at)) => Err(source.bad(
                at,
                format!("task `{}` never unlocks `{}`", task.name, names.name(mutex)),
                "expected an `unlock` for every `lock`",
            )),
            None => Ok(()),
        }
    }

    fn walk(&mut self, source: Source<'_>, event: &Event, names: &Names) -> Check {
        let wrong = |message: String, expected| Err(source.bad(&event.at, message, expected));
        match event.action {
            Action::Lock(mutex) => match self.held.insert(mutex, event.at.clone()) {
                None => {}
                Some(_) => {
                    let name = names.name(mutex);
                    return wrong(
                        format!("`{name}` is locked again by the task that already holds it"),
                        "expected an `unlock` before this `lock`: the task would wait for itself",
                    );
                }
            },
            Action::Unlock(mutex) => match self.held.remove(&mutex) {
                Some(_) => {}
                None => {
                    let name = names.name(mutex);
                    return wrong(
                        format!("`{name}` is unlocked but not held"),
                        "expected a `lock` before the `unlock`",
                    );
                }
            },
            Action::Wait { mutex, .. } if !self.held.contains_key(&mutex) => {
                let name = names.name(mutex);
                return wrong(
                    format!("the wait uses mutex `{name}`, which is not held"),
                    "expected a `lock` of the mutex before the wait",
                );
            }
            _ => {}
        }
        Ok(())
    }
}

/// Checks that each waiter has a waker. A waker without a waiter does nothing, as in rt-app, and gets a remark.
pub fn condvars(
    source: Source<'_>,
    tasks: &[Task],
    names: &Names,
) -> Result<Vec<String>, Box<BadInput>> {
    let mut waited = BTreeMap::new();
    let mut woken = BTreeSet::new();
    for event in tasks.iter().flat_map(Task::events) {
        if let Some(cond) = event.action.waits_for() {
            waited.entry(cond).or_insert(&event.at);
        }
        woken.extend(event.action.wakes());
    }
    for (cond, at) in &waited {
        if !woken.contains(cond) {
            return Err(source.bad(
                at,
                format!("nothing ever wakes the waiters for `{}`", names.name(*cond)),
                "expected a task with a `resume`, `signal`, `broad`, `sync` or `sem_post` of that name",
            ));
        }
    }
    let idle = woken.iter().filter(|cond| !waited.contains_key(cond));
    let note = |&cond: &u32| {
        format!(
            "no task ever waits for {}, which other tasks wake",
            names.name(cond)
        )
    };
    Ok(idle.map(note).collect())
}

/// The number of threads that each barrier waits for: as in rt-app, the instances of every task that names it. It is an
/// error if that many threads can never meet there.
pub fn barriers(
    source: Source<'_>,
    tasks: &[Task],
    names: &Names,
) -> Result<Vec<u32>, Box<BadInput>> {
    let forked = config::forked(tasks);
    let mut threads = vec![0; names.len()];
    // For each barrier, the barriers that a task meets directly after it.
    let mut after: Vec<Vec<(u32, &Range<usize>)>> = vec![Vec::new(); names.len()];
    for (index, task) in tasks.iter().enumerate() {
        let is_forked = task.instances == 0 && forked.contains(&index);
        if task.instances == 0 && !is_forked {
            continue;
        }
        let mut met = BTreeSet::new();
        let mut last = None;
        for event in task.events() {
            let Action::Barrier(barrier) = event.action else {
                continue;
            };
            let name = names.name(barrier);
            if !met.insert(barrier) {
                return Err(source.bad(
                    &event.at,
                    format!("barrier `{name}` occurs twice in task `{}`", task.name),
                    "expected a different name for each barrier: rt-app counts each occurrence as a thread, so \
                     these occurrences can never meet",
                ));
            }
            if is_forked {
                return Err(source.bad(
                    &event.at,
                    format!(
                        "barrier `{name}` is in task `{}`, which is forked",
                        task.name
                    ),
                    "expected barriers in tasks with an `instance` of at least 1: rt-app counts only such tasks",
                ));
            }
            threads[barrier as usize] += task.instances;
            if let Some(before) = last.replace(barrier) {
                after[before as usize].push((barrier, &event.at));
            }
        }
    }
    let mut state = vec![Visit::New; names.len()];
    for barrier in 0..names.len() as u32 {
        if let Some((back, at)) = find_cycle(barrier, &after, &mut state) {
            return Err(source.bad(
                at,
                format!("barrier `{}` can never be passed", names.name(back)),
                "expected all tasks to meet barriers in the same order",
            ));
        }
    }
    Ok(threads)
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    Under,
    Done,
}

/// Finds a cycle by a depth-first search without recursion. A path back to a barrier that is still being visited is a
/// cycle.
fn find_cycle<'a>(
    from: u32,
    after: &[Vec<(u32, &'a Range<usize>)>],
    state: &mut [Visit],
) -> Option<(u32, &'a Range<usize>)> {
    if state[from as usize] != Visit::New {
        return None;
    }
    let mut path = vec![(from, 0)];
    state[from as usize] = Visit::Under;
    while let Some((barrier, next)) = path.last_mut() {
        let Some(&(to, at)) = after[*barrier as usize].get(*next) else {
            state[*barrier as usize] = Visit::Done;
            path.pop();
            continue;
        };
        *next += 1;
        match state[to as usize] {
            Visit::Under => return Some((to, at)),
            Visit::Done => {}
            Visit::New => {
                state[to as usize] = Visit::Under;
                path.push((to, 0));
            }
        }
    }
    None
}
