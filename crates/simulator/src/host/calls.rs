//! What a simulation's scheduler is doing just now, for those who look from outside: the handler of
//! its faults, and the thread that notices a call which does not end.

use native::Object;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// An op's name. Thin, as it is swapped in one go.
type OpName = *mut &'static str;

/// Written by the simulation's thread alone.
#[derive(Debug)]
pub struct CallRecord {
    scheduler: String,
    code: Code,
    /// Of the simulation.
    thread: libc::pthread_t,
    /// The op that is being called; null between calls.
    op: AtomicPtr<&'static str>,
    /// Counts calls that began.
    calls: AtomicU64,
}

/// A scheduler's code: where it is loaded, and what it was loaded from.
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

/// Where in its work a scheduler is.
pub struct Call<'a> {
    pub scheduler: &'a str,
    pub op: &'static str,
    /// Which of its calls this is.
    pub number: u64,
    record: &'a CallRecord,
}

impl Call<'_> {
    /// Is it the scheduler's own code that is at `address`?
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
        // SAFETY: the thread is in the middle of a call that does not end.
        unsafe { libc::pthread_kill(self.record.thread, signal) };
    }
}

static ALL: Mutex<Vec<Weak<CallRecord>>> = Mutex::new(Vec::new());

thread_local! {
    static HERE: Cell<*const CallRecord> = const { Cell::new(std::ptr::null()) };
}

impl CallRecord {
    /// For the simulation of `scheduler` that starts on this thread, and stays on it. What `code` was made of must
    /// live as long.
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

    /// The op `name` is called; the answer is for [`CallRecord::end`].
    #[inline]
    pub fn begin(&self, name: &'static &'static str) -> OpName {
        let outer = self.op.load(Relaxed);
        self.op.store(std::ptr::from_ref(name).cast_mut(), Relaxed);
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        outer
    }

    /// It returned. True if no other op was being called meanwhile.
    #[inline]
    pub fn end(&self, outer: OpName) -> bool {
        self.op.store(outer, Relaxed);
        outer.is_null()
    }

    /// How much CPU time its thread has had.
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

    /// The call that it is in the middle of, if any.
    pub fn call(&self) -> Option<Call<'_>> {
        // SAFETY: null or what begin() was given.
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

/// Of the simulation that this thread is in the middle of; null if there is none. May be asked by a signal handler.
pub fn record() -> *const CallRecord {
    HERE.get()
}

/// Every simulation of the process that is being run.
pub fn everywhere() -> Vec<Arc<CallRecord>> {
    all().iter().filter_map(Weak::upgrade).collect()
}

/// Notices a call that does not end: one that has had so much of its thread's own time, which does not pass while others
/// have the CPU, or that has waited for so many samples, as no call does.
pub struct Patience {
    time: Duration,
    samples: u32,
    seen: Vec<Seen>,
}

/// A call that a sample met.
#[derive(Clone, Copy)]
struct Seen {
    simulation: *const CallRecord,
    number: u64,
    /// Its thread's time when it was first met, and now.
    since: Duration,
    now: Duration,
    /// How many samples have met it with no more time than the one before.
    waited: u32,
}

impl Patience {
    /// With calls that take so much time, or wait for so many samples in a row.
    pub fn new(time: Duration, samples: u32) -> Patience {
        Patience {
            time,
            samples,
            seen: Vec::new(),
        }
    }

    /// Takes a sample of `simulations`, whose threads have had so much `time`, and gives `lost` a call that does not end.
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

/// Is a simulation just now telling somebody something, who may take their time?
static IS_HEARD: AtomicBool = AtomicBool::new(false);

/// What `tell` returns, which may wait for somebody else without being taken for a call that does not end. Of one
/// simulation in a process.
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
        // On a CPU that others have it takes no time; one that waits is noticed, too.
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
