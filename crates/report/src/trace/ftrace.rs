//! ftrace's text format: one event a line, as the kernel prints its tracepoints.

use super::{Sink, Writer};
use simulator::{Event, Trace};
use std::io::{self, Write};

/// Writes the format of `/sys/kernel/tracing/trace`, which Perfetto reads as systrace.
pub struct Ftrace<W> {
    sink: Sink<W>,
    cpus: Vec<Current>,
}

/// Who runs on a CPU.
#[derive(Clone)]
struct Current {
    comm: String,
    pid: i32,
    exiting: bool,
}

impl<W: Write> Ftrace<W> {
    /// A trace of `cpus` CPUs, all idle.
    pub fn new(out: W, cpus: usize) -> Ftrace<W> {
        let mut sink = Sink::new(out);
        sink.write(format_args!("# tracer: nop\n#\n"));
        let idle = Current {
            comm: "<idle>".to_owned(),
            pid: 0,
            exiting: false,
        };
        Ftrace {
            sink,
            cpus: vec![idle; cpus],
        }
    }
}

impl<W: Write> Trace for Ftrace<W> {
    fn event(&mut self, now: u64, cpu: usize, event: Event<'_>) {
        let Current { comm, pid, exiting } = &mut self.cpus[cpu];
        let (seconds, ns) = (now / 1_000_000_000, now % 1_000_000_000);
        self.sink.write(format_args!(
            "{comm:>16}-{pid:<7} [{cpu:03}] .... {seconds:5}.{ns:09}: "
        ));
        match event {
            Event::Switch {
                prev,
                prev_prio,
                prev_runnable,
                next,
                next_prio,
            } => {
                let state = match (prev_runnable, *exiting) {
                    (true, _) => 'R',
                    (false, true) => 'X',
                    (false, false) => 'S',
                };
                let (prev_comm, next_comm) = (Comm(prev, cpu), Comm(next, cpu));
                self.sink.write(format_args!(
                    "sched_switch: prev_comm={prev_comm} prev_pid={} prev_prio={prev_prio} \
                     prev_state={state} ==> next_comm={next_comm} next_pid={} \
                     next_prio={next_prio}\n",
                    prev.1, next.1
                ));
                let name = if next.1 == 0 { "<idle>" } else { next.0 };
                *comm = name.to_owned();
                *pid = next.1;
                *exiting = false;
            }
            Event::Wakeup {
                task,
                prio,
                target_cpu,
                new,
            } => {
                let name = if new {
                    "sched_wakeup_new"
                } else {
                    "sched_wakeup"
                };
                self.sink.write(format_args!(
                    "{name}: comm={} pid={} prio={prio} target_cpu={target_cpu:03}\n",
                    task.0, task.1
                ));
            }
            Event::Migrate {
                task,
                prio,
                from,
                to,
            } => self.sink.write(format_args!(
                "sched_migrate_task: comm={} pid={} prio={prio} orig_cpu={from} dest_cpu={to}\n",
                task.0, task.1
            )),
            Event::Fork { parent, child } => self.sink.write(format_args!(
                "sched_process_fork: comm={} pid={} child_comm={} child_pid={}\n",
                parent.0, parent.1, child.0, child.1
            )),
            Event::Exit { task, prio } => {
                *exiting = true;
                self.sink.write(format_args!(
                    "sched_process_exit: comm={} pid={} prio={prio}\n",
                    task.0, task.1
                ));
            }
            Event::Power { part, mw, pj } => self
                .sink
                .write(format_args!("power: part={part} mw={mw} pj={pj}\n")),
            Event::CpuFrequency { khz } => self
                .sink
                .write(format_args!("cpu_frequency: state={khz} cpu_id={cpu}\n")),
            Event::Printk(message) => self.sink.write(format_args!(
                "bpf_trace_printk: {}\n",
                message.trim_end().replace('\n', " ")
            )),
        }
    }
}

impl<W: Write> Writer for Ftrace<W> {
    fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }
}

/// A task's name as in `sched_switch`, where each CPU's idle task is called `swapper/CPU`.
struct Comm<'a>((&'a str, i32), usize);

impl std::fmt::Display for Comm<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            (_, 0) => write!(f, "swapper/{}", self.1),
            (comm, _) => f.write_str(comm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests_support::story;

    #[test]
    fn a_story_in_ftrace() {
        let mut text = Vec::new();
        let mut trace = Ftrace::new(&mut text, 2);
        story(&mut trace);
        trace.finish().unwrap();
        drop(trace);
        insta::assert_snapshot!(String::from_utf8(text).unwrap());
    }
}
