//! A recorded load: each thread's computing, sleeps and wakers.
//!
//! The file is JSON, as defined by [`Recording`]; `equipoise workload import` writes it.

mod job;
mod replay;

use crate::SLICES_NS;
use machine::input::BadInput;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

pub use replay::Replay;

/// The version of the file's format.
pub const VERSION: u32 = 5;
/// The first version of the format. It had no streams, the second version had no mutexes, the third had no periods, and
/// the fourth had no slices.
const FIRST_VERSION: u32 = 1;
/// The longest step or period in ns: a day, after which a simulation ends in any case.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// The largest number of mutexes, which limits a run's memory.
const MOST_MUTEXES: u32 = 1 << 20;

/// A recording.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The version of the file's format: [`VERSION`], or an older one.
    pub recording: u32,
    /// A description of one line.
    #[serde(default)]
    pub description: String,
    /// The capacity of each pipe, and of each direction of a socket. Steps refer to these by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<u64>,
    /// The number of mutexes, to which steps refer by number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mutexes: u32,
    /// The threads, which refer to each other by index.
    pub threads: Vec<Thread>,
}

/// A thread.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// The thread's name (`comm`).
    pub name: String,
    /// The nice value, -20 to 19.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nice: i8,
    /// The priority of `SCHED_FIFO`, 1 to 99; `None` for a normal thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fifo: Option<u8>,
    /// The thread's period, from which its deadlines follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// The thread's activity.
    pub steps: Vec<Step>,
}

/// The period of a thread. Each [`Step::Release`] begins a period, and the thread has to complete its work before the
/// next period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// The length of the period, in ns.
    pub ns: u64,
    /// The percentage of wakeups that came a period after the previous one, corrected for chance: 0 stands for the
    /// percentage that chance explains. With `woken_by`, it is the waker's confidence or, if this is less, the
    /// percentage of the waker's periods in which it woke this thread. `None` if the user has set the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<u8>,
    /// The periodic thread that wakes this one once per period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<usize>,
}

fn is_default<T: Default + PartialEq>(it: &T) -> bool {
    *it == T::default()
}

/// A step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Computes for this time, in ns at the speed of the recording machine's fastest core.
    Run(u64),
    /// Sleeps for this time, in ns.
    Sleep(u64),
    /// Sleeps until this time after the beginning, in ns, as a thread with a periodic timer does; does not sleep if the
    /// time has passed.
    Until(u64),
    /// Waits until other threads have woken this thread more often than it has waited.
    Wait,
    /// Wakes up this thread.
    Wake(usize),
    /// Takes this number of bytes out of the stream; waits until they have arrived.
    Read(u32, u64),
    /// Puts this number of bytes into the stream; waits until there is room.
    Write(u32, u64),
    /// Locks this mutex; waits until it is free.
    Lock(u32),
    /// Unlocks this mutex.
    Unlock(u32),
    /// From now on the thread may run on these CPUs, a bit for each of the first 64; `None` stands for all CPUs.
    /// Threads that this thread starts inherit the set.
    Cpus(#[serde(deserialize_with = "cpus")] Option<u64>),
    /// Requests slices of this length, 0.1 to 100 ms in ns, from now on; 0 is the default.
    Slice(u64),
    /// The previous step, a sleep or wait, was the end of a period, and another period begins.
    Release,
    /// Starts this thread. A thread that no step starts exists from the beginning.
    Fork(usize),
}

/// A mask or `None`; older versions wrote all bits for `None`.
fn cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let mask = Option::deserialize(from)?;
    Ok(mask.filter(|&mask| mask != u64::MAX))
}

impl Recording {
    /// Parses `text`, the content of `file`.
    pub fn parse(file: &str, text: &str) -> Result<Recording, Box<BadInput>> {
        let mut recording: Recording = serde_json::from_str(text).map_err(|error| {
            let lines = text
                .split_inclusive('\n')
                .take(error.line().saturating_sub(1));
            let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
            let expected = "expected a recording, as `equipoise workload import` writes it";
            Box::new(BadInput::at(
                file,
                text,
                at..at + 1,
                error.to_string(),
                expected,
            ))
        })?;
        for thread in &mut recording.threads {
            if !cage::text::is_plain(&thread.name) {
                thread.name = cage::text::plain(&thread.name).into_owned();
            }
        }
        recording.check().map_err(|message| {
            Box::new(BadInput::whole(
                format!("{file}: {message}"),
                "expected a recording, as `equipoise workload import` writes it",
            ))
        })?;
        Ok(recording)
    }

    /// Checks that the recording is consistent. The error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if !(FIRST_VERSION..=VERSION).contains(&self.recording) {
            return Err(format!(
                "version {} is not supported; this program reads {FIRST_VERSION} to {VERSION}",
                self.recording
            ));
        }
        if self.threads.is_empty() {
            return Err("no thread".to_owned());
        }
        if self.mutexes > MOST_MUTEXES {
            return Err(format!(
                "{} mutexes; expected at most {MOST_MUTEXES}",
                self.mutexes
            ));
        }
        for index in 0..self.threads.len() {
            self.check_thread(index)?;
            self.check_mutexes(index)?;
        }
        self.check_starts()?;
        self.check_waits()
    }

    /// Checks the settings and the steps of thread `index`, except for its mutexes.
    fn check_thread(&self, index: usize) -> Result<(), String> {
        let thread = &self.threads[index];
        if !(-20..=19).contains(&thread.nice)
            || thread.fifo.is_some_and(|it| !(1..=99).contains(&it))
        {
            return Err(format!(
                "thread {index} has an invalid priority; expected `nice` from -20 to 19, and `fifo` from 1 to 99"
            ));
        }
        let names_waker =
            |period: &Period| period.woken_by.is_none_or(|it| it < self.threads.len());
        if thread
            .period
            .is_some_and(|it| it.ns == 0 || it.ns > LONGEST_NS || !names_waker(&it))
        {
            return Err(format!(
                "thread {index} has an impossible period; expected 1 ns to a day, and a waker that exists"
            ));
        }
        for &step in &thread.steps {
            let wrong = match step {
                Step::Run(ns) | Step::Sleep(ns) | Step::Until(ns) if ns > LONGEST_NS => {
                    format!("has a step of {ns} ns; expected at most a day, {LONGEST_NS} ns")
                }
                Step::Read(stream, bytes) | Step::Write(stream, bytes) => {
                    match self.streams.get(stream as usize) {
                        None => format!("names stream {stream}, which does not exist"),
                        Some(&capacity) if bytes > capacity => {
                            format!(
                                "moves {bytes} bytes of stream {stream}, which holds {capacity}"
                            )
                        }
                        Some(_) => continue,
                    }
                }
                Step::Slice(ns) if ns != 0 && !SLICES_NS.contains(&ns) => {
                    format!("requests a slice of {ns} ns; expected 0 ns, or 100000 to 100000000 ns")
                }
                Step::Wake(other) | Step::Fork(other) if other >= self.threads.len() => {
                    format!("names thread {other}, which does not exist")
                }
                _ => continue,
            };
            return Err(format!("thread {index} {wrong}"));
        }
        Ok(())
    }

    /// Checks that each thread exists from the beginning, or is started once, by a thread that begins itself.
    fn check_starts(&self) -> Result<(), String> {
        let started_by = |index: usize| {
            let steps = self.threads[index].steps.iter();
            steps.filter_map(|step| match *step {
                Step::Fork(other) => Some(other),
                _ => None,
            })
        };
        let mut starters = vec![None; self.threads.len()];
        for index in 0..self.threads.len() {
            for other in started_by(index) {
                if starters[other].replace(index).is_some() {
                    return Err(format!("thread {other} is started twice"));
                }
            }
        }
        let mut begins: Vec<bool> = starters.iter().map(Option::is_none).collect();
        let mut left: Vec<usize> = (0..begins.len()).filter(|&index| begins[index]).collect();
        while let Some(index) = left.pop() {
            begins[index] = true;
            left.extend(started_by(index));
        }
        let never = begins.iter().position(|&begins| !begins);
        match never.and_then(|index| Some((index, starters[index]?))) {
            Some((index, starter)) => Err(format!(
                "thread {index} never begins: thread {starter} starts it, which never begins"
            )),
            None => Ok(()),
        }
    }

    /// Checks that no thread waits more often than other threads wake it.
    fn check_waits(&self) -> Result<(), String> {
        let mut wakes = vec![0; self.threads.len()];
        for step in self.threads.iter().flat_map(|thread| &thread.steps) {
            if let Step::Wake(other) = *step {
                wakes[other] += 1;
            }
        }
        for (index, (thread, wakes)) in self.threads.iter().zip(wakes).enumerate() {
            let waits = thread.steps.iter().filter(|&&step| step == Step::Wait);
            let waits = waits.count();
            if waits > wakes {
                return Err(format!(
                    "thread {index} has more waits ({waits}) than wakeups ({wakes})"
                ));
            }
        }
        Ok(())
    }

    /// Checks that thread `index` uses existing mutexes, and releases all mutexes that it has taken.
    fn check_mutexes(&self, index: usize) -> Result<(), String> {
        let mut has = Vec::new();
        for step in &self.threads[index].steps {
            let (mutex, takes) = match *step {
                Step::Lock(mutex) => (mutex, true),
                Step::Unlock(mutex) => (mutex, false),
                _ => continue,
            };
            let wrong = match has.iter().position(|&it| it == mutex) {
                _ if mutex >= self.mutexes => format!("names mutex {mutex}, which does not exist"),
                Some(_) if takes => format!("takes mutex {mutex}, which it already holds"),
                None if !takes => format!("releases mutex {mutex}, which it does not hold"),
                Some(place) => {
                    has.swap_remove(place);
                    continue;
                }
                None => {
                    has.push(mutex);
                    continue;
                }
            };
            return Err(format!("thread {index} {wrong}"));
        }
        match has.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "thread {index} takes a mutex that it never releases"
            )),
        }
    }
}

/// Is `text` a recording, and not an rt-app file? The version comes first in files that the import writes, so a file
/// with a mistake is a recording, too. Other programs may have sorted the keys.
pub(crate) fn is_recording(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "recording")]
        _version: IgnoredAny,
    }
    let inner = text.trim_start().strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_start().starts_with("\"recording\""))
        || serde_json::from_str::<Head>(text).is_ok()
}

#[cfg(test)]
mod tests;
