//! Chrome's trace event format: running tasks as slices, measurements as counters, other events as
//! instants.

use super::Format;
use super::Sink;
use super::text::Fields;
use super::tracepoint::{Class, Record, Tracepoint};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Writes the JSON that `chrome://tracing` and Perfetto read; each CPU is a thread of one process.
pub(crate) struct Chrome<W> {
    sink: Sink<W>,
    /// For each CPU, the task on it and the start of its turn.
    running: Vec<Option<(String, i32, u64)>>,
    /// The utilization of each CPU's classes.
    utils: Vec<[f64; 3]>,
    is_first: bool,
}

impl<W: Write> Chrome<W> {
    /// A trace of `cpus` CPUs, all idle.
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

    fn write(&mut self, event: Value) {
        let before = if self.is_first { "[\n" } else { ",\n" };
        self.is_first = false;
        let event = cage::text::json(event.to_string());
        self.sink.write(format_args!("{before}{event}"));
    }

    /// Ends the slice on `cpu`.
    fn stop(&mut self, now: u64, cpu: usize) {
        if let Some((comm, pid, since)) = self.running[cpu].take() {
            self.write(json!({
                "name": comm, "cat": "sched", "ph": "X", "pid": 0, "tid": cpu,
                "ts": us(since), "dur": us(now - since), "args": { "pid": pid },
            }));
        }
    }

    fn instant(&mut self, record: &Record<'_>, args: Value) {
        self.write(json!({
            "name": record.event.name(), "cat": "sched", "ph": "i", "s": "t", "pid": 0, "tid": record.cpu,
            "ts": us(record.now), "args": args,
        }));
    }

    fn counter(&mut self, now: u64, name: &str, args: Value) {
        self.write(json!({
            "name": name, "cat": "counter", "ph": "C", "pid": 0, "ts": us(now), "args": args,
        }));
    }
}

/// The format has microseconds.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl<W: Write> Format for Chrome<W> {
    fn record(&mut self, record: Record<'_>) {
        let (now, cpu) = (record.now, record.cpu);
        match record.event {
            Tracepoint::SchedSwitch { next, .. } => {
                self.stop(now, cpu);
                if next.1 != 0 {
                    self.running[cpu] = Some((next.0.to_owned(), next.1, now));
                }
            }
            Tracepoint::SchedWakeup {
                task, target_cpu, ..
            } => {
                let args = json!({ "comm": task.0, "pid": task.1, "target_cpu": target_cpu });
                self.instant(&record, args);
            }
            Tracepoint::SchedMigrateTask {
                task,
                orig_cpu,
                dest_cpu,
                ..
            } => {
                let args = json!({
                    "comm": task.0, "pid": task.1, "orig_cpu": orig_cpu, "dest_cpu": dest_cpu,
                });
                self.instant(&record, args);
            }
            Tracepoint::SchedProcessFork { parent, child_pid } => {
                let args = json!({ "comm": parent.0, "pid": parent.1, "child_pid": child_pid });
                self.instant(&record, args);
            }
            Tracepoint::TaskRename {
                pid,
                oldcomm,
                newcomm,
            } => {
                let args = json!({ "pid": pid, "oldcomm": oldcomm, "newcomm": newcomm });
                self.instant(&record, args);
            }
            Tracepoint::SchedProcessExit { task, .. } => {
                let args = json!({ "comm": task.0, "pid": task.1 });
                self.instant(&record, args);
            }
            Tracepoint::BpfTracePrintk { .. } => {
                let message = Fields(&record).to_string();
                self.instant(&record, json!({ "message": message }));
            }
            Tracepoint::Decision {
                task,
                name,
                what,
                numbers,
                why,
            } => {
                let numbers: Map<String, Value> = numbers
                    .iter()
                    .map(|&(name, value)| (name.to_owned(), value.into()))
                    .collect();
                let pid = task.map(|task| task.1);
                self.write(json!({
                    "name": what, "cat": "decision", "ph": "i", "s": "t", "pid": 0, "tid": cpu, "ts": us(now),
                    "args": { "why": why, "decision": name, "pid": pid, "numbers": numbers },
                }));
            }
            Tracepoint::Counter { part, unit, value } => {
                self.counter(now, &format!("{part} {unit}"), json!({ unit: value }));
            }
            Tracepoint::CpuFrequency { state } => {
                let name = format!("CPU {cpu} frequency");
                self.counter(now, &name, json!({ "kHz": state }));
            }
            Tracepoint::CpuIdle { state } => {
                // One more than the state, so that 0 means not idle.
                let state = state.map_or(0, |state| state + 1);
                let name = format!("CPU {cpu} idle state");
                self.counter(now, &name, json!({ "state": state }));
            }
            Tracepoint::SchedPelt { class, average } => {
                self.utils[cpu][class as usize] = average.util;
                let [fair, rt, dl] = self.utils[cpu].map(f64::round);
                let args = match class {
                    Class::Fair if rt + dl == 0.0 => json!({ "fair": fair }),
                    _ => json!({ "fair": fair, "rt": rt, "dl": dl }),
                };
                self.counter(now, &format!("CPU {cpu} utilization"), args);
            }
            Tracepoint::SchedPeltSe { .. } | Tracepoint::SchedCpuCapacity { .. } => {}
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
