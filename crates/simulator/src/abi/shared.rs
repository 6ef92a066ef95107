//! Data that C points into for as long as the scheduler is loaded.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Owns a `T` that C, too, may read and write. Moving this does not move the `T`.
///
/// It is not a `Box`, which would promise that there is no other pointer.
pub struct Shared<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> Shared<T> {
    /// The pointer for C.
    #[inline]
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: ?Sized> From<Box<T>> for Shared<T> {
    fn from(owned: Box<T>) -> Shared<T> {
        Shared(NonNull::from(Box::leak(owned)))
    }
}

impl<T> FromIterator<T> for Shared<[T]> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Shared<[T]> {
        Shared::from(Box::from_iter(items))
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the `T` lives as long as `self`. C, which may write to it, runs only while it is called. During such
        // a call, the callers of C (`scx::call::call!`) and the functions that C calls (`abi::kfuncs`) keep no
        // reference to the `T`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Shared<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the `T` lives as long as `self`, and C does not run now (see `deref()`); `self` is borrowed for as
        // long as the reference.
        unsafe { self.0.as_mut() }
    }
}

impl<T: ?Sized> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box, see `from()`. The scheduler, which has pointers to it, no longer runs.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
