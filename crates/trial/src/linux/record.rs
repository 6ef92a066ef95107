//! Recording during turns, and what it costs.

use crate::{Recorded, Thread, Turn};
use recorder::{Options, Recorder};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use trace::import::{Imported, import};
use workload::recording::{self, Step};

/// The largest cost of recording, in per cent of the load's CPU time, with which it goes on by itself.
const MOST_PCT: f64 = 1.0;
const BUFFER_KIB: u32 = 8 << 10;
/// The measurement of an event's cost: round trips of a byte between two threads, and repetitions.
const TRIPS: u32 = 200;
const REPEATS: usize = 25;

/// Whether to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The first block; the others if that costs at most 1 % of the load's CPU time.
    Auto,
    /// Every block.
    Always,
    /// No block.
    Never,
}

/// The cost of recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The time that an event takes, ns: measured on this computer; 0 if it was too noisy for that.
    pub event_ns: f64,
    /// The largest share of the load's CPU time of any turn, per cent.
    pub most_pct: f64,
    /// Are the blocks that count without a recording because of it?
    pub is_too_much: bool,
}

/// The recordings of a trial.
pub struct Recording {
    record: Record,
    cost: Option<Cost>,
    /// A `trace.dat` of a turn under the kernel's own scheduler.
    pub kept: Option<Vec<u8>>,
}

impl Recording {
    /// Measures the cost of an event, unless nothing is recorded. It is an error if tracefs is not writable.
    pub fn new(record: Record) -> io::Result<Recording> {
        let cost = match record {
            Record::Never => None,
            Record::Auto | Record::Always => Some(Cost {
                event_ns: event_ns()?,
                ..Cost::default()
            }),
        };
        Ok(Recording {
            record,
            cost,
            kept: None,
        })
    }

    /// The cost so far.
    pub fn cost(&self) -> Option<&Cost> {
        self.cost.as_ref()
    }

    /// A recorder for the next turn; `None` if it is not to be recorded.
    pub fn recorder(&self) -> io::Result<Option<Recorder>> {
        let records = self.cost.as_ref().is_some_and(|it| !it.is_too_much);
        records.then(recorder).transpose()
    }

    /// Adds the turn's cost. Without a command, its CPU time is that of all CPUs.
    pub fn charge(&mut self, turn: &Turn) {
        if let (Some(cost), Some(recorded)) = (&mut self.cost, &turn.recorded) {
            let busy = turn.cpu_ns.unwrap_or_else(|| turn.busy_ns.values().sum());
            let pct = 100.0 * recorded.events as f64 * cost.event_ns / busy.max(1) as f64;
            cost.most_pct = cost.most_pct.max(pct);
        }
    }

    /// The first block is over: is its cost too much?
    pub fn decide(&mut self) {
        if let Some(cost) = &mut self.cost {
            let is_cheap = cost.event_ns > 0.0 && cost.most_pct <= MOST_PCT;
            cost.is_too_much = self.record == Record::Auto && !is_cheap;
        }
    }

    /// The measurements from the recording of a turn; `None` if it has no load. That of the kernel's `own` scheduler is
    /// kept.
    pub fn read(&mut self, recorder: &mut Recorder, own: bool) -> io::Result<Option<Recorded>> {
        let mut trace = Vec::new();
        recorder.write(&mut trace)?;
        let lost = recorder.instance.lost();
        let found = import("the recording", &trace[..], None).ok();
        if own && self.kept.is_none() && found.is_some() {
            self.kept = Some(trace);
        }
        Ok(found.map(|found| Recorded {
            lost,
            ..recorded(&found)
        }))
    }
}

fn recorder() -> io::Result<Recorder> {
    Recorder::new(&Options {
        buffer_kib: BUFFER_KIB,
        pipes: false,
        futexes: false,
        folder: Path::new("/var/tmp"),
    })
}

/// The measurements of a recording, by the threads' names.
pub fn recorded(found: &Imported) -> Recorded {
    let mut threads: BTreeMap<&str, Thread> = BTreeMap::new();
    for did in &found.summary.threads {
        let thread = threads.entry(&did.name).or_default();
        thread.name.clone_from(&did.name);
        thread.ran_ns += did.ran_ns;
        thread.turns += did.turns;
        thread.migrations += did.migrations;
        thread.latencies_ns.extend(&did.latencies_ns);
    }
    for periodic in &found.recording.threads {
        if let Some(thread) = threads.get_mut(&*periodic.name) {
            let (periods, missed) = periods(periodic);
            thread.periods += periods;
            thread.missed += missed;
        }
    }
    Recorded {
        events: found.summary.events,
        lost: found.summary.lost,
        switches: found.summary.switches,
        threads: threads.into_values().collect(),
    }
}

/// The number of periods of a thread, and of those that it missed: it was still at work when the next one
/// began, so no sleep ended there, and the next release comes two periods or more after the last one.
fn periods(thread: &recording::Thread) -> (u64, u64) {
    let Some(period) = &thread.period else {
        return (0, 0);
    };
    let steps = thread.steps.windows(2);
    let mut releases = steps.filter_map(|pair| match pair {
        [Step::Until(at), Step::Release] => Some(*at),
        _ => None,
    });
    let Some(mut last) = releases.next() else {
        return (0, 0);
    };
    let (mut all, mut missed) = (0, 0);
    for at in releases {
        let passed = ((at - last.min(at)) + period.ns / 2) / period.ns;
        all += passed.max(1);
        missed += passed.saturating_sub(1);
        last = at;
    }
    (all, missed)
}

/// The time that an event takes, ns: the difference of the fastest round trips with and without the recorder, for
/// each event of them; 0 if noise hides it. Both threads are on one CPU, so that no CPU's wakeup from idle is in it.
fn event_ns() -> io::Result<f64> {
    let everywhere = sched_getaffinity(None)?;
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here)?;
    let measured = measured_event_ns();
    sched_setaffinity(None, &everywhere)?;
    measured
}

fn measured_event_ns() -> io::Result<f64> {
    let mut without = Vec::new();
    for _ in 0..REPEATS {
        without.push(trips()?);
    }
    let mut recorder = recorder()?;
    recorder.begin()?;
    let mut with = Vec::new();
    for _ in 0..REPEATS {
        with.push(trips()?);
    }
    recorder.end()?;
    let mut trace = Vec::new();
    recorder.write(&mut trace)?;
    let events = import("the recording", &trace[..], None).map_or(0, |it| it.summary.events);
    let fastest = |times: Vec<Duration>| times.into_iter().min().unwrap_or_default();
    let more = fastest(with).saturating_sub(fastest(without));
    let events_each = events as f64 / REPEATS as f64;
    Ok(more.as_nanos() as f64 / events_each.max(1.0))
}

/// The time of some round trips of a byte between two threads.
fn trips() -> io::Result<Duration> {
    let (mut to, mut there) = {
        let (reader, writer) = io::pipe()?;
        (writer, reader)
    };
    let (mut back, mut from) = io::pipe()?;
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && from.write_all(&byte).is_ok() {}
    });
    let began = Instant::now();
    for _ in 0..TRIPS {
        to.write_all(&[0])?;
        back.read_exact(&mut [0])?;
    }
    let time = began.elapsed();
    drop(to);
    let _ = echo.join();
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::recording::Period;

    fn periodic(releases: &[u64]) -> recording::Thread {
        let step = |&ms: &u64| [Step::Run(1), Step::Until(ms * 1_000_000), Step::Release];
        recording::Thread {
            name: "ui".to_owned(),
            nice: 0,
            fifo: None,
            period: Some(Period {
                ns: 10_000_000,
                confidence: None,
                woken_by: None,
            }),
            steps: releases.iter().flat_map(step).collect(),
        }
    }

    #[test]
    fn a_period_without_a_release_is_missed() {
        assert_eq!(periods(&periodic(&[10, 20, 30, 40])), (3, 0));
        assert_eq!(periods(&periodic(&[10, 20, 50, 60])), (5, 2));
        assert_eq!(periods(&periodic(&[10])), (0, 0));
        assert_eq!(periods(&periodic(&[])), (0, 0));
        let mut without = periodic(&[10, 20]);
        without.period = None;
        assert_eq!(periods(&without), (0, 0));
    }

    #[test]
    fn a_cost_above_one_per_cent_ends_recording() {
        let decided_at = |event_ns, record, events| {
            let mut recording = Recording {
                record,
                cost: Some(Cost {
                    event_ns,
                    ..Cost::default()
                }),
                kept: None,
            };
            recording.charge(&Turn {
                cpu_ns: Some(1_000_000),
                recorded: Some(Recorded {
                    events,
                    ..Recorded::default()
                }),
                ..Turn::default()
            });
            recording.decide();
            recording.cost().unwrap().is_too_much
        };
        let decided = |record, events| decided_at(100.0, record, events);
        assert!(decided_at(0.0, Record::Auto, 1));
        assert!(!decided(Record::Auto, 100));
        assert!(decided(Record::Auto, 101));
        assert!(!decided(Record::Always, 1000));
    }
}
