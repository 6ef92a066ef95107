//! The cause of a wait or of a slow run, in one sentence: where the time went, which decision cost the most time, with
//! its rule and numbers, and which CPU would have been better at that moment.
//!
//! The rules use what the trace of any scheduler shows (which threads ran where, which CPUs idled, which CPUs the
//! thread may use), and name a decision only where the scheduler reports one.

mod late;
mod slow;
mod waited;

pub use late::late;
pub use slow::{left, slow};
pub use waited::waited;

use super::beside::Share;
use super::chain::{Chain, Idled, Made, SLEPT, Step, What};
use super::response::Response;
use super::tasks::Priority;
use super::words::shown;
use machine::{CpuMask, Machine};
use policy::About;
use serde::Serialize;

/// The largest number of threads that a sentence names.
const MOST_NAMED: usize = 3;

/// The cause of a thread's loss of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The thread's affinity excludes the CPU that would have been better.
    Affinity,
    /// No scheduler was loaded, because a CPU had gone offline or come online.
    Restart,
    /// A real-time or deadline thread had the CPU.
    RealTime,
    /// The thread's control group had used up its CPU time.
    Throttled,
    /// The thread was placed on the CPU of its waker, which continued to run, although another CPU was idle.
    WithWaker,
    /// The thread was placed on a busy CPU although another CPU was idle.
    Placement,
    /// A CPU became or was idle, and did not take the thread.
    NotPulled,
    /// The idle CPUs are on another NUMA node.
    RemoteNode,
    /// The CPU that the thread waited for idled and did not run the thread, or the scheduler did not dispatch the
    /// thread to any CPU.
    NotRun,
    /// The CPU had to leave its idle state.
    IdleExit,
    /// Threads with a lower nice value ran, or the thread has SCHED_IDLE.
    Nice,
    /// Threads of control groups with more weight ran.
    Group,
    /// The thread has stopped running, although the threads that ran have no more weight than this thread.
    Starved,
    /// All CPUs that the thread may use were busy.
    Busy,
    /// The thread ran on a slow CPU while a faster CPU idled.
    SlowCpu,
    /// The thread ran on a slow CPU, and all faster CPUs were busy.
    FastCpusBusy,
    /// The machine's description gives the slow CPU too high a capacity.
    WrongCapacity,
    /// The thread ran on a slow CPU, and all faster CPUs were offline or limited in their frequency.
    NoFasterCpu,
    /// The CPU did not run at its highest frequency.
    Frequency,
    /// Another thread ran on the same core.
    SharedCore,
    /// The waker of the thread was late.
    LateWaker,
    /// The thread's work takes longer than its period.
    Work,
}

/// The cause of a loss.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The kind of the cause.
    pub kind: Kind,
    /// The cause in words: one sentence.
    pub sentence: String,
    /// Sentences about the rules that led to the loss and the CPU that would have been better.
    pub details: Vec<String>,
    /// The row of the decision that cost the most time, if the scheduler reports decisions.
    pub decision: Option<&'static str>,
    /// The CPU where the thread waited or ran.
    pub cpu: Option<usize>,
    /// The CPU that would have been better.
    pub better: Option<usize>,
}

/// The reason for a loss, from which the sentence about the loss is made.
struct Reason {
    kind: Kind,
    /// The text after `because`.
    text: String,
    details: Vec<String>,
    decision: Option<&'static str>,
    cpu: Option<usize>,
    better: Option<usize>,
}

impl Reason {
    fn new(kind: Kind, cpu: Option<usize>, text: String) -> Reason {
        Reason {
            kind,
            text,
            details: Vec::new(),
            decision: None,
            cpu,
            better: None,
        }
    }

    fn decided(mut self, made: Option<&Made>) -> Reason {
        self.decision = made.map(|made| made.decision.name);
        self
    }

    fn detail(mut self, sentence: Option<String>) -> Reason {
        self.details.extend(sentence.map(|text| format!("{text}.")));
        self
    }

    fn better(mut self, cpu: usize) -> Reason {
        self.better = Some(cpu);
        self
    }

    /// The cause of `loss`, a clause such as `ui waited 3 ms`.
    fn of(self, loss: &str) -> Cause {
        Cause {
            kind: self.kind,
            sentence: format!("{loss} because {}.", self.text),
            details: self.details,
            decision: self.decision,
            cpu: self.cpu,
            better: self.better,
        }
    }
}

/// A chain, and its properties that the rules use.
struct Facts<'a> {
    machine: &'a Machine,
    chain: &'a Chain,
    /// The CPUs that were online for at least a part of the chain's time.
    all: CpuMask,
    /// The CPUs of `all` that the thread may use.
    allowed: CpuMask,
    /// The response that `chain` is about, if it is not about a wait.
    response: Option<&'a Response>,
    /// Does the scheduler report its decisions?
    reports: bool,
}

impl<'a> Facts<'a> {
    fn new(machine: &'a Machine, chain: &'a Chain, reports: bool) -> Facts<'a> {
        let all = machine.all_cpus().without(&chain.offline);
        Facts {
            machine,
            chain,
            all,
            allowed: chain.allowed.map_or(all, |allowed| allowed.and(&all)),
            response: None,
            reports,
        }
    }

    fn of_response(
        machine: &'a Machine,
        response: &'a Response,
        chain: &'a Chain,
        reports: bool,
    ) -> Facts<'a> {
        Facts {
            response: Some(response),
            ..Facts::new(machine, chain, reports)
        }
    }

    /// The CPU's speed with idle siblings at the highest frequency that it may have, where 1024 is the speed of the
    /// machine's fastest CPU.
    fn speed(&self, cpu: usize) -> u32 {
        let response = self.response;
        response.map_or_else(
            || speed(self.machine, cpu),
            |it| it.speed(self.machine, cpu),
        )
    }

    /// The limit of the CPU's frequency, as [`Response::limit`].
    fn limit(&self, cpu: usize) -> Option<f64> {
        self.response?.limit(cpu)
    }

    /// The decisions about the thread, in the order in which they were made.
    fn decisions(&self) -> impl DoubleEndedIterator<Item = &'a Made> {
        let steps = self.chain.steps.iter();
        steps.filter_map(|step: &Step| match &step.what {
            What::Decided(made) => Some(made),
            _ => None,
        })
    }

    /// The last decision that placed the thread on `cpu`.
    fn placed(&self, cpu: usize) -> Option<&'a Made> {
        let places = |made: &&Made| {
            matches!(
                made.decision.about,
                About::Placed | About::Sent | About::Pulled
            )
        };
        let on_it = |made: &&Made| made.cpu == Some(cpu);
        self.decisions().filter(places).rfind(on_it)
    }

    /// The CPUs selected by `may` that idled for at least `least` ns of the window, the longest idle first.
    fn idled(&self, least: u64, may: impl Fn(usize) -> bool) -> Vec<&'a Idled> {
        let idled = self.chain.idled.iter();
        idled
            .filter(|idled| idled.ns >= least.max(1) && may(idled.cpu))
            .collect()
    }

    /// The threads that ran on `cpu`, the longest first.
    fn ran(&self, cpu: usize) -> &'a [Share] {
        self.chain.beside.ran.get(&cpu).map_or(&[], Vec::as_slice)
    }

    fn priority(&self, share: &Share) -> Priority {
        let known = self.chain.priorities.get(&share.pid).copied();
        known.unwrap_or(Priority::Nice(0))
    }

    /// The control group of a thread in words, and its weight relative to other groups'.
    fn group(&self, pid: i32) -> (String, u64) {
        match self.chain.groups.get(&pid) {
            Some(group) if group.path != "/" => {
                let text = format!("{} (cpu.weight {})", group.path, group.weight);
                (text, group.product)
            }
            _ => ("the root group".to_owned(), 1 << 20),
        }
    }

    /// Does the thread of `share` have more weight than the waiting thread, by its group or, within one group, by
    /// itself?
    fn outweighs(&self, share: &Share) -> bool {
        let (own, other) = (self.group(self.chain.wait.pid), self.group(share.pid));
        match (self.chain.priority, self.priority(share)) {
            _ if own.1 != other.1 => own.1 < other.1,
            (Priority::Nice(own), Priority::Nice(other)) => other < own,
            (Priority::Idle, Priority::Nice(_)) => true,
            _ => false,
        }
    }

    fn same_node(&self, a: usize, b: usize) -> bool {
        let nodes = self.machine.nodes();
        nodes.is_empty() || self.machine.node_of(a) == self.machine.node_of(b)
    }
}

/// The CPU's speed at its highest frequency with idle siblings, where 1024 is the speed of the machine's fastest CPU.
pub(super) fn speed(machine: &Machine, cpu: usize) -> u32 {
    machine.core_types[machine.cpus[cpu].core_type].speed >> 10
}

/// The most frequent reason why an idle CPU took nothing.
fn refusal(idled: &Idled) -> Option<&Made> {
    let most = idled.decisions.iter().max_by_key(|(_, times)| *times);
    most.map(|(made, _)| made)
}

/// The reason why an idle CPU took nothing, as a sentence.
fn refused(idled: &Idled) -> Option<String> {
    let why = match refusal(idled) {
        Some(made) => &made.why,
        None if idled.slept => SLEPT,
        None => return None,
    };
    Some(format!("CPU {} did not take it: {why}", idled.cpu))
}

/// The rule that placed the thread, as a sentence.
fn placed_by(made: Option<&Made>) -> Option<String> {
    made.map(|made| format!("{} by this rule: {}", made.what, made.why))
}

/// The part `ns` of the time `of` in words: `all of it` from 99 % on, otherwise the time `ns`.
fn part(ns: u64, of: u64) -> String {
    match ns.saturating_mul(100) >= of.saturating_mul(99) {
        true => "all of it".to_owned(),
        false => format!("{} of it", shown(ns)),
    }
}

/// CPUs in words, such as `CPU 3`, or `CPUs 0-1 and 4`.
fn cpus(list: &[usize]) -> String {
    let mask: CpuMask = list.iter().copied().collect();
    match list {
        [one] => format!("CPU {one}"),
        _ => format!("CPUs {mask}"),
    }
}

/// Threads and their times in words, such as `a (3.0 ms), b (1.0 ms) and 2 more`.
fn threads(shares: &[Share]) -> String {
    let named = shares.iter().take(MOST_NAMED);
    let mut named: Vec<String> = named
        .map(|share| {
            // A thread is said to poll if it polled for at least nine tenths of its time.
            let polls = share.polled_ns.saturating_mul(10) >= share.ns.saturating_mul(9);
            let polls = if polls { ", only polling" } else { "" };
            format!("{} ({}{polls})", share.name, shown(share.ns))
        })
        .collect();
    if shares.len() > MOST_NAMED {
        named.push(format!("{} more", shares.len() - MOST_NAMED));
    }
    match named.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => "no thread".to_owned(),
    }
}
