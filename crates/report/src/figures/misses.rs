//! The missed periods that the page explains, and the part of the run that the page shows at first.

use super::lanes::{UNIT_NS, leb128};
use super::{MissFigure, Pooled, Shown, ms, round};
use crate::explain::MissedPeriod;
use crate::first_run::{FirstRun, base};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lab::Comparison;
use machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of periods shown on each side of the period that came closest to its deadline, if none was missed.
const PERIODS_BESIDE: f64 = 4.0;

/// The largest number of threads whose periods have a lane. The threads with most misses come first, then the threads
/// that ran longest.
const MOST_PERIODIC: usize = 8;

/// The size limit in bytes of the periods of all runs of a page, before base64 adds a third.
pub(super) const PERIODS_BYTES: usize = 150_000;

/// The periods of a thread in one run.
#[derive(Serialize)]
pub(super) struct Periodic {
    thread: usize,
    missed: usize,
    judged: usize,
    /// For each period, the time from the previous release to its release, and from its release to its deadline, in
    /// units of 2 us. The third number is the time from its release until its work was done in these units, doubled,
    /// plus 1 if the deadline was missed. The numbers are in LEB128 and base64.
    periods: String,
}

/// The two schedulers whose drawings are open at first: the best and the worst scheduler for the first goal in which a
/// scheduler is worse than another, or else the first two schedulers.
pub(super) fn opened(comparison: &Comparison) -> Vec<usize> {
    let findings = comparison.findings();
    let mut goals = findings.verdict.goals.iter();
    let pair = goals.find_map(|goal| Some((*goal.best.first()?, *goal.worst.first()?)));
    match pair.filter(|(best, worst)| best != worst) {
        Some((best, worst)) => vec![best, worst],
        None => (0..comparison.schedulers.len().min(2)).collect(),
    }
}

/// The time in ms around the largest miss of the last of these schedulers that missed a period; `None` if none did.
pub(super) fn view(open: &[usize], misses: &[Vec<MissFigure>]) -> Option<[f64; 2]> {
    let last = open.iter().rev();
    let miss = last.filter_map(|&index| misses[index].first()).next()?;
    let length = miss.done.max(miss.due) - miss.released;
    let from = (miss.released - 2.0 * length).max(0.0);
    Some([
        round(from, 3),
        round(miss.done.max(miss.due) + 2.0 * length, 3),
    ])
}

/// The time in ms around the period of these schedulers that came closest to its deadline, for its length; `None`
/// without periods.
pub(super) fn near_the_latest(open: &[usize], shown: &[Shown]) -> Option<[f64; 2]> {
    let periods = open.iter().flat_map(|&index| &shown[index].run.periods);
    let used = |period: &workload::Period| {
        let length = period.due.saturating_sub(period.released).max(1);
        period.done.saturating_sub(period.released) as f64 / length as f64
    };
    let by_use = |a: &&workload::Period, b: &&workload::Period| used(a).total_cmp(&used(b));
    let latest = periods.map(|(_, period)| period).max_by(by_use)?;
    let [from, due] = [latest.released, latest.due].map(|ns| ns as f64 / 1e6);
    let beside = PERIODS_BESIDE * (due - from);
    Some([round((from - beside).max(0.0), 3), round(due + beside, 3)])
}

pub(super) fn miss_figure(machine: &Machine, miss: &MissedPeriod) -> MissFigure {
    let cause = miss.cause(machine);
    let period = &miss.missed.period;
    MissFigure {
        thread: base(&miss.missed.response.name).to_owned(),
        released: ms(period.released),
        due: ms(period.due),
        done: ms(period.done),
        says: [cause.sentence].into_iter().chain(cause.details).collect(),
        chains: miss.tables(machine),
    }
}

/// The places in `order` of the threads with periods, most misses first; at most [`MOST_PERIODIC`].
pub(super) fn periodic_threads(shown: &[Shown], pooled: &[Pooled], order: &[String]) -> Vec<usize> {
    let mut missed: BTreeMap<usize, u64> = BTreeMap::new();
    for (shown, (threads, of)) in shown.iter().zip(pooled) {
        for (thread, period) in &shown.run.periods {
            let name = &threads[of[*thread as usize]].name;
            if let Some(place) = order.iter().position(|it| it == name) {
                *missed.entry(place).or_default() += u64::from(period.missed);
            }
        }
    }
    let mut places: Vec<(u64, usize)> = missed
        .into_iter()
        .map(|(place, missed)| (u64::MAX - missed, place))
        .collect();
    places.sort_unstable();
    places.truncate(MOST_PERIODIC);
    places.into_iter().map(|(_, place)| place).collect()
}

/// The periods of the threads with these ranks, in at most `budget` bytes.
pub(super) fn periods(
    run: &FirstRun,
    rank_of: impl Fn(u32) -> usize,
    ranks: &[usize],
    budget: usize,
) -> Vec<Periodic> {
    let budget = budget / ranks.len().max(1);
    let of_rank = |&rank: &usize| {
        let of_it = run.periods.iter();
        let of_it = of_it.filter(|(thread, _)| rank_of(*thread) == rank);
        let mut all: Vec<&workload::Period> = of_it.map(|(_, period)| period).collect();
        all.sort_by_key(|period| period.released);
        let (mut bytes, mut last) = (Vec::new(), 0);
        for period in &all {
            let before = bytes.len();
            let released = period.released / UNIT_NS;
            let since = |at: u64| (at / UNIT_NS).saturating_sub(released);
            leb128(&mut bytes, released - last);
            leb128(&mut bytes, since(period.due));
            leb128(
                &mut bytes,
                since(period.done) << 1 | u64::from(period.missed),
            );
            if bytes.len() > budget {
                bytes.truncate(before);
                break;
            }
            last = released;
        }
        Periodic {
            thread: rank,
            missed: all.iter().filter(|period| period.missed).count(),
            judged: all.len(),
            periods: BASE64_STANDARD.encode(bytes),
        }
    };
    let lanes = ranks.iter().map(of_rank);
    lanes.filter(|lane| lane.judged > 0).collect()
}
