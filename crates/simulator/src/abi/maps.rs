//! BPF maps: arrays and storages, which C reads directly, and hashes, queues and stacks, which it accesses by calls.

use crate::abi::hash::Hash;
use crate::abi::layout::{self as abi, Map};
use crate::abi::shared::Shared;
use native::MapDefinition;
use std::cell::Cell;
use std::collections::VecDeque;

// Map types of include/uapi/linux/bpf.h.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PERCPU_HASH: u32 = 5;
const PERCPU_ARRAY: u32 = 6;
const LRU_HASH: u32 = 9;
const LRU_PERCPU_HASH: u32 = 10;
const ARRAY_OF_MAPS: u32 = 12;
const QUEUE: u32 = 22;
const STACK: u32 = 23;
const RINGBUF: u32 = 27;
const TASK_STORAGE: u32 = 29;
const USER_RINGBUF: u32 = 31;
const CGRP_STORAGE: u32 = 32;
const ARENA: u32 = 33;

/// The names of map types that are not supported, after `BPF_MAP_TYPE_`.
const UNSUPPORTED: [(u32, &str); 10] = [
    (3, "PROG_ARRAY"),
    (4, "PERF_EVENT_ARRAY"),
    (7, "STACK_TRACE"),
    (8, "CGROUP_ARRAY"),
    (11, "LPM_TRIE"),
    (13, "HASH_OF_MAPS"),
    (26, "STRUCT_OPS"),
    (28, "INODE_STORAGE"),
    (30, "BLOOM_FILTER"),
    (34, "INSN_ARRAY"),
];

// Flags of bpf_map_update_elem().
const NOEXIST: u64 = 1;
const EXIST: u64 = 2;
const LOCK: u64 = 4;

/// The limit on the size of all maps of a scheduler together. A larger size is probably a mistake, and each of several
/// parallel simulations has its own maps.
const MOST_BYTES: u64 = 1 << 30;

/// The approximate overhead of a hash entry in addition to its key and value, in bytes.
const ENTRY: u64 = 64;

/// The maps of a loaded scheduler.
#[derive(Default)]
pub struct Maps {
    /// The targets of the map variables.
    maps: Vec<Shared<Map>>,
    /// Indexed by `Map::index`.
    contents: Vec<Contents>,
    /// The number of task and cgroup storages.
    storages: u32,
    /// The size of all maps, in bytes.
    bytes: u64,
    /// Values removed from hashes: C may hold pointers to them until its call ends.
    pub removed: Vec<Shared<[u64]>>,
}

/// A key and the address of its value.
pub type Entry = (Box<[u8]>, *mut u8);

enum Contents {
    /// Arrays and storages: C has pointers into these words.
    Direct(Shared<[u64]>),
    Hash(Hash),
    Queue(VecDeque<Box<[u8]>>),
    Stack(Vec<Box<[u8]>>),
}

/// Bytes in C's memory, which C may change.
pub type Bytes<'a> = &'a [Cell<u8>];

fn copy(bytes: Bytes<'_>) -> Box<[u8]> {
    bytes.iter().map(Cell::get).collect()
}

/// A value's bytes as 8-byte words, so that a copy is aligned.
pub fn words(value: Bytes<'_>) -> impl Iterator<Item = u64> {
    value.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = from.get();
        }
        u64::from_ne_bytes(word)
    })
}

/// The checks of Linux: `array_map_alloc_check()`, `htab_map_alloc_check()`,
/// `queue_stack_map_alloc_check()`, `bpf_local_storage_map_alloc_check()`.
fn check_sizes(definition: &MapDefinition) -> Result<(), String> {
    let MapDefinition {
        kind,
        key_size,
        value_size,
        max_entries,
        ..
    } = *definition;
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(other, _)| *other == kind) {
        return Err(format!("BPF_MAP_TYPE_{name} is not supported"));
    }
    if kind == ARENA {
        return match (key_size, value_size) {
            (0, 0) => Ok(()),
            _ => Err("an arena has no keys and no values".into()),
        };
    }
    if matches!(kind, RINGBUF | USER_RINGBUF) {
        return match (key_size, value_size, max_entries) {
            (0, 0, size) if size.is_power_of_two() && size % PAGE == 0 => Ok(()),
            (0, 0, size) => Err(format!(
                "a ring buffer of {size} bytes; expected a power of two, and whole pages"
            )),
            _ => Err("a ring buffer has no keys and no values".into()),
        };
    }
    let (expected_key, storage) = match kind {
        ARRAY | PERCPU_ARRAY | ARRAY_OF_MAPS => (Some(4), false),
        TASK_STORAGE | CGRP_STORAGE => (Some(4), true),
        QUEUE | STACK => (Some(0), false),
        _ => (None, false),
    };
    match expected_key {
        Some(expected) if key_size != expected => {
            return Err(format!("keys of {key_size} bytes; expected {expected}"));
        }
        None if key_size == 0 => return Err("no key; expected __type(key, ...)".into()),
        _ => {}
    }
    if value_size == 0 && kind != ARRAY_OF_MAPS {
        return Err("no value; expected __type(value, ...)".into());
    }
    let most = match kind {
        ARRAY => i32::MAX as u32,
        PERCPU_ARRAY | PERCPU_HASH | LRU_PERCPU_HASH => MOST_PER_CPU,
        _ if storage => MOST_STORAGE,
        _ => MOST_VALUE,
    };
    if value_size > most {
        return Err(format!(
            "values of {value_size} bytes; expected at most {most}"
        ));
    }
    match (storage, max_entries) {
        (false, 0) => Err("no entries; expected __uint(max_entries, ...)".into()),
        (true, 1..) => Err(format!(
            "{max_entries} entries; expected none, because each task or cgroup has one"
        )),
        _ => Ok(()),
    }
}

const PAGE: u32 = 4096;

/// The largest sizes of a value, in bytes: `KMALLOC_MAX_SIZE`, `PCPU_MIN_UNIT_SIZE`, and
/// `BPF_LOCAL_STORAGE_MAX_VALUE_SIZE`, without the small overheads that Linux subtracts.
const MOST_VALUE: u32 = 4 << 20;
const MOST_PER_CPU: u32 = 32 << 10;
const MOST_STORAGE: u32 = 64 << 10;

fn zeroes(words: usize) -> Shared<[u64]> {
    vec![0; words].into_boxed_slice().into()
}

/// The variable in the scheduler's C that stands for a map, and points to it.
#[derive(Clone, Copy)]
pub struct MapVariable(pub *mut *const Map);

impl MapVariable {
    pub fn map(&self) -> &Map {
        // SAFETY: C passes only such variables of its own (`args::FromC`), and they point to maps
        // from loading to unloading.
        unsafe { &**self.0 }
    }
}

impl Map {
    /// The value at `index` as `cpu` sees it.
    fn element(&self, cpu: usize, index: u32) -> *mut u8 {
        let copy = if self.kind == PERCPU_ARRAY { cpu } else { 0 };
        let position = copy * self.max_entries as usize + index as usize;
        self.values.wrapping_add(position * self.stride as usize)
    }
}

/// In all of these functions, C's keys and values have the sizes of the map. Errors are errnos, except those of
/// [`Maps::create`].
impl Maps {
    /// Creates a map and returns the target of its variable. `pointers` are the inner maps of an array of maps. The
    /// error names the unsupported property.
    pub fn create(
        &mut self,
        definition: &MapDefinition,
        nr_cpus: usize,
        pointers: impl FnOnce() -> Shared<[u64]>,
    ) -> Result<*mut Map, String> {
        let mut definition = *definition;
        // The scheduler's loader would set this size, usually to the number of CPUs.
        if definition.kind == ARRAY && definition.max_entries == 0 {
            definition.max_entries = nr_cpus as u32;
        }
        let definition = &definition;
        check_sizes(definition)?;
        let stride = definition.value_size.next_multiple_of(8);
        let mut storage = 0;
        let before = self.bytes;
        let mut taken = 0;
        let mut array = |copies: usize| {
            let bytes = copies as u64 * u64::from(definition.max_entries) * u64::from(stride);
            taken = bytes;
            match before + bytes <= MOST_BYTES {
                true => Ok(Contents::Direct(zeroes(bytes as usize / 8))),
                false => Err(format!(
                    "an array of {bytes} bytes, in addition to {before} bytes of other maps; expected at most {MOST_BYTES} together"
                )),
            }
        };
        let contents = match definition.kind {
            ARRAY => array(1)?,
            PERCPU_ARRAY => array(nr_cpus)?,
            ARRAY_OF_MAPS => Contents::Direct(pointers()),
            HASH => Contents::Hash(Hash::new(stride, 1, false)),
            LRU_HASH => Contents::Hash(Hash::new(stride, 1, true)),
            PERCPU_HASH => Contents::Hash(Hash::new(stride, nr_cpus, false)),
            LRU_PERCPU_HASH => Contents::Hash(Hash::new(stride, nr_cpus, true)),
            QUEUE => Contents::Queue(VecDeque::new()),
            STACK => Contents::Stack(Vec::new()),
            TASK_STORAGE | CGRP_STORAGE => {
                storage = self.storages;
                self.storages += 1;
                array(0)?
            }
            // The pages of an arena, and the records of a ring buffer, are allocated like other
            // objects of the scheduler.
            ARENA | RINGBUF | USER_RINGBUF => array(0)?,
            kind => return Err(format!("map type {kind} is not supported")),
        };
        self.bytes += taken;
        if self.storages as usize > abi::MAX_STORAGES {
            return Err(format!(
                "more than {} task and cgroup storages",
                abi::MAX_STORAGES
            ));
        }
        let map = Shared::from(Box::new(Map {
            kind: definition.kind,
            key_size: definition.key_size,
            value_size: definition.value_size,
            stride,
            max_entries: definition.max_entries,
            storage,
            index: self.maps.len() as u32,
            values: match &contents {
                Contents::Direct(values) => values.as_ptr().cast(),
                _ => std::ptr::null_mut(),
            },
        }));
        let variable = map.as_ptr();
        self.maps.push(map);
        self.contents.push(contents);
        Ok(variable)
    }

    /// The size of an entry of the hash `map`, in bytes.
    fn size_of_entry(&self, map: &Map) -> u64 {
        let copies = match &self.contents[map.index as usize] {
            Contents::Hash(hash) => hash.copies() as u64,
            _ => 1,
        };
        ENTRY + u64::from(map.key_size) + copies * u64::from(map.stride)
    }

    fn contents(&mut self, map: &Map) -> &mut Contents {
        &mut self.contents[map.index as usize]
    }

    /// The entry whose value contains the address `inside`, in an array or a hash.
    pub fn entry_around(&mut self, map: &Map, inside: usize) -> Option<Entry> {
        match self.contents(map) {
            Contents::Direct(_) if map.stride > 0 => {
                let offset = inside.checked_sub(map.values.addr())?;
                let index = (offset / map.stride as usize) as u32;
                (index < map.max_entries)
                    .then(|| (Box::from(index.to_ne_bytes()), map.element(0, index)))
            }
            Contents::Hash(hash) => hash.entry_around(inside),
            _ => None,
        }
    }

    /// Is the map a hash, whose values are replaced?
    pub fn is_hash(&self, map: &Map) -> bool {
        matches!(self.contents[map.index as usize], Contents::Hash(_))
    }

    /// `bpf_map_lookup_percpu_elem()`: null if the map does not have the key.
    pub fn lookup(&mut self, map: &Map, cpu: usize, key: &[u8]) -> *mut u8 {
        match self.contents(map) {
            Contents::Hash(hash) => hash.get(key, cpu),
            Contents::Direct(values) if !values.is_empty() => {
                let index = key.try_into().map_or(u32::MAX, u32::from_ne_bytes);
                match index < map.max_entries {
                    true => map.element(cpu, index),
                    false => std::ptr::null_mut(),
                }
            }
            _ => std::ptr::null_mut(),
        }
    }

    /// `bpf_map_update_elem()` by code on `cpu`.
    pub fn update(
        &mut self,
        map: &Map,
        cpu: usize,
        key: &[u8],
        value: Bytes<'_>,
        flags: u64,
    ) -> Result<(), i32> {
        let more = self.size_of_entry(map);
        let no_room = self.bytes + more > MOST_BYTES;
        if flags & !LOCK > EXIST {
            return Err(abi::EINVAL);
        }
        match self.contents(map) {
            Contents::Direct(values) => {
                let index = key.try_into().map_or(u32::MAX, u32::from_ne_bytes);
                if index >= map.max_entries || values.is_empty() {
                    return Err(abi::E2BIG);
                }
                if flags & NOEXIST != 0 {
                    return Err(abi::EEXIST);
                }
                let to = map.element(cpu, index);
                // SAFETY: an element is as long as a value. `copy_from` allows a value that is the element itself.
                unsafe { to.copy_from(value.as_ptr().cast(), value.len()) };
            }
            Contents::Hash(hash) => {
                let full = hash.len() >= map.max_entries as usize;
                match hash.contains(key) {
                    true if flags & NOEXIST != 0 => return Err(abi::EEXIST),
                    true => hash.set(key, cpu, value),
                    false if flags & EXIST != 0 => return Err(abi::ENOENT),
                    false => {
                        let removed = if full { hash.make_room() } else { None };
                        match (full, &removed) {
                            (true, None) => return Err(abi::E2BIG),
                            (false, _) if no_room => return Err(abi::ENOMEM),
                            _ => hash.set(key, cpu, value),
                        }
                        self.bytes += if full { 0 } else { more };
                        self.removed.extend(removed);
                    }
                }
            }
            Contents::Queue(_) | Contents::Stack(_) => return Err(abi::EINVAL),
        }
        Ok(())
    }

    /// `bpf_map_delete_elem()`. The value is kept until [`Maps::forget_removed`].
    pub fn delete(&mut self, map: &Map, key: &[u8]) -> Result<(), i32> {
        let Contents::Hash(hash) = self.contents(map) else {
            return Err(abi::EINVAL);
        };
        let value = hash.remove(key).ok_or(abi::ENOENT)?;
        self.removed.push(value);
        self.bytes -= self.size_of_entry(map);
        Ok(())
    }

    /// Frees removed values. Call this only when no call into the scheduler that may use one is left.
    pub fn forget_removed(&mut self) {
        self.removed.clear();
    }

    /// `bpf_map_push_elem()`: with `BPF_EXIST` the oldest value makes room if the map is full.
    pub fn push(&mut self, map: &Map, value: Bytes<'_>, flags: u64) -> Result<(), i32> {
        if flags & !EXIST != 0 {
            return Err(abi::EINVAL);
        }
        let full = |len: usize| len >= map.max_entries as usize;
        let more = u64::from(map.value_size) + ENTRY;
        if self.bytes + more > MOST_BYTES {
            return Err(abi::ENOMEM);
        }
        let before = self.queued(map);
        match self.contents(map) {
            Contents::Queue(values) => {
                if full(values.len()) {
                    if flags & EXIST == 0 {
                        return Err(abi::E2BIG);
                    }
                    values.pop_front();
                }
                values.push_back(copy(value));
            }
            Contents::Stack(values) => {
                if full(values.len()) {
                    if flags & EXIST == 0 {
                        return Err(abi::E2BIG);
                    }
                    values.remove(0);
                }
                values.push(copy(value));
            }
            _ => return Err(abi::EINVAL),
        }
        if self.queued(map) > before {
            self.bytes += more;
        }
        Ok(())
    }

    fn queued(&mut self, map: &Map) -> usize {
        match self.contents(map) {
            Contents::Queue(values) => values.len(),
            Contents::Stack(values) => values.len(),
            _ => 0,
        }
    }

    /// `bpf_map_pop_elem()` into `to`, or `bpf_map_peek_elem()` if the value is to `stay`. If there is none, `to` becomes
    /// zero.
    pub fn pop(&mut self, map: &Map, to: Bytes<'_>, stay: bool) -> Result<(), i32> {
        let value = match self.contents(map) {
            Contents::Queue(values) if stay => values.front().cloned(),
            Contents::Queue(values) => values.pop_front(),
            Contents::Stack(values) if stay => values.last().cloned(),
            Contents::Stack(values) => values.pop(),
            _ => return Err(abi::EINVAL),
        };
        let Some(value) = value else {
            to.iter().for_each(|byte| byte.set(0));
            return Err(abi::ENOENT);
        };
        if !stay {
            self.bytes -= u64::from(map.value_size) + ENTRY;
        }
        for (to, &byte) in to.iter().zip(&value) {
            to.set(byte);
        }
        Ok(())
    }

    /// The entries that `bpf_for_each_map_elem()` by code on `cpu` passes.
    pub fn entries(&mut self, map: &Map, cpu: usize) -> Result<Vec<Entry>, i32> {
        match self.contents(map) {
            Contents::Hash(hash) => Ok(hash.entries(cpu).collect()),
            Contents::Direct(_) => Ok((0..map.max_entries)
                .map(|index| (Box::from(index.to_ne_bytes()), map.element(cpu, index)))
                .collect()),
            _ => Err(abi::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(maps: &mut Maps, kind: u32, max_entries: u32) -> *mut Map {
        let definition = MapDefinition {
            kind,
            key_size: if matches!(kind, QUEUE | STACK) { 0 } else { 4 },
            value_size: 12,
            max_entries,
            values_offset: 0,
            inner: None,
        };
        maps.create(&definition, 2, || zeroes(0)).unwrap()
    }

    fn value(byte: u8) -> [Cell<u8>; 12] {
        std::array::from_fn(|_| Cell::new(byte))
    }

    fn first(value: *mut u8) -> u8 {
        unsafe { value.read() }
    }

    #[test]
    fn a_value_of_a_hash_stays_where_it_is_until_the_call_ends() {
        let mut maps = Maps::default();
        let map = unsafe { &*create(&mut maps, HASH, 2) };
        let [a, b, c] = [1u32, 2, 3].map(u32::to_ne_bytes);
        assert!(maps.lookup(map, 0, &a).is_null());
        assert_eq!(maps.update(map, 0, &a, &value(1), EXIST), Err(abi::ENOENT));
        assert_eq!(maps.update(map, 0, &a, &value(1), NOEXIST), Ok(()));
        assert_eq!(maps.update(map, 0, &b, &value(2), 0), Ok(()));
        assert_eq!(maps.update(map, 0, &c, &value(3), 0), Err(abi::E2BIG));
        let held = maps.lookup(map, 0, &a);
        assert_eq!(first(held), 1);
        assert_eq!(maps.update(map, 0, &a, &value(4), 0), Ok(()));
        assert_eq!(first(held), 4);
        let (key, around) = maps.entry_around(map, held.addr() + 8).unwrap();
        assert_eq!((&*key, around), (&a[..], held));
        // C updates an entry with its own value.
        let own = unsafe { std::slice::from_raw_parts(held.cast::<Cell<u8>>(), 12) };
        assert_eq!(maps.update(map, 0, &a, own, 0), Ok(()));
        assert_eq!(maps.delete(map, &a), Ok(()));
        assert_eq!(maps.delete(map, &a), Err(abi::ENOENT));
        assert_eq!(first(held), 4);
        maps.forget_removed();
        assert_eq!(maps.entries(map, 0).unwrap().len(), 1);
    }

    #[test]
    fn each_cpu_has_its_copy_of_a_percpu_array() {
        let mut maps = Maps::default();
        let map = unsafe { &*create(&mut maps, PERCPU_ARRAY, 3) };
        let key = 2u32.to_ne_bytes();
        assert_eq!(maps.update(map, 1, &key, &value(7), 0), Ok(()));
        assert_eq!(
            maps.update(map, 1, &3u32.to_ne_bytes(), &value(7), 0),
            Err(abi::E2BIG)
        );
        let at = |maps: &mut Maps, cpu| first(maps.entries(map, cpu).unwrap()[2].1);
        assert_eq!((at(&mut maps, 0), at(&mut maps, 1)), (0, 7));
    }

    #[test]
    fn a_queue_gives_the_oldest_and_a_stack_the_latest() {
        for (kind, expected) in [(QUEUE, [2, 3]), (STACK, [3, 2])] {
            let mut maps = Maps::default();
            let map = unsafe { &*create(&mut maps, kind, 2) };
            for (byte, flags) in [(1, 0), (2, 0), (3, EXIST)] {
                assert_eq!(maps.push(map, &value(byte), flags), Ok(()));
            }
            assert_eq!(maps.push(map, &value(4), 0), Err(abi::E2BIG));
            assert_eq!(maps.push(map, &value(4), NOEXIST), Err(abi::EINVAL));
            let to = value(0);
            for byte in expected {
                for stay in [true, false] {
                    assert_eq!(maps.pop(map, &to, stay), Ok(()));
                    assert_eq!(to[0].get(), byte);
                }
            }
            assert_eq!(maps.pop(map, &to, false), Err(abi::ENOENT));
            assert!(to.iter().all(|byte| byte.get() == 0));
        }
    }

    #[test]
    fn a_ring_buffer_has_whole_pages() {
        let ring = |value_size, max_entries| {
            let definition = MapDefinition {
                kind: RINGBUF,
                value_size,
                max_entries,
                ..MapDefinition::default()
            };
            Maps::default()
                .create(&definition, 1, || zeroes(0))
                .map(drop)
        };
        assert_eq!(ring(0, 1 << 20), Ok(()));
        assert!(ring(0, 100).unwrap_err().contains("100 bytes"));
        assert!(ring(4, 1 << 20).unwrap_err().contains("no values"));
    }

    #[test]
    fn all_maps_together_have_an_end() {
        let mut maps = Maps::default();
        let definition = |kind, value_size, max_entries| MapDefinition {
            kind,
            key_size: 4,
            value_size,
            max_entries,
            values_offset: 0,
            inner: None,
        };
        maps.bytes = MOST_BYTES - (1 << 20);
        let large = definition(ARRAY, 1 << 10, 1 << 11);
        let refused = maps.create(&large, 1, || zeroes(0));
        assert!(refused.unwrap_err().contains("of other maps"));
        let hash = unsafe { &*create(&mut maps, HASH, u32::MAX) };
        let mut added = 0u32;
        let full = loop {
            match maps.update(hash, 0, &added.to_ne_bytes(), &value(1), 0) {
                Ok(()) => added += 1,
                Err(errno) => break errno,
            }
        };
        assert_eq!(full, abi::ENOMEM);
        assert!((10_000..20_000).contains(&added), "{added}");
        let first = 0u32.to_ne_bytes();
        assert_eq!(maps.delete(hash, &first), Ok(()));
        assert_eq!(maps.update(hash, 0, &first, &value(1), 0), Ok(()));
    }
}
