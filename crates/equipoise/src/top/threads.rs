//! Samples of threads: CPU time, waits and migrations, from /proc/PID/task/TID.

use recorder::text;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of threads that each refresh selects, by their CPU time, to sample their waits until the next one.
/// Threads that were selected earlier and have recent waits are sampled, too, at most twice as many. Reading the waits
/// of a thread takes a few us.
const WATCHED: usize = 64;

/// The age up to which a wait counts for the percentile.
const WINDOW: Duration = Duration::from_secs(30);

/// A thread's place: the process, and the thread.
type Id = (u32, u32);

/// The kernel's counts for a thread so far. A file that the kernel lacks is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    /// From `schedstat`: the time on a CPU in ns, the time spent waiting for a CPU in ns, and the number of turns.
    turns: Option<Turns>,
    /// From `stat`: the time on a CPU in ticks of USER_HZ.
    ticks: u64,
    /// From `sched`: `se.nr_migrations`.
    migrations: Option<u64>,
    /// The time from the beginning of the scan until `turns` was read. A scan takes some ms on a busy computer.
    read_after: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Turns {
    ran_ns: u64,
    waited_ns: u64,
    number: u64,
}

/// A thread that ran in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    /// The name of the thread's process, which is the name of the process's first thread.
    pub process: String,
    /// The number of threads that this entry stands for.
    pub threads: usize,
    /// The CPU on which the thread last ran.
    pub cpu: Option<usize>,
    /// CPU time as a share of one CPU. That of a process may exceed 1.
    pub ran: f64,
    /// The number of times per second that the thread began to run.
    pub turns: Option<f64>,
    /// The mean time in ns that the thread waited before it began to run; `None` if it never began to run.
    pub wait_ns: Option<f64>,
    /// The 99th percentile of these times in the last [`WINDOW`], in ns. Turns between two samples
    /// count with their mean wait.
    pub wait_p99_ns: Option<f64>,
    /// The number of migrations to another CPU per second.
    pub migrations: Option<f64>,
}

/// The waits of a thread, oldest first: for each sample the time, the mean wait (ns), and the number of waits.
type Waits = VecDeque<(Instant, f64, u64)>;

pub struct Threads {
    proc: PathBuf,
    /// The ticks of `stat` per second.
    hz: f64,
    /// The time that a scan has taken since it began. The time is 0 for a copy of the kernel's
    /// files, which does not change during a scan.
    taken: Box<dyn Fn(Instant) -> Duration>,
    before: BTreeMap<Id, Counted>,
    at: Option<Instant>,
    /// The latest sample of a watched thread, and its waits.
    watched: BTreeMap<Id, (Turns, Waits)>,
    /// The columns of threads that are empty, with the reasons.
    pub missing: Vec<(&'static str, &'static str)>,
}

impl Threads {
    pub fn of(proc: PathBuf) -> Threads {
        let is_live = proc == Path::new("/proc");
        let taken = move |began: Instant| match is_live {
            true => began.elapsed(),
            false => Duration::ZERO,
        };
        Threads {
            taken: Box::new(taken),
            proc,
            hz: rustix::param::clock_ticks_per_second() as f64,
            before: BTreeMap::new(),
            at: None,
            watched: BTreeMap::new(),
            missing: Vec::new(),
        }
    }

    /// The threads that ran since the last call, sorted by CPU time, largest first; no threads on the first call.
    pub fn scan(&mut self, now: Instant) -> Vec<Thread> {
        let ids = self.ids();
        let seconds = self.at.map(|at| (now - at).as_secs_f64().max(1e-9));
        let began = Instant::now();
        let mut counted = BTreeMap::new();
        let mut ran = Vec::new();
        for id in ids {
            let folder = self.folder(id);
            let then = self.before.get(&id).copied();
            let turns = turns(&folder);
            let read_after = (self.taken)(began);
            // Sample now, so that the percentile and the mean are of the same waits.
            if let (Some(turns), Some((last, waits))) = (turns, self.watched.get_mut(&id)) {
                sample(last, waits, now, turns);
            }
            // Only a thread that ran has new numbers in the other files.
            if let (Some(turns), Some(then)) = (turns, then)
                && then.turns == Some(turns)
            {
                counted.insert(id, Counted { read_after, ..then });
                continue;
            }
            let Some(stat) = text(folder.join("stat")).ok() else {
                continue;
            };
            let Some(stat) = Stat::parse(&stat) else {
                continue;
            };
            let now = Counted {
                turns,
                ticks: stat.ticks,
                migrations: migrations(&folder),
                read_after,
            };
            counted.insert(id, now);
            // If a thread is new since the last scan, all of its time belongs to this interval.
            if let Some(seconds) = seconds {
                let seconds = then.map_or(seconds, |then| {
                    let seconds =
                        seconds + read_after.as_secs_f64() - then.read_after.as_secs_f64();
                    seconds.max(1e-9)
                });
                ran.extend(self.between(id, &stat, then.unwrap_or_default(), now, seconds));
            }
        }
        self.watched.retain(|id, _| counted.contains_key(id));
        self.missing = missing(&counted);
        ran.sort_by(|a, b| b.ran.total_cmp(&a.ran).then(a.tid.cmp(&b.tid)));
        self.watch(&ran, &counted);
        (self.before, self.at) = (counted, Some(now));
        ran
    }

    /// Watches the threads that ran most since the last scan.
    pub fn find(&mut self) {
        let mut ran: Vec<(u64, Id, Turns)> = Vec::new();
        for (&id, then) in &self.before {
            if let (Some(then), Some(now)) = (then.turns, turns(&self.folder(id)))
                && now.ran_ns > then.ran_ns
            {
                ran.push((now.ran_ns - then.ran_ns, id, then));
            }
        }
        ran.sort_by_key(|&(ran, id, _)| (Reverse(ran), id));
        for (_, id, then) in ran.into_iter().take(WATCHED) {
            self.watched.insert(id, (then, Waits::new()));
        }
    }

    /// Samples the waits of the watched threads. More samples give a more exact percentile.
    pub fn look(&mut self, now: Instant) {
        let proc = &self.proc;
        self.watched.retain(|&id, (last, waits)| {
            let Some(turns) = turns(&folder(proc, id)) else {
                return false;
            };
            sample(last, waits, now, turns);
            true
        });
    }

    fn between(
        &self,
        id: Id,
        stat: &Stat,
        then: Counted,
        now: Counted,
        seconds: f64,
    ) -> Option<Thread> {
        let turns = now.turns.map(|now| {
            let then = then.turns.unwrap_or_default();
            Turns {
                ran_ns: now.ran_ns.saturating_sub(then.ran_ns),
                waited_ns: now.waited_ns.saturating_sub(then.waited_ns),
                number: now.number.saturating_sub(then.number),
            }
        });
        let ran = match turns {
            Some(turns) => turns.ran_ns as f64 / 1e9,
            None => now.ticks.saturating_sub(then.ticks) as f64 / self.hz,
        };
        let waits = self.watched.get(&id).map(|(_, waits)| waits);
        let migrations = now.migrations.map(|migrations| {
            let then = then.migrations.unwrap_or_default();
            migrations.saturating_sub(then) as f64 / seconds
        });
        (ran > 0.0).then(|| Thread {
            pid: id.0,
            tid: id.1,
            process: match id.0 == id.1 {
                true => stat.name.clone(),
                false => self.process(id.0).unwrap_or_else(|| stat.name.clone()),
            },
            name: stat.name.clone(),
            threads: 1,
            cpu: stat.cpu,
            ran: ran / seconds,
            turns: turns.map(|turns| turns.number as f64 / seconds),
            wait_ns: turns
                .filter(|turns| turns.number > 0)
                .map(|turns| turns.waited_ns as f64 / turns.number as f64),
            wait_p99_ns: waits.and_then(p99),
            migrations,
        })
    }

    /// Watches the threads that ran most, and keeps watched threads that have recent waits.
    fn watch(&mut self, ran: &[Thread], counted: &BTreeMap<Id, Counted>) {
        let most: Vec<Id> = ran
            .iter()
            .take(WATCHED)
            .map(|thread| (thread.pid, thread.tid))
            .collect();
        if self.watched.len() > 2 * WATCHED {
            self.watched.retain(|id, _| most.contains(id));
        }
        self.watched.retain(|_, (_, waits)| !waits.is_empty());
        for id in most {
            if let Some(turns) = counted.get(&id).and_then(|counted| counted.turns) {
                self.watched
                    .entry(id)
                    .or_insert_with(|| (turns, Waits::new()));
            }
        }
    }

    fn ids(&self) -> Vec<Id> {
        let numbers = |folder: &Path| -> Vec<u32> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect()
        };
        let of = |pid: u32| {
            let tids = numbers(&self.proc.join(format!("{pid}/task")));
            tids.into_iter().map(move |tid| (pid, tid))
        };
        numbers(&self.proc).into_iter().flat_map(of).collect()
    }

    fn folder(&self, id: Id) -> PathBuf {
        folder(&self.proc, id)
    }

    fn process(&self, pid: u32) -> Option<String> {
        let stat = text(self.folder((pid, pid)).join("stat")).ok()?;
        Some(Stat::parse(&stat)?.name)
    }
}

impl Thread {
    /// The thread's name, after the name of its process if the two differ: `make/cc1`. The label of a process has the
    /// number of its threads that ran.
    pub fn label(&self) -> String {
        match (self.threads, self.name == self.process) {
            (1, true) => self.name.clone(),
            (1, false) => format!("{}/{}", self.process, self.name),
            (threads, _) => format!("{} ({threads} threads)", self.process),
        }
    }
}

/// The processes of `threads`, each as one thread with the sums of times and rates, the mean of the waits, and the
/// longest 99th percentile of its threads. The processes are in the order of their first threads.
pub fn by_process(threads: &[Thread]) -> Vec<Thread> {
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    let mut processes: Vec<Thread> = Vec::new();
    for thread in threads {
        let place = *places.entry(thread.pid).or_insert(processes.len());
        let Some(all) = processes.get_mut(place) else {
            processes.push(Thread {
                tid: thread.pid,
                name: thread.process.clone(),
                ..thread.clone()
            });
            continue;
        };
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        let waited = |of: &Thread| Some(of.wait_ns? * of.turns?);
        let waits = [waited(all), waited(thread)].into_iter().flatten();
        let waits = waits.reduce(|a, b| a + b);
        all.turns = sum(all.turns, thread.turns);
        all.wait_ns = waits.zip(all.turns).map(|(ns, turns)| ns / turns);
        all.wait_p99_ns = all
            .wait_p99_ns
            .into_iter()
            .chain(thread.wait_p99_ns)
            .reduce(f64::max);
        all.migrations = sum(all.migrations, thread.migrations);
        all.ran += thread.ran;
        all.threads += 1;
        all.cpu = None;
    }
    processes
}

/// Adds the waits since `last`, sets `last` to `turns`, and forgets waits that are too old.
fn sample(last: &mut Turns, waits: &mut Waits, now: Instant, turns: Turns) {
    let number = turns.number.saturating_sub(last.number);
    if number > 0 {
        let waited = turns.waited_ns.saturating_sub(last.waited_ns);
        waits.push_back((now, waited as f64 / number as f64, number));
    }
    while waits.front().is_some_and(|&(at, ..)| now - at > WINDOW) {
        waits.pop_front();
    }
    *last = turns;
}

fn folder(proc: &Path, (pid, tid): Id) -> PathBuf {
    proc.join(format!("{pid}/task/{tid}"))
}

/// Reads `schedstat` (Documentation/scheduler/sched-stats.rst).
fn turns(folder: &Path) -> Option<Turns> {
    let text = fs::read_to_string(folder.join("schedstat")).ok()?;
    let mut numbers = text
        .split_ascii_whitespace()
        .map(|number| number.parse().ok());
    Some(Turns {
        ran_ns: numbers.next()??,
        waited_ns: numbers.next()??,
        number: numbers.next()??,
    })
}

/// Reads `sched`, which has a line such as `se.nr_migrations : 7`.
fn migrations(folder: &Path) -> Option<u64> {
    let text = text(folder.join("sched")).ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// A thread's `stat`: proc_pid_stat(5).
struct Stat {
    name: String,
    ticks: u64,
    cpu: Option<usize>,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // A name may contain spaces and parentheses; the last parenthesis ends it.
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        // `rest` begins with the third field, the state.
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3);
        let ticks = |number: usize| -> Option<u64> { field(number)?.parse().ok() };
        Some(Stat {
            name: name.to_owned(),
            ticks: ticks(14)? + ticks(15)?,
            cpu: field(39).and_then(|cpu| cpu.parse().ok()),
        })
    }
}

/// The shortest wait in ns that 99 % of the turns did not exceed.
fn p99(waits: &Waits) -> Option<f64> {
    let mut waits: Vec<(f64, u64)> = waits
        .iter()
        .map(|&(_, wait, turns)| (wait, turns))
        .collect();
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: u64 = waits.iter().map(|&(_, turns)| turns).sum();
    let mut seen = 0;
    let mut waits = waits.into_iter();
    let at = waits.find(|&(_, turns)| {
        seen += turns;
        seen * 100 >= all * 99
    });
    at.map(|(wait, _)| wait)
}

fn missing(counted: &BTreeMap<Id, Counted>) -> Vec<(&'static str, &'static str)> {
    let lacks = |has: fn(&Counted) -> bool| !counted.is_empty() && !counted.values().any(has);
    let mut missing = Vec::new();
    if lacks(|counted| counted.turns.is_some()) {
        missing.push((
            "wait, wait p99, runs/s",
            "no /proc/PID/schedstat (CONFIG_SCHED_INFO)",
        ));
    }
    if lacks(|counted| counted.migrations.is_some()) {
        missing.push((
            "moves/s",
            "no se.nr_migrations in /proc/PID/sched (CONFIG_SCHED_DEBUG)",
        ));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_the_sum_of_its_threads() {
        let thread = |pid, tid, name: &str, ran, turns, wait_ns| Thread {
            pid,
            tid,
            name: name.to_owned(),
            process: if pid == 7 { "make" } else { "sh" }.to_owned(),
            threads: 1,
            cpu: Some(1),
            ran,
            turns: Some(turns),
            wait_ns: Some(wait_ns),
            wait_p99_ns: None,
            migrations: Some(1.0),
        };
        let threads = [
            thread(7, 9, "cc1", 0.5, 10.0, 100.0),
            thread(8, 8, "sh", 0.4, 1.0, 5.0),
            thread(7, 7, "make", 0.25, 30.0, 20.0),
        ];
        assert_eq!(threads[0].label(), "make/cc1");
        assert_eq!(threads[1].label(), "sh");
        let [make, sh] = &by_process(&threads)[..] else {
            panic!("two processes")
        };
        assert_eq!(
            (&*make.label(), make.tid, make.cpu),
            ("make (2 threads)", 7, None)
        );
        assert_eq!(
            (make.ran, make.turns, make.migrations),
            (0.75, Some(40.0), Some(2.0))
        );
        assert_eq!(make.wait_ns, Some(40.0));
        assert_eq!(sh, &threads[1]);
    }

    #[test]
    fn a_name_may_have_parentheses() {
        let fields = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>();
        let stat = Stat::parse(&format!("7 (a) (b c) S {}", fields.join(" "))).unwrap();
        assert_eq!((stat.name.as_str(), stat.ticks), ("a) (b c", 14 + 15));
        assert_eq!(stat.cpu, Some(39));
    }

    #[test]
    fn the_percentile_is_of_turns() {
        let now = Instant::now();
        let waits = |samples: &[(f64, u64)]| {
            let samples = samples.iter().map(|&(wait, turns)| (now, wait, turns));
            p99(&samples.collect())
        };
        assert_eq!(waits(&[]), None);
        assert_eq!(waits(&[(5.0, 98), (900.0, 2)]), Some(900.0));
        assert_eq!(waits(&[(900.0, 1), (5.0, 99)]), Some(5.0));
    }

    #[test]
    fn an_empty_column_has_a_reason() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("7/task/7");
        fs::create_dir_all(&folder).unwrap();
        let stat = |ticks: u64| {
            let text = format!("7 (loop) R {} {ticks} 0", ["0"; 10].join(" "));
            fs::write(folder.join("stat"), text).unwrap();
        };
        let mut threads = Threads::of(proc.path().to_owned());
        let then = Instant::now();
        stat(0);
        assert_eq!(threads.scan(then), []);
        stat(threads.hz as u64);
        let ran = threads.scan(then + Duration::from_secs(2));
        assert_eq!((ran.len(), ran[0].ran), (1, 0.5));
        assert_eq!((ran[0].wait_p99_ns, ran[0].migrations), (None, None));
        assert_eq!(threads.missing.len(), 2);

        fs::write(folder.join("schedstat"), "5 6 7\n").unwrap();
        fs::write(folder.join("sched"), "se.nr_migrations    :    3\n").unwrap();
        threads.scan(then + Duration::from_secs(3));
        assert_eq!(threads.missing, []);
    }

    fn two() -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for tid in [7, 8] {
            let folder = proc.path().join(format!("{tid}/task/{tid}"));
            fs::create_dir_all(&folder).unwrap();
            let stat = format!("{tid} (loop) R {} 0 0", ["0"; 10].join(" "));
            fs::write(folder.join("stat"), stat).unwrap();
            has_run(proc.path(), tid, [0, 0, 0]);
        }
        proc
    }

    /// The thread's `schedstat`: ms that it ran and waited, and the turns.
    fn has_run(proc: &Path, tid: u32, [ran, waited, turns]: [u64; 3]) {
        let text = format!("{}000000 {}000000 {turns}\n", ran, waited);
        fs::write(proc.join(format!("{tid}/task/{tid}/schedstat")), text).unwrap();
    }

    /// The kernel has cut the name of thread 7 within a letter.
    #[test]
    fn a_thread_may_have_a_name_that_is_no_text() {
        let proc = two();
        let mut stat = b"7 (\xd0) R".to_vec();
        stat.extend(format!(" {} 0 0", ["0"; 10].join(" ")).bytes());
        fs::write(proc.path().join("7/task/7/stat"), stat).unwrap();
        let mut threads = Threads::of(proc.path().to_owned());
        let then = Instant::now();
        threads.scan(then);
        has_run(proc.path(), 7, [500, 0, 1]);
        let ran = threads.scan(then + Duration::from_secs(1));
        assert_eq!((ran.len(), &*ran[0].name), (1, "\u{fffd}"));
    }

    /// The second scan reads the thread half a second later than the first scan did, and the thread
    /// ran in that time, too.
    #[test]
    fn a_thread_that_is_read_late_has_run_for_longer() {
        let proc = two();
        let mut threads = Threads::of(proc.path().to_owned());
        let then = Instant::now();
        threads.scan(then);
        has_run(proc.path(), 7, [1500, 0, 3]);
        threads.taken = Box::new(|_| Duration::from_millis(500));
        let ran = threads.scan(then + Duration::from_secs(1));
        assert_eq!((ran[0].ran, ran[0].turns), (1.0, Some(2.0)));
        has_run(proc.path(), 7, [2500, 0, 4]);
        let ran = threads.scan(then + Duration::from_secs(2));
        assert_eq!((ran[0].ran, ran[0].turns), (1.0, Some(1.0)));
    }

    /// Both threads wait while the scan reads the first of them, so the scan shows the waits of the second.
    #[test]
    fn percentile_and_mean_are_of_the_same_waits() {
        let proc = two();
        let mut threads = Threads::of(proc.path().to_owned());
        let then = Instant::now();
        threads.scan(then);
        has_run(proc.path(), 7, [1, 0, 1]);
        has_run(proc.path(), 8, [1, 0, 1]);
        threads.scan(then + Duration::from_secs(1));
        let path = proc.path().to_owned();
        threads.taken = Box::new(move |_| {
            for tid in [7, 8] {
                has_run(&path, tid, [2, 90, 2]);
            }
            Duration::ZERO
        });
        let ran = threads.scan(then + Duration::from_secs(2));
        assert_eq!((ran.len(), ran[0].wait_ns), (1, Some(90e6)));
        assert_eq!(ran[0].wait_p99_ns, ran[0].wait_ns);
    }
}
