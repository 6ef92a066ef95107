//! Chrome's trace event format: what ran where as slices, the other events as instants.

use super::{Sink, Writer};
use serde_json::{Value, json};
use simulator::{Event, Trace};
use std::io::{self, Write};

/// Writes the JSON that `chrome://tracing` and Perfetto read; each CPU is a thread of one process.
pub struct Chrome<W> {
    sink: Sink<W>,
    /// For each CPU the task on it, and since when.
    running: Vec<Option<(String, i32, u64)>>,
    now: u64,
    is_first: bool,
}

impl<W: Write> Chrome<W> {
    /// A trace of `cpus` CPUs, all idle.
    pub fn new(out: W, cpus: usize) -> Chrome<W> {
        let mut chrome = Chrome {
            sink: Sink::new(out),
            running: vec![None; cpus],
            now: 0,
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
        self.sink.write(format_args!("{before}{event}"));
    }

    /// Ends what runs on `cpu`.
    fn stop(&mut self, now: u64, cpu: usize) {
        if let Some((comm, pid, since)) = self.running[cpu].take() {
            self.write(json!({
                "name": comm, "cat": "sched", "ph": "X", "pid": 0, "tid": cpu,
                "ts": us(since), "dur": us(now - since), "args": { "pid": pid },
            }));
        }
    }

    fn instant(&mut self, cpu: usize, name: &str, args: Value) {
        self.write(json!({
            "name": name, "cat": "sched", "ph": "i", "s": "t", "pid": 0, "tid": cpu,
            "ts": us(self.now), "args": args,
        }));
    }
}

/// The format counts in microseconds.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl<W: Write> Trace for Chrome<W> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        self.now = now;
        match event {
            Event::Switch { next, .. } => {
                self.stop(now, cpu);
                if next.1 != 0 {
                    self.running[cpu] = Some((next.0.to_owned(), next.1, now));
                }
            }
            Event::Wakeup {
                task,
                target_cpu,
                new,
                ..
            } => {
                let name = if new {
                    "sched_wakeup_new"
                } else {
                    "sched_wakeup"
                };
                let args = json!({ "comm": task.0, "pid": task.1, "target_cpu": target_cpu });
                self.instant(cpu, name, args);
            }
            Event::Migrate { task, from, to, .. } => {
                let args = json!({
                    "comm": task.0, "pid": task.1, "orig_cpu": from, "dest_cpu": to,
                });
                self.instant(cpu, "sched_migrate_task", args);
            }
            Event::Fork { parent, child } => {
                let args = json!({
                    "comm": parent.0, "pid": parent.1, "child_comm": child.0, "child_pid": child.1,
                });
                self.instant(cpu, "sched_process_fork", args);
            }
            Event::Exit { task, .. } => {
                let args = json!({ "comm": task.0, "pid": task.1 });
                self.instant(cpu, "sched_process_exit", args);
            }
            Event::Power { part, mw, pj } => self.write(json!({
                "name": part.to_string(), "cat": "power", "ph": "C", "pid": 0, "ts": us(now),
                "args": { "mW": mw, "pJ": pj },
            })),
            Event::CpuFrequency { khz } => {
                self.instant(cpu, "cpu_frequency", json!({ "state": khz, "cpu_id": cpu }));
            }
            Event::Printk(message) => {
                self.instant(cpu, "bpf_trace_printk", json!({ "message": message }));
            }
        }
    }
}

impl<W: Write> Writer for Chrome<W> {
    fn finish(&mut self) -> io::Result<()> {
        for cpu in 0..self.running.len() {
            self.stop(self.now, cpu);
        }
        let before = if self.is_first { "[" } else { "" };
        self.sink.write(format_args!("{before}\n]\n"));
        self.sink.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests_support::story;

    #[test]
    fn a_story_in_json() {
        let mut text = Vec::new();
        let mut trace = Chrome::new(&mut text, 2);
        story(&mut trace);
        trace.finish().unwrap();
        drop(trace);
        let events: Vec<Value> = serde_json::from_slice(&text).unwrap();
        let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        // One ends with a switch, the other with the trace.
        assert_eq!(slices.len(), 2);
        assert_eq!(
            (&slices[0]["ts"], &slices[0]["dur"]),
            (&json!(1.5), &json!(2.5))
        );
        assert_eq!(events.iter().filter(|event| event["ph"] == "i").count(), 5);
    }
}
