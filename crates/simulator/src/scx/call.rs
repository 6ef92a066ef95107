//! Calls into the scheduler: its ops, its programs at tracepoints, its timers' callbacks.

use crate::abi::layout::{Cgroup, DumpCtx, ExitInfo, Map, TaskStruct};
use std::ptr::null_mut;

/// The contexts from which each kfunc may be called. A kfunc belongs to a group, and a call into the scheduler has a
/// context; the kfunc is allowed if its group and the context share a bit. The low byte is for Linux 6.12, which checks
/// at run time (`SCX_KF_*`); the second byte is for Linux 7.3, whose verifier checks by op (`scx_kf_allow_flags[]`).
pub mod kf {
    const CPU_RELEASE_6_12: u32 = 1 << 0;
    const DISPATCH_6_12: u32 = 1 << 1;
    const ENQUEUE_6_12: u32 = 1 << 2;
    const SELECT_CPU_6_12: u32 = 1 << 3;
    const REST_6_12: u32 = 1 << 4;
    const UNLOCKED_7_3: u32 = 1 << 8;
    const INIT_CIDS_7_3: u32 = 1 << 9;
    const CPU_RELEASE_7_3: u32 = 1 << 10;
    const DISPATCH_7_3: u32 = 1 << 11;
    const ENQUEUE_7_3: u32 = 1 << 12;
    const SELECT_CPU_7_3: u32 = 1 << 13;

    /// The bits for Linux 6.12.
    pub const BITS_6_12: u32 = 0xff;
    /// The bits for Linux 7.3.
    pub const BITS_7_3: u32 = 0xff00;

    /// The constants from here on are contexts. In [`UNLOCKED`] no runqueue lock is held.
    pub const UNLOCKED: u32 = UNLOCKED_7_3;
    pub const INIT_CIDS: u32 = UNLOCKED_7_3 | INIT_CIDS_7_3;
    /// The context of `ops.dump_cpu()` and `ops.dump_task()`.
    pub const DUMP: u32 = 0;
    /// The context of all other ops and programs.
    pub const REST: u32 = REST_6_12;
    pub const SELECT_CPU: u32 = SELECT_CPU_6_12 | ENQUEUE_6_12 | SELECT_CPU_7_3 | ENQUEUE_7_3;
    pub const ENQUEUE: u32 = ENQUEUE_6_12 | SELECT_CPU_7_3 | ENQUEUE_7_3;
    pub const DISPATCH: u32 = DISPATCH_6_12 | ENQUEUE_7_3 | DISPATCH_7_3;
    pub const CPU_RELEASE: u32 = CPU_RELEASE_6_12 | CPU_RELEASE_7_3;

    /// The constants from here on are groups.
    pub const INSERTS: u32 = ENQUEUE_6_12 | DISPATCH_6_12 | ENQUEUE_7_3;
    pub const DISPATCHES: u32 = DISPATCH_6_12 | DISPATCH_7_3;
    /// Linux 6.12 also allows the kfuncs of this group without a runqueue lock.
    pub const MOVES: u32 = DISPATCH_6_12 | DISPATCH_7_3 | UNLOCKED_7_3;
    pub const SELECTS: u32 = SELECT_CPU_6_12 | SELECT_CPU_7_3 | UNLOCKED_7_3;
    pub const REENQUEUES: u32 = CPU_RELEASE_6_12 | CPU_RELEASE_7_3;
    /// Linux 6.12 allows the kfuncs of this group in all sleepable programs.
    pub const CREATES: u32 = UNLOCKED_7_3;
    pub const OVERRIDES: u32 = INIT_CIDS_7_3;
}

/// The context of the current call. The type is aligned so that it is moved as two words.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Context {
    /// The context's bits ([`kf`]).
    pub mask: u32,
    /// The number of the op's CPU, which is a cid in cid form, or the CPU of the op's task; `u32::MAX` if the op is for
    /// neither.
    pub subject: u32,
    /// The task that the op is for (`kf_tasks[]`); null if it is for none.
    pub task: *mut TaskStruct,
}

/// The first argument of an op. During most ops for a CPU or a task, the runqueue of that CPU or of the task's CPU is
/// locked.
pub trait Subject {
    fn cpu(self) -> u32;

    #[inline(always)]
    fn task(self) -> *mut TaskStruct
    where
        Self: Sized,
    {
        null_mut()
    }
}

impl Subject for *mut TaskStruct {
    #[inline(always)]
    fn cpu(self) -> u32 {
        // SAFETY: ops are called for tasks that are alive.
        unsafe { (*self).thread_info.cpu.get() }
    }

    #[inline(always)]
    fn task(self) -> *mut TaskStruct {
        self
    }
}

impl Subject for i32 {
    #[inline(always)]
    fn cpu(self) -> u32 {
        self as u32
    }
}

/// Ops with these first arguments hold no runqueue lock.
macro_rules! unlocked {
    ($($type:ty),*) => {
        $(impl Subject for $type {
            #[inline(always)]
            fn cpu(self) -> u32 {
                u32::MAX
            }
        })*
    };
}
unlocked!(
    (),
    bool,
    *mut Cgroup,
    *mut ExitInfo,
    *mut DumpCtx,
    *mut *const Map
);

/// Calls a function of the scheduler that `$kernel` runs, and lends it the kernel for the duration of the call.
macro_rules! call {
    ($kernel:expr, $function:expr $(, $argument:expr)*) => {{
        $kernel.lend();
        // SAFETY: this is a function of the loaded scheduler, called with the type that it has in C (the layout of ops
        // is checked at loading; programs and callbacks have the type of their tracepoint or map). The tasks, CPUs and
        // structures that it gets are alive until it returns. Kfuncs that the scheduler calls use the pointer that was
        // just lent; the caller does not use its own reference until the end.
        unsafe { $function($($argument),*) }
    }};
}
pub(crate) use call;

/// `SCX_CALL_OP()`: calls an op of the scheduler, which may use the kfuncs that the context `$mask` allows.
macro_rules! call_op {
    (@subject) => { () };
    (@subject $first:expr $(, $argument:expr)*) => { $first };
    ($kernel:expr, $mask:expr, $function:expr $(, $argument:expr)*) => {{
        let function = $function;
        let subject = crate::scx::call::call_op!(@subject $($argument),*);
        let context = crate::scx::call::Context {
            mask: $mask,
            subject: crate::scx::call::Subject::cpu(subject),
            task: crate::scx::call::Subject::task(subject),
        };
        let outer = std::mem::replace(&mut $kernel.scx.context, context);
        let outer_op = $kernel.calls.begin(&stringify!($function));
        let outer_held = $kernel.bpf.held();
        let result = crate::scx::call::call!($kernel, function $(, $argument)*);
        if $kernel.bpf.give_back(outer_held) {
            $kernel.verifier_error("returns without releasing its references or locks");
        }
        $kernel.calls.end(outer_op);
        if $kernel.bpf.instance.has_garbage() && $kernel.calls.is_over() {
            $kernel.bpf.instance.collect_garbage();
        }
        $kernel.scx.context = outer;
        if let Some(index) = const { crate::scx::callbacks::index(stringify!($function)) }
            && $kernel.callbacks.is_some()
        {
            $kernel.charge_callback(index);
        }
        result
    }};
}
pub(crate) use call_op;
