//! The meaning of an event's bytes: the `format` files of tracefs.

use super::super::event::{DEFAULT_PRIO, Event, IN_INTERRUPT, Line, Moved, Read, State, Task};
use super::text;
use std::collections::HashMap;

/// The offset of `common_flags` in every event, after `common_type`.
const FLAGS: usize = 2;

/// The relevant events, by `common_type`.
#[derive(Default)]
pub struct Formats {
    kinds: HashMap<u16, Kind>,
}

enum Kind {
    Switch {
        prev: [Field; 3],
        state: Field,
        next: [Field; 3],
        letters: Letters,
    },
    Waking([Field; 3]),
    Wakeup([Field; 3]),
    New([Field; 3]),
    Fork {
        parent: Field,
        comm: Field,
        pid: Field,
    },
    Frequency {
        state: Field,
        cpu: Field,
    },
    Pinned([Field; 2]),
    /// The fields that hold its object and its bytes, and its kind.
    Moved([Field; 2], Moved),
    Mark(Field),
    /// The number of the event, and the field of its first arguments.
    Call(Field, Field),
}

/// The meaning of the bits of `prev_state`.
#[derive(Clone, Copy)]
struct Letters {
    dead: u64,
    blocked: u64,
}

/// The place of a field in an event.
#[derive(Clone, Copy)]
struct Field {
    offset: usize,
    size: usize,
    /// Whether it holds the place of the text (`__data_loc`).
    elsewhere: bool,
}

impl Formats {
    /// Adds `format`, if its event is relevant; the error says what is wrong.
    pub fn add(&mut self, format: &str) -> Result<(), String> {
        let Some(name) = format.lines().find_map(|line| line.strip_prefix("name: ")) else {
            return Err("a format without a name".to_owned());
        };
        let id = format.lines().find_map(|line| line.strip_prefix("ID: "));
        let id = id.and_then(|id| id.trim().parse().ok());
        let field = |name: &str| field(format, name);
        let kind = || {
            let task = |comm, pid, prio| Some([field(comm)?, field(pid)?, field(prio)?]);
            Some(match name {
                "sched_switch" => Some(Kind::Switch {
                    prev: task("prev_comm", "prev_pid", "prev_prio")?,
                    state: field("prev_state")?,
                    next: task("next_comm", "next_pid", "next_prio")?,
                    letters: letters(format),
                }),
                "sched_waking" => Some(Kind::Waking(task("comm", "pid", "prio")?)),
                "sched_wakeup" => Some(Kind::Wakeup(task("comm", "pid", "prio")?)),
                "sched_wakeup_new" => Some(Kind::New(task("comm", "pid", "prio")?)),
                "sched_process_fork" => Some(Kind::Fork {
                    parent: field("parent_pid")?,
                    comm: field("child_comm")?,
                    pid: field("child_pid")?,
                }),
                "cpu_frequency" => Some(Kind::Frequency {
                    state: field("state")?,
                    cpu: field("cpu_id")?,
                }),
                "print" => Some(Kind::Mark(field("buf")?)),
                "sys_enter" => field("id")
                    .zip(field("args"))
                    .map(|(id, args)| Kind::Call(id, args)),
                "sched_setaffinity" => {
                    let [task, cpus] = ["task", "cpus"].map(field);
                    task.zip(cpus)
                        .map(|(task, cpus)| Kind::Pinned([task, cpus]))
                }
                // Another program's probe may have the same name.
                _ => Moved::of(name, 0, 0).and_then(|moved| {
                    let [object, bytes] = Moved::FIELDS.map(field);
                    Some(Kind::Moved([object?, bytes?], moved))
                }),
            })
        };
        let kind = kind().ok_or_else(|| format!("a format of {name} that lacks fields"))?;
        if let Some(kind) = kind {
            self.kinds.insert(id.ok_or("a format without an ID")?, kind);
        }
        Ok(())
    }

    /// The event in `bytes`, on `cpu` at `at` ns; `None` if it is too short.
    pub fn event<'a>(&self, cpu: usize, at: u64, bytes: &'a [u8]) -> Option<Read<'a>> {
        let id = u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]);
        let Some(kind) = self.kinds.get(&id) else {
            return Some(Read::Nothing);
        };
        let task = |[comm, pid, prio]: &[Field; 3]| {
            Some(Task {
                comm: comm.text(bytes)?,
                pid: pid.int(bytes)? as i32,
                prio: prio.int(bytes)? as i32,
            })
        };
        let event = match kind {
            Kind::Switch {
                prev,
                state,
                next,
                letters,
            } => Event::Switch {
                prev: task(prev)?,
                state: letters.state(state.int(bytes)?),
                next: task(next)?,
            },
            Kind::Waking(fields) => Event::Waking(task(fields)?),
            Kind::Wakeup(fields) => Event::Wakeup(task(fields)?),
            Kind::New(fields) => Event::New(task(fields)?),
            Kind::Fork { parent, comm, pid } => Event::Fork {
                parent: parent.int(bytes)? as i32,
                child: Task {
                    comm: comm.text(bytes)?,
                    pid: pid.int(bytes)? as i32,
                    prio: DEFAULT_PRIO,
                },
            },
            Kind::Frequency { state, cpu } => Event::Frequency {
                cpu: cpu.int(bytes)? as usize,
                khz: state.int(bytes)? as u32,
            },
            Kind::Pinned([task, cpus]) => Event::Pinned {
                pid: task.int(bytes)? as i32,
                cpus: cpus.int(bytes)?,
            },
            Kind::Moved([object, count], moved) => Event::Moved(Moved {
                object: object.int(bytes)?,
                bytes: count.int(bytes)? as i64,
                ..*moved
            }),
            Kind::Call(id, args) => {
                let long = id.size;
                let arg = |index: usize| Field {
                    offset: args.offset + index * long,
                    size: long,
                    elsewhere: false,
                };
                Event::Call {
                    number: id.int(bytes)? as i64,
                    args: [arg(0).int(bytes)?, arg(1).int(bytes)?, arg(2).int(bytes)?],
                }
            }
            Kind::Mark(buf) => Event::Mark(buf.text(bytes)?.trim_end()),
        };
        Some(Read::Event(Line {
            cpu,
            at,
            interrupt: bytes.get(FLAGS)? & IN_INTERRUPT != 0,
            event,
        }))
    }
}

impl Field {
    fn int(self, bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.get(self.offset..self.offset + self.size)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(wide))
    }

    fn text(self, bytes: &[u8]) -> Option<&str> {
        let bytes = match self {
            Field {
                elsewhere: true, ..
            } => {
                let place = self.int(bytes)? as usize;
                bytes.get(place & 0xffff..)?.get(..place >> 16 & 0xffff)?
            }
            // The text extends to the end of the event.
            Field { size: 0, .. } => bytes.get(self.offset..)?,
            _ => bytes.get(self.offset..self.offset + self.size)?,
        };
        let end = bytes.iter().position(|&byte| byte == 0);
        Some(text(&bytes[..end.unwrap_or(bytes.len())]))
    }
}

/// The field `name` from `field:char prev_comm[16]; offset:8; size:16; signed:0;`.
fn field(format: &str, name: &str) -> Option<Field> {
    format.lines().find_map(|line| {
        let (declaration, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let called = declaration.split('[').next()?;
        // `__data_loc char[] name` has its brackets before the name.
        let elsewhere = declaration.starts_with("__data_loc");
        let called = if elsewhere { declaration } else { called };
        if called.split_whitespace().next_back()? != name {
            return None;
        }
        let number = |key: &str| {
            let (_, rest) = rest.split_once(key)?;
            rest.split(';').next()?.trim().parse::<usize>().ok()
        };
        Some(Field {
            offset: number("offset:")?,
            size: number("size:").filter(|&size| elsewhere || size <= 64)?,
            elsewhere,
        })
    })
}

/// The letters from `{ 0x0010, "X" }` and so on in `print fmt`: they differ between kernels.
fn letters(format: &str) -> Letters {
    let (_, print) = format.split_once("print fmt:").unwrap_or_default();
    let mut letters = Letters {
        dead: 0,
        blocked: 0,
    };
    for pair in print.split('{').skip(1) {
        let Some((bit, rest)) = pair.split_once(',') else {
            continue;
        };
        let bit = bit.trim();
        let number = match bit.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => bit.parse(),
        };
        match (number, rest.trim_start().as_bytes().get(1)) {
            (Ok(bit), Some(b'X' | b'x' | b'Z')) => letters.dead |= bit,
            (Ok(bit), Some(letter)) if *letter != b'R' => letters.blocked |= bit,
            _ => {}
        }
    }
    letters
}

impl Letters {
    /// For a preempted task, only a bit without a letter is set.
    fn state(self, state: u64) -> State {
        if state & self.dead != 0 {
            State::Dead
        } else if state & self.blocked != 0 {
            State::Blocked
        } else {
            State::Runnable
        }
    }
}
