//! ftrace's text format: one event per line, as the kernel prints its tracepoints.

use super::Format;
use super::Sink;
use super::tracepoint::{Averages, Class, Record, SwitchComm, Tracepoint, comm, idle_state};
use std::fmt;
use std::io::{self, Write};

/// The head of the file; `CPUS` is a number.
const HEADER: &str = "\
# tracer: nop
#
#                                          P:CPUS
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP          FUNCTION
#              | |         |   |||||     |                  |
";

/// Writes the format of `/sys/kernel/tracing/trace`, which Perfetto reads as systrace, with the times in ns.
pub(crate) struct Text<W> {
    sink: Sink<W>,
}

impl<W: Write> Text<W> {
    /// A trace of `cpus` CPUs.
    pub fn new(out: W, cpus: usize) -> Text<W> {
        let mut sink = Sink::new(out);
        let header = HEADER.replace("P:CPUS", &format!("#P:{cpus}"));
        sink.write(format_args!("{header}"));
        Text { sink }
    }
}

impl<W: Write> Format for Text<W> {
    fn record(&mut self, record: Record<'_>) {
        let Record {
            now, cpu, current, ..
        } = record;
        let (seconds, ns) = (now / 1_000_000_000, now % 1_000_000_000);
        self.sink.write(format_args!(
            "{:>16}-{:<7} [{cpu:03}] ..... {seconds:5}.{ns:09}: {}: {}\n",
            comm(current.0),
            current.1,
            // Texts written to trace_marker.
            record.event.name().unwrap_or("tracing_mark_write"),
            Fields(&record),
        ));
    }

    fn finish(&mut self, _: u64) -> io::Result<()> {
        self.sink.finish()
    }
}

/// An event's fields as the kernel prints them.
pub(super) struct Fields<'a>(pub &'a Record<'a>);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.0.cpu;
        match self.0.event {
            Tracepoint::SchedSwitch {
                prev,
                prev_prio,
                prev_state,
                next,
                next_prio,
            } => write!(
                f,
                "prev_comm={} prev_pid={} prev_prio={prev_prio} prev_state={} ==> next_comm={} next_pid={} \
                 next_prio={next_prio}",
                SwitchComm(prev, cpu),
                prev.1,
                prev_state.letter(),
                SwitchComm(next, cpu),
                next.1
            ),
            Tracepoint::SchedWakeup {
                task,
                prio,
                target_cpu,
                ..
            } => write!(
                f,
                "comm={} pid={} prio={prio} target_cpu={target_cpu:03}",
                comm(task.0),
                task.1
            ),
            Tracepoint::SchedMigrateTask {
                task,
                prio,
                orig_cpu,
                dest_cpu,
            } => write!(
                f,
                "comm={} pid={} prio={prio} orig_cpu={orig_cpu} dest_cpu={dest_cpu}",
                comm(task.0),
                task.1
            ),
            Tracepoint::SchedProcessFork { parent, child_pid } => write!(
                f,
                "comm={0} pid={1} child_comm={0} child_pid={child_pid}",
                comm(parent.0),
                parent.1
            ),
            Tracepoint::SchedProcessExit { task, prio } => {
                write!(f, "comm={} pid={} prio={prio}", comm(task.0), task.1)
            }
            Tracepoint::TaskRename {
                pid,
                oldcomm,
                newcomm,
            } => write!(
                f,
                "pid={pid} oldcomm={} newcomm={} oom_score_adj=0",
                comm(oldcomm),
                comm(newcomm)
            ),
            Tracepoint::CpuIdle { state } => write!(f, "state={} cpu_id={cpu}", idle_state(state)),
            Tracepoint::CpuFrequency { state } => write!(f, "state={state} cpu_id={cpu}"),
            Tracepoint::SchedCpuCapacity { orig, curr } => write!(
                f,
                "cpu={cpu} capacity={orig} capacity_orig={orig} capacity_curr={curr}"
            ),
            Tracepoint::SchedPeltSe { cpu, task, average } => write!(
                f,
                "cpu={cpu} path=(null) comm={} pid={} {} update_time={}",
                comm(task.0),
                task.1,
                Rounded(average),
                average.updated
            ),
            Tracepoint::SchedPelt { class, average } => {
                let path = if class == Class::Fair { "path=/ " } else { "" };
                let averages = Rounded(average);
                write!(
                    f,
                    "cpu={cpu} {path}{averages} update_time={}",
                    average.updated
                )
            }
            Tracepoint::BpfTracePrintk { message } => {
                let message = message.trim_end().replace('\n', " ");
                f.write_str(&cage::text::plain(&message))
            }
            // The format of Android's atrace for a counter; process 0 stands for no process.
            Tracepoint::Counter { part, unit, value } => write!(f, "C|0|{part} {unit}|{value}"),
            // The format of atrace for an instant.
            Tracepoint::Decision { what, why, .. } => write!(f, "I|0|{what}: {why}"),
        }
    }
}

struct Rounded(Averages);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Averages {
            load,
            runnable,
            util,
            ..
        } = self.0;
        write!(f, "load={load:.0} runnable={runnable:.0} util={util:.0}")
    }
}
