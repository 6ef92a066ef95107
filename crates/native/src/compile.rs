//! The compiler call. This crate's build script includes this file, too, so the file uses only the standard library.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The header that declares the kernel's features. The file in `include/` determines the features at run time; when a
/// scheduler is compiled for one kernel, [`crate::Kernel::header`] replaces the file.
pub const KERNEL_HEADER: &str = "scx/kernel.h";

/// The headers for compiling a scheduler, each with its path and text.
pub const HEADERS: &[(&str, &str)] = &[
    ("vmlinux.h", include_str!("../include/vmlinux.h")),
    ("simulated.h", include_str!("../include/simulated.h")),
    (
        "asm-generic/errno.h",
        include_str!("../include/asm-generic/errno.h"),
    ),
    (
        "bpf/bpf_helpers.h",
        include_str!("../include/bpf/bpf_helpers.h"),
    ),
    (
        "bpf/bpf_tracing.h",
        include_str!("../include/bpf/bpf_tracing.h"),
    ),
    (
        "bpf/bpf_core_read.h",
        include_str!("../include/bpf/bpf_core_read.h"),
    ),
    (
        "scx/common.bpf.h",
        include_str!("../include/scx/common.bpf.h"),
    ),
    (
        "scx/compat.bpf.h",
        include_str!("../include/scx/compat.bpf.h"),
    ),
    ("scx/time.bpf.h", include_str!("../include/scx/time.bpf.h")),
    (
        "scx/cpumask.bpf.h",
        include_str!("../include/scx/cpumask.bpf.h"),
    ),
    (
        "scx/object.bpf.h",
        include_str!("../include/scx/object.bpf.h"),
    ),
    (
        "scx/bpf_arena_common.bpf.h",
        include_str!("../include/scx/bpf_arena_common.bpf.h"),
    ),
    (
        "bpf_arena_common.bpf.h",
        include_str!("../include/bpf_arena_common.bpf.h"),
    ),
    (
        "bpf_arena_spin_lock.h",
        include_str!("../include/bpf_arena_spin_lock.h"),
    ),
    ("bpf_atomic.h", include_str!("../include/bpf_atomic.h")),
    (
        "bpf_experimental.h",
        include_str!("../include/bpf_experimental.h"),
    ),
    (
        "equipoise/loader.h",
        include_str!("../include/equipoise/loader.h"),
    ),
    ("scx/cid.bpf.h", include_str!("../include/scx/cid.bpf.h")),
    (KERNEL_HEADER, include_str!("../include/scx/kernel.h")),
    ("lib/pmu.h", include_str!("../include/lib/pmu.h")),
    (
        "scx/percpu.bpf.h",
        include_str!("../include/scx/percpu.bpf.h"),
    ),
    (
        "scx/user_exit_info.bpf.h",
        include_str!("../include/scx/user_exit_info.bpf.h"),
    ),
    (
        "scx/user_exit_info.h",
        include_str!("../include/scx/user_exit_info.h"),
    ),
];

/// The flags for every scheduler. With `-g`, maps and globals are found by their debugging information. With
/// `-fno-semantic-interposition` and hidden symbols, calls within the scheduler are direct, and instances do not
/// interfere. With `-fstack-clash-protection`, an endless recursion hits the guard page below the stack and does not
/// step over it. `-fno-tree-slp-vectorize` avoids gathering a few numbers into a vector, which takes longer than
/// storing each number. `-nostartfiles` leaves out the C library's code for loading, so that constructors can be
/// detected.
pub const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-gdwarf-4",
    "-shared",
    "-nostartfiles",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-semantic-interposition",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-stack-protector",
    "-fno-tree-slp-vectorize",
    "-fstack-clash-protection",
    "-fcf-protection=none",
    "-Wl,-z,defs",
    "-Wl,-z,now",
    "-Wl,--build-id=none",
    "-Werror=implicit-function-declaration",
    "-Wno-attributes",
    "-Wno-address",
];

/// Additional flags for foreign schedulers: BPF has no floating point, and using it is an error with a line. Local
/// variables start as zeroes: a scheduler may leave a `__kptr` uninitialized in a variable that it passes to
/// bpf_map_update_elem(), because in BPF the call does not copy such fields. A generated vmlinux.h beside the scheduler
/// is empty, because its guard is defined. The debugging information has unused types, too, because the code may only
/// name a type that is to be refused (`bpf_core_type_exists(struct task_struct___old)`).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[allow(dead_code)]
pub const FOREIGN_FLAGS: &[&str] = &[
    "-mgeneral-regs-only",
    "-ftrivial-auto-var-init=zero",
    "-fno-eliminate-unused-debug-types",
    "-D__VMLINUX_H__",
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(dead_code)]
pub const FOREIGN_FLAGS: &[&str] = &[
    "-ftrivial-auto-var-init=zero",
    "-fno-eliminate-unused-debug-types",
    "-D__VMLINUX_H__",
];

/// Options with which some compilers accept code that they otherwise refuse, each with a part of the refusal's message:
/// clang before 16 initializes variables with zeros only if this option enables it, and gcc does not inline weak
/// functions, as scx's library requires.
#[allow(dead_code)]
pub const REMEDIES: &[(&str, &str)] = &[
    (
        "'-enable-trivial-auto-var-init-zero",
        "-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang",
    ),
    (
        "inlining failed in call to 'always_inline'",
        "-Dalways_inline=unused",
    ),
];

/// The linker's option to take the first of several definitions.
#[allow(dead_code)]
pub const FIRST_DEFINITION: &str = "-Wl,-z,muldefs";

/// Runs a command to its end and returns its output.
pub type Finish = fn(&mut Command) -> io::Result<Output>;

#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The program, as a path or a name in `$PATH`, with the options that belong to it.
    pub compiler: &'a [OsString],
    pub flags: &'a [&'a str],
    pub include: &'a [&'a Path],
    /// The function that prepares each process before its program runs.
    pub confine: &'a dyn Fn(&mut Command),
    /// The function that runs a process to its end.
    pub finish: Finish,
    /// The files in C; only the first one gets the definitions that must be unique.
    pub sources: &'a [&'a Path],
}

impl Call<'_> {
    /// The call without files.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.compiler[0]);
        command.args(&self.compiler[1..]).args(self.flags);
        for folder in self.include {
            command.arg("-I").arg(plain(folder));
        }
        command.env("LC_ALL", "C");
        (self.confine)(&mut command);
        command
    }

    /// The call for source number `index`, without an option for the kind of output.
    pub fn of_source(&self, index: usize) -> Command {
        let mut command = self.command();
        if index > 0 {
            // Each file declares its licence, and includes the interface of the simulated kernel.
            command
                .arg("-DEQUIPOISE_FURTHER_FILE")
                .arg(format!("-D_license=_license_{index}"));
        }
        command.arg(plain(self.sources[index]));
        command
    }

    /// Compiles to the shared object `output`; the errors are those of [`Call::run`]. If there are several files, their
    /// objects stay next to `output`.
    pub fn compile(&self, output: &Path) -> Result<(), String> {
        if let [_] = self.sources {
            return self.run(self.of_source(0).arg("-o").arg(output));
        }
        let mut link = self.command();
        for index in 0..self.sources.len() {
            let object = output.with_extension(format!("{index}.o"));
            self.run(self.of_source(index).arg("-c").arg("-o").arg(&object))?;
            link.arg(object);
        }
        self.run(link.arg("-o").arg(output))
    }

    /// Runs a command of this call. The error is the message of the compiler or linker, or the reason why it could not
    /// be run.
    pub fn run(&self, command: &mut Command) -> Result<(), String> {
        let run = (self.finish)(command).map_err(|error| {
            format!(
                "{}: {error}; expected a C compiler (set CC to name another)",
                command.get_program().to_string_lossy()
            )
        })?;
        match &*String::from_utf8_lossy(&run.stderr) {
            _ if run.status.success() => Ok(()),
            "" => Err(format!(
                "the compiler failed without a message: {}",
                run.status
            )),
            said => Err(said.to_owned()),
        }
    }
}

/// `path` in a form that no compiler takes for an option (such as `-x.c`) or a file of options (such as `@x.c`).
fn plain(path: &Path) -> PathBuf {
    match path.as_os_str().as_encoded_bytes().first() {
        Some(b'-' | b'@') => Path::new(".").join(path),
        _ => path.to_owned(),
    }
}

/// The compiler and its options: the words of `$CC`, otherwise `cc`.
pub fn compiler() -> Vec<OsString> {
    words(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// `clang` in `$PATH`, otherwise the newest `clang-VERSION` there; `None` if `$CC` names a compiler.
#[allow(dead_code)]
pub fn clang() -> Option<OsString> {
    const NEWEST: u32 = 30;
    const OLDEST: u32 = 16;
    if env::var_os("CC").is_some() {
        return None;
    }
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let versions = (OLDEST..=NEWEST)
        .rev()
        .map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_owned())
        .chain(versions)
        .find(|name| folders.iter().any(|folder| folder.join(name).is_file()))
        .map(OsString::from)
}

/// The words of `command`, or `cc` if there are none. If all of `command` is the path of a file, it is one word.
fn words(command: OsString) -> Vec<OsString> {
    if PathBuf::from(&command).is_file() {
        return vec![command];
    }
    let words: Vec<OsString> = match command.to_str() {
        Some(text) => text.split_whitespace().map(OsString::from).collect(),
        None => vec![command],
    };
    match words.is_empty() {
        true => vec!["cc".into()],
        false => words,
    }
}
