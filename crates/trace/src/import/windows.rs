//! Recordings with gaps.

use super::builder::Builder;
use super::{GAP, Imported, WINDOW};
use crate::event::{Read, Tracepoint};
use crate::read::each;
use machine::input::BadInput;
use std::io::BufRead;

/// Imports the load in each window of `trace`, the content of `file`. The recording was interrupted between windows, so
/// a thread's state at the end of a window says nothing about the next window. A window begins with the mark [`WINDOW`]
/// and ends with [`GAP`]. Windows without a load are left out.
pub fn windows(file: &str, trace: impl BufRead) -> Result<Vec<Imported>, Box<BadInput>> {
    let (mut builders, mut is_open) = (Vec::new(), false);
    each(file, trace, &mut |read| {
        if let Read::Event(event) = &read
            && let Tracepoint::Mark(text) = event.event
            && (text.contains(WINDOW) || text.contains(GAP))
        {
            is_open = text.contains(WINDOW);
            if is_open {
                builders.push(Builder::new(None));
            }
            return Ok(());
        }
        match (read, builders.last_mut().filter(|_| is_open)) {
            (Read::Event(event), Some(builder)) => builder.event(&event),
            (Read::Lost(lost), Some(builder)) => {
                builder.lost(lost);
                Ok(())
            }
            _ => Ok(()),
        }
    })?;
    let built = builders.into_iter().map(Builder::finish);
    Ok(built.filter_map(Result::ok).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, IDLE, switch, waking};
    use super::*;

    /// Between two windows, a thread slept and was woken, and another thread took over the CPU. Neither a latency nor a
    /// run spans the gap.
    #[test]
    fn nothing_spans_the_gap_between_two_windows() {
        let mark = |us: u64, text: &str| {
            format!(
                "record-13 [001] ..... 0.{us:06}: tracing_mark_write: equipoise record: {text}\n"
            )
        };
        let text = [
            mark(50, "window"),
            mark(60, "load 10"),
            mark(61, "load 11"),
            switch(0, 100, IDLE, "R", A),
            waking(0, 300, A, "d..2.", B),
            mark(310, "gap"),
            switch(0, 400_000, A, "S", B),
            mark(500_000, "window"),
            mark(500_010, "load 10"),
            mark(500_011, "load 11"),
            switch(0, 500_100, A, "S", B),
            waking(0, 500_200, B, "d..2.", A),
            switch(0, 500_230, B, "S", A),
            mark(500_300, "gap"),
            mark(900_000, "window"),
        ]
        .concat();
        let found = windows("t.txt", text.as_bytes()).unwrap();
        let of = |it: &Imported| {
            let threads = it.summary.threads.iter();
            threads
                .map(|it| (it.name.clone(), it.ran_ns / 1000, it.latencies_ns.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(found.len(), 2, "the third window is empty");
        assert_eq!(of(&found[0]), [("a".to_owned(), 200, vec![])]);
        let second = [
            ("a".to_owned(), 90, vec![30_000]),
            ("b".to_owned(), 130, vec![]),
        ];
        assert_eq!(of(&found[1]), second);
    }
}
