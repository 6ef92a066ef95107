//! Events that a trace lacks.

use super::builder::Builder;
use crate::event::Task;

/// The part of all switches, in %, that may contradict the switches before. Above it, there is no load to be replayed.
const MOST_CONTRADICTIONS_PCT: u64 = 10;

/// The part of all sleeps, in %, that may end without a wakeup in a complete trace. One of 619 sleeps did so in a
/// recording of perf.
const FEW_UNWOKEN_PCT: u64 = 1;

/// The expectation in errors about a trace that lacks a kind of event.
const EVENTS: &str = "expected events sched_switch, and sched_waking or sched_wakeup";
/// The expectation in errors about a trace of some threads only. perf records the switches of a command's threads only
/// when they leave a CPU; filters of ftrace and trace-cmd have similar effects.
const ALL_THREADS: &str = "expected the events of all threads; record the whole system, as with `perf sched record`, `perf record -a` or `trace-cmd record`, without a filter";

pub struct NoLoad {
    pub message: String,
    pub expected: &'static str,
}

impl NoLoad {
    pub fn new(message: impl Into<String>) -> NoLoad {
        NoLoad {
            message: message.into(),
            expected: EVENTS,
        }
    }
}

impl Builder<'_> {
    /// Counts a switch on `cpu` from the thread `prev` if another thread ran there.
    pub fn check_order(&mut self, cpu: usize, prev: Task) {
        let fits = match self.cpus[cpu].runs {
            Some(runs) => self.by_pid.get(&prev.pid) == Some(&runs),
            None => prev.pid == 0,
        };
        self.contradictions += u64::from(self.cpus[cpu].known && !fits);
    }

    /// Accounts for `thread`, whose turn ends with the first switch of `cpu`. The thread has been running since the
    /// beginning of the trace. If events were lost, an earlier switch may be missing, so the thread counts from the
    /// CPU's first event: ftrace overwrites the oldest events of each CPU separately, so the events of a busy CPU may
    /// begin much later.
    pub fn begin(&mut self, cpu: usize, now: u64, thread: u32, is_new: bool) {
        let since = match self.summary.lost {
            0 => self.first,
            _ => self.cpus[cpu].first,
        };
        let since = since.unwrap_or(now);
        if is_new {
            self.threads[thread as usize].from = since;
        }
        self.cpus[cpu].since = since;
        self.cpus[cpu].runs = Some(thread);
        self.account(cpu, now);
    }

    /// Checks at the end of the trace that it has the events of a load.
    pub fn check_complete(&mut self) -> Result<(), NoLoad> {
        let (switches, wrong) = (self.summary.switches, self.contradictions);
        if switches == 0 {
            return Err(NoLoad::new(match self.summary.events {
                0 => "no scheduling event",
                _ => "no sched_switch",
            }));
        }
        let contradiction = format!(
            "at {wrong} of {switches} switches, a thread leaves a CPU on which another thread ran"
        );
        if wrong * 100 > switches * MOST_CONTRADICTIONS_PCT {
            return Err(NoLoad {
                message: format!("{contradiction}: the trace lacks the events of other threads"),
                expected: ALL_THREADS,
            });
        }
        // If threads sleep and run again although the trace has no wakeups, the trace does not distinguish sleeping
        // from waiting, and a simulation in which threads wait for any time would pass.
        if self.unwoken > 0 && !self.wakes {
            return Err(NoLoad::new("threads sleep, but the trace has no wakeups"));
        }
        if self.summary.lost > 0 {
            return Ok(());
        }
        if wrong > 0 {
            self.summary.notes.push(format!(
                "{contradiction}, so the trace lacks switches, and runs are too long"
            ));
        }
        let (sleeps, unwoken) = (self.sleeps, self.unwoken);
        if unwoken * 100 > sleeps * FEW_UNWOKEN_PCT {
            self.summary.notes.push(format!(
                "{unwoken} of {sleeps} sleeps {} without a wakeup, so the trace lacks wakeups, or the events of some CPUs",
                if unwoken == 1 { "ends" } else { "end" }
            ));
        }
        Ok(())
    }
}
