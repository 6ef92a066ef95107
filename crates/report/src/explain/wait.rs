//! The waits of threads for a CPU: when, and for how long.

use crate::first_run::base;
use lab::STALL_NS;
use simulator::{Event, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A time in which a thread was runnable and did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread's name, such as `ui-0`.
    pub name: String,
    /// The thread's pid.
    pub pid: i32,
    /// The event before the wait.
    pub after: After,
    /// The time when the wait began, in ns.
    pub from: u64,
    /// The time when the thread runs or, if the wait is `open`, when the run ends, in ns.
    pub to: u64,
    /// Did the thread not run until the end of the run?
    pub open: bool,
}

/// The event before a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The thread woke up, or was created.
    Wakeup,
    /// The thread ran on this CPU, and lost it.
    Running {
        /// The number of the CPU.
        cpu: usize,
    },
}

impl Wait {
    /// Is the thread stalled: did it stop running long before the end of the run?
    pub fn is_stall(&self) -> bool {
        self.open && self.ns() >= STALL_NS
    }

    /// The length of the wait, in ns.
    pub fn ns(&self) -> u64 {
        self.to - self.from
    }

    /// The distance of the wait from `at`, in ns; 0 if `at` is within the wait.
    fn distance(&self, at: u64) -> u64 {
        (self.from.saturating_sub(at)).max(at.saturating_sub(self.to))
    }
}

/// The user's question.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Names of threads (all instances or one) or pids. If the list is empty, the threads by which the workload is
    /// judged are shown, or otherwise all threads.
    pub threads: Vec<String>,
    /// A time in ns: the waits at that time or, if there are none, the nearest wait is shown. Without a time, the
    /// longest waits are shown.
    pub at: Option<u64>,
    /// The maximum number of waits, at least 1.
    pub worst: usize,
}

/// The error that no thread has the requested name.
#[derive(Debug)]
pub struct Unknown {
    /// The requested name.
    pub thread: String,
    /// The existing names.
    pub names: Vec<String>,
}

/// The waits of a thread's instances after their wakeups.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// The thread's name without an instance's number.
    pub name: String,
    /// The waits in ns, from the shortest to the longest.
    pub ns: Vec<u64>,
}

impl Latencies {
    /// The wait in ns that `share` of the wakeups did not exceed, by nearest rank; 0 without wakeups.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.ns.len() as f64).ceil() as usize;
        self.ns.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// Observes all waits of a run, and keeps those that may be requested.
pub struct Waits {
    at: Option<u64>,
    worst: usize,
    threads: BTreeMap<i32, Thread>,
    waiting: HashMap<i32, (u64, After)>,
    now: u64,
}

#[derive(Default)]
struct Thread {
    name: String,
    latencies: Vec<u64>,
    /// The waits after wakeups, and the other waits.
    woken: Vec<Wait>,
    others: Vec<Wait>,
}

impl Waits {
    /// Starts to observe a run for the waits that `asked` requests.
    pub fn new(asked: &Asked) -> Waits {
        Waits {
            at: asked.at,
            worst: asked.worst,
            threads: BTreeMap::new(),
            waiting: HashMap::new(),
            now: 0,
        }
    }

    /// The requested waits, in the order of display, and the latencies of the threads. `usual` are
    /// the threads to show if none are requested.
    pub fn choose(
        self,
        asked: &Asked,
        usual: &[String],
    ) -> Result<(Vec<Wait>, Vec<Latencies>), Unknown> {
        for thread in &asked.threads {
            if !self
                .threads
                .iter()
                .any(|(&pid, known)| is(thread, pid, known))
            {
                let names: BTreeSet<&str> = self
                    .threads
                    .values()
                    .map(|known| base(&known.name))
                    .collect();
                return Err(Unknown {
                    thread: thread.clone(),
                    names: names.into_iter().map(str::to_owned).collect(),
                });
            }
        }
        let among =
            |names: &[String], pid, known: &Thread| names.iter().any(|name| is(name, pid, known));
        let has_usual = self
            .threads
            .iter()
            .any(|(&pid, known)| among(usual, pid, known));
        let named = !asked.threads.is_empty() || has_usual;
        // Show a thread that has stopped running, even if it does not judge the workload.
        let all = self.threads.values();
        let stalls = all.flat_map(|known| known.woken.iter().chain(&known.others));
        let stalls: Vec<Wait> = match asked.threads.is_empty() {
            true => stalls.filter(|wait| wait.is_stall()).cloned().collect(),
            false => Vec::new(),
        };
        let wanted = |pid: i32, known: &Thread| match (asked.threads.is_empty(), has_usual) {
            (false, _) => among(&asked.threads, pid, known),
            (true, true) => among(usual, pid, known),
            (true, false) => true,
        };
        let chosen: Vec<Thread> = self
            .threads
            .into_iter()
            .filter(|(pid, known)| wanted(*pid, known))
            .map(|(_, known)| known)
            .collect();
        let mut latencies: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let (mut woken, mut others) = (Vec::new(), Vec::new());
        for thread in chosen {
            let all = latencies.entry(base(&thread.name).to_owned()).or_default();
            all.extend(thread.latencies);
            woken.extend(thread.woken);
            others.extend(thread.others);
        }
        // If no thread is named or judged, waits after the loss of a CPU count only if no thread waited after a wakeup.
        if named || woken.is_empty() || self.at.is_some() {
            woken.extend(others);
        }
        for stall in stalls {
            if !woken.contains(&stall) {
                woken.push(stall);
            }
        }
        keep(&mut woken, self.at, self.worst);
        if let (Some(at), Some(first)) = (self.at, woken.first()) {
            let nearest = first.clone();
            woken.retain(|wait| wait.distance(at) == 0 || *wait == nearest);
        }
        let latencies = latencies.into_iter().map(|(name, mut ns)| {
            ns.sort_unstable();
            Latencies { name, ns }
        });
        Ok((woken, latencies.collect()))
    }

    /// Ends the run at its duration `end` (in ns), if the run has one. Threads that wait at that time do not run any
    /// more.
    pub fn end(&mut self, end: Option<u64>) {
        let end = end.unwrap_or(self.now).max(self.now);
        let mut waiting: Vec<(i32, (u64, After))> = self.waiting.drain().collect();
        waiting.sort_unstable_by_key(|&(pid, _)| pid);
        for (pid, (from, after)) in waiting {
            let Some(thread) = self.threads.get_mut(&pid).filter(|_| end > from) else {
                continue;
            };
            let wait = Wait {
                name: thread.name.clone(),
                pid,
                after,
                from,
                to: end,
                open: true,
            };
            match after {
                After::Wakeup => thread.woken.push(wait),
                After::Running { .. } => thread.others.push(wait),
            }
        }
    }

    fn thread(&mut self, (name, pid): (&str, i32)) -> &mut Thread {
        self.threads.entry(pid).or_insert_with(|| Thread {
            name: name.to_owned(),
            ..Thread::default()
        })
    }
}

impl Trace for Waits {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.now = now;
        match event {
            Event::Wakeup { task, .. } => {
                self.thread(task);
                self.waiting.entry(task.1).or_insert((now, After::Wakeup));
            }
            Event::Switch {
                prev,
                prev_runnable,
                next,
                ..
            } => {
                if prev.1 != 0 && prev_runnable {
                    self.thread(prev);
                    self.waiting.insert(prev.1, (now, After::Running { cpu }));
                }
                if next.1 == 0 {
                    return;
                }
                let (at, worst) = (self.at, self.worst);
                let waited = self.waiting.remove(&next.1);
                let thread = self.thread(next);
                let Some((from, after)) = waited else {
                    return;
                };
                let wait = Wait {
                    name: next.0.to_owned(),
                    pid: next.1,
                    after,
                    from,
                    to: now,
                    open: false,
                };
                let list = match wait.after {
                    After::Wakeup => {
                        thread.latencies.push(wait.ns());
                        &mut thread.woken
                    }
                    After::Running { .. } => &mut thread.others,
                };
                if wait.ns() == 0 {
                    return;
                }
                list.push(wait);
                // Sort only when the list has doubled, which is cheaper than at every wait.
                if list.len() > 2 * worst {
                    keep(list, at, worst);
                }
            }
            _ => {}
        }
    }
}

/// Keeps at most `worst` of `waits`: the longest waits or, if a time was requested, the waits nearest to that time. Of
/// equally near waits, the longest are kept.
fn keep(waits: &mut Vec<Wait>, at: Option<u64>, worst: usize) {
    let far = |wait: &Wait| at.map_or(0, |at| wait.distance(at));
    waits.sort_by_key(|wait| (far(wait), u64::MAX - wait.ns(), wait.from, wait.pid));
    waits.truncate(worst);
}

/// Does `thread` name the thread `known`, which has the number `pid`?
fn is(thread: &str, pid: i32, known: &Thread) -> bool {
    thread == known.name || thread == base(&known.name) || thread.parse() == Ok(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(
        prev: (&'static str, i32),
        runnable: bool,
        next: (&'static str, i32),
    ) -> Event<'static> {
        Event::Switch {
            prev,
            prev_prio: 120,
            prev_runnable: runnable,
            next,
            next_prio: 120,
        }
    }

    fn wakeup(task: (&'static str, i32)) -> Event<'static> {
        Event::Wakeup {
            task,
            prio: 120,
            target_cpu: 0,
            new: false,
        }
    }

    /// ui waits for 3, 1 and 6; batch, which never sleeps, waits for 10.
    fn seen(asked: &Asked) -> Waits {
        let (idle, ui, batch) = (("swapper", 0), ("ui-0", 7), ("batch", 8));
        let mut waits = Waits::new(asked);
        waits.event(0, 0, switch(idle, true, batch));
        for (at, waited) in [(100, 3), (200, 1), (300, 6)] {
            waits.event(at, 0, wakeup(ui));
            waits.event(at + waited, 0, switch(batch, true, ui));
            waits.event(at + waited + 10, 0, switch(ui, false, batch));
        }
        waits
    }

    fn asked(threads: &[&str], at: Option<u64>, worst: usize) -> Asked {
        Asked {
            threads: threads.iter().map(|&name| name.to_owned()).collect(),
            at,
            worst,
        }
    }

    fn chosen(
        threads: &[&str],
        at: Option<u64>,
        worst: usize,
        usual: &[&str],
    ) -> Vec<(i32, u64, u64)> {
        let asked = asked(threads, at, worst);
        let usual: Vec<String> = usual.iter().map(|&name| name.to_owned()).collect();
        let (waits, _) = seen(&asked).choose(&asked, &usual).unwrap();
        waits
            .iter()
            .map(|wait| (wait.pid, wait.from, wait.ns()))
            .collect()
    }

    #[test]
    fn the_longest_waits_of_the_thread_are_chosen() {
        assert_eq!(chosen(&["ui"], None, 2, &[]), [(7, 300, 6), (7, 100, 3)]);
        assert_eq!(chosen(&["7"], None, 1, &[]), [(7, 300, 6)]);
        // If no thread is named, the threads that judge the workload are shown, or otherwise those that wake up.
        assert_eq!(chosen(&[], None, 1, &[]), [(7, 300, 6)]);
        assert_eq!(chosen(&[], None, 1, &["batch"]), [(8, 103, 10)]);
        assert_eq!(chosen(&[], None, 1, &["nobody"]), [(7, 300, 6)]);
    }

    #[test]
    fn a_time_finds_the_wait_around_it_or_the_nearest() {
        assert_eq!(chosen(&["ui"], Some(102), 3, &[]), [(7, 100, 3)]);
        assert_eq!(chosen(&["ui"], Some(206), 3, &[]), [(7, 200, 1)]);
        assert_eq!(chosen(&["ui"], Some(290), 3, &[]), [(7, 300, 6)]);
        assert_eq!(chosen(&[], Some(105), 3, &[]), [(8, 103, 10)]);
    }

    #[test]
    fn a_wait_that_never_ends_is_as_long_as_the_run() {
        let asked = asked(&["ui"], Some(5_000), 1);
        let mut waits = seen(&asked);
        waits.event(400, 0, wakeup(("ui-0", 7)));
        waits.end(Some(10_000));
        let (waits, _) = waits.choose(&asked, &[]).unwrap();
        let [wait] = &waits[..] else {
            panic!("{waits:?}");
        };
        assert_eq!((wait.from, wait.to, wait.open), (400, 10_000, true));
    }

    #[test]
    fn a_thread_that_is_not_there_is_named_with_those_that_are() {
        let asked = asked(&["iu"], None, 1);
        let unknown = seen(&asked).choose(&asked, &[]).unwrap_err();
        assert_eq!(
            (unknown.thread.as_str(), unknown.names.join(" ").as_str()),
            ("iu", "batch ui")
        );
    }

    #[test]
    fn latencies_are_of_wakeups_alone() {
        let asked = asked(&[], None, 1);
        let (_, latencies) = seen(&asked).choose(&asked, &[]).unwrap();
        assert_eq!(latencies[1].ns, [1, 3, 6]);
        assert_eq!(
            (latencies[1].quantile(0.5), latencies[1].quantile(0.99)),
            (3, 6)
        );
        assert!(latencies[0].ns.is_empty());
    }
}
