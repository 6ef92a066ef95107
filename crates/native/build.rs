//! Compiles Equipoise's own schedulers for the simulated kernel.

#[path = "src/compile.rs"]
mod compile;
#[path = "src/schedulers.rs"]
mod schedulers;

use schedulers::SCHEDULERS;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// GCC inserts the address of an array's element into each access to it (-ftree-forwprop), and then
/// computes it anew after each branch: a tenth of the instructions of `eevdf`. Other compilers do
/// not know the option.
const GCC_FLAG: &str = "-fno-tree-forwprop";

fn accepts(compiler: &[OsString], flag: &str) -> bool {
    let mut command = Command::new(&compiler[0]);
    command.args(&compiler[1..]);
    command.args(["-Werror", flag, "-fsyntax-only", "-x", "c", "/dev/null"]);
    let run = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let (sources, include) = (here.join("scheduler"), here.join("include"));
    for folder in [&sources, &include] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-env-changed=CC");
    let compiler = compile::compiler();
    let mut flags = compile::FLAGS.to_vec();
    flags.extend(accepts(&compiler, GCC_FLAG).then_some(GCC_FLAG));
    // The objects of each of SCHEDULERS.
    for (name, more) in [
        ("images", &[][..]),
        ("explaining", &["-DEQUIPOISE_EXPLAINS"]),
    ] {
        let mut images = String::new();
        for (scheduler, folder) in SCHEDULERS {
            let image = out.join(format!("{scheduler}.{name}.so"));
            let call = compile::Call {
                compiler: &compiler,
                flags: &[&flags, more].concat(),
                include: &[&include],
                confine: &|_| {},
                finish: |command| command.output(),
                sources: &[&sources.join(folder).join("main.bpf.c")],
            };
            if let Err(message) = call.compile(&image) {
                panic!("the scheduler {scheduler} does not compile:\n{message}");
            }
            writeln!(images, "include_bytes!({image:?}),").unwrap();
        }
        std::fs::write(out.join(format!("{name}.rs")), format!("&[{images}]")).unwrap();
    }
    debug_assert!(
        compile::HEADERS
            .iter()
            .any(|(name, _)| *name == compile::KERNEL_HEADER)
    );
}
