//! Traces of scheduling events, in the usual formats: ftrace's text, trace-cmd's `trace.dat`,
//! Perfetto's protobuf and Chrome's JSON.

mod chrome;
pub mod columns;
mod dat;
pub mod dat_head;
pub(crate) mod linux;
mod pelt;
mod perfetto;
mod protobuf;
mod text;
pub(crate) mod tracepoint;
mod tracked;

use chrome::Chrome;
use dat::Dat;
use linux::Linux;
use machine::Machine;
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

/// The extensions of a trace file's name, for messages.
pub const EXTENSIONS: &str = ".txt, .ftrace or .systrace (ftrace text), .dat (trace-cmd), .perfetto-trace or .pftrace \
                              (Perfetto), or .json (Chrome)";

impl Kind {
    /// Selected by the extension of the file's name ([`EXTENSIONS`]).
    pub fn of(path: &Path) -> Option<Kind> {
        match path.extension()?.to_str()? {
            "txt" | "ftrace" | "systrace" => Some(Kind::Text),
            "dat" => Some(Kind::Dat),
            "perfetto-trace" | "pftrace" => Some(Kind::Perfetto),
            "json" => Some(Kind::Chrome),
            _ => None,
        }
    }

    /// Can the format hold the scheduler's decisions? The other formats hold only what Linux itself
    /// would write.
    pub fn has_decisions(self) -> bool {
        matches!(self, Kind::Perfetto | Kind::Chrome)
    }

    /// A trace of a run on `machine`, written to `out`. Data that has to wait until the end, which
    /// is most of a `trace.dat`, is kept in `spool`.
    pub fn writer<'a>(
        self,
        out: impl Write + 'a,
        machine: &Machine,
        spool: SpooledTempFile,
    ) -> Box<dyn Writer + 'a> {
        let cpus = machine.cpus.len();
        match self {
            Kind::Text => Box::new(Linux::new(machine, Text::new(out, cpus))),
            Kind::Dat => Box::new(Linux::new(machine, Dat::new(out, cpus, spool))),
            Kind::Perfetto => Box::new(Linux::new(machine, Perfetto::new(out, cpus))),
            Kind::Chrome => Box::new(Linux::new(machine, Chrome::new(out, cpus))),
        }
    }
}

/// A trace that goes to a file.
pub trait Writer: simulator::Trace {
    /// Ends the trace. The error is the first write error, now or before.
    fn finish(&mut self) -> io::Result<()>;
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
mod tests_support {
    use super::Kind;
    use machine::Machine;
    use simulator::{Event, Part, Trace};
    use tempfile::SpooledTempFile;

    /// One event of each kind: a task runs, forks a child that moves and runs, and exits. CPU 0 slows down.
    pub(super) fn story(trace: &mut dyn Trace) {
        let (idle, parent, child) = (("swapper", 0), ("shell", 10), ("ls -l", 11));
        let switch = |prev, prev_runnable, next| Event::Switch {
            prev,
            prev_prio: 120,
            prev_runnable,
            next,
            next_prio: 120,
        };
        let wakeup = Event::Wakeup {
            task: child,
            prio: 120,
            target_cpu: 1,
            new: true,
        };
        let migrate = Event::Migrate {
            task: child,
            prio: 120,
            from: 0,
            to: 1,
        };
        let power = |mw, pj| Event::Power {
            part: Part::Core(0),
            mw,
            pj,
        };
        trace.event(0, 0, power(20, 0));
        trace.event(1_500, 0, switch(idle, true, parent));
        trace.event(2_000, 0, Event::Fork { parent, child });
        trace.event(2_100, 0, migrate);
        trace.event(2_200, 0, wakeup);
        trace.event(3_000, 1, switch(idle, true, child));
        trace.event(3_000, 1, power(120, 7));
        trace.event(
            3_500,
            0,
            Event::Exit {
                task: parent,
                prio: 120,
            },
        );
        trace.event(4_000, 0, switch(parent, false, idle));
        trace.event(4_500, 0, Event::CpuFrequency { khz: 432_000 });
        trace.event(5_000, 0, Event::Turbo { khz: 729_000 });
        trace.event(30_005_000, 1, Event::Printk("hello\n"));
    }

    /// [`story`] on a machine with frequencies and idle states, as `kind` writes it.
    pub(super) fn told(kind: Kind) -> Vec<u8> {
        let machine = Machine::find("hikey-6220").unwrap();
        let mut bytes = Vec::new();
        let mut writer = kind.writer(&mut bytes, &machine, SpooledTempFile::new(usize::MAX));
        story(&mut *writer);
        writer.finish().unwrap();
        drop(writer);
        bytes
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

    #[test]
    fn a_full_disk_is_an_error_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let machine = Machine::find("smp-2").unwrap();
        for kind in [Kind::Text, Kind::Dat, Kind::Perfetto, Kind::Chrome] {
            let mut writer = kind.writer(Full, &machine, SpooledTempFile::new(usize::MAX));
            writer.event(0, 0, simulator::Event::Printk("x"));
            assert_eq!(
                writer.finish().unwrap_err().kind(),
                io::ErrorKind::StorageFull
            );
        }
    }
}
