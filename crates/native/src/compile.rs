//! The compiler call. Shared with this crate's build script, so it needs the standard library only.

use std::ffi::OsString;
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
/// end meets the guard page below the stack and does not step over it.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-gdwarf-4",
    "-shared",
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

/// Compiles `source` to the shared object `output` with the headers in `include`. The error is what
/// the compiler and the linker said, or why they could not be run.
pub fn compile(
    compiler: Option<OsString>,
    source: &Path,
    include: &Path,
    output: &Path,
) -> Result<(), String> {
    let compiler = compiler.unwrap_or_else(|| "cc".into());
    let run = Command::new(&compiler)
        .args(FLAGS)
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(output)
        .arg(source)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| {
            format!(
                "{}: {error}; expected a C compiler (set CC to name another)",
                compiler.to_string_lossy()
            )
        })?;
    if run.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&run.stderr).into_owned())
    }
}
