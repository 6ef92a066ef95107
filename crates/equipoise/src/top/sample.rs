//! Samples of /proc, /sys and the statistics of a running scx_equipoise.

use super::threads::{Thread, Threads};
use crate::error::Error;
use detect::Found;
use machine::Machine;
use machine::input::BadInput;
use scx_stats::StatsClient;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time limit for the scheduler's answer, for which a screen does not change.
const PATIENCE: Duration = Duration::from_secs(2);

/// The watched computer.
pub struct Computer {
    root: PathBuf,
    pub machine: Machine,
    /// The connection to scx_equipoise's statistics. The first answer begins an interval; each later answer ends an
    /// interval and begins the next one.
    stats: RefCell<Option<StatsClient>>,
    /// Whether this user may not read the statistics.
    is_refused: Cell<bool>,
    /// The time limit for the scheduler's answer.
    pub patience: Duration,
}

impl Computer {
    /// The computer whose /proc, /sys and /run are in the folder `root`.
    pub fn at(root: &Path) -> Result<Computer, Error> {
        let no_machine =
            |message: String| Box::new(BadInput::whole(message, "expected a computer with Linux"));
        let found: Found = detect::sysfs(&root.join("sys")).map_err(no_machine)?;
        let machine = Machine::parse("this computer", &found.machine_file("this").text)?;
        Ok(Computer {
            root: root.to_owned(),
            machine,
            stats: RefCell::new(None),
            is_refused: Cell::new(false),
            patience: PATIENCE,
        })
    }

    /// The computer's threads, none of which has been sampled yet.
    pub fn threads(&self) -> Threads {
        Threads::of(self.root.join("proc"))
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// The current frequency in kHz; `None` if no driver reports it.
    fn khz(&self, cpu: usize) -> Option<u64> {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        self.read(&path)?.trim().parse().ok()
    }

    /// The running scheduler: `scx_equipoise, policy hperf`, the name of another sched_ext scheduler, or Linux's own.
    fn scheduler(&self) -> String {
        let ops = self.read("sys/kernel/sched_ext/root/ops");
        match (ops, self.policy()) {
            (Some(ops), Some(policy)) if ops.starts_with("equipoise") => {
                let refused = " (statistics require root, or the group of --stats-group)";
                let refused = if self.is_refused.get() { refused } else { "" };
                format!("scx_equipoise{refused}, policy {policy}")
            }
            (Some(ops), _) => format!("scx_{}", ops.trim()),
            (None, _) => "Linux's own scheduler".to_owned(),
        }
    }

    /// The sched_ext scheduler's events so far, from Linux 6.15 on: one name and number per line.
    fn events(&self) -> Option<BTreeMap<String, u64>> {
        let text = self.read("sys/kernel/sched_ext/root/events")?;
        let event = |line: &str| {
            let (name, number) = line.split_once(' ')?;
            Some((name.to_owned(), number.trim().parse().ok()?))
        };
        Some(text.lines().filter_map(event).collect())
    }

    /// The reason why the scheduler's own statistics are missing; `None` if they or the kernel's events are
    /// available.
    fn no_decisions(&self, now: &Moment) -> Option<&'static str> {
        let is_there = |path: &str| self.root.join(path).exists();
        if now.counted.is_some() {
            return None;
        }
        Some(if !is_there("sys/kernel/sched_ext") {
            "this kernel has no sched_ext"
        } else if !is_there("sys/kernel/sched_ext/root/ops") {
            "no sched_ext scheduler is loaded"
        } else if self.is_refused.get() {
            "statistics require root, or the group of --stats-group"
        } else if now.scheduler.starts_with("scx_equipoise") {
            "scx_equipoise has not answered yet"
        } else if now.events.is_none() {
            "sched_ext counts events from Linux 6.15 on"
        } else {
            return None;
        })
    }

    fn policy(&self) -> Option<String> {
        let stream = UnixStream::connect(self.root.join("run/scx_equipoise/control")).ok()?;
        stream.set_read_timeout(Some(self.patience)).ok()?;
        writeln!(&stream, "{}", json!({ "Get": ["policy"] })).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        let reply: Value = serde_json::from_str(&line).ok()?;
        let policy = reply["Done"].as_str()?.trim().strip_prefix("policy = ")?;
        Some(policy.trim_matches('"').to_owned())
    }

    /// The scheduler's counts since the last call; `None` on the first call, and without scx_equipoise.
    fn counted(&self) -> Option<Value> {
        let mut stats = self.stats.borrow_mut();
        let is_first = stats.is_none();
        if is_first {
            let client = StatsClient::new().set_path(self.root.join("run/scx/root/stats"));
            let connected = client.connect(Some(self.patience.as_millis() as u64));
            let refusal = connected
                .as_ref()
                .err()
                .and_then(|error| error.downcast_ref());
            self.is_refused
                .set(refusal.map(io::Error::kind) == Some(io::ErrorKind::PermissionDenied));
            *stats = Some(connected.ok()?);
        }
        let target = vec![("target".to_owned(), "top".to_owned())];
        let answer: Option<Value> = stats.as_mut()?.request("stats", target).ok();
        if answer.is_none() {
            *stats = None;
        }
        answer.filter(|_| !is_first)
    }
}

pub struct Moment {
    at: Instant,
    cpus: BTreeMap<usize, Times>,
    khz: BTreeMap<usize, u64>,
    scheduler: String,
    counted: Option<Value>,
    events: Option<BTreeMap<String, u64>>,
}

/// A CPU's times since the computer started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    /// All ticks of `/proc/stat`; `idle_ticks` has the idle ticks.
    ticks: u64,
    idle_ticks: u64,
    tasks: Option<Tasks>,
}

/// Waits and switches of a CPU's tasks since the computer started: `/proc/schedstat`, of a kernel
/// with CONFIG_SCHEDSTATS.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tasks {
    /// The time for which the tasks have waited for the CPU.
    waited_ns: u64,
    switches: u64,
}

impl Moment {
    pub fn now(computer: &Computer) -> Result<Moment, Error> {
        let mut cpus = BTreeMap::new();
        let stat = computer.read("proc/stat").unwrap_or_default();
        for (cpu, ticks) in lines_of_cpus(&stat) {
            // The first eight fields are user, nice, system, idle, iowait, irq, softirq and steal: proc(5). The ticks
            // of guests are in user and nice.
            let all = ticks.iter().take(8).sum();
            let idle = ticks.iter().skip(3).take(2).sum();
            let times: &mut Times = cpus.entry(cpu).or_default();
            (times.ticks, times.idle_ticks) = (all, idle);
        }
        if cpus.is_empty() {
            let message = format!("{}: no CPUs", computer.root.join("proc/stat").display());
            let bad = BadInput::whole(message, "expected a line `cpu0 ...` for each");
            return Err(Box::new(bad).into());
        }
        // These are the last two of nine fields (Documentation/scheduler/sched-stats.rst).
        let schedstat = computer.read("proc/schedstat").unwrap_or_default();
        for (cpu, fields) in lines_of_cpus(&schedstat) {
            if let (Some(times), &[.., waited_ns, switches]) = (cpus.get_mut(&cpu), &fields[..]) {
                times.tasks = Some(Tasks {
                    waited_ns,
                    switches,
                });
            }
        }
        let khz = cpus
            .keys()
            .filter_map(|&cpu| Some((cpu, computer.khz(cpu)?)));
        let counted = computer.counted();
        Ok(Moment {
            khz: khz.collect(),
            cpus,
            scheduler: computer.scheduler(),
            counted,
            events: computer.events(),
            at: Instant::now(),
        })
    }
}

/// The numbers of each line that begins with `cpu` and a number.
fn lines_of_cpus(text: &str) -> impl Iterator<Item = (usize, Vec<u64>)> + '_ {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        Some((cpu, words.filter_map(|word| word.parse().ok()).collect()))
    })
}

pub struct Interval {
    /// The length of the interval in s.
    pub seconds: f64,
    pub scheduler: String,
    pub cpus: BTreeMap<usize, Cpu>,
    /// The counts of scx_equipoise (its `Metrics`), if it runs and answers this user.
    pub counted: Option<Value>,
    /// The sched_ext scheduler's events per second, if the kernel counts them.
    pub events: BTreeMap<String, f64>,
    /// The threads that ran, sorted by CPU time, largest first.
    pub threads: Vec<Thread>,
    /// The columns that could not be read, with the reasons.
    pub missing: Vec<(&'static str, &'static str)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// The busy part of the time, from 0 to 1.
    pub busy: f64,
    /// The average number of waiting tasks, if the kernel counts them.
    pub waiting: Option<f64>,
    /// The number of switches per second, if the kernel counts them.
    pub switches: Option<f64>,
    /// The CPU's frequency at the end of the interval.
    pub khz: Option<u64>,
}

impl Interval {
    fn between(before: &Moment, now: &Moment) -> Interval {
        let seconds = (now.at - before.at).as_secs_f64().max(1e-9);
        let cpus = now.cpus.iter().map(|(&cpu, times)| {
            // A CPU that was offline before has no interval.
            let then = before.cpus.get(&cpu).unwrap_or(times);
            let ticks = times.ticks.saturating_sub(then.ticks);
            let idle = times.idle_ticks.saturating_sub(then.idle_ticks);
            let tasks = times.tasks.zip(then.tasks);
            let a_second = |of: fn(Tasks) -> u64| {
                tasks.map(|(now, then)| of(now).saturating_sub(of(then)) as f64 / seconds)
            };
            let did = Cpu {
                busy: ticks.saturating_sub(idle) as f64 / ticks.max(1) as f64,
                waiting: a_second(|tasks| tasks.waited_ns).map(|ns| ns / 1e9),
                switches: a_second(|tasks| tasks.switches),
                khz: now.khz.get(&cpu).copied(),
            };
            (cpu, did)
        });
        let none = BTreeMap::new();
        let then = before.events.as_ref().unwrap_or(&none);
        let events = now.events.iter().flatten().map(|(name, &number)| {
            let then = then.get(name).copied().unwrap_or(number);
            (name.clone(), number.saturating_sub(then) as f64 / seconds)
        });
        Interval {
            seconds,
            scheduler: now.scheduler.clone(),
            cpus: cpus.collect(),
            counted: now.counted.clone(),
            events: events.collect(),
            threads: Vec::new(),
            missing: Vec::new(),
        }
    }
}

pub struct Watch {
    pub computer: Computer,
    before: Moment,
    threads: Threads,
}

impl Watch {
    pub fn begin(computer: Computer) -> Result<Watch, Error> {
        let before = Moment::now(&computer)?;
        let mut threads = computer.threads();
        threads.scan(before.at);
        Ok(Watch {
            computer,
            before,
            threads,
        })
    }

    /// Finds the threads that run since the interval began, whose waits [`Watch::look`] samples.
    pub fn find_threads(&mut self) {
        self.threads.find();
    }

    pub fn look(&mut self) {
        self.threads.look(Instant::now());
    }

    pub fn next(&mut self) -> Result<Interval, Error> {
        let now = Moment::now(&self.computer)?;
        Ok(self.until(now))
    }

    /// Ends an interval as [`Watch::next`] does, as if the interval had lasted `length`.
    #[cfg(test)]
    pub fn next_after(&mut self, length: Duration) -> Interval {
        let mut now = Moment::now(&self.computer).unwrap();
        now.at = self.before.at + length;
        self.until(now)
    }

    fn until(&mut self, now: Moment) -> Interval {
        let mut interval = Interval::between(&self.before, &now);
        interval.threads = self.threads.scan(now.at);
        let cpus = interval.cpus.values();
        let mut missing = Vec::new();
        if cpus.clone().all(|cpu| cpu.waiting.is_none()) {
            missing.push((
                "waiting, switches/s",
                "no /proc/schedstat (CONFIG_SCHEDSTATS)",
            ));
        }
        if cpus.clone().all(|cpu| cpu.khz.is_none()) {
            missing.push(("MHz", "no cpufreq driver in /sys/devices/system/cpu"));
        }
        missing.extend(&self.threads.missing);
        let decisions = self.computer.no_decisions(&now);
        missing.extend(decisions.map(|reason| ("decisions", reason)));
        interval.missing = missing;
        self.before = now;
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: Instant, cpu: Times) -> Moment {
        Moment {
            at,
            cpus: [(0, cpu)].into(),
            khz: [(0, 1_200_000)].into(),
            scheduler: "Linux's own scheduler".to_owned(),
            counted: None,
            events: Some([("SCX_EV_X".to_owned(), cpu.ticks)].into()),
        }
    }

    #[test]
    fn an_interval_is_what_was_counted_in_it() {
        let then = Instant::now();
        let times = |ticks, idle_ticks, waited_ns, switches| Times {
            ticks,
            idle_ticks,
            tasks: Some(Tasks {
                waited_ns,
                switches,
            }),
        };
        let before = moment(then, times(1000, 900, 5, 7));
        let now = moment(
            then + Duration::from_secs(2),
            times(1200, 950, 3_000_000_005, 27),
        );
        let interval = Interval::between(&before, &now);
        let expected = Cpu {
            busy: 0.75,
            waiting: Some(1.5),
            switches: Some(10.0),
            khz: Some(1_200_000),
        };
        assert_eq!(interval.cpus, [(0, expected)].into());
        assert_eq!(interval.events, [("SCX_EV_X".to_owned(), 100.0)].into());
    }

    #[test]
    fn lines_about_all_cpus_are_about_none() {
        let lines: Vec<_> =
            lines_of_cpus("cpu  9 9\ncpu0 1 2\ndomain0 ff 3\ncpu12 4\nintr 5\n").collect();
        assert_eq!(lines, [(0, vec![1, 2]), (12, vec![4])]);
    }
}
