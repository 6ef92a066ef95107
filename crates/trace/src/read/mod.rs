//! Reads traces: ftrace's text, alone or in systrace's page or Chrome's JSON, `trace-cmd report`, `perf script`
//! (of `perf sched record`), trace-cmd's `trace.dat`, and Perfetto's.

mod dat;
mod embedded;
mod line;
mod perfetto;
pub(crate) mod text;

use crate::event::Read;
use machine::input::BadInput;
use std::io::BufRead;

/// The expectation in errors about a trace that does not fit the machine.
const ITS_MACHINE: &str = "expected a trace that was recorded on this machine";

/// The expectation in errors about a CPU whose time goes back. The kernel writes the events of a CPU in the order of
/// time, and every tool keeps that order, so the rest belongs to another recording, or a time is wrong.
const IN_ORDER: &str = "expected one recording with the events of each CPU in the order of time, as trace-cmd, perf and tracefs print them";

/// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ` and `TRACE_FLAG_NMI` of `common_flags`.
const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;

/// The first bytes of files that have to be converted, with a description of such a file and of its conversion.
const CONVERTED: [(&[u8], &str, &str); 11] = [
    (
        b"\x1f\x8b",
        "is compressed by gzip",
        "decompress it with `gzip -d`",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "is compressed by zstd",
        "decompress it with `zstd -d`",
    ),
    (
        b"\xfd7zXZ\0",
        "is compressed by xz",
        "decompress it with `xz -d`",
    ),
    (
        b"BZh",
        "is compressed by bzip2",
        "decompress it with `bzip2 -d`",
    ),
    (
        b"\x04\x22\x4d\x18",
        "is compressed by lz4",
        "decompress it with `lz4 -d`",
    ),
    (b"PK\x03\x04", "is a zip archive", "extract it with `unzip`"),
    (
        b"TRACE:\n\x78",
        "is compressed by atrace",
        "record without the option -z of atrace",
    ),
    (
        b"capturing trace... done\nTRACE:\n\x78",
        "is compressed by atrace",
        "record without the option -z of atrace",
    ),
    (
        b"PERFILE2",
        "is a perf.data file",
        "print its events with `perf script --fields comm,tid,cpu,time,event,trace`",
    ),
    (
        b"\xff\xfe",
        "is UTF-16",
        "convert it with `iconv -f UTF-16 -t UTF-8`",
    ),
    (
        b"\xfe\xff",
        "is UTF-16",
        "convert it with `iconv -f UTF-16 -t UTF-8`",
    ),
];

/// The mark that some editors put before UTF-8, where it has no meaning.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

type Whole = fn(&str, &[u8], &mut Sink<'_>) -> Result<(), Box<BadInput>>;

/// Receives the events of a trace in the order of time. Its error says which event does not fit.
pub type Sink<'s> = dyn FnMut(Read<'_>) -> Result<(), String> + 's;

/// Passes the events of `trace` to `sink`. The first bytes of the trace determine its format.
pub fn each(file: &str, mut trace: impl BufRead, sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
    let unreadable = |error: std::io::Error| {
        Box::new(BadInput::whole(
            format!("{file}: {error}"),
            "expected a readable trace",
        ))
    };
    let head = trace.fill_buf().map_err(unreadable)?;
    if head.starts_with(BYTE_ORDER_MARK) {
        trace.consume(BYTE_ORDER_MARK.len());
    }
    let head = trace.fill_buf().map_err(unreadable)?;
    if let Some((_, is, convert)) = CONVERTED.iter().find(|it| head.starts_with(it.0)) {
        return Err(Box::new(BadInput::whole(
            format!("{file}: the file {is}"),
            format!("expected a trace; {convert}"),
        )));
    }
    let whole: Whole = match head {
        head if dat::is(head) => dat::each,
        head if perfetto::is(head) => perfetto::each,
        head if embedded::is_page(head) => embedded::each_of_page,
        head if embedded::is_json(head) => embedded::each_of_json,
        _ => {
            let mut lines = text::Lines::new(file);
            lines.add(1, trace)?;
            return lines.pass(sink);
        }
    };
    // Read the whole file: the events of trace.dat and of Perfetto are not in the order of time across CPUs.
    let mut bytes = Vec::new();
    trace.read_to_end(&mut bytes).map_err(unreadable)?;
    whole(file, &bytes, sink)
}

/// The part of an error message about an event of `cpu` at `at` ns that follows an event at `before` ns.
fn goes_back(cpu: usize, at: u64, before: u64) -> String {
    let seconds = |ns: u64| format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000);
    format!(
        "an event of CPU {cpu} at {} follows one at {}",
        seconds(at),
        seconds(before)
    )
}

/// The longest prefix of `bytes` that is text. The name of a thread need not be text: the kernel cuts names after 15
/// bytes, maybe within a letter.
pub fn longest_text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
