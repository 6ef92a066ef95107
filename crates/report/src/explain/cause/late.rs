//! The reason why a thread woke up late.

use super::{Cause, Kind};
use crate::explain::response::Response;
use crate::explain::words::{seconds, shown};

/// The cause of a late wakeup, given `of_root`, the cause of the loss of the thread at the root of the chain of
/// wakeups.
pub fn late(response: &Response, of_root: &Cause) -> Cause {
    let root = response.late.as_ref().map(|late| late.root.name.as_str());
    let root = root.unwrap_or("its waker");
    Cause {
        kind: Kind::LateWaker,
        sentence: format!(
            "{} woke up {} late at {} because {root}, which wakes it up, was late: {}",
            response.name,
            shown(response.late_ns()),
            seconds(response.from),
            of_root.sentence
        ),
        ..of_root.clone()
    }
}
