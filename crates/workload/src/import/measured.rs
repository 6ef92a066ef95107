//! What the threads of a trace got, whatever they are made into.

use super::known::Known;

/// What a thread got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// `comm`, the last that it had.
    pub name: String,
    /// Which it is, in this trace as in that of a replay: the how many-th that was there, its how many-th child, and so
    /// on.
    pub path: Vec<u32>,
    /// How long it ran, ns of the machine's time.
    pub ran_ns: u64,
    /// After each of its wakeups, until it ran, ns.
    pub latencies_ns: Vec<u64>,
    /// How often a CPU went over to it.
    pub turns: u64,
}

/// Of `threads` those that are kept.
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
        })
        .collect()
}
