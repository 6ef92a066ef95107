//! The activity of other threads during some waits: where they ran, and which of them also waited. This activity is in
//! the trace of any scheduler.

use super::wait::Wait;
use std::collections::{BTreeMap, HashMap};

/// The activity of one thread during another thread's wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The thread's name.
    pub name: String,
    /// The thread's pid.
    pub pid: i32,
    /// The duration of the activity in ns.
    pub ns: u64,
    /// The part of `ns` in which the thread only polled, at the end of its turns, in ns.
    pub polled_ns: u64,
}

/// The other threads' activity during one wait: which threads ran on each CPU, and which threads waited.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// For each CPU, the threads that ran there and their running times, longest first.
    pub ran: BTreeMap<usize, Vec<Share>>,
    /// Other threads that were runnable and did not run, and their waiting times, longest first.
    pub waited: Vec<Share>,
}

/// Accumulates other threads' activity during the run.
pub struct Others {
    waits: Vec<(Wait, Sums)>,
    /// The waiting threads, and the time at which each began to wait.
    waiting: HashMap<i32, u64>,
    /// The task that polled at the end of its turn, and the time since which it polled.
    polls: Option<(i32, u64)>,
}

#[derive(Default)]
struct Sums {
    /// The running time, and the part of it spent polling, by CPU and pid.
    ran: BTreeMap<(usize, i32), (u64, u64)>,
    waited: BTreeMap<i32, u64>,
}

impl Others {
    /// Observes the activity during `waits`.
    pub fn new(waits: &[Wait]) -> Others {
        let sums = |wait: &Wait| (wait.clone(), Sums::default());
        Others {
            waits: waits.iter().map(sums).collect(),
            waiting: HashMap::new(),
            polls: None,
        }
    }

    /// Records that `pid` is runnable from `now` on, and does not run.
    pub fn waits(&mut self, now: u64, pid: i32) {
        self.waiting.entry(pid).or_insert(now);
    }

    pub fn runs(&mut self, now: u64, pid: i32) {
        if let Some(since) = self.waiting.remove(&pid) {
            self.waited(since, now, pid);
        }
    }

    /// Records that `pid`, which is about to lose its CPU, has polled since the time `since`.
    pub fn polls(&mut self, pid: i32, since: u64) {
        self.polls = Some((pid, since));
    }

    /// Records that `pid` ran on `cpu` from `since` until `now`.
    pub fn ran(&mut self, since: u64, now: u64, cpu: usize, pid: i32) {
        let polls = self.polls.take().filter(|polls| polls.0 == pid);
        let polled = polls.map_or(now, |(_, from)| from.max(since));
        for (wait, sums) in &mut self.waits {
            if let Some(ns) = common(wait, since, now) {
                let sum = sums.ran.entry((cpu, pid)).or_default();
                sum.0 += ns;
                sum.1 += common(wait, polled, now).unwrap_or(0);
            }
        }
    }

    fn waited(&mut self, since: u64, now: u64, pid: i32) {
        for (wait, sums) in self.waits.iter_mut().filter(|(wait, _)| wait.pid != pid) {
            if let Some(ns) = common(wait, since, now) {
                *sums.waited.entry(pid).or_default() += ns;
            }
        }
    }

    /// The activity during each of the waits, in their order. Call this when the run is over.
    pub fn finish(mut self, name: impl Fn(i32) -> String) -> Vec<Beside> {
        for (pid, since) in std::mem::take(&mut self.waiting) {
            self.waited(since, u64::MAX, pid);
        }
        let beside = self.waits.into_iter().map(|(_, sums)| {
            let mut beside = Beside::default();
            let share = |pid, ns, polled_ns| Share {
                name: name(pid),
                pid,
                ns,
                polled_ns,
            };
            for ((cpu, pid), (ns, polled)) in sums.ran {
                let list = beside.ran.entry(cpu).or_default();
                list.push(share(pid, ns, polled));
            }
            let waited = sums.waited.into_iter();
            beside.waited = waited.map(|(pid, ns)| share(pid, ns, 0)).collect();
            let lists = beside.ran.values_mut().chain([&mut beside.waited]);
            lists.for_each(|list| list.sort_by_key(|share| u64::MAX - share.ns));
            beside
        });
        beside.collect()
    }
}

/// The time for which the interval from `since` to `until` overlapped `wait`, in ns.
fn common(wait: &Wait, since: u64, until: u64) -> Option<u64> {
    let ns = until.min(wait.to).checked_sub(since.max(wait.from))?;
    Some(ns).filter(|&ns| ns > 0)
}

#[cfg(test)]
mod tests {
    use super::super::wait::After;
    use super::*;

    #[test]
    fn only_what_is_within_the_wait_counts() {
        let wait = Wait {
            name: "ui".to_owned(),
            pid: 7,
            after: After::Wakeup,
            from: 100,
            to: 200,
            open: false,
        };
        let mut others = Others::new(&[wait]);
        others.waits(50, 8);
        others.waits(100, 7);
        others.runs(130, 8);
        others.waits(190, 9);
        others.ran(0, 130, 0, 9);
        others.ran(130, 500, 0, 8);
        others.polls(9, 170);
        others.ran(150, 190, 1, 9);
        others.ran(300, 400, 2, 9);
        let beside = &others.finish(|pid| format!("t{pid}"))[0];
        let share = |pid, ns| Share {
            name: format!("t{pid}"),
            pid,
            ns,
            polled_ns: 0,
        };
        let polled = |share| Share {
            polled_ns: 20,
            ..share
        };
        assert_eq!(beside.waited, [share(8, 30), share(9, 10)]);
        assert_eq!(beside.ran[&0], [share(8, 70), share(9, 30)]);
        assert_eq!(beside.ran[&1], [polled(share(9, 40))]);
        assert_eq!(beside.ran.len(), 2);
    }
}
