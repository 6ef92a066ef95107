//! The losses that are explained: waits, slow runs and late wakeups in a common order, each with its cause.

use super::cause::{self, Cause};
use super::chain::Chain;
use super::response::Response;
use super::wait::{After, Wait};
use super::window::Subject;
use super::{Chosen, Explanation};
use crate::first_run::base;
use std::collections::BTreeSet;

/// A loss of time, with the events that explain it.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A thread waited.
    Waited(&'a Chain),
    /// A thread ran slowly.
    Slow(&'a Response, &'a Chain),
    /// A thread woke up late; the chain is that of the thread that lost the time.
    Late(&'a Response, &'a Chain),
}

/// The windows to observe for the chosen waits and responses: first the waits, then the slow responses, then the roots
/// of the late responses.
pub fn windows(waits: &[Wait], chosen: &Chosen) -> Vec<(Wait, Subject)> {
    let waits = waits.iter().map(|wait| (wait.clone(), Subject::Wait));
    let slow = chosen.slow.iter().map(slow_window);
    let late = chosen.late.iter().filter_map(|late| late.late.as_ref());
    let late = late.map(|late| match (&late.root.longest, late.root.is_slow()) {
        (Some(wait), false) => (wait.clone(), Subject::Wait),
        _ => slow_window(&late.root),
    });
    waits.chain(slow).chain(late).collect()
}

fn slow_window(response: &Response) -> (Wait, Subject) {
    let wait = Wait {
        name: response.name.clone(),
        pid: response.pid,
        after: After::Wakeup,
        from: response.from,
        to: response.to,
        open: false,
    };
    let subject = match response.continues {
        true => Subject::Continued,
        false => Subject::Slow,
    };
    (wait, subject)
}

impl<'a> Item<'a> {
    /// The time lost in ns.
    pub fn lost_ns(&self) -> u64 {
        match self {
            Item::Waited(chain) => chain.wait.ns(),
            Item::Slow(response, _) => response.slow_ns(),
            Item::Late(response, _) => response.late_ns(),
        }
    }

    /// Has the thread stopped running?
    pub fn is_stall(&self) -> bool {
        matches!(self, Item::Waited(chain) if chain.wait.is_stall())
    }

    /// The thread that waited, ran slowly or woke up late.
    pub fn thread(&self) -> (&'a str, i32) {
        match self {
            Item::Waited(chain) => (&chain.wait.name, chain.wait.pid),
            Item::Slow(response, _) | Item::Late(response, _) => (&response.name, response.pid),
        }
    }

    /// The time when the loss began, in ns.
    pub fn at(&self) -> u64 {
        match self {
            Item::Waited(chain) => chain.wait.from,
            Item::Slow(response, _) | Item::Late(response, _) => response.from,
        }
    }

    /// The cause of the loss.
    pub fn cause(&self, of: &Explanation<'_>) -> Cause {
        let (machine, reports) = (of.machine, of.decisions);
        match self {
            Item::Waited(chain) => cause::waited(machine, chain, reports),
            Item::Slow(response, chain) => cause::slow(machine, response, chain, reports),
            Item::Late(response, chain) => {
                let root = response.late.as_ref().map(|late| &late.root);
                let of_root = match root.filter(|root| root.is_slow()) {
                    Some(root) => cause::slow(machine, root, chain, reports),
                    None => cause::waited(machine, chain, reports),
                };
                cause::late(response, &of_root)
            }
        }
    }
}

/// All losses outside the missed periods, largest first.
pub fn items<'a>(of: &'a Explanation<'_>) -> Vec<Item<'a>> {
    let waits = of.waits.iter().map(Item::Waited);
    let slow = of.slow.iter().map(|(one, chain)| Item::Slow(one, chain));
    let late = of.late.iter().map(|(one, chain)| Item::Late(one, chain));
    let is_apart = |item: &Item<'_>| {
        let (at, pid) = (item.at(), item.thread().1);
        let mut periods = of.periods.iter().map(|one| &one.missed.response);
        !periods.any(|one| one.pid == pid && (one.from..=one.to).contains(&at))
    };
    let items = waits.chain(slow).chain(late);
    let mut items: Vec<Item<'a>> = items.filter(is_apart).collect();
    items.sort_by_key(|item| u64::MAX - item.lost_ns());
    items
}

/// The causes of stalls, then of the missed periods, then of the other `items` in their order. Items whose loss is
/// below a tenth of the largest item's are left out. If a thread has several losses for one reason, only the first of these
/// losses gets a cause.
pub fn causes(of: &Explanation<'_>, items: &[Item<'_>]) -> Vec<Cause> {
    let largest = items.first().map_or(0, Item::lost_ns);
    let mut seen = BTreeSet::new();
    let mut causes = Vec::new();
    let periods = of
        .periods
        .iter()
        .map(|one| (one.cause(of.machine), &*one.missed.response.name));
    let items = items.iter().filter(|item| item.lost_ns() >= largest / 10);
    let (stalls, items): (Vec<&Item<'_>>, Vec<&Item<'_>>) = items.partition(|item| item.is_stall());
    let with_cause = |item: &'_ Item<'_>| (item.cause(of), item.thread().0.to_owned());
    let stalls = stalls.into_iter().map(with_cause);
    let periods = periods.map(|(cause, thread)| (cause, thread.to_owned()));
    let items = items.into_iter().map(with_cause);
    for (cause, thread) in stalls.chain(periods).chain(items) {
        let thread = base(&thread).to_owned();
        if seen.insert((thread, cause.kind as u32, cause.decision)) {
            causes.push(cause);
        }
    }
    causes
}
