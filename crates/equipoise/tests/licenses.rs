//! The two programs and the Python wheel may be distributed: each crate that is linked into them has a
//! licence compatible with GPL-2.0-only.

use spdx::{Expression, Licensee, ParseMode};
use std::path::Path;
use std::process::Command;

/// The names and licences of the crates that are linked into `program`, without those that only build or test it.
fn linked(program: &str) -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}\t{l}"])
        .args(["--package", program])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let crates = tree.lines().filter(|line| !line.is_empty()).map(|line| {
        let (package, licence) = line.split_once('\t').unwrap();
        let (name, _) = package.split_once(' ').unwrap();
        // A crate's dependencies are listed once; an asterisk marks later occurrences.
        let licence = licence.trim_end_matches(" (*)").to_owned();
        (name.to_owned(), licence)
    });
    crates.collect()
}

fn licensees(table: &toml::Table) -> Vec<Licensee> {
    let names = table["accepted"].as_array().unwrap().iter();
    names
        .map(|name| Licensee::parse(name.as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn all_that_is_linked_goes_with_our_licence() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/about.toml");
    let list: toml::Table = toml::from_str(&std::fs::read_to_string(list).unwrap()).unwrap();
    let of_all = licensees(&list);
    let mut refused = vec![];
    for (name, licence) in ["equipoise", "scx_equipoise", "equipoise-python"]
        .into_iter()
        .flat_map(linked)
    {
        let of_this = list.get(&name).and_then(|it| it.as_table());
        let of_this = of_this.map_or(vec![], licensees);
        let expression = Expression::parse_mode(&licence, ParseMode::LAX).unwrap();
        let licensees = of_all.iter().chain(&of_this);
        if !expression.evaluate(|wanted| licensees.clone().any(|it| it.satisfies(wanted))) {
            refused.push(format!("{name}: {licence}"));
        }
    }
    assert!(refused.is_empty(), "not GPL-2.0-only's: {refused:#?}");
}
