//! Chrome's trace event format: running tasks as slices, measurements as counters, other events as
//! instants.

use super::{Format, Sink};
use crate::event::{Class, Record, Tracepoint};
use crate::values::Value;
use serde_json::{Map, Value as Json, json};
use std::io::{self, Write};

/// Writes the JSON that `chrome://tracing` and Perfetto read; each CPU is a thread of one process.
pub(crate) struct Chrome<W> {
    sink: Sink<W>,
    /// For each CPU, the task on it, and the start of the task's turn.
    running: Vec<Option<(String, i32, u64)>>,
    /// The utilization of each CPU's classes.
    utils: Vec<[f64; 3]>,
    is_first: bool,
}

impl<W: Write> Chrome<W> {
    pub fn new(out: W, cpus: usize) -> Chrome<W> {
        let mut chrome = Chrome {
            sink: Sink::new(out),
            running: vec![None; cpus],
            utils: vec![[0.0; 3]; cpus],
            is_first: true,
        };
        for cpu in 0..cpus {
            chrome.write(json!({
                "name": "thread_name", "ph": "M", "pid": 0, "tid": cpu,
                "args": { "name": format!("CPU {cpu}") },
            }));
        }
        chrome
    }

    fn write(&mut self, event: Json) {
        let before = if self.is_first { "[\n" } else { ",\n" };
        self.is_first = false;
        let event = cage::text::json(event.to_string());
        self.sink.write(format_args!("{before}{event}"));
    }

    fn stop(&mut self, now: u64, cpu: usize) {
        if let Some((comm, pid, since)) = self.running[cpu].take() {
            self.write(json!({
                "name": comm, "cat": "sched", "ph": "X", "pid": 0, "tid": cpu,
                "ts": us(since), "dur": us(now - since), "args": { "pid": pid },
            }));
        }
    }

    fn instant(&mut self, record: &Record<'_>) {
        let mut args = Map::new();
        record.event.values(record.cpu, &mut |field, value| {
            let key = match field.key {
                "" => "message",
                key => key,
            };
            let value = match value {
                Value::Int(number) => number.into(),
                Value::Text(text) => text.into(),
                Value::State(state) => state.letter().to_string().into(),
            };
            args.insert(key.to_owned(), value);
        });
        self.write(json!({
            "name": record.event.kind().map(|kind| kind.row().name), "cat": "sched", "ph": "i", "s": "t", "pid": 0,
            "tid": record.cpu, "ts": us(record.now), "args": args,
        }));
    }

    fn counter(&mut self, now: u64, name: &str, args: Json) {
        self.write(json!({
            "name": name, "cat": "counter", "ph": "C", "pid": 0, "ts": us(now), "args": args,
        }));
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl<W: Write> Format for Chrome<W> {
    fn record(&mut self, record: Record<'_>) {
        let (now, cpu) = (record.now, record.cpu);
        match record.event {
            Tracepoint::Switch { next, .. } => {
                self.stop(now, cpu);
                if next.pid != 0 {
                    self.running[cpu] = Some((next.comm.to_owned(), next.pid, now));
                }
            }
            Tracepoint::Wakeup { .. }
            | Tracepoint::Migrate { .. }
            | Tracepoint::Fork { .. }
            | Tracepoint::Rename { .. }
            | Tracepoint::Exit(_)
            | Tracepoint::Printk(_) => self.instant(&record),
            Tracepoint::Decision {
                task,
                name,
                what,
                numbers,
                why,
            } => {
                let numbers: Map<String, Json> = numbers
                    .iter()
                    .map(|&(name, value)| (name.to_owned(), value.into()))
                    .collect();
                let pid = task.map(|task| task.pid);
                self.write(json!({
                    "name": what, "cat": "decision", "ph": "i", "s": "t", "pid": 0, "tid": cpu, "ts": us(now),
                    "args": { "why": why, "decision": name, "pid": pid, "numbers": numbers },
                }));
            }
            Tracepoint::Counter { part, unit, value } => {
                let unit = unit.name();
                self.counter(now, &format!("{part} {unit}"), json!({ unit: value }));
            }
            Tracepoint::Frequency { cpu, khz } => {
                let name = format!("CPU {cpu} frequency");
                self.counter(now, &name, json!({ "kHz": khz }));
            }
            Tracepoint::Idle { cpu, state } => {
                // The value is one more than the state, so that 0 means that the CPU is not idle.
                let state = state.map_or(0, |state| state + 1);
                let name = format!("CPU {cpu} idle state");
                self.counter(now, &name, json!({ "state": state }));
            }
            Tracepoint::PeltCpu {
                cpu,
                class,
                average,
            } => {
                self.utils[cpu][class as usize] = average.util;
                let [fair, rt, dl] = self.utils[cpu].map(f64::round);
                let args = match class {
                    Class::Fair if rt + dl == 0.0 => json!({ "fair": fair }),
                    _ => json!({ "fair": fair, "rt": rt, "dl": dl }),
                };
                self.counter(now, &format!("CPU {cpu} utilization"), args);
            }
            _ => {}
        }
    }

    fn finish(&mut self, now: u64) -> io::Result<()> {
        for cpu in 0..self.running.len() {
            self.stop(now, cpu);
        }
        let before = if self.is_first { "[" } else { "" };
        self.sink.write(format_args!("{before}\n]\n"));
        self.sink.finish()
    }
}
