//! Checks that loading a shared object has no side effects: loading can run functions, load libraries and bind names. A
//! BPF program does none of this, because it is code that the kernel calls, and that calls only the kernel's functions.
//!
//! The dynamic loader uses the object's segments, so the check makes sure that the dynamic section that it reads is the
//! one that the loader uses.

use crate::Error;
use object::elf::{self, DynamicTag};
use object::read::elf::{Dynamic, ElfFile64, ProgramHeader as _, SectionHeader as _};
use object::{
    Architecture, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags,
    SymbolFlags,
};

/// Functions that a C compiler calls implicitly where clang would emit BPF instructions, and functions to which the
/// headers in `include/` map BPF helpers.
const C_LIBRARY: [&str; 10] = [
    "memcpy", "memmove", "memset", "memcmp", "bcmp", "strcpy", "strlen", "strncmp", "strncpy",
    "snprintf",
];

/// The libraries that a compiler links by default.
const LIBRARIES: [&str; 4] = ["libc.so", "libgcc_s.so", "ld-linux", "libc.musl"];

/// The entries of the dynamic section that make the loader call functions.
const CALLS: [DynamicTag; 5] = [
    elf::DT_INIT,
    elf::DT_FINI,
    elf::DT_INIT_ARRAY,
    elf::DT_FINI_ARRAY,
    elf::DT_PREINIT_ARRAY,
];

/// The entries that make the loader load other libraries, or load them from other places.
const LOADS: [DynamicTag; 6] = [
    elf::DT_RPATH,
    elf::DT_RUNPATH,
    elf::DT_AUDIT,
    elf::DT_DEPAUDIT,
    elf::DT_AUXILIARY,
    elf::DT_FILTER,
];

/// The sections from which the linker makes the entries in [`CALLS`].
const SECTIONS: [&str; 7] = [
    ".preinit_array",
    ".init_array",
    ".fini_array",
    ".ctors",
    ".dtors",
    ".init",
    ".fini",
];

/// Fails if loading `file`, which was compiled from `source`, would run code or have another effect of this kind.
pub fn check(source: &str, file: &ElfFile64<'_, Endianness>) -> Result<(), Error> {
    foreign_symbols(source, file)?;
    let refused = |what: &str| Err(Error(format!("{source}: {what}")));
    if !is_the_loaders(file) {
        return refused(
            "it has a dynamic section that the dynamic loader does not use; expected the output of a C compiler",
        );
    }
    if runs_functions(file) {
        return refused(
            "it has a constructor, a destructor, an _init(), a _fini() or an ifunc, which BPF does not have; \
             expected such work in ops.init() and ops.exit()",
        );
    }
    if loads_others(file) {
        return refused("it loads other libraries, which BPF cannot do; expected C only");
    }
    if runs_data(file) {
        return refused(
            "it has memory that is both code and data, or an executable stack, which BPF does not have; expected \
             code in functions and data in variables",
        );
    }
    if file
        .dynamic_relocations()
        .into_iter()
        .flatten()
        .any(|(_, relocation)| !is_plain(file.architecture(), relocation.flags()))
    {
        return refused(
            "it has thread-local variables or addresses that only the dynamic loader can find, which BPF does not have; \
             expected plain variables",
        );
    }
    Ok(())
}

/// Checks the names that the loader would look up in this process, in the C library. The headers hide what the kernel
/// may have (`__ksym`), so that a weak name that the simulated kernel lacks is null (`bpf_ksym_exists()`) before loading.
fn foreign_symbols(source: &str, file: &ElfFile64<'_, Endianness>) -> Result<(), Error> {
    let undefined = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined());
    let foreign: Vec<String> = undefined
        .map(|symbol| symbol.name().unwrap_or("a name that is unreadable"))
        .filter(|name| !name.is_empty() && !C_LIBRARY.contains(name))
        .map(|name| {
            format!("{source}: {name}() is a function of the C library, which BPF does not have")
        })
        .collect();
    match foreign.is_empty() {
        true => Ok(()),
        false => Err(Error(foreign.join("\n"))),
    }
}

/// Does `file` have functions that run when it is loaded or unloaded: constructors, destructors and functions that
/// select a function (ifuncs)? A BPF program runs only when the kernel calls it.
fn runs_functions(file: &ElfFile64<'_, Endianness>) -> bool {
    let mut sections = file.sections();
    let mut symbols = file.symbols();
    dynamic(file).any(|entry| CALLS.contains(&entry.tag))
        || sections.any(|section| section.name().is_ok_and(|name| SECTIONS.contains(&name)))
        || symbols.any(|symbol| match symbol.flags() {
            SymbolFlags::Elf { st_info, .. } => st_info.st_type() == elf::STT_GNU_IFUNC,
            _ => false,
        })
}

/// Does `file` make the loader load more than a compiler's default libraries?
fn loads_others(file: &ElfFile64<'_, Endianness>) -> bool {
    let is_usual = |name: &[u8]| {
        let mut usual = LIBRARIES.iter();
        !name.contains(&b'/') && usual.any(|usual| name.starts_with(usual.as_bytes()))
    };
    let Ok(table) = file.elf_dynamic_table() else {
        return true;
    };
    dynamic(file).any(|entry| match entry.tag {
        elf::DT_NEEDED => !table.string(entry).is_ok_and(is_usual),
        tag => LOADS.contains(&tag),
    })
}

/// Is the dynamic section that this check reads the one that the dynamic loader uses?
fn is_the_loaders(file: &ElfFile64<'_, Endianness>) -> bool {
    let (endian, data) = (file.endian(), file.data());
    let is_dynamic =
        |header: &&elf::ProgramHeader64<Endianness>| header.p_type(endian) == elf::PT_DYNAMIC;
    let mut segments = file.elf_program_headers().iter().filter(is_dynamic);
    let mut sections = file
        .elf_section_table()
        .iter()
        .filter(|section| section.sh_type(endian) == elf::SHT_DYNAMIC);
    let (Some(segment), Some(section)) = (segments.next(), sections.next()) else {
        return false;
    };
    let same = segment.data(endian, data).ok() == section.data(endian, data).ok()
        && segment.p_offset(endian) == section.sh_offset(endian)
        && segment.p_vaddr(endian) == section.sh_addr(endian);
    same && segments.next().is_none() && sections.next().is_none()
}

fn dynamic<'a>(file: &ElfFile64<'a, Endianness>) -> impl Iterator<Item = Dynamic> + use<'a> {
    let table = file.elf_dynamic_table();
    table.into_iter().flat_map(|table| table.iter())
}

/// Could the scheduler execute memory that it has written?
fn runs_data(file: &ElfFile64<'_, Endianness>) -> bool {
    let endian = file.endian();
    let headers = file.elf_program_headers();
    headers.iter().any(|header| {
        let flags = header.p_flags(endian);
        let (runs, writes) = ((flags & elf::PF_X).0 != 0, (flags & elf::PF_W).0 != 0);
        match header.p_type(endian) {
            elf::PT_LOAD => runs && writes,
            elf::PT_GNU_STACK => runs,
            _ => false,
        }
    })
}

/// The addresses and sizes of the segments that are neither code nor writable.
pub fn read_only(file: &ElfFile64<'_, Endianness>) -> Vec<(u64, u64)> {
    let endian = file.endian();
    let headers = file.elf_program_headers().iter();
    let data = headers.filter(|header| {
        let flags = header.p_flags(endian);
        header.p_type(endian) == elf::PT_LOAD && (flags & (elf::PF_X | elf::PF_W)).0 == 0
    });
    data.map(|header| (header.p_vaddr(endian), header.p_memsz(endian)))
        .collect()
}

/// Is the relocation the address of a place in the object or of a symbol? Unknown architectures pass the check.
fn is_plain(architecture: Architecture, flags: RelocationFlags) -> bool {
    let RelocationFlags::Elf { r_type } = flags else {
        return false;
    };
    match architecture {
        Architecture::X86_64 => [
            elf::R_X86_64_NONE,
            elf::R_X86_64_64,
            elf::R_X86_64_GLOB_DAT,
            elf::R_X86_64_JUMP_SLOT,
            elf::R_X86_64_RELATIVE,
        ]
        .contains(&r_type),
        Architecture::Aarch64 => [
            elf::R_AARCH64_NONE,
            elf::R_AARCH64_ABS64,
            elf::R_AARCH64_GLOB_DAT,
            elf::R_AARCH64_JUMP_SLOT,
            elf::R_AARCH64_RELATIVE,
        ]
        .contains(&r_type),
        _ => true,
    }
}
