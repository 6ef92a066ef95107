//! Mutexes for which threads waited, from their futex calls (futex(2)). The waiting call becomes a
//! step that takes the mutex, and the call that wakes the waiter becomes a step that releases it.
//!
//! Taking or releasing an uncontended mutex makes no call. A waiter has the mutex from its wakeup
//! until its own releasing call, which it always makes. A thread that releases the mutex but did
//! not wait for it is assumed to have held it since its last step, other than a sleep, before the
//! waiter came.

use super::builder::Builder;
use super::known::{Entry, Known};
use std::collections::HashMap;
use workload::recording::Step;

/// Operations of futex(2), and their flags.
const WAIT: u64 = 0;
const WAKE: u64 = 1;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const FLAGS: u64 = 128 | 256;
/// The value of a contended mutex in glibc (`lll_lock`) and in Rust's library.
const CONTENDED: u32 = 2;

#[derive(Default)]
pub struct Futexes {
    /// The number of the system call, if the trace has it.
    pub call: Option<i64>,
    by_address: HashMap<u64, u32>,
    /// For each futex, by number, whether it cannot be replayed as a mutex.
    odd: Vec<bool>,
}

/// The result of [`weave`].
pub struct Woven {
    /// The number of mutexes in the steps. Processes may have different mutexes at the same address.
    pub mutexes: u32,
    /// The number of futexes for which threads of the load wait; `left` is the number of those futexes that are not
    /// replayed as mutexes, so that their waits remain wakeups.
    pub all: usize,
    pub left: usize,
}

impl Builder<'_> {
    /// Adds a call of futex(2) with these first arguments by the thread of `cpu`.
    pub fn futex(&mut self, cpu: usize, now: u64, [address, operation, value]: [u64; 3]) {
        let Some(thread) = self.cpus[cpu].runs else {
            return;
        };
        let Futexes {
            by_address, odd, ..
        } = &mut self.futexes;
        let futex = *by_address.entry(address).or_insert_with(|| {
            odd.push(false);
            odd.len() as u32 - 1
        });
        let waits = match operation & !FLAGS {
            WAIT | WAIT_BITSET if value as u32 == CONTENDED => true,
            WAKE | WAKE_BITSET => false,
            _ => {
                odd[futex as usize] = true;
                return;
            }
        };
        self.account(cpu, now);
        self.flush(thread);
        let steps = &mut self.threads[thread as usize].steps;
        steps.push(match waits {
            true => Entry::FutexWait { futex, at: now },
            false => Entry::FutexWake { futex, at: now },
        });
    }
}

/// A thread, and the index of a step.
type Place = (u32, u32);

struct Hold {
    futex: u32,
    thread: u32,
    /// The first step of the hold; `waits` says whether this step waits for the mutex.
    from: usize,
    waits: bool,
    /// The step that releases the mutex; `None` if the thread held the mutex at the end.
    wakes: Option<usize>,
}

/// Turns futex calls of `threads` into steps. Only the threads for which `keeps` is true belong to the load.
pub fn weave(threads: &mut [Known], futexes: &Futexes, keeps: &[bool]) -> Woven {
    let mut odd = futexes.odd.clone();
    let woken = woken(threads);
    let holds = holds(threads, &woken, &mut odd);
    let mut used = vec![false; odd.len()];
    for (thread, &kept) in threads.iter().zip(keeps) {
        for entry in &thread.steps {
            if let Entry::FutexWait { futex, .. } | Entry::FutexWake { futex, .. } = *entry {
                odd[futex as usize] |= !kept;
                used[futex as usize] |= kept && matches!(entry, Entry::FutexWait { .. });
            }
        }
    }
    for (&(thread, entry), &futex) in &woken {
        let within = |hold: &Hold| {
            let since = hold.waits && hold.from < entry as usize;
            let until = hold.wakes.is_none_or(|it| it > entry as usize);
            (hold.futex, hold.thread) == (futex, thread) && since && until
        };
        odd[futex as usize] |= !holds.iter().any(within);
    }
    let mut numbers = Numbers::of(threads, &woken);
    for hold in &holds {
        if !odd[hold.futex as usize]
            && let Some(mutex) = numbers.number(hold)
        {
            place(
                &mut threads[hold.thread as usize].steps,
                hold,
                mutex,
                &woken,
            );
        }
    }
    let all = used.iter().filter(|&&used| used).count();
    let left = used.iter().zip(&odd).filter(|&(&used, &odd)| used && odd);
    Woven {
        mutexes: numbers.given.len() as u32,
        all,
        left: left.count(),
    }
}

/// The places where threads waited for a futex and were woken by a call for the same futex, with
/// the number of the futex.
fn woken(threads: &[Known]) -> HashMap<Place, u32> {
    let waited = |(thread, entry): Place| {
        let before = threads[thread as usize].steps[..entry as usize].iter();
        let mut before = before.rev().filter(|entry| !is_run(entry));
        match before.next() {
            Some(&Entry::FutexWait { futex, .. }) => Some(futex),
            _ => None,
        }
    };
    let mut all = HashMap::new();
    for known in threads {
        let mut call = None;
        for entry in &known.steps {
            match *entry {
                Entry::FutexWake { futex, .. } => call = Some(futex),
                Entry::Wakes { thread, entry } => {
                    let place = (thread, entry);
                    let is_woken = matches!(
                        threads[thread as usize].steps[entry as usize],
                        Entry::Woken { .. }
                    );
                    if let Some(futex) = call.filter(|&it| is_woken && waited(place) == Some(it)) {
                        all.insert(place, futex);
                    }
                }
                _ if is_run(entry) => {}
                _ => call = None,
            }
        }
    }
    all
}

fn is_run(entry: &Entry) -> bool {
    matches!(entry, Entry::Step(Step::Run(_)) | Entry::Gone)
}

/// The holds of all futexes. A futex is unusable if a thread held it together with another futex,
/// or while the thread wrote or read, because threads could deadlock if they run in a different order than the recorded
/// order.
fn holds(threads: &[Known], woken: &HashMap<Place, u32>, odd: &mut [bool]) -> Vec<Hold> {
    let mut all = Vec::new();
    for (thread, known) in (0_u32..).zip(threads) {
        // The futex that the thread holds or awaits, and the first step in which it does.
        let mut has: Option<(u32, usize)> = None;
        for (index, &entry) in known.steps.iter().enumerate() {
            match (entry, has) {
                (Entry::FutexWait { futex, .. }, None) => has = Some((futex, index)),
                (
                    Entry::FutexWait { futex, .. } | Entry::FutexWake { futex, .. },
                    Some((other, _)),
                ) if futex != other => {
                    odd[futex as usize] = true;
                    odd[other as usize] = true;
                }
                (Entry::FutexWake { futex, .. }, Some((_, from))) => {
                    all.push(Hold {
                        futex,
                        thread,
                        from,
                        waits: true,
                        wakes: Some(index),
                    });
                    has = None;
                }
                (Entry::FutexWake { futex, .. }, None) => {
                    let Some(since) = wakes(known, index, futex, woken)
                        .and_then(|place| waits_since(threads, place))
                    else {
                        continue;
                    };
                    match began(&known.steps, index, since) {
                        Some(from) => all.push(Hold {
                            futex,
                            thread,
                            from,
                            waits: false,
                            wakes: Some(index),
                        }),
                        None => odd[futex as usize] = true,
                    }
                }
                (
                    Entry::Moved { .. } | Entry::Step(Step::Read(..) | Step::Write(..)),
                    Some((futex, _)),
                ) => odd[futex as usize] = true,
                _ => {}
            }
        }
        if let Some((futex, from)) = has {
            all.push(Hold {
                futex,
                thread,
                from,
                waits: true,
                wakes: None,
            });
        }
    }
    all
}

/// The first thread that the call of `known` at step `index` wakes.
fn wakes(known: &Known, index: usize, futex: u32, woken: &HashMap<Place, u32>) -> Option<Place> {
    let mut after = known.steps[index + 1..].iter().filter(|it| !is_run(it));
    match *after.next()? {
        Entry::Wakes { thread, entry } => {
            (woken.get(&(thread, entry)) == Some(&futex)).then_some((thread, entry))
        }
        _ => None,
    }
}

/// The time at which the thread woken at `place` had begun to wait, in ns.
fn waits_since(threads: &[Known], (thread, entry): Place) -> Option<u64> {
    let before = threads[thread as usize].steps[..entry as usize].iter();
    before.rev().find_map(|entry| match *entry {
        Entry::FutexWait { at, .. } => Some(at),
        _ => None,
    })
}

/// The first step in `steps` at which the thread may have held the mutex that it releases at
/// `index`, given that another thread has waited since `since`. It follows the last step that is neither computing nor
/// a sleep that ended after `since`; `None` if that last step is a call after `since`.
fn began(steps: &[Entry], index: usize, since: u64) -> Option<usize> {
    for (before, entry) in steps[..index].iter().enumerate().rev() {
        match entry {
            entry if is_run(entry) => {}
            Entry::Slept(gap) | Entry::Woken { gap, .. } if gap.until > since => {}
            Entry::FutexWait { at, .. } | Entry::FutexWake { at, .. } | Entry::Moved { at, .. }
                if *at > since =>
            {
                return None;
            }
            _ => return Some(before + 1),
        }
    }
    Some(0)
}

/// Inserts taking and releasing `mutex` for `hold`. While a thread holds the mutex, any other wait
/// becomes a sleep, because the waker might need the mutex first.
fn place(steps: &mut Vec<Entry>, hold: &Hold, mutex: u32, woken: &HashMap<Place, u32>) {
    let lock = Entry::Step(Step::Lock(mutex));
    let unlock = Entry::Step(Step::Unlock(mutex));
    let from = hold.from;
    let until = hold.wakes.unwrap_or(steps.len());
    for (index, entry) in (from..).zip(&mut steps[from..until]) {
        match *entry {
            Entry::FutexWait { .. } => *entry = Entry::Gone,
            Entry::Woken { .. } if woken.contains_key(&(hold.thread, index as u32)) => {
                *entry = Entry::Gone;
            }
            Entry::Woken { gap, .. } => *entry = Entry::Slept(gap),
            _ => {}
        }
    }
    if let (false, Some(index)) = (hold.waits, hold.wakes) {
        steps[from..=index].rotate_right(1);
        steps[from] = lock;
        // The thread that this step woke waits for the mutex instead.
        let after = &steps[index + 1..];
        let wakes = after
            .iter()
            .position(|it| matches!(it, Entry::Wakes { .. }));
        steps[index + 1 + wakes.unwrap_or(0)] = unlock;
        return;
    }
    steps[from] = lock;
    match hold.wakes {
        Some(index) => steps[index] = unlock,
        None => steps.push(unlock),
    }
}

/// The mutexes for which a futex stands. A futex stands for the same mutex in a thread, in the threads that this thread
/// woke, and in its wakers.
struct Numbers {
    /// For each futex and thread, another thread with the same mutex, or the thread itself.
    same: HashMap<(u32, u32), u32>,
    given: HashMap<(u32, u32), u32>,
}

impl Numbers {
    fn of(threads: &[Known], woken: &HashMap<Place, u32>) -> Numbers {
        let mut numbers = Numbers {
            same: HashMap::new(),
            given: HashMap::new(),
        };
        for (&(thread, entry), &futex) in woken {
            if let Entry::Woken { by, .. } = threads[thread as usize].steps[entry as usize] {
                for it in [thread, by] {
                    numbers.same.entry((futex, it)).or_insert(it);
                }
                let [one, other] = [thread, by].map(|it| numbers.first(futex, it));
                // Choose the smallest number, so that the result does not depend on the order of threads.
                numbers.same.insert((futex, one.max(other)), one.min(other));
            }
        }
        numbers
    }

    fn first(&self, futex: u32, thread: u32) -> u32 {
        let mut thread = thread;
        while let Some(&next) = self.same.get(&(futex, thread)).filter(|&&it| it != thread) {
            thread = next;
        }
        thread
    }

    /// The number of the mutex of `hold`; `None` if no thread was woken, because the wait was short.
    fn number(&mut self, hold: &Hold) -> Option<u32> {
        self.same.get(&(hold.futex, hold.thread))?;
        let next = self.given.len() as u32;
        let first = self.first(hold.futex, hold.thread);
        Some(*self.given.entry((hold.futex, first)).or_insert(next))
    }
}
