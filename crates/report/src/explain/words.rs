//! Times in words.

use policy::time;

/// A time of the run in words.
pub fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// A duration in words.
pub fn shown(ns: u64) -> String {
    time(ns.min(i64::MAX as u64) as i64)
}
