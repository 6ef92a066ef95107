//! Pipes and sockets whose reads and writes were recorded. A wakeup in such a call becomes a read
//! that waits for bytes, or a write that waits for room.
//!
//! The trace shows only the end of a call. A thread slept in a call if a call on the same stream
//! woke it before its own call ended.

use super::known::{Entry, Known, Stream};
use std::collections::{HashMap, VecDeque};
use workload::recording::Step;

/// The default capacity of a pipe in bytes (pipe(7)).
const PIPE: u64 = 65_536;
/// The capacity of a socket for messages in bytes (`net.core.wmem_default`). A message counts `SK_BUFF`, plus its data
/// and `SHARED_INFO` rounded up to a power of two.
const SOCKET: u64 = 212_992;
/// The sizes of `sk_buff` and of `skb_shared_info` in bytes (x86-64).
const SK_BUFF: u64 = 256;
const SHARED_INFO: u64 = 320;

/// The result of [`weave`].
pub struct Woven {
    /// For each stream in the steps, its capacity in bytes.
    pub capacities: Vec<u64>,
    /// The number of the load's other streams, which remain wakeups.
    pub left: usize,
}

/// A thread, and the index of a step.
type Place = (u32, u32);

struct Call {
    thread: u32,
    /// The end of the call.
    end: u32,
    /// The first sleep in the call, and the time in ns when this sleep began.
    slept: Option<(u32, u64)>,
    /// The wakeup of the first thread that the call woke since it last slept, and the time in ns.
    woke: Option<(u32, u64)>,
    stream: u32,
    bytes: u64,
    write: bool,
    /// The time in ns when the call's bytes had been written or read.
    at: u64,
    /// The time in ns of the last activity of the call's thread before `at`.
    after: u64,
    /// The number of bytes of a write that were read before the write ended.
    early: u64,
}

#[derive(Clone, Default)]
struct Use {
    reader: Option<u32>,
    written: bool,
    /// Does a thread of the load use the stream?
    of_load: bool,
    /// Is it impossible to replay the stream from its bytes?
    odd: bool,
    writer_slept: bool,
    level: u64,
    most: u64,
    largest: u64,
    /// The writes whose bytes have not been read, by time.
    writes: VecDeque<usize>,
}

/// Turns calls of `threads` on streams into steps. Only the threads for which `keeps` is true belong to the load.
pub fn weave(threads: &mut [Known], streams: &[Stream], keeps: &[bool]) -> Woven {
    let in_calls = wakes_in_calls(threads);
    let (mut calls, covered) = calls(threads, &in_calls);
    calls.sort_by_key(|call| (call.at, !call.write));
    let uses = uses(&mut calls, streams, keeps);
    let good = |it: &Use| !it.odd && it.written && it.reader.is_some();
    let mut numbers = vec![None; uses.len()];
    let mut capacities = Vec::new();
    for (index, it) in uses.iter().enumerate() {
        if good(it) {
            numbers[index] = Some(capacities.len() as u32);
            capacities.push(capacity(it, streams[index].socket));
        }
    }
    for (&(thread, entry), &stream) in &covered {
        if numbers[stream as usize].is_some() {
            threads[thread as usize].steps[entry as usize] = Entry::Gone;
        }
    }
    for call in &calls {
        if let Some(number) = numbers[call.stream as usize] {
            place(
                &mut threads[call.thread as usize].steps,
                call,
                number,
                &covered,
            );
        }
    }
    Woven {
        left: uses.iter().filter(|it| it.of_load && !good(it)).count(),
        capacities,
    }
}

/// The places where threads slept until another thread woke them in a call on a stream, each with that stream.
fn wakes_in_calls(threads: &[Known]) -> HashMap<Place, u32> {
    let mut all = HashMap::new();
    for known in threads {
        let mut call = None;
        for &entry in known.steps.iter().rev() {
            match entry {
                Entry::Moved { stream, .. } => call = Some(stream),
                Entry::Wakes { thread, entry } => {
                    call.map(|stream| all.insert((thread, entry), stream));
                }
                Entry::Step(Step::Run(_)) | Entry::Gone => {}
                Entry::Slept(_)
                | Entry::Woken { .. }
                | Entry::FutexWait { .. }
                | Entry::FutexWake { .. }
                | Entry::Step(_) => {
                    call = None;
                }
            }
        }
    }
    all
}

/// The calls of all threads, and the sleeps in calls with their streams.
fn calls(threads: &[Known], in_calls: &HashMap<Place, u32>) -> (Vec<Call>, HashMap<Place, u32>) {
    let mut all: Vec<Call> = Vec::new();
    let mut covered = HashMap::new();
    for (thread, known) in (0_u32..).zip(threads) {
        // The current call, going backwards.
        let mut call: Option<Call> = None;
        for (index, &entry) in known.steps.iter().enumerate().rev() {
            let index = index as u32;
            let before = match entry {
                Entry::Moved { at, .. }
                | Entry::FutexWait { at, .. }
                | Entry::FutexWake { at, .. } => Some(at),
                Entry::Slept(gap) | Entry::Woken { gap, .. } => Some(gap.until),
                _ => None,
            };
            if let (Entry::Woken { gap, .. }, Some(open)) = (entry, &mut call)
                && in_calls.get(&(thread, index)) == Some(&open.stream)
            {
                covered.insert((thread, index), open.stream);
                open.slept = Some((index, gap.until - gap.ns));
                continue;
            }
            if let (Entry::Wakes { thread, entry }, Some(open)) = (entry, &mut call)
                && open.slept.is_none()
                && let Entry::Woken { gap, .. } = threads[thread as usize].steps[entry as usize]
            {
                open.woke = Some((index, gap.until));
            }
            if before.is_some() || matches!(entry, Entry::Step(Step::Fork(_))) {
                all.extend(call.take().map(|it| Call {
                    after: before.unwrap_or(it.at),
                    ..it
                }));
            }
            if let Entry::Moved {
                stream,
                bytes,
                write,
                at,
            } = entry
            {
                call = Some(Call {
                    thread,
                    end: index,
                    slept: None,
                    woke: None,
                    stream,
                    bytes: bytes.into(),
                    write,
                    at,
                    after: known.from,
                    early: 0,
                });
            }
        }
        all.extend(call);
    }
    for call in all.iter_mut().filter(|call| call.write) {
        call.at = call.woke.map_or(call.at, |(_, at)| at);
    }
    (all, covered)
}

/// Follows the use of the streams over time. If a read ends before the end of the write from which
/// it takes bytes, part of the write happened early.
fn uses(calls: &mut [Call], streams: &[Stream], keeps: &[bool]) -> Vec<Use> {
    let of = |stream: &Stream| Use {
        odd: stream.foreign,
        ..Use::default()
    };
    let mut uses: Vec<Use> = streams.iter().map(of).collect();
    for (index, call) in calls.iter().enumerate() {
        let stream = &mut uses[call.stream as usize];
        match keeps[call.thread as usize] {
            true => stream.of_load = true,
            false => stream.odd = true,
        }
        if call.write {
            stream.written = true;
            stream.writer_slept |= call.slept.is_some();
            stream.largest = stream.largest.max(call.bytes);
            stream.writes.push_back(index);
        } else {
            // With two readers, one might take bytes for which the other has waited.
            stream.odd |= stream.reader.is_some_and(|reader| reader != call.thread);
            stream.reader = Some(call.thread);
        }
    }
    for index in 0..calls.len() {
        let Call {
            stream,
            bytes,
            write,
            at,
            early,
            ..
        } = calls[index];
        let stream = &mut uses[stream as usize];
        if stream.odd {
            continue;
        }
        if write {
            stream.writes.pop_front();
            stream.level += bytes - early;
            stream.most = stream.most.max(stream.level);
            continue;
        }
        for &next in &stream.writes {
            let next = &mut calls[next];
            let began = next.slept.map_or(next.after, |(_, since)| since);
            if stream.level >= bytes {
                break;
            }
            if began > at {
                continue;
            }
            let part = (bytes - stream.level).min(next.bytes - next.early);
            next.early += part;
            stream.level += part;
            stream.most = stream.most.max(stream.level);
        }
        match stream.level.checked_sub(bytes) {
            Some(level) => stream.level = level,
            None => stream.odd = true,
        }
    }
    uses
}

/// The capacity of a stream: the largest number of bytes that the stream held or that a call wrote and, if no writer
/// waited for room, at least the default.
fn capacity(it: &Use, socket: bool) -> u64 {
    let usual = match (it.writer_slept, socket) {
        (true, _) => 0,
        (false, false) => PIPE,
        (false, true) => {
            let charged = SK_BUFF + (it.largest + SHARED_INFO).next_power_of_two();
            SOCKET.div_ceil(charged) * it.largest
        }
    };
    it.most.max(it.largest).max(usual)
}

/// Inserts `call` at the place where the call began to wait, where it woke its waiter, or otherwise where it ended.
fn place(steps: &mut [Entry], call: &Call, stream: u32, covered: &HashMap<Place, u32>) {
    let step = |bytes| {
        Entry::Step(match call.write {
            true => Step::Write(stream, bytes),
            false => Step::Read(stream, bytes),
        })
    };
    let end = call.end as usize;
    steps[end] = Entry::Gone;
    let woke = call.woke.and_then(|(first, _)| {
        let waited = |entry: &Entry| match *entry {
            Entry::Wakes { thread, entry } => covered.get(&(thread, entry)) == Some(&call.stream),
            _ => false,
        };
        let first = first as usize;
        Some(first + steps[first..end].iter().position(waited)?)
    });
    match (call.slept, woke) {
        // The call slept after part of it was done.
        (Some((slept, _)), _) if call.early > 0 && call.early < call.bytes => {
            steps[slept as usize] = step(call.early);
            steps[end] = step(call.bytes - call.early);
        }
        (Some((slept, _)), _) => steps[slept as usize] = step(call.bytes),
        (None, Some(woke)) if call.write => steps[woke] = step(call.bytes),
        (None, _) => steps[end] = step(call.bytes),
    }
}
