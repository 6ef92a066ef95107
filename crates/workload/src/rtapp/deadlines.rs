//! Deadlines of threads that other threads wake. A chain of threads that wake each other gets work in each period of
//! the timer at its head, so each thread's deadline is that period.

use super::config::{Action, Phase, Task};
use std::collections::BTreeSet;

/// For each condition variable, the time after a wakeup by which the waiter should sleep again, in ns. A phase with one
/// timer wakes others once per period; a waiter without a timer passes on the periods of all its wakers. There is no
/// deadline if there is no timer, or if there are several periods.
pub fn deadlines(tasks: &[Task], condvars: usize) -> Vec<Option<u64>> {
    // `None` stands for wakers without a known pace.
    let mut paces: Vec<BTreeSet<Option<u64>>> = vec![BTreeSet::new(); condvars];
    // Each round passes the periods on by one thread, until nothing changes.
    loop {
        let before = paces.clone();
        for task in tasks {
            let own = own_paces(task, &before);
            for phase in &task.phases {
                // A timer without a period has no pace.
                let of_phase = match periods(phase).as_slice() {
                    [] => own.clone(),
                    &[period] if period > 0 => BTreeSet::from([Some(period)]),
                    _ => BTreeSet::from([None]),
                };
                for event in &phase.events {
                    if let Some(cond) = event.action.wakes() {
                        paces[cond as usize].extend(&of_phase);
                    }
                }
            }
        }
        if paces == before {
            break;
        }
    }
    let only = |pace: &BTreeSet<_>| match pace.len() {
        1 => pace.first().copied().flatten(),
        _ => None,
    };
    paces.iter().map(only).collect()
}

/// The pace at which `task` reaches a phase without a timer, which is its wakers' pace if the task
/// has no timers.
fn own_paces(task: &Task, paces: &[BTreeSet<Option<u64>>]) -> BTreeSet<Option<u64>> {
    let waits: Vec<u32> = task
        .events()
        .filter_map(|event| event.action.waits_for())
        .collect();
    if waits.is_empty() || task.phases.iter().any(Phase::has_timer) {
        return BTreeSet::from([None]);
    }
    let of_wakers = waits.iter().flat_map(|&cond| &paces[cond as usize]);
    of_wakers.copied().collect()
}

fn periods(phase: &Phase) -> Vec<u64> {
    let events = phase.events.iter();
    events
        .filter_map(|event| match event.action {
            Action::Timer { period, .. } => Some(period),
            _ => None,
        })
        .collect()
}
