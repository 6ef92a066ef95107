//! The kfuncs that the scheduler calls: the functions behind `struct equipoise_kernel`, in its order. Each checks its
//! arguments and context as the kernel does, and does its work through [`Kernel`](crate::kernel::Kernel).

/// Defines the functions that C calls, and their table. For a function that only some ops may call, the macro takes its
/// group, its C name and its return value for other ops, if any: `[kf::GROUP = "NAME", else VALUE]`.
macro_rules! kfuncs {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($kernel:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?
            $([$mask:path = $called:literal $(, else $refused:expr)?])? $body:block
    )*) => {
        /// A group of the functions of `struct equipoise_kernel`.
        #[repr(C)]
        pub struct Kfuncs {
            $($name: unsafe extern "C" fn(*mut c_void $(, <$type as FromC>::C)*) $(-> $result)?,)*
        }

        pub const KFUNCS: Kfuncs = Kfuncs { $($name),* };

        $(
            $(#[$doc])*
            #[allow(clippy::unused_unit)]
            unsafe extern "C" fn $name(
                kernel: *mut c_void
                $(, $argument: <$type as FromC>::C)*
            ) $(-> $result)? {
                // SAFETY: C calls this through the table, and only while the kernel calls C: `kernel` is the pointer
                // that `Kernel::lend()` stored for that call. The caller does not use its own reference during the
                // call, so this is the only one in use. The arguments have the types that `native`'s headers declare:
                // tasks, maps, masks and texts that the scheduler received or owns. The objects live until the
                // scheduler's call ends (`Maps::forget_removed()` keeps those that the kernel frees during the call),
                // and C, which waits for this function to return, does not use them. A pointer that C may pass as NULL
                // is an `Option` or is checked before it is followed. There is no verifier, so the scheduler itself
                // must pass what it declares: a wrong pointer has the same effect as in any other program
                // (`host::fault`).
                let ($kernel, ($($argument,)*)) = unsafe {
                    (&mut *kernel.cast::<Kernel<'_>>(), ($(<$type as FromC>::from_c($argument),)*))
                };
                $(if !allowed($kernel, $mask, $called) {
                    return $($refused)?;
                })?
                $body
            }
        )*
    };
}

mod checks;
mod machine;
mod memory;
mod queues;

/// `struct equipoise_kernel`'s functions.
#[repr(C)]
pub struct Kfuncs {
    queues: queues::Kfuncs,
    machine: machine::Kfuncs,
    memory: memory::Kfuncs,
}

pub const KFUNCS: Kfuncs = Kfuncs {
    queues: queues::KFUNCS,
    machine: machine::KFUNCS,
    memory: memory::KFUNCS,
};
