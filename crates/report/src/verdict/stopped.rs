//! Threads that stopped running before the end of a run.

use super::and;
use lab::Measured;
use machine::counted;
use simulator::Deadlock;

/// The maximum number of stalled threads that a line names.
const MOST_STALLED: usize = 3;

/// A sentence about the threads that stopped running under a scheduler.
pub(super) fn stalled(name: &str, measured: &Measured) -> Option<String> {
    let stalled = measured.stalled();
    let (_, most, _) = stalled.iter().max_by_key(|(_, runs, _)| *runs)?;
    let since = |&(ref thread, _, since): &(String, usize, u64)| {
        format!("{thread} (from {} s on)", seconds(since))
    };
    let mut named: Vec<String> = stalled.iter().take(MOST_STALLED).map(since).collect();
    let more = stalled.len().saturating_sub(MOST_STALLED);
    if more > 0 {
        named.push(counted(more, "other thread", "other threads"));
    }
    let when = in_runs(*most, measured);
    let what = match stalled.as_slice() {
        [(thread, _, since)] => {
            format!(
                "{thread} was runnable and did not run from {} s on",
                seconds(*since)
            )
        }
        _ => format!("{} were runnable and did not run", and(named)),
    };
    Some(format!("Under {name}, {what}{when}."))
}

/// A sentence about the deadlock under a scheduler.
pub(super) fn deadlock(name: &str, measured: &Measured) -> Option<String> {
    let (deadlock, runs) = measured.deadlock()?;
    let when = in_runs(runs, measured);
    Some(format!("Under {name}{when}, {}", deadlocked(deadlock)))
}

/// `deadlock` as the end of a sentence.
pub(crate) fn deadlocked(deadlock: &Deadlock) -> String {
    let at = deadlock.at_ns as f64 / 1e9;
    format!("no thread can run from {at:.3} s on: {}.", deadlock.waiting)
}

/// The number of runs in words, unless these are all runs.
fn in_runs(runs: usize, measured: &Measured) -> String {
    match measured.runs.len() {
        all if all == runs => String::new(),
        all => format!(" in {runs} of {all} runs"),
    }
}

/// A time in ns as seconds, to the hundredth.
fn seconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e9)
}
