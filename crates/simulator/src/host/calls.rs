//! The current activity of a simulation's scheduler, for outside observers: the handler of its
//! faults, and the thread that notices a call that does not return.

use native::Object;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// An op's name. A thin pointer, so that it can be swapped atomically.
type OpName = *mut &'static str;

/// Written by the simulation's thread only.
#[derive(Debug)]
pub struct CallRecord {
    scheduler: String,
    code: Code,
    /// The simulation's thread.
    thread: libc::pthread_t,
    /// The current op; null between calls.
    op: AtomicPtr<&'static str>,
    /// Counts calls that began.
    calls: AtomicU64,
}

/// A scheduler's code: its address, and the object that it was loaded from.
#[derive(Debug)]
pub struct Code {
    addresses: Range<usize>,
    object: *const Object,
}

// SAFETY: an Object can be shared; the pointer is followed while the simulation is in the middle of a call.
unsafe impl Send for Code {}
unsafe impl Sync for Code {}

impl Code {
    /// `object`, loaded at `base`.
    pub fn new(object: &Object, base: usize) -> Code {
        Code {
            addresses: base..base + object.loaded_size() as usize,
            object,
        }
    }
}

/// Which code of a scheduler is running, and in which call.
pub struct Call<'a> {
    pub scheduler: &'a str,
    pub op: &'static str,
    /// The number of this call.
    pub number: u64,
    record: &'a CallRecord,
}

impl Call<'_> {
    /// Is the code at `address` the scheduler's own?
    pub fn is_at(&self, address: usize) -> bool {
        self.record.code.addresses.contains(&address)
    }

    /// `FILE:LINE` of the instruction at `address`, if it is the scheduler's own.
    pub fn line(&self, address: usize) -> Option<String> {
        let code = &self.record.code;
        if !self.is_at(address) {
            return None;
        }
        // SAFETY: while a call is recorded, its simulation runs, which has the object.
        let object = unsafe { &*code.object };
        object.line((address - code.addresses.start) as u64)
    }

    /// Sends the simulation's thread `signal`.
    pub fn interrupt(&self, signal: libc::c_int) {
        // SAFETY: the thread is in the middle of a call that does not return.
        unsafe { libc::pthread_kill(self.record.thread, signal) };
    }
}

static ALL: Mutex<Vec<Weak<CallRecord>>> = Mutex::new(Vec::new());

thread_local! {
    static HERE: Cell<*const CallRecord> = const { Cell::new(std::ptr::null()) };
}

impl CallRecord {
    /// For the simulation of `scheduler` that starts on this thread, and stays on it. The source of
    /// `code` must live as long.
    pub fn start(scheduler: String, code: Code) -> Arc<CallRecord> {
        let record = Arc::new(CallRecord {
            scheduler,
            code,
            // SAFETY: always successful.
            thread: unsafe { libc::pthread_self() },
            op: AtomicPtr::new(null_mut()),
            calls: AtomicU64::new(0),
        });
        let mut all = all();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&record));
        HERE.set(Arc::as_ptr(&record));
        record
    }

    /// The op `name` is called; pass the result to [`CallRecord::end`].
    #[inline]
    pub fn begin(&self, name: &'static &'static str) -> OpName {
        let outer = self.op.load(Relaxed);
        self.op.store(std::ptr::from_ref(name).cast_mut(), Relaxed);
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        outer
    }

    /// The op returned. True if it was the outermost one.
    #[inline]
    pub fn end(&self, outer: OpName) -> bool {
        self.op.store(outer, Relaxed);
        outer.is_null()
    }

    /// The CPU time of its thread.
    pub fn time(&self) -> Duration {
        let mut clock = 0;
        // SAFETY: the thread is there while its simulation runs; all zeroes is a timespec.
        unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            libc::pthread_getcpuclockid(self.thread, &raw mut clock);
            libc::clock_gettime(clock, &raw mut time);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        }
    }

    /// The current call, if any.
    pub fn call(&self) -> Option<Call<'_>> {
        // SAFETY: the pointer is null or the one that begin() got.
        let op = unsafe { self.op.load(Relaxed).as_ref() }?;
        Some(Call {
            scheduler: &self.scheduler,
            op,
            number: self.calls.load(Relaxed),
            record: self,
        })
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if HERE.get() == std::ptr::from_ref(self) {
            HERE.set(std::ptr::null());
        }
    }
}

fn all() -> MutexGuard<'static, Vec<Weak<CallRecord>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The record of this thread's simulation; null if there is none. May be called by a signal
/// handler.
pub fn record() -> *const CallRecord {
    HERE.get()
}

/// Every running simulation of the process.
pub fn everywhere() -> Vec<Arc<CallRecord>> {
    all().iter().filter_map(Weak::upgrade).collect()
}

/// Detects a call that does not return: one that has used the limit of its thread's CPU time, which
/// does not advance while other threads have the CPU, or that has waited for the limit of samples,
/// which no call does.
pub struct Patience {
    time: Duration,
    samples: u32,
    seen: Vec<Seen>,
}

/// A call found in a sample.
#[derive(Clone, Copy)]
struct Seen {
    simulation: *const CallRecord,
    number: u64,
    /// Its thread's time at the first sample, and now.
    since: Duration,
    now: Duration,
    /// The number of samples in which its time did not advance.
    waited: u32,
}

impl Patience {
    /// With these limits of a call's time, and of consecutive samples in which it waits.
    pub fn new(time: Duration, samples: u32) -> Patience {
        Patience {
            time,
            samples,
            seen: Vec::new(),
        }
    }

    /// Takes a sample of `simulations`, whose threads have used `time`, and passes a call that does
    /// not return to `lost`.
    pub fn sample(
        &mut self,
        simulations: &[Arc<CallRecord>],
        time: impl Fn(&CallRecord) -> Duration,
        mut lost: impl FnMut(&Call<'_>),
    ) {
        let before = std::mem::take(&mut self.seen);
        for record in simulations {
            let Some(call) = record.call() else { continue };
            let (simulation, now) = (Arc::as_ptr(record), time(record));
            let same = |seen: &&Seen| (seen.simulation, seen.number) == (simulation, call.number);
            let seen = match before.iter().find(same) {
                None => Seen {
                    simulation,
                    number: call.number,
                    since: now,
                    now,
                    waited: 0,
                },
                Some(seen) => Seen {
                    now,
                    waited: if now == seen.now && !IS_HEARD.load(Relaxed) {
                        seen.waited + 1
                    } else {
                        0
                    },
                    ..*seen
                },
            };
            if now - seen.since > self.time || seen.waited > self.samples {
                lost(&call);
            }
            self.seen.push(seen);
        }
    }
}

/// Is a simulation waiting for a consumer of its results, which may be slow?
static IS_HEARD: AtomicBool = AtomicBool::new(false);

/// Calls `tell`, which may wait for another process without being treated as a call that does not
/// return. For one simulation in a process.
pub fn heard<R>(tell: impl FnOnce() -> R) -> R {
    IS_HEARD.store(true, Relaxed);
    let result = tell();
    IS_HEARD.store(false, Relaxed);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_end_is_noticed() {
        let code = Code {
            addresses: 0..0,
            object: null_mut(),
        };
        let simulation = CallRecord::start("test".into(), code);
        let simulations = [simulation.clone()];
        let second = Duration::from_secs(1);
        let mut patience = Patience::new(3 * second, 5);
        let mut noticed = Vec::new();
        let mut time = Duration::ZERO;
        let mut sample = |passed, noticed: &mut Vec<String>| {
            time += passed;
            let lost = |call: &Call<'_>| noticed.push(format!("{} {}", call.scheduler, call.op));
            patience.sample(&simulations, |_| time, lost);
        };
        for _ in 0..8 {
            let outer = simulation.begin(&"tick");
            sample(second, &mut noticed);
            assert!(simulation.end(outer));
            sample(second, &mut noticed);
        }
        assert!(noticed.is_empty());
        let outer = simulation.begin(&"dispatch");
        let inner = simulation.begin(&"enqueue");
        assert!(!simulation.end(inner));
        assert_eq!(record(), Arc::as_ptr(&simulation));
        assert_eq!(simulation.call().unwrap().op, "dispatch");
        for _ in 0..4 {
            sample(second, &mut noticed);
        }
        assert!(noticed.is_empty());
        sample(second, &mut noticed);
        assert!(simulation.end(outer));
        assert_eq!(noticed, ["test dispatch"]);
        // On a CPU that others occupy the call uses no time; a waiting one is noticed, too.
        let outer = simulation.begin(&"init");
        for _ in 0..6 {
            sample(Duration::ZERO, &mut noticed);
        }
        assert_eq!(noticed.len(), 1);
        sample(Duration::ZERO, &mut noticed);
        assert!(simulation.end(outer));
        assert_eq!(noticed, ["test dispatch", "test init"]);
        assert!(simulation.call().is_none());
    }
}
