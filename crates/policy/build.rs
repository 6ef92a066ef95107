//! Generates Rust code from the tables that the scheduler's C includes. The rows of the tables are macro calls in both
//! languages, so that the tables need no parser. settings.rs, counters.rs and decisions.rs define the macros.

#[path = "schedulers.rs"]
mod schedulers;

use schedulers::SCHEDULERS;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let scheduler = Path::new("scheduler");
    let read = |table: &Path| {
        let table = scheduler.join(table);
        println!("cargo::rerun-if-changed={}", table.display());
        fs::read_to_string(&table).unwrap_or_else(|error| panic!("{}: {error}", table.display()))
    };
    let shared = read("settings.def".as_ref());
    let settings: String = SCHEDULERS
        .iter()
        .map(|(name, folder)| {
            let own = read(&Path::new(folder).join("settings.def"));
            format!("({name:?}, settings! {{\n{shared}\n{own}\n}}),")
        })
        .collect();
    let (counters, decisions) = (
        read("counters.def".as_ref()),
        read("decisions.def".as_ref()),
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    fs::write(out.join("settings.rs"), format!("&[{settings}]")).unwrap();
    fs::write(
        out.join("decisions.rs"),
        format!("decisions! {{\n{decisions}\n}}"),
    )
    .unwrap();
    let text = format!(
        "/// Calls the macro `$then` with the table of counters, `COUNTER(name, label, what)` each.
        #[macro_export]
        macro_rules! with_counters {{ ($then:ident) => {{ $then! {{\n{counters}\n}} }} }}"
    );
    fs::write(out.join("counters.rs"), text).unwrap();
}
