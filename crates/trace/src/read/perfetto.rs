//! Perfetto's traces (`perfetto_trace.proto`): reads the bundle of ftrace events of each packet,
//! including the compact form in which Perfetto itself records switches and wakeups.

use super::protobuf::{Skipped, message, take_message};
use super::{ITS_MACHINE, Sink};
use crate::event::{DEFAULT_PRIO, Event, IN_INTERRUPT, Line, Read, State, Task};
use machine::input::BadInput;
use std::collections::HashMap;

/// A trace is one message that consists of packets.
const PACKET: u32 = 1;
/// `prev_state` of a task that ended (X, Z), and of one that sleeps, in kernels since 4.14.
const DEAD: i64 = 0x30;
const BLOCKED: i64 = 0xcf;
const EXPECTED: &str = "expected a complete Perfetto trace with ftrace events";

/// Is this such a file, judging by its first bytes `head`? It begins with a packet, which is not
/// text.
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
    let mut all = All::default();
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
        if let Some(bundle) = packet.ftrace_events {
            all.bundle(&bundle);
        }
    }
    all.events.sort_by_key(|&(at, cpu, ..)| (at, cpu));
    for &(at, cpu, interrupt, kind) in &all.events {
        let read = match kind {
            Kind::Lost => Read::Lost(1),
            kind => Read::Event(Line {
                cpu,
                at,
                interrupt,
                event: all.event(cpu, kind),
            }),
        };
        sink(read).map_err(|message| {
            Box::new(BadInput::whole(format!("{file}: {message}"), ITS_MACHINE))
        })?;
        if let Kind::Switch { next, .. } = kind {
            all.runs.insert(cpu, next);
        }
    }
    Ok(())
}

fn in_interrupt(common_flags: u32) -> bool {
    common_flags & u32::from(IN_INTERRUPT) != 0
}

/// A task: the index of its name, its pid and its priority.
#[derive(Clone, Copy)]
struct Named {
    comm: u32,
    pid: i32,
    prio: i32,
}

#[derive(Clone, Copy)]
enum Kind {
    /// If `prev` is missing, it is the task that ran on the CPU.
    Switch {
        prev: Option<Named>,
        state: i64,
        next: Named,
    },
    Waking(Named),
    Wakeup(Named),
    New(Named),
    Fork {
        parent: i32,
        child: Named,
    },
    Frequency {
        cpu: u32,
        khz: u32,
    },
    Mark(u32),
    Lost,
}

/// The content of all packets.
#[derive(Default)]
struct All {
    /// The time (ns), the CPU, whether in an interrupt, and the event.
    events: Vec<(u64, usize, bool, Kind)>,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The running task of each CPU, known while events are passed on.
    runs: HashMap<usize, Named>,
}

impl All {
    fn name(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn named(&mut self, comm: &str, pid: i32, prio: i32) -> Named {
        let comm = self.name(comm);
        Named { comm, pid, prio }
    }

    fn bundle(&mut self, bundle: &Bundle) {
        let cpu = bundle.cpu as usize;
        let first = self.events.len();
        for event in &bundle.event {
            let interrupt = in_interrupt(event.common_flags);
            if let Some(kind) = self.full(event) {
                self.events.push((event.timestamp, cpu, interrupt, kind));
            }
        }
        if let Some(compact) = &bundle.compact_sched {
            self.compact(cpu, compact);
        }
        if bundle.lost_events {
            let at = self.events[first..].iter().map(|(at, ..)| *at).min();
            self.events.push((at.unwrap_or(0), cpu, false, Kind::Lost));
        }
    }

    /// An event in the full form; `None` if it is of another kind.
    fn full(&mut self, event: &FtraceEvent) -> Option<Kind> {
        if let Some(it) = &event.sched_switch {
            return Some(Kind::Switch {
                prev: Some(self.named(&it.prev_comm, it.prev_pid, it.prev_prio)),
                state: it.prev_state,
                next: self.named(&it.next_comm, it.next_pid, it.next_prio),
            });
        }
        let kinds = [
            (&event.sched_waking, Kind::Waking as fn(Named) -> Kind),
            (&event.sched_wakeup, Kind::Wakeup),
            (&event.sched_wakeup_new, Kind::New),
        ];
        for (woken, kind) in kinds {
            if let Some(it) = woken {
                return Some(kind(self.named(&it.comm, it.pid, it.prio)));
            }
        }
        if let Some(it) = &event.sched_process_fork {
            return Some(Kind::Fork {
                parent: it.parent_pid,
                child: self.named(&it.child_comm, it.child_pid, DEFAULT_PRIO),
            });
        }
        if let Some(it) = &event.cpu_frequency {
            let (cpu, khz) = (it.cpu_id, it.state);
            return Some(Kind::Frequency { cpu, khz });
        }
        let print = event.print.as_ref()?;
        Some(Kind::Mark(self.name(&print.buf)))
    }

    /// Times are relative to the previous one; names are indices into a table.
    fn compact(&mut self, cpu: usize, compact: &Compact) {
        let names: Vec<u32> = compact.names.iter().map(|name| self.name(name)).collect();
        let name = |number: u32| names.get(number as usize).copied();
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
            let Some(comm) = name(comm) else { continue };
            let next = Named { comm, pid, prio };
            let prev = None;
            let kind = Kind::Switch { prev, state, next };
            self.events.push((at, cpu, false, kind));
        }
        let mut at = 0_u64;
        let wakings = compact.waking_timestamp.iter().zip(&compact.waking_pid);
        let tasks = compact.waking_prio.iter().zip(&compact.waking_comm);
        for (index, ((delta, &pid), (&prio, &comm))) in wakings.zip(tasks).enumerate() {
            at = at.saturating_add(*delta);
            let Some(comm) = name(comm) else { continue };
            let flags = compact.waking_flags.get(index).copied().unwrap_or(0);
            let kind = Kind::Waking(Named { comm, pid, prio });
            self.events.push((at, cpu, in_interrupt(flags), kind));
        }
    }

    fn task(&self, named: Named) -> Task<'_> {
        Task {
            comm: &self.names[named.comm as usize],
            pid: named.pid,
            prio: named.prio,
        }
    }

    fn event(&self, cpu: usize, kind: Kind) -> Event<'_> {
        match kind {
            Kind::Switch { prev, state, next } => {
                // The task that ran before the trace began is unknown.
                let idle = Task {
                    comm: "",
                    pid: 0,
                    prio: DEFAULT_PRIO,
                };
                let ran = prev.or_else(|| self.runs.get(&cpu).copied());
                Event::Switch {
                    prev: ran.map_or(idle, |named| self.task(named)),
                    state: match state {
                        state if state & DEAD != 0 => State::Dead,
                        state if state & BLOCKED != 0 => State::Blocked,
                        _ => State::Runnable,
                    },
                    next: self.task(next),
                }
            }
            Kind::Waking(named) => Event::Waking(self.task(named)),
            Kind::Wakeup(named) => Event::Wakeup(self.task(named)),
            Kind::New(named) => Event::New(self.task(named)),
            Kind::Fork { parent, child } => Event::Fork {
                parent,
                child: self.task(child),
            },
            Kind::Frequency { cpu, khz } => {
                let cpu = cpu as usize;
                Event::Frequency { cpu, khz }
            }
            Kind::Mark(text) => Event::Mark(self.names[text as usize].trim_end()),
            Kind::Lost => Event::Other,
        }
    }
}

// The messages of perfetto_trace.proto that are read, with the used fields.
message! {
    struct Packet "TracePacket" {
        ftrace_events: Option<Bundle> = 1,
        compressed: Option<Skipped> = 50,
    }
    struct Bundle "FtraceEventBundle" {
        cpu: u32 = 1,
        event: Vec<FtraceEvent> = 2,
        lost_events: bool = 3,
        compact_sched: Option<Compact> = 4,
    }
    struct FtraceEvent "FtraceEvent" {
        timestamp: u64 = 1,
        common_flags: u32 = 5,
        print: Option<Print> = 3,
        sched_switch: Option<SchedSwitch> = 4,
        cpu_frequency: Option<CpuFrequency> = 11,
        sched_wakeup: Option<Woken> = 17,
        sched_waking: Option<Woken> = 20,
        sched_wakeup_new: Option<Woken> = 114,
        sched_process_fork: Option<Fork> = 239,
    }
    struct Print "PrintFtraceEvent" {
        buf: String = 2,
    }
    struct SchedSwitch "SchedSwitchFtraceEvent" {
        prev_comm: String = 1,
        prev_pid: i32 = 2,
        prev_prio: i32 = 3,
        prev_state: i64 = 4,
        next_comm: String = 5,
        next_pid: i32 = 6,
        next_prio: i32 = 7,
    }
    struct Woken "SchedWakingFtraceEvent, SchedWakeupFtraceEvent or SchedWakeupNewFtraceEvent" {
        comm: String = 1,
        pid: i32 = 2,
        prio: i32 = 3,
    }
    struct Fork "SchedProcessForkFtraceEvent" {
        parent_pid: i32 = 2,
        child_comm: String = 3,
        child_pid: i32 = 4,
    }
    struct CpuFrequency "CpuFrequencyFtraceEvent" {
        state: u32 = 1,
        cpu_id: u32 = 2,
    }
    struct Compact "FtraceEventBundle.CompactSched, whose names are its intern_table" {
        switch_timestamp: Vec<u64> = 1,
        switch_prev_state: Vec<i64> = 2,
        switch_next_pid: Vec<i32> = 3,
        switch_next_prio: Vec<i32> = 4,
        switch_next_comm: Vec<u32> = 6,
        names: Vec<String> = 5,
        waking_timestamp: Vec<u64> = 7,
        waking_pid: Vec<i32> = 8,
        waking_prio: Vec<i32> = 10,
        waking_comm: Vec<u32> = 11,
        waking_flags: Vec<u32> = 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::import;
    use workload::recording::Step::{Run, Sleep, Wait, Wake};

    /// A field of a message: its number, its wire type and the value.
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
            // This packet is slightly later: packets are not ordered.
            packed(1, &[11 * ms + 1, 2 * ms]),
            packed(2, &[0, 1]),
            packed(3, &[8, 0]),
            packed(4, &[120; 2]),
            packed(6, &[2, 0]),
        ];
        // Packets are field 1 of a trace, and so is the bundle of a packet.
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
