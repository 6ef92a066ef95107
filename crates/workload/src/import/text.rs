//! Traces that are lines of text.

use super::event::Read;
use super::{ITS_MACHINE, Sink, line};
use machine::input::BadInput;
use std::io::BufRead;

/// The longest plausible line.
pub const LONGEST_LINE: usize = 1 << 16;

/// Passes the events in the lines of `trace` to `sink`.
pub fn each(file: &str, mut trace: impl BufRead, sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let bad = |message: String, expected: &str| {
            Box::new(BadInput::whole(
                format!("{file}:{number}: {message}"),
                expected,
            ))
        };
        let mut limited = std::io::Read::take(&mut trace, LONGEST_LINE as u64);
        let read = limited.read_until(b'\n', &mut line);
        if read.map_err(|error| bad(error.to_string(), "expected a readable trace"))? == 0 {
            break;
        }
        let expected = "expected a trace: trace-cmd's, Perfetto's, ftrace's text or perf script's";
        if line.len() == LONGEST_LINE {
            return Err(bad("a line without end".to_owned(), expected));
        }
        let text = std::str::from_utf8(&line).map_err(|_| bad("not UTF-8".to_owned(), expected))?;
        let read = line::read(text).map_err(|expected| {
            let shown: String = text.trim_end().chars().take(60).collect();
            bad(format!("`{shown}` is not a line of a trace"), expected)
        })?;
        if read == Read::Nothing {
            continue;
        }
        sink(read).map_err(|message| bad(message, ITS_MACHINE))?;
    }
    Ok(())
}
