//! ftrace's text format: one event per line, as the kernel prints its tracepoints.

use super::{Format, Sink};
use crate::event::Record;
use crate::table::{Field, Kind, Type};
use crate::values::{Value, comm};
use std::fmt;
use std::io::{self, Write};

/// The head of the file; `CPUS` is a number.
const HEADER: &str = "\
# tracer: nop
#
#                                          P:CPUS
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP          FUNCTION
#              | |         |   |||||     |                  |
";

/// Writes the format of `/sys/kernel/tracing/trace`, which Perfetto reads as systrace, with the times in ns.
pub(crate) struct Text<W> {
    sink: Sink<W>,
}

impl<W: Write> Text<W> {
    pub fn new(out: W, cpus: usize) -> Text<W> {
        let mut sink = Sink::new(out);
        let header = HEADER.replace("P:CPUS", &format!("#P:{cpus}"));
        sink.write(format_args!("{header}"));
        Text { sink }
    }
}

impl<W: Write> Format for Text<W> {
    fn record(&mut self, record: Record<'_>) {
        let Record {
            now,
            cpu,
            current,
            event,
        } = record;
        let name = match event.kind() {
            Some(Kind::Mark) => "tracing_mark_write",
            Some(kind) => kind.row().name,
            None => return,
        };
        let (seconds, ns) = (now / 1_000_000_000, now % 1_000_000_000);
        self.sink.write(format_args!(
            "{:>16}-{:<7} [{cpu:03}] ..... {seconds:5}.{ns:09}: {name}: {}\n",
            comm(current.comm),
            current.pid,
            Values(&record),
        ));
    }

    fn finish(&mut self, _: u64) -> io::Result<()> {
        self.sink.finish()
    }
}

pub(super) struct Values<'a>(pub &'a Record<'a>);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        let mut before = false;
        self.0.event.values(self.0.cpu, &mut |field, value| {
            // A text of trace_marker is printed without the address of code.
            if field.kind != Type::Code && result.is_ok() {
                result = write_value(f, std::mem::replace(&mut before, true), field, value);
            }
        });
        result
    }
}

fn write_value(
    f: &mut fmt::Formatter<'_>,
    before: bool,
    field: &Field,
    value: Value<'_>,
) -> fmt::Result {
    if before {
        f.write_str(field.before)?;
    }
    if !field.key.is_empty() {
        write!(f, "{}=", field.key)?;
    }
    match value {
        Value::Int(cpu) if field.kind == Type::Cpu => write!(f, "{cpu:03}"),
        Value::Int(number) => write!(f, "{number}"),
        Value::Text(text) => f.write_str(text),
        Value::State(state) => write!(f, "{}", state.letter()),
    }
}
