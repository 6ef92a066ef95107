//! The meaning of an event's bytes: the `format` files of tracefs.

use super::super::IN_INTERRUPT;
use super::text;
use crate::event::{Line, Read, State, Tracepoint};
use crate::table::{Kind, MOST_FIELDS};
use crate::values::Fields;
use std::collections::HashMap;

/// The offset of `common_flags` in every event, after `common_type`.
const FLAGS: usize = 2;

#[derive(Default)]
pub struct Formats {
    kinds: HashMap<u16, Format>,
}

struct Format {
    kind: Kind,
    places: [Option<Place>; MOST_FIELDS],
    letters: Letters,
}

#[derive(Clone, Copy)]
struct Letters {
    dead: u64,
    blocked: u64,
}

#[derive(Clone, Copy)]
struct Place {
    offset: usize,
    size: usize,
    /// Does the field hold the place of a text (`__data_loc`)?
    elsewhere: bool,
}

impl Formats {
    /// Adds `format`, if its event is relevant; the error says what is wrong.
    pub fn add(&mut self, format: &str) -> Result<(), String> {
        let Some(name) = format.lines().find_map(|line| line.strip_prefix("name: ")) else {
            return Err("a format has no name".to_owned());
        };
        let Some(kind) = Kind::read(name) else {
            return Ok(());
        };
        let mut read = Format {
            kind,
            places: [None; MOST_FIELDS],
            letters: letters(format),
        };
        for (place, field) in read.places.iter_mut().zip(kind.row().fields) {
            *place = self::place(format, field.name);
        }
        if let (Kind::Call, [Some(id), Some(args), ..]) = (kind, read.places) {
            for index in 0..3 {
                read.places[1 + index] = Some(Place {
                    offset: args.offset + index * id.size,
                    size: id.size,
                    elsewhere: false,
                });
            }
        }
        if Tracepoint::of(kind, &Present(&read)).is_none() {
            return match kind.may_be_of_others() {
                true => Ok(()),
                false => Err(format!("the format of {name} lacks fields")),
            };
        }
        let id = format.lines().find_map(|line| line.strip_prefix("ID: "));
        let id = id.and_then(|id| id.trim().parse().ok());
        self.kinds.insert(id.ok_or("a format has no ID")?, read);
        Ok(())
    }

    /// The event in `bytes`, on `cpu` at `at` ns; `None` if `bytes` is too short.
    pub fn event<'a>(&self, cpu: usize, at: u64, bytes: &'a [u8]) -> Option<Read<'a>> {
        let id = u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]);
        let Some(format) = self.kinds.get(&id) else {
            return Some(Read::Nothing);
        };
        Some(Read::Event(Line {
            cpu,
            at,
            interrupt: bytes.get(FLAGS)? & IN_INTERRUPT != 0,
            event: Tracepoint::of(format.kind, &Event { format, bytes })?,
        }))
    }
}

/// Stands for an event that has each field of its format.
struct Present<'f>(&'f Format);

impl Fields<'static> for Present<'_> {
    fn text(&self, index: usize) -> Option<&'static str> {
        self.0.places[index].map(|_| "")
    }

    fn int(&self, index: usize) -> Option<i64> {
        self.0.places[index].map(|_| 0)
    }

    fn state(&self, index: usize) -> Option<State> {
        self.0.places[index].map(|_| State::Runnable)
    }
}

struct Event<'a, 'f> {
    format: &'f Format,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> for Event<'a, '_> {
    fn text(&self, index: usize) -> Option<&'a str> {
        self.format.places[index]?.text(self.bytes)
    }

    fn int(&self, index: usize) -> Option<i64> {
        let place = self.format.places[index]?;
        let number = place.int(self.bytes)?;
        let field = self.format.kind.row().fields.get(index);
        Some(match (field, place.size) {
            (Some(field), 1..8) if field.kind.is_signed() => {
                let unused = 64 - 8 * place.size as u32;
                number.cast_signed() << unused >> unused
            }
            _ => number.cast_signed(),
        })
    }

    fn state(&self, index: usize) -> Option<State> {
        let bits = self.format.places[index]?.int(self.bytes)?;
        Some(self.format.letters.state(bits))
    }
}

impl Place {
    fn int(self, bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.get(self.offset..self.offset + self.size)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(wide))
    }

    fn text(self, bytes: &[u8]) -> Option<&str> {
        let bytes = match self {
            Place {
                elsewhere: true, ..
            } => {
                let place = self.int(bytes)? as usize;
                bytes.get(place & 0xffff..)?.get(..place >> 16 & 0xffff)?
            }
            // The text extends to the end of the event.
            Place { size: 0, .. } => bytes.get(self.offset..)?,
            _ => bytes.get(self.offset..self.offset + self.size)?,
        };
        let end = bytes.iter().position(|&byte| byte == 0);
        Some(text(&bytes[..end.unwrap_or(bytes.len())]))
    }
}

/// The place of the field `name` from `field:char prev_comm[16]; offset:8; size:16; signed:0;`.
fn place(format: &str, name: &str) -> Option<Place> {
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
        Some(Place {
            offset: number("offset:")?,
            size: number("size:").filter(|&size| elsewhere || size <= 64)?,
            elsewhere,
        })
    })
}

/// The letters of states, from `{ 0x0010, "X" }` and so on in `print fmt`, which differ between kernels.
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
    /// The state of a preempted task has only a bit without a letter.
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
