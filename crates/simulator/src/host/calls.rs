//! The current activity of a simulation's scheduler, for outside observers: the handler of the scheduler's faults, and
//! the process that notices a call that does not return.

use cage::Progress;
use native::Object;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

/// An op's name, a `&'static str`. The type is a thin pointer, so that it can be swapped atomically.
type OpName = *mut ();

/// The current call of a simulation's scheduler. Only the simulation's thread writes it.
#[derive(Debug)]
pub struct CallRecord {
    scheduler: String,
    code: Code,
    /// The progress that observers read, in memory that another process watches, or in `_own`. A pointer avoids the
    /// choice between the two in each call of an op, which follows it twice.
    progress: NonNull<Progress>,
    _own: Arc<Progress>,
}

// SAFETY: the progress consists of atomics, and lives as long as this does.
unsafe impl Send for CallRecord {}
unsafe impl Sync for CallRecord {}

/// The progress that another process watches, if any.
static WATCHED: OnceLock<&'static Progress> = OnceLock::new();

/// From now on the only simulation of this process shows its progress in `progress`.
pub fn show(progress: &'static Progress) {
    let _ = WATCHED.set(progress);
}

/// Loads a scheduler by calling `load`, and shows this in the progress as a call: code of the scheduler may run while
/// it is loaded, and has to return in time, as ops have to.
pub fn loading<R>(load: impl FnOnce() -> R) -> R {
    let Some(progress) = WATCHED.get() else {
        return load();
    };
    progress.op.store(name(&"loading"), Relaxed);
    progress.calls.fetch_add(1, Relaxed);
    let result = load();
    progress.op.store(null_mut(), Relaxed);
    result
}

fn name(op: &'static &'static str) -> *mut () {
    std::ptr::from_ref(op).cast_mut().cast()
}

/// A scheduler's code: its address, and the object that it was loaded from.
#[derive(Debug)]
pub struct Code {
    addresses: Range<usize>,
    object: *const Object,
}

// SAFETY: an Object can be shared; the pointer is followed only during a call, while its simulation has the object.
unsafe impl Send for Code {}
unsafe impl Sync for Code {}

impl Code {
    pub fn new(object: &Object, base: usize) -> Code {
        Code {
            addresses: base..base + object.loaded_size() as usize,
            object,
        }
    }
}

/// The running code of a scheduler, and the op that was called.
pub struct Call<'a> {
    pub scheduler: &'a str,
    pub op: &'static str,
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
}

thread_local! {
    static HERE: Cell<*const CallRecord> = const { Cell::new(std::ptr::null()) };
}

impl CallRecord {
    /// Starts the record of the simulation of `scheduler` that begins on this thread and stays on it. The object of
    /// `code` must live as long as the simulation.
    pub fn start(scheduler: String, code: Code) -> Arc<CallRecord> {
        let own = Arc::<Progress>::default();
        let record = Arc::new(CallRecord {
            scheduler,
            code,
            progress: NonNull::from(WATCHED.get().map_or(&*own, |&watched| watched)),
            _own: own,
        });
        HERE.set(Arc::as_ptr(&record));
        record
    }

    #[inline]
    fn progress(&self) -> &Progress {
        // SAFETY: the pointer is to `_own`, which lives as long as `self`, or to memory that is never freed.
        unsafe { self.progress.as_ref() }
    }

    /// Records a call of the op `name`, and returns the op that called it; pass that to [`CallRecord::end`].
    #[inline]
    pub fn begin(&self, op: &'static &'static str) -> OpName {
        let progress = self.progress();
        let outer = progress.op.load(Relaxed);
        progress.op.store(name(op), Relaxed);
        let calls = progress.calls.load(Relaxed);
        progress.calls.store(calls.wrapping_add(1), Relaxed);
        outer
    }

    /// Records that the op returned to `outer`.
    #[inline]
    pub fn end(&self, outer: OpName) {
        self.progress().op.store(outer, Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.progress().op.load(Relaxed).is_null()
    }

    /// The current call, if any.
    pub fn call(&self) -> Option<Call<'_>> {
        let op: *const &'static str = self.progress().op.load(Relaxed).cast();
        // SAFETY: the pointer is null or the one that was given to begin().
        let op = unsafe { op.as_ref() }?;
        Some(Call {
            scheduler: &self.scheduler,
            op,
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

/// The record of this thread's simulation; null if there is none. May be called by a signal handler.
pub fn record() -> *const CallRecord {
    HERE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_call_is_the_innermost() {
        let code = Code {
            addresses: 0..0,
            object: null_mut(),
        };
        let simulation = CallRecord::start("test".into(), code);
        let op = || simulation.call().map(|call| call.op);
        let outer = simulation.begin(&"dispatch");
        let inner = simulation.begin(&"enqueue");
        assert_eq!(op(), Some("enqueue"));
        simulation.end(inner);
        assert!(!simulation.is_over());
        assert_eq!(record(), Arc::as_ptr(&simulation));
        assert_eq!(op(), Some("dispatch"));
        simulation.end(outer);
        assert!(simulation.is_over());
        assert_eq!(op(), None);
    }
}
