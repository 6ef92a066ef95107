//! The costs of a scheduler on this computer, measured while it is loaded. A prediction needs these costs in addition
//! to the costs under the kernel's own scheduler.

use crate::guard::{Guard, Part};
use machine::LONGEST_COSTS_S;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit for the start of the counting program; [`LISTS`] is the time that the program then takes to list the
/// BPF programs.
const STARTS: Duration = Duration::from_secs(10);
const LISTS: Duration = Duration::from_millis(500);

/// The costs of a scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerCosts {
    /// The time in ns of a call of each callback, by its name in a machine file, in the turn of the first block.
    pub callbacks: BTreeMap<String, u64>,
    /// The time in ns of a wakeup and the switch after it, on one CPU.
    pub wakeup_ns: u64,
    /// The part of `wakeup_ns` that callbacks take.
    pub callbacks_ns: u64,
}

/// The time in ns of a call of each callback, and the number of its calls.
type Calls = BTreeMap<String, (u64, u64)>;

/// Counts the calls of callbacks while it lives (`scx_equipoise --costs`).
pub struct Counter {
    child: Child,
    part: Part,
}

impl Counter {
    fn start(guard: &Guard, program: &Path) -> io::Result<Counter> {
        let part = guard.part("costs")?;
        let child = part.spawn(&mut counting(program))?;
        let counter = Counter { child, part };
        let began = Instant::now();
        while !counter.counts() && began.elapsed() < STARTS {
            sleep(Duration::from_millis(5));
        }
        sleep(LISTS);
        Ok(counter)
    }

    /// Does the kernel count calls for the program?
    fn counts(&self) -> bool {
        let fds = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        let mut targets = fds.into_iter().flatten().flatten();
        targets.any(|fd| {
            let target = fs::read_link(fd.path()).unwrap_or_default();
            target.to_string_lossy().contains("bpf-stats")
        })
    }

    fn end(mut self) -> io::Result<Calls> {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::INT);
        }
        let mut text = String::new();
        if let Some(out) = &mut self.child.stdout {
            out.read_to_string(&mut text)?;
        }
        Ok(calls(&text))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.part.kill();
        let _ = self.child.wait();
    }
}

/// The command that counts calls with `program`, which is scx_equipoise. It counts for the longest possible time, because
/// SIGINT ends it.
fn counting(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--costs", LONGEST_COSTS_S.to_string().as_str()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    command
}

/// The figures of a section `[callbacks.NAME]`.
fn calls(section: &str) -> Calls {
    let figure = |line: &str| {
        let (name, rest) = line.split_once(" = ")?;
        let (ns, calls) = rest.split_once(" # ")?;
        let calls = calls.split(' ').next()?;
        Some((name.to_owned(), (ns.parse().ok()?, calls.parse().ok()?)))
    };
    section.lines().filter_map(figure).collect()
}

/// Measures schedulers in the first block.
pub struct Meter {
    program: PathBuf,
    host_cpus: Option<u32>,
    counter: Option<Counter>,
    current: SchedulerCosts,
    /// The costs by the scheduler's name.
    pub found: BTreeMap<String, SchedulerCosts>,
}

impl Meter {
    /// Measures with `program`, which is scx_equipoise, in a virtual machine whose CPUs share `host_cpus`, if any.
    pub fn new(program: PathBuf, host_cpus: Option<u32>) -> Meter {
        Meter {
            program,
            host_cpus,
            counter: None,
            current: SchedulerCosts::default(),
            found: BTreeMap::new(),
        }
    }

    /// Measures a wakeup, and starts to count calls, when a scheduler has been loaded and its turn is about to begin.
    pub fn loaded(&mut self, guard: &Guard) -> io::Result<()> {
        let wakeup_ns = wakeup_and_switch()?;
        let counter = Counter::start(guard, &self.program)?;
        wakeup_and_switch()?;
        self.current = SchedulerCosts {
            wakeup_ns,
            callbacks_ns: of_a_wakeup(&counter.end()?),
            ..SchedulerCosts::default()
        };
        self.counter = Some(Counter::start(guard, &self.program)?);
        Ok(())
    }

    /// Stops counting when the scheduler is unloaded. If the scheduler's turn failed, its calls are still being
    /// counted.
    pub fn unloads(&mut self) {
        self.counter = None;
    }

    /// Takes the counts after the turn of the scheduler `name`, in which `busy` CPUs were busy on average.
    pub fn ended(&mut self, name: &str, busy: f64) -> io::Result<()> {
        let Some(counter) = self.counter.take() else {
            return Ok(());
        };
        let calls = counter.end()?;
        // A virtual CPU may wait for its turn on the host while a callback runs.
        let share = (self.host_cpus.map_or(f64::MAX, f64::from) / busy).min(1.0);
        let scaled = |ns: u64| (ns as f64 * share) as u64;
        let callbacks = calls.into_iter().map(|(it, (ns, _))| (it, scaled(ns)));
        let costs = SchedulerCosts {
            callbacks: callbacks.collect(),
            ..std::mem::take(&mut self.current)
        };
        self.found.insert(name.to_owned(), costs);
        Ok(())
    }
}

/// The time in ns of a wakeup and the switch after it, on the first CPU that this thread may use.
pub fn wakeup_and_switch() -> io::Result<u64> {
    let before = rustix::thread::sched_getaffinity(None)?;
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| before.is_set(cpu));
    let measured = detect::wakeup_and_switch(cpu.unwrap_or(0));
    rustix::thread::sched_setaffinity(None, &before)?;
    measured
}

/// The time in callbacks of a wakeup and the switch after it, in ns. Each wakeup has one call of the most frequent
/// callback.
fn of_a_wakeup(calls: &Calls) -> u64 {
    let wakeups = calls.values().map(|(_, calls)| *calls).max().unwrap_or(0);
    let sum: u64 = calls.values().map(|(ns, calls)| ns * calls).sum();
    sum.checked_div(wakeups).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scx_equipoise refuses a longer time.
    #[test]
    fn calls_are_counted_for_the_longest_possible_time() {
        let command = counting(Path::new("scx_equipoise"));
        let args: Vec<&str> = command.get_args().filter_map(|it| it.to_str()).collect();
        assert_eq!(args, ["--costs", "86400"]);
    }

    #[test]
    fn the_section_has_the_cost_of_each_callback() {
        let text = "# Wall time\n[callbacks.simple]\nsource = \"a test\"\nenqueue = 300 # 50 calls\nrunning = 100 # 100 calls\n";
        let calls = calls(text);
        assert_eq!(calls["enqueue"], (300, 50));
        assert_eq!(calls.len(), 2);
        assert_eq!(of_a_wakeup(&calls), 250);
        assert_eq!(of_a_wakeup(&Calls::new()), 0);
    }
}
