//! Traces that are lines of text, as a whole file or within a web page or a JSON file.

use super::{IN_ORDER, ITS_MACHINE, Sink, goes_back, line};
use crate::event::{Read, Tracepoint};
use machine::input::BadInput;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use tempfile::SpooledTempFile;

pub const LONGEST_LINE: usize = 1 << 16;

const EXPECTED: &str = "expected a trace: trace-cmd's, Perfetto's, ftrace's text or perf script's";

/// The size in bytes up to which the lines that matter are kept in memory, and not in a temporary file.
const IN_MEMORY: usize = 1 << 24;

/// The lines of a trace that matter. They wait for the end of the trace, because the CPUs' events may come one CPU after
/// the other (`cat per_cpu/cpu*/trace`). They are then passed on in the order of time, as trace-cmd and perf merge them.
pub struct Lines<'f> {
    file: &'f str,
    spool: BufWriter<SpooledTempFile>,
    size: u64,
    places: Vec<Place>,
    /// The number of events that were overwritten, according to the headings. They precede all others.
    overwritten: u64,
    /// The time in ns and the line number of each CPU's last event.
    cpus: Vec<(u64, u64)>,
}

struct Place {
    /// The line's time in ns, or that of the last event before it.
    at: u64,
    number: u64,
    start: u64,
}

impl Lines<'_> {
    pub fn new(file: &str) -> Lines<'_> {
        Lines {
            file,
            spool: BufWriter::new(SpooledTempFile::new(IN_MEMORY)),
            size: 0,
            places: Vec::new(),
            overwritten: 0,
            cpus: Vec::new(),
        }
    }

    /// Adds the lines of `trace`; `first` is the number of the first line.
    pub fn add(&mut self, first: u64, mut trace: impl BufRead) -> Result<(), Box<BadInput>> {
        let mut line = Vec::new();
        let mut last = Last::Nothing;
        let mut now = 0;
        for number in first.. {
            line.clear();
            let mut limited = io::Read::take(&mut trace, LONGEST_LINE as u64);
            let read = limited.read_until(b'\n', &mut line);
            let unreadable =
                |error: io::Error| bad(self.file, number, error, "expected a readable trace");
            if read.map_err(unreadable)? == 0 {
                break;
            }
            if line.len() == LONGEST_LINE {
                return Err(bad(self.file, number, "a line is too long", EXPECTED));
            }
            // The bytes of a thread's name need not be UTF-8.
            let text = String::from_utf8_lossy(&line);
            let overwritten = line::overwritten(&text).unwrap_or(0);
            self.overwritten = self.overwritten.saturating_add(overwritten);
            // A recorder that is killed leaves a part of its last line.
            let is_cut = !line.ends_with(b"\n") && !matches!(last, Last::Nothing);
            let read = match line::read(&text) {
                Err(_) if is_cut => break,
                Err(line::Wrong::Shape) if last.goes_on_in(&text) => continue,
                Err(line::Wrong::Shape) => {
                    return Err(unread(self.file, number, &text, line::missing(&text)));
                }
                read => read.map_err(|wrong| unread(self.file, number, &text, wrong))?,
            };
            match read {
                Read::Nothing => continue,
                Read::Event(event) => {
                    last = match event.event {
                        Tracepoint::Other | Tracepoint::Mark(_) => Last::Text,
                        _ => Last::Fields,
                    };
                    if event.event == Tracepoint::Other {
                        continue;
                    }
                    now = event.at;
                    self.order(event.cpu, now, number)?;
                }
                Read::Lost(_) | Read::Cpus(_) | Read::Online(_) => {}
            }
            self.keep(now, number, text.trim_end())?;
        }
        Ok(())
    }

    /// Returns an error if the event of `cpu` at `at` ns, in line `number`, precedes the CPU's last event.
    fn order(&mut self, cpu: usize, at: u64, number: u64) -> Result<(), Box<BadInput>> {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, (0, 0));
        }
        let (before, line) = std::mem::replace(&mut self.cpus[cpu], (at, number));
        if at < before {
            let message = format!("{} in line {line}", goes_back(cpu, at, before));
            return Err(bad(self.file, number, message, IN_ORDER));
        }
        Ok(())
    }

    fn keep(&mut self, at: u64, number: u64, line: &str) -> Result<(), Box<BadInput>> {
        let written = writeln!(self.spool, "{line}");
        written.map_err(|error| no_copy(self.file, number, error))?;
        self.places.push(Place {
            at,
            number,
            start: self.size,
        });
        self.size += line.len() as u64 + 1;
        Ok(())
    }

    pub fn pass(self, sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
        let Lines {
            file,
            spool,
            mut places,
            overwritten,
            ..
        } = self;
        if overwritten > 0 {
            sink(Read::Lost(overwritten)).map_err(|message| bad(file, 1, message, ITS_MACHINE))?;
        }
        places.sort_by_key(|place| place.at);
        let spool = spool.into_inner().map_err(io::IntoInnerError::into_error);
        let spool = spool.and_then(|mut spool| spool.rewind().map(|()| spool));
        let mut spool = BufReader::new(spool.map_err(|error| no_copy(file, 1, error))?);
        let (mut line, mut end) = (String::new(), 0);
        for place in places {
            line.clear();
            let (number, start) = (place.number, place.start.cast_signed());
            let moved = spool.seek_relative(start - end);
            let read = moved.and_then(|()| spool.read_line(&mut line));
            end = start + read.map_err(|error| no_copy(file, number, error))? as i64;
            if let Ok(read) = line::read(&line) {
                sink(read).map_err(|message| bad(file, number, message, ITS_MACHINE))?;
            }
        }
        Ok(())
    }
}

fn bad(file: &str, number: u64, message: impl Display, expected: &str) -> Box<BadInput> {
    Box::new(BadInput::whole(
        format!("{file}:{number}: {message}"),
        expected,
    ))
}

fn unread(file: &str, number: u64, line: &str, wrong: line::Wrong) -> Box<BadInput> {
    let shown: String = line.trim_end().chars().take(60).collect();
    let message = format!("`{shown}` {}", wrong.message());
    bad(file, number, message, wrong.expected())
}

fn no_copy(file: &str, number: u64, error: io::Error) -> Box<BadInput> {
    let message = format!("the line cannot be copied to a temporary file: {error}");
    bad(
        file,
        number,
        message,
        "expected room for temporary files, whose folder TMPDIR sets",
    )
}

enum Last {
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
