//! Traces that are lines of text, as a whole file or within a web page or a JSON file.

use super::{ITS_MACHINE, Sink, line};
use crate::event::{Read, Tracepoint};
use machine::input::BadInput;
use std::io::BufRead;

/// The longest plausible line.
pub const LONGEST_LINE: usize = 1 << 16;

const EXPECTED: &str = "expected a trace: trace-cmd's, Perfetto's, ftrace's text or perf script's";

/// Passes the events in the lines of `trace` to `sink`; `first` is the number of the first line.
pub fn each(
    file: &str,
    first: u64,
    mut trace: impl BufRead,
    sink: &mut Sink<'_>,
) -> Result<(), Box<BadInput>> {
    let mut line = Vec::new();
    let mut last = Last::Nothing;
    for number in first.. {
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
        if line.len() == LONGEST_LINE {
            return Err(bad("a line is too long".to_owned(), EXPECTED));
        }
        // The bytes of a thread's name need not be UTF-8.
        let text = String::from_utf8_lossy(&line);
        let read = match line::read(&text) {
            Err(line::Wrong::Shape) if last.goes_on_in(&text) => continue,
            read => read.map_err(|wrong| {
                let shown: String = text.trim_end().chars().take(60).collect();
                bad(
                    format!("`{shown}` is not a line of a trace"),
                    wrong.expected(),
                )
            })?,
        };
        match read {
            Read::Nothing => continue,
            Read::Event(line) if matches!(line.event, Tracepoint::Other | Tracepoint::Mark(_)) => {
                last = Last::Text;
            }
            Read::Event(_) => last = Last::Fields,
            Read::Lost(_) | Read::Cpus(_) => {}
        }
        sink(read).map_err(|message| bad(message, ITS_MACHINE))?;
    }
    Ok(())
}

/// The last event.
enum Last {
    /// There is no event so far.
    Nothing,
    /// The event has fields.
    Fields,
    /// The event has a text, such as a print or a stack trace, which may continue on further lines.
    Text,
}

impl Last {
    fn goes_on_in(&self, line: &str) -> bool {
        match self {
            Last::Nothing => false,
            Last::Fields => line::is_in_call_chain(line),
            Last::Text => true,
        }
    }
}
