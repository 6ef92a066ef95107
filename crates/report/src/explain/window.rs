//! A wait under observation during its run, in numbers. Words and names are added at the end ([`super::chain`]).

use super::said::{MOST_SAID, is_about};
use super::tasks::Tasks;
use super::wait::{After, Wait};
use machine::CpuMask;
use policy::{About, Decision, Number};
use simulator::EXPLAINED_NUMBERS;
use std::collections::{BTreeMap, BTreeSet};

/// The longest time between a decision that takes a thread's CPU away and the loss of the CPU, in ns.
const BEFORE_NS: u64 = 50_000;

/// A decision as the scheduler records it.
#[derive(Clone, Copy)]
pub struct Raw {
    pub decision: &'static Decision,
    /// The task that the decision is about.
    pub pid: Option<i32>,
    /// The CPU that the decision is about.
    pub cpu: Option<usize>,
    /// The numbers on which the decision is based.
    pub numbers: [i64; EXPLAINED_NUMBERS],
}

impl Raw {
    /// Does the decision concern the task?
    pub fn concerns(&self, pid: i32) -> bool {
        let is_it = |&(number, value): &(&(&str, Number), &i64)| {
            number.1 == Number::Task && *value == i64::from(pid)
        };
        self.pid == Some(pid)
            || self
                .decision
                .numbers
                .iter()
                .zip(&self.numbers)
                .any(|pair| is_it(&pair))
    }

    /// The decision and the size of its domain, if any. Reasons that differ in this key are listed separately.
    pub fn reason(&self) -> Reason {
        let named = self.decision.numbers.iter().zip(&self.numbers);
        let mut domain = named.filter(|((name, _), _)| *name == "cpus");
        (
            self.decision.name,
            domain.next().map_or(0, |(_, &cpus)| cpus),
        )
    }
}

/// A decision's name, and the number of CPUs of the domain that the decision is about; 0 if it is not about a domain.
pub type Reason = (&'static str, i64);

/// The reasons why a CPU has taken nothing since it went idle, each with the last decision and the decision's time.
pub type Reasons = BTreeMap<Reason, (u64, Raw)>;

/// The subject of a [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A thread that waits.
    Wait,
    /// A thread that runs slowly, from its wakeup until it sleeps; [`Window::wait`] is all of that time.
    Slow,
    /// A slow thread, from a time at which it was already running until it sleeps.
    Continued,
}

/// A wait under observation.
pub struct Window {
    pub wait: Wait,
    pub subject: Subject,
    /// The CPU for which the thread waits.
    pub cpu: Option<usize>,
    /// The events so far.
    pub steps: Vec<RawStep>,
    /// The idle time of each CPU.
    pub idle_ns: BTreeMap<usize, u64>,
    /// For each CPU and each reason why it found no work, the number of decisions with this reason, and the last such
    /// decision.
    pub idle: BTreeMap<(usize, Reason), (u64, Raw)>,
    /// For each CPU that was idle when the window began, the reasons why it had found no work before.
    pub idle_before: BTreeMap<usize, Reasons>,
    /// The CPUs that were idle when the window began.
    pub idle_at_start: BTreeSet<usize>,
    /// For each CPU, the time and the value of its latest frequency request before the window began, or otherwise of
    /// its first request after that.
    pub requests: BTreeMap<usize, (u64, Raw)>,
    /// The number of lines that the scheduler printed about the thread. At most the first [`MOST_SAID`] of them are
    /// among the steps.
    pub said: usize,
    /// The CPUs that were offline for all of the window so far.
    pub offline: CpuMask,
    /// The time in the window for which no scheduler was loaded, in ns.
    pub unloaded_ns: u64,
    /// The tasks as they were at the end of the window. Later in the run they may have other priorities and affinities.
    pub tasks: Option<Tasks>,
}

/// A step in numbers.
pub struct RawStep {
    /// The time of the step in ns.
    pub at: u64,
    pub cpu: usize,
    pub what: RawWhat,
}

/// The kind of a step, as [`super::What`], with pids in place of names.
pub enum RawWhat {
    Woken {
        by: Option<i32>,
        waited_for: Option<&'static str>,
    },
    Decided(Raw),
    Moved {
        from: usize,
        to: usize,
    },
    Other {
        pid: Option<i32>,
        until: Option<u64>,
    },
    Said(String),
    Runs,
}

impl Window {
    pub fn new(wait: Wait, subject: Subject) -> Window {
        Window {
            subject,
            cpu: match wait.after {
                After::Wakeup => None,
                After::Running { cpu } => Some(cpu),
            },
            wait,
            steps: Vec::new(),
            idle_ns: BTreeMap::new(),
            idle: BTreeMap::new(),
            idle_before: BTreeMap::new(),
            idle_at_start: BTreeSet::new(),
            requests: BTreeMap::new(),
            said: 0,
            offline: CpuMask::EMPTY,
            unloaded_ns: 0,
            tasks: None,
        }
    }

    /// Does an event at `now` belong to the window?
    pub fn is_open(&self, now: u64) -> bool {
        (self.begins()..=self.wait.to).contains(&now)
    }

    /// The part of the time from `since` to `now` that is within the window, in ns.
    pub fn within(&self, since: u64, now: u64) -> u64 {
        let Wait { from, to, .. } = self.wait;
        now.min(to).saturating_sub(since.max(from))
    }

    fn begins(&self) -> u64 {
        match self.wait.after {
            After::Wakeup => self.wait.from,
            After::Running { .. } => self.wait.from.saturating_sub(BEFORE_NS),
        }
    }

    pub fn push(&mut self, at: u64, cpu: usize, what: RawWhat) {
        self.steps.push(RawStep { at, cpu, what });
    }

    /// Ends the turn of the thread that leaves the window's CPU.
    pub fn end_other(&mut self, now: u64) {
        let others = self.steps.iter_mut().rev();
        let mut open = others.filter_map(|step| match &mut step.what {
            RawWhat::Other {
                until: until @ None,
                ..
            } => Some(until),
            _ => None,
        });
        if let Some(until) = open.next() {
            *until = Some(now);
        }
    }

    /// Makes `cpu` the CPU for which the thread waits from now on; `running` has the thread on that CPU and the start
    /// of its turn.
    pub fn waits_for(&mut self, now: u64, cpu: usize, running: (Option<i32>, u64)) {
        if self.cpu == Some(cpu) || self.subject != Subject::Wait {
            return;
        }
        self.end_other(now);
        let was = self.cpu.replace(cpu);
        let (pid, since) = running;
        if pid != Some(self.wait.pid) {
            let at = if was.is_none() {
                since.max(self.wait.from)
            } else {
                now
            };
            self.push(at, cpu, RawWhat::Other { pid, until: None });
        }
    }

    /// Adds `line`, which the scheduler prints by `bpf_printk()`, if it is about the thread.
    pub fn says(&mut self, now: u64, cpu: usize, line: &str) {
        if is_about(line, &self.wait.name, self.wait.pid) {
            self.said += 1;
            if self.said <= MOST_SAID {
                self.push(now, cpu, RawWhat::Said(line.to_owned()));
            }
        }
    }

    pub fn decided(&mut self, now: u64, cpu: usize, raw: Raw) {
        let pid = self.wait.pid;
        let is_earlier = now < self.wait.from;
        let there = raw.cpu.is_some() && raw.cpu == self.cpu;
        match raw.decision.about {
            About::Idle if !is_earlier => {
                if let Some(idle) = raw.cpu {
                    let (times, last) = self.idle.entry((idle, raw.reason())).or_insert((0, raw));
                    (*times, *last) = (*times + 1, raw);
                }
            }
            About::Idle => {}
            About::Frequency => {
                if let Some(cpu) = raw.cpu {
                    self.requests.entry(cpu).or_insert((now, raw));
                }
            }
            // A slow thread has many turns, which say nothing about its speed.
            About::Keeps | About::Yields if self.subject != Subject::Wait => {}
            _ if raw.pid == Some(pid) || (is_earlier && raw.concerns(pid)) => {
                self.push(now, cpu, RawWhat::Decided(raw));
            }
            About::Preempts | About::Keeps | About::Yields
                if there && !is_earlier && self.subject == Subject::Wait =>
            {
                self.push(now, cpu, RawWhat::Decided(raw));
            }
            _ => {}
        }
    }
}
