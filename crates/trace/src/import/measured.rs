//! The measurements of a trace's threads, independent of the recording.

use super::known::Known;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The measurements of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// The thread's last `comm`.
    pub name: String,
    /// The thread's identity, which is the same in a trace and in the trace of its replay: the
    /// index of the initial thread, then of its child, and so on.
    pub path: Vec<u32>,
    /// The thread's running time, in ns of the machine's time.
    pub ran_ns: u64,
    /// The time from each of the thread's wakeups until it ran, in ns.
    pub latencies_ns: Vec<u64>,
    /// The number of switches to the thread.
    pub turns: u64,
    /// The number of switches to the thread on a different CPU than before.
    pub migrations: u64,
}

/// The measurements of the `threads` that are kept.
pub fn measured(threads: &[Known], keeps: &[bool]) -> Vec<Did> {
    let mut paths: Vec<Vec<u32>> = Vec::with_capacity(threads.len());
    let mut children = vec![0; threads.len()];
    let mut first = 0;
    for (thread, &keep) in threads.iter().zip(keeps) {
        let parent = thread.parent.filter(|&it| keeps[it as usize]);
        let (mut path, before) = match parent {
            Some(it) => (paths[it as usize].clone(), &mut children[it as usize]),
            None => (Vec::new(), &mut first),
        };
        path.push(*before);
        *before += u32::from(keep);
        paths.push(path);
    }
    let all = threads.iter().zip(paths).zip(keeps);
    all.filter(|&(_, &keep)| keep)
        .map(|((thread, path), _)| Did {
            name: thread.name.clone(),
            path,
            ran_ns: thread.ran_ns,
            latencies_ns: thread.latencies.clone(),
            turns: thread.turns,
            migrations: thread.migrations,
        })
        .collect()
}

/// The threads of one name that are not in the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// The threads' name (`comm`).
    pub name: String,
    /// The number of the threads.
    pub threads: usize,
    /// The running time of all of these threads together, in ns.
    pub ran_ns: u64,
}

/// The `threads` that ran but are not kept.
pub fn others(threads: &[Known], keeps: &[bool]) -> Vec<Other> {
    let mut by_name: BTreeMap<&str, Other> = BTreeMap::new();
    let all = threads.iter().zip(keeps);
    for (thread, _) in all.filter(|&(thread, &keep)| !keep && thread.ran_ns > 0) {
        let other = by_name.entry(&thread.name).or_default();
        other.name.clone_from(&thread.name);
        other.threads += 1;
        other.ran_ns += thread.ran_ns;
    }
    let mut others: Vec<Other> = by_name.into_values().collect();
    others.sort_by_key(|other| Reverse(other.ran_ns));
    others
}
