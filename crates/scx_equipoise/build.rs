//! Compiles the schedulers to BPF and generates their skeletons.

#[path = "../native/src/schedulers.rs"]
mod schedulers;

use schedulers::SCHEDULERS;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SOURCES: &str = "../../scheduler";

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    let scheduler = std::fs::canonicalize("src/scheduler.rs").unwrap();
    println!("cargo::rerun-if-changed={SOURCES}");
    // Each skeleton is a type of its own, so each has its own copy of the code that uses the skeleton.
    let (mut modules, mut table) = (String::new(), String::new());
    for (name, folder) in SCHEDULERS {
        scx_cargo::BpfBuilder::new()
            .expect("needs clang 18 or later; BPF_CLANG names it")
            .enable_skel(&format!("{SOURCES}/{folder}/main.bpf.c"), name)
            .build()
            .expect("the scheduler must compile to BPF");
        // libbpf-cargo names its types like this.
        let kind = name[..1].to_uppercase() + &name[1..];
        writeln!(
            modules,
            "mod {name} {{
                #[allow(clippy::all, missing_docs, unused)]
                mod skeleton {{
                    include!({:?});
                    pub use {{{kind}Skel as BpfSkel, {kind}SkelBuilder as BpfSkelBuilder, Open{kind}Skel as OpenBpfSkel}};
                }}
                #[path = {scheduler:?}]
                #[allow(clippy::duplicate_mod)] // each is about a skeleton of its own
                mod scheduler;
                pub use scheduler::run;
            }}",
            out.join(format!("{name}_skel.rs")),
        )
        .unwrap();
        writeln!(table, "({name:?}, {name}::run),").unwrap();
    }
    write(
        &out.join("schedulers.rs"),
        &format!("{modules}\nconst SCHEDULERS: &[(&str, Run)] = &[{table}];\n"),
    );
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
