//! Embeds Equipoise's own schedulers, compiled for the simulated kernel, in optimized programs. Other programs
//! compile them when they run, so that a change of a scheduler rebuilds no crate.

#[path = "src/compile.rs"]
mod compile;
#[path = "src/own.rs"]
mod own;
#[path = "src/schedulers.rs"]
mod schedulers;

use own::Own;
use std::env;
use std::fmt::Write as _;
use std::path::PathBuf;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    println!("cargo::rerun-if-changed=build.rs");
    let mut images = String::new();
    if env::var("PROFILE").unwrap() == "release" {
        let (sources, include) = (here.join("scheduler"), here.join("include"));
        for folder in [&sources, &include] {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
        println!("cargo::rerun-if-env-changed=CC");
        for own in Own::all() {
            let image = out.join(own.file());
            let compiled = own.compile(&sources, &include, |call| call.compile(&image));
            compiled.unwrap_or_else(|message| panic!("{message}"));
            writeln!(images, "include_bytes!({image:?}),").unwrap();
        }
    }
    std::fs::write(out.join("images.rs"), format!("&[{images}]")).unwrap();
    debug_assert!(
        compile::HEADERS
            .iter()
            .any(|(name, _)| *name == compile::KERNEL_HEADER)
    );
}
