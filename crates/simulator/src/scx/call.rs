//! Calls into the scheduler: its ops, its programs at tracepoints, its timers' callbacks.

/// `SCX_KF_*`: what an op may call.
pub mod kf {
    /// `ops.init()`, timers: anything that needs no runqueue lock.
    pub const UNLOCKED: u32 = 0;
    pub const CPU_RELEASE: u32 = 1 << 0;
    pub const DISPATCH: u32 = 1 << 1;
    pub const ENQUEUE: u32 = 1 << 2;
    pub const SELECT_CPU: u32 = 1 << 3;
    pub const REST: u32 = 1 << 4;
}

/// Calls a function of the scheduler that `$kernel` runs, for the time of which it is lent the kernel.
macro_rules! call {
    ($kernel:expr, $function:expr $(, $argument:expr)*) => {{
        $kernel.lend();
        // SAFETY: a function of the loaded scheduler, of the type that its C has (its ops' layout is checked
        // when it is loaded; programs and callbacks are of their tracepoint's or map's type), with tasks,
        // CPUs and structures that are alive until it returns. What it calls comes back through the pointer
        // that was just lent, and the caller's own reference rests meanwhile.
        unsafe { $function($($argument),*) }
    }};
}
pub(crate) use call;

/// `SCX_CALL_OP()`: calls an op of the scheduler, which may use the kfuncs that `$mask` allows.
macro_rules! call_op {
    ($kernel:expr, $mask:expr, $function:expr $(, $argument:expr)*) => {{
        let function = $function;
        let outer = std::mem::replace(&mut $kernel.scx.kf_mask, $mask);
        let outer_op = $kernel.calls.begin(&stringify!($function));
        let outer_held = $kernel.bpf.held();
        let result = crate::scx::call::call!($kernel, function $(, $argument)*);
        if $kernel.bpf.give_back(outer_held) {
            $kernel.verifier_error("returns with references or locks that it has taken and not given back");
        }
        if $kernel.calls.end(outer_op) {
            $kernel.bpf.instance.maps.forget_removed();
            $kernel.bpf.instance.objects.forget_dropped();
        }
        $kernel.scx.kf_mask = outer;
        result
    }};
}
pub(crate) use call_op;
