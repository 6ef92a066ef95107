//! Writes traces of scheduling events, in the usual formats: ftrace's text, trace-cmd's `trace.dat`,
//! Perfetto's protobuf and Chrome's JSON.

mod chrome;
mod dat;
pub mod dat_head;
mod perfetto;
mod text;

use crate::event::Record;
use chrome::Chrome;
use dat::Dat;
use perfetto::Perfetto;
use std::io::{self, Write};
use std::path::Path;
use tempfile::SpooledTempFile;
use text::Text;

/// The kinds of trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The text of the kernel's ftrace, as in `/sys/kernel/tracing/trace`.
    Text,
    /// trace-cmd's `trace.dat`.
    Dat,
    /// Perfetto's protobuf.
    Perfetto,
    /// Chrome's trace event JSON.
    Chrome,
}

/// The extensions of a trace file's name, with the kinds of file for which they stand.
pub const EXTENSIONS: [(&str, Kind); 7] = [
    (".txt", Kind::Text),
    (".ftrace", Kind::Text),
    (".systrace", Kind::Text),
    (".dat", Kind::Dat),
    (".perfetto-trace", Kind::Perfetto),
    (".pftrace", Kind::Perfetto),
    (".json", Kind::Chrome),
];

/// The [`EXTENSIONS`], for messages.
pub const EXPECTED: &str = ".txt, .ftrace or .systrace (ftrace text), .dat (trace-cmd), .perfetto-trace or .pftrace \
                              (Perfetto), or .json (Chrome)";

impl Kind {
    /// The kind of file that the extension of `path` stands for ([`EXTENSIONS`]).
    pub fn of(path: &Path) -> Option<Kind> {
        let own = path.extension()?;
        let found = EXTENSIONS.iter().find(|(dotted, _)| own == &dotted[1..]);
        found.map(|&(_, kind)| kind)
    }

    /// Do traces in this format have the scheduler's decisions? The other formats have only what Linux itself would
    /// write.
    pub fn has_decisions(self) -> bool {
        matches!(self, Kind::Perfetto | Kind::Chrome)
    }

    /// Writes a trace of `cpus` CPUs to `out`. Data that cannot be written until the end, which is most of a
    /// `trace.dat`, is kept in `spool`.
    pub fn format<'a>(
        self,
        out: impl Write + 'a,
        cpus: usize,
        spool: SpooledTempFile,
    ) -> Box<dyn Format + 'a> {
        match self {
            Kind::Text => Box::new(Text::new(out, cpus)),
            Kind::Dat => Box::new(Dat::new(out, cpus, spool)),
            Kind::Perfetto => Box::new(Perfetto::new(out, cpus)),
            Kind::Chrome => Box::new(Chrome::new(out, cpus)),
        }
    }
}

/// A consumer of a trace's records, which come in time order.
pub trait Format {
    /// Writes the next record.
    fn record(&mut self, record: Record<'_>);

    /// Ends the trace at `now` (in ns). Returns the first write error, which may have happened before this call.
    fn finish(&mut self, now: u64) -> io::Result<()>;
}

impl Format for Box<dyn Format + '_> {
    fn record(&mut self, record: Record<'_>) {
        (**self).record(record);
    }

    fn finish(&mut self, now: u64) -> io::Result<()> {
        (**self).finish(now)
    }
}

/// A destination that remembers its first error, for callbacks that cannot return one.
struct Sink<W> {
    out: W,
    result: io::Result<()>,
}

impl<W: Write> Sink<W> {
    fn new(out: W) -> Sink<W> {
        Sink {
            out,
            result: Ok(()),
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        if self.result.is_ok() {
            self.result = self.out.write_fmt(text);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.result.is_ok() {
            self.result = self.out.write_all(bytes);
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.result, Ok(())).and_then(|()| self.out.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_says_the_kind() {
        assert_eq!(Kind::of(Path::new("a.b/c.txt")), Some(Kind::Text));
        assert_eq!(Kind::of(Path::new("t.json")), Some(Kind::Chrome));
        assert_eq!(Kind::of(Path::new("t.dat")), Some(Kind::Dat));
        let perfetto = Path::new("t.perfetto-trace");
        assert_eq!(Kind::of(perfetto), Some(Kind::Perfetto));
        assert_eq!(Kind::of(Path::new("json")), None);
        assert_eq!(Kind::of(Path::new("t.data")), None);
    }
}
