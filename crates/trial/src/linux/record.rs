//! Recording during turns, and the cost of recording.

use super::windows::Windows;
use crate::{Recorded, Thread, Turn};
use recorder::{Events, Options, Recorder};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use trace::import::{self, Imported, Summary, import};
use workload::Rng;
use workload::recording::{self, Step};

/// The cost of recording, in per cent of the load's CPU time, for which the recorded share of a turn is chosen. It is
/// less than the promised 1 %, because the cost of an event is an estimate.
const AIM_PCT: f64 = 0.6;
const BUFFER_KIB: u32 = 8 << 10;
/// The number of round trips of a byte between two threads in a measurement of an event's cost, and the number of such
/// measurements.
const TRIPS: u32 = 200;
const REPEATS: usize = 25;
/// The number of measurements of a window's cost.
const WINDOWS: usize = 3;

/// The turns to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The first block is recorded, and as much of the other blocks as costs at most 1 % of the load's CPU time.
    Auto,
    /// Every block is recorded.
    Always,
    /// No block is recorded.
    Never,
}

/// The cost of recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The time that an event takes, in ns, measured on this computer; 0 if the computer was too noisy for a
    /// measurement.
    pub event_ns: f64,
    /// The largest cost of a turn in the blocks that count, in per cent of the load's CPU time.
    pub most_pct: f64,
    /// The CPU time in ns that a window takes, in which a part of a turn is recorded, measured on this computer.
    #[serde(default)]
    pub window_ns: u64,
    /// Is nothing recorded any more because of the cost?
    pub is_too_much: bool,
    /// The share of each turn that is recorded in the last block that began, in %.
    #[serde(default = "all_pct")]
    pub share_pct: f64,
}

/// The cost of recording in a block, in per cent of the load's CPU time.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The largest cost that the events of a whole turn would have.
    events_pct: f64,
    /// The largest cost of a turn's windows.
    windows_pct: f64,
    /// The shortest turn in ns.
    turn_ns: u64,
}

fn all_pct() -> f64 {
    100.0
}

pub struct Recording {
    record: Record,
    cost: Option<Cost>,
    /// The cost of the turns of the current block so far.
    block: Option<Block>,
    /// Is the current block over?
    is_over: bool,
    /// The share of a turn to record, and the expected time of the turn in ns; `None` in the first block, which is
    /// recorded completely.
    sampled: Option<(f64, u64)>,
    rng: Rng,
    /// Should a turn be kept?
    keeps: bool,
    /// A `trace.dat` of a turn in the first block, under the kernel's own scheduler, which can be replayed.
    pub kept: Option<Vec<u8>>,
}

impl Recording {
    /// Measures the cost of an event, unless nothing is recorded. If `keeps` is set, one turn is kept, which can be
    /// replayed. It is an error if tracefs is not writable.
    pub fn new(record: Record, keeps: bool) -> io::Result<Recording> {
        let cost = match record {
            Record::Never => None,
            Record::Auto | Record::Always => Some(Cost {
                share_pct: all_pct(),
                ..on_one_cpu(measured)?
            }),
        };
        Ok(Recording {
            keeps,
            ..Recording::with(record, cost)
        })
    }

    fn with(record: Record, cost: Option<Cost>) -> Recording {
        Recording {
            record,
            cost,
            block: None,
            is_over: false,
            sampled: None,
            rng: Rng::new(1),
            keeps: false,
            kept: None,
        }
    }

    pub fn cost(&self) -> Option<&Cost> {
        self.cost.as_ref()
    }

    /// A recorder for the next turn, under the kernel's `own` scheduler or another scheduler; `None` if the turn is not
    /// to be recorded.
    pub fn recorder(&mut self, own: bool) -> io::Result<Option<TurnRecorder>> {
        if std::mem::take(&mut self.is_over) {
            self.decide();
        }
        if self.cost.as_ref().is_none_or(|it| it.is_too_much) {
            return Ok(None);
        }
        let keeps = self.keeps && own && self.kept.is_none() && self.sampled.is_none();
        let events = match keeps {
            true => Events::All,
            false => Events::Waits,
        };
        let windows = self.sampled.filter(|(share, _)| *share < 1.0);
        let windows = windows.map(|(share, ns)| {
            let seed = self.rng.bits();
            Windows::new(share, ns, Rng::new(seed))
        });
        Ok(Some(TurnRecorder::new(recorder(events)?, windows, keeps)))
    }

    /// Adds the cost of recording the turn. If there is no command, the load's CPU time is that of all CPUs.
    fn charge(&mut self, turn: &Turn) {
        let (Some(cost), Some(recorded)) = (&mut self.cost, &turn.recorded) else {
            return;
        };
        let busy = turn.cpu_ns.unwrap_or_else(|| turn.busy_ns.values().sum());
        let pct = |ns: f64| 100.0 * ns / busy.max(1) as f64;
        let events_pct = pct(recorded.events as f64 * cost.event_ns);
        let own_pct = pct(recorded.own_ns as f64);
        // The recorder takes CPU time for the windows or, without windows, for emptying the buffers that the events
        // fill.
        let (events_pct, windows_pct) = match recorded.window_ns {
            0 => {
                let windows = Windows::count(turn.elapsed_ns) * cost.window_ns;
                (events_pct + own_pct, pct(windows as f64))
            }
            _ => (events_pct * recorded.scale(turn), own_pct),
        };
        if self.sampled.is_some() {
            cost.most_pct = cost
                .most_pct
                .max(pct(cost.event_ns * recorded.events as f64) + own_pct);
        }
        let block = self.block.get_or_insert(Block {
            events_pct: 0.0,
            windows_pct: 0.0,
            turn_ns: u64::MAX,
        });
        block.events_pct = block.events_pct.max(events_pct);
        block.windows_pct = block.windows_pct.max(windows_pct);
        block.turn_ns = block.turn_ns.min(turn.elapsed_ns);
    }

    /// Ends the current block.
    pub fn end_block(&mut self) {
        self.is_over = true;
    }

    /// Decides, from the block that is over, which share of each turn of the block that begins is recorded. No block
    /// may follow the last one, so [`Recording::cost`] would otherwise have a share with which no turn was recorded.
    fn decide(&mut self) {
        let Some(cost) = &mut self.cost else { return };
        let Some(block) = self.block.take() else {
            return;
        };
        let share = match self.record {
            Record::Always | Record::Never => 1.0,
            // If the cost of an event is not known, the cost of recording is not known either.
            Record::Auto if cost.event_ns <= 0.0 => 0.0,
            Record::Auto if block.events_pct <= AIM_PCT => 1.0,
            Record::Auto => ((AIM_PCT - block.windows_pct) / block.events_pct).max(0.0),
        };
        cost.share_pct = 100.0 * share;
        cost.is_too_much = share <= 0.0;
        self.sampled = Some((share, block.turn_ns));
    }

    /// Adds the figures of the recording to `turn`, if the recording has a load. Adds the turn to the cost of
    /// recording, unless the recording is kept.
    pub fn read(&mut self, by: TurnRecorder, turn: &mut Turn) -> io::Result<()> {
        let keeps = by.keeps;
        turn.recorded = self.recorded(by)?;
        if !keeps {
            self.charge(turn);
        }
        Ok(())
    }

    fn recorded(&mut self, turn: TurnRecorder) -> io::Result<Option<Recorded>> {
        let TurnRecorder { mut recorder, .. } = turn;
        let mut trace = Vec::new();
        recorder.write(&mut trace)?;
        let lost = recorder.instance.lost();
        let name = "the recording";
        let found = match turn.windows {
            Some(_) => import::windows(name, &trace[..]).unwrap_or_default(),
            None => import(name, &trace[..], None).into_iter().collect(),
        };
        let is_found = !found.is_empty();
        if turn.keeps && is_found {
            self.kept = Some(trace);
        }
        Ok(is_found.then(|| Recorded {
            lost,
            window_ns: turn.windows.as_ref().map_or(0, |_| turn.covered_ns),
            own_ns: turn.own_ns,
            ..recorded(&found)
        }))
    }
}

fn recorder(events: Events) -> io::Result<Recorder> {
    Recorder::new(&Options {
        buffer_kib: BUFFER_KIB,
        events,
        pipes: events == Events::All,
        futexes: events == Events::All,
        folder: Path::new("/var/tmp"),
    })
}

pub struct TurnRecorder {
    recorder: Recorder,
    /// The windows to record; `None` if the whole turn is recorded.
    windows: Option<Windows>,
    keeps: bool,
    current: Range<u64>,
    is_open: bool,
    began: Instant,
    opened_ns: u64,
    /// The time in closed windows in ns.
    covered_ns: u64,
    /// The CPU time that changes of windows and the emptying of buffers took from the load, in ns.
    own_ns: u64,
}

impl TurnRecorder {
    fn new(recorder: Recorder, mut windows: Option<Windows>, keeps: bool) -> TurnRecorder {
        TurnRecorder {
            current: windows.iter_mut().flatten().next().unwrap_or_default(),
            recorder,
            windows,
            keeps,
            is_open: false,
            began: Instant::now(),
            opened_ns: 0,
            covered_ns: 0,
            own_ns: 0,
        }
    }

    /// Begins to record when a turn begins; `others` are threads outside the load.
    pub fn begin(&mut self, others: &[i32]) -> io::Result<()> {
        match self.windows {
            Some(_) => self.recorder.begin_windows()?,
            None => {
                self.recorder.begin()?;
                for thread in others {
                    self.recorder.mark("recorder", *thread)?;
                }
            }
        }
        self.began = Instant::now();
        Ok(())
    }

    /// Records that process `pid` is the load.
    pub fn mark_load(&self, pid: i32) -> io::Result<()> {
        match self.windows {
            Some(_) => Ok(()),
            None => self.recorder.mark("load", pid),
        }
    }

    /// Opens or closes a window when it is due, and returns the time until the next change. `threads` has the threads
    /// of the load, and other threads that are not part of the load.
    pub fn step(&mut self, threads: impl Fn() -> [Vec<i32>; 2]) -> io::Result<Duration> {
        let Some(windows) = &mut self.windows else {
            return Ok(Duration::MAX);
        };
        let now = self.began.elapsed().as_nanos() as u64;
        let before = own_ns();
        if self.is_open && now >= self.current.end {
            self.recorder.close()?;
            self.is_open = false;
            let closed = self.began.elapsed().as_nanos() as u64;
            self.covered_ns += closed - self.opened_ns;
            self.current = windows.next().unwrap_or_default();
        } else if !self.is_open && now >= self.current.start {
            let [load, others] = threads();
            let opened = self.recorder.open(&load, &others)?;
            self.is_open = true;
            self.opened_ns = (opened - self.began).as_nanos() as u64;
        }
        let next = match self.is_open {
            true => self.current.end,
            false => self.current.start,
        };
        self.own_ns += own_ns() - before;
        let now = self.began.elapsed().as_nanos() as u64;
        Ok(Duration::from_nanos(next.saturating_sub(now)))
    }

    /// Waits for the end of the process of `exit`, for at most `time`, and empties buffers that are half full.
    pub fn wait(&mut self, exit: Option<&OwnedFd>, time: Duration) -> io::Result<bool> {
        let seen = self.recorder.wait(exit, time)?;
        if seen.half_full {
            let before = own_ns();
            self.recorder.drain(false)?;
            self.own_ns += own_ns() - before;
        }
        Ok(seen.ended)
    }

    /// Ends the recording when the load has ended.
    pub fn end(&mut self) -> io::Result<()> {
        if self.is_open {
            self.is_open = false;
            self.covered_ns += self.began.elapsed().as_nanos() as u64 - self.opened_ns;
        }
        self.recorder.end()
    }
}

fn own_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The measurements of the windows of a recording, by the threads' names.
fn recorded(windows: &[Imported]) -> Recorded {
    let mut threads: BTreeMap<&str, Thread> = BTreeMap::new();
    for did in windows.iter().flat_map(|it| &it.summary.threads) {
        let thread = threads.entry(&did.name).or_default();
        thread.name.clone_from(&did.name);
        thread.ran_ns += did.ran_ns;
        thread.turns += did.turns;
        thread.migrations += did.migrations;
        thread.latencies_ns.extend(&did.latencies_ns);
    }
    for periodic in windows.iter().flat_map(|it| &it.recording.threads) {
        if let Some(thread) = threads.get_mut(&*periodic.name) {
            let (periods, missed) = periods(periodic);
            thread.periods += periods;
            thread.missed += missed;
        }
    }
    let sum = |of: fn(&Summary) -> u64| windows.iter().map(|it| of(&it.summary)).sum();
    Recorded {
        events: sum(|it| it.events),
        lost: sum(|it| it.lost),
        switches: sum(|it| it.switches),
        threads: threads.into_values().collect(),
        ..Recorded::default()
    }
}

/// The number of periods of a thread, and the number of missed periods. If a thread is still at work when its next
/// period begins, no sleep ends there, and the next release comes at least two periods after the last one.
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

/// Calls `measured` on one CPU, so that the measured time includes no exit from an idle state.
fn on_one_cpu<T>(measured: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let everywhere = sched_getaffinity(None)?;
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here)?;
    let measured = measured();
    sched_setaffinity(None, &everywhere)?;
    measured
}

/// The cost of an event and of a window. The cost of an event is the difference between the fastest round trips with
/// and without the recorder, divided by their number of events, or 0 if noise hides the difference.
fn measured() -> io::Result<Cost> {
    let mut without = Vec::new();
    for _ in 0..REPEATS {
        without.push(trips()?);
    }
    let mut recorder = recorder(Events::Waits)?;
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
    recorder.begin_windows()?;
    let mut windows = Vec::new();
    for _ in 0..WINDOWS {
        let before = own_ns();
        recorder.open(&[], &[])?;
        recorder.close()?;
        windows.push(own_ns() - before);
    }
    Ok(Cost {
        event_ns: more.as_nanos() as f64 / events_each.max(1.0),
        window_ns: windows.into_iter().max().unwrap_or(0),
        ..Cost::default()
    })
}

/// The time of [`TRIPS`] round trips of a byte between two threads.
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

    /// The share in % of the next block's turns that is recorded, after a block with a turn of 1 ms of CPU time.
    fn share_after(record: Record, event_ns: f64, recorded: Recorded) -> Option<f64> {
        let cost = Cost {
            event_ns,
            ..Cost::default()
        };
        let mut recording = Recording::with(record, Some(cost));
        recording.charge(&Turn {
            elapsed_ns: 1_000_000,
            cpu_ns: Some(1_000_000),
            recorded: Some(recorded),
            ..Turn::default()
        });
        recording.end_block();
        let cost = recording.cost().unwrap();
        assert_eq!(
            (cost.is_too_much, cost.share_pct),
            (false, 0.0),
            "no turn follows yet"
        );
        recording.decide();
        let cost = recording.cost().unwrap();
        (!cost.is_too_much).then_some(cost.share_pct)
    }

    #[test]
    fn the_recorded_share_of_a_turn_depends_on_the_cost_of_all_of_it() {
        let events = |events| Recorded {
            events,
            ..Recorded::default()
        };
        let share = |record, recorded| share_after(record, 100.0, recorded).map(f64::round);
        assert_eq!(share(Record::Auto, events(10)), Some(100.0));
        assert_eq!(share(Record::Auto, events(600)), Some(10.0));
        assert_eq!(share(Record::Always, events(600)), Some(100.0));
        let of = |own_ns, window_ns, count| Recorded {
            own_ns,
            window_ns,
            ..events(count)
        };
        assert_eq!(share(Record::Auto, of(60_000, 0, 0)), Some(10.0));
        // A tenth of the turn was recorded. The window took half of the allowed time, or all of it.
        assert_eq!(share(Record::Auto, of(0, 100_000, 60)), Some(10.0));
        assert_eq!(share(Record::Auto, of(3_000, 100_000, 60)), Some(5.0));
        assert_eq!(share(Record::Auto, of(6_000, 100_000, 60)), None);
        assert_eq!(share_after(Record::Auto, 0.0, events(1)), None);
    }
}
