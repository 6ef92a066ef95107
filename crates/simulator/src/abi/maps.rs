//! BPF maps whose contents C cannot reach by itself: hashes, queues and stacks.

use crate::abi::instance::{Contents, PERCPU_ARRAY};
use crate::abi::layout::{self as abi, Map};
use crate::kernel::Kernel;
use std::ffi::c_void;
use std::slice;

// Flags of bpf_map_update_elem().
const NOEXIST: u64 = 1;
const EXIST: u64 = 2;

fn error(number: i32) -> i64 {
    -i64::from(number)
}

/// A value's bytes as 8-byte words, which keeps it aligned.
fn words(value: &[u8]) -> Box<[u64]> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    value.chunks(8).map(word).collect()
}

impl Map {
    /// The value at `index` as `cpu` sees it.
    fn element(&self, cpu: usize, index: u32) -> *mut u8 {
        let copy = if self.kind == PERCPU_ARRAY { cpu } else { 0 };
        let position = copy * self.max_entries as usize + index as usize;
        self.values.wrapping_add(position * self.stride as usize)
    }
}

/// C's pointers name objects of the map's own sizes in all of these.
impl Kernel<'_> {
    /// The key and the value that `inside` is a part of, in an array or a hash.
    pub fn entry_around(&mut self, map: &Map, inside: *mut u8) -> Option<(Box<[u8]>, *mut u8)> {
        match &mut self.bpf.instance.contents[map.index as usize] {
            Contents::Direct if map.stride > 0 => {
                let offset = (inside as usize).checked_sub(map.values as usize)?;
                let index = (offset / map.stride as usize) as u32;
                (index < map.max_entries)
                    .then(|| (Box::from(index.to_ne_bytes()), map.element(0, index)))
            }
            Contents::Hash(values) => values
                .iter_mut()
                .find(|(_, value)| value.as_ptr_range().contains(&inside.cast_const().cast()))
                .map(|(key, value)| (key.clone(), value.as_mut_ptr().cast())),
            _ => None,
        }
    }

    pub unsafe fn map_lookup(&mut self, map: &Map, key: *const u8) -> *mut u8 {
        let key = unsafe { slice::from_raw_parts(key, map.key_size as usize) };
        match &mut self.bpf.instance.contents[map.index as usize] {
            Contents::Hash(values) => values
                .get_mut(key)
                .map_or(std::ptr::null_mut(), |value| value.as_mut_ptr().cast()),
            _ => std::ptr::null_mut(),
        }
    }

    pub unsafe fn map_update(
        &mut self,
        map: &Map,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> i64 {
        let value = unsafe { slice::from_raw_parts(value, map.value_size as usize) };
        let cpu = self.this_cpu();
        match &mut self.bpf.instance.contents[map.index as usize] {
            Contents::Direct => {
                let index = unsafe { key.cast::<u32>().read_unaligned() };
                if index >= map.max_entries || map.values.is_null() {
                    return error(abi::E2BIG);
                }
                if flags & NOEXIST != 0 {
                    return error(abi::EEXIST);
                }
                let to = map.element(cpu, index);
                unsafe { to.copy_from(value.as_ptr(), value.len()) };
                0
            }
            Contents::Hash(values) => {
                let key = unsafe { slice::from_raw_parts(key, map.key_size as usize) };
                let full = values.len() >= map.max_entries as usize;
                match values.get_mut(key) {
                    Some(_) if flags & NOEXIST != 0 => error(abi::EEXIST),
                    Some(old) => {
                        // In place: C may hold a pointer to it.
                        old.copy_from_slice(&words(value));
                        0
                    }
                    None if flags & EXIST != 0 => error(abi::ENOENT),
                    None if full => error(abi::E2BIG),
                    None => {
                        values.insert(key.into(), words(value));
                        0
                    }
                }
            }
            Contents::Queue(_) | Contents::Stack(_) => error(abi::EINVAL),
        }
    }

    pub unsafe fn map_delete(&mut self, map: &Map, key: *const u8) -> i64 {
        let key = unsafe { slice::from_raw_parts(key, map.key_size as usize) };
        match &mut self.bpf.instance.contents[map.index as usize] {
            Contents::Hash(values) => match values.remove(key) {
                Some(value) => {
                    self.bpf.instance.keep_removed(value);
                    0
                }
                None => error(abi::ENOENT),
            },
            _ => error(abi::EINVAL),
        }
    }

    pub unsafe fn map_push(&mut self, map: &Map, value: *const u8, flags: u64) -> i64 {
        let value = unsafe { slice::from_raw_parts(value, map.value_size as usize) };
        let full = |len: usize| len >= map.max_entries as usize;
        match &mut self.bpf.instance.contents[map.index as usize] {
            Contents::Queue(values) if full(values.len()) && flags & EXIST == 0 => {
                error(abi::E2BIG)
            }
            Contents::Queue(values) => {
                if full(values.len()) {
                    values.pop_front();
                }
                values.push_back(value.into());
                0
            }
            Contents::Stack(values) if full(values.len()) && flags & EXIST == 0 => {
                error(abi::E2BIG)
            }
            Contents::Stack(values) => {
                if full(values.len()) {
                    values.remove(0);
                }
                values.push(value.into());
                0
            }
            _ => error(abi::EINVAL),
        }
    }

    pub unsafe fn map_pop(&mut self, map: &Map, to: *mut u8, keep: bool) -> i64 {
        let value = match &mut self.bpf.instance.contents[map.index as usize] {
            Contents::Queue(values) if keep => values.front().cloned(),
            Contents::Queue(values) => values.pop_front(),
            Contents::Stack(values) if keep => values.last().cloned(),
            Contents::Stack(values) => values.pop(),
            _ => return error(abi::EINVAL),
        };
        match value {
            Some(value) => {
                unsafe { to.copy_from(value.as_ptr(), value.len()) };
                0
            }
            None => error(abi::ENOENT),
        }
    }

    /// Calls `callback(map, key, value, ctx)` for each entry until it returns other than 0.
    pub unsafe fn map_for_each(
        &mut self,
        map: &Map,
        variable: *mut c_void,
        callback: *mut c_void,
        context: *mut c_void,
    ) -> i64 {
        type Callback = unsafe extern "C" fn(*mut c_void, *mut u8, *mut u8, *mut c_void) -> i64;
        let callback: Callback = unsafe { std::mem::transmute(callback) };
        let cpu = self.this_cpu();
        let entries: Vec<(Box<[u8]>, *mut u8)> =
            match &mut self.bpf.instance.contents[map.index as usize] {
                Contents::Hash(values) => values
                    .iter_mut()
                    .map(|(key, value)| (key.clone(), value.as_mut_ptr().cast()))
                    .collect(),
                Contents::Direct => (0..map.max_entries)
                    .map(|index| (Box::from(index.to_ne_bytes()), map.element(cpu, index)))
                    .collect(),
                _ => return error(abi::EINVAL),
            };
        let mut seen = 0;
        for (mut key, value) in entries {
            seen += 1;
            self.lend();
            if unsafe { callback(variable, key.as_mut_ptr(), value, context) } != 0 {
                break;
            }
        }
        seen
    }
}
