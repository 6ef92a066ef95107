//! Memory that the scheduler allocates: storage of tasks and control groups, and objects of its own.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// The length of the header in front of each allocation, which holds its size, and padding for alignment.
const HEADER: usize = 16;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size + HEADER, HEADER).expect("an object's size fits")
}

/// Zeroed memory for the scheduler; null if the host has no memory left.
pub fn zeroed(size: usize) -> *mut c_void {
    // SAFETY: the layout is not empty; the size is kept for release().
    unsafe {
        let block = alloc_zeroed(layout(size)).cast::<usize>();
        if block.is_null() {
            return block.cast();
        }
        block.write(size);
        block.cast::<u8>().add(HEADER).cast()
    }
}

/// Frees an allocation of [`zeroed`]; does nothing for null.
pub fn release(object: *mut c_void) {
    if !object.is_null() {
        // SAFETY: the object comes from zeroed(), with its size in front.
        unsafe {
            let block = object.cast::<u8>().sub(HEADER);
            dealloc(block, layout(block.cast::<usize>().read()));
        }
    }
}

/// Limits on the bytes of a scheduler's objects and on the number of objects. Linux is limited only by its memory.
const MOST_BYTES: usize = 1 << 30;
const MOST_OBJECTS: usize = 1 << 22;

/// The objects that the scheduler has allocated (`bpf_obj_new()`) and not dropped.
#[derive(Default)]
pub struct Objects {
    /// The number of owners of each object, and its size.
    owned: BTreeMap<*mut c_void, (u32, usize)>,
    bytes: usize,
    /// Objects that were dropped in the current call, which may still read them.
    pub dropped: Vec<*mut c_void>,
}

impl Objects {
    /// A new object of `size` bytes; null if the scheduler has too many objects or bytes, or the host has no memory
    /// left.
    pub fn alloc(&mut self, size: usize) -> *mut c_void {
        let bytes = self.bytes.saturating_add(size);
        if bytes > MOST_BYTES || self.owned.len() == MOST_OBJECTS {
            return std::ptr::null_mut();
        }
        let object = zeroed(size);
        if !object.is_null() {
            self.bytes = bytes;
            self.owned.insert(object, (1, size));
        }
        object
    }

    /// Is there an object at `address`?
    pub fn has(&self, address: usize) -> bool {
        let object = std::ptr::without_provenance_mut(address);
        address != 0 && self.owned.contains_key(&object)
    }

    /// Adds an owner to `object`. Returns false if there is no such object.
    pub fn keep(&mut self, object: *mut c_void) -> bool {
        let owners = self.owned.get_mut(&object);
        owners.map(|(owners, _)| *owners += 1).is_some()
    }

    /// Removes an owner of the object that begins at `within` or has a node there; if it was the last one, drops the
    /// object. Returns false if there is no such object. Does nothing for null.
    pub fn free(&mut self, within: *mut c_void) -> bool {
        if within.is_null() {
            return true;
        }
        let found = self.owned.range_mut(..=within).next_back();
        let Some((&object, (owners, size))) =
            found.filter(|(start, (_, size))| within.addr() - start.addr() <= *size)
        else {
            return false;
        };
        *owners -= 1;
        if *owners == 0 {
            self.bytes -= *size;
            self.owned.remove(&object);
            self.dropped.push(object);
        }
        true
    }

    /// Frees the objects that were dropped in the call into the scheduler. Call this when the call is over.
    pub fn forget_dropped(&mut self) {
        while let Some(object) = self.dropped.pop() {
            release(object);
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.forget_dropped();
        for &object in self.owned.keys() {
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
        assert!(objects.keep(dropped));
        assert!(objects.free(dropped) && objects.free(dropped));
        assert!(!objects.free(dropped) && !objects.keep(dropped));
        assert!(objects.free(std::ptr::null_mut()));
        objects.forget_dropped();
        assert_eq!(objects.owned, BTreeMap::from([(kept, (1, 8))]));
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut objects = Objects::default();
        let half = objects.alloc(MOST_BYTES / 2);
        assert!(!half.is_null());
        assert!(objects.alloc(MOST_BYTES / 2 + 1).is_null());
        assert!(objects.free(half));
        assert!(!objects.alloc(MOST_BYTES / 2 + 1).is_null());
    }
}
