//! The data of a compiled scheduler: its globals, its maps and its ops.

use crate::debug_info::{self, MapDefinition};
use crate::{Error, Kernel, loading, ops};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};
use std::collections::{BTreeMap, HashSet};

/// The value of a global variable of the scheduler, set before it is loaded, as a loader sets
/// `skel->rodata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The C variable's name.
    pub symbol: String,
    /// Its bytes; must be as long as the variable.
    pub bytes: Vec<u8>,
}

/// A scheduler compiled for this machine, ready to be loaded any number of times.
#[derive(Debug)]
pub struct Object {
    image: Vec<u8>,
    variables: BTreeMap<String, Variable>,
    constants: HashSet<String>,
    /// Global variables that point to tasks.
    task_pointers: Vec<String>,
    maps: Vec<Map>,
    tracepoints: Vec<Tracepoint>,
    loader: Option<u64>,
    read_only: Vec<(u64, u64)>,
    ops: u64,
    license: Option<String>,
    loaded_size: u64,
    kernel: Kernel,
    is_fair_class: bool,
    /// The addresses that the dynamic loader relocates.
    relocated: HashSet<u64>,
}

/// A program of the scheduler that runs at a tracepoint of the kernel: a function in section
/// `tp_btf/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// The tracepoint's name, such as `sched_switch`.
    pub name: String,
    /// The function's name.
    pub function: String,
    /// The function's address relative to where the object is loaded.
    pub address: u64,
}

/// The sections of programs that take a tracepoint's own arguments.
const TRACEPOINT_SECTION: &str = "tp_btf/";

/// The prefix of the section of a program that only the loader's part can attach.
const NOT_BY_ITSELF: char = '?';

/// The prefix of such a program's name in the name of the constant by which the loader's part
/// attaches it (`LOADER_ATTACH()`).
const ATTACHED: &str = "equipoise_attach_";

/// The function that does a loader's part (`equipoise/loader.h`).
const LOADER: &str = "equipoise_loader";

/// A shared object, ready to load.
#[derive(Debug)]
pub struct Image<'a> {
    /// The content of the file.
    pub bytes: Vec<u8>,
    /// Globals without bytes in the file (`.bss`), to be written after loading.
    pub later: Vec<(Variable, &'a [u8])>,
}

/// A variable of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Address relative to where the object is loaded.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// The offset of its bytes in the image; `None` for one that starts as zeroes (`.bss`).
    pub(crate) file_offset: Option<u64>,
}

/// A BPF map of the scheduler.
#[derive(Clone, Debug)]
pub struct Map {
    /// The variable's name.
    pub name: String,
    /// The variable's address relative to where the object is loaded.
    pub address: u64,
    /// The variable's size, bytes.
    pub size: u64,
    /// Its parameters.
    pub definition: MapDefinition,
}

/// The most memory that a scheduler's code and globals may take, bytes, because every run has a
/// copy.
const MOST_MEMORY: u64 = 1 << 30;

/// The scheduler in `source` takes more than [`MOST_MEMORY`].
pub(crate) fn too_much_memory(source: &str) -> Error {
    Error(format!(
        "{source}: its code and global variables take more than 1 GiB; expected less, or maps"
    ))
}

impl Object {
    /// Reads the shared object `image`, compiled from `source` (for messages).
    pub fn parse(source: &str, image: Vec<u8>) -> Result<Object, Error> {
        let unreadable = |error: &dyn std::fmt::Display| {
            Error(format!(
                "{source}: the compiled object is unreadable: {error}"
            ))
        };
        let file = object::File::parse(&*image).map_err(|error| unreadable(&error))?;
        let object::File::Elf64(elf) = &file else {
            return Err(unreadable(&"not a 64-bit ELF file"));
        };
        loading::check(source, elf)?;
        let mut variables = BTreeMap::new();
        let mut map_symbols = Vec::new();
        let mut tracepoints = Vec::new();
        let mut ops = Vec::new();
        let mut loader = None;
        let mut only_if_attached = HashSet::new();
        for symbol in file.symbols() {
            let (Ok(name), Some(index)) = (symbol.name(), symbol.section_index()) else {
                continue;
            };
            let section = file
                .section_by_index(index)
                .map_err(|error| unreadable(&error))?;
            let section_name = section.name().unwrap_or_default();
            let section_of = section_name.trim_start_matches(NOT_BY_ITSELF);
            if let (SymbolKind::Text, Some(tracepoint)) =
                (symbol.kind(), section_of.strip_prefix(TRACEPOINT_SECTION))
            {
                if section_of != section_name {
                    only_if_attached.insert(name);
                }
                tracepoints.push(Tracepoint {
                    name: tracepoint.to_owned(),
                    function: name.to_owned(),
                    address: symbol.address(),
                });
            }
            if symbol.kind() == SymbolKind::Text && name == LOADER {
                loader = Some(symbol.address());
            }
            if symbol.kind() != SymbolKind::Data || symbol.size() == 0 {
                continue;
            }
            let file_offset = match section.kind() {
                SectionKind::UninitializedData => None,
                _ => section
                    .file_range()
                    .map(|(start, _)| start + symbol.address() - section.address()),
            };
            match section_name {
                ".maps" => map_symbols.push((name, symbol.address(), symbol.size())),
                ".struct_ops" | ".struct_ops.link" => ops.push((name, symbol.address())),
                _ => {}
            }
            let variable = Variable {
                address: symbol.address(),
                size: symbol.size(),
                file_offset,
            };
            variables.insert(name.to_owned(), variable);
        }
        let names: Vec<&str> = map_symbols.iter().map(|&(name, ..)| name).collect();
        let definitions = debug_info::maps(&file, &names).map_err(|error| unreadable(&error))?;
        map_symbols.sort_by_key(|&(_, address, _)| address);
        let maps = map_symbols
            .into_iter()
            .map(|(name, address, size)| match definitions.get(name) {
                Some(&definition) => Ok(Map {
                    name: name.to_owned(),
                    address,
                    size,
                    definition,
                }),
                None => Err(Error(format!(
                    "{source}: map `{name}` has no debugging information"
                ))),
            })
            .collect::<Result<_, _>>()?;
        let ops = match ops[..] {
            [(_, address)] => address,
            [] => {
                return Err(Error(format!(
                    "{source}: no sched_ext_ops; expected one SCX_OPS_DEFINE(...)"
                )));
            }
            [(first, _), (second, _), ..] => {
                return Err(Error(format!(
                    "{source}: more than one sched_ext_ops (`{first}`, `{second}`); expected one SCX_OPS_DEFINE(...)"
                )));
            }
        };
        tracepoints.retain(|program| {
            let by_loader = || variables.contains_key(&format!("{ATTACHED}{}", program.function));
            !only_if_attached.contains(&*program.function) || by_loader()
        });
        tracepoints.sort_by_key(|tracepoint| tracepoint.address);
        let constants = debug_info::constants(&file).map_err(|error| unreadable(&error))?;
        let mut task_pointers =
            debug_info::task_pointers(&file).map_err(|error| unreadable(&error))?;
        task_pointers.retain(|name| variables.contains_key(name));
        let license = file
            .section_by_name("license")
            .and_then(|section| section.data().ok())
            .map(text);
        let ends = file
            .sections()
            .map(|section| section.address() + section.size());
        let loaded_size = ends.max().unwrap_or(0);
        if loaded_size > MOST_MEMORY {
            return Err(too_much_memory(source));
        }
        let relocated = file.dynamic_relocations().into_iter().flatten();
        let relocated = relocated.map(|(address, _)| address).collect();
        let read_only = loading::read_only(elf);
        Ok(Object {
            loader,
            read_only,
            kernel: ops::compiled_for(&image, &variables),
            is_fair_class: false,
            relocated,
            image,
            variables,
            constants,
            task_pointers,
            maps,
            tracepoints,
            ops,
            license,
            loaded_size,
        })
    }

    /// The size in bytes of the global variable `symbol`, if there is one.
    pub fn global_size(&self, symbol: &str) -> Option<usize> {
        self.variables
            .get(symbol)
            .map(|variable| variable.size as usize)
    }

    /// The variable `symbol`, if there is one.
    pub fn variable(&self, symbol: &str) -> Option<Variable> {
        self.variables.get(symbol).copied()
    }

    /// The maps, in the order of their addresses.
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// The programs at tracepoints, in the order of their addresses.
    pub fn tracepoints(&self) -> &[Tracepoint] {
        &self.tracepoints
    }

    /// Address of the function that does its loader's part, relative to where the object is loaded,
    /// if there is one.
    pub fn loader(&self) -> Option<u64> {
        self.loader
    }

    /// The addresses and sizes of its read-only data, relative to where the object is loaded.
    pub fn read_only(&self) -> &[(u64, u64)] {
        &self.read_only
    }

    /// Address of the `struct sched_ext_ops`, relative to where the object is loaded.
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// Its declared licence (`SEC("license")`).
    pub fn license(&self) -> Option<&str> {
        self.license.as_deref()
    }

    /// The text at `offset` in its `struct sched_ext_ops`, up to a zero.
    pub fn ops_text(&self, offset: usize) -> Option<String> {
        let mut variables = self.variables.values();
        let ops = variables.find(|variable| variable.address == self.ops)?;
        let bytes = self.image.get(ops.file_offset? as usize..)?;
        Some(text(bytes.get(offset..ops.size as usize)?))
    }

    /// The kernel that it was compiled for.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Selects the kernel for an object that was compiled for all kernels.
    pub(crate) fn in_kernel(mut self, kernel: Kernel) -> Object {
        self.kernel = kernel;
        self
    }

    /// Does it stand for Linux's fair class? The simulated kernel then does for its tasks what Linux does for fair
    /// tasks, apart from scheduling them.
    pub fn is_fair_class(&self) -> bool {
        self.is_fair_class
    }

    /// Makes it stand for Linux's fair class, or not.
    pub(crate) fn in_fair_class(mut self, is_fair_class: bool) -> Object {
        self.is_fair_class = is_fair_class;
        self
    }

    /// Is the pointer at `offset` in its `struct sched_ext_ops` set?
    pub(crate) fn ops_has(&self, offset: usize) -> bool {
        self.relocated.contains(&(self.ops + offset as u64))
    }

    /// The 64-bit number at `offset` in its `struct sched_ext_ops`; 0 if it is not initialized.
    pub(crate) fn ops_number(&self, offset: usize) -> u64 {
        let mut variables = self.variables.values();
        let ops = variables.find(|variable| variable.address == self.ops);
        let bytes = ops
            .and_then(|ops| self.image.get(ops.file_offset? as usize + offset..))
            .and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Is the global variable `symbol` one that a loader sets (`const volatile`)?
    pub fn is_constant(&self, symbol: &str) -> bool {
        self.constants.contains(symbol)
    }

    /// The variables that it may not write to once it is loaded, by name: `const` variables and its
    /// ops.
    pub fn constants(&self) -> impl Iterator<Item = (&str, Variable)> {
        let variables = self.variables.iter();
        variables
            .filter(|(name, variable)| {
                self.constants.contains(*name) || variable.address == self.ops
            })
            .map(|(name, variable)| (&**name, *variable))
    }

    /// The global variables that point to tasks, by their types.
    pub(crate) fn task_pointers(&self) -> &[String] {
        &self.task_pointers
    }

    /// The shared object as it was compiled.
    pub fn bytes(&self) -> &[u8] {
        &self.image
    }

    /// The size of its memory from the load address on, bytes.
    pub fn loaded_size(&self) -> u64 {
        self.loaded_size
    }

    /// `FILE:LINE` of the instruction at `address`, relative to the load address, by the debugging
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
            if bytes.len() as u64 != variable.size {
                return Err(Error(format!(
                    "global variable `{symbol}` has {} bytes, not {}",
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

/// `bytes` up to the first zero.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}
