//! Perfetto's protobuf: the scheduling events as events of ftrace, from which Perfetto makes the tracks of CPUs,
//! threads and frequencies, and further tracks for utilization, power, energy and the scheduler's decisions.

use super::text::Values;
use super::{Format, Sink};
use crate::event::{Class, Record, Task, Tracepoint, Unit};
use crate::protobuf::Message;
use crate::table::Kind;
use crate::values::Value;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The largest number of a CPU's events in a packet.
const BUNDLE: usize = 256;
/// The interval between records of the total energy, in ns.
const ENERGY_EVERY_NS: u64 = 1_000_000;
/// The number of the sequence to which all packets belong.
const SEQUENCE: u32 = 1;

// Numbers of fields of `TracePacket` in perfetto_trace.proto.
const FTRACE_EVENTS: u32 = 1;
const TRACK_EVENT: u32 = 11;
const TRACK_DESCRIPTOR: u32 = 60;
// `TrackEvent.Type`
const TYPE_INSTANT: u32 = 3;
const TYPE_COUNTER: u32 = 4;

pub(crate) struct Perfetto<W> {
    sink: Sink<W>,
    bundles: Vec<Bundle>,
    tracks: BTreeMap<Track, u64>,
    /// The utilization of each CPU's classes.
    utils: Vec<[f64; 3]>,
    energy: Energy,
}

/// Events of a CPU that make a packet (`FtraceEventBundle`).
#[derive(Default)]
struct Bundle {
    message: Message,
    events: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Group(&'static str),
    CpuUtilization(usize),
    TaskUtilization(i32),
    Power(String),
    Energy,
    Decisions(usize),
}

#[derive(Default)]
struct Energy {
    parts: BTreeMap<String, u64>,
    mw: u64,
    pj: u128,
    at: u64,
    said: Option<u64>,
}

impl Energy {
    fn pass(&mut self, now: u64) {
        self.pj += u128::from(self.mw) * u128::from(now - self.at);
        self.at = now;
    }
}

impl<W: Write> Perfetto<W> {
    pub fn new(out: W, cpus: usize) -> Perfetto<W> {
        Perfetto {
            sink: Sink::new(out),
            bundles: (0..cpus).map(|_| Bundle::default()).collect(),
            tracks: BTreeMap::new(),
            utils: vec![[0.0; 3]; cpus],
            energy: Energy::default(),
        }
    }

    fn packet(&mut self, timestamp: Option<u64>, (field, data): (u32, &Message)) {
        let packet = Message::default()
            .with(timestamp, |packet, now| packet.uint(8, now))
            .uint(10, SEQUENCE) // trusted_packet_sequence_id
            .message(field, data);
        // A trace is one message, whose field 1 is repeated for each packet.
        self.sink
            .bytes(Message::default().message(1, &packet).bytes());
    }

    /// Writes an event of ftrace, if Perfetto has this kind. In Perfetto's format, texts of bpf_trace_printk are texts
    /// of trace_marker.
    fn ftrace(&mut self, record: &Record<'_>) {
        let field = match record.event {
            Tracepoint::Printk(_) => Kind::Mark.row().perfetto,
            event => event.kind().map_or(0, |kind| kind.row().perfetto),
        };
        if field == 0 {
            return;
        }
        let mut fields = Message::default();
        if let Tracepoint::Printk(_) = record.event {
            fields = fields.string(2, &Values(record).to_string());
        } else {
            record.event.values(record.cpu, &mut |field, value| {
                let message = std::mem::take(&mut fields);
                fields = match value {
                    Value::Int(number) => message.int(field.perfetto, number),
                    Value::Text(text) => message.string(field.perfetto, text),
                    Value::State(state) => message.int(field.perfetto, state.bits()),
                };
            });
        }
        if let Tracepoint::Exit(task) = record.event {
            fields = fields.int(3, task.pid); // tgid
        }
        let event = Message::default()
            .uint(1, record.now)
            .uint(2, record.current.pid.cast_unsigned())
            .message(field, &fields);
        let bundle = &mut self.bundles[record.cpu];
        bundle.message = std::mem::take(&mut bundle.message).message(2, &event);
        bundle.events += 1;
        if bundle.events >= BUNDLE {
            self.flush(record.cpu);
        }
    }

    fn flush(&mut self, cpu: usize) {
        let bundle = std::mem::take(&mut self.bundles[cpu]);
        if bundle.events > 0 {
            let bundle = bundle.message.uint(1, cpu as u64);
            self.packet(None, (FTRACE_EVENTS, &bundle));
        }
    }

    /// Returns the number of a track, and describes the track at its first use.
    fn track(&mut self, track: Track, name: &str, group: Option<&'static str>, unit: &str) -> u64 {
        if let Some(&uuid) = self.tracks.get(&track) {
            return uuid;
        }
        let parent = group.map(|group| self.track(Track::Group(group), group, None, ""));
        let uuid = self.tracks.len() as u64 + 1;
        self.tracks.insert(track, uuid);
        let descriptor = Message::default()
            .uint(1, uuid)
            .with(parent, |track, parent| track.uint(5, parent))
            .string(2, name);
        let unit = (!unit.is_empty()).then(|| Message::default().string(6, unit));
        let descriptor = descriptor.with(unit, |track, unit| track.message(8, &unit));
        self.packet(None, (TRACK_DESCRIPTOR, &descriptor));
        uuid
    }

    fn count(&mut self, now: u64, track: u64, value: f64) {
        let event = Message::default()
            .uint(9, TYPE_COUNTER)
            .uint(11, track)
            .double(44, value);
        self.packet(Some(now), (TRACK_EVENT, &event));
    }

    fn utilization(&mut self, now: u64, cpu: usize, class: Class, util: f64) {
        self.utils[cpu][class as usize] = util;
        let sum = self.utils[cpu].iter().sum();
        let name = format!("CPU {cpu} utilization");
        let track = Track::CpuUtilization(cpu);
        let track = self.track(track, &name, Some("Utilization of CPUs"), "of 1024");
        self.count(now, track, sum);
    }

    fn task_utilization(&mut self, now: u64, task: Task<'_>, util: f64) {
        let name = format!("{} {} utilization", task.comm, task.pid);
        let track = Track::TaskUtilization(task.pid);
        let track = self.track(track, &name, Some("Utilization of threads"), "of 1024");
        self.count(now, track, util);
    }

    fn decision(
        &mut self,
        record: &Record<'_>,
        task: Option<Task<'_>>,
        name: &str,
        numbers: &[(&str, i64)],
        why: Option<&str>,
    ) {
        let (cpu, now) = (record.cpu, record.now);
        let track = Track::Decisions(cpu);
        let track = self.track(
            track,
            &format!("Decisions on CPU {cpu}"),
            Some("Decisions"),
            "",
        );
        // Makes a `DebugAnnotation`, which has an int_value or a string_value.
        let annotation = |name: &str| Message::default().string(10, name);
        let mut event = Message::default()
            .uint(9, TYPE_INSTANT)
            .uint(11, track)
            .string(23, name);
        if let Some(why) = why {
            event = event.message(4, &annotation("why").string(6, why));
        }
        let pid = task.map(|task| ("pid", i64::from(task.pid)));
        for (name, value) in pid.into_iter().chain(numbers.iter().copied()) {
            event = event.message(4, &annotation(name).int(4, value));
        }
        self.packet(Some(now), (TRACK_EVENT, &event));
    }

    fn power(&mut self, now: u64, part: &str, unit: Unit, value: u64) {
        self.energy.pass(now);
        if unit == Unit::Milliwatt {
            let before = self
                .energy
                .parts
                .insert(part.to_owned(), value)
                .unwrap_or(0);
            self.energy.mw = self.energy.mw + value - before;
            let track = self.track(
                Track::Power(part.to_owned()),
                &format!("{part} power"),
                Some("Power"),
                "mW",
            );
            self.count(now, track, value as f64);
        } else {
            self.energy.pj += u128::from(value);
        }
        let said = self.energy.said;
        if said.is_none_or(|said| now >= said + ENERGY_EVERY_NS) {
            self.energy(now);
        }
    }

    /// Records the energy so far, in mJ.
    fn energy(&mut self, now: u64) {
        self.energy.pass(now);
        self.energy.said = Some(now);
        let track = self.track(Track::Energy, "Energy", None, "mJ");
        self.count(now, track, self.energy.pj as f64 / 1e9);
    }
}

impl<W: Write> Format for Perfetto<W> {
    fn record(&mut self, record: Record<'_>) {
        let (now, cpu) = (record.now, record.cpu);
        match record.event {
            Tracepoint::Wakeup {
                task, target_cpu, ..
            } => {
                self.ftrace(&record);
                let target_cpu = target_cpu.unwrap_or(cpu);
                let name = format!("{} wakes up on CPU {target_cpu}", task.comm);
                let numbers = [("target_cpu", target_cpu as i64)];
                self.decision(&record, Some(task), &name, &numbers, None);
            }
            Tracepoint::Migrate {
                task,
                orig_cpu,
                dest_cpu,
            } => {
                self.ftrace(&record);
                let name = format!("{} moves from CPU {orig_cpu} to {dest_cpu}", task.comm);
                let numbers = [("orig_cpu", orig_cpu as i64), ("dest_cpu", dest_cpu as i64)];
                self.decision(&record, Some(task), &name, &numbers, None);
            }
            Tracepoint::PeltTask { task, average, .. } => {
                self.task_utilization(now, task, average.util);
            }
            Tracepoint::PeltCpu {
                cpu,
                class,
                average,
            } => self.utilization(now, cpu, class, average.util),
            Tracepoint::Decision {
                task,
                what,
                numbers,
                why,
                ..
            } => self.decision(&record, task, what, numbers, Some(why)),
            Tracepoint::Counter { part, unit, value } => self.power(now, part, unit, value),
            _ => self.ftrace(&record),
        }
    }

    fn finish(&mut self, now: u64) -> io::Result<()> {
        for cpu in 0..self.bundles.len() {
            self.flush(cpu);
        }
        if self.energy.said.is_some() {
            self.energy(now);
        }
        self.sink.finish()
    }
}
