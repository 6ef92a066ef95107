//! Compiles Equipoise's own scheduler for the simulated kernel.

#[path = "src/compile.rs"]
mod compile;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let scheduler = here.join("../../scheduler");
    let include = here.join("include");
    for folder in [&scheduler, &include] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-env-changed=CC");
    let output = Path::new(&env::var_os("OUT_DIR").unwrap()).join("equipoise.so");
    let source = scheduler.join("main.bpf.c");
    let call = compile::Call {
        compiler: &compile::compiler(),
        flags: compile::FLAGS,
        include: &[&include],
        source: &source,
    };
    if let Err(message) = call.compile(&output) {
        panic!("the scheduler does not compile:\n{message}");
    }
    debug_assert!(!compile::HEADERS.is_empty());
}
