//! The computations of the schedulers' C, called from Rust.

#[path = "../common/mod.rs"]
mod common;

/// Methods that call the functions of the same names in the library of C code that is the value's only field.
macro_rules! c_fns {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $(-> $returns:ty)?;)*) => {$(
        $(#[$doc])*
        fn $name(&self, $($arg: $type),*) $(-> $returns)? {
            type Function = unsafe extern "C" fn($($type),*) $(-> $returns)?;
            let function = unsafe { self.0.get::<Function>(stringify!($name).as_bytes()) }.unwrap();
            // SAFETY: the code that the test compiles defines the function with this type.
            unsafe { function($($arg),*) }
        }
    )*};
}

mod capacity;
mod eevdf;
mod eevdf_balance;
mod eevdf_groups;
mod eevdf_moves;
mod energy;
mod equipoise;
mod equipoise_bandwidth;
mod equipoise_clusters;
mod equipoise_fair;
mod equipoise_held;
mod equipoise_hotplug;
mod equipoise_kernel;
mod equipoise_requests;
mod equipoise_threads;
mod fair;
mod frequency;
mod hmp;
mod imbalance;
mod newidle;
mod placement;
mod powersave;
mod scheduler;
mod task_util;
mod utilization;
