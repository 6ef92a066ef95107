//! One loaded scheduler: a fresh copy of the object with its own globals, and its maps.

use crate::abi::kfuncs;
use crate::abi::layout::{self as abi, Map, Ops, Table};
use crate::abi::tracepoints::Tracepoints;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use native::{Error, Global, Image, Object};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::c_void;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

// Map types of include/uapi/linux/bpf.h.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PERCPU_HASH: u32 = 5;
pub const PERCPU_ARRAY: u32 = 6;
const LRU_HASH: u32 = 9;
const ARRAY_OF_MAPS: u32 = 12;
const QUEUE: u32 = 22;
const STACK: u32 = 23;
const TASK_STORAGE: u32 = 29;
const CGRP_STORAGE: u32 = 32;

/// An array above this is a slip: every simulation at a time has one of its own.
const MAX_ARRAY_BYTES: u64 = 1 << 30;

/// The global that every loader of sched_ext schedulers sets to the number of possible CPUs.
const NR_CPU_IDS: &str = "nr_cpu_ids";

/// A loaded scheduler. Dropping it unloads it.
pub struct Instance {
    /// Its ops.
    pub ops: Ops,
    /// Its programs at tracepoints.
    pub tracepoints: Tracepoints,
    /// Contents of the maps, by `Map::index`.
    pub contents: Vec<Contents>,
    base: *mut u8,
    /// What the map variables point to; C holds pointers into it.
    _maps: Box<[Map]>,
    /// What arrays point to.
    _values: Vec<Box<[u64]>>,
    /// Values removed from hashes: C may hold pointers to them until its call ends.
    removed: Vec<Box<[u64]>>,
    /// Objects that the scheduler allocated and has not dropped.
    pub allocated: BTreeSet<*mut c_void>,
    // In this order: the loader knows the object by the descriptor's name, which must not be given to
    // another before the object is unloaded.
    _library: Library,
    _file: OwnedFd,
}

/// Contents of a map that C cannot reach by itself.
#[derive(Debug)]
pub enum Contents {
    /// Arrays and storages: C has the pointers.
    Direct,
    /// Values by key. Ordered, so that iteration does not depend on hashing.
    Hash(BTreeMap<Box<[u8]>, Box<[u64]>>),
    /// First in, first out.
    Queue(VecDeque<Box<[u8]>>),
    /// Last in, first out.
    Stack(Vec<Box<[u8]>>),
}

impl Instance {
    /// Loads `object` with `globals` set, and `nr_cpu_ids` if it has such a global of 4 bytes that is
    /// not among them. `table` is what its calls go to.
    pub fn load(
        object: &Object,
        globals: &[Global],
        table: *mut Table,
        nr_cpus: usize,
    ) -> Result<Instance, Error> {
        let mut globals = globals.to_vec();
        if object.global_size(NR_CPU_IDS) == Some(4)
            && !globals.iter().any(|global| global.symbol == NR_CPU_IDS)
        {
            globals.push(Global {
                symbol: NR_CPU_IDS.into(),
                bytes: (nr_cpus as u32).to_ne_bytes().into(),
            });
        }
        let Image { bytes, later } = object.image(&globals)?;
        let failed = |error: &dyn std::fmt::Display| {
            Error(format!("the scheduler cannot be loaded: {error}"))
        };
        let file =
            memfd_create("scheduler", MemfdFlags::CLOEXEC).map_err(|error| failed(&error))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&bytes).map_err(|error| failed(&error))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: loading runs the constructors of the object, which a scheduler has none of. It is as
        // trusted as any program that a person compiles and runs.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| failed(&error))?;
        let symbol = |name: &str| -> Result<*mut u8, Error> {
            // SAFETY: only the address is taken.
            let symbol = unsafe { library.get::<*mut u8>(name) }.map_err(|error| failed(&error))?;
            Ok(symbol.into_raw().cast())
        };
        let kernel = symbol("equipoise_kernel")?;
        let layout = symbol("equipoise_abi")?;
        let variable = |name: &str| {
            object
                .variable(name)
                .ok_or_else(|| failed(&format!("no {name}")))
        };
        let words = variable("equipoise_abi")?.size as usize / 4;
        // SAFETY: `equipoise_abi` is an array of so many u32, `equipoise_kernel` a pointer.
        unsafe {
            if !abi::check(std::slice::from_raw_parts(layout.cast(), words)) {
                return Err(failed(&"it was compiled against other headers"));
            }
            kernel.cast::<*mut Table>().write(table);
        }
        let base = kernel.wrapping_sub(variable("equipoise_kernel")?.address as usize);
        for (variable, bytes) in later {
            // SAFETY: the variable is in the object's .bss and as long as `bytes`.
            unsafe {
                base.add(variable.address as usize)
                    .copy_from(bytes.as_ptr(), bytes.len())
            };
        }
        // SAFETY: the object's linker put a struct sched_ext_ops there; its layout was checked.
        let ops = unsafe {
            base.add(object.ops() as usize)
                .cast::<Ops>()
                .read_unaligned()
        };
        let mut instance = Instance {
            ops,
            tracepoints: Tracepoints::of(object, base)?,
            contents: Vec::new(),
            base,
            _maps: Box::default(),
            _values: Vec::new(),
            removed: Vec::new(),
            allocated: BTreeSet::new(),
            _library: library,
            _file: file.into(),
        };
        instance.create_maps(object, nr_cpus)?;
        Ok(instance)
    }

    /// Makes the maps and points the map variables at them.
    fn create_maps(&mut self, object: &Object, nr_cpus: usize) -> Result<(), Error> {
        let mut maps = Vec::new();
        let mut storages = 0;
        for (index, map) in object.maps().iter().enumerate() {
            let definition = map.definition;
            let stride = definition.value_size.next_multiple_of(8);
            let bad = |what: &str| Error(format!("map `{}`: {what}", map.name));
            let mut storage = 0;
            let (copies, contents) = match definition.kind {
                ARRAY => (1, Contents::Direct),
                PERCPU_ARRAY => (nr_cpus, Contents::Direct),
                ARRAY_OF_MAPS => (0, Contents::Direct),
                HASH | LRU_HASH => (0, Contents::Hash(BTreeMap::new())),
                QUEUE => (0, Contents::Queue(VecDeque::new())),
                STACK => (0, Contents::Stack(Vec::new())),
                TASK_STORAGE | CGRP_STORAGE => {
                    storage = storages;
                    storages += 1;
                    (0, Contents::Direct)
                }
                PERCPU_HASH => return Err(bad("BPF_MAP_TYPE_PERCPU_HASH is not supported")),
                kind => return Err(bad(&format!("map type {kind} is not supported"))),
            };
            if storages as usize > abi::MAX_STORAGES {
                return Err(bad(&format!(
                    "more than {} task and cgroup storages",
                    abi::MAX_STORAGES
                )));
            }
            let bytes = copies as u64 * u64::from(definition.max_entries) * u64::from(stride);
            if bytes > MAX_ARRAY_BYTES {
                return Err(bad(&format!(
                    "an array of {bytes} bytes; expected at most {MAX_ARRAY_BYTES}"
                )));
            }
            let words = bytes as usize / 8;
            let mut values = if definition.kind == ARRAY_OF_MAPS {
                // SAFETY: `.values` holds max_entries pointers to other map variables, relocated by
                // the loader; entries past its end were not initialised and are null.
                unsafe {
                    let given = (map.size as usize - definition.values_offset as usize) / 8;
                    let from = self
                        .base
                        .add(map.address as usize + definition.values_offset as usize)
                        .cast::<u64>();
                    (0..definition.max_entries as usize)
                        .map(|i| {
                            if i < given {
                                from.add(i).read_unaligned()
                            } else {
                                0
                            }
                        })
                        .collect()
                }
            } else {
                vec![0; words].into_boxed_slice()
            };
            maps.push(Map {
                kind: definition.kind,
                key_size: definition.key_size,
                value_size: definition.value_size,
                stride,
                max_entries: definition.max_entries,
                storage,
                index: index as u32,
                values: values.as_mut_ptr().cast(),
            });
            self._values.push(values);
            self.contents.push(contents);
        }
        self._maps = maps.into_boxed_slice();
        for (map, runtime) in object.maps().iter().zip(self._maps.iter_mut()) {
            // SAFETY: a map variable holds at least two pointers (type and another).
            unsafe {
                self.base
                    .add(map.address as usize)
                    .cast::<*mut Map>()
                    .write(runtime)
            };
        }
        Ok(())
    }

    /// Keeps a removed value until [`Instance::forget_removed`].
    pub fn keep_removed(&mut self, value: Box<[u64]>) {
        self.removed.push(value);
    }

    /// No call into the scheduler is left that may use a removed value.
    #[inline]
    pub fn forget_removed(&mut self) {
        if !self.removed.is_empty() {
            self.removed.clear();
        }
    }

    /// The bytes of the global `symbol`; empty if there is none.
    pub fn read(&self, object: &Object, symbol: &str) -> Vec<u8> {
        object.variable(symbol).map_or_else(Vec::new, |variable| {
            // SAFETY: the variable is in the loaded object.
            unsafe {
                std::slice::from_raw_parts(
                    self.base.add(variable.address as usize),
                    variable.size as usize,
                )
                .to_vec()
            }
        })
    }

    /// The map that the variable at `variable` is.
    ///
    /// # Safety
    /// `variable` is the address of a map variable of this instance.
    pub unsafe fn map_of(variable: *const c_void) -> *mut Map {
        unsafe { variable.cast::<*mut Map>().read() }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for object in std::mem::take(&mut self.allocated) {
            kfuncs::release(object);
        }
    }
}
