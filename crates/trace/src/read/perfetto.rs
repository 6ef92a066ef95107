//! Perfetto's traces (`perfetto_trace.proto`): reads the bundle of ftrace events of each packet,
//! including the compact form in which Perfetto itself records switches and wakeups.

use super::{IN_INTERRUPT, ITS_MACHINE, Sink};
use crate::event::{DEFAULT_PRIO, Line, Read, Stage, State, Task, Tracepoint};
use crate::protobuf::{Decoder, Error, Skipped, Value, each as each_field, message, take_message};
use crate::table::{Kind, MOST_FIELDS};
use crate::values::Fields;
use machine::input::BadInput;
use micropb::WIRE_TYPE_LEN;
use std::collections::HashMap;

/// A trace is one message that consists of packets.
const PACKET: u32 = 1;
/// The bits of `prev_state` of a task that ended (X, Z), and of a task that sleeps, in kernels since 4.14.
const DEAD: i64 = 0x30;
const BLOCKED: i64 = 0xcf;
const EXPECTED: &str = "expected a complete Perfetto trace with ftrace events";

/// Is this a Perfetto trace, judging by its first bytes `head`? It begins with a packet, which is not text.
pub fn is(head: &[u8]) -> bool {
    let head = &head[..head.len().min(64)];
    let control = |&byte: &u8| byte < 0x20 && !byte.is_ascii_whitespace();
    head.first() == Some(&0x0a) && head.iter().any(control)
}

/// Gives `sink` the events of `bytes`, in the order of time.
pub fn each(file: &str, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Box<BadInput>> {
    let bad = |at: usize, message: String, expected: &str| {
        let message = format!("{file}: at byte {at}: {message}");
        Box::new(BadInput::whole(message, expected))
    };
    let mut items = Vec::new();
    let mut left = bytes;
    while !left.is_empty() {
        let at = bytes.len() - left.len();
        let packet: Packet =
            take_message(&mut left, PACKET).map_err(|error| bad(at, error, EXPECTED))?;
        if packet.compressed.is_some() {
            let expected =
                "expected no compression; remove compression_type from the configuration";
            return Err(bad(at, "compressed packets".to_owned(), expected));
        }
        if let Some(it) = packet.ftrace_events {
            bundle(&it, &mut items);
        }
    }
    items.sort_by_key(|&(at, cpu, ..)| (at, cpu));
    let mut runs: HashMap<usize, Task<'_>> = HashMap::new();
    for (at, cpu, interrupt, content) in items {
        let event = match content {
            Content::Event(event) => Some(event),
            Content::Switch { state, next } => {
                let prev = runs.get(&cpu).copied().unwrap_or(UNKNOWN);
                Some(Tracepoint::Switch { prev, state, next })
            }
            Content::Lost => None,
        };
        let read = event.map_or(Read::Lost(1), |event| {
            Read::Event(Line {
                cpu,
                at,
                interrupt,
                event,
            })
        });
        sink(read).map_err(|message| {
            Box::new(BadInput::whole(format!("{file}: {message}"), ITS_MACHINE))
        })?;
        if let Some(Tracepoint::Switch { next, .. }) = event {
            runs.insert(cpu, next);
        }
    }
    Ok(())
}

/// The task that ran before the trace began.
const UNKNOWN: Task<'_> = Task {
    comm: "",
    pid: 0,
    prio: DEFAULT_PRIO,
};

fn in_interrupt(common_flags: u32) -> bool {
    common_flags & u32::from(IN_INTERRUPT) != 0
}

/// A part of a trace, with its time in ns, its CPU, and whether it is in an interrupt.
type Item<'b> = (u64, usize, bool, Content<'b>);

#[derive(Clone, Copy)]
enum Content<'b> {
    Event(Tracepoint<'b>),
    /// A switch in the compact form, which lacks the task that ran before.
    Switch {
        state: State,
        next: Task<'b>,
    },
    Lost,
}

fn bundle<'b>(bundle: &Bundle<'b>, items: &mut Vec<Item<'b>>) {
    let cpu = bundle.cpu as usize;
    let first = items.len();
    for event in &bundle.event {
        if let Some((kind, values)) = &event.event
            && let Some(read) = Tracepoint::of(*kind, values)
        {
            let interrupt = in_interrupt(event.common_flags);
            items.push((event.timestamp, cpu, interrupt, Content::Event(read)));
        }
    }
    if let Some(compact) = &bundle.compact_sched {
        self::compact(cpu, compact, items);
    }
    if bundle.lost_events {
        let at = items[first..].iter().map(|(at, ..)| *at).min();
        items.push((at.unwrap_or(0), cpu, false, Content::Lost));
    }
}

/// Decodes events in the compact form. Each time is relative to the previous time, and names are indices into a table.
fn compact<'b>(cpu: usize, compact: &Compact<'b>, items: &mut Vec<Item<'b>>) {
    let task = |comm: u32, pid: i32, prio: i32| {
        let comm = compact.names.get(comm as usize)?;
        Some(Task { comm, pid, prio })
    };
    let mut at = 0_u64;
    let switches = compact
        .switch_timestamp
        .iter()
        .zip(&compact.switch_prev_state);
    let next = compact
        .switch_next_pid
        .iter()
        .zip(&compact.switch_next_prio);
    let next = next.zip(&compact.switch_next_comm);
    for ((delta, &state), ((&pid, &prio), &comm)) in switches.zip(next) {
        at = at.saturating_add(*delta);
        let Some(next) = task(comm, pid, prio) else {
            continue;
        };
        let state = state_of(state);
        items.push((at, cpu, false, Content::Switch { state, next }));
    }
    let mut at = 0_u64;
    let wakings = compact.waking_timestamp.iter().zip(&compact.waking_pid);
    let tasks = compact.waking_prio.iter().zip(&compact.waking_comm);
    for (index, ((delta, &pid), (&prio, &comm))) in wakings.zip(tasks).enumerate() {
        at = at.saturating_add(*delta);
        let Some(task) = task(comm, pid, prio) else {
            continue;
        };
        let flags = compact.waking_flags.get(index).copied().unwrap_or(0);
        let event = Tracepoint::Wakeup {
            stage: Stage::Waking,
            task,
            target_cpu: None,
        };
        items.push((at, cpu, in_interrupt(flags), Content::Event(event)));
    }
}

fn state_of(bits: i64) -> State {
    match bits {
        bits if bits & DEAD != 0 => State::Dead,
        bits if bits & BLOCKED != 0 => State::Blocked,
        _ => State::Runnable,
    }
}

// The messages of perfetto_trace.proto that are read, with the used fields.
message! {
    struct Packet "TracePacket" {
        ftrace_events: Option<Bundle<'b>> = 1,
        compressed: Option<Skipped> = 50,
    }
    struct Bundle "FtraceEventBundle" {
        cpu: u32 = 1,
        event: Vec<FtraceEvent<'b>> = 2,
        lost_events: bool = 3,
        compact_sched: Option<Compact<'b>> = 4,
    }
    struct Compact "FtraceEventBundle.CompactSched, whose names are its intern_table" {
        switch_timestamp: Vec<u64> = 1,
        switch_prev_state: Vec<i64> = 2,
        switch_next_pid: Vec<i32> = 3,
        switch_next_prio: Vec<i32> = 4,
        switch_next_comm: Vec<u32> = 6,
        names: Vec<&'b str> = 5,
        waking_timestamp: Vec<u64> = 7,
        waking_pid: Vec<i32> = 8,
        waking_prio: Vec<i32> = 10,
        waking_comm: Vec<u32> = 11,
        waking_flags: Vec<u32> = 12,
    }
}

#[derive(Default)]
struct FtraceEvent<'b> {
    timestamp: u64,
    common_flags: u32,
    event: Option<(Kind, Values<'b>)>,
}

impl<'b> Value<'b> for FtraceEvent<'b> {
    const WIRE_TYPE: u8 = WIRE_TYPE_LEN;

    fn read(&mut self, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        each_field(decoder, |decoder| {
            let tag = decoder.decode_tag()?;
            match (tag.field_num(), Kind::of_perfetto(tag.field_num())) {
                (1, _) => self.timestamp.read_as(tag.wire_type(), decoder),
                (5, _) => self.common_flags.read_as(tag.wire_type(), decoder),
                (_, Some(kind)) if tag.wire_type() == WIRE_TYPE_LEN => {
                    let mut values = Values::default();
                    values.read(kind, decoder)?;
                    self.event = Some((kind, values));
                    Ok(())
                }
                _ => decoder.skip_wire_value(tag.wire_type()),
            }
        })
    }
}

/// The values of an event's fields: numbers, and texts. A field that the message lacks is 0 or empty.
#[derive(Default)]
struct Values<'b> {
    ints: [i64; MOST_FIELDS],
    texts: [&'b str; MOST_FIELDS],
}

impl<'b> Values<'b> {
    fn read(&mut self, kind: Kind, decoder: &mut Decoder<'b>) -> Result<(), Error> {
        each_field(decoder, |decoder| {
            let tag = decoder.decode_tag()?;
            let mut fields = kind.row().fields.iter();
            let index = fields.position(|field| field.perfetto == tag.field_num());
            match index {
                Some(index) if kind.row().fields[index].kind.is_text() => {
                    self.texts[index].read_as(tag.wire_type(), decoder)
                }
                Some(index) => self.ints[index].read_as(tag.wire_type(), decoder),
                None => decoder.skip_wire_value(tag.wire_type()),
            }
        })
    }
}

impl<'b> Fields<'b> for Values<'b> {
    fn text(&self, index: usize) -> Option<&'b str> {
        Some(self.texts[index])
    }

    fn int(&self, index: usize) -> Option<i64> {
        Some(self.ints[index])
    }

    fn state(&self, index: usize) -> Option<State> {
        Some(state_of(self.ints[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::import;
    use workload::recording::Step::{Run, Sleep, Wait, Wake};

    fn field(number: u32, value: &[u8]) -> Vec<u8> {
        let mut field = vec![];
        varint(u64::from(number << 3 | 2), &mut field);
        varint(value.len() as u64, &mut field);
        field.extend(value);
        field
    }

    fn varint(mut value: u64, into: &mut Vec<u8>) {
        while value >= 0x80 {
            into.push(value as u8 | 0x80);
            value >>= 7;
        }
        into.push(value as u8);
    }

    fn packed(number: u32, values: &[u64]) -> Vec<u8> {
        let mut bytes = vec![];
        for &value in values {
            varint(value, &mut bytes);
        }
        field(number, &bytes)
    }

    /// A runs on CPU 0, wakes B on CPU 1 after 1 ms and sleeps 1 ms later; an interrupt wakes A after 3 ms.
    fn compact() -> Vec<u8> {
        let names = ["swapper", "a", "b"].map(|name| field(5, name.as_bytes()));
        let bundle = |cpu: u8, compact: &[Vec<u8>]| {
            let compact = [&names[..], compact].concat().concat();
            field(
                PACKET,
                &field(1, &[&[0x08, cpu][..], &field(4, &compact)].concat()),
            )
        };
        let ms = 1_000_000;
        let first = [
            packed(1, &[10 * ms, 2 * ms, 3 * ms, ms]),
            packed(2, &[0, 1, 0, 0x20]),
            packed(3, &[7, 0, 7, 0]),
            packed(4, &[120; 4]),
            packed(6, &[1, 0, 1, 0]),
            packed(7, &[11 * ms, 4 * ms]),
            packed(8, &[8, 7]),
            packed(10, &[120; 2]),
            packed(11, &[2, 1]),
            packed(12, &[0, 0x08]),
        ];
        let second = [
            // The first event of this packet is 1 ns later than the wakeup in the other packet, because packets are
            // not ordered.
            packed(1, &[11 * ms + 1, 2 * ms]),
            packed(2, &[0, 1]),
            packed(3, &[8, 0]),
            packed(4, &[120; 2]),
            packed(6, &[2, 0]),
        ];
        [bundle(1, &second), bundle(0, &first)].concat()
    }

    #[test]
    fn the_compact_form_is_read() {
        let bytes = compact();
        assert!(is(&bytes));
        let imported = import("t", &bytes[..], None).unwrap();
        let ms = 1_000_000;
        let threads = &imported.recording.threads;
        assert_eq!(
            threads[0].steps,
            [Run(ms), Wake(1), Run(ms), Sleep(3 * ms), Run(ms)]
        );
        assert_eq!(threads[1].steps, [Wait, Run(2 * ms)]);
    }

    /// The kernel has cut the name of B within a letter of two bytes, and the bundle's CPU may be damaged.
    #[test]
    fn names_need_not_be_text_and_cpus_are_bounded() {
        let (mut bytes, name) = (compact(), [0x2a, 1, b'b']);
        let places = |bytes: &[u8]| bytes.windows(3).position(|it| it == name);
        while let Some(at) = places(&bytes) {
            bytes[at + 2] = 0xc3;
        }
        let names = |bytes: &[u8]| {
            let recording = import("t", bytes, None).unwrap().recording;
            let names = recording.threads.into_iter().map(|it| it.name);
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&compact()), ["a", "b"]);
        assert_eq!(names(&bytes), ["a", ""]);
        let event = field(2, &[0x08, 5, 0xa2, 0x01, 0]);
        let bundle = [&[0x08, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &event].concat();
        let bytes = field(PACKET, &field(1, &bundle));
        let error = import("t", &bytes[..], None).err().unwrap();
        let says = "t: the trace has an event on CPU 4294967295";
        assert!(error.message().starts_with(says), "{}", error.message());
    }

    #[test]
    fn a_truncated_trace_is_one_message_with_its_place() {
        let bytes = compact();
        let cut = &bytes[..bytes.len() - 3];
        let error = import("t", cut, None).err().unwrap();
        assert!(
            error.message().starts_with("t: at byte "),
            "{}",
            error.message()
        );
    }
}
