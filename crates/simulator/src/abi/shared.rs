//! What C has pointers into for as long as the scheduler is loaded.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Owns a `T` that C may read and write, too. Moving this does not move the `T`.
///
/// A box may not be used: it promises that nobody else has a pointer.
pub struct Shared<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> Shared<T> {
    /// What C is given.
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
        // SAFETY: it lives as long as this. C, which may write to it, runs only while it is called, and who
        // calls it (`scx::call::call!`) or is called by it (`abi::kfuncs`) keeps no such reference meanwhile.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Shared<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this is borrowed for as long.
        unsafe { self.0.as_mut() }
    }
}

impl<T: ?Sized> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: from a box, see `from()`. The scheduler, which has pointers to it, runs no more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
