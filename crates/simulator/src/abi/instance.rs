//! One loaded scheduler: a fresh copy of the object with its own globals, and its maps.

use crate::abi::layout::{self as abi, Map, Ops, Table};
use crate::abi::maps::Maps;
use crate::abi::objects::Objects;
use crate::abi::shared::Shared;
use crate::abi::tracepoints::Tracepoints;
use crate::host::calls;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use native::{Error, Global, Image, Inner, MapDefinition, Object, Variable};
use rustix::fs::{MemfdFlags, memfd_create};
use std::error::Error as _;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

/// The global that loaders of sched_ext schedulers set to the number of possible CPUs.
const NR_CPU_IDS: &str = "nr_cpu_ids";

/// The tick rate in the kernel's configuration, for a scheduler that declares it `extern ... __kconfig`.
const CONFIG_HZ: &str = "CONFIG_HZ";

/// The kernel's version, for a scheduler that declares it `extern ... __kconfig`.
const VERSION: &str = "LINUX_KERNEL_VERSION";

/// A loaded scheduler. Dropping it unloads it.
pub struct Instance {
    pub ops: Ops,
    pub tracepoints: Tracepoints,
    pub maps: Maps,
    /// Variables for the inner maps that the scheduler's loader would create.
    inner_maps: Vec<Shared<[*mut Map]>>,
    pub objects: Objects,
    /// The function that does the loader's part of the scheduler, if the object has one.
    pub loader: Option<Loader>,
    base: *mut u8,
    /// The variables to which the scheduler may not write, with the values that the loader's part left.
    constants: Vec<Constant>,
    // Dropped in this order: the loader identifies the object by the descriptor's name, which must
    // not be reused before the object is unloaded.
    _library: Library,
    _file: OwnedFd,
}

/// `equipoise_loader()`: an errno, or 0.
pub type Loader = unsafe extern "C" fn() -> i32;

/// A variable that only the loader may set.
struct Constant {
    name: String,
    variable: Variable,
    bytes: Vec<u8>,
}

fn ops_length(object: &Object) -> usize {
    match object.is_cid_form() {
        true => abi::OPS_CID_LEN,
        false => size_of::<Ops>(),
    }
}

/// # Safety
/// The object is loaded at `base`.
unsafe fn read_ops(object: &Object, base: *const u8) -> Ops {
    let mut ops = std::mem::MaybeUninit::<Ops>::zeroed();
    let length = ops_length(object);
    // SAFETY: the linker placed a struct sched_ext_ops there, or a struct sched_ext_ops_cid, which is a prefix of
    // struct sched_ext_ops; both layouts were checked. An `Ops` of zeroes is valid.
    unsafe {
        ops.as_mut_ptr()
            .cast::<u8>()
            .copy_from(base.add(object.ops() as usize), length);
        ops.assume_init()
    }
}

impl Instance {
    /// Did a call remove values or drop objects that the same call may still use?
    #[inline]
    pub fn has_garbage(&self) -> bool {
        self.maps.removed.len() | self.objects.dropped.len() != 0
    }

    /// Frees removed values and dropped objects. Call this only when no call into the scheduler that may use them is
    /// left.
    #[cold]
    #[inline(never)]
    pub fn collect_garbage(&mut self) {
        self.maps.forget_removed();
        self.objects.forget_dropped();
    }

    /// Loads `object` with `globals` set. Also sets `nr_cpu_ids`, `CONFIG_HZ` and `LINUX_KERNEL_VERSION`, if the object
    /// has them and `globals` does not. The scheduler's calls go to `table`.
    pub fn load<Kfuncs>(
        object: &Object,
        globals: &[Global],
        table: *mut Table<Kfuncs>,
        nr_cpus: usize,
    ) -> Result<Instance, Error> {
        let mut globals = globals.to_vec();
        let mut fill_in = |symbol: &str, value: u32| {
            let bytes: Vec<u8> = match object.global_size(symbol) {
                Some(4) => value.to_ne_bytes().into(),
                Some(8) => u64::from(value).to_ne_bytes().into(),
                _ => return,
            };
            if !globals.iter().any(|global| global.symbol == symbol) {
                globals.push(Global {
                    symbol: symbol.into(),
                    bytes,
                });
            }
        };
        fill_in(NR_CPU_IDS, nr_cpus as u32);
        // SAFETY: the pointer is to the kernel's table, which outlives the loaded object.
        let tick_ns = unsafe { (*table).tick_ns };
        fill_in(CONFIG_HZ, (1_000_000_000 / tick_ns) as u32);
        fill_in(VERSION, object.kernel().version_code());
        let Image { bytes, later } = object.image(&globals)?;
        let failed = |error: &dyn std::fmt::Display| {
            Error(format!("the scheduler cannot be loaded: {error}"))
        };
        let file =
            memfd_create("scheduler", MemfdFlags::CLOEXEC).map_err(|error| failed(&error))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&bytes).map_err(|error| failed(&error))?;
        // Ask for the page size now: since Linux 6.4 the first query makes a system call, which the cage does not
        // allow.
        let _ = rustix::param::page_size();
        // From here on the object's code may run: the dynamic loader may find constructors that a check of the object
        // missed.
        cage::load().map_err(|error| failed(&format!("its cage: {error}")))?;
        let loaded = calls::loading(|| Instance::open(object, file, later, table, nr_cpus))?;
        cage::close().map_err(|error| failed(&format!("its cage: {error}")))?;
        Ok(loaded)
    }

    /// Loads the shared object in `file`, compiled as `object`, and sets the globals `later` in it.
    fn open<Kfuncs>(
        object: &Object,
        file: std::fs::File,
        later: Vec<(Variable, &[u8])>,
        table: *mut Table<Kfuncs>,
        nr_cpus: usize,
    ) -> Result<Instance, Error> {
        let failed = |error: &dyn std::fmt::Display| {
            Error(format!("the scheduler cannot be loaded: {error}"))
        };
        if object.ops_size() < ops_length(object) as u64 {
            return Err(failed(&"its struct sched_ext_ops is too short"));
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: loading runs the object's constructors; Equipoise's own schedulers have none, and those of any other
        // scheduler run in a cage.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        // The underlying cause, such as a missing /proc, is the source of the error.
        let library = library.map_err(|error| match error.source() {
            Some(cause) => failed(&format!("{error}: {cause}")),
            None => failed(&error),
        })?;
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
        // SAFETY: `equipoise_abi` is an array of that many u32, `equipoise_kernel` a pointer.
        unsafe {
            if !abi::check::<Kfuncs>(std::slice::from_raw_parts(layout.cast(), words)) {
                return Err(failed(&"it was compiled against other headers"));
            }
            kernel.cast::<*mut Table<Kfuncs>>().write(table);
        }
        let base = kernel.wrapping_sub(variable("equipoise_kernel")?.address as usize);
        for (variable, bytes) in later {
            // SAFETY: the variable is in the object's .bss and as long as `bytes`.
            unsafe {
                base.add(variable.address as usize)
                    .copy_from(bytes.as_ptr(), bytes.len())
            };
        }
        let mut instance = Instance {
            // SAFETY: the object is loaded at `base`.
            ops: unsafe { read_ops(object, base) },
            loader: object.loader().map(|address| {
                let function: *const u8 = base.wrapping_add(address as usize);
                // SAFETY: a function of the loaded object, with this type (equipoise/loader.h).
                unsafe { std::mem::transmute::<*const u8, Loader>(function) }
            }),
            tracepoints: Tracepoints::of(object, base)?,
            maps: Maps::default(),
            inner_maps: Vec::new(),
            objects: Objects::default(),
            base,
            constants: Vec::new(),
            _library: library,
            _file: file.into(),
        };
        instance.create_maps(object, nr_cpus)?;
        instance.keep_constants(object);
        if instance.loader.is_some() {
            instance
                .open_constants(object)
                .map_err(|error| failed(&error))?;
        }
        Ok(instance)
    }

    /// Reads the ops again, and keeps the constants as they are now. Call this after the loader's part of the
    /// scheduler, which may change ops and constants.
    pub fn loader_done(&mut self, object: &Object) {
        // SAFETY: the object is loaded at `self.base`.
        self.ops = unsafe { read_ops(object, self.base) };
        self.keep_constants(object);
    }

    fn keep_constants(&mut self, object: &Object) {
        let constants = object.constants().map(|(name, variable)| Constant {
            name: name.to_owned(),
            variable,
            bytes: self.bytes(variable).to_vec(),
        });
        self.constants = constants.collect();
    }

    /// Makes the scheduler's read-only data writable, for the function that does the loader's part.
    fn open_constants(&self, object: &Object) -> std::io::Result<()> {
        let page = rustix::param::page_size();
        for &(start, size) in object.read_only() {
            let start = self.base.addr() + start as usize;
            let first = start & !(page - 1);
            let length = (start + size as usize).next_multiple_of(page) - first;
            let address = self.base.with_addr(first).cast();
            // SAFETY: these are pages of the loaded object's data.
            unsafe {
                rustix::mm::mprotect(
                    address,
                    length,
                    rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE,
                )?;
            }
        }
        Ok(())
    }

    /// The address at which the object is loaded.
    pub fn base(&self) -> usize {
        self.base.addr()
    }

    /// The name of a constant to which the scheduler has written since it was loaded, if any. Constants are not
    /// write-protected, because a compiler may place `const volatile` data next to other data.
    pub fn written(&self) -> Option<&str> {
        let mut constants = self.constants.iter();
        let written = constants.find(|constant| self.bytes(constant.variable) != constant.bytes)?;
        Some(&written.name)
    }

    fn bytes(&self, variable: Variable) -> &[u8] {
        // SAFETY: the variable is in the loaded object, and no code writes to it during the comparison.
        unsafe {
            std::slice::from_raw_parts(
                self.base.add(variable.address as usize),
                variable.size as usize,
            )
        }
    }

    /// Makes the maps and points the map variables at them.
    fn create_maps(&mut self, object: &Object, nr_cpus: usize) -> Result<(), Error> {
        for map in object.maps() {
            let variable = self.base.wrapping_add(map.address as usize);
            let offset = map.definition.values_offset as usize;
            let given = match offset {
                0 => 0,
                offset => (map.size as usize).saturating_sub(offset) / 8,
            };
            let values = variable.wrapping_add(offset).cast::<u64>();
            // If no inner maps are given, the scheduler's loader would create them, so create one for each entry.
            let made = match map.definition.inner {
                Some(inner) if given == 0 => self
                    .create_inner(&inner, map.definition.max_entries, nr_cpus)
                    .map_err(|what| Error(format!("map `{}`: {what}", map.name)))?,
                _ => Vec::new(),
            };
            let pointers = || {
                (0..map.definition.max_entries as usize)
                    .map(|index| match index < given {
                        // SAFETY: `.values` holds that many pointers to other map variables, relocated by the
                        // loader; entries past its end were not initialised and are null.
                        true => unsafe { values.add(index).read_unaligned() },
                        false => made.get(index).copied().unwrap_or(0),
                    })
                    .collect()
            };
            let runtime = self
                .maps
                .create(&map.definition, nr_cpus, pointers)
                .map_err(|what| Error(format!("map `{}`: {what}", map.name)))?;
            // SAFETY: a map variable holds at least two pointers (the type and another); the inner maps of an array of
            // maps come after these.
            unsafe { variable.cast::<*mut Map>().write(runtime) };
        }
        Ok(())
    }

    /// Creates `count` maps as `inner` defines, and returns the addresses of variables for them.
    fn create_inner(
        &mut self,
        inner: &Inner,
        count: u32,
        nr_cpus: usize,
    ) -> Result<Vec<u64>, String> {
        let definition = MapDefinition {
            kind: inner.kind,
            key_size: inner.key_size,
            value_size: inner.value_size,
            max_entries: inner.max_entries,
            values_offset: 0,
            inner: None,
        };
        let mut maps = Vec::new();
        for _ in 0..count {
            maps.push(
                self.maps
                    .create(&definition, nr_cpus, || [].into_iter().collect())?,
            );
        }
        let variables = Shared::from(maps.into_boxed_slice());
        let first: *mut *mut Map = variables.as_ptr().cast();
        let addresses =
            (0..count as usize).map(|index| first.wrapping_add(index).expose_provenance() as u64);
        let addresses = addresses.collect();
        self.inner_maps.push(variables);
        Ok(addresses)
    }

    /// The bytes of the global `symbol`; empty if there is none.
    pub fn read(&self, object: &Object, symbol: &str) -> Vec<u8> {
        let variable = object.variable(symbol);
        variable.map_or_else(Vec::new, |variable| self.bytes(variable).to_vec())
    }
}
