//! What ARCHITECTURE.md says of the designs is there: each function and test that it names in a table.

use crate::common::root;

use std::path::Path;

/// All that is in the sources of `folder`, one file after another.
fn read(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|kind| {
            ["rs", "c", "h", "def", "toml"]
                .iter()
                .any(|known| kind == *known)
        }) {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
            text.push_str(&path.to_string_lossy());
        }
    }
}

#[test]
fn each_rule_is_where_the_table_says() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("## The designs, rule by rule").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut sources = String::new();
    for folder in ["scheduler", "crates", "machines", "policies"] {
        read(&root().join(folder), &mut sources);
    }
    // Every second piece stands between two backticks.
    let named = section
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let mut count = 0;
    for name in named {
        let wanted = name.strip_suffix("()").unwrap_or(name);
        assert!(sources.contains(wanted), "{name} is nowhere");
        count += 1;
    }
    assert!(count > 100, "{count}");
}
