//! A run's events as Linux would trace them, and the files and tables with these events.

pub mod columns;
pub(crate) mod linux;
mod pelt;
mod tracked;

use linux::Linux;
use machine::Machine;
use std::io::{self, Write};
use tempfile::SpooledTempFile;
use trace::write::Kind;

/// Makes the writer of a trace of a run on `machine`, which writes to `out` as `kind`. Data that cannot be written
/// until the end, which is most of a `trace.dat`, is kept in `spool`.
pub fn writer<'a>(
    kind: Kind,
    out: impl Write + 'a,
    machine: &Machine,
    spool: SpooledTempFile,
) -> Box<dyn Writer + 'a> {
    // ftrace's text has the number of online CPUs.
    let cpus = match kind {
        Kind::Text => machine.all_cpus().count(),
        _ => machine.cpus.len(),
    };
    let format = kind.format(out, cpus, spool);
    Box::new(Linux::new(machine, format))
}

/// A trace that goes to a file.
pub trait Writer: simulator::Trace {
    /// Ends the trace. Returns the first write error, which may have happened before this call.
    fn finish(&mut self) -> io::Result<()>;
}

#[cfg(test)]
mod tests_support {
    use super::writer;
    use machine::Machine;
    use simulator::{Event, Part, Trace};
    use tempfile::SpooledTempFile;
    use trace::write::Kind;

    /// A task runs, forks a child that moves and runs, and exits; CPU 0 slows down.
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
        let mut writer = writer(kind, &mut bytes, &machine, SpooledTempFile::new(usize::MAX));
        story(&mut *writer);
        writer.finish().unwrap();
        drop(writer);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::told;
    use super::*;
    use serde_json::{Value, json};

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
            let mut writer = writer(kind, Full, &machine, SpooledTempFile::new(usize::MAX));
            writer.event(0, 0, simulator::Event::Printk("x"));
            assert_eq!(
                writer.finish().unwrap_err().kind(),
                io::ErrorKind::StorageFull
            );
        }
    }

    #[test]
    fn a_story_in_ftrace() {
        insta::assert_snapshot!(String::from_utf8(told(Kind::Text)).unwrap());
    }

    #[test]
    fn a_story_in_json() {
        let events: Vec<Value> = serde_json::from_slice(&told(Kind::Chrome)).unwrap();
        let of = |phase| events.iter().filter(move |event| event["ph"] == phase);
        let slices: Vec<&Value> = of("X").collect();
        // One slice ends with a switch, the other with the trace.
        assert_eq!(slices.len(), 2);
        assert_eq!(
            (&slices[0]["ts"], &slices[0]["dur"]),
            (&json!(1.5), &json!(2.5))
        );
        assert_eq!(of("i").count(), 6);
        let frequencies: Vec<&Value> = of("C")
            .filter(|event| event["name"] == "CPU 0 frequency")
            .map(|event| &event["args"]["kHz"])
            .collect();
        assert_eq!(frequencies, [&json!(1_200_000), &json!(432_000)]);
    }
}
