//! Perfetto's protobuf: the scheduling events as ftrace's, from which it makes the tracks of CPUs,
//! threads and frequencies, and tracks of our own for utilization, power, energy and the
//! scheduler's decisions.

use super::Sink;
use super::linux::Format;
use super::text::Fields;
use super::tracepoint::{Class, MILLIWATT, Record, SwitchComm, Task, Tracepoint, comm, idle_state};
use proto::packet::Data;
use proto::{
    Annotation, Bundle, CounterDescriptor, FtraceEvent, Packet, TrackDescriptor, TrackEvent, event,
    track_event,
};
use simulator::Part;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The number of a CPU's events in a packet.
const BUNDLE: usize = 256;
/// The interval between records of the total energy, ns.
const ENERGY_EVERY_NS: u64 = 1_000_000;
/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// Writes the packets.
pub(crate) struct Perfetto<W> {
    sink: Sink<W>,
    bundles: Vec<Vec<FtraceEvent>>,
    tracks: BTreeMap<Track, u64>,
    /// The utilization of each CPU's classes.
    utils: Vec<[f64; 3]>,
    energy: Energy,
    packet: Vec<u8>,
}

/// A track of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Group(&'static str),
    CpuUtilization(usize),
    TaskUtilization(i32),
    Power(Part),
    Energy,
    Decisions(usize),
}

/// The energy of all parts.
#[derive(Default)]
struct Energy {
    parts: BTreeMap<Part, u64>,
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
    /// A trace of `cpus` CPUs.
    pub fn new(out: W, cpus: usize) -> Perfetto<W> {
        Perfetto {
            sink: Sink::new(out),
            bundles: vec![Vec::new(); cpus],
            tracks: BTreeMap::new(),
            utils: vec![[0.0; 3]; cpus],
            energy: Energy::default(),
            packet: Vec::new(),
        }
    }

    fn packet(&mut self, timestamp: Option<u64>, data: Data) {
        let packet = Packet {
            timestamp,
            sequence: SEQUENCE,
            data: Some(data),
        };
        // A trace is one message of packets, which is field 1.
        self.packet.clear();
        prost::encoding::message::encode(1, &packet, &mut self.packet);
        self.sink.bytes(&self.packet);
    }

    fn ftrace(&mut self, record: &Record<'_>, event: event::Event) {
        let events = &mut self.bundles[record.cpu];
        events.push(FtraceEvent {
            timestamp: record.now,
            pid: record.current.1 as u32,
            event: Some(event),
        });
        if events.len() >= BUNDLE {
            self.flush(record.cpu);
        }
    }

    fn flush(&mut self, cpu: usize) {
        let event = std::mem::take(&mut self.bundles[cpu]);
        if !event.is_empty() {
            let cpu = cpu as u32;
            self.packet(None, Data::FtraceEvents(Bundle { cpu, event }));
        }
    }

    /// The number of a track, which is described at its first use.
    fn track(&mut self, track: Track, name: &str, group: Option<&'static str>, unit: &str) -> u64 {
        if let Some(&uuid) = self.tracks.get(&track) {
            return uuid;
        }
        let parent = group.map(|group| self.track(Track::Group(group), group, None, ""));
        let uuid = self.tracks.len() as u64 + 1;
        self.tracks.insert(track, uuid);
        let counter = (!unit.is_empty()).then(|| CounterDescriptor {
            unit_name: unit.to_owned(),
        });
        let descriptor = TrackDescriptor {
            uuid,
            parent,
            name: name.to_owned(),
            counter,
        };
        self.packet(None, Data::TrackDescriptor(descriptor));
        uuid
    }

    fn count(&mut self, now: u64, track: u64, value: f64) {
        let event = TrackEvent {
            kind: track_event::COUNTER,
            track,
            value: Some(value),
            ..TrackEvent::default()
        };
        self.packet(Some(now), Data::TrackEvent(event));
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
        let name = format!("{} {} utilization", task.0, task.1);
        let track = Track::TaskUtilization(task.1);
        let track = self.track(track, &name, Some("Utilization of threads"), "of 1024");
        self.count(now, track, util);
    }

    fn decision(
        &mut self,
        record: &Record<'_>,
        task: Option<Task<'_>>,
        name: String,
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
        let annotation = |&(name, value): &(&str, i64)| Annotation {
            name: name.to_owned(),
            value: Some(value),
            text: None,
        };
        let why = why.map(|why| Annotation {
            name: "why".to_owned(),
            value: None,
            text: Some(why.to_owned()),
        });
        let event = TrackEvent {
            kind: track_event::INSTANT,
            track,
            name,
            annotations: why
                .into_iter()
                .chain(task.map(|task| annotation(&("pid", task.1.into()))))
                .chain(numbers.iter().map(annotation))
                .collect(),
            ..TrackEvent::default()
        };
        self.packet(Some(now), Data::TrackEvent(event));
    }

    fn power(&mut self, now: u64, part: Part, unit: &'static str, value: u64) {
        self.energy.pass(now);
        if unit == MILLIWATT {
            let before = self.energy.parts.insert(part, value).unwrap_or(0);
            self.energy.mw = self.energy.mw + value - before;
            let track = self.track(
                Track::Power(part),
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

    /// Records the energy so far, mJ.
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
        let owned = |name: &str| comm(name).to_owned();
        match record.event {
            Tracepoint::SchedSwitch {
                prev,
                prev_prio,
                prev_state,
                next,
                next_prio,
            } => {
                let event = proto::SchedSwitch {
                    prev_comm: SwitchComm(prev, cpu).to_string(),
                    prev_pid: prev.1,
                    prev_prio,
                    prev_state: prev_state.bits() as i64,
                    next_comm: SwitchComm(next, cpu).to_string(),
                    next_pid: next.1,
                    next_prio,
                };
                self.ftrace(&record, event::Event::SchedSwitch(event));
            }
            Tracepoint::SchedWakeup {
                task,
                prio,
                target_cpu,
                new,
            } => {
                let event = proto::SchedWakeup {
                    comm: owned(task.0),
                    pid: task.1,
                    prio,
                    target_cpu: target_cpu as i32,
                };
                let event = match new {
                    true => event::Event::SchedWakeupNew(event),
                    false => event::Event::SchedWakeup(event),
                };
                self.ftrace(&record, event);
                let name = format!("{} wakes up on CPU {target_cpu}", task.0);
                let numbers = [("target_cpu", target_cpu as i64)];
                self.decision(&record, Some(task), name, &numbers, None);
            }
            Tracepoint::SchedMigrateTask {
                task,
                prio,
                orig_cpu,
                dest_cpu,
            } => {
                let event = proto::SchedMigrateTask {
                    comm: owned(task.0),
                    pid: task.1,
                    prio,
                    orig_cpu: orig_cpu as i32,
                    dest_cpu: dest_cpu as i32,
                };
                self.ftrace(&record, event::Event::SchedMigrateTask(event));
                let name = format!("{} moves from CPU {orig_cpu} to {dest_cpu}", task.0);
                let numbers = [("orig_cpu", orig_cpu as i64), ("dest_cpu", dest_cpu as i64)];
                self.decision(&record, Some(task), name, &numbers, None);
            }
            Tracepoint::SchedProcessFork { parent, child_pid } => {
                let event = proto::SchedProcessFork {
                    parent_comm: owned(parent.0),
                    parent_pid: parent.1,
                    child_comm: owned(parent.0),
                    child_pid,
                };
                self.ftrace(&record, event::Event::SchedProcessFork(event));
            }
            Tracepoint::SchedProcessExit { task, prio } => {
                let event = proto::SchedProcessExit {
                    comm: owned(task.0),
                    pid: task.1,
                    tgid: task.1,
                    prio,
                };
                self.ftrace(&record, event::Event::SchedProcessExit(event));
            }
            Tracepoint::TaskRename {
                pid,
                oldcomm,
                newcomm,
            } => {
                let event = proto::TaskRename {
                    pid,
                    oldcomm: owned(oldcomm),
                    newcomm: owned(newcomm),
                };
                self.ftrace(&record, event::Event::TaskRename(event));
            }
            Tracepoint::CpuIdle { state } => {
                let (state, cpu_id) = (idle_state(state), cpu as u32);
                let event = proto::CpuState { state, cpu_id };
                self.ftrace(&record, event::Event::CpuIdle(event));
            }
            Tracepoint::CpuFrequency { state } => {
                let cpu_id = cpu as u32;
                let event = proto::CpuState { state, cpu_id };
                self.ftrace(&record, event::Event::CpuFrequency(event));
            }
            // CpuFrequency has the same information.
            Tracepoint::SchedCpuCapacity { .. } => {}
            Tracepoint::SchedPeltSe { task, average, .. } => {
                self.task_utilization(now, task, average.levels().util);
            }
            Tracepoint::SchedPelt { class, average } => {
                self.utilization(now, cpu, class, average.levels().util);
            }
            Tracepoint::BpfTracePrintk { .. } => {
                let buf = Fields(&record).to_string();
                self.ftrace(&record, event::Event::Print(proto::Print { buf }));
            }
            Tracepoint::Decision { task, decided, why } => {
                let numbers: Vec<(&str, i64)> = decided
                    .numbers()
                    .map(|(name, _, value)| (name, value))
                    .collect();
                self.decision(&record, task, decided.what(), &numbers, Some(why));
            }
            Tracepoint::Counter { part, unit, value } => self.power(now, part, unit, value),
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

/// The messages of perfetto_trace.proto that are written, with the fields in use.
mod proto {
    use prost::{Message, Oneof};

    /// `TracePacket`.
    #[derive(Clone, PartialEq, Message)]
    pub struct Packet {
        /// ns
        #[prost(uint64, optional, tag = "8")]
        pub timestamp: Option<u64>,
        /// `trusted_packet_sequence_id`
        #[prost(uint32, tag = "10")]
        pub sequence: u32,
        #[prost(oneof = "packet::Data", tags = "1, 11, 60")]
        pub data: Option<packet::Data>,
    }

    pub mod packet {
        #[derive(Clone, PartialEq, super::Oneof)]
        pub enum Data {
            #[prost(message, tag = "1")]
            FtraceEvents(super::Bundle),
            #[prost(message, tag = "11")]
            TrackEvent(super::TrackEvent),
            #[prost(message, tag = "60")]
            TrackDescriptor(super::TrackDescriptor),
        }
    }

    /// `FtraceEventBundle`.
    #[derive(Clone, PartialEq, Message)]
    pub struct Bundle {
        #[prost(uint32, tag = "1")]
        pub cpu: u32,
        #[prost(message, repeated, tag = "2")]
        pub event: Vec<FtraceEvent>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct FtraceEvent {
        /// ns
        #[prost(uint64, tag = "1")]
        pub timestamp: u64,
        #[prost(uint32, tag = "2")]
        pub pid: u32,
        #[prost(
            oneof = "event::Event",
            tags = "3, 4, 11, 13, 17, 114, 236, 238, 239, 491"
        )]
        pub event: Option<event::Event>,
    }

    pub mod event {
        #[derive(Clone, PartialEq, super::Oneof)]
        pub enum Event {
            #[prost(message, tag = "3")]
            Print(super::Print),
            #[prost(message, tag = "4")]
            SchedSwitch(super::SchedSwitch),
            #[prost(message, tag = "11")]
            CpuFrequency(super::CpuState),
            #[prost(message, tag = "13")]
            CpuIdle(super::CpuState),
            #[prost(message, tag = "17")]
            SchedWakeup(super::SchedWakeup),
            #[prost(message, tag = "114")]
            SchedWakeupNew(super::SchedWakeup),
            #[prost(message, tag = "236")]
            TaskRename(super::TaskRename),
            #[prost(message, tag = "238")]
            SchedProcessExit(super::SchedProcessExit),
            #[prost(message, tag = "239")]
            SchedProcessFork(super::SchedProcessFork),
            #[prost(message, tag = "491")]
            SchedMigrateTask(super::SchedMigrateTask),
        }
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Print {
        #[prost(string, tag = "2")]
        pub buf: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct SchedSwitch {
        #[prost(string, tag = "1")]
        pub prev_comm: String,
        #[prost(int32, tag = "2")]
        pub prev_pid: i32,
        #[prost(int32, tag = "3")]
        pub prev_prio: i32,
        #[prost(int64, tag = "4")]
        pub prev_state: i64,
        #[prost(string, tag = "5")]
        pub next_comm: String,
        #[prost(int32, tag = "6")]
        pub next_pid: i32,
        #[prost(int32, tag = "7")]
        pub next_prio: i32,
    }

    /// Also `SchedWakeupNew`.
    #[derive(Clone, PartialEq, Message)]
    pub struct SchedWakeup {
        #[prost(string, tag = "1")]
        pub comm: String,
        #[prost(int32, tag = "2")]
        pub pid: i32,
        #[prost(int32, tag = "3")]
        pub prio: i32,
        #[prost(int32, tag = "5")]
        pub target_cpu: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct SchedMigrateTask {
        #[prost(string, tag = "1")]
        pub comm: String,
        #[prost(int32, tag = "2")]
        pub pid: i32,
        #[prost(int32, tag = "3")]
        pub prio: i32,
        #[prost(int32, tag = "4")]
        pub orig_cpu: i32,
        #[prost(int32, tag = "5")]
        pub dest_cpu: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct SchedProcessFork {
        #[prost(string, tag = "1")]
        pub parent_comm: String,
        #[prost(int32, tag = "2")]
        pub parent_pid: i32,
        #[prost(string, tag = "3")]
        pub child_comm: String,
        #[prost(int32, tag = "4")]
        pub child_pid: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct SchedProcessExit {
        #[prost(string, tag = "1")]
        pub comm: String,
        #[prost(int32, tag = "2")]
        pub pid: i32,
        #[prost(int32, tag = "3")]
        pub tgid: i32,
        #[prost(int32, tag = "4")]
        pub prio: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct TaskRename {
        #[prost(int32, tag = "1")]
        pub pid: i32,
        #[prost(string, tag = "2")]
        pub oldcomm: String,
        #[prost(string, tag = "3")]
        pub newcomm: String,
    }

    /// `CpuIdle` and `CpuFrequency`. Zero is written, too: a state.
    #[derive(Clone, PartialEq, Message)]
    pub struct CpuState {
        #[prost(uint32, required, tag = "1")]
        pub state: u32,
        #[prost(uint32, required, tag = "2")]
        pub cpu_id: u32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct TrackDescriptor {
        #[prost(uint64, tag = "1")]
        pub uuid: u64,
        #[prost(uint64, optional, tag = "5")]
        pub parent: Option<u64>,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(message, optional, tag = "8")]
        pub counter: Option<CounterDescriptor>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct CounterDescriptor {
        #[prost(string, tag = "6")]
        pub unit_name: String,
    }

    pub mod track_event {
        pub const INSTANT: u32 = 3;
        pub const COUNTER: u32 = 4;
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct TrackEvent {
        #[prost(uint32, tag = "9")]
        pub kind: u32,
        #[prost(uint64, tag = "11")]
        pub track: u64,
        #[prost(string, tag = "23")]
        pub name: String,
        /// `double_counter_value`
        #[prost(double, optional, tag = "44")]
        pub value: Option<f64>,
        #[prost(message, repeated, tag = "4")]
        pub annotations: Vec<Annotation>,
    }

    /// `DebugAnnotation`.
    #[derive(Clone, PartialEq, Message)]
    pub struct Annotation {
        #[prost(string, tag = "10")]
        pub name: String,
        /// `int_value`
        #[prost(int64, optional, tag = "4")]
        pub value: Option<i64>,
        /// `string_value`
        #[prost(string, optional, tag = "6")]
        pub text: Option<String>,
    }
}
