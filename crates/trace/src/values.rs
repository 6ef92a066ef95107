//! The values of an event's fields, in the order of its row in the table.

use crate::event::{Averages, Class, DEFAULT_PRIO, Moved, Stage, State, Task, Tracepoint};
use crate::table::{COMM_LEN, Field, Kind};
use cage::text::plain;
use std::borrow::Cow;

/// The value of a field that is written.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A number; unsigned numbers of 64 bits are cast.
    Int(i64),
    /// A text.
    Text(&'a str),
    /// A task's state.
    State(State),
}

/// The fields of an event that is read, by their indices in its row.
pub trait Fields<'a> {
    /// The text of a field.
    fn text(&self, index: usize) -> Option<&'a str>;
    /// The number in a field; unsigned numbers of 64 bits are cast.
    fn int(&self, index: usize) -> Option<i64>;
    /// The state in a field.
    fn state(&self, index: usize) -> Option<State>;
}

impl<'a> Tracepoint<'a> {
    /// The kind of the event; `None` for an event that cannot be written.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Some(match self {
            Tracepoint::Switch { .. } => Kind::Switch,
            Tracepoint::Wakeup { stage, .. } => match stage {
                Stage::Waking => Kind::Waking,
                Stage::Woken => Kind::Wakeup,
                Stage::New => Kind::WakeupNew,
            },
            Tracepoint::Migrate { .. } => Kind::Migrate,
            Tracepoint::Fork { .. } => Kind::Fork,
            Tracepoint::Exit(_) => Kind::Exit,
            Tracepoint::Rename { .. } => Kind::Rename,
            Tracepoint::Idle { .. } => Kind::Idle,
            Tracepoint::Frequency { .. } => Kind::Frequency,
            Tracepoint::Capacity { .. } => Kind::Capacity,
            Tracepoint::PeltTask { .. } => Kind::PeltTask,
            Tracepoint::PeltCpu { class, .. } => match class {
                Class::Fair => Kind::PeltFair,
                Class::Rt => Kind::PeltRt,
                Class::Dl => Kind::PeltDl,
            },
            Tracepoint::Printk(_) => Kind::Printk,
            Tracepoint::Mark(_) | Tracepoint::Decision { .. } | Tracepoint::Counter { .. } => {
                Kind::Mark
            }
            Tracepoint::Moved(_)
            | Tracepoint::Pinned { .. }
            | Tracepoint::Scheduled { .. }
            | Tracepoint::Call { .. }
            | Tracepoint::Other => return None,
        })
    }

    /// Passes each field of the event, which happened on `cpu`, and its value to `to`.
    pub(crate) fn values(&self, cpu: usize, to: &mut dyn FnMut(&'static Field, Value<'_>)) {
        let Some(kind) = self.kind() else { return };
        let fields = kind.row().fields.iter();
        let put = &mut Put { fields, to };
        match *self {
            Tracepoint::Switch { prev, state, next } => {
                put.task(&comm_on(cpu, prev), prev).int(prev.prio);
                put.put(Value::State(state));
                put.task(&comm_on(cpu, next), next).int(next.prio)
            }
            Tracepoint::Wakeup {
                task, target_cpu, ..
            } => put
                .task(&comm(task.comm), task)
                .int(task.prio)
                .int(target_cpu.unwrap_or(cpu)),
            Tracepoint::Migrate {
                task,
                orig_cpu,
                dest_cpu,
            } => put
                .task(&comm(task.comm), task)
                .int(task.prio)
                .int(orig_cpu)
                .int(dest_cpu),
            Tracepoint::Fork { parent, child } => put
                .task(&comm(parent.comm), parent)
                .task(&comm(child.comm), child),
            Tracepoint::Exit(task) => put.task(&comm(task.comm), task).int(task.prio),
            Tracepoint::Rename {
                pid,
                oldcomm,
                newcomm,
            } => put
                .int(pid)
                .text(&comm(oldcomm))
                .text(&comm(newcomm))
                .int(0),
            // The end of idling is -1 as an unsigned number.
            Tracepoint::Idle { cpu, state } => put.int(state.unwrap_or(u32::MAX)).int(cpu),
            Tracepoint::Frequency { cpu, khz } => put.int(khz).int(cpu),
            Tracepoint::Capacity { cpu, orig, curr } => put.int(cpu).int(orig).int(orig).int(curr),
            Tracepoint::PeltTask { cpu, task, average } => put
                .int(cpu)
                .text("(null)")
                .task(&comm(task.comm), task)
                .averages(average),
            Tracepoint::PeltCpu {
                cpu,
                class,
                average,
            } => {
                put.int(cpu);
                if class == Class::Fair {
                    put.text("/");
                }
                put.averages(average)
            }
            Tracepoint::Printk(message) => put.text(&plain(&message.trim_end().replace('\n', " "))),
            Tracepoint::Mark(text) => put.int(0).text(text),
            // Decisions and counters are written as Android's atrace writes instants and counters. Process 0 stands for
            // no process.
            Tracepoint::Decision { what, why, .. } => {
                put.int(0).text(&format!("I|0|{what}: {why}"))
            }
            Tracepoint::Counter { part, unit, value } => put
                .int(0)
                .text(&format!("C|0|{part} {}|{value}", unit.name())),
            Tracepoint::Moved(_)
            | Tracepoint::Pinned { .. }
            | Tracepoint::Scheduled { .. }
            | Tracepoint::Call { .. }
            | Tracepoint::Other => put,
        };
    }

    /// The event of `kind` with these fields; `None` if a field is missing or wrong.
    pub(crate) fn of(kind: Kind, fields: &impl Fields<'a>) -> Option<Tracepoint<'a>> {
        let task = |comm: usize, prio: Option<usize>| {
            Some(Task {
                comm: fields.text(comm)?,
                pid: int(fields, comm + 1)?,
                prio: match prio {
                    Some(prio) => int(fields, prio)?,
                    None => DEFAULT_PRIO,
                },
            })
        };
        let woken = |stage| {
            Some(Tracepoint::Wakeup {
                stage,
                task: task(0, Some(2))?,
                target_cpu: Some(int(fields, 3)?),
            })
        };
        let moved = |socket, write| {
            Some(Tracepoint::Moved(Moved {
                object: fields.int(0)?.cast_unsigned(),
                bytes: fields.int(1)?,
                write,
                socket,
            }))
        };
        match kind {
            Kind::Switch => Some(Tracepoint::Switch {
                prev: task(0, Some(2))?,
                state: fields.state(3)?,
                next: task(4, Some(6))?,
            }),
            Kind::Waking => woken(Stage::Waking),
            Kind::Wakeup => woken(Stage::Woken),
            Kind::WakeupNew => woken(Stage::New),
            Kind::Fork => Some(Tracepoint::Fork {
                parent: task(0, None)?,
                child: task(2, None)?,
            }),
            Kind::Frequency => Some(Tracepoint::Frequency {
                khz: int(fields, 0)?,
                cpu: int(fields, 1)?,
            }),
            Kind::Mark => Some(Tracepoint::Mark(fields.text(1)?.trim_end())),
            Kind::PipeRead => moved(false, false),
            Kind::PipeWrite => moved(false, true),
            Kind::SocketRead => moved(true, false),
            Kind::SocketWrite => moved(true, true),
            Kind::Pinned => Some(Tracepoint::Pinned {
                pid: int(fields, 0)?,
                cpus: fields.int(1)?.cast_unsigned(),
            }),
            Kind::Scheduled => Some(Tracepoint::Scheduled {
                pid: int(fields, 0)?,
                policy: int(fields, 1)?,
                runtime: fields.int(2)?.cast_unsigned(),
            }),
            Kind::Call => {
                let arg = |index| Some(fields.int(index)?.cast_unsigned());
                Some(Tracepoint::Call {
                    number: fields.int(0)?,
                    args: [arg(1)?, arg(2)?, arg(3)?],
                })
            }
            _ => Some(Tracepoint::Other),
        }
    }
}

fn int<'a, T: TryFrom<i64>>(fields: &impl Fields<'a>, index: usize) -> Option<T> {
    fields.int(index)?.try_into().ok()
}

struct Put<'p> {
    fields: std::slice::Iter<'static, Field>,
    to: &'p mut dyn FnMut(&'static Field, Value<'_>),
}

impl Put<'_> {
    fn put(&mut self, value: Value<'_>) -> &mut Self {
        let Some(field) = self.fields.next() else {
            unreachable!("an event has a value for each of its fields and no more");
        };
        (self.to)(field, value);
        self
    }

    fn int(&mut self, value: impl TryInto<i64>) -> &mut Self {
        self.put(Value::Int(value.try_into().unwrap_or(i64::MAX)))
    }

    fn text(&mut self, value: &str) -> &mut Self {
        self.put(Value::Text(value))
    }

    fn task(&mut self, comm: &str, task: Task<'_>) -> &mut Self {
        self.text(comm).int(task.pid)
    }

    fn averages(&mut self, average: Averages) -> &mut Self {
        for level in [average.load, average.runnable, average.util] {
            self.int(level.round() as i64);
        }
        self.int(average.updated)
    }
}

/// A task's name as the kernel stores it, without characters that end the event or act on a terminal.
pub fn comm(name: &str) -> Cow<'_, str> {
    let cut = |name: &str| {
        let mut end = name.len().min(COMM_LEN);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        end
    };
    match plain(name) {
        Cow::Borrowed(name) => Cow::Borrowed(&name[..cut(name)]),
        Cow::Owned(mut name) => {
            name.truncate(cut(&name));
            Cow::Owned(name)
        }
    }
}

/// [`comm`] of a task in `sched_switch`, where each CPU's idle task is named `swapper/CPU`.
fn comm_on(cpu: usize, task: Task<'_>) -> Cow<'_, str> {
    match task.pid {
        0 => Cow::Owned(format!("swapper/{cpu}")),
        _ => comm(task.comm),
    }
}
