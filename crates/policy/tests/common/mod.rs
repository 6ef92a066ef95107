//! Compiling pieces of the scheduler's C for tests to call.

use libloading::{Library, Symbol};
use machine::Machine;
use policy::Policy;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Compiles `code` with the scheduler's and the simulated kernel's headers on the include path. What was compiled
/// before is not again: tests of one file ask for the same, and have variables of their own.
pub fn compile(code: &str) -> Library {
    static COMPILED: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("test.so");
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compiled.contains_key(code) {
        build(code, folder.path(), &object);
        compiled.insert(code.to_owned(), std::fs::read(&object).unwrap());
    }
    std::fs::write(&object, &compiled[code]).unwrap();
    // SAFETY: the library is what was just compiled, and has no initializers.
    unsafe { Library::new(&object) }.unwrap()
}

fn build(code: &str, folder: &Path, object: &Path) {
    let source = folder.join("test.c");
    std::fs::write(&source, code).unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args([
            "-std=gnu11",
            "-O1",
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
        .args([object, &source])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// As [`compile`], with the scheduler's tables of `machine` under `policy`, but for the two that `code` defines.
#[allow(dead_code, reason = "not every file of tests needs tables")]
pub fn compile_with_tables(code: &str, policy: &str, machine: &str) -> Library {
    let library = compile(code);
    let tables = Policy::find(policy)
        .unwrap()
        .globals(&Machine::find(machine).unwrap());
    for table in tables
        .iter()
        .filter(|table| !["policy", "machine"].contains(&table.symbol.as_str()))
    {
        let variable: Symbol<*mut u8> = unsafe { library.get(table.symbol.as_bytes()) }.unwrap();
        // SAFETY: the variable has this size; `tables_mean_the_same_to_c` compares them.
        unsafe { variable.copy_from_nonoverlapping(table.bytes.as_ptr(), table.bytes.len()) };
    }
    library
}
