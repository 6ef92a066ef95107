//! The compiler call. Shared with this crate's build script, so it needs the standard library only.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// The headers a scheduler is compiled against: where each goes, and what it says.
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
    (
        "scx/cpumask.bpf.h",
        include_str!("../include/scx/cpumask.bpf.h"),
    ),
    (
        "scx/object.bpf.h",
        include_str!("../include/scx/object.bpf.h"),
    ),
    (
        "scx/user_exit_info.h",
        include_str!("../include/scx/user_exit_info.h"),
    ),
];

/// What every scheduler is compiled with. `-g`: maps and globals are found by their debugging
/// information. `-fno-semantic-interposition` and hidden symbols: calls within the scheduler are
/// direct, and nothing of it meets another instance's. `-fstack-clash-protection`: a recursion without
/// end meets the guard page below the stack and does not step over it. `-nostartfiles`: what the C library would
/// run at loading is left out, so that constructors are seen.
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
    "-fstack-clash-protection",
    "-fcf-protection=none",
    "-Wl,-z,defs",
    "-Wl,-z,now",
    "-Wl,--build-id=none",
    "-Werror=implicit-function-declaration",
    "-Wno-attributes",
    "-Wno-address",
];

/// What is to be compiled, and how.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The program: a path, or a name to look for in `$PATH`.
    pub compiler: &'a OsStr,
    /// Its options.
    pub flags: &'a [&'a str],
    /// The folders to look for headers in.
    pub include: &'a [&'a Path],
    /// A file in C.
    pub source: &'a Path,
}

impl Call<'_> {
    /// The call, which does not say yet what is wanted of it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.compiler);
        command.args(self.flags);
        for folder in self.include {
            command.arg("-I").arg(folder);
        }
        command.arg(self.source).env("LC_ALL", "C");
        command
    }

    /// Compiles to the shared object `output`; errors as of [`run`].
    pub fn compile(&self, output: &Path) -> Result<(), String> {
        run(self.command().arg("-o").arg(output)).map(drop)
    }
}

/// The compiler: `$CC`, else `cc`.
pub fn compiler() -> OsString {
    std::env::var_os("CC").unwrap_or_else(|| "cc".into())
}

/// What the compiler writes to standard output. The error is what it and the linker said, or why they
/// could not be run.
pub fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let run = command.output().map_err(|error| {
        format!(
            "{}: {error}; expected a C compiler (set CC to name another)",
            command.get_program().to_string_lossy()
        )
    })?;
    if run.status.success() {
        Ok(run.stdout)
    } else {
        Err(String::from_utf8_lossy(&run.stderr).into_owned())
    }
}
