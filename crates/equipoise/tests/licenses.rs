//! The two programs may be distributed: each crate that is linked into them has a licence that goes with GPL-2.0-only.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};
use spdx::{Expression, Licensee, ParseMode};
use std::collections::BTreeSet;
use std::path::Path;

/// The crates that are linked into `program`, without what only builds or tests it.
fn linked(metadata: &Metadata, program: &str) -> BTreeSet<PackageId> {
    let resolve = metadata.resolve.as_ref().expect("a resolved graph");
    let package = metadata
        .workspace_packages()
        .into_iter()
        .find(|it| it.name.as_str() == program)
        .expect("the program");
    let (mut found, mut left) = (BTreeSet::new(), vec![package.id.clone()]);
    while let Some(id) = left.pop() {
        let node = resolve
            .nodes
            .iter()
            .find(|node| node.id == id)
            .expect("a node");
        if found.insert(id) {
            let linked = node.deps.iter().filter(|dep| {
                let mut kinds = dep.dep_kinds.iter().map(|it| it.kind);
                kinds.any(|kind| kind == DependencyKind::Normal)
            });
            left.extend(linked.map(|dep| dep.pkg.clone()));
        }
    }
    found
}

#[test]
fn all_that_is_linked_goes_with_our_licence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let accepted = std::fs::read_to_string(root.join("packaging/about.toml")).unwrap();
    let accepted: toml::Table = toml::from_str(&accepted).unwrap();
    let accepted: Vec<Licensee> = accepted["accepted"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| Licensee::parse(name.as_str().unwrap()).unwrap())
        .collect();
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(
            ["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"].map(String::from),
        )
        .exec()
        .unwrap();
    let mut refused = vec![];
    for id in ["equipoise", "scx_equipoise"]
        .into_iter()
        .flat_map(|program| linked(&metadata, program))
    {
        let package = &metadata[&id];
        let licence = package.license.as_deref().unwrap_or_default();
        let expression = Expression::parse_mode(licence, ParseMode::LAX).unwrap();
        if !expression.evaluate(|wanted| accepted.iter().any(|it| it.satisfies(wanted))) {
            refused.push(format!("{} {}: {licence}", package.name, package.version));
        }
    }
    assert!(refused.is_empty(), "not GPL-2.0-only's: {refused:#?}");
}
