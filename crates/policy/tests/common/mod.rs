//! Compiling pieces of the scheduler's C for tests to call.

use libloading::Library;
use std::path::Path;
use std::process::Command;

/// Compiles `code` with the scheduler's and the simulated kernel's headers on the include path.
pub fn compile(code: &str) -> Library {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("test.c"), folder.path().join("test.so"));
    std::fs::write(&source, code).unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args([
            "-std=gnu11",
            "-O2",
            "-Wall",
            "-Wno-attributes",
            "-Wno-unused",
            "-Werror",
            "-fwrapv",
        ])
        .args(["-fno-strict-aliasing", "-shared", "-fPIC", "-I"])
        .arg(crates.join("../scheduler"))
        .arg("-I")
        .arg(crates.join("native/include"))
        .arg("-o")
        .args([&object, &source])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // SAFETY: the library is what was just compiled, and has no initializers.
    unsafe { Library::new(&object) }.unwrap()
}
