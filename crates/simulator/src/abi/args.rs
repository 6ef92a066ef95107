//! The arguments that C passes to kernel functions, as Rust types.

use crate::abi::layout::{Map, TaskStruct};
use crate::abi::maps::MapVariable;
use crate::abi::timers;
use crate::kernel::task::TaskPtr;
use machine::CpuMask;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::slice;

/// An argument of a kfunc.
pub trait FromC {
    /// The type that C passes.
    type C;

    /// # Safety
    /// A pointer that is not null points to the declared type for as long as the kfunc runs. No other code uses the
    /// object during the call, except for data in cells.
    unsafe fn from_c(c: Self::C) -> Self;
}

/// Arguments whose value means the same in C and in Rust.
macro_rules! as_it_is {
    ($($type:ty),*) => {
        $(impl FromC for $type {
            type C = $type;

            #[inline]
            unsafe fn from_c(c: $type) -> $type {
                c
            }
        })*
    };
}
as_it_is!(
    bool,
    i32,
    u32,
    i64,
    u64,
    *mut c_void,
    Option<timers::Callback>,
    ForEach
);

/// The callback of `bpf_for_each_map_elem()`, which gets the map variable, a key, the key's value and the context.
pub type ForEach = unsafe extern "C" fn(*mut *const Map, *mut u8, *mut u8, *mut c_void) -> i64;

/// Ends the scheduler by a fault if `c` is NULL or misaligned where a `T` is required, as access to an invalid address
/// would.
#[inline]
fn expect_one<T>(c: *const T) {
    if c.is_null() || !c.is_aligned() {
        none();
    }
}

#[cold]
fn none() {
    // SAFETY: the signal is handled (crate::host::fault).
    unsafe { libc::raise(libc::SIGBUS) };
}

impl<T> FromC for &mut T {
    type C = *mut T;

    #[inline]
    unsafe fn from_c(c: *mut T) -> Self {
        expect_one(c);
        // SAFETY: the trait guarantees a valid pointer.
        unsafe { &mut *c }
    }
}

impl<T> FromC for &T {
    type C = *const T;

    #[inline]
    unsafe fn from_c(c: *const T) -> Self {
        expect_one(c);
        // SAFETY: the trait guarantees a valid pointer.
        unsafe { &*c }
    }
}

impl FromC for CpuMask {
    type C = *const CpuMask;

    #[inline]
    unsafe fn from_c(c: *const CpuMask) -> CpuMask {
        // SAFETY: the trait guarantees a valid pointer.
        unsafe { *c }
    }
}

impl FromC for Option<TaskPtr> {
    type C = *mut TaskStruct;

    #[inline]
    unsafe fn from_c(c: *mut TaskStruct) -> Option<TaskPtr> {
        // SAFETY: the trait guarantees a valid pointer, and all task pointers that a scheduler has are from the kernel.
        unsafe { TaskPtr::from_abi(c) }
    }
}

impl FromC for &CStr {
    type C = *const c_char;

    unsafe fn from_c(c: *const c_char) -> Self {
        // SAFETY: the trait guarantees a valid pointer.
        unsafe { CStr::from_ptr(c) }
    }
}

impl FromC for MapVariable {
    type C = *mut *const Map;

    unsafe fn from_c(c: *mut *const Map) -> MapVariable {
        MapVariable(c)
    }
}

/// An array of numbers, whose length is another argument.
pub struct Numbers(*const i32);

impl FromC for Numbers {
    type C = *const i32;

    unsafe fn from_c(c: *const i32) -> Numbers {
        expect_one(c);
        Numbers(c)
    }
}

impl Numbers {
    pub fn first(&self, count: u32) -> &[i32] {
        // SAFETY: `FromC` guarantees a valid pointer; the scheduler passes the length of its array.
        unsafe { slice::from_raw_parts(self.0, count as usize) }
    }
}

/// A key or a value of the map that is passed with it.
#[derive(Clone, Copy)]
pub struct Bytes(*const u8);

impl FromC for Bytes {
    type C = *const u8;

    #[inline]
    unsafe fn from_c(c: *const u8) -> Bytes {
        Bytes(c)
    }
}

impl Bytes {
    /// The bytes as a key. The map never gives C a pointer to one of its own keys.
    pub fn key(&self, map: &Map) -> &[u8] {
        // SAFETY: by `FromC`, the value has the length of the map's keys.
        unsafe { slice::from_raw_parts(self.0, map.key_size as usize) }
    }

    /// The bytes as a value, which may be in the map.
    pub fn value(&self, map: &Map) -> &[Cell<u8>] {
        // SAFETY: by `FromC`, the value has the length of the map's values.
        unsafe { slice::from_raw_parts(self.0.cast(), map.value_size as usize) }
    }

    /// Copies the value to `to`, which has room for a value. Does nothing for NULL.
    pub fn copy_to(&self, map: &Map, to: *mut u8) {
        if !self.0.is_null() {
            // SAFETY: by `FromC`, the value has the length of the map's values.
            unsafe { to.copy_from(self.0, map.value_size as usize) };
        }
    }
}
