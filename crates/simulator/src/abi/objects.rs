//! Memory that the scheduler allocates: storage of tasks and control groups, and objects of its own.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeSet;
use std::ffi::c_void;

/// In front of each allocation: its size, and alignment for what follows.
const HEADER: usize = 16;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size + HEADER, HEADER).expect("an object's size fits")
}

/// Memory for the scheduler, of zeroes.
pub fn zeroed(size: usize) -> *mut c_void {
    // SAFETY: the layout is not empty; the size is kept for release().
    unsafe {
        let block = alloc_zeroed(layout(size)).cast::<usize>();
        assert!(!block.is_null(), "out of memory");
        block.write(size);
        block.cast::<u8>().add(HEADER).cast()
    }
}

/// Gives back what [`zeroed`] gave; nothing for null.
pub fn release(object: *mut c_void) {
    if !object.is_null() {
        // SAFETY: from zeroed(), with the size in front.
        unsafe {
            let block = object.cast::<u8>().sub(HEADER);
            dealloc(block, layout(block.cast::<usize>().read()));
        }
    }
}

/// The objects that the scheduler has allocated (`bpf_obj_new()`) and not dropped.
#[derive(Default)]
pub struct Objects(BTreeSet<*mut c_void>);

impl Objects {
    /// A new one of `size` bytes.
    pub fn alloc(&mut self, size: usize) -> *mut c_void {
        let object = zeroed(size);
        self.0.insert(object);
        object
    }

    /// Drops `object`. One that is none is left alone.
    pub fn free(&mut self, object: *mut c_void) {
        if self.0.remove(&object) {
            release(object);
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for &object in &self.0 {
            release(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_dropped_once() {
        let mut objects = Objects::default();
        let (kept, dropped) = (objects.alloc(8), objects.alloc(0));
        objects.free(dropped);
        objects.free(dropped);
        objects.free(std::ptr::null_mut());
        assert_eq!(objects.0, BTreeSet::from([kept]));
    }
}
