//! The description of a compiled scheduler: its globals, its maps and its ops. For a foreign object, a process that
//! may only compute reads the description, and sends it as a message, which is checked. Only processes without rights run a
//! parser of ELF or DWARF on a foreign object.

use crate::debug_info::{self, Constant, MapDefinition};
use crate::{Error, loading};
use cage::Ended;
use cage::text::is_plain;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A compiled scheduler's data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    pub(crate) variables: BTreeMap<String, Variable>,
    pub(crate) constants: BTreeMap<String, Constant>,
    pub(crate) task_pointers: Vec<String>,
    pub(crate) maps: Vec<Map>,
    pub(crate) tracepoints: Vec<Tracepoint>,
    /// The programs that the simulated kernel does not run, each with its line and its section.
    pub(crate) idle: Vec<String>,
    /// Values of the kernel's configuration that the simulated kernel does not know.
    pub(crate) unknown_configs: Vec<String>,
    pub(crate) loader: Option<u64>,
    pub(crate) read_only: Vec<(u64, u64)>,
    pub(crate) ops: u64,
    pub(crate) license: Option<String>,
    pub(crate) loaded_size: u64,
    /// The addresses in the scheduler's ops that the dynamic loader relocates.
    pub(crate) relocated: BTreeSet<u64>,
}

/// A program of the scheduler that runs at a tracepoint of the kernel: a function in section
/// `tp_btf/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracepoint {
    /// The tracepoint's name, such as `sched_switch`.
    pub name: String,
    /// The function's name.
    pub function: String,
    /// The function's address relative to where the object is loaded.
    pub address: u64,
}

/// A variable of the scheduler.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Variable {
    /// The address relative to where the object is loaded.
    pub address: u64,
    /// The size in bytes.
    pub size: u64,
    /// The offset of the variable's bytes in the image; `None` for a variable that starts as zeroes (`.bss`).
    pub(crate) file_offset: Option<u64>,
}

/// A BPF map of the scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Map {
    /// The variable's name.
    pub name: String,
    /// The variable's address relative to where the object is loaded.
    pub address: u64,
    /// The variable's size, in bytes.
    pub size: u64,
    /// The map's parameters.
    pub definition: MapDefinition,
}

/// The sections of programs that take a tracepoint's own arguments.
const TRACEPOINT_SECTION: &str = "tp_btf/";

/// The section of programs that only a loader calls.
const CALLED_BY_LOADER: &str = "syscall";

/// The section of the values of the kernel's configuration that a scheduler requires and the simulated kernel does not
/// know (`given.rs`).
pub(crate) const UNKNOWN_CONFIGS: &str = ".kconfig.unknown";

/// The prefixes of the sections of functions that the simulated kernel calls, or that other functions call.
const CALLED: [&str; 3] = [".text", "struct_ops", TRACEPOINT_SECTION];

/// The prefix of a section whose program only the loader's part can attach.
const NOT_BY_ITSELF: char = '?';

/// The prefix that, before such a program's name, makes the name of the constant by which the loader's part attaches it
/// (`LOADER_ATTACH()`).
const ATTACHED: &str = "equipoise_attach_";

/// The function that does a loader's part (`equipoise/loader.h`).
const LOADER: &str = "equipoise_loader";

/// The limit in bytes on the memory of a scheduler's code and globals, of which every run has a copy.
const MOST_MEMORY: u64 = 1 << 30;

/// The limit in bytes on the length of a description. The description of the largest scheduler has 100 kB.
const LONGEST: usize = 16 << 20;

/// The size in bytes of the first word of a map variable, which points to the map once the object is loaded.
const SMALLEST_MAP: u64 = 8;

pub(crate) fn too_much_memory(source: &str) -> Error {
    Error(format!(
        "{source}: its code and global variables take more than 1 GiB; expected less, or maps"
    ))
}

/// The symbols of a scheduler's parts, which a loop over all symbols finds.
#[derive(Default)]
struct Found<'a> {
    variables: BTreeMap<String, Variable>,
    /// The constants, by name and address.
    constants: HashMap<(String, u64), Constant>,
    /// The name, address and size of each map.
    maps: Vec<(&'a str, u64, u64)>,
    tracepoints: Vec<Tracepoint>,
    /// The name, address and section of each program of another kind.
    others: Vec<(&'a str, u64, String)>,
    unknown_configs: Vec<String>,
    only_if_attached: HashSet<&'a str>,
    /// The name, address and size of each ops.
    ops: Vec<(&'a str, u64, u64)>,
    loader: Option<u64>,
}

impl<'a> Found<'a> {
    fn add(
        &mut self,
        file: &object::File<'a>,
        symbol: &object::Symbol<'a, '_>,
    ) -> Result<(), String> {
        let (Ok(name), Some(index)) = (symbol.name(), symbol.section_index()) else {
            return Ok(());
        };
        let section = file
            .section_by_index(index)
            .map_err(|error| error.to_string())?;
        let section_name = section.name().unwrap_or_default();
        if symbol.kind() == SymbolKind::Text {
            self.add_function(name, symbol.address(), section_name);
        }
        if symbol.kind() != SymbolKind::Data || symbol.size() == 0 {
            return Ok(());
        }
        let (address, size) = (symbol.address(), symbol.size());
        let place = address.checked_sub(section.address()).filter(|place| {
            let end = place.checked_add(size);
            end.is_some_and(|end| end <= section.size())
        });
        let Some(place) = place else {
            return Err(format!(
                "`{name}` is not within its section; expected variables where the compiler places them"
            ));
        };
        let file_offset = match section.kind() {
            SectionKind::UninitializedData => None,
            _ => section
                .file_range()
                .and_then(|(start, _)| start.checked_add(place)),
        };
        match section_name {
            ".maps" => self.maps.push((name, address, size)),
            ".struct_ops" | ".struct_ops.link" => self.ops.push((name, address, size)),
            UNKNOWN_CONFIGS => self.unknown_configs.push(name.to_owned()),
            _ => {}
        }
        let variable = Variable {
            address,
            size,
            file_offset,
        };
        // Each file may have a `static` variable of this name. A loader sets the constant.
        let earlier = self.variables.get(name);
        if earlier.is_none_or(|earlier| self.constant(name, earlier).is_none())
            || self.constant(name, &variable).is_some()
        {
            self.variables.insert(name.to_owned(), variable);
        }
        Ok(())
    }

    /// The constant that `variable` is, if it is one.
    fn constant(&self, name: &str, variable: &Variable) -> Option<Constant> {
        let constant = (name.to_owned(), variable.address);
        self.constants.get(&constant).copied()
    }

    fn add_function(&mut self, name: &'a str, address: u64, section_name: &str) {
        let section_of = section_name.trim_start_matches(NOT_BY_ITSELF);
        if let Some(tracepoint) = section_of.strip_prefix(TRACEPOINT_SECTION) {
            if section_of != section_name {
                self.only_if_attached.insert(name);
            }
            self.tracepoints.push(Tracepoint {
                name: tracepoint.to_owned(),
                function: name.to_owned(),
                address,
            });
        }
        if name == LOADER {
            self.loader = Some(address);
        }
        let is_called = CALLED.iter().any(|of| section_of.starts_with(of));
        // A compiler splits functions; the parts' names have a dot.
        if !is_called && section_of == section_name && !name.contains('.') {
            self.others.push((name, address, section_name.to_owned()));
        }
    }

    /// The address and size of the scheduler's only ops.
    fn ops(&self) -> Result<(u64, u64), String> {
        match self.ops[..] {
            [(_, address, size)] => Ok((address, size)),
            [] => Err("no sched_ext_ops; expected one SCX_OPS_DEFINE(...)".to_owned()),
            [(first, ..), (second, ..), ..] => Err(format!(
                "more than one sched_ext_ops (`{first}`, `{second}`); expected one SCX_OPS_DEFINE(...)"
            )),
        }
    }

    /// The scheduler's maps as `file` defines them, in the order of their addresses.
    fn maps(&mut self, file: &object::File<'_>) -> Result<Vec<Map>, String> {
        let names: Vec<&str> = self.maps.iter().map(|&(name, ..)| name).collect();
        let definitions = debug_info::maps(file, &names).map_err(|error| unreadable(&error))?;
        self.maps.sort_by_key(|&(_, address, _)| address);
        let map = |&(name, address, size): &(&str, u64, u64)| match definitions.get(name) {
            Some(None) => Err(format!(
                "map `{name}` is static, and libbpf loads no such map; expected a global variable"
            )),
            Some(Some(definition)) if definition.inner.is_some_and(|inner| inner.holds_maps) => {
                Err(format!(
                    "map `{name}`: its inner maps hold maps themselves, which BPF does not have; expected one level"
                ))
            }
            Some(&Some(definition)) => Ok(Map {
                name: name.to_owned(),
                address,
                size,
                definition,
            }),
            None => Err(format!("map `{name}` has no debugging information")),
        };
        self.maps.iter().map(map).collect()
    }

    /// The programs that the simulated kernel does not run, each with its line in `file` and its section.
    fn idle(&mut self, file: &object::File<'_>) -> Vec<String> {
        let has_loader = self.loader.is_some();
        self.others.sort_by_key(|&(_, address, _)| address);
        let idle = self.others.iter();
        let idle = idle.filter(|(_, _, section)| !has_loader || section != CALLED_BY_LOADER);
        let told = idle.map(|(name, address, section)| {
            let line = debug_info::line(file, *address);
            let line = line.map_or(String::new(), |line| format!("{line}: "));
            format!("{line}{name}() in section {section}")
        });
        told.collect()
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> String {
    format!("the compiled object is unreadable: {error}")
}

impl Description {
    /// Reads the shared object `image`, compiled from `source` (for messages). This happens in this process, which may
    /// only compute unless the object is one of Equipoise's own.
    pub(crate) fn of(source: &str, image: &[u8]) -> Result<Description, Error> {
        let failed = |what: String| Error(format!("{source}: {what}"));
        let file = object::File::parse(image).map_err(|error| failed(unreadable(&error)))?;
        let object::File::Elf64(elf) = &file else {
            return Err(failed(unreadable(&"not a 64-bit ELF file")));
        };
        loading::check(source, elf)?;
        let ends = file
            .sections()
            .map(|section| section.address().saturating_add(section.size()));
        let loaded_size = ends.max().unwrap_or(0);
        if loaded_size > MOST_MEMORY {
            return Err(too_much_memory(source));
        }
        let debugged = |error: gimli::Error| failed(unreadable(&error));
        let wrong = debug_info::wrong_flavours(&file).map_err(debugged)?;
        if !wrong.is_empty() {
            let names = wrong.into_iter().collect::<Vec<_>>().join(", ");
            return Err(failed(format!(
                "{names}: its members differ in name, place or size from those of the kernel's type (the name before \
                 `___`), and nothing relocates them here; expected the kernel's type"
            )));
        }
        let mut found = Found {
            constants: debug_info::constants(&file).map_err(debugged)?,
            ..Found::default()
        };
        for symbol in file.symbols() {
            found.add(&file, &symbol).map_err(failed)?;
        }
        let (ops, size) = found.ops().map_err(failed)?;
        let maps = found.maps(&file).map_err(failed)?;
        let idle = found.idle(&file);
        let constants = found
            .variables
            .iter()
            .filter_map(|(name, variable)| Some((name.clone(), found.constant(name, variable)?)));
        let constants = constants.collect();
        let Found {
            variables,
            mut tracepoints,
            unknown_configs,
            only_if_attached,
            loader,
            ..
        } = found;
        tracepoints.retain(|program| {
            let by_loader = || variables.contains_key(&format!("{ATTACHED}{}", program.function));
            !only_if_attached.contains(&*program.function) || by_loader()
        });
        tracepoints.sort_by_key(|tracepoint| tracepoint.address);
        let mut task_pointers = debug_info::task_pointers(&file).map_err(debugged)?;
        task_pointers.retain(|name| variables.contains_key(name));
        let license = file
            .section_by_name("license")
            .and_then(|section| section.data().ok())
            .map(text);
        let relocated = file.dynamic_relocations().into_iter().flatten();
        let of_ops = ops..ops.saturating_add(size);
        Ok(Description {
            constants,
            variables,
            task_pointers,
            maps,
            tracepoints,
            idle,
            unknown_configs,
            loader,
            read_only: loading::read_only(elf),
            ops,
            license,
            loaded_size,
            relocated: relocated
                .map(|(address, _)| address)
                .filter(|address| of_ops.contains(address))
                .collect(),
        })
    }

    /// Reads a foreign object as [`Description::of`] does, in a process that may only compute.
    pub(crate) fn read(source: &str, image: &[u8]) -> Result<Description, Error> {
        type Answer = Result<Description, String>;
        let answer = cage::apart(LONGEST, || {
            let answer: Answer = Description::of(source, image).map_err(|error| error.0);
            postcard::to_stdvec(&answer).expect("writing to memory does not fail")
        });
        let bad = |what: &str| {
            Error(format!(
                "{source}: {what}; expected the output of a C compiler"
            ))
        };
        let answer = answer.map_err(|ended| match ended {
            Ended::NotStarted(error) => Error(format!(
                "{source}: no process can read the compiled object: {error}"
            )),
            Ended::Late => bad("reading the compiled object takes too long"),
            Ended::TooLong => bad("the compiled object has too many names"),
            Ended::Without(code) => bad(&format!(
                "the compiled object is unreadable: its reader ended with {code}"
            )),
        })?;
        let answer: Answer =
            postcard::from_bytes(&answer).map_err(|error| bad(&unreadable(&error)))?;
        let description =
            answer.map_err(|message| Error(cage::text::lines(&message).into_owned()))?;
        description.check(source, image)?;
        Ok(description)
    }

    /// Returns an error if the description says anything of `image` that cannot be true. The description may come from
    /// a process that a foreign object controls.
    pub(crate) fn check(&self, source: &str, image: &[u8]) -> Result<(), Error> {
        let wrong = |what: &str| {
            Err(Error(format!(
                "{source}: the compiled object has {what}; expected the output of a C compiler"
            )))
        };
        if self.loaded_size > MOST_MEMORY {
            return Err(too_much_memory(source));
        }
        let within = |start: u64, size: u64, most: u64| {
            start.checked_add(size).is_some_and(|end| end <= most)
        };
        let loaded = |start, size| within(start, size, self.loaded_size);
        let in_file = |variable: &Variable| match variable.file_offset {
            Some(offset) => within(offset, variable.size, image.len() as u64),
            None => true,
        };
        let all = self.variables.values();
        if !all
            .clone()
            .all(|of| loaded(of.address, of.size) && in_file(of))
        {
            return wrong("a variable that lies outside the object's memory");
        }
        let map = |map: &Map| {
            let values = u64::from(map.definition.values_offset);
            map.size >= SMALLEST_MAP && values <= map.size && loaded(map.address, map.size)
        };
        if !self.maps.iter().all(map) {
            return wrong("a map that lies outside the object's memory");
        }
        let mut code = self.tracepoints.iter().map(|program| program.address);
        if !code.all(|at| loaded(at, 1)) || !self.loader.is_none_or(|at| loaded(at, 1)) {
            return wrong("a function that lies outside the object's memory");
        }
        let mut read_only = self.read_only.iter();
        let Some(_) = self
            .ops_variable()
            .filter(|_| read_only.all(|&(at, size)| loaded(at, size)))
        else {
            return wrong("data that lie outside the object's memory");
        };
        let names = self.variables.keys().chain(&self.task_pointers);
        let maps = self.maps.iter().map(|map| &map.name);
        let programs = self.tracepoints.iter();
        let programs = programs.flat_map(|program| [&program.name, &program.function]);
        let told = self.idle.iter().chain(&self.unknown_configs);
        let names = names.chain(maps).chain(programs).chain(told);
        let mut names = names.chain(&self.license);
        if !names.all(|name| is_plain(name)) {
            return wrong("a name with control characters");
        }
        Ok(())
    }

    pub(crate) fn ops_variable(&self) -> Option<Variable> {
        let mut variables = self.variables.values();
        variables
            .find(|variable| variable.address == self.ops)
            .copied()
    }
}

/// `bytes` up to the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}
