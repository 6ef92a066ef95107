//! The periods that the observer of responses keeps: the parts of responses that are periods, and the missed periods.

use super::Response;
use crate::explain::wait::Wait;
use std::collections::HashMap;

/// A period whose work was done after the deadline.
#[derive(Clone, Debug)]
pub struct Missed {
    /// The times of the period.
    pub period: workload::Period,
    /// The thread's activity in the period. This response begins when the thread woke up, or when its previous period
    /// was done.
    pub response: Response,
}

impl Missed {
    /// The time from the deadline until the work was done, in ns.
    pub fn late_ns(&self) -> u64 {
        self.period.done.saturating_sub(self.period.due)
    }

    /// The time that the thread lost in the period or that its wakers lost, whichever is longer, in ns.
    pub(in crate::explain) fn lost_ns(&self) -> u64 {
        self.response.lost_ns().max(self.response.late_ns())
    }

    /// The time from the release of this period until the thread could begin it: while it was still busy with earlier
    /// periods, and until it woke up, in ns.
    pub fn behind_ns(&self) -> u64 {
        self.response.from.saturating_sub(self.period.released)
    }
}

/// The parts of the responses of threads with periods.
#[derive(Default)]
pub struct Parts(HashMap<i32, Part>);

/// The state of a thread with periods.
#[derive(Default)]
struct Part {
    /// The open response when the thread's last period was done, and the idle time of each CPU until then.
    mark: Option<(Response, Vec<u64>)>,
    /// The longest wait since `mark`.
    longest: Option<Wait>,
    /// The last response, or its last part, until the thread slept.
    last: Option<Response>,
}

impl Parts {
    pub fn has(&self, pid: i32) -> bool {
        self.0.contains_key(&pid)
    }

    /// Records a wait that is over.
    pub fn waited(&mut self, wait: &Wait) {
        if let Some(part) = self.0.get_mut(&wait.pid)
            && part.longest.as_ref().map_or(0, Wait::ns) < wait.ns()
        {
            part.longest = Some(wait.clone());
        }
    }

    /// Records that a thread with periods sleeps, which ends `response`.
    pub fn closes(&mut self, response: &Response, idle: &[u64]) {
        if let Some(part) = self.0.get_mut(&response.pid) {
            part.last = Some(part.of(response, idle));
            (part.mark, part.longest) = (None, None);
        }
    }

    /// Ends a period of `pid` whose work was done at `done`. Returns the period's response, or the part of the response
    /// since the previous period.
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
                // Several periods may end at once.
                match ended.ns() {
                    0 => part.last.clone(),
                    _ => {
                        part.last = Some(ended.clone());
                        Some(ended)
                    }
                }
            }
            // The thread has slept since `done`.
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

/// For each thread, the missed periods that lost most time.
#[derive(Default)]
pub struct Misses(HashMap<i32, Vec<Missed>>);

impl Misses {
    /// Adds a missed period, and keeps the `worst` missed periods of the thread.
    pub fn add(&mut self, missed: Missed, worst: usize) {
        let kept = self.0.entry(missed.response.pid).or_default();
        kept.push(missed);
        if kept.len() > 2 * worst {
            keep(kept, worst);
        }
    }

    /// The `worst` missed periods of all threads that are `wanted`.
    pub fn choose(self, worst: usize, wanted: impl Fn(&Response) -> bool) -> Vec<Missed> {
        let kept = self.0.into_values().flatten();
        let mut missed: Vec<Missed> = kept.filter(|one| wanted(&one.response)).collect();
        keep(&mut missed, worst);
        missed
    }
}

/// Keeps the `worst` missed periods, sorted by time lost, largest first; of several missed periods in one response,
/// only the first is kept.
fn keep(missed: &mut Vec<Missed>, worst: usize) {
    missed.sort_by_key(|one| {
        let Response { from, pid, .. } = one.response;
        (u64::MAX - one.lost_ns(), from, pid, one.period.released)
    });
    missed.dedup_by_key(|one| (one.response.pid, one.response.from));
    missed.truncate(worst);
}
