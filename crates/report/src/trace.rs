//! Traces of scheduling events, for Perfetto, trace-cmd's friends, and grep.

mod chrome;
mod ftrace;

pub use chrome::Chrome;
pub use ftrace::Ftrace;

use std::io::{self, Write};
use std::path::Path;

/// The kinds of trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The text of the kernel's ftrace, as in `/sys/kernel/tracing/trace`.
    Ftrace,
    /// Chrome's trace event JSON.
    Chrome,
}

impl Kind {
    /// By the end of the file's name: `.txt`, `.ftrace` or `.systrace`, and `.json`.
    pub fn of(path: &Path) -> Option<Kind> {
        match path.extension()?.to_str()? {
            "txt" | "ftrace" | "systrace" => Some(Kind::Ftrace),
            "json" => Some(Kind::Chrome),
            _ => None,
        }
    }

    /// A trace of `cpus` CPUs that is written to `out`.
    pub fn writer<'a>(self, out: impl Write + 'a, cpus: usize) -> Box<dyn Writer + 'a> {
        match self {
            Kind::Ftrace => Box::new(Ftrace::new(out, cpus)),
            Kind::Chrome => Box::new(Chrome::new(out, cpus)),
        }
    }
}

/// A trace that goes to a file.
pub trait Writer: simulator::Trace {
    /// Ends the trace. The error is the first that writing met with, now or before.
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

    fn finish(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.result, Ok(())).and_then(|()| self.out.flush())
    }
}

#[cfg(test)]
mod tests_support {
    use simulator::{Event, Trace};

    /// One event of each kind: a task runs, forks a child that moves and runs, and exits.
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
        trace.event(1_500, 0, switch(idle, true, parent));
        trace.event(2_000, 0, Event::Fork { parent, child });
        trace.event(2_100, 0, migrate);
        trace.event(2_200, 0, wakeup);
        trace.event(3_000, 1, switch(idle, true, child));
        trace.event(
            3_500,
            0,
            Event::Exit {
                task: parent,
                prio: 120,
            },
        );
        trace.event(4_000, 0, switch(parent, false, idle));
        trace.event(1_000_005_000, 1, Event::Printk("hello\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_says_the_kind() {
        assert_eq!(Kind::of(Path::new("a.b/c.txt")), Some(Kind::Ftrace));
        assert_eq!(Kind::of(Path::new("t.json")), Some(Kind::Chrome));
        assert_eq!(Kind::of(Path::new("json")), None);
        assert_eq!(Kind::of(Path::new("t.dat")), None);
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
        for kind in [Kind::Ftrace, Kind::Chrome] {
            let mut writer = kind.writer(Full, 1);
            writer.event(0, 0, simulator::Event::Printk("x"));
            assert_eq!(
                writer.finish().unwrap_err().kind(),
                io::ErrorKind::StorageFull
            );
        }
    }
}
