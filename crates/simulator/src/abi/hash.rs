//! The entries of a hash map. A key has one value, or one for each CPU. A map may remove its least recently used entry
//! to make room for a new one (`BPF_MAP_TYPE_LRU_HASH`).

use crate::abi::maps::{Bytes, Entry, words};
use crate::abi::shared::Shared;
use std::collections::BTreeMap;

type Key = Box<[u8]>;

/// The entries of a hash, ordered so that iteration does not depend on hashing.
pub struct Hash {
    values: BTreeMap<Key, Value>,
    /// The size of one CPU's value, in words.
    stride: usize,
    /// The number of a value's copies: one for each CPU, or 1.
    copies: usize,
    /// The keys by their last use, if the hash removes the least recently used entry.
    uses: Option<BTreeMap<u64, Key>>,
    used: u64,
}

struct Value {
    words: Shared<[u64]>,
    /// The number of the last use.
    used: u64,
}

impl Hash {
    /// An empty hash whose values have `copies` copies of `stride` bytes each.
    pub fn new(stride: u32, copies: usize, removes: bool) -> Hash {
        Hash {
            values: BTreeMap::new(),
            stride: stride as usize / 8,
            copies,
            uses: removes.then(BTreeMap::new),
            used: 0,
        }
    }

    fn copy(&self, value: &Value, cpu: usize) -> *mut u8 {
        let copy = if self.copies > 1 { cpu } else { 0 };
        value
            .words
            .as_ptr()
            .cast::<u64>()
            .wrapping_add(copy * self.stride)
            .cast()
    }

    fn touch(&mut self, key: &[u8]) {
        let Some(uses) = &mut self.uses else { return };
        if let Some(value) = self.values.get_mut(key) {
            uses.remove(&value.used);
            self.used += 1;
            value.used = self.used;
            uses.insert(self.used, key.into());
        }
    }

    pub fn copies(&self) -> usize {
        self.copies
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.values.contains_key(key)
    }

    /// The value of the entry `key` on `cpu`; null if there is no such entry.
    pub fn get(&mut self, key: &[u8], cpu: usize) -> *mut u8 {
        self.touch(key);
        let value = self.values.get(key);
        value.map_or(std::ptr::null_mut(), |value| self.copy(value, cpu))
    }

    /// Sets the value of the entry `key` on `cpu`. In a new entry, the other CPUs' values are zeroes.
    pub fn set(&mut self, key: &[u8], cpu: usize, value: Bytes<'_>) {
        let (stride, copies) = (self.stride, self.copies);
        let own = if copies > 1 { cpu * stride } else { 0 };
        let entry = self.values.entry(key.into()).or_insert_with(|| Value {
            words: vec![0; stride * copies].into_boxed_slice().into(),
            used: 0,
        });
        // An old value is overwritten in place, because C may hold a pointer to it, and may even pass that pointer as
        // the new value.
        for (index, word) in words(value).enumerate() {
            entry.words[own + index] = word;
        }
        self.touch(key);
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<Shared<[u64]>> {
        let value = self.values.remove(key)?;
        if let Some(uses) = &mut self.uses {
            uses.remove(&value.used);
        }
        Some(value.words)
    }

    /// Removes the least recently used entry, and returns its value; `None` if the hash keeps its entries. Linux finds
    /// such an entry approximately, and may remove entries before the map is full (kernel/bpf/bpf_lru_list.c).
    pub fn make_room(&mut self) -> Option<Shared<[u64]>> {
        let (_, key) = self.uses.as_ref()?.first_key_value()?;
        let key = key.clone();
        self.remove(&key)
    }

    /// All entries, as `cpu` sees them.
    pub fn entries(&self, cpu: usize) -> impl Iterator<Item = Entry> {
        let values = self.values.iter();
        values.map(move |(key, value)| (key.clone(), self.copy(value, cpu)))
    }

    /// The entry whose value contains the address `inside`.
    pub fn entry_around(&self, inside: usize) -> Option<Entry> {
        let around = |value: &Value| {
            let start = value.words.as_ptr().cast::<u8>().addr();
            (start..start + 8 * value.words.len()).contains(&inside)
        };
        let (key, value) = self.values.iter().find(|(_, value)| around(value))?;
        Some((key.clone(), self.copy(value, 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn set(hash: &mut Hash, key: u8, cpu: usize, byte: u8) {
        hash.set(
            &[key],
            cpu,
            &[const { Cell::new(0) }; 8].map(|_| Cell::new(byte)),
        );
    }

    fn get(hash: &mut Hash, key: u8, cpu: usize) -> Option<u8> {
        let at = hash.get(&[key], cpu);
        // SAFETY: the pointer is null or points to a value.
        (!at.is_null()).then(|| unsafe { at.read() })
    }

    #[test]
    fn the_entry_that_was_used_the_longest_time_ago_makes_room() {
        let mut hash = Hash::new(8, 1, true);
        for key in 1..=3 {
            set(&mut hash, key, 0, key);
        }
        assert_eq!(get(&mut hash, 1, 0), Some(1));
        assert!(hash.make_room().is_some());
        assert!(hash.contains(&[1]) && !hash.contains(&[2]));
        set(&mut hash, 3, 0, 9);
        assert!(hash.make_room().is_some());
        assert_eq!(
            (get(&mut hash, 1, 0), get(&mut hash, 3, 0)),
            (None, Some(9))
        );
        assert!(hash.remove(&[3]).is_some());
        assert!(hash.make_room().is_none());
        assert!(Hash::new(8, 1, false).make_room().is_none());
    }

    #[test]
    fn each_cpu_has_its_copy() {
        let mut hash = Hash::new(8, 2, false);
        set(&mut hash, 1, 1, 5);
        assert_eq!(
            (get(&mut hash, 1, 0), get(&mut hash, 1, 1)),
            (Some(0), Some(5))
        );
        let second = hash.get(&[1], 1);
        assert_eq!(
            hash.entry_around(second.addr() + 7).unwrap().1,
            hash.get(&[1], 0)
        );
        assert_eq!(hash.entries(1).next().unwrap().1, second);
    }
}
