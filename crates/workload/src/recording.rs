//! A recorded load: each thread's computing, sleeps and wakers.
//!
//! The file is JSON, as defined by [`Recording`]; `equipoise workload import` writes it.

mod job;
mod replay;

use crate::SLICES_NS;
use machine::input::BadInput;
use serde::{Deserialize, Deserializer, Serialize};

pub use replay::Replay;

/// The version of the file's format.
pub const VERSION: u32 = 5;
/// The first version of the format. It had no streams, the second version had no mutexes, the third had no periods, and
/// the fourth had no slices.
const FIRST_VERSION: u32 = 1;

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
    /// The percentage of wakeups that came a period after the previous one, less the percentage expected by chance;
    /// `None` if the user has set the period.
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
        let mut started = vec![false; self.threads.len()];
        for (index, thread) in self.threads.iter().enumerate() {
            if !(-20..=19).contains(&thread.nice)
                || thread.fifo.is_some_and(|it| !(1..=99).contains(&it))
            {
                return Err(format!("thread {index} has an invalid priority"));
            }
            let names_waker =
                |period: &Period| period.woken_by.is_none_or(|it| it < self.threads.len());
            if thread
                .period
                .is_some_and(|it| it.ns == 0 || !names_waker(&it))
            {
                return Err(format!("thread {index} has an impossible period"));
            }
            self.check_mutexes(index)?;
            for step in &thread.steps {
                if let Step::Read(stream, bytes) | Step::Write(stream, bytes) = *step {
                    let Some(&capacity) = self.streams.get(stream as usize) else {
                        return Err(format!(
                            "thread {index} names stream {stream}, which does not exist"
                        ));
                    };
                    if bytes > capacity {
                        return Err(format!(
                            "thread {index} moves {bytes} bytes of stream {stream}, which holds \
                             {capacity}"
                        ));
                    }
                }
                if let Step::Slice(ns) = *step
                    && ns != 0
                    && !SLICES_NS.contains(&ns)
                {
                    return Err(format!(
                        "thread {index} requests a slice of {ns} ns; expected 0 ns, or 100000 to 100000000 ns"
                    ));
                }
                let (Step::Wake(other) | Step::Fork(other)) = *step else {
                    continue;
                };
                if other >= self.threads.len() {
                    return Err(format!(
                        "thread {index} names thread {other}, which does not exist"
                    ));
                }
                if matches!(step, Step::Fork(_)) && std::mem::replace(&mut started[other], true) {
                    return Err(format!("thread {other} is started twice"));
                }
            }
        }
        if started.iter().all(|&started| started) {
            return Err("no thread exists at the start".to_owned());
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
            false => Err(format!("thread {index} never releases a mutex")),
        }
    }
}

/// Is `text` a recording, and not an rt-app file?
pub(crate) fn is_recording(text: &str) -> bool {
    let inner = text.trim_start().strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_start().starts_with("\"recording\""))
}

#[cfg(test)]
mod tests;
