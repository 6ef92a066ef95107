//! Other load on this computer, which spoils a recording or a measurement of costs: the CPU time,
//! according to /proc, of all processes except this one and the recorded ones.

use crate::process::text;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of processes that a message names.
const NAMED: usize = 3;
/// The part of a CPU below which a process is not named.
const NAMED_CPUS: f64 = 0.02;

/// The CPU times at the start of an observation.
pub struct Watch {
    proc: PathBuf,
    cpus: Cpus,
    processes: HashMap<i32, Process>,
}

/// The times of all CPUs together since the computer started, in ticks of /proc/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cpus {
    number: usize,
    all: u64,
    busy: u64,
    stolen: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Process {
    name: String,
    parent: i32,
    ticks: u64,
    /// The time of the process's children that have ended.
    childrens_ticks: u64,
}

/// The load by other processes since a [`Watch`] began.
#[derive(Debug)]
pub struct Others {
    /// The number of CPUs that these processes kept busy.
    pub cpus: f64,
    /// The share of the time of all CPUs that these processes took, in %.
    pub pct: f64,
    /// The names of the processes with the largest parts, each with the number of CPUs that these processes kept busy.
    names: Vec<(String, f64)>,
    /// The share of the time of all CPUs that the hypervisor gave to other guests, in %.
    pub stolen_pct: f64,
}

impl Watch {
    /// Starts an observation now.
    pub fn begin() -> Option<Watch> {
        Watch::begin_at(Path::new("/proc"))
    }

    /// Starts an observation of the computer whose /proc is in the folder `proc`; `None` if this folder has no times.
    fn begin_at(proc: &Path) -> Option<Watch> {
        Some(Watch {
            cpus: cpus(proc)?,
            processes: processes(proc),
            proc: proc.to_owned(),
        })
    }

    /// The load since the start, without this process and the recorded `load`, which is a process,
    /// its descendants and its ended children.
    pub fn others(&self, load: Option<i32>) -> Option<Others> {
        self.without(std::process::id() as i32, load)
    }

    fn without(&self, this: i32, load: Option<i32>) -> Option<Others> {
        let now = cpus(&self.proc)?;
        let processes = processes(&self.proc);
        let all = now.all.checked_sub(self.cpus.all).filter(|&all| all > 0)?;
        let load = load.map_or_else(Vec::new, |load| descendants(load, &processes));
        let since = |pid: i32, of: fn(&Process) -> u64| {
            let then = self.processes.get(&pid).map_or(0, of);
            processes.get(&pid).map_or(0, of).saturating_sub(then)
        };
        let own = |pid: i32| since(pid, |process| process.ticks);
        let ours: u64 = own(this)
            + load
                .iter()
                .map(|&pid| since(pid, |process| process.ticks + process.childrens_ticks))
                .sum::<u64>();
        let busy = now.busy.saturating_sub(self.cpus.busy).saturating_sub(ours);
        let share = |ticks: u64| ticks as f64 / all as f64;
        let of_cpus = |ticks: u64| share(ticks) * now.number as f64;
        let mut by_name: HashMap<&str, u64> = HashMap::new();
        for (&pid, process) in &processes {
            if pid != this && !load.contains(&pid) {
                *by_name.entry(&process.name).or_default() += own(pid);
            }
        }
        let mut names: Vec<(String, f64)> = by_name
            .into_iter()
            .map(|(name, ticks)| (name.to_owned(), of_cpus(ticks)))
            .filter(|(_, cpus)| *cpus >= NAMED_CPUS)
            .collect();
        names.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        names.truncate(NAMED);
        Some(Others {
            cpus: of_cpus(busy),
            pct: 100.0 * share(busy),
            names,
            stolen_pct: 100.0 * share(now.stolen.saturating_sub(self.cpus.stolen)),
        })
    }
}

impl Others {
    /// The load in words, such as `other processes kept 1.90 CPUs busy (cargo 1.20, rustc 0.60)`.
    pub fn words(&self) -> String {
        let mut text = format!("other processes kept {:.2} CPUs busy", self.cpus);
        if !self.names.is_empty() {
            let named = self.names.iter();
            let named: Vec<String> = named
                .map(|(name, cpus)| format!("{name} {cpus:.2}"))
                .collect();
            text += &format!(" ({})", named.join(", "));
        }
        if self.stolen_pct >= 1.0 {
            text += &format!(
                ", and the hypervisor gave {:.0} % of the CPUs' time to others",
                self.stolen_pct
            );
        }
        text
    }
}

/// Reads the first line of /proc/stat (proc(5)).
fn cpus(proc: &Path) -> Option<Cpus> {
    let stat = fs::read_to_string(proc.join("stat")).ok()?;
    let first = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = first
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // The times of guests come after these numbers, and are part of user and nice.
    let &[user, nice, system, idle, iowait, irq, softirq, stolen, ..] = &ticks[..] else {
        return None;
    };
    let busy = user + nice + system + irq + softirq;
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    Some(Cpus {
        number: stat.lines().filter(is_cpu).count(),
        all: busy + idle + iowait + stolen,
        busy,
        stolen,
    })
}

fn processes(proc: &Path) -> HashMap<i32, Process> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = text(entry.path().join("stat")).ok()?;
            Some((pid, process(&stat)?))
        })
        .collect()
}

/// Reads /proc/PID/stat (proc(5)).
fn process(stat: &str) -> Option<Process> {
    // The name may contain any character.
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(Process {
        name: name.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        childrens_ticks: number(13)? + number(14)?,
    })
}

/// Process `pid` and its descendants, except for descendants whose parents have ended.
pub fn family(pid: i32) -> Vec<i32> {
    descendants(pid, &processes(Path::new("/proc")))
}

fn descendants(pid: i32, processes: &HashMap<i32, Process>) -> Vec<i32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        let children = processes.iter().filter(|(_, it)| it.parent == parent);
        all.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like the /proc of two CPUs, with the busy and the idle ticks of all CPUs, and the
    /// pid, name and parent of each process, its ticks, and the ticks of its ended children.
    fn write(proc: &Path, busy: u64, idle: u64, processes: &[(i32, &str, i32, u64, u64)]) {
        let stat = format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0\ncpu1 0\nintr 1\n");
        fs::write(proc.join("stat"), stat).unwrap();
        for (pid, name, parent, own, ended) in processes {
            let folder = proc.join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            let stat =
                format!("{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {ended} 0 20 0 1\n");
            fs::write(folder.join("stat"), stat).unwrap();
        }
    }

    /// The load (10), the process that it started (11) and its ended children do not count as
    /// others.
    #[test]
    fn the_load_is_not_foreign() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        let first = [
            (1, "this", 0, 5, 0),
            (10, "load", 1, 50, 0),
            (20, "cc (1) x", 0, 70, 0),
        ];
        write(proc, 1000, 9000, &first);
        let watch = Watch::begin_at(proc).unwrap();
        let later = [
            (1, "this", 0, 10, 0),
            (10, "load", 1, 60, 20),
            (11, "part", 10, 15, 0),
            (20, "cc (1) x", 0, 105, 0),
        ];
        write(proc, 1100, 9100, &later);
        let others = watch.without(1, Some(10)).unwrap();
        assert!((others.pct - 25.0).abs() < 1e-9, "{others:?}");
        assert!((others.cpus - 0.5).abs() < 1e-9, "{others:?}");
        let words = "other processes kept 0.50 CPUs busy (cc (1) x 0.35)";
        assert_eq!(others.words(), words);
        let all = watch.without(1, None).unwrap();
        assert!((all.cpus - 0.95).abs() < 1e-9, "{all:?}");
    }

    /// The kernel has cut the name of the load within a letter of two bytes.
    #[test]
    fn a_process_may_have_a_name_that_is_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        let load = |ticks: u64| {
            let mut stat = b"10 (".to_vec();
            stat.extend(&"длинноеимя".as_bytes()[..15]);
            stat.extend(format!(") S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1\n").as_bytes());
            fs::create_dir_all(proc.join("10")).unwrap();
            fs::write(proc.join("10/stat"), stat).unwrap();
        };
        write(proc, 1000, 9000, &[]);
        load(50);
        let watch = Watch::begin_at(proc).unwrap();
        write(proc, 1100, 9100, &[]);
        load(90);
        let others = watch.without(1, Some(10)).unwrap();
        assert!((others.pct - 30.0).abs() < 1e-9, "{others:?}");
        let named = watch.without(1, None).unwrap().words();
        assert!(named.contains("длинное\u{fffd} 0.40"), "{named}");
    }

    #[test]
    fn without_time_nothing_is_known() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Watch::begin_at(folder.path()).is_none());
        write(folder.path(), 1, 1, &[]);
        let watch = Watch::begin_at(folder.path()).unwrap();
        assert!(watch.without(1, None).is_none());
    }
}
