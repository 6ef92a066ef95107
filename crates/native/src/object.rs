//! A compiled scheduler: its bytes, and their description.

use crate::description::{Description, Map, Tracepoint, Variable, text};
use crate::{Error, Kernel, debug_info};
use std::collections::BTreeMap;

/// The value of a global variable of the scheduler, set before the scheduler is loaded, as a loader sets
/// `skel->rodata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The C variable's name.
    pub symbol: String,
    /// The variable's first bytes, at most as many as the variable has. The variable's other bytes keep their values,
    /// which are zero for most tables.
    pub bytes: Vec<u8>,
}

/// A scheduler compiled for this machine, ready to be loaded any number of times.
#[derive(Debug)]
pub struct Object {
    image: Vec<u8>,
    description: Description,
    kernel: Kernel,
    is_fair_class: bool,
}

/// A shared object, ready to load.
#[derive(Debug)]
pub struct Image<'a> {
    /// The content of the file.
    pub bytes: Vec<u8>,
    /// Globals that have no bytes in the file (`.bss`), and are written after loading.
    pub later: Vec<(Variable, &'a [u8])>,
}

impl Object {
    /// The shared object `image`, compiled from `source` (for messages), which is read in this process because it is
    /// one of Equipoise's own.
    pub fn parse(source: &str, image: Vec<u8>) -> Result<Object, Error> {
        let description = Description::of(source, &image)?;
        Object::described(source, image, description)
    }

    /// The foreign shared object `image`, compiled from `source` (for messages), which is read in a process that may
    /// only compute. It is an error if the reading takes too long.
    pub fn read(source: &str, image: Vec<u8>) -> Result<Object, Error> {
        let description = Description::read(source, &image)?;
        Object::described(source, image, description)
    }

    /// The shared object `image` with the `description` that another process has read. It is an error if the
    /// description cannot be that of `image`.
    pub fn described(
        source: &str,
        image: Vec<u8>,
        description: Description,
    ) -> Result<Object, Error> {
        description.check(source, &image)?;
        Ok(Object {
            kernel: compiled_for(&image, &description.variables),
            is_fair_class: false,
            image,
            description,
        })
    }

    /// The object's description.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The size in bytes of the global variable `symbol`, if there is one.
    pub fn global_size(&self, symbol: &str) -> Option<usize> {
        self.description
            .variables
            .get(symbol)
            .map(|variable| variable.size as usize)
    }

    /// The variable `symbol`, if there is one.
    pub fn variable(&self, symbol: &str) -> Option<Variable> {
        self.description.variables.get(symbol).copied()
    }

    /// The maps, in the order of their addresses.
    pub fn maps(&self) -> &[Map] {
        &self.description.maps
    }

    /// The programs at tracepoints, in the order of their addresses.
    pub fn tracepoints(&self) -> &[Tracepoint] {
        &self.description.tracepoints
    }

    /// The address of the function with the loader's work, if any, relative to the address at which
    /// the object is loaded.
    pub fn loader(&self) -> Option<u64> {
        self.description.loader
    }

    /// The addresses and sizes of the object's read-only data, relative to where the object is loaded.
    pub fn read_only(&self) -> &[(u64, u64)] {
        &self.description.read_only
    }

    /// The address of the `struct sched_ext_ops`, relative to where the object is loaded.
    pub fn ops(&self) -> u64 {
        self.description.ops
    }

    /// The size of the scheduler's `struct sched_ext_ops`, in bytes.
    pub fn ops_size(&self) -> u64 {
        self.description.ops_variable().map_or(0, |ops| ops.size)
    }

    /// The scheduler's declared licence (`SEC("license")`).
    pub fn license(&self) -> Option<&str> {
        self.description.license.as_deref()
    }

    /// The text at `offset` in the scheduler's `struct sched_ext_ops`, up to a zero.
    pub fn ops_text(&self, offset: usize) -> Option<String> {
        let ops = self.description.ops_variable()?;
        let bytes = self.image.get(ops.file_offset? as usize..)?;
        Some(text(bytes.get(offset..ops.size as usize)?))
    }

    /// The kernel for which the object was compiled.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Selects the kernel for an object that was compiled for all kernels.
    pub(crate) fn in_kernel(mut self, kernel: Kernel) -> Object {
        self.kernel = kernel;
        self
    }

    /// Does the scheduler represent Linux's fair class? The simulated kernel then treats its tasks as Linux treats fair
    /// tasks, apart from scheduling them.
    pub fn is_fair_class(&self) -> bool {
        self.is_fair_class
    }

    pub(crate) fn in_fair_class(mut self, is_fair_class: bool) -> Object {
        self.is_fair_class = is_fair_class;
        self
    }

    /// Is the pointer at `offset` in the scheduler's `struct sched_ext_ops` set?
    pub(crate) fn ops_has(&self, offset: usize) -> bool {
        self.description
            .relocated
            .contains(&(self.description.ops + offset as u64))
    }

    /// The 64-bit number at `offset` in the scheduler's `struct sched_ext_ops`; 0 if the structure is not initialized.
    pub(crate) fn ops_number(&self, offset: usize) -> u64 {
        let bytes = self
            .description
            .ops_variable()
            .and_then(|ops| self.image.get(ops.file_offset? as usize + offset..))
            .and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Is the global variable `symbol` one that a loader sets (`const volatile`)? The compiler replaces a variable that
    /// is only `const` by its value.
    pub fn is_settable(&self, symbol: &str) -> bool {
        let constant = self.description.constants.get(symbol);
        constant.is_some_and(|constant| constant.is_volatile)
    }

    /// Is the constant `symbol` an unsigned integer or a bool?
    pub fn is_unsigned(&self, symbol: &str) -> bool {
        let constant = self.description.constants.get(symbol);
        constant.is_some_and(|constant| constant.is_unsigned)
    }

    /// The variables, by name, to which the scheduler may not write once it is loaded: `const` variables and its ops.
    pub fn constants(&self) -> impl Iterator<Item = (&str, Variable)> {
        let variables = self.description.variables.iter();
        variables
            .filter(|(name, variable)| {
                self.description.constants.contains_key(*name)
                    || variable.address == self.description.ops
            })
            .map(|(name, variable)| (&**name, *variable))
    }

    pub(crate) fn idle_programs(&self) -> &[String] {
        &self.description.idle
    }

    pub(crate) fn unknown_configs(&self) -> &[String] {
        &self.description.unknown_configs
    }

    pub(crate) fn task_pointers(&self) -> &[String] {
        &self.description.task_pointers
    }

    /// The shared object as it was compiled.
    pub fn bytes(&self) -> &[u8] {
        &self.image
    }

    /// The size of the loaded object's memory, in bytes.
    pub fn loaded_size(&self) -> u64 {
        self.description.loaded_size
    }

    /// `FILE:LINE` of the instruction at `address`, relative to the load address, according to the debugging
    /// information.
    pub fn line(&self, address: u64) -> Option<String> {
        debug_info::line(&object::File::parse(&*self.image).ok()?, address)
    }

    /// The shared object to load, with `globals` set in it.
    pub fn image<'a>(&self, globals: &'a [Global]) -> Result<Image<'a>, Error> {
        let mut image = self.image.clone();
        let mut later = Vec::new();
        for Global { symbol, bytes } in globals {
            let variable = self
                .variable(symbol)
                .ok_or_else(|| Error(format!("the scheduler has no global variable `{symbol}`")))?;
            if bytes.len() as u64 > variable.size {
                return Err(Error(format!(
                    "global variable `{symbol}` has {} bytes, fewer than {}",
                    variable.size,
                    bytes.len()
                )));
            }
            match variable.file_offset {
                Some(offset) => image[offset as usize..][..bytes.len()].copy_from_slice(bytes),
                None => later.push((variable, bytes.as_slice())),
            }
        }
        Ok(Image {
            bytes: image,
            later,
        })
    }
}

/// The kernel for which an `image` with these `variables` was compiled; the default kernel if the image was compiled
/// for all kernels.
fn compiled_for(image: &[u8], variables: &BTreeMap<String, Variable>) -> Kernel {
    let version = variables.get("LINUX_KERNEL_VERSION");
    let bytes =
        version.and_then(|version| image.get(version.file_offset? as usize..)?.first_chunk());
    let code = bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    Kernel::of_version_code(code).unwrap_or_default()
}
