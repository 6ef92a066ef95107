//! Missed periods: the thread's activity between the end of its previous period and the end of its
//! work, and why that took longer than the time available.

use super::cause::{self, Cause, Kind};
use super::chain::Chain;
use super::diff::parts as parts_of;
use super::item::windows;
use super::page::{chain, seconds, shown};
use super::period::{self, Period};
use super::response::Response;
use super::slow;
use super::wait::Wait;
use super::window::Subject;
use crate::Table;
use machine::Machine;
use std::collections::HashMap;

/// A period whose work was done after the deadline.
#[derive(Clone, Debug)]
pub struct Missed {
    /// Its times.
    pub period: workload::Period,
    /// The thread's activity in it. It begins when the thread woke up, or when its previous period was done.
    pub response: Response,
}

impl Missed {
    /// How long after the deadline its work was done, ns.
    pub fn late_ns(&self) -> u64 {
        self.period.done.saturating_sub(self.period.due)
    }

    /// The time that the thread or its wakers lost in it, ns.
    fn lost_ns(&self) -> u64 {
        self.response.lost_ns().max(self.response.late_ns())
    }

    /// How long the thread was still busy with earlier periods when this one was released, ns.
    pub fn behind_ns(&self) -> u64 {
        self.response.from.saturating_sub(self.period.released)
    }

    /// Where the time between release and end went, as a sentence.
    pub fn went(&self) -> String {
        let mut parts: Vec<(u64, &str)> = parts_of(&self.response)
            .map(|(name, ns)| (ns, name))
            .to_vec();
        let before = match self.response.continues {
            true => "work for earlier periods",
            false => "until it woke up",
        };
        parts.insert(0, (self.behind_ns(), before));
        let parts = parts.iter().filter(|(ns, _)| *ns > 0);
        let parts: Vec<String> = parts
            .map(|(ns, name)| format!("{} {name}", shown(*ns)))
            .collect();
        format!(
            "From its release at {} until it was done: {}.",
            seconds(self.period.released.min(self.response.from)),
            parts.join(", ")
        )
    }

    /// The cause of the miss, from that of the largest loss in it, if there is one.
    pub fn cause(&self, of_loss: Option<Cause>) -> Cause {
        // Without the loss, or without being behind as well, it would have been late just as much.
        let (lost, behind) = (self.lost_ns(), self.behind_ns());
        let is_behind = lost < behind && lost < self.late_ns();
        let of_loss = of_loss.filter(|_| lost + behind >= self.late_ns() && !is_behind);
        let name = &self.response.name;
        let missed = format!(
            "{name} missed its deadline at {} by {}: ",
            seconds(self.period.due),
            shown(self.late_ns())
        );
        let details = vec![self.went()];
        let Some(cause) = of_loss else {
            let by = match self.response.continues {
                true => None,
                false => self.response.woken_by.as_deref(),
            };
            let (kind, text) = match (is_behind && lost + behind >= self.late_ns(), by) {
                (true, Some(by)) => (
                    Kind::LateWaker,
                    format!(
                        "it slept until {by} woke it up, {} after its release.",
                        shown(behind)
                    ),
                ),
                (true, None) => (
                    Kind::Work,
                    format!(
                        "it was busy with earlier periods for {} after its release.",
                        shown(behind)
                    ),
                ),
                (false, _) => (
                    Kind::Work,
                    "its work takes longer than its period, even on the fastest CPU.".to_owned(),
                ),
            };
            return Cause {
                kind,
                sentence: missed + &text,
                details,
                decision: None,
                cpu: None,
                better: None,
            };
        };
        let sentence = match cause.sentence.strip_prefix(&format!("{name} ")) {
            Some(rest) => format!("{missed}it {rest}"),
            None => missed + &cause.sentence,
        };
        Cause {
            sentence,
            details: details.into_iter().chain(cause.details).collect(),
            ..cause
        }
    }
}

/// A missed period with the events of its time.
pub struct MissedPeriod {
    /// The period.
    pub missed: Missed,
    /// Its events.
    pub period: Period,
}

/// The windows that [`super::Chains`] has to observe for each of `missed`.
pub fn observed(missed: &[Missed]) -> Vec<Vec<(Wait, Subject)>> {
    let of = |one: &Missed| {
        let (waits, chosen) = period::parts(&one.response);
        windows(&waits, &chosen)
    };
    missed.iter().map(of).collect()
}

impl MissedPeriod {
    /// `missed` with the `chains` of its windows; `None` if they belong to another one.
    pub fn new(
        machine: &Machine,
        scheduler: (&str, bool),
        missed: Missed,
        chains: Vec<Chain>,
    ) -> Option<MissedPeriod> {
        let period = Period::new(machine, scheduler, missed.response.clone(), chains)?;
        Some(MissedPeriod { missed, period })
    }

    /// Its cause.
    pub fn cause(&self, machine: &Machine) -> Cause {
        let period = &self.period;
        let response = &self.missed.response;
        // Threads that were in the way for a part of the period are no cause if the work could have been
        // done elsewhere.
        let busy = |cause: &Cause| {
            matches!(
                cause.kind,
                Kind::Nice | Kind::Group | Kind::Busy | Kind::FastCpusBusy
            )
        };
        let better = match period.cause.as_ref().is_some_and(busy) {
            true => cause::left(machine, response, &period.whole, period.decisions),
            false => None,
        };
        self.missed.cause(better.or_else(|| period.cause.clone()))
    }

    /// The events of the largest loss in it.
    pub fn table(&self, machine: &Machine) -> Table {
        let response = &self.missed.response;
        let late = response.late.as_ref().filter(|_| response.is_late());
        match (&self.period.waited, late) {
            (_, Some(late)) => slow::table(&late.root, machine),
            (Some(waited), None) => chain(waited, self.period.decisions),
            (None, None) => slow::table(response, machine),
        }
    }

    /// [`MissedPeriod::table`], and a table of all events of the period.
    pub fn tables(&self, machine: &Machine) -> Vec<Table> {
        let whole = chain(&self.period.whole, self.period.decisions);
        let whole = Table {
            title: "All of the period".to_owned(),
            ..whole
        };
        vec![self.table(machine), whole]
    }
}

/// The parts of the responses of threads with periods.
#[derive(Default)]
pub struct Parts(HashMap<i32, Part>);

/// The state of a thread with periods.
#[derive(Default)]
struct Part {
    /// Its open response when its last period was done, and the idle time of each CPU until then.
    mark: Option<(Response, Vec<u64>)>,
    /// Its longest wait since then.
    longest: Option<Wait>,
    /// Its response, or the last part of it, until it slept.
    last: Option<Response>,
}

impl Parts {
    /// Does the thread have periods?
    pub fn has(&self, pid: i32) -> bool {
        self.0.contains_key(&pid)
    }

    /// A wait is over.
    pub fn waited(&mut self, wait: &Wait) {
        if let Some(part) = self.0.get_mut(&wait.pid)
            && part.longest.as_ref().map_or(0, Wait::ns) < wait.ns()
        {
            part.longest = Some(wait.clone());
        }
    }

    /// A thread with periods sleeps.
    pub fn closes(&mut self, response: &Response, idle: &[u64]) {
        if let Some(part) = self.0.get_mut(&response.pid) {
            part.last = Some(part.of(response, idle));
            (part.mark, part.longest) = (None, None);
        }
    }

    /// A period of `pid` is over, whose work was done at `done`: its response, or the part of it since
    /// the period before.
    pub fn ends(
        &mut self,
        now: u64,
        pid: i32,
        done: u64,
        open: Option<&Response>,
        idle: &[u64],
    ) -> Option<Response> {
        let part = self.0.entry(pid).or_default();
        match open {
            Some(open) if done > open.from => {
                let mut response = open.clone();
                response.to = now;
                let ended = part.of(&response, idle);
                (part.mark, part.longest) = (Some((response, idle.to_vec())), None);
                // Several periods may be over at once.
                match ended.ns() {
                    0 => part.last.clone(),
                    _ => {
                        part.last = Some(ended.clone());
                        Some(ended)
                    }
                }
            }
            // The thread has slept since then.
            _ => part.last.clone(),
        }
    }
}

impl Part {
    /// The part of `response` since the mark, with the idle time of the CPUs in it.
    fn of(&self, response: &Response, idle: &[u64]) -> Response {
        let (mut part, before) = match &self.mark {
            Some((mark, before)) => (response.since(mark, self.longest.clone()), &before[..]),
            None => (response.clone(), &response.idle_ns[..]),
        };
        let idle = idle.iter().zip(before);
        part.idle_ns = idle.map(|(now, then)| now - then).collect();
        part
    }
}

/// The missed periods of each thread that lost most time.
#[derive(Default)]
pub struct Misses(HashMap<i32, Vec<Missed>>);

impl Misses {
    /// Adds a missed period; the `worst` of its thread are kept.
    pub fn add(&mut self, missed: Missed, worst: usize) {
        let kept = self.0.entry(missed.response.pid).or_default();
        kept.push(missed);
        if kept.len() > 2 * worst {
            keep(kept, worst);
        }
    }

    /// The `worst` of all threads that are `wanted`.
    pub fn choose(self, worst: usize, wanted: impl Fn(&Response) -> bool) -> Vec<Missed> {
        let kept = self.0.into_values().flatten();
        let mut missed: Vec<Missed> = kept.filter(|one| wanted(&one.response)).collect();
        keep(&mut missed, worst);
        missed
    }
}

/// Keeps the `worst`, sorted by time lost, largest first; of several in one response only the
/// first.
fn keep(missed: &mut Vec<Missed>, worst: usize) {
    missed.sort_by_key(|one| {
        let Response { from, pid, .. } = one.response;
        (u64::MAX - one.lost_ns(), from, pid, one.period.released)
    });
    missed.dedup_by_key(|one| (one.response.pid, one.response.from));
    missed.truncate(worst);
}
