//! Compiling pieces of the scheduler's C for tests to call.

use libloading::{Library, Symbol};
use machine::Machine;
use policy::Policy;
use std::path::{Path, PathBuf};

/// The flags for C code that plays the kernel itself.
pub const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-Wall",
    "-Wno-attributes",
    "-Wno-unused",
    "-Werror",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-D__ro=",
];

/// The folder of the schedulers' sources: the one from which the objects in `EQUIPOISE_OBJECTS` were compiled,
/// otherwise this checkout's.
pub fn scheduler() -> PathBuf {
    match std::env::var_os("EQUIPOISE_OBJECTS") {
        Some(objects) => Path::new(&objects).join("scheduler"),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("scheduler"),
    }
}

/// Compiles `code` with the scheduler's and the simulated kernel's headers on the include path.
pub fn compile(code: &str) -> Library {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("test.c"), folder.path().join("test.so"));
    std::fs::write(&source, code).unwrap();
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/include");
    let include = [scheduler(), headers];
    let flags = [FLAGS, &["-O0", "-shared", "-fPIC"]].concat();
    let compiled =
        native::shared_object(&[&source], &flags, &include.each_ref().map(|i| i.as_path()));
    std::fs::write(&object, compiled.unwrap_or_else(|said| panic!("{said}"))).unwrap();
    // SAFETY: the library has just been compiled, and has no initializers.
    unsafe { Library::new(&object) }.unwrap()
}

/// As [`compile`], with the scheduler's tables of `machine` under `policy`, except for `policy`, `tunables` and
/// `machine`, which `code` may define.
#[allow(dead_code, reason = "not every file of tests needs tables")]
pub fn compile_with_tables(code: &str, policy: &str, machine: &str) -> Library {
    compile_with_tables_of(code, policy, &Machine::find(machine).unwrap())
}

/// As [`compile_with_tables`], for any machine.
#[allow(dead_code, reason = "not every file of tests needs tables")]
pub fn compile_with_tables_of(code: &str, policy: &str, machine: &Machine) -> Library {
    let library = compile(code);
    let tables = Policy::find(policy).unwrap().globals(machine);
    for table in tables
        .iter()
        .filter(|table| !["policy", "tunables", "machine"].contains(&table.symbol.as_str()))
    {
        let variable: Symbol<*mut u8> = unsafe { library.get(table.symbol.as_bytes()) }.unwrap();
        // SAFETY: the variable has this size; `tables_mean_the_same_to_c` compares them.
        unsafe { variable.copy_from_nonoverlapping(table.bytes.as_ptr(), table.bytes.len()) };
    }
    library
}
